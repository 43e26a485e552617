//! SIGHUP: a configuration that is read anew acts as far as it can while servers run.

#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]
#![expect(clippy::disallowed_methods, reason = "tests use the machine's files")]
#![allow(dead_code, reason = "the helpers are shared with other tests")]

mod common;

use common::WorkingDir;
use common::serving::Serving;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Longest wait for a line of the log.
const PATIENCE: Duration = Duration::from_secs(60);

const TOKEN: &str = "a-token-of-sixteen-bytes-or-more";
const OTHER_TOKEN: &str = "another-token-of-sixteen-bytes";

/// A configuration whose log is the file `log`.
fn configuration(of_database: &str, of_serve: &str, of_redis: &str) -> String {
    format!(
        "{of_database}\n[serve]\ndata = \"served\"\nredis = \"127.0.0.1:0\"\ndsl = \"127.0.0.1:0\"\n\
         admin = \"127.0.0.1:0\"\nadmin_token_file = \"token\"\n{of_serve}\n\
         [serve.redis_set]\nlogfile = \"log\"\n{of_redis}\n"
    )
}

/// Sends inline commands of Redis and gives all that is answered until the end.
fn ask(address: &str, commands: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(format!("{commands}\r\nQUIT\r\n").as_bytes()).unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    answers
}

/// A client of the text protocol.
fn text_client(address: &str) -> BufReader<TcpStream> {
    BufReader::new(TcpStream::connect(address).unwrap())
}

fn answer(client: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    client.read_line(&mut line).unwrap();
    line
}

