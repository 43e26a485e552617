//! Replies, written into one buffer, in RESP2 or RESP3.
//!
//! | kind | RESP3 | RESP2 |
//! |---|---|---|
//! | status, error, integer, bulk, array | the same | `+` `-` `:` `$` `*` |
//! | null | `_` | `$-1` |
//! | null array | `_` | `*-1` |
//! | boolean | `#t`, `#f` | `:1`, `:0` |
//! | double | `,1.5` | bulk |
//! | long double | `,1.5` | bulk |
//! | big number | `(123` | bulk |
//! | verbatim | `=` with its format | bulk without it |
//! | map of n pairs | `%n` | `*2n` |
//! | set | `~n` | `*n` |
//! | push | `>n` | `*n` |
//! | attributes | the pairs as <code>&#124;n</code> | nothing |
//!
//! Invariant: **what users wrote adds no line.** Status and errors are one line each: CR and LF in them
//! become spaces, so that a command's name or a script's message cannot forge a further reply.

use crate::double::write_double;
use crate::integer::{write_integer, write_unsigned};
use crate::long_double::LongDouble;
use crate::value::Value;

/// A byte, the 20 digits of a count, and the end of the line.
const LONGEST_HEADER: usize = 23;

/// The protocol of a connection; `HELLO` chooses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// What a connection begins with.
    #[default]
    Resp2,
    /// Since Redis 6.
    Resp3,
}

/// An aggregate, whose elements follow its count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// Elements in order.
    Array,
    /// Elements without order.
    Set,
    /// Pairs; counted are the pairs.
    Map,
    /// A message that answers no request.
    Push,
}

/// A place for a count that is not known yet: from [`ReplyWriter::reserve`], for [`ReplyWriter::fill`].
#[must_use = "the reply is broken until the count is filled in"]
#[derive(Debug)]
pub struct Reserved {
    kind: Aggregate,
    /// Where the header begins, and its length.
    offset: usize,
    length: usize,
}

/// Appends replies to a buffer.
///
/// ```
/// use esker_resp::writer::{Protocol, ReplyWriter};
///
/// let mut out = Vec::new();
/// let mut reply = ReplyWriter::new(&mut out, Protocol::Resp2);
/// reply.map(1);
/// reply.bulk(b"score");
/// reply.double(1.5);
/// assert_eq!(out, b"*2\r\n$5\r\nscore\r\n$3\r\n1.5\r\n");
/// ```
#[derive(Debug)]
pub struct ReplyWriter<'b> {
    out: &'b mut Vec<u8>,
    protocol: Protocol,
}

impl<'b> ReplyWriter<'b> {
    /// A writer that appends to `out`.
    pub fn new(out: &'b mut Vec<u8>, protocol: Protocol) -> Self {
        Self { out, protocol }
    }

    /// The protocol that is written.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Writes in another protocol from here on.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// `+text`; CR and LF become spaces.
    pub fn status(&mut self, text: &[u8]) {
        self.out.push(b'+');
        self.one_line(text);
    }

    /// `-text`. The text begins with the error's code: `ERR syntax error`. CR and LF are removed at both ends
    /// and become spaces elsewhere.
    pub fn error(&mut self, text: &[u8]) {
        self.out.push(b'-');
        let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let start = text.iter().take_while(|byte| is_end(byte)).count();
        let end = text.len() - text[start..].iter().rev().take_while(|byte| is_end(byte)).count();
        self.one_line(&text[start..end]);
    }

    /// `:value`.
    pub fn integer(&mut self, value: i64) {
        self.out.push(b':');
        write_integer(value, self.out);
        self.end_line();
    }

