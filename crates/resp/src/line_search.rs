//! The end of a line in a buffer that grows: no byte is looked at twice.

use crate::limits::LONGEST_LINE;

/// What a search found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The place of the byte.
    At(usize),
    /// The line goes on behind the buffer.
    NotYet,
    /// The line is longer than [`LONGEST_LINE`].
    TooLong,
}

/// How far a line has been searched.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LineSearch {
    searched: usize,
    /// A NUL byte hides what follows it: the line has no end and becomes too long.
    nul_hides: bool,
}

impl LineSearch {
    /// Of lines in requests, which Redis searches as C strings.
    pub(crate) const REQUEST: Self = Self { searched: 0, nul_hides: true };

    /// Looks for `end` in the line that begins at `start`. The next call for the same line may have more
    /// input.
    pub(crate) fn find(&mut self, input: &[u8], start: usize, end: u8) -> Found {
        let limit = input.len().min(start + LONGEST_LINE + 1);
        let from = self.searched.max(start).min(limit);
        match input[from..limit].iter().position(|&byte| byte == end || (byte == 0 && self.nul_hides)) {
            Some(offset) => {
                self.searched = from + offset;
                if input[self.searched] == end {
                    return Found::At(self.searched);
                }
            }
            None => self.searched = limit,
        }
        if input.len() - start > LONGEST_LINE { Found::TooLong } else { Found::NotYet }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_when_its_end_arrives() {
        let mut search = LineSearch::default();
        assert_eq!(search.find(b"--ab", 2, b'\n'), Found::NotYet);
        assert_eq!(search.find(b"--abc\nd\n", 2, b'\n'), Found::At(5));
        assert_eq!(search.find(b"--abc\nd\n", 2, b'\n'), Found::At(5));
    }

    #[test]
    fn lines_are_bounded_whether_they_end_or_not() {
        let mut line = vec![b'a'; LONGEST_LINE];
        assert_eq!(LineSearch::default().find(&line, 0, b'\n'), Found::NotYet);
        line.push(b'\n');
        assert_eq!(LineSearch::default().find(&line, 0, b'\n'), Found::At(LONGEST_LINE));
        line.insert(0, b'a');
        assert_eq!(LineSearch::default().find(&line, 0, b'\n'), Found::TooLong);
        assert_eq!(LineSearch::default().find(&line, 1, b'\n'), Found::At(LONGEST_LINE + 1));
    }

    #[test]
    fn a_line_of_a_request_with_a_nul_byte_never_ends() {
        let hidden = b"a\0b\n";
        assert_eq!({ LineSearch::REQUEST }.find(hidden, 0, b'\n'), Found::NotYet);
        assert_eq!(LineSearch::default().find(hidden, 0, b'\n'), Found::At(3));
        let long = [b"\0".to_vec(), vec![b'\n'; LONGEST_LINE]].concat();
        assert_eq!({ LineSearch::REQUEST }.find(&long, 0, b'\n'), Found::TooLong);
    }
}
