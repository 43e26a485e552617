//! 256-bit vectors.

use super::{Kernel, NODE_KEYS};
use std::arch::x86_64::*;

#[derive(Clone, Copy)]
pub(crate) struct Avx2;

impl Kernel for Avx2 {
    #[inline(always)]
    unsafe fn rank_node(keys: &[u64; NODE_KEYS], wanted: u64) -> usize {
        // SAFETY: the caller has the instructions.
        unsafe { rank_node(keys, wanted) }
    }

    #[inline(always)]
    unsafe fn match_bytes(bytes: *const u8, count: usize, wanted: u8) -> u64 {
        // SAFETY: as above; 64 bytes are readable.
        unsafe { match_bytes(bytes, count, wanted) }
    }

    #[inline(always)]
    unsafe fn rank_heads(heads: *const u8, count: usize, wanted: u16) -> (usize, usize) {
        // SAFETY: as above; 64 bytes are readable from each number.
        unsafe { rank_heads(heads, count, wanted) }
    }
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
unsafe fn rank_node(keys: &[u64; NODE_KEYS], wanted: u64) -> usize {
    // There is only a signed comparison: flip the sign bits.
    let sign = _mm256_set1_epi64x(i64::MIN);
    let wanted = _mm256_xor_si256(_mm256_set1_epi64x(wanted as i64), sign);
    let mut greater = _mm256_setzero_si256();
    for quarter in 0..4 {
        // SAFETY: four of sixteen keys.
        let four = unsafe { _mm256_loadu_si256(keys.as_ptr().add(4 * quarter).cast()) };
        greater = _mm256_sub_epi64(greater, _mm256_cmpgt_epi64(_mm256_xor_si256(four, sign), wanted));
    }
    let pairs = _mm_add_epi64(_mm256_castsi256_si128(greater), _mm256_extracti128_si256::<1>(greater));
    NODE_KEYS - (_mm_cvtsi128_si64(pairs) + _mm_extract_epi64::<1>(pairs)) as usize
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
unsafe fn match_bytes(bytes: *const u8, count: usize, wanted: u8) -> u64 {
    let pattern = _mm256_set1_epi8(wanted as i8);
    // SAFETY: 64 bytes are readable.
    let (low, high) = unsafe { (_mm256_loadu_si256(bytes.cast()), _mm256_loadu_si256(bytes.add(32).cast())) };
    let low = _mm256_movemask_epi8(_mm256_cmpeq_epi8(low, pattern)) as u32;
    let high = _mm256_movemask_epi8(_mm256_cmpeq_epi8(high, pattern)) as u32;
    _bzhi_u64(u64::from(high) << 32 | u64::from(low), count as u32)
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
unsafe fn rank_heads(heads: *const u8, count: usize, wanted: u16) -> (usize, usize) {
    let sign = _mm256_set1_epi16(i16::MIN);
    let wanted = _mm256_xor_si256(_mm256_set1_epi16(wanted as i16), sign);
    let (mut below, mut up_to) = (0, 0);
    let mut at = 0;
    while at < count {
        // SAFETY: `at` is below `count`, and 64 bytes are readable from each number.
        let sixteen = _mm256_xor_si256(unsafe { _mm256_loadu_si256(heads.add(2 * at).cast()) }, sign);
        // Two mask bits a number.
        let valid = _bzhi_u32(u32::MAX, 2 * (count - at).min(16) as u32);
        let less = _mm256_movemask_epi8(_mm256_cmpgt_epi16(wanted, sixteen)) as u32 & valid;
        let greater = _mm256_movemask_epi8(_mm256_cmpgt_epi16(sixteen, wanted)) as u32 & valid;
        below += less.count_ones() as usize / 2;
        up_to += (valid & !greater).count_ones() as usize / 2;
        at += 16;
    }
    (below, up_to)
}
