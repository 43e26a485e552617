//! SIMD search of a node's numbers: eight-byte heads, ascending, in inner nodes, and hashes, unsorted, in
//! leaves.
//!
//! The vector instructions are detected when a tree is created. A whole descent is compiled for each set of
//! them, inside a thin function that enables it, because a call for each node would cost as much as it saves.
//! The wide twin is plain code that the compiler turns into compare and subtract of four heads at a time; the
//! portable one is a binary search. SSE2 is part of x86-64 and needs no detection.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Isa {
    /// Plain code for every machine.
    Portable,
    /// x86-64 with AVX2.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// x86-64 with AVX-512 F, DQ and VL.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// The best of this machine.
    pub(super) fn detect() -> Isa {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            if is_x86_feature_detected!("avx2") {
                let is_wider = is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl");
                return if is_wider { Isa::Avx512 } else { Isa::Avx2 };
            }
        }
        Isa::Portable
    }
}

/// Heads are searched so many at a time; nodes pad theirs with the greatest number.
pub(super) const HEADS_STEP: usize = 4;

/// A search of the heads of an inner node. All kernels give the same answers.
pub(super) trait Kernel {
    /// Number of ascending `heads` less than `wanted`; their count is a multiple of [`HEADS_STEP`].
    fn below(heads: &[u64], wanted: u64) -> usize;
}

/// Binary search: a few dependent steps.
#[derive(Debug)]
pub(super) struct Portable;

impl Kernel for Portable {
    #[inline(always)]
    fn below(heads: &[u64], wanted: u64) -> usize {
        heads.partition_point(|&head| head < wanted)
    }
}

/// Compares all and counts: vectorized.
#[derive(Debug)]
pub(super) struct Wide;

impl Kernel for Wide {
    #[inline(always)]
    fn below(heads: &[u64], wanted: u64) -> usize {
        let mut lanes = [0u64; HEADS_STEP];
        for step in heads.as_chunks::<HEADS_STEP>().0 {
            for (lane, &head) in lanes.iter_mut().zip(step) {
                *lane += u64::from(head < wanted);
            }
        }
        lanes.iter().sum::<u64>() as usize
    }
}

/// A descent. All on its way must be `#[inline(always)]`, to be compiled with the instructions.
pub(super) trait Task {
    type Output;

    fn run<K: Kernel>(self) -> Self::Output;
}

