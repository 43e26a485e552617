//! Probing: tests the bits of a key in one line, or in two, by plain code and by the vector units of x86-64.
//!
//! The path is chosen once per process. All paths give the same answers; tests compare them. A lookup takes 2
//! to 3 ns with either vector unit and 5 without when the line is in the cache.

use crate::lines::{Line, MAX_PROBES, POWERS, line_index, word_and_mask};
use crate::lines::{first_probes, pair, second_lower};

/// Keys whose lines are prefetched together: twice as many as a core can fetch at once.
pub(crate) const BATCH: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbePath {
    /// One probe after the other, on any machine.
    Scalar,
    /// Eight probes at once.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// All probes at once.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl ProbePath {
    /// All paths of this build, slowest first.
    pub(crate) const ALL: &'static [ProbePath] = &[
        ProbePath::Scalar,
        #[cfg(target_arch = "x86_64")]
        ProbePath::Avx2,
        #[cfg(target_arch = "x86_64")]
        ProbePath::Avx512,
    ];

    pub(crate) fn is_available(self) -> bool {
        match self {
            ProbePath::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            ProbePath::Avx2 => is_x86_feature_detected!("avx2"),
            #[cfg(target_arch = "x86_64")]
            ProbePath::Avx512 => is_x86_feature_detected!("avx512f"),
        }
    }

    /// The fastest path on this machine. The standard library caches the detection.
    pub(crate) fn best() -> ProbePath {
        *ProbePath::ALL.iter().rfind(|path| path.is_available()).expect("the plain way always is")
    }

    /// Whether all `probes` bits of `lower` are set in `line`. `self` must be available.
    #[inline(always)]
    pub(crate) fn probe(self, line: &Line, lower: u32, probes: u8) -> bool {
        match self {
            ProbePath::Scalar => scalar(line, lower, probes),
            // SAFETY: a path is made by `best` only, or checked by `is_available` in tests, so the machine
            // has the instructions.
            #[cfg(target_arch = "x86_64")]
            ProbePath::Avx2 => unsafe { avx2(line, lower, probes) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            ProbePath::Avx512 => unsafe { avx512(line, lower, probes) },
        }
    }

    /// [`ProbePath::probe`] for many keys, whose lines are fetched together.
    pub(crate) fn probe_many(self, lines: &[Line], probes: u8, hashes: &[u64], maybe: &mut [bool]) {
        assert_eq!(hashes.len(), maybe.len(), "an answer for each hash");
        match self {
            ProbePath::Scalar => scalar_many(lines, probes, hashes, maybe),
            // SAFETY: as in `probe`.
            #[cfg(target_arch = "x86_64")]
            ProbePath::Avx2 => unsafe { avx2_many(lines, probes, hashes, maybe) },
            // SAFETY: as in `probe`.
            #[cfg(target_arch = "x86_64")]
            ProbePath::Avx512 => unsafe { avx512_many(lines, probes, hashes, maybe) },
        }
    }

    /// The same for keys with two lines each, as [`double`](crate::reference::double) defines them.
    pub(crate) fn probe_pairs(self, lines: &[Line], probes: u8, hashes: &[u64], maybe: &mut [bool]) {
        assert_eq!(hashes.len(), maybe.len(), "an answer for each hash");
        match self {
            ProbePath::Scalar => scalar_pairs(lines, probes, hashes, maybe),
            // SAFETY: as in `probe`.
            #[cfg(target_arch = "x86_64")]
            ProbePath::Avx2 => unsafe { avx2_pairs(lines, probes, hashes, maybe) },
            // SAFETY: as in `probe`.
            #[cfg(target_arch = "x86_64")]
            ProbePath::Avx512 => unsafe { avx512_pairs(lines, probes, hashes, maybe) },
        }
    }
}

#[inline(always)]
pub(crate) fn prefetch<T>(place: *const T) {
    // SAFETY: a prefetch reads nothing and cannot fault; SSE is part of x86-64.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(place.cast());
    }
    // Elsewhere there is no stable prefetch; the lookups stay correct.
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

#[inline(always)]
fn scalar(line: &Line, lower: u32, probes: u8) -> bool {
    POWERS[..usize::from(probes.min(MAX_PROBES))].iter().all(|&power| {
        let (word, mask) = word_and_mask(lower.wrapping_mul(power));
        line.0[word] & mask != 0
    })
}

