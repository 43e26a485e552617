//! Packed sequence of byte strings: one buffer and where each string ends.
//!
//! A hostile payload can hold millions of strings of one byte; a vector each would take forty times the
//! payload. Here a string costs eight bytes beside its own.

use esker_resp::integer::write_integer;
use std::fmt;
use std::ops::Range;

/// A sequence of byte strings in one buffer.
///
/// ```
/// use esker_redis_data::Strings;
/// let strings: Strings = ["a", "", "ccc"].into_iter().collect();
/// assert_eq!(strings.len(), 3);
/// assert_eq!(strings.get(2), Some(&b"ccc"[..]));
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Strings {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Strings {
    /// An empty sequence.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a string.
    pub fn push(&mut self, string: &[u8]) {
        self.bytes.extend_from_slice(string);
        self.ends.push(self.bytes.len());
    }

    /// Appends the decimal form of an integer.
    pub fn push_decimal(&mut self, number: i64) {
        write_integer(number, &mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no string.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The string at a position.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        Some(&self.bytes[start..end])
    }

    /// All strings in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &[u8]> + ExactSizeIterator {
        self.range(0..self.len())
    }

    /// The strings at some positions, which must exist.
    pub(crate) fn range(
        &self,
        range: Range<usize>,
    ) -> impl DoubleEndedIterator<Item = &[u8]> + ExactSizeIterator {
        range.map(|index| self.get(index).unwrap_or_default())
    }

    /// Bytes of all strings together.
    pub fn payload_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of memory that are reserved.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }

    /// Whether two of the strings at positions 0, `step`, 2 x `step`, ... are equal.
    ///
    /// By sorting positions: hostile strings cannot make it slower than O(n log n) comparisons.
    pub(crate) fn repeats(&self, step: usize) -> bool {
        let mut sorted: Vec<&[u8]> = self.iter().step_by(step).collect();
        sorted.sort_unstable();
        sorted.windows(2).any(|pair| pair[0] == pair[1])
    }
}

impl<S: AsRef<[u8]>> FromIterator<S> for Strings {
    fn from_iter<I: IntoIterator<Item = S>>(strings: I) -> Self {
        let mut packed = Self::new();
        for string in strings {
            packed.push(string.as_ref());
        }
        packed
    }
}

impl fmt::Debug for Strings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.iter().map(|string| string.escape_ascii().to_string())).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_are_found_at_the_steps_alone() {
        let pairs: Strings = ["a", "x", "b", "x", "c", "a"].into_iter().collect();
        assert!(pairs.repeats(1));
        assert!(!pairs.repeats(2));
        assert_eq!(format!("{pairs:?}"), r#"["a", "x", "b", "x", "c", "a"]"#);
    }
}
