//! Merge operator `counter`: integers in decimal text.
//!
//! Text is readable by people and programs: `esker get` shows it, and so do protocols with counters. A small
//! number takes fewer bytes than eight, and parsing one takes less time than finding it.

use super::{Merge, MergeError};

#[derive(Debug)]
pub(super) struct Counter {
    /// Whether a sum out of range is an error; otherwise it wraps around.
    pub(super) is_checked: bool,
}

fn number(text: &[u8]) -> Result<i64, MergeError> {
    let parsed = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| {
        let shown = text[..text.len().min(40)].escape_ascii();
        format!("\"{shown}\" is no whole number from {} to {}", i64::MIN, i64::MAX).into()
    })
}

impl Counter {
    /// The sum, exact: fewer than 2^64 numbers of 64 bits fit 128 bits.
    fn sum(value: Option<&[u8]>, operands: &[&[u8]]) -> Result<i128, MergeError> {
        value.iter().chain(operands).try_fold(0i128, |sum, text| Ok(sum + i128::from(number(text)?)))
    }
}

impl Merge for Counter {
    fn name(&self) -> &str {
        if self.is_checked { "counter-checked" } else { "counter" }
    }

    fn merge(&self, _: &[u8], value: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, MergeError> {
        let sum = Counter::sum(value, operands)?;
        if !self.is_checked {
            return Ok((sum as i64).to_string().into_bytes());
        }
        match i64::try_from(sum) {
            Ok(sum) => Ok(sum.to_string().into_bytes()),
            Err(_) => Err(format!("the counter overflows: the sum is {sum}").into()),
        }
    }

    fn merge_operands(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        // A partial sum out of range stays in pieces: with further operands it may fit again.
        self.merge(key, None, operands).ok()
    }

    fn check_operand(&self, operand: &[u8]) -> Result<(), MergeError> {
        number(operand).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRAPPING: Counter = Counter { is_checked: false };
    const CHECKED: Counter = Counter { is_checked: true };
    const MAX: &[u8] = b"9223372036854775807";

    #[test]
    fn operands_are_added() {
        for counter in [WRAPPING, CHECKED] {
            assert_eq!(counter.merge(b"", None, &[b"1", b"-3"]).unwrap(), b"-2");
            assert_eq!(counter.merge(b"", Some(b"40"), &[b"2"]).unwrap(), b"42");
            assert!(counter.check_operand(b"-9223372036854775808").is_ok());
            for wrong in [b"".as_slice(), b"x", b"1.5", b" 1", b"9223372036854775808", b"\xff"] {
                let error = counter.check_operand(wrong).unwrap_err().to_string();
                assert!(error.contains("is no whole number from -9223372036854775808"), "{error}");
                assert!(counter.merge(b"", Some(wrong), &[b"1"]).is_err());
            }
        }
    }

    #[test]
    fn an_overflowing_sum_wraps_or_is_an_error() {
        assert_eq!(WRAPPING.merge(b"", Some(MAX), &[b"1"]).unwrap(), b"-9223372036854775808");
        let error = CHECKED.merge(b"", Some(MAX), &[b"1"]).unwrap_err().to_string();
        assert_eq!(error, "the counter overflows: the sum is 9223372036854775808");
        // Only the total counts, so merging in pieces equals merging at once.
        assert_eq!(CHECKED.merge(b"", Some(MAX), &[b"1", b"-1"]).unwrap(), MAX);
        assert_eq!(CHECKED.merge_operands(b"", &[MAX, b"1"]), None);
        assert_eq!(WRAPPING.merge_operands(b"", &[MAX, b"1"]).unwrap(), b"-9223372036854775808");
    }
}
