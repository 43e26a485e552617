//! HTTP on the port of Redis: the connection ends without a word, also without the replies of what came
//! before, and the log tells of it. The same beside `redis-server` where it is installed.

#![allow(clippy::disallowed_methods, reason = "sockets of the test's own")]

mod common;

use common::TestServer;
use esker_redis_testkit::Server;
use std::fmt::Debug;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Keeps the texts of warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        struct Message(String);
        impl Visit for Message {
            fn record_debug(&mut self, _field: &Field, value: &dyn Debug) {
                self.0 = format!("{value:?}");
            }
        }
        let mut message = Message(String::new());
        event.record(&mut message);
        self.0.lock().expect("no panic").push(message.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// What comes until the server closes the connection.
fn until_closed(server: &Server, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.address()).expect("it accepts");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
    stream.write_all(bytes).expect("it reads");
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).expect("it closes");
    reply.escape_ascii().to_string()
}

#[test]
fn a_connection_that_speaks_http_ends_at_once() {
    let warnings = Warnings::default();
    tracing::subscriber::set_global_default(warnings.clone()).expect("the only one");
    let servers = Server::redis(&[]).into_iter().chain([TestServer::new("http").listening(&[])]);
    for server in servers {
        for (number, request) in [
            &b"POST / HTTP/1.1\r\nHost: x\r\n\r\n"[..],
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            b"\x01\x02POST / HTTP/1.1\r\nHost: x\r\n\r\n",
            b"*1\r\n$4\r\npost\r\n",
            b"PING\r\nhOST: x\r\nPING\r\n",
            b"MULTI\r\nSET a 1\r\nHost: x\r\nEXEC\r\n",
            b"SUBSCRIBE a\r\nPOST\r\n",
            b"CLIENT REPLY OFF\r\nPOST\r\n",
            b"\"POST\" x\r\n",
        ]
        .iter()
        .enumerate()
        {
            let key = format!("before:{number}");
            let request = [format!("SET {key} 1\r\n").as_bytes(), request, b"SET behind 1\r\n"].concat();
            assert_eq!(until_closed(&server, &request), "", "{}", request.escape_ascii());
            let mut client = server.connect();
            assert_eq!(client.words(&format!("EXISTS {key} behind a")), esker_resp::value::Value::Integer(1));
        }
    }
    let warnings = warnings.0.lock().expect("no panic");
    let of_http =
        warnings.iter().filter(|text| text.starts_with("Possible SECURITY ATTACK detected.")).count();
    assert_eq!(of_http, 1, "{warnings:?}");
}
