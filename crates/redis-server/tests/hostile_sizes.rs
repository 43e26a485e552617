//! What a client can make large: transactions, watched keys, subscriptions, names, scripts. Each has an end
//! with an error, and the server's memory stays bounded while others are served.

#![allow(clippy::disallowed_methods, reason = "sockets of the tests' own")]

mod common;

use common::victim::{Victim, serve_if_asked};
use esker_redis_testkit::{Client, ExpectKind, encode};

#[test]
fn serves_when_it_is_asked_to() {
    serve_if_asked();
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
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

/// All keys that a client waits for are ready at once when databases are exchanged.
#[test]
fn many_awaited_keys_take_linear_time() {
    let mut victim = Victim::start("sizes-awaited", "");
    victim.survives("SWAPDB beside BLPOP", 256, |address| {
        let names: Vec<String> = (0..200_000).map(|n| format!("key:{n}")).collect();
        let mut request: Vec<&[u8]> = vec![b"BLPOP"];
        request.extend(names.iter().map(String::as_bytes));
        request.push(b"0");
        let (mut waiting, mut other) = (Client::connect(address), Client::connect(address));
        waiting.send(&encode(&request));
        while !contains(&other.words("INFO clients").bulk(), b"blocked_clients:1") {}
        other.words("SWAPDB 0 1");
        other.words("SWAPDB 0 1");
        other.words("RPUSH key:199999 element");
        waiting.read();
        assert_eq!(waiting.raw(), b"*2\r\n$10\r\nkey:199999\r\n$7\r\nelement\r\n");
    });
}

/// A number of the client's own line in CLIENT LIST.
fn told(client: &mut Client, own_id: i64, name: &str) -> usize {
    let lines = String::from_utf8(client.words("CLIENT LIST").bulk()).expect("text");
    let own = format!("id={own_id} ");
    let line = lines.lines().find(|line| line.starts_with(&own)).expect("the client is connected");
    let field = line.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
    field.expect("the field is there").parse().expect("a number")
}

#[test]
fn what_a_client_holds_is_bounded_in_bytes_and_told_of_it() {
    let mut victim = Victim::start("sizes-bytes", "");
    victim.survives("names of a MiB", 256, |address| {
        let (mut client, mut other) = (Client::connect(address), Client::connect(address));
        let id = client.words("CLIENT ID").integer();
        let key = |number: u32| [&number.to_le_bytes()[..], &[b'k'; 60_000]].concat();
        let last = pipeline(&mut client, (0..100).map(|n| encode(&[b"WATCH", &key(n)])));
        assert_eq!(last, b"-ERR a client watches at most 65536 keys and 4194304 bytes of names\r\n");
        let watched = told(&mut other, id, "tot-mem");
        assert!((4 << 20..12 << 20).contains(&watched), "{watched}");
        client.words("UNWATCH");
        let nothing = told(&mut other, id, "tot-mem");
        assert!(nothing < 1 << 10, "{nothing}");

        let name = |number: u32| [&number.to_le_bytes()[..], &[b'c'; 1 << 20]].concat();
        // One by one: each reply repeats the name, and a pipeline without a reader is held back.
        (0..70).for_each(|n| drop(client.call(&[b"SUBSCRIBE", &name(n)])));
        assert_eq!(client.raw(), b"-ERR a client subscribes to at most 67108864 bytes of names\r\n");
        let subscribed = told(&mut other, id, "tot-mem");
        assert!((64 << 20..150 << 20).contains(&subscribed), "{subscribed}");
        client.words("RESET");

        client.words("MULTI");
        let value = vec![b'v'; 1 << 20];
        pipeline(&mut client, (0..3).map(|_| encode(&[b"SET", b"k", &value])));
        let queued = told(&mut other, id, "multi-mem");
        assert!((3 << 20..4 << 20).contains(&queued), "{queued}");
        assert!(told(&mut other, id, "tot-mem") >= queued);
        client.words("RESET");
        assert_eq!(told(&mut other, id, "multi-mem"), 0);
    });
}

#[test]
fn prefixes_of_tracking_are_bounded() {
    let mut victim = Victim::start("sizes-prefixes", "");
    victim.survives("CLIENT TRACKING", 64, |address| {
        let mut client = Client::connect(address);
        client.hello(3);
        let prefixes: Vec<Vec<u8>> = (0..100_000).map(|n| format!("prefix:{n:06}").into_bytes()).collect();
        let mut request: Vec<&[u8]> = vec![b"CLIENT", b"TRACKING", b"ON", b"BCAST"];
        request.extend(prefixes.iter().flat_map(|prefix| [&b"PREFIX"[..], prefix]));
        client.call(&request);
        assert!(client.raw().starts_with(b"-ERR"), "{}", client.raw().escape_ascii());
        client.words("CLIENT TRACKINGINFO");
        assert!(contains(client.raw(), b"off"), "nothing is tracked: {}", client.raw().escape_ascii());
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
