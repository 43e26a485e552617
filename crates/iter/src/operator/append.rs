//! Merge operator `append`: appends operands, with a separator.

use super::{Merge, MergeError, check_len};
use esker_base::{Error, Result};

pub(super) const NAME: &str = "append:";

/// Longest separator, in bytes.
pub const MAX_SEPARATOR_LEN: usize = 255;

#[derive(Debug)]
pub(super) struct Append {
    text: String,
    separator: Box<[u8]>,
}

impl Append {
    pub(super) fn new(separator: &[u8]) -> Append {
        Append { text: format!("{NAME}{}", separator.escape_ascii()), separator: separator.into() }
    }
}

impl Merge for Append {
    fn name(&self) -> &str {
        &self.text
    }

    fn merge(
        &self,
        _: &[u8],
        value: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> std::result::Result<Vec<u8>, MergeError> {
        let pieces = value.iter().chain(operands);
        let bytes = pieces.clone().map(|piece| piece.len() + self.separator.len()).sum();
        // Before the memory is taken.
        check_len(bytes)?;
        let mut joined = Vec::with_capacity(bytes);
        for (at, piece) in pieces.enumerate() {
            if at > 0 {
                joined.extend_from_slice(&self.separator);
            }
            joined.extend_from_slice(piece);
        }
        Ok(joined)
    }

    fn merge_operands(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.merge(key, None, operands).ok()
    }
}

pub(super) fn check_separator(escaped: &str) -> Result<()> {
    let len = unescape(escaped).map_or(0, |separator| separator.len());
    if len <= MAX_SEPARATOR_LEN {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the separator of append has {len} bytes, the longest has {MAX_SEPARATOR_LEN}"
    )))
}

/// Inverse of [`slice::escape_ascii`]; `None` if the text is not in that form.
pub(super) fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        (rest, bytes) = match (first, tail) {
            (b'\\', [b'x', high, low, tail @ ..]) => {
                let digit = |digit: &u8| char::from(*digit).to_digit(16);
                bytes.push((digit(high)? * 16 + digit(low)?) as u8);
                (tail, bytes)
            }
            (b'\\', [escaped, tail @ ..]) => {
                bytes.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'\\' | b'\'' | b'"' => *escaped,
                    _ => return None,
                });
                (tail, bytes)
            }
            (b'\\', []) => return None,
            (plain, tail) => {
                bytes.push(*plain);
                (tail, bytes)
            }
        };
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_joined() {
        let comma = Append::new(b", ");
        assert_eq!(comma.merge(b"", None, &[b"a"]).unwrap(), b"a");
        assert_eq!(comma.merge(b"", Some(b""), &[b"a", b"b"]).unwrap(), b", a, b");
        let joined = comma.merge_operands(b"", &[b"b", b"c"]).unwrap();
        assert_eq!(comma.merge(b"", Some(b"a"), &[&joined, b"d"]).unwrap(), b"a, b, c, d");
        assert_eq!(Append::new(b"").merge(b"", Some(b"a"), &[b"b"]).unwrap(), b"ab");
    }

    #[test]
    fn every_separator_can_be_written_down() {
        let all: Vec<u8> = (0..=255).collect();
        let text = all.escape_ascii().to_string();
        assert_eq!(unescape(&text).unwrap(), all);
        assert!(unescape("\\").is_none() && unescape("\\x1").is_none() && unescape("\\xg0").is_none());
    }
}
