//! `serve --grpc-tls` and `--admin-tls`: one certificate for all ports, read anew by one signal.

#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]
#![allow(dead_code, clippy::disallowed_methods, reason = "the helpers are shared with other tests")]

mod common;

use common::WorkingDir;
use common::serving::Serving;
use esker_grpc::proto::key_value_client::KeyValueClient;
use esker_grpc::proto::{GetRequest, PutRequest};
use esker_redis_testkit::certificates::Authority;
use esker_redis_testkit::{Client, Stream};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Error};

/// A port beside those of Redis that takes TLS.
const WITH_TLS: &str = "--admin 127.0.0.1:0 --admin-tls";

/// How long a test waits for what must happen, whatever else the machine does.
const PATIENCE: Duration = Duration::from_secs(60);

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

async fn grpc(address: &str, authority: &Authority) -> Result<KeyValueClient<Channel>, Error> {
    let pem = std::fs::read(authority.file()).unwrap();
    let config = ClientTlsConfig::new().domain_name("localhost").ca_certificate(Certificate::from_pem(pem));
    let endpoint = Channel::from_shared(format!("https://{address}")).unwrap().tls_config(config)?;
    endpoint.connect().await.map(KeyValueClient::new)
}

/// The answer to a request of the admin port.
fn admin(address: &str, authority: &Authority, path: &str, header: &str) -> std::io::Result<String> {
    let mut stream = Stream::connect_tls(address, &authority.client(None))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{header}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[tokio::test]
async fn all_ports_have_one_certificate_and_get_a_new_one_together() {
    let dir = WorkingDir::new();
    let authority = Authority::new(dir.path(), "ca");
    authority.certify("server");
    let port = free_port();
    let text = format!(
        "[serve]\ndsl = \"off\"\nredis = \"127.0.0.1:0\"\ngrpc = \"127.0.0.1:0\"\ngrpc_tls = true\nadmin = \"127.0.0.1:0\"\n\
         admin_tls = true\nlog = \"off\"\n[serve.redis_set]\ntls-port = {port}\ndir = \".\"\ntls-cert-file = \"server.crt\"\n\
         tls-key-file = \"server.key\"\ntls-auth-clients = \"no\"\n"
    );
    dir.write("esker.toml", text);
    assert_eq!(dir.ok("serve --config esker.toml --check-config"), "esker.toml: no mistake\n");
    let mut server = Serving::start(dir.command("serve db --config esker.toml"), 4);
    let (of_grpc, of_admin) = (server.address("by gRPC with TLS on"), server.address("on https://"));
    let of_redis = server.address("Redis with TLS on");
    let mut client = grpc(&of_grpc, &authority).await.unwrap();
    client.put(PutRequest { key: "k".into(), value: "v".into(), ..PutRequest::default() }).await.unwrap();
    assert!(admin(&of_admin, &authority, "/metrics", "").unwrap().starts_with("HTTP/1.1 200"));
    Client::connect_tls(&of_redis, &authority.client(None));
    // A client without TLS gets nothing of them.
    let mut plain = TcpStream::connect(&of_admin).unwrap();
    plain.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    plain.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("https://"), "{answer}");

    let other = Authority::new(dir.path(), "other");
    other.certify("server");
    server.signal("-HUP");
    let began = Instant::now();
    while grpc(&of_grpc, &other).await.is_err() {
        assert!(began.elapsed() < PATIENCE, "the certificate is the old one");
    }
    assert!(admin(&of_admin, &other, "/health/live", "").unwrap().starts_with("HTTP/1.1 200"));
    assert!(admin(&of_admin, &authority, "/health/live", "").is_err());
    Client::connect_tls(&of_redis, &other.client(None));
    let get = GetRequest { key: "k".into(), ..GetRequest::default() };
    assert!(client.get(get).await.unwrap().into_inner().found, "open connections go on");
    // CONFIG SET changes all ports as well.
    authority.certify("third");
    let mut redis = Client::connect_tls(&of_redis, &other.client(None));
    let set = redis.words("CONFIG SET tls-cert-file third.crt tls-key-file third.key");
    assert!(set.error().is_none(), "{set:?}");
    grpc(&of_grpc, &authority).await.unwrap();
    drop((client, redis));
    assert_eq!(server.end().code, Some(0));
}

