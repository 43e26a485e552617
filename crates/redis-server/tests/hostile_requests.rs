//! Bytes of clients that mean harm: requests that announce much, end nowhere, or are no requests. Each gets
//! an error or is disconnected; the server goes on, with little more memory, and serves others meanwhile.

#![allow(clippy::disallowed_methods, reason = "sockets and times of the tests' own")]

mod common;

use common::victim::{Victim, serve_if_asked};
use esker_redis_testkit::{Client, encode};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Memory that an attack may leave behind, in MiB: what allocators keep.
const LITTLE_MIB: u64 = 24;

#[test]
fn serves_when_it_is_asked_to() {
    serve_if_asked();
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it accepts");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
    stream
}

/// Sends bytes and returns all that comes until the server closes. What it does not read does not matter.
fn until_closed(address: &str, bytes: &[u8]) -> String {
    let mut stream = connect(address);
    stream.write_all(bytes).ok();
    let mut reply = Vec::new();
    // A reset is an end as well.
    stream.read_to_end(&mut reply).ok();
    String::from_utf8_lossy(&reply).into_owned()
}

#[test]
fn announcements_take_no_memory_before_and_after_authentication() {
    for (name, directives, clients) in [("announce", "", 100), ("announce-auth", "requirepass=secret", 1000)]
    {
        let mut victim = Victim::start(name, directives);
        victim.survives(name, LITTLE_MIB, |address| {
            let mut streams = Vec::new();
            for _ in 0..clients {
                let mut stream = connect(address);
                stream.write_all(b"*1048576\r\n$536870912\r\nx").ok();
                streams.push(stream);
            }
            for stream in &mut streams {
                stream.write_all(b"yz").ok();
            }
        });
    }
}

#[test]
fn strangers_may_announce_only_what_authentication_takes() {
    let victim = Victim::start("strangers", "requirepass=secret");
    for (request, error) in [
        (&b"*11\r\n"[..], "-ERR Protocol error: unauthenticated multibulk length\r\n"),
        (b"*1\r\n$16385\r\n", "-ERR Protocol error: unauthenticated bulk length\r\n"),
    ] {
        assert_eq!(until_closed(victim.address(), request), error);
    }
    // The same is no error afterwards.
    let mut client = victim.client();
    assert!(client.words("AUTH secret").error().is_none());
    let value = vec![b'v'; 20_000];
    assert!(client.call(&[b"SET", b"k", &value]).error().is_none());
    let mut request = vec![&b"DEL"[..]];
    request.resize(30, b"k");
    assert!(client.call(&request).error().is_none());
}

#[test]
fn replies_that_are_never_read_take_bounded_memory() {
    for (name, directives) in [("unread", ""), ("unread-auth", "requirepass=secret")] {
        let mut victim = Victim::start(name, directives);
        victim.survives(name, LITTLE_MIB, |address| {
            let pings = b"PING\r\n".repeat(10_000);
            let mut streams: Vec<_> = (0..20).map(|_| connect(address)).collect();
            for stream in &mut streams {
                stream.set_write_timeout(Some(Duration::from_millis(50))).expect("a socket");
                // The server stops reading; so the write fails at last.
                for _ in 0..100 {
                    if stream.write_all(&pings).is_err() {
                        break;
                    }
                }
            }
        });
    }
}

#[test]
fn a_flood_of_errors_on_new_connections_leaves_others_their_replies() {
    let mut victim = Victim::start("errors", "");
    victim.survives("errors", LITTLE_MIB, |address| {
        for _ in 0..2_000 {
            let mut stream = connect(address);
            stream.write_all(b"*x\r\n").ok();
        }
    });
}

#[test]
fn what_is_no_request_gets_the_error_of_redis() {
    let victim = Victim::start("malformed", "");
    let protocol = |text: &str| format!("-ERR Protocol error: {text}\r\n");
    for (request, error) in [
        (&b"*2147483648\r\n"[..], protocol("invalid multibulk length")),
        (b"*1\r\n$9223372036854775808\r\n", protocol("invalid bulk length")),
        (b"*1\r\n$-1\r\n", protocol("invalid bulk length")),
        (b"*1\r\n$536870913\r\n", protocol("invalid bulk length")),
        (b"*1\r\n*1\r\n*1\r\n", protocol("expected '$', got '*'")),
        (b"GET \"a\r\n", protocol("unbalanced quotes in request")),
        // A browser that was told to post here.
        (b"POST / HTTP/1.1\r\nHost: x\r\n\r\nSET a 1\r\n", String::new()),
    ] {
        assert_eq!(until_closed(victim.address(), request), error, "{}", request.escape_ascii());
    }
    // Nothing is answered, and the connection goes on.
    for request in [&b"*0\r\n"[..], b"*-1\r\n", b"\r\n", b"\n", b"   \r\n"] {
        let mut client = victim.client();
        client.send(request);
        client.send(b"PING\r\n");
        client.read();
        assert_eq!(client.raw(), b"+PONG\r\n", "{}", request.escape_ascii());
    }
    let nested = b"*1\r\n".repeat(10_000);
    assert_eq!(until_closed(victim.address(), &nested), protocol("expected '$', got '*'"));
    let mut client = victim.client();
    assert!(client.words("GET a").error().is_none(), "the key of the posted request is not there");
    assert_eq!(client.raw(), b"$-1\r\n");
}

