//! `serve` by the protocol of Redis: as a new user meets it, and in the place of redis-server.

#![expect(clippy::disallowed_methods, reason = "tests use the machine's files")]
#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]
#![allow(dead_code, reason = "the helpers are shared with other tests")]

mod common;

use common::WorkingDir;
use common::serving::Serving;
use esker_redis_testkit::Client;
use esker_redis_testkit::certificates::Authority;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long a test waits for what must happen, whatever else the machine does.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends inline commands, and gives what is answered until the server closes.
fn ask(address: &str, commands: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(format!("{commands}\r\nQUIT\r\n").as_bytes()).unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    answers
}

/// A port that nothing listens on.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn both_protocols_serve_one_database_which_keeps_its_data_over_sigkill() {
    let dir = WorkingDir::new();
    let mut server =
        Serving::start(dir.command("serve db --redis 127.0.0.1:0 --dsl 127.0.0.1:0 --log off"), 0);
    let text = server.line("serving db on").rsplit(' ').next().unwrap().to_owned();
    let redis = server.address("by the protocol of Redis on");
    assert_eq!(
        ask(&redis, "PING\r\nSET key value\r\nSELECT 3\r\nLPUSH list a b"),
        "+PONG\r\n+OK\r\n+OK\r\n:2\r\n+OK\r\n"
    );
    assert_eq!(dir.run_with(&format!("shell --connect {text}"), "p 1 2\ng 1\n").text(), "OK\n2\n");
    server.kill();
    let mut server = Serving::start(dir.command("serve db --redis 127.0.0.1:0 --dsl off --log off"), 0);
    let redis = server.address("by the protocol of Redis on");
    let answers = ask(&redis, "GET key\r\nDBSIZE\r\nSELECT 3\r\nLLEN list\r\nDBSIZE");
    assert_eq!(answers, "$5\r\nvalue\r\n:1\r\n+OK\r\n:2\r\n:1\r\n+OK\r\n");
    assert_eq!(server.end().code, Some(0));
    assert_eq!(dir.run_with("shell --data db", "g 1\n").text(), "2\n");
}

#[test]
fn what_cannot_be_served_is_told_with_what_to_do() {
    let dir = WorkingDir::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let refused = dir.run(&format!("serve db --redis 127.0.0.1:{port} --dsl off"));
    assert_eq!(refused.code, 4);
    assert!(refused.err.contains(&format!("cannot listen on 127.0.0.1:{port}")), "{}", refused.err);
    assert!(refused.err.contains("--redis HOST:PORT, or --redis off"), "{}", refused.err);
    assert!(!dir.path().join("db").exists(), "no database is created in vain");
    dir.write("file", "");
    for (line, code, told) in [
        ("serve db --data other", 2, "named twice"),
        ("serve --redis off --dsl off", 2, "nothing is to be served"),
        ("serve --redis off --redis-set port 1", 2, "--redis is off"),
        ("serve --redis-set prot 1", 2, "--redis-set prot: there is no such directive"),
        ("serve --redis nowhere", 2, "write HOST:PORT"),
        ("serve --dsl off --redis 0.0.0.0:0", 2, "--redis-set requirepass PASSWORD"),
        ("serve --redis-set port x", 2, "--redis-set port: argument couldn't be parsed"),
        ("serve --redis-set requirepass --x --redis-set prot 1", 2, "--redis-set prot: there is no"),
        ("serve --redis-conf missing.conf", 4, "cannot read missing.conf"),
        ("serve --redis-conf --port 0 --unixsocket file", 4, "another path by the directive unixsocket"),
    ] {
        let ran = dir.run(line);
        assert_eq!(ran.code, code, "{line}: {ran:?}");
        assert!(ran.err.contains(told), "{line}: {}", ran.err);
    }
    let mut server = Serving::start(dir.command(
        "serve --dsl off --log off --redis 0.0.0.0:0 --redis-set requirepass secret --redis-set maxclients 5",
    ), 0);
    let address = server.address("by the protocol of Redis on").replace("0.0.0.0", "127.0.0.1");
    assert!(ask(&address, "PING").starts_with("-NOAUTH"));
    assert_eq!(ask(&address, "AUTH secret\r\nPING"), "+OK\r\n+PONG\r\n+OK\r\n");
    assert_eq!(server.end().code, Some(0));
}

