//! A blocking client: one connection, replies as trees and as bytes, pushes kept apart.

use crate::stream::{PATIENCE, Stream};
use esker_resp::value::Value;
use esker_resp::value_parser::ReplyParser;
use rustls::ClientConfig;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

/// A connection. What goes wrong on it panics: the test has failed.
#[derive(Debug)]
pub struct Client {
    stream: Stream,
    parser: ReplyParser,
    unread: Vec<u8>,
    /// Where the next reply begins in `unread`.
    start: usize,
    raw: Vec<u8>,
    pushes: VecDeque<Value>,
}

impl Client {
    /// Connects to `host:port`.
    pub fn connect(address: &str) -> Self {
        Self::try_connect(address).expect("the server listens")
    }

    /// Connects to `host:port`, if a server listens there.
    ///
    /// # Errors
    /// If none does.
    pub fn try_connect(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self::over(Stream::Plain(stream)))
    }

    /// Connects to `host:port` with TLS and ends the handshake, if the server accepts it.
    ///
    /// # Errors
    /// If no server listens, or one of both refuses the other.
    pub fn try_connect_tls(address: &str, config: &Arc<ClientConfig>) -> io::Result<Self> {
        let mut client = Self::over(Stream::connect_tls(address, config)?);
        // The server may refuse a certificate after the client's part of the handshake is over.
        client.try_send(b"PING\r\n")?;
        client.try_read().map(|_| client)
    }

    /// The same for a server that accepts it.
    pub fn connect_tls(address: &str, config: &Arc<ClientConfig>) -> Self {
        Self::try_connect_tls(address, config).expect("the server accepts TLS")
    }

    fn over(stream: Stream) -> Self {
        Self {
            stream,
            parser: ReplyParser::default(),
            unread: Vec::new(),
            start: 0,
            raw: Vec::new(),
            pushes: VecDeque::new(),
        }
    }

    /// Sends a request and reads its reply.
    pub fn call(&mut self, arguments: &[&[u8]]) -> Value {
        self.send(&encode(arguments));
        self.read()
    }

    /// The same for arguments of any type that has bytes.
    pub fn call_with<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> Value {
        let arguments: Vec<&[u8]> = arguments.iter().map(AsRef::as_ref).collect();
        self.call(&arguments)
    }

    /// Sends a request of words without spaces in them.
    pub fn words(&mut self, request: &str) -> Value {
        let words: Vec<&str> = request.split_whitespace().collect();
        self.call_with(&words)
    }

    /// Chooses the version of the protocol.
    pub fn hello(&mut self, version: u8) {
        let reply = self.words(&format!("HELLO {version}"));
        assert!(reply.error().is_none(), "HELLO {version}: {}", self.raw.escape_ascii());
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).expect("the server reads");
    }

    /// Sends bytes, if the server still reads.
    ///
    /// # Errors
    /// If it has closed the connection.
    pub fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    /// Sends the last bytes. A server that has closed already, because of the first of them, does not matter.
    pub fn send_all(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
        self.stream.end_writing();
    }

    /// Reads the next reply. Pushes before it wait for [`read_push`](Self::read_push).
    pub fn read(&mut self) -> Value {
        self.try_read().expect("the server answers")
    }

    /// Reads the next reply, as [`read`](Self::read) does.
    ///
    /// # Errors
    /// If the server closes the connection, answers nothing for long, or what is no reply.
    pub fn try_read(&mut self) -> io::Result<Value> {
        loop {
            match self.next_value()? {
                Value::Push(push) => self.pushes.push_back(Value::Push(push)),
                reply => return Ok(reply),
            }
        }
    }

    /// Waits so long for a reply, and not a minute.
    pub fn set_patience(&mut self, patience: Duration) {
        self.stream.socket().set_read_timeout(Some(patience)).expect("a socket");
    }

    /// Reads the next push; those come first that came before replies.
    pub fn read_push(&mut self) -> Value {
        let push = self.pushes.pop_front();
        push.unwrap_or_else(|| match self.next_value().expect("the server answers") {
            Value::Push(push) => Value::Push(push),
            reply => panic!("a push was awaited, and this reply came: {reply:?}"),
        })
    }

    /// Reads what comes next, a reply or a push.
    ///
    /// # Errors
    /// As for [`try_read`](Self::try_read).
    pub fn try_read_any(&mut self) -> io::Result<Value> {
        self.next_value()
    }

    /// The pushes that came before the replies that were read.
    pub fn take_pushes(&mut self) -> Vec<Value> {
        self.pushes.drain(..).collect()
    }

    /// The bytes of what was read last.
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// All that comes until the server closes, behind what was read.
    pub fn read_to_end(&mut self) -> Vec<u8> {
        let mut bytes = self.unread.split_off(self.start);
        let mut piece = [0; 4096];
        // A reset is an end as well: the server closes with bytes unread.
        while let Ok(length @ 1..) = self.stream.read(&mut piece) {
            bytes.extend_from_slice(&piece[..length]);
        }
        bytes
    }

    /// The socket itself, for tests of what happens on it.
    pub fn stream(&self) -> &TcpStream {
        self.stream.socket()
    }

    /// The next reply or push.
    fn next_value(&mut self) -> io::Result<Value> {
        self.raw.clear();
        loop {
            let input = &self.unread[self.start..];
            let parsed = self.parser.parse(input).map_err(io::Error::other)?;
            self.raw.extend_from_slice(&input[..parsed.consumed]);
            self.start += parsed.consumed;
            if let Some(value) = parsed.reply {
                return Ok(value);
            }
            self.unread.drain(..self.start);
            self.start = 0;
            let mut piece = [0; 65_536];
            let length = match self.stream.read(&mut piece) {
                // A signal to this process, which the system tells reads with a time limit.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            if length == 0 {
                return Err(io::Error::other("the server closed the connection"));
            }
            self.unread.extend_from_slice(&piece[..length]);
        }
    }
}

/// A request as an array of bulk strings.
pub fn encode(arguments: &[&[u8]]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        request.extend(format!("${}\r\n", argument.len()).bytes());
        request.extend_from_slice(argument);
        request.extend(b"\r\n");
    }
    request
}

/// Takes a reply for the kind that a test expects; panics if it is another.
pub trait ExpectKind {
    /// The bytes of a bulk string.
    fn bulk(self) -> Vec<u8>;
    /// The number of an integer.
    fn integer(self) -> i64;
    /// The elements of an array.
    fn array(self) -> Vec<Value>;
}

impl ExpectKind for Value {
    fn bulk(self) -> Vec<u8> {
        match self {
            Self::Bulk(bytes) => bytes,
            other => panic!("expected a string, not {other:?}"),
        }
    }

    fn integer(self) -> i64 {
        match self {
            Self::Integer(number) => number,
            other => panic!("expected an integer, not {other:?}"),
        }
    }

    fn array(self) -> Vec<Value> {
        match self {
            Self::Array(items) => items,
            other => panic!("expected an array, not {other:?}"),
        }
    }
}
