//! TLS: which clients are let in, that they get what plain ones get, how hostile ones end, and new
//! certificates.

#![allow(clippy::disallowed_methods, reason = "threads and files of the tests")]

mod common;

use common::TestServer;
use esker_redis_server::{ListenConfig, Listener};
use esker_redis_testkit::certificates::{Authority, Certified};
use esker_redis_testkit::{Client, ExpectKind, encode};
use rustls::ClientConfig;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A server with a plain and a TLS address, and its authority, for as long as a test runs.
struct Tls<'t> {
    server: &'t TestServer,
    authority: Authority,
    certified: Certified,
    plain: String,
    address: String,
}

impl Tls<'_> {
    fn config(&self, own: Option<&Certified>) -> Arc<ClientConfig> {
        self.authority.client(own)
    }

    fn client(&self) -> Client {
        Client::connect_tls(&self.address, &self.config(None))
    }

    fn try_client(&self, own: Option<&Certified>) -> std::io::Result<Client> {
        Client::try_connect_tls(&self.address, &self.config(own))
    }

    /// The certificate that a new connection is shown.
    fn shown(&self) -> Vec<u8> {
        let socket = TcpStream::connect(&self.address).expect("it listens");
        let name = "localhost".try_into().expect("a name");
        let mut session = rustls::ClientConnection::new(self.config(None), name).expect("a client");
        let mut socket = socket;
        while session.is_handshaking() {
            session.complete_io(&mut socket).expect("a handshake");
        }
        session.peer_certificates().expect("the server's")[0].to_vec()
    }

    /// Waits until a field of INFO has a value: the thread of another connection counts a moment later.
    fn await_info(&self, field: &str, value: &str) {
        let began = Instant::now();
        while self.info(field) != value {
            assert!(began.elapsed() < Duration::from_secs(60), "{field} is {}", self.info(field));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn info(&self, field: &str) -> String {
        let text = Client::connect(&self.plain).words("INFO");
        let text = match text {
            esker_resp::value::Value::Bulk(text) => text,
            other => panic!("{other:?}"),
        };
        let text = String::from_utf8(text).expect("text");
        let line =
            text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':').map(str::to_owned));
        line.expect("the field")
    }
}

