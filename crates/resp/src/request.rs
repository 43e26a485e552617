//! Requests: a parser that goes on where it stopped, and copies nothing.
//!
//! A request is an array of bulk strings, `*2\r\n$3\r\nGET\r\n$1\r\nk\r\n`, or an inline command, `GET
//! k\r\n`. Its arguments are places in the caller's buffer.
//!
//! Invariants:
//! * **Linear.** A byte is looked at once, however the input is cut: the parser remembers the arguments
//!   that it has and how far the current line is searched.
//! * **Bounded.** Everything announced is checked against [`Limits`] when it is read. The parser itself
//!   holds 8 bytes for each argument that has arrived, and allocates once for the first 16.
//! * **The outcome depends on the bytes alone,** not on how they were cut.
//!
//! As in Redis, the two bytes behind an argument and the one behind the `\r` of a count are skipped unread.

use crate::integer::parse_integer;
use crate::limits::{ARGUMENT_BYTES_BEFORE_AUTHENTICATION, ARGUMENTS_BEFORE_AUTHENTICATION, Limits};
use crate::line_search::{Found, LineSearch};
use crate::protocol_error::ProtocolError;
use crate::quoting::split_in_place;
use std::ops::Range;

/// Room for arguments that the first request allocates.
const USUAL_ARGUMENTS: usize = 16;
/// Room for arguments that is kept between requests.
const KEPT_ARGUMENTS: usize = 1024;

/// Where an argument is, in bytes from the request's beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its first byte.
    pub offset: u32,
    /// Its length.
    pub length: u32,
}

impl Argument {
    /// The argument's place as a range.
    #[must_use]
    pub fn range(self) -> Range<usize> {
        let offset = self.offset as usize;
        offset..offset + self.length as usize
    }

    /// The argument's bytes in the buffer that begins with its request.
    ///
    /// # Panics
    /// If `request` is another buffer, which is too short.
    #[must_use]
    pub fn of(self, request: &[u8]) -> &[u8] {
        &request[self.range()]
    }

    /// Of a place below the limit of requests, which fits 32 bits.
    fn new(place: &Range<usize>) -> Self {
        Self { offset: place.start as u32, length: place.len() as u32 }
    }
}

/// How far a call came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A request is complete: [`RequestParser::arguments`] has at least one. The next begins at `consumed`.
    Request {
        /// Bytes of this request.
        consumed: usize,
    },
    /// A request without arguments, which gets no reply: an empty line, `*0`, `*-1`. The next begins at
    /// `consumed`.
    Nothing {
        /// Bytes to skip.
        consumed: usize,
    },
    /// The request goes on behind the input.
    Incomplete {
        /// More bytes that it has at the least, 1 or more: so much may be read at once.
        missing: usize,
    },
}

/// What the parser reads next.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// A new request.
    Beginning,
    Inline,
    /// The line `*N`.
    Count,
    /// The line `$N`.
    Length,
    /// An argument of so many bytes.
    Bytes(u32),
}

/// Parses the requests of one connection.
///
/// ```
/// use esker_resp::limits::Limits;
/// use esker_resp::request::{Progress, RequestParser};
///
/// let mut input = b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\nPING \"a b\"\r\n".to_vec();
/// let mut parser = RequestParser::new();
/// let mut start = 0;
/// let mut requests = Vec::new();
/// while let Progress::Request { consumed } = parser.parse(&mut input[start..], &Limits::default())? {
///     let request = &input[start..];
///     requests.push(parser.arguments().iter().map(|place| place.of(request).to_vec()).collect::<Vec<_>>());
///     start += consumed;
/// }
/// assert_eq!(requests, [[b"GET".to_vec(), b"key".to_vec()], [b"PING".to_vec(), b"a b".to_vec()]]);
/// # Ok::<(), esker_resp::protocol_error::ProtocolError>(())
/// ```
#[derive(Debug)]
pub struct RequestParser {
    stage: Stage,
    /// Bytes of the request that are done with.
    position: usize,
    /// Arguments that are still to come.
    missing: u32,
    search: LineSearch,
    arguments: Vec<Argument>,
}

impl Default for RequestParser {
    fn default() -> Self {
        Self::new()
    }
}