#[tokio::test]
async fn without_redis_the_directives_of_tls_count_for_the_others() {
    let dir = WorkingDir::new();
    let authority = Authority::new(dir.path(), "ca");
    authority.certify("server");
    dir.write("token", "correct-horse-battery\n");
    let files = "--redis-set tls-cert-file server.crt --redis-set tls-key-file server.key --redis-set tls-auth-clients no";
    let command = dir.command(&format!(
        "serve db --redis off --dsl off --log off --grpc 127.0.0.1:0 --grpc-tls --admin 0.0.0.0:0 --admin-tls \
         --admin-token-file token {files}"
    ));
    let mut server = Serving::start(command, 2);
    grpc(&server.address("by gRPC with TLS on"), &authority).await.unwrap();
    let of_admin = server.address("on https://").replace("0.0.0.0", "127.0.0.1");
    assert!(admin(&of_admin, &authority, "/metrics", "").unwrap().starts_with("HTTP/1.1 401"));
    let token = "Authorization: Bearer correct-horse-battery\r\n";
    assert!(admin(&of_admin, &authority, "/metrics", token).unwrap().starts_with("HTTP/1.1 200"));
    dir.write("server.key", "no key");
    server.signal("-HUP");
    assert!(admin(&of_admin, &authority, "/health/live", "").unwrap().starts_with("HTTP/1.1 200"));
    let other = Authority::new(dir.path(), "other");
    other.certify("server");
    server.signal("-HUP");
    let began = Instant::now();
    while admin(&of_admin, &other, "/health/live", "").is_err() {
        assert!(began.elapsed() < PATIENCE, "the certificate is the old one");
    }
    assert_eq!(server.end().code, Some(0));
}

#[test]
fn what_cannot_be_served_is_told() {
    let dir = WorkingDir::new();
    Authority::new(dir.path(), "ca").certify("server");
    let files = "--redis-set tls-cert-file server.crt --redis-set tls-key-file server.key";
    let (grpc, off) = ("--grpc 127.0.0.1:0 --grpc-tls", "--redis off --dsl off");
    for (line, told) in [
        ("--grpc-tls".to_owned(), "--grpc-tls say nothing, because --grpc is off"),
        ("--admin off --admin-tls".to_owned(), "--admin-tls set nothing, because --admin is off"),
        (format!("{off} {grpc}"), "tls-ca-cert-file or tls-ca-cert-dir must be set"),
        (format!("{off} {grpc} --redis-set tls-auth-clients no"), "tls-cert-file must be set for TLS"),
        (format!("{off} {grpc} {files} --redis-set tls-ca-cert-file none"), "TLS: "),
        (format!("{off} {grpc} {files} --redis-set maxclients 5"), "--redis-set maxclients sets nothing"),
        (format!("{off} --grpc 127.0.0.1:0 {files}"), "--redis-set tls-cert-file sets nothing"),
        (format!("--dsl off --redis 127.0.0.1:0 {grpc}"), "must be set"),
        (
            format!(
                "--dsl off --redis 127.0.0.1:0 --admin 127.0.0.1:0 --admin-tls --redis-set tls-auth-clients no {files} \
                     --redis-set dir missing"
            ),
            "missing/server.crt",
        ),
        (
            format!("{off} {grpc} {files} --redis-set tls-auth-clients no --admin 0.0.0.0:0 --admin-tls"),
            "needs a token",
        ),
    ] {
        for check in ["", "--check-config"] {
            let ran = dir.run(&format!("serve db {line} {check}"));
            assert_eq!(ran.code, 2, "{line} {check}: {ran:?}");
            assert!(ran.err.contains(told), "{line} {check}: {}", ran.err);
        }
    }
    let right = format!("{off} {grpc} {files} --redis-set tls-auth-clients no");
    assert!(dir.ok(&format!("serve db {right} --check-config")).contains("no mistake"));
}

/// CONFIG REWRITE keeps directives in the database, and a start reads them from there.
#[test]
fn a_check_sees_what_config_rewrite_keeps() {
    let dir = WorkingDir::new();
    let authority = Authority::new(dir.path(), "ca");
    authority.certify("server");
    let check = || dir.run(&format!("serve db --redis 127.0.0.1:0 --dsl off {WITH_TLS} --check-config"));
    let before = check();
    assert!(before.code == 2 && before.err.contains("must be set"), "{before:?}");
    let mut server = Serving::start(dir.command("serve db --redis 127.0.0.1:0 --dsl off --log off"), 1);
    let mut client = Client::connect(&server.address("by the protocol of Redis on"));
    let files = "tls-cert-file server.crt tls-key-file server.key tls-auth-clients no";
    for request in [&format!("CONFIG SET {files}"), "CONFIG REWRITE"] {
        let reply = client.words(request);
        assert!(reply.error().is_none(), "{request}: {reply:?}");
    }
    let open = check();
    assert!(open.code == 2 && open.err.contains("another process has db open"), "{open:?}");
    drop(client);
    assert_eq!(server.end().code, Some(0));

    let kept = check();
    assert!(kept.code == 0 && kept.text() == "the command line: no mistake\n", "{kept:?}");
    dir.write("server.key", "no key");
    let wrong = check();
    assert!(wrong.code == 2 && wrong.err.contains("server.key: there is no private key"), "{wrong:?}");
    // What is said here comes before what is kept.
    authority.certify("third");
    let said = "--redis-set tls-cert-file third.crt --redis-set tls-key-file third.key";
    let ran = dir.run(&format!("serve db --redis 127.0.0.1:0 --dsl off {WITH_TLS} {said} --check-config"));
    assert_eq!(ran.code, 0, "{ran:?}");
}