/// Selects each probe's word by permuting the line's halves and blending by its number's top bit.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn avx2(line: &Line, lower: u32, probes: u8) -> bool {
    use std::arch::x86_64::*;
    /// Eight ones, then eight zeros: loaded from index `8 - n` it has a one for each of the first `n` lanes.
    static ACTIVE: [u32; 16] = [1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    let words = line.0.as_ptr();
    // SAFETY: a line is 64 bytes at a multiple of 64, so both halves are within it and aligned.
    let (low, high) = unsafe { (_mm256_load_si256(words.cast()), _mm256_load_si256(words.add(8).cast())) };
    let lower = _mm256_set1_epi32(lower.cast_signed());
    let mut first = 0;
    while first < probes.min(MAX_PROBES) {
        let lanes = (probes - first).min(8);
        // SAFETY: `first` is 0 or 8 and `8 - lanes` is 0 to 7, so eight words follow in both arrays of
        // sixteen.
        let (powers, active) = unsafe {
            let powers = POWERS.as_ptr().add(usize::from(first));
            let active = ACTIVE.as_ptr().add(usize::from(8 - lanes));
            (_mm256_loadu_si256(powers.cast()), _mm256_loadu_si256(active.cast()))
        };
        let product = _mm256_mullo_epi32(lower, powers);
        let word = _mm256_srli_epi32::<28>(product);
        let from_low = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(low, word));
        let from_high = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(high, word));
        let picked = _mm256_castps_si256(_mm256_blendv_ps(from_low, from_high, _mm256_castsi256_ps(product)));
        let bit = _mm256_and_si256(_mm256_srli_epi32::<23>(product), _mm256_set1_epi32(31));
        let mask = _mm256_sllv_epi32(active, bit);
        if _mm256_testc_si256(picked, mask) == 0 {
            return false;
        }
        first += 8;
    }
    true
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
fn avx512(line: &Line, lower: u32, probes: u8) -> bool {
    use std::arch::x86_64::*;
    // SAFETY: a line is 64 bytes at a multiple of 64, and there are sixteen powers.
    let (words, powers) =
        unsafe { (_mm512_load_si512(line.0.as_ptr().cast()), _mm512_loadu_si512(POWERS.as_ptr().cast())) };
    let product = _mm512_mullo_epi32(_mm512_set1_epi32(lower.cast_signed()), powers);
    let picked = _mm512_permutexvar_epi32(_mm512_srli_epi32::<28>(product), words);
    let bit = _mm512_and_si512(_mm512_srli_epi32::<23>(product), _mm512_set1_epi32(31));
    let mask = _mm512_sllv_epi32(_mm512_set1_epi32(1), bit);
    let active = ((1u32 << probes.min(MAX_PROBES)) - 1) as u16;
    _mm512_mask_testn_epi32_mask(active, picked, mask) == 0
}

/// Looks many keys up, [`BATCH`] at a time: `prepare` finds the places of each key and prefetches them, then
/// `holds` tests them.
///
/// # Panics
/// If `maybe` is not as long as `hashes`.
#[inline(always)]
pub(crate) fn in_two_steps<Lookup: Copy + Default>(
    hashes: &[u64],
    maybe: &mut [bool],
    prepare: impl Fn(u64) -> Lookup,
    holds: impl Fn(&Lookup) -> bool,
) {
    assert_eq!(hashes.len(), maybe.len(), "an answer for each hash");
    let mut lookups = [Lookup::default(); BATCH];
    for (hashes, maybe) in hashes.chunks(BATCH).zip(maybe.chunks_mut(BATCH)) {
        for (lookup, &hash) in lookups.iter_mut().zip(hashes) {
            *lookup = prepare(hash);
        }
        for (lookup, maybe) in lookups.iter().zip(maybe) {
            *maybe = holds(lookup);
        }
    }
}

/// The loop over a batch, for each path: vector functions are inlined only into each other.
macro_rules! many {
    ($name:ident, $probe:ident $(, #[$attribute:meta])*) => {
        $(#[$attribute])*
        fn $name(lines: &[Line], probes: u8, hashes: &[u64], maybe: &mut [bool]) {
            let count = lines.len() as u32;
            for (hashes, maybe) in hashes.chunks(BATCH).zip(maybe.chunks_mut(BATCH)) {
                for &hash in hashes {
                    prefetch(&lines[line_index(hash, count)]);
                }
                for (&hash, maybe) in hashes.iter().zip(maybe) {
                    *maybe = $probe(&lines[line_index(hash, count)], hash as u32, probes);
                }
            }
        }
    };
}

many!(scalar_many, scalar);
#[cfg(target_arch = "x86_64")]
many!(avx2_many, avx2, #[target_feature(enable = "avx2")]);
#[cfg(target_arch = "x86_64")]
many!(avx512_many, avx512, #[target_feature(enable = "avx512f")]);

/// The loop over keys with two lines: second lines are prefetched while first ones are tested.
macro_rules! pairs {
    ($name:ident, $probe:ident $(, #[$attribute:meta])*) => {
        $(#[$attribute])*
        fn $name(lines: &[Line], probes: u8, hashes: &[u64], maybe: &mut [bool]) {
            let count = lines.len() as u32;
            let here = first_probes(probes);
            let mut passed = [0u8; BATCH];
            for (hashes, maybe) in hashes.chunks(BATCH).zip(maybe.chunks_mut(BATCH)) {
                for &hash in hashes {
                    prefetch(&lines[line_index(hash, count)]);
                }
                let mut left = 0;
                for (at, (&hash, maybe)) in hashes.iter().zip(&mut *maybe).enumerate() {
                    let (one, other) = pair(hash, count);
                    *maybe = $probe(&lines[one], hash as u32, here);
                    // Without a branch: whether a key passes cannot be predicted.
                    prefetch(&lines[if *maybe { other } else { one }]);
                    passed[left] = at as u8;
                    left += usize::from(*maybe);
                }
                for &at in &passed[..left] {
                    let hash = hashes[usize::from(at)];
                    let (_, other) = pair(hash, count);
                    maybe[usize::from(at)] = $probe(&lines[other], second_lower(hash, here), probes - here);
                }
            }
        }
    };
}

pairs!(scalar_pairs, scalar);
#[cfg(target_arch = "x86_64")]
pairs!(avx2_pairs, avx2, #[target_feature(enable = "avx2")]);
#[cfg(target_arch = "x86_64")]
pairs!(avx512_pairs, avx512, #[target_feature(enable = "avx512f")]);

#[cfg(test)]
mod tests;