#[inline(always)]
pub(super) fn run<T: Task>(isa: Isa, task: T) -> T::Output {
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `detect` found the instructions on this machine.
        Isa::Avx2 => unsafe { on_avx2(task) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Isa::Avx512 => unsafe { on_avx512(task) },
        Isa::Portable => task.run::<Portable>(),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
fn on_avx2<T: Task>(task: T) -> T::Output {
    task.run::<Wide>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt,lzcnt")]
fn on_avx512<T: Task>(task: T) -> T::Output {
    task.run::<Wide>()
}

/// The hash of a key in leaves. It stays in memory, and each collision costs one comparison, at most as many
/// as a leaf has entries, so it need not resist attacks: multiply and fold, eight bytes at a time.
#[inline(always)]
pub(super) fn hash(key: &[u8]) -> u32 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut state = (key.len() as u64).wrapping_mul(ODD);
    let (words, rest) = key.as_chunks::<8>();
    for word in words {
        state = (state ^ u64::from_le_bytes(*word)).wrapping_mul(ODD);
        state ^= state >> 29;
    }
    let last = match key.last_chunk::<8>() {
        Some(_) if rest.is_empty() => return (state ^ (state >> 32)) as u32,
        Some(last) => u64::from_le_bytes(*last),
        None => rest.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    };
    state = (state ^ last).wrapping_mul(ODD);
    (state ^ (state >> 32)) as u32
}

/// Bit `i` is set iff hash `i` is `wanted`, for at most 32 hashes.
#[inline(always)]
pub(super) fn equal(hashes: &[u32], wanted: u32) -> u32 {
    let mut mask = 0;
    let (steps, rest) = hashes.as_chunks::<8>();
    for (number, step) in steps.iter().enumerate() {
        mask |= equal_in_step(step, wanted) << (8 * number);
    }
    match hashes.last_chunk::<8>() {
        // The last eight again, including some that were compared already: avoids a loop over single ones.
        Some(last) if !rest.is_empty() => mask | equal_in_step(last, wanted) << (hashes.len() - 8),
        Some(_) => mask,
        None => one_by_one(rest, wanted),
    }
}

#[inline(always)]
fn one_by_one(hashes: &[u32], wanted: u32) -> u32 {
    hashes.iter().enumerate().fold(0, |mask, (at, &hash)| mask | u32::from(hash == wanted) << at)
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn equal_in_step(hashes: &[u32; 8], wanted: u32) -> u32 {
    one_by_one(hashes, wanted)
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn equal_in_step(hashes: &[u32; 8], wanted: u32) -> u32 {
    use std::arch::x86_64::{
        _mm_cmpeq_epi32, _mm_loadu_si128, _mm_movemask_epi8, _mm_packs_epi16, _mm_packs_epi32, _mm_set1_epi32,
    };
    // SAFETY: SSE2 is part of x86-64, and both loads lie inside the eight hashes.
    unsafe {
        let wanted = _mm_set1_epi32(wanted.cast_signed());
        let low = _mm_cmpeq_epi32(_mm_loadu_si128(hashes.as_ptr().cast()), wanted);
        let high = _mm_cmpeq_epi32(_mm_loadu_si128(hashes.as_ptr().add(4).cast()), wanted);
        let halves = _mm_packs_epi32(low, high);
        _mm_movemask_epi8(_mm_packs_epi16(halves, halves)) as u32 & 0xff
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn numbers(seed: u64) -> impl FnMut() -> u64 {
        let mut state = seed;
        move || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            state ^ state >> 33
        }
    }

    #[test]
    fn all_kernels_count_alike() {
        struct Below<'a>(&'a [u64], u64);
        impl Task for Below<'_> {
            type Output = usize;

            #[inline(always)]
            fn run<K: Kernel>(self) -> usize {
                K::below(self.0, self.1)
            }
        }
        let mut next = numbers(7);
        for count in (0..=32).step_by(HEADS_STEP) {
            for _ in 0..if cfg!(miri) { 1 } else { 50 } {
                let edges = [0, 1, u64::MAX / 2, u64::MAX / 2 + 1, u64::MAX - 1, u64::MAX];
                let mut number =
                    || if next().is_multiple_of(3) { edges[(next() % 6) as usize] } else { next() };
                let mut heads: Vec<u64> = (0..count).map(|_| number()).collect();
                heads.sort_unstable();
                for wanted in heads.iter().copied().chain(edges) {
                    let expected = heads.iter().filter(|&&head| head < wanted).count();
                    assert_eq!(run(Isa::Portable, Below(&heads, wanted)), expected);
                    assert_eq!(run(Isa::detect(), Below(&heads, wanted)), expected);
                    #[cfg(target_arch = "x86_64")]
                    if Isa::detect() == Isa::Avx512 {
                        assert_eq!(run(Isa::Avx2, Below(&heads, wanted)), expected);
                    }
                    assert_eq!(Wide::below(&heads, wanted), expected);
                }
            }
        }
    }

    #[test]
    fn hashes_are_found_wherever_they_are() {
        let mut next = numbers(11);
        for count in 0..=32 {
            for _ in 0..if cfg!(miri) { 1 } else { 50 } {
                let hashes: Vec<u32> = (0..count).map(|_| (next() % 5) as u32 * 0x2000_0001).collect();
                for wanted in (0..6).map(|number| number * 0x2000_0001) {
                    assert_eq!(equal(&hashes, wanted), one_by_one(&hashes, wanted), "{count}");
                }
            }
        }
    }

    #[test]
    fn every_byte_of_a_key_counts() {
        for len in 0..40 {
            let key: Vec<u8> = (0..len).collect();
            for at in 0..usize::from(len) {
                let mut other = key.clone();
                other[at] ^= 1;
                assert_ne!(hash(&key), hash(&other), "byte {at} of {len}");
            }
            assert_ne!(hash(&key), hash(&[&key[..], b"\0"].concat()));
        }
    }
}
