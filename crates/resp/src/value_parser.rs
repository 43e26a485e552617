//! Replies read by a client, in RESP2 and RESP3.
//!
//! The parser keeps an explicit stack of the aggregates that are open, so hostile nesting costs no stack, and
//! goes on where it stopped, so a large reply is read in linear time. A server is not trusted either:
//! depth, bytes and elements are bounded, and memory is asked for only as elements arrive. The streamed
//! forms of RESP3 (`$?`, `*?`), which Redis never sends, are refused.

use crate::double::parse_double;
use crate::integer::parse_integer;
use crate::line_search::{Found, LineSearch};
use crate::value::Value;
use std::fmt;

/// The deepest nesting that [`ReplyLimits::depth`] can allow: values are dropped and written by recursion.
pub const DEEPEST: usize = 128;

/// What a reply may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyLimits {
    /// Aggregates within aggregates; 32 by default, at most [`DEEPEST`].
    pub depth: usize,
    /// Bytes of a whole reply, 1 GiB by default.
    pub bytes: u64,
    /// Elements in all aggregates of a reply together, 16,777,216 by default. Each takes some 32 bytes of
    /// memory.
    pub elements: u64,
}

impl Default for ReplyLimits {
    fn default() -> Self {
        Self { depth: 32, bytes: 1 << 30, elements: 1 << 24 }
    }
}

/// Why bytes are no reply. Where the next one begins is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyError {
    /// No reply begins with this byte.
    UnknownKind(u8),
    /// The text behind the first byte is none of its kind: a wrong count, a boolean that is neither.
    Malformed(u8),
    /// A line or a bulk string does not end with CR and LF.
    NoLineEnd,
    /// Too deep, too long, or too many elements.
    AboveLimit,
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKind(byte) => write!(f, "no reply begins with '{}'", byte.escape_ascii()),
            Self::Malformed(kind) => {
                write!(f, "what follows '{}' is no value of that kind", kind.escape_ascii())
            }
            Self::NoLineEnd => f.write_str("CR LF is missing at the end of a reply's line or string"),
            Self::AboveLimit => f.write_str("the reply is larger or deeper than the limits allow"),
        }
    }
}

impl std::error::Error for ReplyError {}

/// What a call to [`ReplyParser::parse`] did.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// Bytes of the input that are done with; the next call's input begins behind them.
    pub consumed: usize,
    /// The reply, if it is complete.
    pub reply: Option<Value>,
}

/// An aggregate that waits for elements.
#[derive(Debug)]
struct Open {
    kind: Kind,
    missing: u64,
    elements: Vec<Value>,
}

#[derive(Debug)]
enum Kind {
    Array,
    Set,
    Push,
    Map,
    Attributes,
    /// Waits for the value that the attributes are about.
    Attributed(Vec<(Value, Value)>),
}

/// A string whose bytes are awaited.
#[derive(Clone, Copy, Debug)]
struct Awaited {
    kind: u8,
    length: usize,
}

/// Parses the replies on one connection.
///
/// ```
/// use esker_resp::value::Value;
/// use esker_resp::value_parser::ReplyParser;
///
/// let mut parser = ReplyParser::default();
/// let half = parser.parse(b"*2\r\n:1\r\n$5\r\nhel")?;
/// assert_eq!((half.consumed, half.reply), (12, None));
/// let rest = parser.parse(b"hello\r\n+OK\r\n")?;
/// assert_eq!(rest.consumed, 7);
/// assert_eq!(rest.reply, Some(Value::Array(vec![Value::Integer(1), Value::Bulk(b"hello".to_vec())])));
/// # Ok::<(), esker_resp::value_parser::ReplyError>(())
/// ```
#[derive(Debug, Default)]
pub struct ReplyParser {
    limits: ReplyLimits,
    open: Vec<Open>,
    awaited: Option<Awaited>,
    search: LineSearch,
    /// Of the current reply.
    bytes: u64,
    elements: u64,
}