    /// A string of any bytes.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.header(b'$', bytes.len() as u64);
        self.out.extend_from_slice(bytes);
        self.end_line();
    }

    /// A string of `length` bytes, which `append` appends. If that fails, what was written of the reply stays
    /// for the caller to take back.
    ///
    /// ```
    /// use esker_resp::writer::{Protocol, ReplyWriter};
    ///
    /// let mut out = Vec::new();
    /// let mut reply = ReplyWriter::new(&mut out, Protocol::Resp2);
    /// reply.bulk_of(3, |out| Ok::<(), ()>(out.extend_from_slice(b"abc"))).unwrap();
    /// assert_eq!(out, b"$3\r\nabc\r\n");
    /// ```
    ///
    /// # Errors
    /// Those of `append`.
    pub fn bulk_of<E>(
        &mut self,
        length: u64,
        append: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.header(b'$', length);
        let start = self.out.len();
        append(self.out)?;
        debug_assert_eq!((self.out.len() - start) as u64, length, "the string has the length that was said");
        self.end_line();
        Ok(())
    }

    /// An integer as a string: what `GET` answers for a number.
    pub fn bulk_integer(&mut self, value: i64) {
        self.text_of(b'$', |out| write_integer(value, out));
    }

    /// There is no value.
    pub fn null(&mut self) {
        self.raw(b"$-1\r\n", b"_\r\n");
    }

    /// There is no array.
    pub fn null_array(&mut self) {
        self.raw(b"*-1\r\n", b"_\r\n");
    }

    /// True or false.
    pub fn boolean(&mut self, value: bool) {
        if value {
            self.raw(b":1\r\n", b"#t\r\n");
        } else {
            self.raw(b":0\r\n", b"#f\r\n");
        }
    }

    /// A double, with 17 significant digits.
    pub fn double(&mut self, value: f64) {
        self.text_of(b',', |out| write_double(value, out));
    }

    /// A long double, with 17 digits behind the point.
    pub fn long_double(&mut self, value: LongDouble) {
        self.text_of(b',', |out| value.write(out));
    }

    /// An integer of any size, as decimal digits; other bytes than digits and signs are the caller's
    /// mistake and are written as for [`status`](Self::status).
    pub fn big_number(&mut self, digits: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(digits),
            Protocol::Resp3 => {
                self.out.push(b'(');
                self.one_line(digits);
            }
        }
    }

    /// Text for people, in a `format` of three bytes: `txt`, or `mkd` for Markdown.
    pub fn verbatim(&mut self, format: [u8; 3], text: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => {
                self.header(b'=', text.len() as u64 + 4);
                self.out.extend_from_slice(&format);
                self.out.push(b':');
                self.out.extend_from_slice(text);
                self.end_line();
            }
        }
    }

    /// The beginning of an array; `count` replies follow.
    pub fn array(&mut self, count: usize) {
        self.aggregate(Aggregate::Array, count);
    }

    /// The beginning of a set; `count` replies follow.
    pub fn set(&mut self, count: usize) {
        self.aggregate(Aggregate::Set, count);
    }

    /// The beginning of a map; `pairs` times two replies follow.
    pub fn map(&mut self, pairs: usize) {
        self.aggregate(Aggregate::Map, pairs);
    }

    /// The beginning of a message that answers no request; `count` replies follow.
    pub fn push(&mut self, count: usize) {
        self.aggregate(Aggregate::Push, count);
    }

    /// The beginning of attributes of the reply that follows them; `pairs` times two replies follow. RESP2
    /// has none: then it returns `false`, and the caller leaves them out.
    #[must_use]
    pub fn attributes(&mut self, pairs: usize) -> bool {
        let known = self.protocol == Protocol::Resp3;
        if known {
            self.header(b'|', pairs as u64);
        }
        known
    }

    /// The beginning of an aggregate.
    pub fn aggregate(&mut self, kind: Aggregate, count: usize) {
        let (byte, count) = self.form(kind, count);
        self.header(byte, count);
    }

    /// The beginning of an aggregate whose count is filled in behind its elements. If it then has as many
    /// digits as `expected`, nothing is moved; otherwise the elements are, once.
    pub fn reserve(&mut self, kind: Aggregate, expected: usize) -> Reserved {
        let offset = self.out.len();
        self.aggregate(kind, expected);
        Reserved { kind, offset, length: self.out.len() - offset }
    }

    /// Fills in a count. Of several reserved places the last is filled first.
    ///
    /// ```
    /// use esker_resp::writer::{Aggregate, Protocol, ReplyWriter};
    ///
    /// let mut out = Vec::new();
    /// let mut reply = ReplyWriter::new(&mut out, Protocol::Resp3);
    /// let place = reply.reserve(Aggregate::Set, 10);
    /// reply.integer(7);
    /// reply.fill(place, 1);
    /// assert_eq!(out, b"~1\r\n:7\r\n");
    /// ```
    #[expect(clippy::needless_pass_by_value, reason = "a place is filled or cancelled once")]
    pub fn fill(&mut self, place: Reserved, count: usize) {
        let Reserved { kind, offset, length } = place;
        let (byte, count) = self.form(kind, count);
        debug_assert_eq!(self.out.get(offset), Some(&byte), "places are filled in reverse order");
        if self.out.len() < offset + length {
            return;
        }
        // Written at the end of the buffer and moved from there, so that nothing is allocated.
        let end = self.out.len();
        self.header(byte, count);
        let mut header = [0; LONGEST_HEADER];
        let written = self.out.len() - end;
        header[..written].copy_from_slice(&self.out[end..]);
        self.out.truncate(end);
        if written == length {
            self.out[offset..offset + length].copy_from_slice(&header[..written]);
        } else {
            self.out.splice(offset..offset + length, header[..written].iter().copied());
        }
    }

    /// Takes back the reserved place and everything behind it: an error replaces the reply.
    #[expect(clippy::needless_pass_by_value, reason = "a place is filled or cancelled once")]
    pub fn cancel(&mut self, place: Reserved) {
        let Reserved { offset, .. } = place;
        self.out.truncate(offset);
    }

    /// A whole reply that is written already, in this protocol.
    pub fn written(&mut self, reply: &[u8]) {
        self.out.extend_from_slice(reply);
    }

    /// A whole reply. Kinds that RESP2 lacks fall back as above; `NullBulk` and `NullArray` are written as
    /// [`null`](Self::null) and [`null_array`](Self::null_array).
    pub fn value(&mut self, value: &Value) {
        match value {
            Value::Status(text) => self.status(text),
            Value::Error(text) => self.error(text),
            Value::Integer(value) => self.integer(*value),
            Value::Bulk(bytes) => self.bulk(bytes),
            Value::NullBulk | Value::Null => self.null(),
            Value::NullArray => self.null_array(),
            Value::Boolean(value) => self.boolean(*value),
            Value::Double(value) => self.double(*value),
            Value::BigNumber(digits) => self.big_number(digits),
            Value::Verbatim { format, text } => self.verbatim(*format, text),
            Value::Array(elements) => self.elements(Aggregate::Array, elements),
            Value::Set(elements) => self.elements(Aggregate::Set, elements),
            Value::Push(elements) => self.elements(Aggregate::Push, elements),
            Value::Map(pairs) => {
                self.map(pairs.len());
                self.pairs(pairs);
            }
            Value::Attributed { attributes, value } => {
                if self.attributes(attributes.len()) {
                    self.pairs(attributes);
                }
                self.value(value);
            }
        }
    }

    fn elements(&mut self, kind: Aggregate, elements: &[Value]) {
        self.aggregate(kind, elements.len());
        for element in elements {
            self.value(element);
        }
    }

    fn pairs(&mut self, pairs: &[(Value, Value)]) {
        for (name, value) in pairs {
            self.value(name);
            self.value(value);
        }
    }

    /// How the protocol writes an aggregate: its first byte and what is counted.
    fn form(&self, kind: Aggregate, count: usize) -> (u8, u64) {
        let count = count as u64;
        match (self.protocol, kind) {
            (Protocol::Resp2, Aggregate::Map) => (b'*', count * 2),
            (Protocol::Resp2, _) | (_, Aggregate::Array) => (b'*', count),
            (Protocol::Resp3, Aggregate::Set) => (b'~', count),
            (Protocol::Resp3, Aggregate::Map) => (b'%', count),
            (Protocol::Resp3, Aggregate::Push) => (b'>', count),
        }
    }

    /// A text that is made in place: a line that begins with `byte` in RESP3, a bulk string in RESP2 and
    /// for `$`.
    fn text_of(&mut self, byte: u8, write: impl FnOnce(&mut Vec<u8>)) {
        if byte != b'$' && self.protocol == Protocol::Resp3 {
            self.out.push(byte);
            write(self.out);
        } else {
            // Nearly all numbers have two digits or one of length.
            let offset = self.out.len();
            self.out.extend_from_slice(b"$00\r\n");
            let text = self.out.len();
            write(self.out);
            let length = self.out.len() - text;
            match length {
                0..=9 => {
                    self.out[offset + 1] = b'0' + length as u8;
                    self.out.remove(offset + 2);
                }
                10..=99 => {
                    self.out[offset + 1] = b'0' + (length / 10) as u8;
                    self.out[offset + 2] = b'0' + (length % 10) as u8;
                }
                _ => {
                    let mut digits = Vec::with_capacity(20);
                    write_unsigned(length as u64, &mut digits);
                    self.out.splice(offset + 1..offset + 3, digits);
                }
            }
        }
        self.end_line();
    }

    fn header(&mut self, byte: u8, count: u64) {
        self.out.push(byte);
        write_unsigned(count, self.out);
        self.end_line();
    }

    fn raw(&mut self, resp2: &[u8], resp3: &[u8]) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => resp2,
            Protocol::Resp3 => resp3,
        });
    }

    fn one_line(&mut self, text: &[u8]) {
        let start = self.out.len();
        self.out.extend_from_slice(text);
        for byte in &mut self.out[start..] {
            if matches!(byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
        self.end_line();
    }

    fn end_line(&mut self) {
        self.out.extend_from_slice(b"\r\n");
    }
}