#[test]
fn a_redis_conf_is_served_as_redis_server_does() {
    let dir = WorkingDir::new();
    let port = free_port();
    std::fs::create_dir(dir.path().join("data")).unwrap();
    dir.write(
        "redis.conf",
        "bind 127.0.0.1 -::1\nport 1\n\nno-such-thing 1\nsave 900 1\ninclude more.conf\n",
    );
    dir.write(
        "more.conf",
        "dir data\npidfile run.pid\nmaxclients 77\nunixsocket data/s\nunixsocketperm 700\n",
    );
    let command = || dir.command(&format!("serve --redis-conf redis.conf --port {port} --save 60 5"));
    let mut server = Serving::start(command(), 0);
    let pid = server.child.id();
    assert!(server.line("PID: ").ends_with(&format!(" PID: {pid}")));
    let warning = server.line("no-such-thing");
    assert!(warning.starts_with(&format!("{pid}:M ")), "{warning}");
    assert!(warning.contains(" # redis.conf, line 4: the directive no-such-thing is not known"), "{warning}");
    server.line(" * Server initialized");
    server.line(" * Ready to accept connections");
    let address = format!("127.0.0.1:{port}");
    assert_eq!(dir.read("run.pid"), format!("{pid}\n").as_bytes());
    assert!(dir.path().join("data/esker-data").is_dir() && dir.path().join("data/s").exists());
    let answers =
        ask(&address, "SET key value\r\nCONFIG GET maxclients\r\nCONFIG GET save\r\nCONFIG GET port");
    for value in ["\r\n77\r\n", "\r\n900 1 60 5\r\n", &format!("\r\n{port}\r\n")] {
        assert!(answers.contains(value), "{answers}");
    }
    // A process that was killed leaves its files behind.
    server.kill();
    let mut server = Serving::start(command(), 0);
    server.line("Ready to accept connections");
    assert_eq!(ask(&address, "GET key\r\nDBSIZE"), "$5\r\nvalue\r\n:1\r\n+OK\r\n");
    let ended = server.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.printed.contains("SIGTERM: stopping"), "{ended:?}");
    assert!(!dir.path().join("run.pid").exists() && !dir.path().join("data/s").exists());
}

#[test]
fn mistakes_in_a_redis_conf_are_told_with_their_place() {
    let dir = WorkingDir::new();
    for (text, told) in [
        ("port 1\nappendfsync never\n", "bad.conf, line 2: appendfsync: argument(s) must be one of"),
        ("daemonize yes\n", "bad.conf, line 1: daemonize: this server stays in the foreground"),
        ("requirepass \"x\n", "bad.conf, line 1: unbalanced quotes"),
        ("user ada on +nothing\n", "user ada: "),
        ("user ada on\nuser ada off\n", "Duplicate user"),
        ("port 0\n\ndatabases 0\n", "databases: 0 is not between 1 and 16384"),
    ] {
        dir.write("bad.conf", text);
        let ran = dir.run("serve --redis-conf bad.conf");
        assert_eq!(ran.code, 2, "{text}: {ran:?}");
        assert!(ran.err.contains(told), "{text}: {}", ran.err);
    }
    let ran = dir.run("serve --redis-conf --user ada --user ada");
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("user ada: ") && ran.err.contains("Duplicate user"), "{}", ran.err);
    let ran = dir.run_with("serve --redis-conf -", "port 1x\n");
    assert!(ran.err.contains("standard input, line 1: port"), "{}", ran.err);
}

#[test]
fn a_supervisor_is_told_and_the_log_is_of_the_form_that_was_asked_for() {
    let dir = WorkingDir::new();
    let socket = UnixDatagram::bind(dir.path().join("notify")).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command =
        dir.command("serve --dsl off --redis 127.0.0.1:0 --log-format json --redis-set logfile log");
    command.env("NOTIFY_SOCKET", dir.path().join("notify"));
    let server = Serving::start(command, 0);
    let mut told = [0; 32];
    let count = socket.recv(&mut told).unwrap();
    assert_eq!(&told[..count], b"READY=1");
    assert_eq!(server.end().code, Some(0));
    let count = socket.recv(&mut told).unwrap();
    assert_eq!(&told[..count], b"STOPPING=1");
    let log = String::from_utf8(dir.read("log")).unwrap();
    assert!(log.lines().all(|line| line.starts_with("{\"time\":\"") && line.ends_with('}')), "{log}");
    assert!(log.contains("\"message\":\"SIGTERM: stopping\""), "{log}");
}

