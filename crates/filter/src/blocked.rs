//! The cache-line-blocked Bloom filter: all probes for a key lie in one line of 64 bytes, so a lookup misses the
//! cache once (Putze, Sanders, Singler 2007).
//!
//! Persisted, hence fixed: the upper half of the hash picks the line by multiplication, `(hash >> 32) * lines >> 32`;
//! the lower half makes the probes: probe `i` looks at the nine top bits of `lower * MULTIPLIER^i mod 2^32`, four
//! of them for the word of the line and five for the bit of the word. Multiplications by constants are what a
//! vector unit does to sixteen probes at once, and an odd multiplier loses nothing of the hash.

use crate::bits::BitsPerKey;
use crate::model;
use crate::probe::{self, ProbePath};

/// Bits of a line.
pub(crate) const LINE_BITS: usize = 512;

/// Most probes a filter may have: one for each word of a line.
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

/// One cache line of the filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [u32; 16]);

/// Bytes of a line.
pub(crate) const LINE_BYTES: usize = size_of::<Line>();

/// The line of a hash among `lines`.
#[inline(always)]
pub(crate) fn line_index(hash: u64, lines: u32) -> usize {
    (((hash >> 32) * u64::from(lines)) >> 32) as usize
}

/// Word and mask of a probe.
#[inline(always)]
pub(crate) fn word_and_mask(product: u32) -> (usize, u32) {
    ((product >> 28) as usize, 1 << ((product >> 23) & 31))
}

/// How many lines serve `keys` keys: the nearest number, at least one.
pub(crate) fn lines_for(keys: usize, bits_per_key: BitsPerKey) -> u32 {
    let tenths_of_bits = keys as u128 * u128::from(bits_per_key.tenths());
    let tenths_of_line = 10 * LINE_BITS as u128;
    let lines = (tenths_of_bits + tenths_of_line / 2) / tenths_of_line;
    u32::try_from(lines).unwrap_or(u32::MAX).max(1)
}

/// Sets the bits of all `hashes` in `lines`, which must be zero, and answers the number of probes used.
pub(crate) fn fill(lines: &mut [Line], hashes: &[u64], bits_per_key: BitsPerKey) -> u8 {
    // The filter of a large table does not lie in the cache; asking for 32 lines ahead makes an insertion cost 6 to
    // 10 ns instead of 15 to 29.
    const AHEAD: usize = 32;
    let count = u32::try_from(lines.len()).expect("lines_for counts with 32 bits");
    let probes = model::best_probes(bits_per_key);
    for group in hashes.chunks(AHEAD) {
        for &hash in group {
            probe::prefetch(&lines[line_index(hash, count)]);
        }
        for &hash in group {
            let line = &mut lines[line_index(hash, count)].0;
            for &power in &POWERS[..usize::from(probes)] {
                let (word, mask) = word_and_mask((hash as u32).wrapping_mul(power));
                line[word] |= mask;
            }
        }
    }
    probes
}

/// A filter in memory.
#[derive(Clone, Debug)]
pub(crate) struct Blocked {
    lines: Box<[Line]>,
    probes: u8,
    path: ProbePath,
}

impl Blocked {
    /// A filter of at least one line and 1 to [`MAX_PROBES`] probes; the caller has checked both.
    pub(crate) fn new(lines: Box<[Line]>, probes: u8) -> Blocked {
        debug_assert!(!lines.is_empty() && u32::try_from(lines.len()).is_ok());
        debug_assert!((1..=MAX_PROBES).contains(&probes));
        Blocked { lines, probes, path: ProbePath::best() }
    }

    /// The same filter searched in another way.
    #[cfg(test)]
    pub(crate) fn with_path(mut self, path: ProbePath) -> Blocked {
        assert!(path.is_available());
        self.path = path;
        self
    }

    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines
    }

    pub(crate) fn probes(&self) -> u8 {
        self.probes
    }

    #[inline(always)]
    fn line(&self, hash: u64) -> &Line {
        // At most 2^32 - 1 lines, so the index is below their number.
        &self.lines[line_index(hash, self.lines.len() as u32)]
    }

    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        probe::prefetch(self.line(hash));
    }

    #[inline]
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        self.path.probe(self.line(hash), hash as u32, self.probes)
    }

    pub(crate) fn may_contain_many(&self, hashes: &[u64], maybe: &mut [bool]) {
        self.path.probe_many(&self.lines, self.probes, hashes, maybe);
    }
}
