//! What a client can make large: transactions, watched keys, subscriptions, names, scripts. Each has an end
//! with an error, and the server's memory stays bounded while others are served.

#![allow(clippy::disallowed_methods, reason = "sockets of the tests' own")]

mod common;

use common::victim::{Victim, serve_if_asked};
use esker_redis_testkit::{Client, encode};

#[test]
fn serves_when_it_is_asked_to() {
    serve_if_asked();
}

/// Sends requests in pieces and reads their replies; returns the last.
fn pipeline(client: &mut Client, requests: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let requests: Vec<Vec<u8>> = requests.collect();
    for some in requests.chunks(1_000) {
        client.send(&some.concat());
        some.iter().for_each(|_| drop(client.read()));
    }
    client.raw().to_vec()
}

#[test]
fn a_transaction_has_bounded_commands_and_bytes() {
    let mut victim = Victim::start("sizes-multi", "");
    victim.survives("MULTI", 64, |address| {
        let mut client = Client::connect(address);
        client.words("MULTI");
        let last = pipeline(&mut client, (0..70_000).map(|_| encode(&[b"PING"])));
        assert!(last.starts_with(b"-ERR a transaction has at most"), "{}", last.escape_ascii());
        assert!(client.words("EXEC").error().is_some_and(|text| text.starts_with(b"EXECABORT")));
    });
    victim.survives("MULTI with bytes", 160, |address| {
        let mut client = Client::connect(address);
        client.words("MULTI");
        let value = vec![b'v'; 1 << 20];
        let last = pipeline(&mut client, (0..70).map(|_| encode(&[b"SET", b"k", &value])));
        assert!(last.starts_with(b"-ERR a transaction has at most"), "{}", last.escape_ascii());
        assert!(client.words("DISCARD").error().is_none());
    });
}

#[test]
fn watched_keys_and_subscriptions_take_linear_time() {
    let mut victim = Victim::start("sizes-names", "");
    victim.survives("SUBSCRIBE", 256, |address| {
        let mut client = Client::connect(address);
        let names: Vec<String> = (0..200_000).map(|n| format!("channel:{n}")).collect();
        let mut request: Vec<&[u8]> = vec![b"SUBSCRIBE"];
        request.extend(names.iter().map(String::as_bytes));
        client.send(&encode(&request));
        (0..200_000).for_each(|_| drop(client.read()));
        assert_eq!(client.raw(), b"*3\r\n$9\r\nsubscribe\r\n$14\r\nchannel:199999\r\n:200000\r\n");
    });
    victim.survives("WATCH", 128, |address| {
        let mut client = Client::connect(address);
        let last = pipeline(&mut client, (0..70_000).map(|n: u32| encode(&[b"WATCH", &n.to_le_bytes()])));
        assert!(last.starts_with(b"-ERR a client watches at most"), "{}", last.escape_ascii());
    });
}

#[test]
fn names_and_scripts_that_are_too_large_are_refused_or_forgotten() {
    let mut victim = Victim::start("sizes-texts", "");
    victim.survives("CLIENT SETNAME", 128, |address| {
        let mut client = Client::connect(address);
        let name = vec![b'n'; 16 << 20];
        // Kept once, as any argument could be; then given up.
        client.call(&[b"CLIENT", b"SETNAME", &name]);
        client.call(&[b"CLIENT", b"SETNAME", b""]);
    });
    victim.survives("SCRIPT LOAD", 256, |address| {
        let mut client = Client::connect(address);
        let filler = "x".repeat(1 << 20);
        for number in 0..200 {
            let script = format!("return '{number}{filler}'");
            client.call(&[b"SCRIPT", b"LOAD", script.as_bytes()]);
        }
    });
}
