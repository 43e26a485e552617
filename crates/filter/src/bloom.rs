//! Standard Bloom filter: probes anywhere in one array of bits (Bloom 1970), from two hashes by enhanced
//! double hashing (Kirsch and Mitzenmacher: "Less Hashing, Same Performance", 2006; the growing step is
//! Dillinger and Manolios's, 2004: without it a key whose step is 0 has one probe).
//!
//! Persisted, hence fixed: with `m` bits, probe 0 is bit `hash * m >> 64`, the step begins as
//! `(hash * STEP mod 2^64) * m >> 64`. From probe `i` to `i + 1` the step is added to the place, then `i + 1`
//! to the step, both modulo `m`. Bit `b` is bit `b % 32` of the word `b / 32` of all words of all lines.
//!
//! Cost: the fewest false positives for its bits among Bloom filters, and a cache miss for each probe: two
//! for an absent key on average, all of them for a present one. A yardstick for the other kinds.

use crate::lines::{LINE_BITS, Line};
use crate::probe::{self, BATCH};
use esker_env::OffHeapSlice;

/// Most probes: the optimum for the largest filter, of 32 bits a key, is 22.
pub(crate) const MAX_PROBES: u8 = 24;

/// Derives the second hash from the first: 2^64 divided by the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The next probe of a key, and the step to the one after it.
#[derive(Clone, Copy, Debug, Default)]
struct Probe {
    place: u64,
    step: u64,
}

impl Probe {
    #[inline(always)]
    fn first(hash: u64, bits: u64) -> Probe {
        let scaled = |hash: u64| ((u128::from(hash) * u128::from(bits)) >> 64) as u64;
        Probe { place: scaled(hash), step: scaled(hash.wrapping_mul(STEP)) }
    }

    /// Advances to probe `number`. There are more bits, 512 at least, than `number` ever is.
    #[inline(always)]
    fn advance(&mut self, number: u64, bits: u64) {
        self.place += self.step;
        self.place -= if self.place >= bits { bits } else { 0 };
        self.step += number;
        self.step -= if self.step >= bits { bits } else { 0 };
    }

    #[inline(always)]
    fn line(&self) -> usize {
        (self.place / LINE_BITS as u64) as usize
    }

    #[inline(always)]
    fn word_and_mask(&self) -> (usize, u32) {
        ((self.place / 32 % 16) as usize, 1 << (self.place % 32))
    }
}

fn bits_of(lines: usize) -> u64 {
    lines as u64 * LINE_BITS as u64
}

/// Sets the bits of `hashes` that fall into `part`, lines `first` on, of a filter of `count` lines.
pub(crate) fn fill(part: &mut [Line], first: usize, count: u32, probes: u8, hashes: &[u64]) {
    let bits = bits_of(count as usize);
    let mut group = [Probe::default(); BATCH];
    for hashes in hashes.chunks(BATCH) {
        for (probe, &hash) in group.iter_mut().zip(hashes) {
            *probe = Probe::first(hash, bits);
            probe::prefetch(part.as_ptr().wrapping_add(probe.line().wrapping_sub(first)));
        }
        // The next line of each key is prefetched before that of any is used.
        for number in 1..=u64::from(probes) {
            for probe in &mut group[..hashes.len()] {
                if let Some(line) = part.get_mut(probe.line().wrapping_sub(first)) {
                    let (word, mask) = probe.word_and_mask();
                    line.0[word] |= mask;
                }
                probe.advance(number, bits);
                probe::prefetch(part.as_ptr().wrapping_add(probe.line().wrapping_sub(first)));
            }
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Bloom {
    lines: OffHeapSlice<Line>,
    probes: u8,
}

impl Bloom {
    pub(crate) fn new(lines: OffHeapSlice<Line>, probes: u8) -> Bloom {
        debug_assert!(!lines.is_empty() && (1..=MAX_PROBES).contains(&probes));
        Bloom { lines, probes }
    }

    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines
    }

    pub(crate) fn probes(&self) -> u8 {
        self.probes
    }

    #[inline(always)]
    fn is_set(&self, probe: &Probe) -> bool {
        let (word, mask) = probe.word_and_mask();
        self.lines[probe.line()].0[word] & mask != 0
    }

    /// Prefetches the lines of the first two probes, which is what an absent key needs on average.
    pub(crate) fn prefetch(&self, hash: u64) {
        let bits = bits_of(self.lines.len());
        let mut probe = Probe::first(hash, bits);
        probe::prefetch(&self.lines[probe.line()]);
        probe.advance(1, bits);
        probe::prefetch(&self.lines[probe.line()]);
    }

    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        let bits = bits_of(self.lines.len());
        let mut probe = Probe::first(hash, bits);
        for number in 1..u64::from(self.probes) {
            if !self.is_set(&probe) {
                return false;
            }
            probe.advance(number, bits);
        }
        self.is_set(&probe)
    }

    /// Probe by probe for all keys of a batch that are not yet rejected, so that their misses overlap.
    pub(crate) fn may_contain_many(&self, hashes: &[u64], maybe: &mut [bool]) {
        assert_eq!(hashes.len(), maybe.len(), "an answer for each hash");
        let bits = bits_of(self.lines.len());
        let mut open = [(Probe::default(), 0u8); BATCH];
        for (hashes, maybe) in hashes.chunks(BATCH).zip(maybe.chunks_mut(BATCH)) {
            for (at, (open, &hash)) in open.iter_mut().zip(hashes).enumerate() {
                *open = (Probe::first(hash, bits), at as u8);
                probe::prefetch(&self.lines[open.0.line()]);
            }
            let mut count = hashes.len();
            for number in 1..=u64::from(self.probes) {
                let mut left = 0;
                for asked in 0..count {
                    let (mut probe, at) = open[asked];
                    let set = self.is_set(&probe);
                    probe.advance(number, bits);
                    if number < u64::from(self.probes) && set {
                        probe::prefetch(&self.lines[probe.line()]);
                    }
                    open[left] = (probe, at);
                    left += usize::from(set);
                }
                count = left;
            }
            maybe.fill(false);
            for &(_, at) in &open[..count] {
                maybe[usize::from(at)] = true;
            }
        }
    }
}
