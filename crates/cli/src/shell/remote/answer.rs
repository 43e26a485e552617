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
    /// The answer could not be written.
    Output(Failure),
}

impl From<Lost> for Failure {
    fn from(lost: Lost) -> Failure {
        match lost {
            Lost::Connection(error) => Failure::system("the server broke off", &error),
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
