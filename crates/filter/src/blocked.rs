//! Cache-line-blocked Bloom filter, the default: all probes for a key lie in one line of 64 bytes, so a
//! lookup has one cache miss (Putze, Sanders, Singler: "Cache-, Hash- and Space-Efficient Bloom Filters",
//! 2007).
//!
//! Persisted, hence fixed: the upper half of the hash chooses the line, the lower half makes the probes, see
//! [`lines`].
//!
//! Cost: 2 to 3 ns a lookup if the line is in the cache, else one miss; 6 to 10 ns a key to build. At 10 bits
//! a key 0.96 % false positives, where a standard Bloom filter has 0.82 %: the price of lines that are fuller
//! than others.
//!
//! [`lines`]: crate::lines

use crate::lines::{AHEAD, Line, MAX_PROBES, POWERS, line_index};
use crate::probe::{self, ProbePath};
use esker_env::OffHeapSlice;

/// Sets the bits of the `hashes` that fall into `part`, lines `first` on, of a filter of `count` lines.
pub(crate) fn fill(part: &mut [Line], first: usize, count: u32, probes: u8, hashes: &[u64]) {
    // The numbers of probes of common sizes, 8 to 12 bits a key, each without a loop over the probes.
    match probes {
        5 => fill_with(part, first, count, &first_powers::<5>(), hashes),
        6 => fill_with(part, first, count, &first_powers::<6>(), hashes),
        7 => fill_with(part, first, count, &first_powers::<7>(), hashes),
        _ => fill_with(part, first, count, &POWERS[..usize::from(probes)], hashes),
    }
}

fn first_powers<const N: usize>() -> [u32; N] {
    std::array::from_fn(|i| POWERS[i])
}

#[inline(always)]
fn fill_with<P: AsRef<[u32]> + ?Sized>(
    part: &mut [Line],
    first: usize,
    count: u32,
    powers: &P,
    hashes: &[u64],
) {
    let powers = powers.as_ref();
    for group in hashes.chunks(AHEAD) {
        for &hash in group {
            probe::prefetch(part.as_ptr().wrapping_add(line_index(hash, count).wrapping_sub(first)));
        }
        for &hash in group {
            if let Some(line) = part.get_mut(line_index(hash, count).wrapping_sub(first)) {
                line.set(hash as u32, powers);
            }
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Blocked {
    lines: OffHeapSlice<Line>,
    probes: u8,
    path: ProbePath,
}

impl Blocked {
    /// A filter of at least one line and 1 to [`MAX_PROBES`] probes; the caller has checked both.
    pub(crate) fn new(lines: OffHeapSlice<Line>, probes: u8) -> Blocked {
        debug_assert!(!lines.is_empty() && u32::try_from(lines.len()).is_ok());
        debug_assert!((1..=MAX_PROBES).contains(&probes));
        Blocked { lines, probes, path: ProbePath::best() }
    }

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
