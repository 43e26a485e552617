//! BITCOUNT and BITPOS: bits of a string within a range of bytes or bits.

use std::ops::Range;

/// What the ends of a range count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitUnit {
    /// Bytes.
    Byte,
    /// Bits.
    Bit,
}

/// BITCOUNT: the set bits from `start` to `end`, both included; negative ones count from the end of the
/// string.
///
/// ```
/// use esker_redis_data::bits::{BitUnit, count};
/// assert_eq!(count(b"foobar", 0, -1, BitUnit::Byte), 26);
/// assert_eq!(count(b"foobar", 5, 30, BitUnit::Bit), 17);
/// ```
pub fn count(string: &[u8], start: i64, end: i64, unit: BitUnit) -> u64 {
    if start < 0 && end < 0 && start > end {
        return 0;
    }
    let Some(range) = BitRange::resolve(string.len() as u64, start, end, unit) else { return 0 };
    let bytes = range.bytes();
    range.count_in(bytes.start, &string[bytes.start as usize..bytes.end as usize])
}

/// BITPOS: the first bit that is `bit` from `start` to `end`, both included; `None` if there is none.
///
/// Without an end, zeros are thought behind the string: the first clear bit may be the one behind its last. A
/// key that does not exist is no empty string here: its first clear bit is 0.
///
/// ```
/// use esker_redis_data::bits::{BitUnit, position};
/// assert_eq!(position(b"\xff\xf0\x00", false, 0, None, BitUnit::Byte), Some(12));
/// assert_eq!(position(b"\xff", false, 0, None, BitUnit::Byte), Some(8));
/// assert_eq!(position(b"\xff", false, 0, Some(-1), BitUnit::Byte), None);
/// ```
pub fn position(string: &[u8], bit: bool, start: i64, end: Option<i64>, unit: BitUnit) -> Option<u64> {
    let range = BitRange::resolve(string.len() as u64, start, end.unwrap_or(-1), unit)?;
    let bytes = range.bytes();
    let found = range.find_in(bit, bytes.start, &string[bytes.start as usize..bytes.end as usize]);
    let behind = (!bit && end.is_none()).then_some(string.len() as u64 * 8);
    found.or(behind)
}

/// The bits of a range that is not empty, in a string that may be read in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitRange {
    first: u64,
    last: u64,
}

impl BitRange {
    /// The bits from `start` to `end`, both included, of a string of so many bytes; negative ones count from
    /// its end. `None` if there are none.
    pub fn resolve(string_bytes: u64, start: i64, end: i64, unit: BitUnit) -> Option<Self> {
        let unit_bits = match unit {
            BitUnit::Byte => 8,
            BitUnit::Bit => 1,
        };
        let total = i64::try_from(string_bytes).ok()?.checked_mul(8)? / unit_bits;
        let from_front = |at: i64| if at < 0 { total.saturating_add(at).max(0) } else { at };
        let (start, end) = (from_front(start), from_front(end).min(total - 1));
        // An empty string has no last bit, which is -1 here.
        if start > end {
            return None;
        }
        Some(Self { first: (start * unit_bits) as u64, last: ((end + 1) * unit_bits - 1) as u64 })
    }

    /// The bytes that have bits of the range.
    pub fn bytes(self) -> Range<u64> {
        self.first / 8..self.last / 8 + 1
    }

    /// The set bits in a piece of those bytes that begins at byte `at` of the string.
    pub fn count_in(self, at: u64, piece: &[u8]) -> u64 {
        let mut words = piece.chunks_exact(8);
        let inner: u64 = words.by_ref().map(|word| u64::from(word_of(word).count_ones())).sum();
        let rest: u64 = words.remainder().iter().map(|byte| u64::from(byte.count_ones())).sum();
        let outside = |byte: u64, mask: u8| {
            let place = byte.checked_sub(at).and_then(|place| usize::try_from(place).ok());
            let byte = place.and_then(|place| piece.get(place)).copied().unwrap_or(0);
            u64::from((byte & !mask).count_ones())
        };
        inner + rest - outside(self.first / 8, self.first_mask()) - outside(self.last / 8, self.last_mask())
    }

    /// The position in the string of the first bit that is `bit`, in a piece of those bytes that begins at
    /// byte `at` of the string.
    pub fn find_in(self, bit: bool, at: u64, piece: &[u8]) -> Option<u64> {
        let wanted = |byte: u8| if bit { byte } else { !byte };
        let of_byte = |place: usize, set: u8| (at + place as u64) * 8 + u64::from(set.leading_zeros());
        let (&first, _) = piece.split_first()?;
        let is_first = self.first / 8 == at;
        let set = wanted(first) & if is_first { self.first_mask() } else { 0xff };
        let found = if set != 0 {
            Some(of_byte(0, set))
        } else {
            let uniform = if bit { 0 } else { u64::MAX };
            let skipped = piece[1..].chunks_exact(8).take_while(|word| word_of(word) == uniform).count() * 8;
            let place = piece[1 + skipped..].iter().position(|&byte| wanted(byte) != 0);
            place.map(|place| of_byte(1 + skipped + place, wanted(piece[1 + skipped + place])))
        };
        found.filter(|&position| position <= self.last)
    }

    /// The bits of the first byte that are in the range, were there no end.
    fn first_mask(self) -> u8 {
        0xff >> (self.first % 8)
    }

    /// The bits of the last byte that are in the range, were there no start.
    fn last_mask(self) -> u8 {
        0xff << (7 - self.last % 8)
    }
}

fn word_of(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(bytes.try_into().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_the_bits_of_the_whole() {
        let string: Vec<u8> = (0..60u32).map(|at| if at % 11 < 7 { 0 } else { (at * 37) as u8 }).collect();
        for unit in [BitUnit::Byte, BitUnit::Bit] {
            for (start, end) in [(0, -1), (3, 50), (9, 9), (17, -20), (-300, 300), (100, 101)] {
                let (mut ones, mut firsts) = (0, [None, None]);
                let range = BitRange::resolve(string.len() as u64, start, end, unit);
                if let Some(range) = range {
                    let mut at = range.bytes().start;
                    for piece in string[at as usize..range.bytes().end as usize].chunks(13) {
                        ones += range.count_in(at, piece);
                        for (bit, first) in [false, true].into_iter().zip(&mut firsts) {
                            *first = first.or(range.find_in(bit, at, piece));
                        }
                        at += piece.len() as u64;
                    }
                }
                let is_set = |bit: usize| string[bit / 8] & 0x80 >> (bit % 8) != 0;
                let bits: Vec<usize> =
                    range.iter().flat_map(|range| range.first as usize..=range.last as usize).collect();
                assert_eq!(ones as usize, bits.iter().filter(|bit| is_set(**bit)).count(), "{start} {end}");
                for (wanted, first) in [false, true].into_iter().zip(firsts) {
                    let expected = bits.iter().find(|bit| is_set(**bit) == wanted);
                    assert_eq!(first, expected.map(|bit| *bit as u64), "{start} {end}");
                }
            }
        }
    }
}