/// Clients of other protocols that were sent here: none is answered as if it had asked something, and what
/// they would smuggle in is not executed.
#[test]
fn other_protocols_get_errors_or_are_disconnected() {
    let victim = Victim::start("protocols", "");
    let hello_of_tls =
        [&b"\x16\x03\x01\x00\x2f\x01\x00\x00\x2b\x03\x03"[..], &[7; 32], b"\0\0\x02\x13\x01\x01\0\n"]
            .concat();
    for bytes in [
        &b"GET / HTTP/1.1\r\nHost: redis\r\n\r\nSET smuggled 1\r\n"[..],
        b"POST / HTTP/1.1\r\nContent-Length: 20\r\n\r\nSET smuggled 1\r\n",
        b"host: x\r\nSET smuggled 1\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
        &hello_of_tls,
        b"\x10\x0f\0\x04MQTT\x04\x02\0\x3c\0\x03abc\r\n",
    ] {
        let mut stream = connect(victim.address());
        stream.write_all(bytes).ok();
        stream.shutdown(std::net::Shutdown::Write).ok();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).ok();
        let lines = String::from_utf8_lossy(&reply).into_owned();
        assert!(lines.lines().all(|line| line.starts_with("-ERR ")), "{}: {lines}", bytes.escape_ascii());
    }
    let mut client = victim.client();
    client.words("GET smuggled");
    assert_eq!(client.raw(), b"$-1\r\n");
}

#[test]
fn a_line_without_an_end_is_refused_at_64_kib() {
    let victim = Victim::start("endless", "");
    for (start, error) in [
        (&b""[..], "-ERR Protocol error: too big inline request\r\n"),
        (b"*", "-ERR Protocol error: too big mbulk count string\r\n"),
        (b"*1\r\n$", "-ERR Protocol error: too big bulk count string\r\n"),
    ] {
        let line = [start, &b"1".repeat(70_000)].concat();
        assert_eq!(until_closed(victim.address(), &line), error);
    }
}

#[test]
fn requests_may_be_cut_anywhere() {
    let victim = Victim::start("cut", "");
    let mut requests = Vec::new();
    for length in [0, 1, 32 * 1024 - 1, 32 * 1024, 32 * 1024 + 1] {
        let value = vec![b'v'; length];
        requests.extend(encode(&[b"SET", b"key", &value]));
        requests.extend(encode(&[b"STRLEN", b"key"]));
    }
    let expected: &[u8] = b"+OK\r\n:0\r\n+OK\r\n:1\r\n+OK\r\n:32767\r\n+OK\r\n:32768\r\n+OK\r\n:32769\r\n";
    let beginnings = (0..200).chain([16_384, 32_768, 65_535, 65_536, 65_537, 98_304]);
    for cut in beginnings.chain(requests.len() - 40..requests.len()) {
        let mut client = victim.client();
        client.stream().set_nodelay(true).expect("a socket");
        client.send(&requests[..cut]);
        std::thread::sleep(Duration::from_micros(300));
        client.send(&requests[cut..]);
        let mut replies = Vec::new();
        for _ in 0..10 {
            client.read();
            replies.extend_from_slice(client.raw());
        }
        assert_eq!(replies, expected, "cut at {cut}");
    }
}

#[test]
fn many_small_pieces_cost_no_more_than_their_bytes() {
    let mut victim = Victim::start("pieces", "requirepass=secret");
    // One request at a time is parsed before authentication, which must not move the others each time.
    victim.survives("pieces", LITTLE_MIB, |address| {
        let mut client = Client::connect(address);
        let pings = b"PING\r\n".repeat(200_000);
        std::thread::scope(|scope| {
            let mut writer = client.stream().try_clone().expect("a socket");
            scope.spawn(move || writer.write_all(&pings));
            for _ in 0..200_000 {
                client.read();
            }
        });
    });
}
