//! Cuts a line into words: bare ones and strings in double quotes.

use crate::parse_error::ParseError;

/// One word of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Word<'a> {
    /// Anything without white space and quotes.
    Bare(&'a [u8]),
    /// The content of double quotes, escapes resolved.
    Quoted(Vec<u8>),
}

/// The words of a line, front to back.
#[derive(Clone, Debug)]
pub(crate) struct Words<'a> {
    rest: &'a [u8],
}

impl<'a> Words<'a> {
    pub(crate) fn new(line: &'a [u8]) -> Words<'a> {
        Words { rest: line }
    }

    /// The next word, `None` at the end of the line.
    pub(crate) fn next(&mut self) -> Result<Option<Word<'a>>, ParseError> {
        self.rest = self.rest.trim_ascii_start();
        match self.rest.first() {
            None => Ok(None),
            Some(b'"') => self.quoted().map(Some),
            Some(_) => Ok(Some(self.bare())),
        }
    }

    fn bare(&mut self) -> Word<'a> {
        let len = self.rest.iter().position(|byte| byte.is_ascii_whitespace()).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(len);
        self.rest = rest;
        Word::Bare(word)
    }

    /// A string; `rest` starts with its opening quote.
    fn quoted(&mut self) -> Result<Word<'a>, ParseError> {
        let mut bytes = Vec::new();
        let mut rest = self.rest.get(1..).unwrap_or_default();
        loop {
            let plain = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'));
            let Some(plain) = plain else { return Err(ParseError::OpenString) };
            let (before, special) = rest.split_at(plain);
            bytes.extend_from_slice(before);
            if let Some(after) = special.strip_prefix(b"\"") {
                if after.first().is_some_and(|byte| !byte.is_ascii_whitespace()) {
                    return Err(ParseError::GluedString);
                }
                self.rest = after;
                return Ok(Word::Quoted(bytes));
            }
            let (byte, len) = escape(special)?;
            bytes.push(byte);
            rest = special.get(len..).unwrap_or_default();
        }
    }
}

/// Resolves the escape at the start of `bytes`: its byte and its length.
fn escape(bytes: &[u8]) -> Result<(u8, usize), ParseError> {
    let bad = |len: usize| ParseError::BadEscape(bytes.get(..len).unwrap_or(bytes).to_vec());
    match bytes.get(1) {
        None => Err(ParseError::OpenString),
        Some(b'"') => Ok((b'"', 2)),
        Some(b'\\') => Ok((b'\\', 2)),
        Some(b'n') => Ok((b'\n', 2)),
        Some(b't') => Ok((b'\t', 2)),
        Some(b'x') => {
            let digit = |at: usize| bytes.get(at).and_then(|&byte| char::from(byte).to_digit(16));
            let (Some(high), Some(low)) = (digit(2), digit(3)) else { return Err(bad(4)) };
            Ok(((high * 16 + low) as u8, 4))
        }
        Some(_) => Err(bad(2)),
    }
}
