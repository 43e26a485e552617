//! `proto-max-bulk-len` is the longest string, whichever command makes it: beside Redis 7.0.15.

#![allow(clippy::disallowed_methods, reason = "a thread of the test serves its sockets")]

mod common;

use common::TestServer;
use common::sockets::while_served;
use esker_redis_testkit::{Client, ExpectKind, Server};
use esker_resp::value::Value;

const MIB: usize = 1 << 20;

#[test]
fn strings_are_as_long_as_the_limit_allows() {
    let server = TestServer::new("string-limit");
    while_served(&server, 2, |address| {
        let Some(redis) = Server::redis(&[]) else { return };
        let (mut ours, mut theirs) = (Client::connect(address), redis.connect());
        let full = vec![b'x'; MIB];
        let mut both = |request: &[&[u8]]| {
            let shown = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
            let replies = [&mut ours, &mut theirs].map(|client| {
                client.call(request);
                shown(client.raw())
            });
            let request: Vec<String> = request.iter().map(|argument| shown(argument)).collect();
            assert_eq!(replies[0], replies[1], "{request:?}");
        };
        let words = |line: &str| line.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
        let check = |both: &mut dyn FnMut(&[&[u8]]), line: &str| {
            let words = words(line);
            both(&words.iter().map(Vec::as_slice).collect::<Vec<_>>());
        };
        for value in ["1048575", "0", "x", "1mb"] {
            check(&mut both, &format!("CONFIG SET proto-max-bulk-len {value}"));
            check(&mut both, &format!("CONFIG SET client-query-buffer-limit {value}"));
        }
        check(&mut both, "CONFIG SET client-query-buffer-limit 1gb");
        both(&[b"SET", b"k", &full]);
        for line in [
            "APPEND k x",
            "SETRANGE k 1048575 y",
            "SETRANGE k 1048576 y",
            "SETRANGE k 9223372036854775807 y",
            "SETRANGE new 1048575 y",
            "SETRANGE new 1048575 yz",
            "SETRANGE new 1048576 ",
            "SETBIT bits 8388607 1",
            "SETBIT bits 8388608 1",
            "GETBIT bits 8388608",
            "BITFIELD bits SET u8 8388608 1",
            "BITFIELD bits GET u8 #1048576",
            "BITFIELD bits SET u8 #1048575 1",
            "SET long x",
            "LCS k new LEN",
            "CONFIG SET proto-max-bulk-len 2mb",
            "APPEND k x",
            "SETRANGE k 2097151 y",
            "SETRANGE k 2097152 y",
            "SETBIT bits 8388608 1",
            "STRLEN k",
            "STRLEN bits",
            "CONFIG SET proto-max-bulk-len 600mb",
            "SETBIT far 4831838208 1",
            "STRLEN far",
            "GETRANGE far 603979775 -1",
        ] {
            check(&mut both, line);
        }
    });
}

/// Groups that the slow lane has executed.
fn slow_groups(client: &mut Client) -> u64 {
    let told = String::from_utf8(client.words("INFO esker").bulk()).expect("text");
    let line = told.lines().find_map(|line| line.strip_prefix("esker_slow_groups:"));
    line.and_then(|count| count.parse().ok()).expect("a count")
}

#[test]
fn a_large_request_is_left_to_a_thread_that_may_wait() {
    let server = TestServer::new("string-large-request");
    while_served(&server, 2, |address| {
        let mut client = Client::connect(address);
        client.call(&[b"SET", b"k", &vec![b'x'; MIB]]);
        let before = slow_groups(&mut client);
        client.call(&[b"SET", b"k", &vec![b'x'; 5 * MIB]]);
        assert_eq!(client.raw(), b"+OK\r\n");
        assert_eq!(slow_groups(&mut client), before + 1);
        assert_eq!(client.words("STRLEN k"), Value::Integer(5 * MIB as i64));
    });
}