/// Serves while `test` runs. Directives `NAME=VALUE` may name `$DIR`, the directory of the certificates.
fn while_served(name: &str, directives: &[(&str, &str)], test: impl FnOnce(&Tls<'_>)) {
    let server = TestServer::new(name);
    let directory = std::env::temp_dir().join(format!("esker-redis-{name}-tls-{}", std::process::id()));
    let authority = Authority::new(&directory, "authority");
    let certified = authority.certify("server");
    for (name, value) in [
        ("tls-cert-file", certified.cert_file.to_str().expect("text")),
        ("tls-key-file", certified.key_file.to_str().expect("text")),
        ("tls-auth-clients", "no"),
    ] {
        server.server().set_directive(name.as_bytes(), value.as_bytes()).expect("a directive");
    }
    for (name, value) in directives {
        let value = value.replace("$DIR", directory.to_str().expect("text"));
        server.server().set_directive(name.as_bytes(), value.as_bytes()).expect("a directive");
    }
    server.server().load_tls().expect("right files");
    let any = || vec![SocketAddr::from(([127, 0, 0, 1], 0)).into()];
    let listener =
        Listener::bind(ListenConfig { tcp: any(), tls: any(), io_threads: 2, ..ListenConfig::default() });
    let listener = listener.expect("free ports");
    let plain = listener.addresses().expect("bound")[0].to_string();
    let address = listener.tls_addresses().expect("bound")[0].to_string();
    let stop = StopAtEnd(listener.stop());
    std::thread::scope(|scope| {
        scope.spawn(|| listener.serve(server.server()).expect("it serves until it is stopped"));
        let _stop = stop;
        test(&Tls { server: &server, authority, certified, plain, address });
    });
    std::fs::remove_dir_all(directory).ok();
}

struct StopAtEnd(esker_redis_server::Stop);

impl Drop for StopAtEnd {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn ok(reply: esker_resp::value::Value) {
    match reply {
        esker_resp::value::Value::Status(text) => assert_eq!(text, b"OK"),
        other => panic!("expected OK, not {other:?}"),
    }
}

/// A directory beside the certificates, for files that a test writes itself.
fn directory_of(certified: &Certified) -> &Path {
    certified.cert_file.parent().expect("a directory")
}

#[test]
fn clients_with_tls_and_without_share_one_server() {
    while_served("tls-both", &[], |tls| {
        let mut client = tls.client();
        ok(client.words("SET key value"));
        assert_eq!(Client::connect(&tls.plain).words("GET key").bulk(), b"value");
        let line = client.words("CLIENT INFO").bulk();
        let line = String::from_utf8(line).expect("text");
        assert!(line.contains(&format!(" laddr={} ", tls.address)), "{line}");
        let port = tls.address.rsplit(':').next().expect("a port");
        let told = client.words("CONFIG GET tls-port").array().remove(1).bulk();
        assert_eq!(String::from_utf8(told).expect("text"), port);
        assert_eq!(tls.info("esker_tls_handshakes"), "1");
        client.hello(3);
        ok(client.words("SET key other"));
    });
}

#[test]
fn the_authority_of_the_server_and_its_name_are_what_clients_check() {
    while_served("tls-wrong-authority", &[], |tls| {
        let stranger = Authority::new(directory_of(&tls.certified), "stranger");
        let refused = Client::try_connect_tls(&tls.address, &stranger.client(None));
        assert!(refused.expect_err("another authority").to_string().contains("UnknownIssuer"));
        tls.client();
        tls.await_info("esker_failed_tls_handshakes", "1");
        tls.await_info("esker_tls_handshakes", "1");
        let figures = tls.server.server().figures();
        assert_eq!((figures.tls_handshakes, figures.failed_tls_handshakes), (1, 1));
    });
}

#[test]
fn certificates_of_clients_are_required_or_optional() {
    let required = [("tls-auth-clients", "yes"), ("tls-ca-cert-file", "$DIR/authority.crt")];
    while_served("tls-required", &required, |tls| {
        let own = tls.authority.certify("client");
        ok(tls.try_client(Some(&own)).expect("a right certificate").words("SET key value"));
        assert!(tls.try_client(None).is_err(), "no certificate");
        let stranger = Authority::new(directory_of(&tls.certified), "stranger").certify("stranger-client");
        assert!(tls.try_client(Some(&stranger)).is_err(), "a certificate of another authority");
        // A session that is resumed goes back to a certificate that was shown.
        let config = tls.config(Some(&own));
        for _ in 0..3 {
            ok(Client::connect_tls(&tls.address, &config).words("SET key value"));
        }
    });
    let optional = [("tls-auth-clients", "optional"), ("tls-ca-cert-dir", "$DIR")];
    while_served("tls-optional", &optional, |tls| {
        let own = tls.authority.certify("client");
        assert!(tls.try_client(Some(&own)).is_ok() && tls.try_client(None).is_ok());
        let elsewhere = PathBuf::from(format!("{}-elsewhere", directory_of(&tls.certified).display()));
        let stranger = Authority::new(&elsewhere, "stranger").certify("stranger-client");
        assert!(tls.try_client(Some(&stranger)).is_err(), "a certificate of another authority");
        std::fs::remove_dir_all(elsewhere).ok();
    });
}

#[test]
fn new_certificates_are_for_new_connections() {
    while_served("tls-reload", &[], |tls| {
        let mut open = tls.client();
        let first = tls.shown();
        assert_eq!(tls.server.server().reload_tls(), Ok(true));
        assert_eq!(tls.shown(), first);
        tls.authority.certify("server");
        assert_eq!(tls.shown(), first, "nothing changes by itself");
        assert_eq!(tls.server.server().reload_tls(), Ok(true));
        let second = tls.shown();
        assert_ne!(second, first);
        ok(open.words("SET key value"));
        // A file that is wrong changes nothing and is told.
        std::fs::write(&tls.certified.key_file, "no key").expect("a file");
        let told = tls.server.server().reload_tls().expect_err("no key");
        assert!(told.contains("server.key: there is no private key in the file"), "{told}");
        assert_eq!(tls.shown(), second);
        ok(open.words("SET key value"));
    });
}

#[test]
fn config_set_changes_all_or_nothing() {
    while_served("tls-config-set", &[], |tls| {
        let mut client = tls.client();
        let first = tls.shown();
        let other = tls.authority.certify("other");
        let (cert, key) = (other.cert_file.to_str().expect("text"), other.key_file.to_str().expect("text"));
        let refused = client.words(&format!("CONFIG SET tls-cert-file {cert} maxclients 77"));
        let told = String::from_utf8_lossy(refused.error().expect("the key is another's")).into_owned();
        assert!(
            told.starts_with("ERR CONFIG SET failed (possibly related to argument 'tls-cert-file')"),
            "{told}"
        );
        assert!(told.contains("the key is not that of the certificate"), "{told}");
        assert_eq!(tls.shown(), first);
        let value = |client: &mut Client, name: &str| {
            client.words(&format!("CONFIG GET {name}")).array().remove(1).bulk()
        };
        assert_eq!(value(&mut client, "maxclients"), b"10000", "nothing of it is set");
        assert_ne!(value(&mut client, "tls-cert-file"), cert.as_bytes());
        ok(client.words(&format!("CONFIG SET tls-cert-file {cert} tls-key-file {key} maxclients 77")));
        assert_ne!(tls.shown(), first);
        assert_eq!(value(&mut client, "tls-cert-file"), cert.as_bytes());
        assert_eq!(value(&mut client, "maxclients"), b"77");
        for (directive, told) in [
            ("tls-auth-clients yes", "tls-ca-cert-file or tls-ca-cert-dir must be set"),
            ("tls-protocols TLSv1.1", "TLSv1.1 is not supported"),
            ("tls-ciphersuites TLS_AES_128_CCM_SHA256", "is no cipher suite of TLS 1.3"),
            ("tls-key-file /missing", "/missing: cannot read the file"),
            ("tls-port 1", "can't set immutable config"),
        ] {
            let refused = client.words(&format!("CONFIG SET {directive}"));
            let text = String::from_utf8_lossy(refused.error().expect(directive)).into_owned();
            assert!(text.contains(told), "{text}");
        }
        ok(client.words(&format!(
            "CONFIG SET tls-auth-clients yes tls-ca-cert-file {}",
            tls.authority.file().display()
        )));
        assert!(tls.try_client(None).is_err() && tls.try_client(Some(&other)).is_ok());
        ok(client.words("SET key value"));
    });
}

#[test]
fn a_session_is_not_resumed_after_its_authority_is_gone() {
    let required = [("tls-auth-clients", "yes"), ("tls-ca-cert-file", "$DIR/authority.crt")];
    while_served("tls-resumed", &required, |tls| {
        let config = tls.config(Some(&tls.authority.certify("client")));
        // The second one has a session of the first to resume.
        Client::connect_tls(&tls.address, &config);
        Client::connect_tls(&tls.address, &config);
        let stranger = Authority::new(directory_of(&tls.certified), "stranger");
        let name = stranger.file().display().to_string();
        std::fs::copy(&name, tls.authority.file()).expect("a file");
        assert_eq!(tls.server.server().reload_tls(), Ok(true));
        assert!(Client::try_connect_tls(&tls.address, &config).is_err(), "its authority is gone");
    });
}

#[test]
fn what_is_no_handshake_gets_an_error_and_the_end() {
    while_served("tls-plain-text", &[], |tls| {
        for text in [&b"PING\r\n"[..], b"*1\r\n$4\r\nPING\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\0"] {
            let mut client = Client::connect(&tls.address);
            client.send(text);
            let answer = client.read_to_end();
            assert!(
                answer.starts_with(b"-ERR this port takes clients with TLS only"),
                "{}",
                answer.escape_ascii()
            );
        }
        // It begins as a handshake and is none: an alert of TLS, and the end.
        let mut client = Client::connect(&tls.address);
        client.send(b"\x16\x03\x01\x00\x05hello");
        let answer = client.read_to_end();
        assert_eq!((answer[0], answer.len()), (21, 7), "{}", answer.escape_ascii());
        tls.await_info("esker_failed_tls_handshakes", "5");
        tls.client();
    });
}

#[test]
fn tc1_a_handshake_without_end_is_cut_off() {
    while_served("tls-endless", &[], |tls| {
        // A greeting that announces 16 MiB, in records of the largest size, and one of 64 KiB byte by byte.
        let mut large = b"\x16\x03\x01\x40\x00\x01\xff\xff\xff".to_vec();
        large.resize(5 + (16 << 10), 0);
        let small = b"\x16\x03\x01\x00\x01\x00".repeat(1000);
        for (first, more) in [(&b""[..], large), (b"\x16\x03\x01\x00\x04\x01\x00\xff\x00", small)] {
            let mut socket = TcpStream::connect(&tls.address).expect("it listens");
            socket.write_all(first).expect("taken");
            let mut sent = 0;
            while socket.write_all(&more).is_ok() {
                sent += more.len();
                assert!(sent < 32 << 20, "the server takes all of it");
            }
        }
        // Nothing at all, and a beginning: both are disconnected in time.
        let patience = Some(Duration::from_secs(60));
        for beginning in [&b""[..], b"\x16\x03\x01\x02\x00\x01"] {
            let mut socket = TcpStream::connect(&tls.address).expect("it listens");
            socket.set_read_timeout(patience).expect("a socket");
            socket.write_all(beginning).expect("taken");
            let mut answer = Vec::new();
            socket.read_to_end(&mut answer).expect("an end, and not a time-out");
        }
        tls.client();
    });
}

/// Bytes that wait for the client that takes least.
fn output_bytes(client: &mut Client) -> usize {
    let listed = String::from_utf8(client.words("CLIENT LIST").bulk()).expect("text");
    let waiting =
        listed.lines().filter_map(|line| line.split(" omem=").nth(1)?.split(' ').next()?.parse().ok());
    waiting.max().expect("a line")
}

#[test]
fn pipelines_and_large_replies_are_whole_with_a_slow_reader() {
    while_served("tls-slow-reader", &[], |tls| {
        let mut client = tls.client();
        let value: Vec<u8> = (0..5_000_000_u32).flat_map(u32::to_le_bytes).collect();
        client.send(&encode(&[b"SET", b"big", &value]));
        client.send(&b"INCR number\r\n".repeat(10_000));
        client.read();
        for number in 1..=10_000 {
            assert_eq!(client.read().integer(), number);
        }
        // More than sockets hold: the rest waits until the client takes it.
        client.send(&b"GET big\r\n".repeat(8));
        client.send(b"INCR number\r\n");
        let mut other = Client::connect(&tls.plain);
        while output_bytes(&mut other) == 0 {}
        assert!(output_bytes(&mut other) < 2 * value.len(), "one reply waits, not eight");
        for _ in 0..8 {
            assert!(client.read().bulk() == value, "a whole value");
        }
        assert_eq!(client.read().integer(), 10_001);
    });
}

#[test]
fn messages_and_blocked_clients_are_woken() {
    while_served("tls-messages", &[], |tls| {
        let (mut subscriber, mut blocked, mut other) = (tls.client(), tls.client(), tls.client());
        subscriber.words("SUBSCRIBE channel");
        blocked.send(b"BLPOP list 0\r\n");
        let message = vec![b'm'; 100_000];
        while other.words("PUBSUB NUMSUB channel").array()[1] != esker_resp::value::Value::Integer(1) {}
        for _ in 0..20 {
            assert_eq!(other.call(&[b"PUBLISH", b"channel", &message]).integer(), 1);
        }
        other.words("RPUSH list element");
        for _ in 0..20 {
            assert_eq!(subscriber.read().array()[2].clone().bulk(), message);
        }
        assert_eq!(blocked.read().array()[1].clone().bulk(), b"element");
    });
}

#[test]
fn ends_are_told() {
    while_served("tls-ends", &[], |tls| {
        // QUIT and the end of the client's side: the last reply, and then the end that TLS knows.
        for last in [&b"SET key value\r\nQUIT\r\n"[..], b"SET key value\r\n"] {
            let mut client = tls.client();
            client.send_all(last);
            ok(client.read());
            let rest = client.read_to_end();
            assert!(rest.is_empty() || rest == b"+OK\r\n", "{}", rest.escape_ascii());
        }
        // A server that stops: rustls reports an end without notice as an error.
        let name = "localhost".try_into().expect("a name");
        let session = rustls::ClientConnection::new(tls.config(None), name).expect("a client");
        let mut stream =
            rustls::StreamOwned::new(session, TcpStream::connect(&tls.address).expect("it listens"));
        stream.write_all(b"PING\r\n").expect("taken");
        let mut first = [0; 7];
        stream.read_exact(&mut first).expect("a reply");
        tls.client().send(b"SHUTDOWN NOSAVE\r\n");
        assert_eq!(stream.read(&mut first).expect("an end with notice"), 0);
    });
}

#[test]
fn directives_that_are_missing_are_told() {
    let server = TestServer::new("tls-missing");
    let set = |name: &str, value: &str| server.server().set_directive(name.as_bytes(), value.as_bytes());
    let told = || server.server().load_tls().expect_err("something is missing");
    assert!(
        told()
            .starts_with("tls-ca-cert-file or tls-ca-cert-dir must be set, because tls-auth-clients is yes")
    );
    set("tls-auth-clients", "no").expect("a directive");
    assert_eq!(told(), "tls-cert-file must be set for TLS");
    set("tls-cert-file", "/missing/server.crt").expect("a directive");
    assert_eq!(told(), "tls-key-file must be set for TLS");
    set("tls-key-file", "server.key").expect("a directive");
    assert!(told().starts_with("TLS: /missing/server.crt: cannot read the file"), "{}", told());
    assert_eq!(server.server().reload_tls(), Ok(false));
    let any = vec![SocketAddr::from(([127, 0, 0, 1], 0)).into()];
    let listener = Listener::bind(ListenConfig { tcp: Vec::new(), tls: any, ..ListenConfig::default() });
    let refused = listener.expect("a free port").serve(server.server()).expect_err("no certificate");
    assert!(refused.to_string().contains("no certificate"), "{refused}");
}
