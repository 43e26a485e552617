//! Arguments that SCAN, HSCAN, SSCAN and ZSCAN share.

use crate::call::Call;
use crate::failure::{Outcome, SYNTAX};
use esker_resp::glob::{self, Case};

/// Elements of one step if the client does not say.
const DEFAULT_COUNT: u64 = 10;

/// Elements that one step visits, at most, whatever is asked for.
const MOST_COUNT: u64 = 100_000;

/// The options behind the cursor.
#[derive(Debug)]
pub(crate) struct ScanOptions<'a> {
    /// About how many elements one step visits.
    pub(crate) count: u64,
    /// What elements must match to be returned.
    pattern: Option<&'a [u8]>,
    /// The type that keys must have; of SCAN alone.
    pub(crate) type_name: Option<&'a [u8]>,
}

impl<'a> ScanOptions<'a> {
    /// Reads the options from the argument at `first` on. `TYPE` is known if `has_type`.
    pub(crate) fn read(call: &Call<'a, '_>, first: usize, has_type: bool) -> Outcome<Self> {
        let mut options = Self { count: DEFAULT_COUNT, pattern: None, type_name: None };
        let mut at = first;
        while at < call.args.len() {
            let Some(value) = call.args.get(at + 1) else { return Err(SYNTAX.into()) };
            if call.is_word(at, "count") {
                let count = call.integer(at + 1)?;
                let count = u64::try_from(count).ok().filter(|count| *count > 0).ok_or(SYNTAX)?;
                options.count = count.min(MOST_COUNT);
            } else if call.is_word(at, "match") {
                // Redis' `*` matches all but the empty string, and as a whole pattern that one as well.
                options.pattern = (*value != b"*").then_some(*value);
            } else if has_type && call.is_word(at, "type") {
                options.type_name = Some(value);
            } else {
                return Err(SYNTAX.into());
            }
            at += 2;
        }
        Ok(options)
    }

    /// Whether an element is returned.
    pub(crate) fn takes(&self, element: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, element, Case::Sensitive))
    }

    /// What elements must match.
    pub(crate) fn pattern(&self) -> Option<&'a [u8]> {
        self.pattern
    }
}

/// A cursor, as `strtoul` of C reads it, which is what Redis accepts: with a sign, empty, or up to a NUL.
pub(crate) fn cursor(text: &[u8]) -> Outcome<u64> {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let (is_negative, digits) = match text {
        [] => return Ok(0),
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let number = is_number.then(|| {
        digits
            .iter()
            .try_fold(0_u64, |number, digit| number.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
    });
    let number: u64 = number.flatten().ok_or("ERR invalid cursor")?;
    Ok(if is_negative { number.wrapping_neg() } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_read_as_strtoul_does() {
        let read = |text: &[u8]| cursor(text).ok();
        for (text, number) in [
            (&b"0"[..], 0),
            (b"", 0),
            (b"+5", 5),
            (b"-1", u64::MAX),
            (b"007", 7),
            (b"18446744073709551615", u64::MAX),
            (b"12\0x", 12),
        ] {
            assert_eq!(read(text), Some(number), "{}", text.escape_ascii());
        }
        for text in [&b"18446744073709551616"[..], b"a", b"1a", b"-", b"+-1", b" 1", b"1 "] {
            assert_eq!(read(text), None, "{}", text.escape_ascii());
        }
    }
}
