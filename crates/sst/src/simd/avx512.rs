//! 512-bit vectors with masks.

use super::{Kernel, NODE_KEYS};
use std::arch::x86_64::*;

#[derive(Clone, Copy)]
pub(crate) struct Avx512;

impl Kernel for Avx512 {
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
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi2,popcnt")]
unsafe fn rank_node(keys: &[u64; NODE_KEYS], wanted: u64) -> usize {
    let wanted = _mm512_set1_epi64(wanted as i64);
    // SAFETY: two halves of sixteen keys.
    let (low, high) = unsafe {
        (_mm512_loadu_si512(keys.as_ptr().cast()), _mm512_loadu_si512(keys.as_ptr().add(8).cast()))
    };
    let low = u32::from(_mm512_cmple_epu64_mask(low, wanted));
    let high = u32::from(_mm512_cmple_epu64_mask(high, wanted));
    (high << 8 | low).count_ones() as usize
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi2,popcnt")]
unsafe fn match_bytes(bytes: *const u8, count: usize, wanted: u8) -> u64 {
    // SAFETY: 64 bytes are readable.
    let lane = unsafe { _mm512_loadu_si512(bytes.cast()) };
    let equal = _mm512_cmpeq_epi8_mask(lane, _mm512_set1_epi8(wanted as i8));
    _bzhi_u64(equal, count as u32)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi2,popcnt")]
unsafe fn rank_heads(heads: *const u8, count: usize, wanted: u16) -> (usize, usize) {
    let wanted = _mm512_set1_epi16(wanted as i16);
    let (mut below, mut up_to) = (0, 0);
    let mut at = 0;
    while at < count {
        let valid = _bzhi_u32(u32::MAX, (count - at).min(32) as u32);
        // SAFETY: `at` is below `count`, and 64 bytes are readable from each number.
        let heads = unsafe { _mm512_loadu_si512(heads.add(2 * at).cast()) };
        below += _mm512_mask_cmplt_epu16_mask(valid, heads, wanted).count_ones() as usize;
        up_to += _mm512_mask_cmple_epu16_mask(valid, heads, wanted).count_ones() as usize;
        at += 32;
    }
    (below, up_to)
}
