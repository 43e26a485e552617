//! Reads a text file line by line, with line numbers.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read};

/// The mark that some editors put before the first line.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Longest record of a text file: holds the longest value with every byte escaped, and its key.
pub(super) const MAX_RECORD_BYTES: usize = 4 * esker::parts::base::limits::MAX_VALUE_LEN + (1 << 20);

pub(super) struct Lines<'a> {
    reader: BufReader<Box<dyn Read + 'a>>,
    /// Lines that were read ahead and given back.
    returned: VecDeque<Vec<u8>>,
    number: u64,
    position: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// Its bytes with the line end, if it has one.
    Text(Vec<u8>),
    /// Longer than any record can be; it was skipped.
    TooLong,
}

impl<'a> Lines<'a> {
    pub(super) fn new(input: Box<dyn Read + 'a>) -> Lines<'a> {
        let reader = BufReader::with_capacity(64 << 10, input);
        Lines { reader, returned: VecDeque::new(), number: 0, position: 0 }
    }

    /// Number of the line that [`Lines::next`] gave last, from one.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn position(&self) -> u64 {
        self.position
    }

    pub(super) fn next(&mut self) -> io::Result<Option<Line>> {
        if let Some(line) = self.returned.pop_front() {
            self.number += 1;
            return Ok(Some(Line::Text(line)));
        }
        let mut line = Vec::new();
        let read = (&mut self.reader).take(MAX_RECORD_BYTES as u64).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(None);
        }
        self.position += read as u64;
        self.number += 1;
        if read == MAX_RECORD_BYTES && line.last() != Some(&b'\n') {
            self.position += self.reader.skip_until(b'\n')? as u64;
            return Ok(Some(Line::TooLong));
        }
        if self.number == 1 && line.starts_with(BYTE_ORDER_MARK) {
            line.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(Some(Line::Text(line)))
    }

    /// Gives back lines that were read last, in their order: they will be read again.
    pub(super) fn give_back(&mut self, lines: Vec<Vec<u8>>) {
        self.number -= lines.len() as u64;
        for line in lines.into_iter().rev() {
            self.returned.push_front(line);
        }
    }
}

/// The line without `\n` or `\r\n`.
pub(super) fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}
