//! The forms of answers of the text protocol, and reading one without holding it in memory.

use crate::failure::Failure;
use std::io::{self, BufRead, Write};

/// What follows a command on the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// One line.
    Line,
    /// Lines up to an empty one, or an error of one line.
    Lines,
    /// Nothing: the server closes the connection.
    End,
}

impl Form {
    /// The form of the answer to a line, `None` for a line without one.
    pub(super) fn of(line: &[u8]) -> Option<Form> {
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        match (words.next()?, words.next()) {
            (b"s", _) => Some(Form::Lines),
            (b"q", None) => Some(Form::End),
            _ => Some(Form::Line),
        }
    }
}

/// Why an answer did not arrive.
#[derive(Debug)]
pub(super) enum Lost {
    /// The connection broke off.
    Connection(io::Error),
    /// What answers speaks another protocol.
    Protocol,
    /// The answer could not be written.
    Output(Failure),
}

impl From<Lost> for Failure {
    fn from(lost: Lost) -> Failure {
        match lost {
            Lost::Connection(error) => Failure::system("the server broke off", &error),
            Lost::Protocol => {
                Failure::unreachable("what answers there does not speak the text protocol of `esker serve`")
                    .advise(
                        "--connect HOST:PORT of the shell is the address of --dsl, by default 127.0.0.1:8080",
                    )
            }
            Lost::Output(failure) => failure,
        }
    }
}

/// Copies one answer; returns whether it is an error.
pub(super) fn copy(answers: &mut impl BufRead, form: Form, out: &mut dyn Write) -> Result<bool, Lost> {
    if form == Form::End {
        return Ok(false);
    }
    let mut is_first = true;
    loop {
        let line = copy_line(answers, out)?;
        let is_error = line == CopiedLine::Error;
        if form == Form::Line || line == CopiedLine::Empty || is_first && is_error {
            return Ok(is_first && is_error);
        }
        is_first = false;
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CopiedLine {
    Empty,
    Error,
    Other,
}

fn copy_line(answers: &mut impl BufRead, out: &mut dyn Write) -> Result<CopiedLine, Lost> {
    let mut start: Vec<u8> = Vec::new();
    loop {
        let available = answers.fill_buf().map_err(Lost::Connection)?;
        if available.is_empty() {
            return Err(Lost::Connection(io::ErrorKind::UnexpectedEof.into()));
        }
        let end = available.iter().position(|&byte| byte == b'\n');
        let piece = available.get(..end.map_or(available.len(), |end| end + 1)).unwrap_or_default();
        if start.is_empty() && is_of_other_protocol(piece) {
            return Err(Lost::Protocol);
        }
        out.write_all(piece).map_err(|error| Lost::Output(error.into()))?;
        start.extend(piece.iter().take(8_usize.saturating_sub(start.len())));
        let len = piece.len();
        answers.consume(len);
        if end.is_some() {
            return Ok(match start.as_slice() {
                b"\n" => CopiedLine::Empty,
                start if start.starts_with(b"Error:") => CopiedLine::Error,
                _ => CopiedLine::Other,
            });
        }
    }
}

/// Whether an answer begins as those of HTTP, of Redis, or of a binary protocol do. Ours begin with a digit,
/// a number's sign, a quote or a capital word, and none of those is `HTTP`.
fn is_of_other_protocol(piece: &[u8]) -> bool {
    match piece {
        [b'\n', ..] => false,
        [b'-', second, ..] => second.is_ascii_alphabetic(),
        [first, ..] => first.is_ascii_control() || piece.starts_with(b"HTTP/"),
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_other_protocols_are_known_by_their_beginning() {
        for other in
            ["HTTP/1.1 400 Bad Request\r\n", "-ERR unknown command 'p'\r\n", "\0\0\x18\x04", "\x15\x03\x01"]
        {
            assert!(is_of_other_protocol(other.as_bytes()), "{other:?}");
            let copied = copy(&mut other.as_bytes(), Form::Line, &mut Vec::new());
            assert!(matches!(copied, Err(Lost::Protocol)), "{other:?}: {copied:?}");
        }
        for ours in
            ["\n", "-5\n", "5\n", "\"HTTP/1.1\"\n", "OK\n", "Error: no\n", "-5:6 7:8\n", "Logical Pairs: 0\n"]
        {
            assert!(!is_of_other_protocol(ours.as_bytes()), "{ours:?}");
        }
    }
}
