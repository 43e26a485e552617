//! Intset: a set of integers as a sorted array, all as wide as the widest needs.
//!
//! ```text
//! bytes of an integer (4, little-endian): 2, 4 or 8 | integers (4) | integers, ascending
//! ```

use crate::corrupt::Corrupt;
use crate::reader::Reader;

/// Bytes before the first integer.
const HEADER_BYTES: usize = 8;

/// The integers of an intset, ascending.
///
/// # Errors
///
/// If the header does not fit the bytes, nothing is in it, or the integers do not ascend.
pub fn decode(bytes: &[u8]) -> Result<Vec<i64>, Corrupt> {
    let mut reader = Reader::new(bytes);
    let width = reader.u32_le()? as usize;
    let count = reader.u32_le()? as usize;
    if ![2, 4, 8].contains(&width) {
        return Err(Corrupt::new("an intset's integers are not 2, 4 or 8 bytes wide", 0));
    }
    let integers = &bytes[HEADER_BYTES..];
    if count == 0 || count.checked_mul(width) != Some(integers.len()) {
        return Err(Corrupt::new("an intset has not as many integers as its header says", 4));
    }
    let decoded: Vec<i64> = integers.chunks_exact(width).map(signed).collect();
    if !decoded.is_sorted_by(|before, after| before < after) {
        return Err(Corrupt::new("the integers of an intset do not ascend", HEADER_BYTES));
    }
    Ok(decoded)
}

/// A signed integer of up to eight bytes, little-endian.
fn signed(bytes: &[u8]) -> i64 {
    let mut high = [0; 8];
    high[8 - bytes.len()..].copy_from_slice(bytes);
    i64::from_le_bytes(high) >> (64 - 8 * bytes.len())
}

/// The intset of some integers, which must ascend.
pub fn encode(integers: &[i64]) -> Vec<u8> {
    let fits = |width: i64| integers.iter().all(|&n| n >= -width && n < width);
    let width = if fits(1 << 15) {
        2
    } else if fits(1 << 31) {
        4
    } else {
        8
    };
    let mut bytes = Vec::with_capacity(HEADER_BYTES + integers.len() * width);
    bytes.extend_from_slice(&(width as u32).to_le_bytes());
    bytes.extend_from_slice(&(integers.len() as u32).to_le_bytes());
    for integer in integers {
        bytes.extend_from_slice(&integer.to_le_bytes()[..width]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_every_width_come_back() {
        for integers in [
            vec![-32_768, 0, 32_767],
            vec![-32_769, 1],
            vec![0, 32_768],
            vec![i64::from(i32::MIN), i64::from(i32::MAX)],
            vec![-1, 1 << 31],
            vec![i64::MIN, i64::MAX],
        ] {
            assert_eq!(decode(&encode(&integers)).as_ref(), Ok(&integers));
        }
    }

    #[test]
    fn lies_are_refused() {
        let whole = encode(&[1, 2]);
        for cut in 0..whole.len() {
            assert!(decode(&whole[..cut]).is_err(), "cut at {cut}");
        }
        assert!(decode(&encode(&[2, 2])).is_err(), "repeated");
        assert!(decode(&encode(&[])).is_err(), "empty");
        assert!(decode(&[3, 0, 0, 0, 1, 0, 0, 0, 1, 2, 3]).is_err(), "three bytes wide");
        assert!(decode(&[8, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 1]).is_err(), "count past the end");
    }
}
