//! Binary search over the whole separators, the standard of the CS265 report. For comparison.
//!
//! It takes no memory beside the separators. Each step waits for two cache lines: the separator's position,
//! and the separator.

use super::super::section::Separators;

/// The last block whose separator is at most `key`; 0 if none is.
pub(crate) fn find(separators: &Separators, key: &[u8]) -> usize {
    let (mut from, mut to) = (0, separators.len());
    while to > from + 1 {
        let middle = (from + to) / 2;
        if separators.get(middle) <= key { from = middle } else { to = middle }
    }
    from
}