#[test]
fn redis_cli_loads_lists_and_measures() {
    if Command::new("redis-cli").arg("--version").output().is_err() {
        println!("skipped: redis-cli is not installed");
        return;
    }
    let dir = WorkingDir::new();
    let mut server = Serving::start(dir.command("serve --dsl off --log off --redis 127.0.0.1:0"), 0);
    let address = server.address("by the protocol of Redis on");
    let port = address.rsplit(':').next().unwrap().to_owned();
    let cli = |arguments: &[&str], input: &[u8]| {
        let mut command = Command::new("redis-cli");
        command.args(["-p", &port]).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let mut load = String::new();
    for number in 0..5000 {
        let key = format!("key:{number}");
        load.push_str(&format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n$5\r\nvalue\r\n", key.len()));
    }
    assert!(cli(&["--pipe"], load.as_bytes()).contains("errors: 0, replies: 5000"));
    assert_eq!(cli(&["dbsize"], b""), "5000\n");
    assert_eq!(cli(&["--scan", "--pattern", "key:12?"], b"").lines().count(), 10);
    assert!(cli(&["--bigkeys"], b"").contains("5000 strings with 25000 bytes"));
    assert_eq!(cli(&[], b"rpush list a b c\nlrange list 1 -1\n"), "3\nb\nc\n");
    assert_eq!(cli(&["-3"], b"multi\nincr n\nincrby n 4\nexec\n"), "OK\nQUEUED\nQUEUED\n1\n5\n");
    assert_eq!(cli(&[], b"multi\nincr\nincr n\nexec\nget n\n").lines().last(), Some("5"));
    assert_eq!(cli(&["--csv", "lrange", "list", "0", "1"], b""), "\"a\",\"b\"\n");
    assert_eq!(cli(&["-x", "set", "text"], b"from stdin"), "OK\n");
    assert_eq!(cli(&["-r", "3", "incr", "n"], b""), "6\n7\n8\n");
    assert_eq!(
        cli(&["--eval", "/dev/stdin", "n", ",", "2"], b"return redis.call('incrby', KEYS[1], ARGV[1])"),
        "10\n"
    );
    assert_eq!(server.end().code, Some(0));
}

#[test]
fn redis_cli_monitors_and_subscribes() {
    if Command::new("redis-cli").arg("--version").output().is_err() {
        println!("skipped: redis-cli is not installed");
        return;
    }
    let dir = WorkingDir::new();
    let mut server = Serving::start(dir.command("serve --dsl off --log off --redis 127.0.0.1:0"), 0);
    let address = server.address("by the protocol of Redis on");
    let port = address.rsplit(':').next().unwrap().to_owned();
    let cli = |arguments: &[&str]| {
        let mut command = Command::new("redis-cli");
        command.args(["-p", &port]).args(arguments);
        Serving::start(command, 0)
    };
    let mut monitor = cli(&["monitor"]);
    monitor.line("OK");
    let mut subscriber = cli(&["psubscribe", "news.*"]);
    subscriber.line("psubscribe");
    assert!(ask(&address, "PUBLISH news.today hello").starts_with(":1\r\n"));
    assert_eq!(subscriber.line("pmessage"), "pmessage");
    assert_eq!(subscriber.line("hello"), "hello");
    let line = monitor.line("PUBLISH");
    assert!(
        line.contains("[0 127.0.0.1:") && line.ends_with("\"PUBLISH\" \"news.today\" \"hello\""),
        "{line}"
    );
    monitor.kill();
    subscriber.kill();
    // Both are gone, and nothing is sent to them.
    assert!(ask(&address, "PUBLISH news.today again").ends_with("+OK\r\n"));
    assert_eq!(server.end().code, Some(0));
}

/// Sends a signal to a server.
#[test]
fn certificates_are_read_anew_at_sighup() {
    let dir = WorkingDir::new();
    let authority = Authority::new(dir.path(), "ca");
    authority.certify("server");
    let port = free_port();
    dir.write(
        "redis.conf",
        format!(
            "dir .\nport 0\ntls-port {port}\nlogfile log\ntls-cert-file server.crt\ntls-key-file server.key\n\
             tls-ca-cert-file ca.crt\ntls-auth-clients optional\n"
        ),
    );
    let mut command = dir.command("serve --redis-conf redis.conf");
    let socket = UnixDatagram::bind(dir.path().join("notify")).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    command.env("NOTIFY_SOCKET", dir.path().join("notify"));
    let server = Serving::start(command, 0);
    let mut told = [0; 32];
    let count = socket.recv(&mut told).unwrap();
    assert_eq!(&told[..count], b"READY=1");
    let address = format!("127.0.0.1:{port}");
    let client = |authority: &Authority| Client::try_connect_tls(&address, &authority.client(None));
    let mut open = client(&authority).unwrap();

    // What is wrong is told, and the server goes on as before.
    dir.write("server.key", "no key");
    server.signal("-HUP");
    wait_for_log(&dir, "server.key: there is no private key in the file");
    client(&authority).unwrap();
    let other = Authority::new(dir.path(), "other");
    other.certify("server");
    assert!(client(&other).is_err());
    server.signal("-HUP");
    wait_for_log(&dir, "SIGHUP: new connections get the certificates that are in the files now");
    assert!(client(&authority).is_err());
    client(&other).unwrap();
    assert_eq!(open.words("PING").error(), None);
    assert_eq!(open.raw(), b"+PONG\r\n");
    assert_eq!(server.end().code, Some(0));
    assert!(open.try_read().is_err());
}

/// Waits until the log of a server has these words.
fn wait_for_log(dir: &WorkingDir, words: &str) {
    let began = std::time::Instant::now();
    while !String::from_utf8_lossy(&dir.read("log")).contains(words) {
        assert!(began.elapsed() < PATIENCE, "'{words}' is not in the log");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn sighup_ends_no_server() {
    let dir = WorkingDir::new();
    for line in ["serve text --redis off --dsl 127.0.0.1:0", "serve redis --dsl off --redis 127.0.0.1:0"] {
        let mut server = Serving::start(dir.command(&format!("{line} --log off")), 0);
        let address = server.line("serving ").rsplit(' ').next().unwrap().to_owned();
        server.signal("-HUP");
        TcpStream::connect(address).unwrap();
        server.signal("-HUP");
        // A process that was ended by a signal has no exit code.
        assert_eq!(server.end().code, Some(0));
    }
}

#[test]
fn tls_that_cannot_be_served_is_told() {
    let dir = WorkingDir::new();
    let authority = Authority::new(dir.path(), "ca");
    authority.certify("server");
    let files = "--tls-cert-file server.crt --tls-key-file server.key";
    for (directives, told) in [
        ("--tls-port 1 --port 1", "port and tls-port are both 1"),
        ("--tls-port 70000", "tls-port: argument must be between 0 and 65535 inclusive"),
        ("--tls-auth-clients no", "tls-cert-file must be set for TLS"),
        (files, "tls-ca-cert-file or tls-ca-cert-dir must be set, because tls-auth-clients is yes"),
        (
            "--tls-auth-clients no --tls-cert-file server.crt --tls-key-file ca.crt",
            "ca.crt: there is no private key",
        ),
        (&format!("{files} --tls-auth-clients no --tls-protocols SSLv3"), "'SSLv3' is no version of TLS"),
        (&format!("{files} --tls-auth-clients no --bind *"), "protected-mode forbids that"),
        (
            &format!("{files} --tls-auth-clients yes --tls-ca-cert-file ca.crt --bind *"),
            "protected-mode forbids that",
        ),
    ] {
        let port = free_port();
        let ran = dir.run(&format!("serve --redis-conf - --dir . --port 0 --tls-port {port} {directives}"));
        assert_eq!(ran.code, 2, "{directives}: {ran:?}");
        assert!(ran.err.contains(told), "{directives}: {}", ran.err);
    }
}

#[test]
fn redis_cli_speaks_tls() {
    let has_tls = Command::new("redis-cli").arg("--help").output();
    if !has_tls.is_ok_and(|help| [help.stdout, help.stderr].concat().windows(5).any(|word| word == b"--tls"))
    {
        println!("skipped: redis-cli is not installed, or was built without TLS");
        return;
    }
    let dir = WorkingDir::new();
    let authority = Authority::new(dir.path(), "ca");
    authority.certify("server");
    authority.certify("client");
    let port = free_port();
    let mut server = Serving::start(dir.command(&format!(
        "serve --dsl off --log off --redis 127.0.0.1:0 --redis-set tls-port {port} --redis-set dir . \
         --redis-set tls-cert-file server.crt --redis-set tls-key-file server.key --redis-set tls-ca-cert-file ca.crt"
    )), 0);
    let plain = server.address("by the protocol of Redis on");
    assert!(server.line("by the protocol of Redis with TLS on ").ends_with(&format!(" 127.0.0.1:{port}")));
    let cli = |arguments: &str| {
        let mut command = Command::new("redis-cli");
        command.args(["-p", &port.to_string()]).args(arguments.split(' ')).current_dir(dir.path());
        let output = command.stdin(Stdio::null()).output().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let own = "--cert client.crt --key client.key";
    for rules in
        ["", "--tls-ciphersuites TLS_AES_128_GCM_SHA256 ", "--tls-ciphers ECDHE-ECDSA-AES256-GCM-SHA384 "]
    {
        assert_eq!(cli(&format!("--tls --cacert ca.crt {rules}{own} set key value")), "OK\n");
    }
    assert_eq!(ask(&plain, "GET key"), "$5\r\nvalue\r\n+OK\r\n");
    assert!(cli("--tls --cacert ca.crt get key").contains("Error"), "a client without a certificate");
    assert!(cli(&format!("--tls {own} get key")).contains("certificate verify failed"));
    assert!(cli("get key").contains("takes clients with TLS only"));
    assert_eq!(server.end().code, Some(0));
}
