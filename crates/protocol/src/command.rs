//! Parses one line of text into a command, or into an error sentence.

pub use crate::parse_error::ParseError;
use crate::scalar::{Kind, Scalar};
use crate::words::{Word, Words};

/// A command of the DSL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `p K V`: store a pair.
    Put {
        /// The key.
        key: Scalar,
        /// The value, of either kind.
        value: Scalar,
    },
    /// `g K`: the value of a key.
    Get {
        /// The key.
        key: Scalar,
    },
    /// `r A B`: the pairs from `start` up to but not including `end`; both are of one kind.
    Range {
        /// First key of the range.
        start: Scalar,
        /// First key after it.
        end: Scalar,
    },
    /// `d K`: delete a key.
    Delete {
        /// The key.
        key: Scalar,
    },
    /// `l "FILE"`: load a file of pairs (see [`crate::pairs`]).
    Load {
        /// The path as written; the executor resolves it.
        path: String,
    },
    /// `s [LIMIT]`: counts and contents by level.
    Show {
        /// At most this many pairs of contents; all of them without a limit.
        limit: Option<u64>,
    },
    /// `use [KEYSPACE]`: work on another keyspace.
    Use {
        /// Its name; the protocol's own pairs without one.
        keyspace: Option<String>,
    },
    /// `q`: close this connection.
    Quit,
}

/// The command table: name and syntax.
pub const USAGE: [(&str, &str); 8] = [
    ("p", "p KEY VALUE"),
    ("g", "g KEY"),
    ("r", "r START END"),
    ("d", "d KEY"),
    ("l", "l \"FILE\""),
    ("s", "s [LIMIT]"),
    ("use", "use [KEYSPACE]"),
    ("q", "q"),
];

/// Whether a line has no command: it is skipped without an answer.
pub fn is_blank(line: &[u8]) -> bool {
    line.trim_ascii().is_empty()
}

/// Parses one line, with or without its end-of-line bytes.
///
/// # Errors
/// A [`ParseError`] for anything but exactly one well-formed command. Takes time and memory in proportion to
/// the line, and does not panic, whatever the bytes.
pub fn parse_line(line: &[u8]) -> Result<Command, ParseError> {
    let mut words = Words::new(line);
    let name = match words.next()? {
        None => return Err(ParseError::Blank),
        Some(Word::Bare(name)) => name,
        Some(Word::Quoted(name)) => return Err(ParseError::UnknownCommand(name)),
    };
    let Some(usage) = USAGE.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, usage)| *usage)
    else {
        return Err(ParseError::UnknownCommand(name.to_vec()));
    };
    let mut arguments = Arguments { words, usage };
    let command = match name {
        b"p" => Command::Put { key: arguments.scalar("a key")?, value: arguments.scalar("a value")? },
        b"g" => Command::Get { key: arguments.scalar("a key")? },
        b"r" => arguments.range()?,
        b"d" => Command::Delete { key: arguments.scalar("a key")? },
        b"l" => Command::Load { path: arguments.file()? },
        b"s" => Command::Show { limit: arguments.limit()? },
        b"use" => Command::Use { keyspace: arguments.keyspace()? },
        _ => Command::Quit,
    };
    arguments.end()?;
    Ok(command)
}

struct Arguments<'a> {
    words: Words<'a>,
    usage: &'static str,
}

impl<'a> Arguments<'a> {
    fn word(&mut self, what: &'static str) -> Result<Word<'a>, ParseError> {
        self.words.next()?.ok_or(ParseError::Missing { what, usage: self.usage })
    }

    fn scalar(&mut self, what: &'static str) -> Result<Scalar, ParseError> {
        match self.word(what)? {
            Word::Quoted(bytes) => Ok(Scalar::Text(bytes)),
            Word::Bare(word) => parse_integer(word).map(Scalar::Integer),
        }
    }

    fn range(&mut self) -> Result<Command, ParseError> {
        let start = self.scalar("a first key")?;
        let end = self.scalar("an end key")?;
        if start.kind() != end.kind() {
            return Err(ParseError::MixedRange);
        }
        Ok(Command::Range { start, end })
    }

    fn file(&mut self) -> Result<String, ParseError> {
        match self.word("a file name in double quotes")? {
            Word::Quoted(bytes) if !bytes.is_empty() => {
                String::from_utf8(bytes).map_err(|_| ParseError::BadFileName)
            }
            _ => Err(ParseError::BadFileName),
        }
    }

    /// A name, bare or in quotes.
    fn keyspace(&mut self) -> Result<Option<String>, ParseError> {
        let name = match self.words.next()? {
            None => return Ok(None),
            Some(Word::Quoted(bytes)) => bytes,
            Some(Word::Bare(word)) => word.to_vec(),
        };
        String::from_utf8(name).map(Some).map_err(|error| ParseError::BadKeyspace(error.into_bytes()))
    }

    fn limit(&mut self) -> Result<Option<u64>, ParseError> {
        match self.words.next()? {
            None => Ok(None),
            Some(Word::Quoted(word)) => Err(ParseError::BadLimit(word)),
            Some(Word::Bare(word)) => match parse_integer(word).map(u64::try_from) {
                Ok(Ok(limit)) => Ok(Some(limit)),
                _ => Err(ParseError::BadLimit(word.to_vec())),
            },
        }
    }

    fn end(&mut self) -> Result<(), ParseError> {
        match self.words.next() {
            Ok(None) => Ok(()),
            _ => Err(ParseError::Extra { usage: self.usage }),
        }
    }
}

/// Digits with at most one minus sign; nothing else counts as a number, not even a plus sign.
fn parse_integer(word: &[u8]) -> Result<i64, ParseError> {
    let digits = word.strip_prefix(b"-").unwrap_or(word);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(ParseError::NotAScalar(word.to_vec()));
    }
    let number = std::str::from_utf8(word).ok().and_then(|word| word.parse().ok());
    number.ok_or_else(|| ParseError::OutOfRange(word.to_vec()))
}

impl Command {
    /// The kind of the command's keys, if it has any.
    pub fn kind(&self) -> Option<Kind> {
        match self {
            Command::Put { key, .. } | Command::Get { key } | Command::Delete { key } => Some(key.kind()),
            Command::Range { start, .. } => Some(start.kind()),
            Command::Load { .. } => Some(Kind::Integer),
            Command::Show { .. } | Command::Use { .. } | Command::Quit => None,
        }
    }
}

#[cfg(test)]
mod tests;
