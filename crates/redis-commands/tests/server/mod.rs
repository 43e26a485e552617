//! Replies of a Redis server as trees of this crate, and their bytes.

#![allow(dead_code, reason = "each test uses a part")]

use esker_redis_commands::Reply;
use esker_redis_testkit::{Client, Server};
use esker_resp::value::Value;

/// A client of a server that reads replies into trees of this crate.
pub(crate) struct Commands {
    pub(crate) client: Client,
}

impl Commands {
    /// Connects, with a version of the protocol.
    pub(crate) fn connect(server: &Server, version: u8) -> Self {
        let mut client = server.connect();
        // A connection begins in version 2, and `HELLO` is refused where a password is needed.
        if version != 2 {
            client.hello(version);
        }
        Self { client }
    }

    /// Sends a command and reads its reply.
    pub(crate) fn call<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> Reply {
        reply(self.client.call_with(arguments))
    }
}

/// The tree of this crate for a reply.
fn reply(value: Value) -> Reply {
    let all = |values: Vec<Value>| values.into_iter().map(reply).collect();
    match value {
        Value::Status(text) => Reply::Status(String::from_utf8(text).expect("text").into()),
        Value::Error(text) => Reply::Error(text),
        Value::Integer(number) => Reply::Integer(number),
        Value::Double(number) => Reply::Double(number),
        Value::Bulk(bytes) => Reply::Bulk(bytes.into()),
        Value::Null | Value::NullBulk | Value::NullArray => Reply::Null,
        Value::Array(values) => Reply::Array(all(values)),
        Value::Set(values) => Reply::Set(all(values)),
        Value::Map(pairs) => {
            Reply::Map(pairs.into_iter().map(|(key, value)| (reply(key), reply(value))).collect())
        }
        other => panic!("no command of this crate answers {other:?}"),
    }
}
/// The bytes of a reply in a version of the protocol.
pub(crate) fn encode(reply: &Reply, version: u8, into: &mut Vec<u8>) {
    let head = |into: &mut Vec<u8>, old: char, new: char, count: usize| {
        let (kind, count) =
            if version == 2 { (old, count * if new == '%' { 2 } else { 1 }) } else { (new, count) };
        into.extend_from_slice(format!("{kind}{count}\r\n").as_bytes());
    };
    match reply {
        Reply::Status(text) => into.extend_from_slice(format!("+{text}\r\n").as_bytes()),
        Reply::Error(text) => into.extend_from_slice(&[b"-", &text[..], b"\r\n"].concat()),
        Reply::Bulk(bytes) => {
            into.extend_from_slice(format!("${}\r\n", bytes.len()).as_bytes());
            into.extend_from_slice(&[bytes, &b"\r\n"[..]].concat());
        }
        Reply::Integer(number) => into.extend_from_slice(format!(":{number}\r\n").as_bytes()),
        Reply::Double(number) => into.extend_from_slice(format!(",{number}\r\n").as_bytes()),
        Reply::Null => into.extend_from_slice(if version == 2 { b"$-1\r\n" } else { b"_\r\n" }),
        Reply::Array(items) => {
            head(into, '*', '*', items.len());
            items.iter().for_each(|item| encode(item, version, into));
        }
        Reply::Set(items) => {
            head(into, '*', '~', items.len());
            items.iter().for_each(|item| encode(item, version, into));
        }
        Reply::Map(pairs) => {
            head(into, '*', '%', pairs.len());
            for (key, value) in pairs {
                encode(key, version, into);
                encode(value, version, into);
            }
        }
    }
}

/// The bytes of a reply.
pub(crate) fn encoded(reply: &Reply, version: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(reply, version, &mut bytes);
    bytes
}