/// Waits until a line of the log has these words, and gives it.
fn logged(dir: &WorkingDir, words: &str) -> String {
    let began = Instant::now();
    loop {
        let log = String::from_utf8_lossy(&dir.read("log")).into_owned();
        if let Some(line) = log.lines().find(|line| line.contains(words)) {
            return line.to_owned();
        }
        assert!(began.elapsed() < PATIENCE, "'{words}' is not in the log:\n{log}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn level_limits_directives_and_tokens_change_while_the_servers_run() {
    let dir = WorkingDir::new();
    dir.write("token", TOKEN);
    dir.write("other", OTHER_TOKEN);
    dir.write("esker.toml", configuration("", "log = \"warn\"", "maxclients = 50"));
    let mut server = Serving::start(dir.command("serve --config esker.toml"), 0);
    let text = server.address("serving served on ");
    let redis = server.address("by the protocol of Redis on ");
    let admin = server.address("the status page of served on ");
    assert!(ask(&redis, "CONFIG SET timeout 900\r\nCONFIG GET maxclients").contains("\r\n50\r\n"));
    let mut first = text_client(&text);
    first.get_mut().write_all(b"p 1 10\n").unwrap();
    assert_eq!(answer(&mut first), "OK\n");

    dir.write("token", OTHER_TOKEN);
    dir.write(
        "esker.toml",
        configuration(
            "background_write_bytes_per_second = \"1MiB\"\nflush_threads = 2",
            "log = \"info\"\nmax_clients = 1\nmax_line = \"2MiB\"",
            "maxclients = 60\ndatabases = 4",
        ),
    );
    server.signal("-HUP");
    // The line is of the level that the log did not have before.
    let changed = logged(&dir, "SIGHUP: changed now: ");
    for name in ["maxclients", "log", "background_write_bytes_per_second", "max_clients", "admin_token_file"]
    {
        assert!(changed.contains(name), "{name}: {changed}");
    }
    let later = logged(&dir, "SIGHUP: changes that count from the next start on: ");
    for name in ["databases", "max_line", "flush_threads"] {
        assert!(later.contains(name) && !changed.contains(name), "{name}: {later}");
    }
    // What a client set stays where the file says nothing else.
    let directives = ask(&redis, "CONFIG GET maxclients\r\nCONFIG GET timeout");
    assert!(directives.contains("\r\n60\r\n") && directives.contains("\r\n900\r\n"), "{directives}");
    assert_eq!(answer(&mut text_client(&text)), "Error: too many clients\n");
    first.get_mut().write_all(b"g 1\n").unwrap();
    assert_eq!(answer(&mut first), "10\n");
    dir.write("old", TOKEN);
    let ask_stats = |token: &str| dir.run(&format!("stats --connect {admin} --token-file {token}")).code;
    assert_eq!((ask_stats("other"), ask_stats("old")), (0, 4));

    // A mistake changes nothing, and the next signal finds what is right again.
    dir.write("esker.toml", configuration("", "max_clients = 0", "maxclients = 70"));
    server.signal("-HUP");
    assert!(logged(&dir, "SIGHUP: nothing changes, because ").contains("--max-clients is 0"));
    assert!(ask(&redis, "CONFIG GET maxclients").contains("\r\n60\r\n"));
    dir.write("esker.toml", configuration("", "log = \"info\"\nmax_clients = 5", "maxclients = 80"));
    server.signal("-HUP");
    logged(&dir, "changed now: maxclients, background_write_bytes_per_second, max_clients");
    let mut second = text_client(&text);
    second.get_mut().write_all(b"g 1\n").unwrap();
    assert_eq!(answer(&mut second), "10\n");
    assert_eq!(server.end().code, Some(0));
}

#[test]
fn the_level_of_the_log_follows_config_set() {
    let dir = WorkingDir::new();
    dir.write("token", TOKEN);
    dir.write("esker.toml", configuration("", "", "maxclients = 50"));
    let mut server = Serving::start(dir.command("serve --config esker.toml"), 0);
    let redis = server.address("by the protocol of Redis on ");
    assert!(ask(&redis, "CONFIG SET loglevel warning").starts_with("+OK"));
    dir.write("esker.toml", configuration("", "max_line = \"2MiB\"", "maxclients = 60"));
    server.signal("-HUP");
    // It is a warning; the line behind it is none.
    logged(&dir, "from the next start on: max_line");
    assert!(ask(&redis, "CONFIG SET loglevel notice").starts_with("+OK"));
    dir.write("esker.toml", configuration("", "max_line = \"2MiB\"", "maxclients = 70"));
    server.signal("-HUP");
    logged(&dir, "SIGHUP: changed now: maxclients");
    let log = String::from_utf8_lossy(&dir.read("log")).into_owned();
    assert_eq!(log.matches("SIGHUP: changed now").count(), 1, "{log}");
    assert_eq!(server.end().code, Some(0));
}

/// A password that is taken out of the file by mistake does not open the server.
#[test]
fn a_configuration_that_would_open_the_server_is_refused() {
    let dir = WorkingDir::new();
    dir.write("token", TOKEN);
    let text = |of_redis: &str| {
        configuration("", "", of_redis).replace("redis = \"127.0.0.1:0\"", "redis = \"0.0.0.0:0\"")
    };
    dir.write("esker.toml", text("requirepass = \"one\""));
    let mut server = Serving::start(dir.command("serve --config esker.toml"), 0);
    let redis = server.address("by the protocol of Redis on ").replace("0.0.0.0", "127.0.0.1");
    dir.write("esker.toml", text(""));
    server.signal("-HUP");
    assert!(logged(&dir, "SIGHUP: nothing changes, because ").contains("protected-mode"));
    assert!(ask(&redis, "PING").starts_with("-NOAUTH"));
    dir.write("esker.toml", text("requirepass = \"other\""));
    server.signal("-HUP");
    logged(&dir, "SIGHUP: changed now: requirepass");
    assert!(ask(&redis, "AUTH other\r\nPING").starts_with("+OK\r\n+PONG"));
    assert_eq!(server.end().code, Some(0));
}

#[test]
fn a_configuration_that_can_be_read_once_is_refused() {
    let dir = WorkingDir::new();
    let ran = dir.run_with("serve --config -", "memory_budget = \"16MiB\"\n");
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("reads its file again at SIGHUP"), "{}", ran.err);
}