impl ReplyParser {
    /// A parser with other limits than the default ones.
    #[must_use]
    pub fn new(limits: ReplyLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Reads on, up to the end of one reply. `input` begins where the last call stopped consuming.
    ///
    /// # Errors
    /// If the bytes are no reply, or one beyond the limits; the connection is to be closed.
    pub fn parse(&mut self, input: &[u8]) -> Result<Parsed, ReplyError> {
        let mut consumed = 0;
        loop {
            let rest = &input[consumed..];
            let step = match self.awaited {
                Some(awaited) => self.string(rest, awaited)?,
                None => self.line(rest)?,
            };
            let Some((length, value)) = step else { return Ok(Parsed { consumed, reply: None }) };
            consumed += length;
            self.bytes += length as u64;
            self.search = LineSearch::default();
            if self.bytes > self.limits.bytes {
                return Err(ReplyError::AboveLimit);
            }
            if let Some(reply) = value.and_then(|value| self.close(value)) {
                (self.bytes, self.elements) = (0, 0);
                return Ok(Parsed { consumed, reply: Some(reply) });
            }
        }
    }

    /// Reads one line: its length and the value, if it is one by itself. `None` if it is incomplete.
    fn line(&mut self, input: &[u8]) -> Result<Option<(usize, Option<Value>)>, ReplyError> {
        let end = match self.search.find(input, 0, b'\r') {
            Found::At(end) if end + 1 < input.len() => end,
            Found::At(_) | Found::NotYet => return Ok(None),
            Found::TooLong => return Err(ReplyError::AboveLimit),
        };
        if input[end + 1] != b'\n' || end == 0 {
            return Err(ReplyError::NoLineEnd);
        }
        let (kind, text) = (input[0], &input[1..end]);
        let malformed = ReplyError::Malformed(kind);
        let value = match kind {
            b'+' => Some(Value::Status(text.to_vec())),
            b'-' => Some(Value::Error(text.to_vec())),
            b':' => Some(Value::Integer(parse_integer(text).ok_or(malformed)?)),
            b'_' if text.is_empty() => Some(Value::Null),
            b'#' if matches!(text, b"t" | b"f") => Some(Value::Boolean(text == b"t")),
            b',' => Some(Value::Double(double(text).ok_or(malformed)?)),
            b'(' if is_big_number(text) => Some(Value::BigNumber(text.to_vec())),
            b'$' if text == b"-1" => Some(Value::NullBulk),
            b'*' if text == b"-1" => Some(Value::NullArray),
            b'$' | b'=' | b'!' => {
                let length = parse_integer(text).and_then(|length| u64::try_from(length).ok());
                self.awaited = Some(self.await_string(kind, length.ok_or(malformed)?)?);
                None
            }
            b'*' | b'~' | b'>' | b'%' | b'|' => {
                let count = parse_integer(text).and_then(|count| u64::try_from(count).ok());
                self.begin(kind, count.ok_or(malformed)?)?
            }
            b'_' | b'#' | b'(' => return Err(malformed),
            _ => return Err(ReplyError::UnknownKind(kind)),
        };
        Ok(Some((end + 2, value)))
    }

    fn await_string(&self, kind: u8, length: u64) -> Result<Awaited, ReplyError> {
        if length > self.limits.bytes.saturating_sub(self.bytes) {
            return Err(ReplyError::AboveLimit);
        }
        let length = usize::try_from(length).map_err(|_| ReplyError::AboveLimit)?;
        Ok(Awaited { kind, length })
    }

    /// Reads the bytes of a string and the end of line behind them.
    fn string(
        &mut self,
        input: &[u8],
        awaited: Awaited,
    ) -> Result<Option<(usize, Option<Value>)>, ReplyError> {
        let Awaited { kind, length } = awaited;
        let Some((text, [cr, lf, ..])) = input.split_at_checked(length) else { return Ok(None) };
        if (*cr, *lf) != (b'\r', b'\n') {
            return Err(ReplyError::NoLineEnd);
        }
        self.awaited = None;
        let value = match (kind, text) {
            (b'$', _) => Value::Bulk(text.to_vec()),
            (b'!', _) => Value::Error(text.to_vec()),
            (_, [a, b, c, b':', text @ ..]) => Value::Verbatim { format: [*a, *b, *c], text: text.to_vec() },
            _ => return Err(ReplyError::Malformed(kind)),
        };
        Ok(Some((length + 2, Some(value))))
    }

    /// Opens an aggregate; one without elements is a value at once.
    fn begin(&mut self, byte: u8, count: u64) -> Result<Option<Value>, ReplyError> {
        let (kind, per_entry) = match byte {
            b'*' => (Kind::Array, 1),
            b'~' => (Kind::Set, 1),
            b'>' => (Kind::Push, 1),
            b'%' => (Kind::Map, 2),
            _ => (Kind::Attributes, 2),
        };
        let missing = count.checked_mul(per_entry).ok_or(ReplyError::AboveLimit)?;
        self.elements = self.elements.saturating_add(missing);
        let depth = self.limits.depth.min(DEEPEST);
        if self.open.len() >= depth || self.elements > self.limits.elements {
            return Err(ReplyError::AboveLimit);
        }
        if missing > 0 {
            self.open.push(Open { kind, missing, elements: Vec::new() });
            return Ok(None);
        }
        Ok(match kind {
            Kind::Attributes => {
                self.open.push(Open { kind: Kind::Attributed(Vec::new()), missing: 1, elements: Vec::new() });
                None
            }
            kind => Some(finish(kind, Vec::new())),
        })
    }

    /// Puts a value where it belongs and closes what it completes; returns the reply if that is all of it.
    fn close(&mut self, mut value: Value) -> Option<Value> {
        loop {
            let Some(mut top) = self.open.pop() else { return Some(value) };
            top.elements.push(value);
            top.missing -= 1;
            if top.missing > 0 {
                self.open.push(top);
                return None;
            }
            if let Kind::Attributes = top.kind {
                let kind = Kind::Attributed(pairs(top.elements));
                self.open.push(Open { kind, missing: 1, elements: Vec::new() });
                return None;
            }
            value = finish(top.kind, top.elements);
        }
    }
}

fn finish(kind: Kind, mut elements: Vec<Value>) -> Value {
    match kind {
        Kind::Array => Value::Array(elements),
        Kind::Set => Value::Set(elements),
        Kind::Push => Value::Push(elements),
        Kind::Map | Kind::Attributes => Value::Map(pairs(elements)),
        Kind::Attributed(attributes) => {
            Value::Attributed { attributes, value: Box::new(elements.pop().unwrap_or(Value::Null)) }
        }
    }
}

/// Of an even count.
fn pairs(elements: Vec<Value>) -> Vec<(Value, Value)> {
    let mut elements = elements.into_iter();
    std::iter::from_fn(|| Some((elements.next()?, elements.next()?))).collect()
}

/// `nan` is a double on the wire, though no number that a client may send.
fn double(text: &[u8]) -> Option<f64> {
    match text {
        b"nan" | b"-nan" => Some(f64::NAN),
        _ => parse_double(text),
    }
}

fn is_big_number(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").or_else(|| text.strip_prefix(b"+")).unwrap_or(text);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}
