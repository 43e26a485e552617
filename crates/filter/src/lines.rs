//! Cache lines of the Bloom filters: the line of a key, and the bits of its probes.
//!
//! Persisted, hence fixed: a number of 32 bits chooses a line by multiplication, `(number * lines) >> 32`;
//! another one makes the probes within it: probe `i` takes the nine top bits of
//! `number * MULTIPLIER^i mod 2^32`, four of them for the word of the line and five for the bit of the word.
//!
//! A vector unit multiplies sixteen probes by constants at once, and an odd multiplier loses no bit of the
//! number. RocksDB's FastLocalBloom probes its lines in this way, with the same multiplier.

use crate::bits::BitsPerKey;

pub(crate) const LINE_BITS: usize = 512;

/// Most probes of a line: one for each of its words.
pub(crate) const MAX_PROBES: u8 = 16;

/// 2^32 divided by the golden ratio: its powers spread the nine top bits evenly.
const MULTIPLIER: u32 = 0x9e37_79b9;

/// The multipliers of the sixteen probes.
pub(crate) static POWERS: [u32; MAX_PROBES as usize] = {
    let mut powers = [1u32; MAX_PROBES as usize];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = powers[at - 1].wrapping_mul(MULTIPLIER);
        at += 1;
    }
    powers
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [u32; 16]);

pub(crate) const LINE_BYTES: usize = size_of::<Line>();

/// Keys whose lines are prefetched ahead: 6 to 10 ns an insertion into memory instead of 15 to 29.
pub(crate) const AHEAD: usize = 32;

#[inline(always)]
pub(crate) fn line_index(hash: u64, lines: u32) -> usize {
    (((hash >> 32) * u64::from(lines)) >> 32) as usize
}

#[inline(always)]
pub(crate) fn word_and_mask(product: u32) -> (usize, u32) {
    ((product >> 28) as usize, 1 << ((product >> 23) & 31))
}

/// Number of lines for `keys` keys: the nearest, at least one.
pub(crate) fn lines_for(keys: usize, bits_per_key: BitsPerKey) -> u32 {
    let tenths_of_bits = keys as u128 * u128::from(bits_per_key.tenths());
    let tenths_of_line = 10 * LINE_BITS as u128;
    let lines = (tenths_of_bits + tenths_of_line / 2) / tenths_of_line;
    u32::try_from(lines).unwrap_or(u32::MAX).max(1)
}

impl Line {
    #[inline(always)]
    pub(crate) fn set(&mut self, lower: u32, powers: &[u32]) {
        for &power in powers {
            let (word, mask) = word_and_mask(lower.wrapping_mul(power));
            self.0[word] |= mask;
        }
    }

    /// Decodes up to 64 stored bytes; missing ones are zero.
    pub(crate) fn decode(bytes: &[u8]) -> Line {
        let mut line = Line::default();
        for (word, bytes) in line.0.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_le_bytes(bytes.try_into().expect("chunks of four bytes"));
        }
        line
    }
}

pub(crate) fn fill_ratio(lines: &[Line]) -> f64 {
    let set: u64 = lines.iter().flat_map(|line| line.0).map(|word| u64::from(word.count_ones())).sum();
    set as f64 / (LINE_BITS * lines.len()) as f64
}

/// Chooses the partner: 2^64 divided by the golden ratio, so that it depends on every bit of the hash.
pub(crate) const PARTNER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Lines among which both lines of a key lie: 4 KiB, a page of memory.
pub(crate) const SPAN: u32 = 64;

/// First and second line of a hash among `count`: the same one only if there is no other.
#[inline(always)]
pub(crate) fn pair(hash: u64, count: u32) -> (usize, usize) {
    let first = line_index(hash, count);
    let others = count.min(SPAN).saturating_sub(1);
    let step = line_index(hash.wrapping_mul(PARTNER), others) + usize::from(others != 0);
    let second = first + step;
    (first, if second >= count as usize { second - count as usize } else { second })
}

#[inline(always)]
pub(crate) fn first_probes(probes: u8) -> u8 {
    probes.div_ceil(2)
}

/// The number that makes the probes of the second line: its probe 0 is the probe `first_probes` of the key.
#[inline(always)]
pub(crate) fn second_lower(hash: u64, first_probes: u8) -> u32 {
    (hash as u32).wrapping_mul(POWERS[usize::from(first_probes) % POWERS.len()])
}
