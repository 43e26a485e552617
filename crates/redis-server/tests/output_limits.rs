//! `client-output-buffer-limit`: which clients are disconnected, and how the limits are written.

#![allow(
    clippy::disallowed_methods,
    reason = "a thread of the test serves its sockets; a limit in seconds passes"
)]

mod common;

use common::TestServer;
use common::sockets::while_served;
use esker_redis_testkit::{Client, ExpectKind, Server};
use std::time::{Duration, Instant};

fn set_limits(client: &mut Client, limits: &str) {
    client.call(&[b"CONFIG", b"SET", b"client-output-buffer-limit", limits.as_bytes()]);
    assert_eq!(client.raw(), b"+OK\r\n", "{limits}");
}

/// The line of a client in CLIENT LIST, if it is connected.
fn line_of(admin: &mut Client, id: i64) -> Option<String> {
    let line = String::from_utf8(admin.words(&format!("CLIENT LIST ID {id}")).bulk()).expect("text");
    (!line.is_empty()).then_some(line)
}

/// Bytes that wait to be sent to a client.
fn waiting_bytes(line: &str) -> usize {
    let field = line.split(' ').find_map(|field| field.strip_prefix("omem=")).expect("it is told");
    field.parse().expect("a number")
}

fn await_end(admin: &mut Client, id: i64) {
    let until = Instant::now() + Duration::from_secs(20);
    while let Some(line) = line_of(admin, id) {
        assert!(Instant::now() < until, "{line}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A subscriber that reads nothing, with its number.
fn deaf_subscriber(address: &str) -> (Client, i64) {
    let mut deaf = Client::connect(address);
    let id = deaf.words("CLIENT ID").integer();
    deaf.words("SUBSCRIBE news");
    (deaf, id)
}

#[test]
fn a_subscriber_beyond_the_hard_limit_is_disconnected() {
    let server = TestServer::new("output-hard");
    while_served(&server, 2, |address| {
        let mut admin = Client::connect(address);
        set_limits(&mut admin, "pubsub 100000 0 0");
        let (_deaf, id) = deaf_subscriber(address);
        let message = "x".repeat(10_000);
        let (mut most, mut sent) = (0, 0);
        while let Some(line) = line_of(&mut admin, id) {
            most = most.max(waiting_bytes(&line));
            admin.words(&format!("PUBLISH news {message}"));
            sent += message.len();
            // The thread of the subscriber may be behind: what waits is told late, and may be much at once.
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(sent >= 100_000 && most < 130_000, "{sent} bytes were sent, {most} waited at most");
        // One whose messages are taken stays, however many there are.
        let (mut keen, id) = deaf_subscriber(address);
        for _ in 0..200 {
            admin.words(&format!("PUBLISH news {message}"));
            keen.read();
        }
        assert!(line_of(&mut admin, id).is_some());
    });
}

#[test]
fn a_subscriber_beyond_the_soft_limit_has_its_time() {
    let server = TestServer::new("output-soft");
    while_served(&server, 2, |address| {
        let mut admin = Client::connect(address);
        // Filling takes its time.
        set_limits(&mut admin, "pubsub 0 0 0");
        let (_deaf, id) = deaf_subscriber(address);
        let (mut recovering, other_id) = deaf_subscriber(address);
        let message = "x".repeat(10_000);
        let mut sent = 0;
        // Beyond what the system takes for a client, the limit is passed by little.
        while [id, other_id]
            .iter()
            .any(|id| waiting_bytes(&line_of(&mut admin, *id).expect("without a limit")) < 120_000)
        {
            admin.words(&format!("PUBLISH news {message}"));
            sent += 1;
        }
        let began = Instant::now();
        set_limits(&mut admin, "pubsub 0 100000 3");
        (0..sent).for_each(|_| drop(recovering.read()));
        await_end(&mut admin, id);
        assert!(began.elapsed() > Duration::from_millis(500), "{:?}", began.elapsed());
        assert!(line_of(&mut admin, other_id).is_some(), "it has taken its messages in time");
    });
}

#[test]
fn replies_beyond_the_hard_limit_are_not_sent_and_their_commands_are_executed() {
    let server = TestServer::new("output-normal");
    while_served(&server, 2, |address| {
        let mut admin = Client::connect(address);
        admin.call(&[b"SET", b"big", &[b'x'; 150_000]]);
        set_limits(&mut admin, "normal 100000 0 0");
        for requests in ["GET big\r\nSET k 1\r\n", "MULTI\r\nSET k 2\r\nGET big\r\nINCR k\r\nEXEC\r\n"] {
            let mut client = Client::connect(address);
            client.send(requests.as_bytes());
            let replies = client.read_to_end();
            assert!(replies.len() < 100, "{}", replies.len());
        }
        assert_eq!(admin.words("GET k").bulk(), b"3");
        set_limits(&mut admin, "normal 0 0 0");
        assert_eq!(admin.words("GET big").bulk().len(), 150_000);
    });
}

#[test]
fn limits_are_written_as_by_redis() {
    let server = TestServer::new("output-config");
    while_served(&server, 2, |address| {
        let Some(redis) = Server::redis(&[]) else { return };
        let (mut ours, mut theirs) = (Client::connect(address), redis.connect());
        for value in [
            "normal 1mb 2mb 60 replica 3mb 4mb 70 pubsub 5mb 6mb 80",
            "NORMAL 1 2 3",
            "slave 7k 8kb 9",
            "wrong number",
            "invalid_class 10mb 10mb 60",
            "master 10mb 10mb 60",
            "normal 10mbs 10mb 60",
            "replica 10mb 10mbs 60",
            "pubsub 10mb 10mb 60s",
            "pubsub 1 1 1 normal 1 1 x",
            "",
        ] {
            for client in [&mut ours, &mut theirs] {
                client.call(&[b"CONFIG", b"SET", b"client-output-buffer-limit", value.as_bytes()]);
            }
            assert_eq!(ours.raw(), theirs.raw(), "{value}");
            let get = "CONFIG GET client-output-buffer-limit";
            assert_eq!(ours.words(get), theirs.words(get), "{value}");
        }
    });
}
