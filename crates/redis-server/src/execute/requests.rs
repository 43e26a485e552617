//! Requests that were parsed and not executed yet, as places in the bytes that were received.
//!
//! They are parsed ahead, so that a group of them shares one lookup and one batch, and can be executed once
//! more from its beginning.

use crate::command_kinds::CommandKind;
use esker_redis_commands::{Command, CommandFlags, Names};
use esker_resp::limits::Limits;
use esker_resp::protocol_error::ProtocolError;
use esker_resp::request::{Progress, RequestParser};

/// Requests that are parsed ahead.
const REQUESTS_AHEAD: usize = 1024;

/// Bytes of requests that are parsed ahead, one request more.
const BYTES_AHEAD: usize = 1 << 20;

/// Bytes of requests ahead beyond which a thread that serves other clients leaves them to one that may wait:
/// copying them takes it milliseconds, and memory that is touched first some ten times as long. Only a
/// request of three MiB or more makes them so many.
const RESIDENT_BYTES: usize = 4 << 20;

#[derive(Clone, Copy, Debug)]
struct Request {
    /// Its places.
    first: usize,
    count: usize,
}

/// Received bytes and the requests in them.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    input: Vec<u8>,
    parser: RequestParser,
    /// Bytes of executed requests at the beginning of the input.
    executed_bytes: usize,
    /// The same with those of the complete requests behind them.
    parsed_bytes: usize,
    requests: Vec<Request>,
    /// Offset and length of arguments.
    places: Vec<(usize, usize)>,
    next: usize,
    error: Option<ProtocolError>,
}

impl Requests {
    /// Where received bytes are appended.
    pub(crate) fn input(&mut self) -> &mut Vec<u8> {
        &mut self.input
    }

    /// Parses what has been received, if all that was parsed before is executed. Whether there is something
    /// to execute.
    pub(crate) fn parse(&mut self, limits: &Limits) -> bool {
        if self.next < self.requests.len() {
            return true;
        }
        self.drop_executed();
        // What a client may send grows with its authentication, which is a request itself.
        let most = if limits.authenticated { REQUESTS_AHEAD } else { 1 };
        while self.error.is_none() && self.requests.len() < most && self.bytes_ahead() < BYTES_AHEAD {
            let input = &mut self.input[self.parsed_bytes..];
            match self.parser.parse(input, limits) {
                Ok(Progress::Request { consumed }) => {
                    let first = self.places.len();
                    let at = self.parsed_bytes;
                    self.places.extend(self.parser.arguments().iter().map(|place| {
                        let range = place.range();
                        (at + range.start, range.len())
                    }));
                    self.requests.push(Request { first, count: self.places.len() - first });
                    self.parsed_bytes += consumed;
                }
                Ok(Progress::Nothing { consumed }) => self.parsed_bytes += consumed,
                Ok(Progress::Incomplete { .. }) => break,
                Err(error) => self.error = Some(error),
            }
        }
        !self.requests.is_empty()
    }

    fn drop_executed(&mut self) {
        self.requests.clear();
        self.places.clear();
        self.next = 0;
        self.executed_bytes = self.parsed_bytes;
        // Moving the rest costs less than what was executed, so the cost of a byte is constant, however few
        // requests are parsed at a time.
        if self.executed_bytes * 2 >= self.input.len() {
            self.input.drain(..self.executed_bytes);
            (self.executed_bytes, self.parsed_bytes) = (0, 0);
        }
    }

    /// Bytes of requests that are parsed ahead.
    fn bytes_ahead(&self) -> usize {
        self.parsed_bytes - self.executed_bytes
    }

    /// Whether the requests ahead are too large for a thread that serves other clients.
    pub(crate) fn are_large(&self) -> bool {
        self.bytes_ahead() > RESIDENT_BYTES
    }

    /// The error behind the requests, once they are executed.
    pub(crate) fn error(&self) -> Option<ProtocolError> {
        self.error.filter(|_| self.next == self.requests.len())
    }

    /// The position of the next request.
    pub(crate) fn position(&self) -> usize {
        self.next
    }

    /// Requests that are not executed yet.
    pub(crate) fn remaining(&self) -> usize {
        self.requests.len() - self.next
    }

    /// Goes back to an earlier position, or forward.
    pub(crate) fn set_position(&mut self, position: usize) {
        self.next = position;
    }

    /// The arguments of the next request; `None` behind the last.
    pub(crate) fn arguments(&self) -> Option<impl ExactSizeIterator<Item = &[u8]>> {
        self.at(self.next)
    }

    /// The arguments of the request at a position; `None` behind the last.
    pub(crate) fn at(&self, position: usize) -> Option<impl ExactSizeIterator<Item = &[u8]>> {
        let request = self.requests.get(position)?;
        let places = &self.places[request.first..request.first + request.count];
        Some(places.iter().map(|(offset, length)| &self.input[*offset..offset + length]))
    }

    /// Whether the requests that are not executed yet only read, as far as their commands tell by themselves.
    /// Scripts do not count: they run as long as they like.
    pub(crate) fn only_read(&self, names: &Names) -> bool {
        let only_reads = |command: &Command| {
            command.flags().contains(CommandFlags::READONLY)
                && !command.flags().contains(CommandFlags::NOSCRIPT)
                && !CommandKind::of(command).changes_keys
        };
        let mut commands = (self.next..self.requests.len()).map(|at| names.find(self.at(at)?.next()?));
        commands.all(|command| command.is_some_and(only_reads))
    }

    /// Bytes that were received and not executed.
    pub(crate) fn waiting_bytes(&self) -> usize {
        match self.requests.get(self.next) {
            Some(_) => self.input.len() - self.executed_bytes,
            None => self.input.len() - self.parsed_bytes,
        }
    }

    /// Whether nothing is left of what was received.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting_bytes() == 0
    }

    /// Frees the buffers; nothing may be left in them.
    pub(crate) fn shrink(&mut self) {
        debug_assert!(self.is_empty());
        *self = Self::default();
    }

    /// Bytes of memory that the requests take.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.input.capacity()
            + self.requests.capacity() * size_of::<Request>()
            + self.places.capacity() * size_of::<(usize, usize)>()
            + self.parser.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(text: &[u8]) -> Requests {
        let mut requests = Requests::default();
        requests.input().extend_from_slice(text);
        assert!(requests.parse(&Limits::default()));
        requests
    }

    #[test]
    fn one_large_request_makes_requests_large() {
        let set =
            |bytes: usize| format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${bytes}\r\n{}\r\n", "x".repeat(bytes));
        assert!(!requests(set(100_000).repeat(100).as_bytes()).are_large());
        assert!(requests([set(10), set(RESIDENT_BYTES)].concat().as_bytes()).are_large());
    }

    #[test]
    fn a_pipeline_only_reads_if_all_of_it_does() {
        for text in [&b"GET a\r\n"[..], b"get a\r\nLRANGE l 0 1\r\n"] {
            assert!(requests(text).only_read(&Names::default()));
        }
        for text in
            [&b"GET a\r\nSET a b\r\n"[..], b"PFCOUNT a\r\n", b"EXEC\r\n", b"EVAL_RO x 0\r\n", b"NONE\r\n"]
        {
            assert!(!requests(text).only_read(&Names::default()));
        }
        let mut rest = requests(b"SET a b\r\nGET a\r\n");
        rest.set_position(1);
        assert!(rest.only_read(&Names::default()), "what is executed already does not count");
    }
}