impl RequestParser {
    /// A parser at the beginning of a request. It allocates nothing until a request arrives.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            stage: Stage::Beginning,
            position: 0,
            missing: 0,
            search: LineSearch::REQUEST,
            arguments: Vec::new(),
        }
    }

    /// Goes on with the current request. `input` begins with the request's first byte, has all that the last
    /// call had, and may have more: further requests as well, which are not looked at.
    ///
    /// Inline commands are unescaped in place, so `input` changes within the bytes of this request.
    ///
    /// # Errors
    /// If the bytes are no request, or one beyond the limits. The connection is to be closed, after
    /// [`ProtocolError::write_reply`].
    pub fn parse(&mut self, input: &mut [u8], limits: &Limits) -> Result<Progress, ProtocolError> {
        loop {
            let going_on = match self.stage {
                Stage::Beginning => self.begin(input),
                Stage::Inline => return self.inline(input, limits),
                Stage::Count => match self.count(input, limits)? {
                    Some(0) => return Ok(self.end()),
                    other => other.is_some(),
                },
                Stage::Length => self.length(input, limits)?,
                Stage::Bytes(length) => {
                    let end = self.position + length as usize + 2;
                    if input.len() < end {
                        return Ok(Progress::Incomplete { missing: end - input.len() });
                    }
                    self.arguments.push(Argument { offset: self.position as u32, length });
                    self.position = end;
                    self.missing -= 1;
                    if self.missing == 0 {
                        return self.end_with_command(input);
                    }
                    self.stage = Stage::Length;
                    true
                }
            };
            if !going_on {
                return Ok(Progress::Incomplete { missing: 1 });
            }
        }
    }

    /// The places of the arguments of the request that [`parse`](Self::parse) has just completed.
    #[must_use]
    pub fn arguments(&self) -> &[Argument] {
        &self.arguments
    }

    /// Bytes of heap that the parser holds: 8 for each argument, and for some between requests.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.arguments.capacity() * size_of::<Argument>()
    }

    /// Chooses the form of a request; `false` if there is none yet.
    fn begin(&mut self, input: &[u8]) -> bool {
        let Some(&first) = input.first() else { return false };
        self.arguments.clear();
        if self.arguments.capacity() > KEPT_ARGUMENTS {
            self.arguments = Vec::new();
        }
        self.arguments.reserve(USUAL_ARGUMENTS);
        self.position = 0;
        self.search = LineSearch::REQUEST;
        self.stage = if first == b'*' { Stage::Count } else { Stage::Inline };
        true
    }

    /// The request has no arguments.
    fn end(&mut self) -> Progress {
        self.stage = Stage::Beginning;
        Progress::Nothing { consumed: self.position }
    }

    fn end_with_command(&mut self, input: &[u8]) -> Result<Progress, ProtocolError> {
        self.stage = Stage::Beginning;
        let name = self.arguments[0].of(input);
        if matches!(name.len(), 4 | 5)
            && (name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:"))
        {
            return Err(ProtocolError::CrossProtocol);
        }
        Ok(Progress::Request { consumed: self.position })
    }

    fn inline(&mut self, input: &mut [u8], limits: &Limits) -> Result<Progress, ProtocolError> {
        let end = match self.search.find(input, 0, b'\n') {
            Found::At(end) => end,
            Found::NotYet => return Ok(Progress::Incomplete { missing: 1 }),
            Found::TooLong => return Err(ProtocolError::InlineTooLong),
        };
        if end >= limits.request_bytes as usize {
            return Err(ProtocolError::RequestTooLong);
        }
        let line = if end > 0 && input[end - 1] == b'\r' { end - 1 } else { end };
        let arguments = &mut self.arguments;
        split_in_place(&mut input[..line], |place| arguments.push(Argument::new(&place)))
            .map_err(|_| ProtocolError::UnbalancedQuotes)?;
        self.position = end + 1;
        if self.arguments.is_empty() { Ok(self.end()) } else { self.end_with_command(input) }
    }

    /// Reads the line `*N` and expects N arguments; `None` if the line is not complete.
    fn count(&mut self, input: &[u8], limits: &Limits) -> Result<Option<u32>, ProtocolError> {
        let number = match self.number(input) {
            Number::NotYet => return Ok(None),
            Number::TooLong => return Err(ProtocolError::CountLineTooLong),
            Number::Is(number) => number.filter(|&count| count <= i64::from(limits.arguments)),
        };
        let count = number.ok_or(ProtocolError::InvalidCount)?;
        if count > i64::from(ARGUMENTS_BEFORE_AUTHENTICATION) && !limits.authenticated {
            return Err(ProtocolError::UnauthenticatedCount);
        }
        self.stage = Stage::Length;
        self.missing = u32::try_from(count).unwrap_or(0);
        Ok(Some(self.missing))
    }

    /// Reads the line `$N` and expects N bytes; `false` if the line is not complete.
    fn length(&mut self, input: &[u8], limits: &Limits) -> Result<bool, ProtocolError> {
        let start = self.position;
        let number = match self.number(input) {
            Number::NotYet => return Ok(false),
            Number::TooLong => return Err(ProtocolError::LengthLineTooLong),
            Number::Is(number) => number,
        };
        if input[start] != b'$' {
            return Err(ProtocolError::NotAnArgument(input[start]));
        }
        let length = number
            .and_then(|number| u32::try_from(number).ok())
            .filter(|&length| length <= limits.argument_bytes)
            .ok_or(ProtocolError::InvalidLength)?;
        if length > ARGUMENT_BYTES_BEFORE_AUTHENTICATION && !limits.authenticated {
            return Err(ProtocolError::UnauthenticatedLength);
        }
        // Both fit 32 bits, so the sum does not overflow; places fit them because the limit does.
        if self.position as u64 + u64::from(length) + 2 > u64::from(limits.request_bytes) {
            return Err(ProtocolError::RequestTooLong);
        }
        self.stage = Stage::Bytes(length);
        Ok(true)
    }

    /// Reads a line of one byte and a number, and moves behind it.
    fn number(&mut self, input: &[u8]) -> Number {
        // Nearly all counts and lengths have one or two digits.
        match input[self.position..] {
            [b'$' | b'*', digit @ b'0'..=b'9', b'\r', _, ..] => {
                self.position += 4;
                return Number::Is(Some(i64::from(digit - b'0')));
            }
            [b'$' | b'*', tens @ b'1'..=b'9', ones @ b'0'..=b'9', b'\r', _, ..] => {
                self.position += 5;
                return Number::Is(Some(i64::from(tens - b'0') * 10 + i64::from(ones - b'0')));
            }
            _ => {}
        }
        match self.search.find(input, self.position, b'\r') {
            // The byte behind has to be there, too.
            Found::At(end) if end + 1 < input.len() => {
                let digits = input.get(self.position + 1..end).unwrap_or_default();
                self.position = end + 2;
                Number::Is(parse_integer(digits))
            }
            Found::At(_) | Found::NotYet => Number::NotYet,
            Found::TooLong => Number::TooLong,
        }
    }
}

/// A number in a line.
enum Number {
    /// The number, or `None` if the text is none.
    Is(Option<i64>),
    NotYet,
    TooLong,
}
