//! Servers start, answer in both protocols, keep pushes apart and end with the value.

#![forbid(unsafe_code)]

use esker_redis_testkit::{ExpectKind, Server, encode};
use esker_resp::value::Value;
use std::net::TcpStream;

#[test]
fn a_server_answers_until_its_value_is_dropped() {
    let Some(mut server) = Server::redis(&["--databases", "3"]) else { return };
    let mut client = server.connect();
    assert_eq!(client.words("CONFIG GET databases").array()[1], Value::Bulk(b"3".to_vec()));
    assert!(server.is_alive());
    let again = Server::at(server.address()).connect().words("PING");
    assert_eq!(again, Value::Status(b"PONG".to_vec()));
    let (address, directory) = (server.address().to_owned(), server.directory().to_owned());
    drop(server);
    assert!(TcpStream::connect(address).is_err() && !directory.exists());
}

#[test]
fn settings_that_it_refuses_are_told_with_its_log() {
    if Server::redis(&[]).is_none() {
        return;
    }
    let refused = std::panic::catch_unwind(|| Server::redis(&["--databases", "none"]));
    let message = refused.expect_err("it does not start");
    let message = message.downcast_ref::<String>().expect("a text");
    assert!(message.contains("parsed into an integer"), "{message}");
}

#[test]
fn pipelined_replies_come_one_by_one_with_their_bytes_and_pushes_apart() {
    let Some(server) = Server::redis(&[]) else { return };
    let (mut client, mut other) = (server.connect(), server.connect());
    client.hello(3);
    client.send(&[encode(&[b"PING"]), encode(&[b"SUBSCRIBE", b"c"]), encode(&[b"ECHO", b"x"])].concat());
    assert_eq!((client.read(), client.raw()), (Value::Status(b"PONG".to_vec()), &b"+PONG\r\n"[..]));
    assert_eq!((client.read(), client.raw()), (Value::Bulk(b"x".to_vec()), &b"$1\r\nx\r\n"[..]));
    assert_eq!(other.words("PUBLISH c m"), Value::Integer(1));
    let Value::Push(subscribed) = client.read_push() else { panic!("a push") };
    assert_eq!(subscribed[0], Value::Bulk(b"subscribe".to_vec()));
    let Value::Push(message) = client.read_push() else { panic!("a push") };
    assert_eq!(message[2], Value::Bulk(b"m".to_vec()));
}
