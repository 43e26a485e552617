//! What clients of TLS can make the server hold and do, in a process of its own.

#![allow(clippy::disallowed_methods, reason = "threads and files of the tests")]

mod common;

use common::victim::{Victim, serve_if_asked};
use esker_redis_testkit::certificates::Authority;
use esker_redis_testkit::{Client, encode};
use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

#[test]
fn serves_when_it_is_asked_to() {
    serve_if_asked();
}

/// A server with TLS, and the authority of its certificate.
fn victim(name: &str) -> (Victim, Authority) {
    let directory = std::env::temp_dir().join(format!("esker-redis-{name}-tls-{}", std::process::id()));
    let authority = Authority::new(&directory, "authority");
    let certified = authority.certify("server");
    let file = |path: PathBuf| path.into_os_string().into_string().expect("text");
    let directives = format!(
        "tls-auth-clients=no,tls-cert-file={},tls-key-file={},maxclients=3000",
        file(certified.cert_file),
        file(certified.key_file)
    );
    let victim = Victim::start(name, &directives);
    std::fs::remove_dir_all(directory).ok();
    (victim, authority)
}

#[test]
fn a_thousand_stalled_handshakes_take_little() {
    let (mut victim, authority) = victim("stalled-handshakes");
    let tls_address = victim.tls_address().to_owned();
    // A greeting of which the end is missing: of one record, and of one that announces 64 KiB.
    let mut short = b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc".to_vec();
    short.resize(2000, 0);
    let mut long = b"\x16\x03\x01\x40\x00\x01\x00\xff\x00".to_vec();
    long.resize(5 + (16 << 10), 0);
    for (what, bytes, most_mib) in
        [("nothing", &b""[..], 16), ("a short piece", &short, 24), ("a long piece", &long, 64)]
    {
        let mut stalled = Vec::new();
        victim.survives(what, most_mib, |_| {
            for _ in 0..1000 {
                let mut socket = TcpStream::connect(&tls_address).expect("it listens");
                socket.write_all(bytes).expect("taken");
                stalled.push(socket);
            }
            // The server has read all of it when it lets in one that came later.
            Client::connect_tls(&tls_address, &authority.client(None));
        });
    }
}

#[test]
fn a_flood_of_handshakes_leaves_other_clients_their_turn() {
    let (mut victim, authority) = victim("handshake-flood");
    let tls_address = victim.tls_address().to_owned();
    let config = authority.client(None);
    victim.survives("handshakes", 32, |_| {
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        Client::connect_tls(&tls_address, &config);
                    }
                });
            }
        });
    });
}

#[test]
fn a_client_that_does_not_read_costs_bounded_memory_and_no_time() {
    let (mut victim, authority) = victim("tls-no-reader");
    let tls_address = victim.tls_address().to_owned();
    let mut client = Client::connect_tls(&tls_address, &authority.client(None));
    client.call(&[b"SET", b"big", &vec![b'x'; 1 << 20]]);
    victim.survives("replies that are not read", 24, |_| client.send(&b"GET big\r\n".repeat(200)));
    let before = victim.cpu_ms();
    std::thread::sleep(Duration::from_millis(1000));
    let spent = victim.cpu_ms() - before;
    assert!(spent < 500, "the server ran {spent} ms in a second in which nothing could be sent");
    for _ in 0..200 {
        client.read();
    }
    client.call(&[b"SET", b"big", b"small"]);
    assert_eq!(client.raw(), b"+OK\r\n");
}

#[test]
fn idle_connections_are_small() {
    let (victim, authority) = victim("tls-idle");
    let config = authority.client(None);
    let connect = || Client::connect_tls(victim.tls_address(), &config);
    // What the first connections make the allocator take is not theirs alone.
    let mut idle: Vec<Client> = (0..200).map(|_| connect()).collect();
    let before = victim.resident_mib();
    idle.extend((0..1000).map(|_| connect()));
    let grown = victim.resident_mib() - before;
    println!("1,000 idle connections with TLS: {grown} MiB");
    assert!(grown <= 24, "an idle connection with TLS takes {grown} KiB");
    let last = idle.last_mut().expect("one");
    last.send(&encode(&[b"PING"]));
    last.read();
}
