//! Line splitter: cuts a byte stream into lines of bounded length.
//!
//! The buffer holds at most one line of the permitted length and one read after it. A longer line is reported
//! once, when it passes the limit, and its bytes are discarded up to its end.

/// What [`LineBuffer::next_line`] found.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A line without its `\n`.
    Complete(&'a [u8]),
    /// A line passed the limit; its bytes are discarded.
    TooLong,
}

/// Collects bytes and returns lines.
#[derive(Debug)]
pub struct LineBuffer {
    bytes: Vec<u8>,
    /// Start of the first line not yet returned.
    start: usize,
    /// No line end lies between `start` and here.
    scanned: usize,
    limit_bytes: usize,
    /// Inside a line that was reported as too long.
    discarding: bool,
}

impl LineBuffer {
    /// An empty buffer for lines of at most `limit_bytes`, the line end not counted.
    pub fn new(limit_bytes: usize) -> LineBuffer {
        LineBuffer { bytes: Vec::new(), start: 0, scanned: 0, limit_bytes, discarding: false }
    }

    /// The vector to append the next bytes to, with capacity for `room` more. Only append to it, and take
    /// every line with [`LineBuffer::next_line`] before the next call, or the memory bound does not hold.
    pub fn input(&mut self, room: usize) -> &mut Vec<u8> {
        self.bytes.drain(..self.start);
        self.scanned -= self.start;
        self.start = 0;
        if self.bytes.is_empty() && self.bytes.capacity() > 4 * room {
            // One long line must not keep its memory for the life of a connection.
            self.bytes = Vec::new();
        }
        self.bytes.reserve(room);
        &mut self.bytes
    }

    /// Frees the memory if no bytes are left, before a wait that may be long.
    pub fn free_if_empty(&mut self) {
        if self.start == self.bytes.len() {
            (self.bytes, self.start, self.scanned) = (Vec::new(), 0, 0);
        }
    }

    /// The next line, `None` when more bytes are needed.
    pub fn next_line(&mut self) -> Option<Line<'_>> {
        loop {
            let fresh = self.bytes.get(self.scanned..).unwrap_or_default();
            let Some(distance) = fresh.iter().position(|&byte| byte == b'\n') else {
                self.scanned = self.bytes.len();
                return self.unfinished();
            };
            let end = self.scanned + distance;
            let line = self.start..end;
            self.start = end + 1;
            self.scanned = end + 1;
            if std::mem::take(&mut self.discarding) {
                continue;
            }
            if line.len() > self.limit_bytes {
                return Some(Line::TooLong);
            }
            return self.bytes.get(line).map(Line::Complete);
        }
    }

    /// Bytes after the last line end: what a file without a final line end, or a broken connection, leaves.
    pub fn rest(&self) -> &[u8] {
        if self.discarding { &[] } else { self.bytes.get(self.start..).unwrap_or_default() }
    }

    fn unfinished(&mut self) -> Option<Line<'_>> {
        if !self.discarding && self.bytes.len() - self.start <= self.limit_bytes {
            return None;
        }
        self.start = self.bytes.len();
        (!std::mem::replace(&mut self.discarding, true)).then_some(Line::TooLong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `stream` in pieces of `piece` bytes and collects the lines, `None` for one that is too long.
    fn cut(stream: &[u8], piece: usize, limit: usize) -> (Vec<Option<Vec<u8>>>, Vec<u8>) {
        let mut buffer = LineBuffer::new(limit);
        let mut lines = Vec::new();
        for bytes in stream.chunks(piece) {
            buffer.input(bytes.len()).extend_from_slice(bytes);
            while let Some(line) = buffer.next_line() {
                lines.push(match line {
                    Line::Complete(line) => Some(line.to_vec()),
                    Line::TooLong => None,
                });
            }
        }
        let rest = buffer.rest().to_vec();
        (lines, rest)
    }

    #[test]
    fn the_pieces_do_not_matter() {
        let stream = b"one\n\ntwo two\r\nmuch too long a line\nfour\nlast";
        let expected = vec![
            Some(b"one".to_vec()),
            Some(b"".to_vec()),
            Some(b"two two\r".to_vec()),
            None,
            Some(b"four".to_vec()),
        ];
        for piece in 1..=stream.len() {
            assert_eq!(cut(stream, piece, 8), (expected.clone(), b"last".to_vec()), "pieces of {piece}");
        }
    }

    #[test]
    fn the_limit_is_exact() {
        assert_eq!(cut(b"12345678\n", 3, 8).0, [Some(b"12345678".to_vec())]);
        assert_eq!(cut(b"123456789\n", 3, 8).0, [None]);
        assert_eq!(cut(b"123456789", 100, 8), (vec![None], vec![]));
    }

    #[test]
    fn an_endless_line_takes_no_memory() {
        let mut buffer = LineBuffer::new(1000);
        let mut reports = 0;
        for _ in 0..1000 {
            buffer.input(4096).extend_from_slice(&[b'x'; 4096]);
            while buffer.next_line().is_some() {
                reports += 1;
            }
            assert!(buffer.bytes.capacity() <= 16 * 4096);
        }
        assert_eq!(reports, 1);
        buffer.input(4096).extend_from_slice(b"\nq\n");
        assert_eq!(buffer.next_line(), Some(Line::Complete(b"q")));
    }
}
