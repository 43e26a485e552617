//! `serve --admin`: metrics, health and the status page beside the other servers.

#![expect(clippy::disallowed_methods, reason = "tests use the machine's files")]
#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]
#![allow(dead_code, reason = "the helpers are shared with other tests")]

mod common;

use common::WorkingDir;
use common::serving::Serving;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;

fn get(address: &str, path: &str, header: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{header}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn metrics_tell_what_clients_of_redis_did() {
    let dir = WorkingDir::new();
    let command = dir.command("serve db --redis 127.0.0.1:0 --dsl off --admin 127.0.0.1:0 --log off");
    let mut server = Serving::start(command, 2);
    let (redis, admin) = (server.address("by the protocol of Redis"), server.address("status page"));
    let mut client = TcpStream::connect(redis).unwrap();
    client.write_all(b"SET a 1\r\nSET b 2\r\nQUIT\r\n").unwrap();
    client.read_to_string(&mut String::new()).unwrap();
    let metrics = get(&admin, "/metrics", "");
    assert!(metrics.starts_with("HTTP/1.1 200"), "{metrics}");
    for sample in
        ["esker_commands_total{cmd=\"set\"} 2\n", "esker_redis_keys{db=\"0\"} 2\n", "esker_disk_free_bytes "]
    {
        assert!(metrics.contains(sample), "{sample} is not in {metrics}");
    }
    assert!(get(&admin, "/health/ready", "").contains("\"ready\""));
    assert!(get(&admin, "/", "").contains("<title>Esker</title>"));
    assert_eq!(server.end().code, Some(0));
    assert!(TcpStream::connect(admin).is_err());
}

#[test]
fn a_token_is_read_from_its_file() {
    let dir = WorkingDir::new();
    dir.write("token", "a token has no blanks\n");
    let refused = dir.run("serve db --admin 127.0.0.1:0 --admin-token-file token");
    assert!(refused.code != 0 && refused.err.contains("--admin-token-file token: byte 1"), "{refused:?}");
    dir.write("token", "correct-horse-battery\n");
    let arguments =
        "serve db --redis off --dsl 127.0.0.1:0 --admin 127.0.0.1:0 --admin-token-file token --log off";
    let mut server = Serving::start(dir.command(arguments), 2);
    let admin = server.address("status page");
    assert!(get(&admin, "/metrics", "").starts_with("HTTP/1.1 401"));
    let metrics = get(&admin, "/metrics", "Authorization: Bearer correct-horse-battery\r\n");
    assert!(metrics.contains("esker_batches_total"), "{metrics}");
    assert!(!metrics.contains("esker_commands_total"), "there is no server of Redis");
    assert_eq!(server.end().code, Some(0));
}

#[test]
fn what_would_be_open_to_others_or_without_effect_is_refused() {
    let dir = WorkingDir::new();
    let open = dir.run("serve db --admin 0.0.0.0:0");
    assert!(open.code != 0 && open.err.contains("needs a token"), "{open:?}");
    dir.write("token", "correct-horse-battery\n");
    let off = dir.run("serve db --admin off --admin-token-file token");
    assert!(off.code != 0 && off.err.contains("--admin is off"), "{off:?}");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = dir.run(&format!("serve db --admin {}", taken.local_addr().unwrap()));
    assert!(taken.code != 0 && taken.err.contains("cannot listen on"), "{taken:?}");
    assert!(!dir.path().join("db").exists(), "the database was opened before the address");
}

#[test]
fn a_default_address_in_use_is_told_and_the_others_serve() {
    let dir = WorkingDir::new();
    // Another server of this machine may have the port: then that one takes it.
    let _taken = TcpListener::bind("127.0.0.1:8081").ok();
    let mut command = dir.command("serve db --redis off --dsl 127.0.0.1:0 --log warn");
    command.stderr(Stdio::piped());
    let server = Serving::start(command, 1);
    assert!(server.lines[0].contains("serving"), "{:?}", server.lines);
    let ended = server.end();
    assert_eq!(ended.code, Some(0));
    assert!(ended.errors.contains("127.0.0.1:8081 is in use"), "{ended:?}");
}
