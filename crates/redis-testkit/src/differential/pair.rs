//! Connections to two servers that get the same requests, their replies, and how a disagreement is told.

use super::request::{Request, full_name, line};
use crate::client::{Client, encode};
use crate::server::Server;
use esker_resp::value::Value;
use std::io;
use std::time::Duration;

/// Bytes of requests that are sent before replies are read: less than a socket holds.
pub(super) const PIPELINE_BYTES: usize = 32 << 10;

/// How long a reply or a push is awaited. Blocking commands wait for some milliseconds: what has not come by
/// then is missing, however busy the machine is.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// The same while a failure that was found is shrunk: each of many trials may end in silence.
pub(super) const SHRINKING_PATIENCE: Duration = Duration::from_secs(4);

/// A reply as a tree and as bytes, or why there is none.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) value: Value,
    pub(super) raw: Vec<u8>,
}

/// How the text of a missing reply begins.
const MISSING: &[u8] = b"(no reply";

impl Reply {
    /// Whether there was none.
    pub(super) fn is_missing(&self) -> bool {
        self.raw.starts_with(MISSING)
    }
}

/// Two replies that should be the same.
#[derive(Clone, Debug)]
pub struct Disagreement {
    /// Position of the request.
    pub at: usize,
    /// What was asked when the servers disagreed: the request itself, or a question about the state behind
    /// it.
    pub question: String,
    /// The command asked, to count failures of one kind.
    pub command: String,
    /// The reply of the first server.
    pub left: String,
    /// The reply of the second server.
    pub right: String,
}

/// One of the two servers.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) client: Client,
    /// Messages that came while replies to a subscription were read.
    pub(super) messages: Vec<Value>,
}

impl Side {
    /// Sends a request and reads its reply.
    pub(super) fn call(&mut self, request: &[Vec<u8>]) -> Reply {
        self.client.try_send(&encoded(request)).unwrap_or_default();
        self.read()
    }

    /// The next reply. A broken connection is a reply as well, so that it is found and shrunk like any other.
    pub(super) fn read(&mut self) -> Reply {
        match self.client.try_read() {
            Ok(value) => Reply { value, raw: self.client.raw().to_vec() },
            Err(error) => broken(&error),
        }
    }
}

fn broken(error: &io::Error) -> Reply {
    let text = format!("(no reply: {error})").into_bytes();
    Reply { value: Value::Error(text.clone()), raw: text }
}

/// Connections to both servers.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) left: Side,
    pub(super) right: Side,
    /// How long a reply or a push is awaited.
    pub(super) patience: Duration,
}

impl Pair {
    /// Connects to both, if both still listen.
    pub(super) fn connect(left: &Server, right: &Server, patience: Duration) -> io::Result<Self> {
        let side = |server: &Server| {
            let mut client = Client::try_connect(server.address())?;
            client.set_patience(patience);
            Ok::<_, io::Error>(Side { client, messages: Vec::new() })
        };
        Ok(Self { left: side(left)?, right: side(right)?, patience })
    }

    /// Sends a request to both sides and reads both replies.
    pub(super) fn call(&mut self, request: &[Vec<u8>]) -> (Reply, Reply) {
        let bytes = encoded(request);
        self.send(&bytes);
        self.read()
    }

    /// Sends requests to both sides in pipelines and reads all replies.
    pub(super) fn call_all(&mut self, requests: &[Request]) -> Vec<(Reply, Reply)> {
        let mut replies = Vec::new();
        while replies.len() < requests.len() {
            let (mut bytes, mut count) = (Vec::new(), 0);
            for request in &requests[replies.len()..] {
                let request = encoded(request);
                if count > 0 && bytes.len() + request.len() > PIPELINE_BYTES {
                    break;
                }
                bytes.extend(request);
                count += 1;
            }
            self.send(&bytes);
            replies.extend((0..count).map(|_| self.read()));
        }
        replies
    }

    /// The next reply of each.
    pub(super) fn read(&mut self) -> (Reply, Reply) {
        (self.left.read(), self.right.read())
    }

    /// Sends to both. What fails here is seen when the reply is read.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        self.left.client.try_send(bytes).unwrap_or_default();
        self.right.client.try_send(bytes).unwrap_or_default();
    }
}

/// Two replies that disagree.
pub(super) fn disagreement(at: usize, question: &[Vec<u8>], left: &[u8], right: &[u8]) -> Disagreement {
    let shown = |bytes: &[u8]| {
        let text = bytes[..bytes.len().min(600)].escape_ascii().to_string();
        if bytes.len() > 600 { format!("{text}... ({} bytes)", bytes.len()) } else { text }
    };
    let command = full_name(question);
    Disagreement { at, question: line(question), command, left: shown(left), right: shown(right) }
}

/// That a server does not listen any more.
pub(super) fn ended(at: usize, error: &io::Error) -> Disagreement {
    let text = error.to_string();
    let question = "a new connection".to_owned();
    Disagreement { at, command: question.clone(), question, left: text.clone(), right: text }
}

pub(super) fn encoded(request: &[Vec<u8>]) -> Vec<u8> {
    let arguments: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
    encode(&arguments)
}
