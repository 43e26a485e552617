//! What clients can hold: connections, heads, silence; and that the server ends whatever they do.

mod common;

use common::{TestServer, answer_of};
use esker_admin::listener::MAX_CONNECTIONS;
use std::io::{Read, Write};
use std::net::TcpStream;

#[test]
fn a_head_that_is_too_long_is_refused() {
    let server = TestServer::new("long-head");
    let long = format!("GET /health/live HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(64 << 10));
    let mut stream = server.connect();
    // The server may close before all of it was sent.
    let _sent = stream.write_all(long.as_bytes());
    let mut text = Vec::new();
    let _read = stream.read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text);
    assert!(text.is_empty() || text.starts_with("HTTP/1.1 431"), "{text}");
    assert_eq!(server.get("/health/live").status, 200);
}

#[test]
fn silent_connections_end_and_the_others_get_their_turn() {
    let server = TestServer::new("silent");
    let mut silent: Vec<TcpStream> = (0..MAX_CONNECTIONS)
        .map(|number| {
            let mut stream = server.connect();
            // Half of them begin a head, and do not end it.
            if number % 2 == 0 {
                stream.write_all(b"GET /health/live HTTP/1.1\r\nHo").unwrap();
            }
            stream
        })
        .collect();
    // It waits until the silent ones are disconnected.
    assert_eq!(server.get("/health/live").status, 200);
    for stream in &mut silent {
        let mut rest = Vec::new();
        let _ended = stream.read_to_end(&mut rest);
        assert!(!rest.starts_with(b"HTTP/1.1 200"), "a silent client was answered");
    }
}

#[test]
fn a_connection_serves_several_requests_and_ends_with_the_server() {
    let mut server = TestServer::new("kept");
    let mut stream = server.connect();
    let request = format!("GET /health/live HTTP/1.1\r\nHost: {}\r\n\r\n", server.address);
    stream.write_all(request.repeat(3).as_bytes()).unwrap();
    let mut text = String::new();
    while text.matches("\"live\"").count() < 3 {
        let mut bytes = [0; 4096];
        let len = stream.read(&mut bytes).unwrap();
        assert!(len > 0, "it ended after {text}");
        text.push_str(std::str::from_utf8(&bytes[..len]).unwrap());
    }
    server.end().unwrap();
    let mut rest = Vec::new();
    let _ended = stream.read_to_end(&mut rest);
    assert!(TcpStream::connect(server.address).is_err(), "the server listens no more");
}

#[test]
fn bytes_that_are_no_http_do_no_harm() {
    let server = TestServer::new("hostile");
    for bytes in [
        b"*1\r\n$4\r\nPING\r\n".as_slice(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\0\0\0\0\r\n\r\n",
        b"GET /%00%ff/../..//metrics?x=\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ] {
        let mut stream = server.connect();
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        let _ended = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1."), "{answer}");
        assert!(!answer.contains(" 500 "), "{answer}");
    }
    let mut stream = server.connect();
    stream.write_all(b"GET /health/live HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
    assert_eq!(answer_of(&mut stream).status, 200);
}
