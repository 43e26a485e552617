//! Double-probe Bloom filter, for comparison: a key's probes lie in two lines of 64 bytes, half of them in
//! each.
//!
//! The idea is that of Speedb's paired Bloom filter: a blocked filter has more false positives than a
//! standard one because some lines are fuller than others, and two lines for each key even that out. Speedb
//! sorts lines by load and stores in each line its partner; the byte for it costs as much as the sorting
//! gains. Here the partner follows from the hash. With 10 bits a key the models give 0.957 % for one line,
//! 0.887 % for sorted pairs of which each has 504 bits left, 0.844 % for two lines by hash, and 0.819 % for a
//! standard filter.
//!
//! Persisted, hence fixed: the upper half of the hash chooses the first line, the lower half makes the
//! probes, the larger half of which are in the first line, see [`lines`](crate::lines). The second line is
//! one of the up to 63 that follow the first, cyclically, by the top bits of the hash multiplied by
//! `PARTNER`: both are in one page of memory or in two adjacent ones.
//!
//! Cost: an absent key passes the first line in one of ten cases or less, and otherwise has the one cache
//! miss of a blocked filter. A present key has two misses, which overlap.

use crate::lines::{AHEAD, Line, MAX_PROBES, POWERS};
use crate::lines::{first_probes, pair, second_lower};
use crate::probe::{self, ProbePath};
use esker_env::OffHeapSlice;

/// Sets the bits of `hashes` in their lines within `part`, lines `first` on, of `count` lines.
pub(crate) fn fill(part: &mut [Line], first: usize, count: u32, probes: u8, hashes: &[u64]) {
    let (here, there) = POWERS[..usize::from(probes)].split_at(usize::from(first_probes(probes)));
    for group in hashes.chunks(AHEAD) {
        for &hash in group {
            let (one, other) = pair(hash, count);
            probe::prefetch(part.as_ptr().wrapping_add(one.wrapping_sub(first)));
            probe::prefetch(part.as_ptr().wrapping_add(other.wrapping_sub(first)));
        }
        for &hash in group {
            let (one, other) = pair(hash, count);
            if let Some(line) = part.get_mut(one.wrapping_sub(first)) {
                line.set(hash as u32, here);
            }
            if let Some(line) = part.get_mut(other.wrapping_sub(first)) {
                line.set(hash as u32, there);
            }
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Double {
    lines: OffHeapSlice<Line>,
    probes: u8,
    path: ProbePath,
}

impl Double {
    pub(crate) fn new(lines: OffHeapSlice<Line>, probes: u8) -> Double {
        debug_assert!(!lines.is_empty() && u32::try_from(lines.len()).is_ok());
        debug_assert!((1..=MAX_PROBES).contains(&probes));
        Double { lines, probes, path: ProbePath::best() }
    }

    #[cfg(test)]
    pub(crate) fn with_path(mut self, path: ProbePath) -> Double {
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

    pub(crate) fn prefetch(&self, hash: u64) {
        let (one, other) = pair(hash, self.lines.len() as u32);
        probe::prefetch(&self.lines[one]);
        probe::prefetch(&self.lines[other]);
    }

    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        let (one, other) = pair(hash, self.lines.len() as u32);
        let here = first_probes(self.probes);
        // Both at once: their misses overlap, and no branch is mispredicted.
        self.path.probe(&self.lines[one], hash as u32, here)
            & self.path.probe(&self.lines[other], second_lower(hash, here), self.probes - here)
    }

    pub(crate) fn may_contain_many(&self, hashes: &[u64], maybe: &mut [bool]) {
        self.path.probe_pairs(&self.lines, self.probes, hashes, maybe);
    }
}
