//! BITOP: strings combined bit by bit.

/// How strings are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitOperation {
    /// Set in all.
    And,
    /// Set in any.
    Or,
    /// Set in an odd number of them.
    Xor,
    /// Clear in the first; there should be no other.
    Not,
}

/// The combination, as long as the longest string; shorter ones are continued by zeros.
///
/// ```
/// use esker_redis_data::bits::{BitOperation, combine};
/// assert_eq!(combine(BitOperation::Or, &[b"a", b"bc"]), b"cc");
/// assert_eq!(combine(BitOperation::And, &[b"a", b"bc"]), b"`\0");
/// ```
pub fn combine(operation: BitOperation, strings: &[&[u8]]) -> Vec<u8> {
    let len = strings.iter().map(|string| string.len()).max().unwrap_or(0);
    let mut result = strings.first().map_or_else(Vec::new, |first| first.to_vec());
    result.resize(len, 0);
    if operation == BitOperation::Not {
        result.iter_mut().for_each(|byte| *byte = !*byte);
        return result;
    }
    for string in strings.iter().skip(1) {
        let (both, behind) = result.split_at_mut(string.len());
        for (byte, other) in both.iter_mut().zip(*string) {
            match operation {
                BitOperation::And => *byte &= other,
                BitOperation::Or => *byte |= other,
                BitOperation::Xor | BitOperation::Not => *byte ^= other,
            }
        }
        if operation == BitOperation::And {
            behind.fill(0);
        }
    }
    result
}
