//! SIMD dispatch: chooses the vector instructions of this machine at run time.
//!
//! Users build for the baseline of their architecture. The choice is made once per lookup and not once per
//! probe: the whole lookup is compiled three times, generic over a [`Kernel`], inside a thin function that
//! enables the instructions. A call per probe costs 25 to 45 ns a get. All kernels give identical answers;
//! the tests compare them.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod block_hash;
mod portable;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::Avx512;
pub(crate) use block_hash::block_hash;
pub(crate) use esker_env::memory::prefetch;
pub(crate) use portable::Portable;

/// Heads in one node of the block index: two cache lines.
pub(crate) const NODE_KEYS: usize = 16;

/// Most fingerprints compared at once; blocks have at least this many readable bytes behind their entries.
pub(crate) const LANE_BYTES: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InstructionSet {
    /// Portable code for every machine.
    Portable,
    /// x86-64 with AVX2 and the bit manipulation sets.
    Avx2,
    /// x86-64 with AVX-512 F, BW and VL.
    Avx512,
}

impl InstructionSet {
    /// The best set of this machine. Cheap: the standard library caches the detection.
    #[inline]
    pub(crate) fn detect() -> InstructionSet {
        #[cfg(target_arch = "x86_64")]
        {
            let bits = is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("popcnt")
                && is_x86_feature_detected!("lzcnt");
            if bits
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
            {
                return InstructionSet::Avx512;
            }
            if bits && is_x86_feature_detected!("avx2") {
                return InstructionSet::Avx2;
            }
        }
        InstructionSet::Portable
    }

    #[cfg(test)]
    pub(crate) fn is_available(self) -> bool {
        match (self, InstructionSet::detect()) {
            (InstructionSet::Portable, _) | (_, InstructionSet::Avx512) => true,
            (wanted, best) => wanted == best,
        }
    }
}

/// The inner loops of lookups.
///
/// # Safety
/// Every function may be called only where the kernel's instructions are available. Functions that take a
/// pointer state how many bytes behind it must be readable.
pub(crate) trait Kernel: Copy {
    /// How many of the ascending `keys` are at most `wanted`.
    unsafe fn rank_node(keys: &[u64; NODE_KEYS], wanted: u64) -> usize;

    /// Bit `i` is set iff `bytes[i] == wanted`, for `i < count <= 64`. Reads up to [`LANE_BYTES`] bytes.
    unsafe fn match_bytes(bytes: *const u8, count: usize, wanted: u8) -> u64;

    /// Among `count` ascending little-endian 16-bit numbers: how many are less than `wanted`, and how many at
    /// most. Reads up to [`LANE_BYTES`] bytes from each number.
    unsafe fn rank_heads(heads: *const u8, count: usize, wanted: u16) -> (usize, usize);
}

/// Compiles `$body`, a function's body over the kernel type `$kernel`, for each instruction set and calls the
/// one for `$isa` with the arguments.
///
/// Functions called by the body must be `#[inline(always)]`, else they are not compiled with the
/// instructions.
macro_rules! with_kernel {
    ($isa:expr, |$kernel:ident| ($($name:ident : $type:ty),* $(,)?) -> $output:ty $body:block ($($argument:expr),* $(,)?)) => {{
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,bmi1,bmi2,popcnt,lzcnt")]
        #[allow(clippy::too_many_arguments, reason = "the arguments are those of the function behind it")]
        unsafe fn on_avx512($($name: $type),*) -> $output {
            type $kernel = $crate::simd::Avx512;
            $body
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
        #[allow(clippy::too_many_arguments, reason = "the arguments are those of the function behind it")]
        unsafe fn on_avx2($($name: $type),*) -> $output {
            type $kernel = $crate::simd::Avx2;
            $body
        }
        #[allow(clippy::too_many_arguments, reason = "the arguments are those of the function behind it")]
        fn on_any($($name: $type),*) -> $output {
            type $kernel = $crate::simd::Portable;
            $body
        }
        match $isa {
            // SAFETY: an `InstructionSet` comes from `InstructionSet::detect`, or from tests that checked
            // `InstructionSet::is_available`.
            #[cfg(target_arch = "x86_64")]
            $crate::simd::InstructionSet::Avx512 => unsafe { on_avx512($($argument),*) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            $crate::simd::InstructionSet::Avx2 => unsafe { on_avx2($($argument),*) },
            _ => on_any($($argument),*),
        }
    }};
}
pub(crate) use with_kernel;

#[cfg(test)]
mod tests {
    use super::*;
    use esker_env::SeededRandom;

    fn check<K: Kernel>(seed: u64) {
        let random = SeededRandom::new(seed);
        for round in 0..3_000u64 {
            let mut keys = [0u64; NODE_KEYS];
            let spread = 1 << random.below(64);
            for key in &mut keys {
                *key = match random.below(10) {
                    0 => u64::MAX,
                    1 => 1 << 63,
                    _ => random.below(spread),
                };
            }
            keys.sort_unstable();
            let wanted = if round % 2 == 0 { keys[random.below(16) as usize] } else { random.below(spread) };
            // SAFETY: the caller checked that the kernel is available.
            let rank = unsafe { K::rank_node(&keys, wanted) };
            assert_eq!(
                rank,
                keys.iter().filter(|&&key| key <= wanted).count(),
                "seed {seed} {keys:?} {wanted}"
            );

            let count = random.below(200) as usize;
            let mut heads: Vec<u16> = (0..count).map(|_| random.below(spread.min(1 << 16)) as u16).collect();
            heads.sort_unstable();
            let wanted = random.below(spread.min(1 << 16)) as u16;
            let mut bytes: Vec<u8> = heads.iter().flat_map(|head| head.to_le_bytes()).collect();
            bytes.extend_from_slice(&[0; LANE_BYTES]);
            // SAFETY: as above, and `LANE_BYTES` bytes follow the numbers.
            let ranks = unsafe { K::rank_heads(bytes.as_ptr(), count, wanted) };
            let below = heads.iter().filter(|&&head| head < wanted).count();
            let up_to = heads.iter().filter(|&&head| head <= wanted).count();
            assert_eq!(ranks, (below, up_to), "seed {seed} {heads:?} {wanted}");

            let lane: Vec<u8> = (0..LANE_BYTES).map(|_| random.below(4) as u8).collect();
            let count = random.below(65) as usize;
            // SAFETY: as above, and the lane has `LANE_BYTES` bytes.
            let mask = unsafe { K::match_bytes(lane.as_ptr(), count, 2) };
            let expected = (0..count).filter(|&i| lane[i] == 2).fold(0u64, |mask, i| mask | 1 << i);
            assert_eq!(mask, expected, "seed {seed}");
        }
    }

    #[test]
    fn kernels_agree_with_counting() {
        check::<Portable>(1);
        #[cfg(target_arch = "x86_64")]
        if InstructionSet::Avx2.is_available() {
            check::<Avx2>(2);
        }
        #[cfg(target_arch = "x86_64")]
        if InstructionSet::Avx512.is_available() {
            check::<Avx512>(3);
        }
    }
}
