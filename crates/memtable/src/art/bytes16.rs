//! SIMD search of the up to sixteen key bytes of a small node, which lie unsorted in four words.
//!
//! SSE2 is part of x86-64 and needs no detection; elsewhere, and as the reference in tests, there is a
//! portable twin.

#[cfg(not(target_arch = "x86_64"))]
pub(super) use portable::{following, place_of, preceding};
#[cfg(target_arch = "x86_64")]
pub(super) use sse2::{following, place_of, preceding};

#[cfg(target_arch = "x86_64")]
mod sse2 {
    use std::arch::x86_64::{
        __m128i, _mm_and_si128, _mm_andnot_si128, _mm_cmpeq_epi8, _mm_cvtsi128_si32, _mm_max_epu8,
        _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set_epi32, _mm_set1_epi8, _mm_srli_si128,
    };

    #[inline(always)]
    fn load(words: [u32; 4]) -> __m128i {
        let [a, b, c, d] = words.map(u32::cast_signed);
        // SAFETY: SSE2 is part of x86-64.
        unsafe { _mm_set_epi32(d, c, b, a) }
    }

    #[inline(always)]
    fn equal_mask(bytes: __m128i, byte: u8) -> u32 {
        // SAFETY: SSE2 is part of x86-64.
        unsafe { _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte.cast_signed()))) as u32 }
    }

    /// The place of `byte` among the first `count` bytes.
    #[inline(always)]
    pub(in super::super) fn place_of(words: [u32; 4], count: usize, byte: u8) -> Option<usize> {
        let mask = equal_mask(load(words), byte) & ((1 << count) - 1);
        (mask != 0).then(|| mask.trailing_zeros() as usize)
    }

    /// The least of the first `count` bytes, which all differ, that is greater than `after`; with its place.
    #[inline(always)]
    pub(in super::super) fn following(words: [u32; 4], count: usize, after: i16) -> Option<(u8, usize)> {
        let bytes = load(words);
        // SAFETY: SSE2 is part of x86-64.
        let least = unsafe {
            let limit = _mm_set1_epi8(after.max(0) as i8);
            let not_greater = _mm_cmpeq_epi8(_mm_min_epu8(bytes, limit), bytes);
            let excluded = if after < 0 { _mm_set1_epi8(0) } else { not_greater };
            // Lanes that do not count become 255, which a real 255 does not distinguish: see below.
            let candidates = _mm_or_si128(_mm_or_si128(bytes, excluded), unused_lanes(count));
            let halves = _mm_min_epu8(candidates, _mm_srli_si128::<8>(candidates));
            let quarters = _mm_min_epu8(halves, _mm_srli_si128::<4>(halves));
            let pairs = _mm_min_epu8(quarters, _mm_srli_si128::<2>(quarters));
            _mm_cvtsi128_si32(_mm_min_epu8(pairs, _mm_srli_si128::<1>(pairs))) as u8
        };
        let mask = equal_mask(bytes, least) & ((1 << count) - 1);
        (mask != 0 && i16::from(least) > after).then(|| (least, mask.trailing_zeros() as usize))
    }

    /// The greatest of the first `count` bytes, which all differ, that is less than `before`; with its place.
    #[inline(always)]
    pub(in super::super) fn preceding(words: [u32; 4], count: usize, before: i16) -> Option<(u8, usize)> {
        let bytes = load(words);
        // SAFETY: SSE2 is part of x86-64.
        let greatest = unsafe {
            let limit = _mm_set1_epi8(before.min(255) as i8);
            let not_less = _mm_cmpeq_epi8(_mm_max_epu8(bytes, limit), bytes);
            let excluded = if before > 255 { _mm_set1_epi8(0) } else { not_less };
            // Lanes that do not count become 0, which a real 0 does not distinguish: see below.
            let counted = _mm_andnot_si128(unused_lanes(count), bytes);
            let candidates = _mm_and_si128(counted, _mm_andnot_si128(excluded, _mm_set1_epi8(-1)));
            let halves = _mm_max_epu8(candidates, _mm_srli_si128::<8>(candidates));
            let quarters = _mm_max_epu8(halves, _mm_srli_si128::<4>(halves));
            let pairs = _mm_max_epu8(quarters, _mm_srli_si128::<2>(quarters));
            _mm_cvtsi128_si32(_mm_max_epu8(pairs, _mm_srli_si128::<1>(pairs))) as u8
        };
        let mask = equal_mask(bytes, greatest) & ((1 << count) - 1);
        (mask != 0 && i16::from(greatest) < before).then(|| (greatest, mask.trailing_zeros() as usize))
    }

    /// All bits of the lanes from `count` on.
    #[inline(always)]
    fn unused_lanes(count: usize) -> __m128i {
        const LANES: [u8; 32] = [
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
            255, 255, 255, 255, 255, 255,
        ];
        let lanes: &[u8; 16] = LANES[16 - count..].first_chunk().expect("sixteen lanes follow");
        // SAFETY: SSE2 is part of x86-64, and the sixteen bytes are readable.
        unsafe { std::arch::x86_64::_mm_loadu_si128(lanes.as_ptr().cast()) }
    }
}

#[cfg(any(test, not(target_arch = "x86_64")))]
mod portable {
    fn bytes(words: [u32; 4], count: usize) -> impl Iterator<Item = (u8, usize)> {
        (0..count).map(move |place| ((words[place / 4] >> (place % 4 * 8)) as u8, place))
    }

    #[inline]
    pub(in super::super) fn place_of(words: [u32; 4], count: usize, byte: u8) -> Option<usize> {
        bytes(words, count).find(|&(other, _)| other == byte).map(|(_, place)| place)
    }

    #[inline]
    pub(in super::super) fn following(words: [u32; 4], count: usize, after: i16) -> Option<(u8, usize)> {
        bytes(words, count).filter(|&(byte, _)| i16::from(byte) > after).min()
    }

    #[inline]
    pub(in super::super) fn preceding(words: [u32; 4], count: usize, before: i16) -> Option<(u8, usize)> {
        bytes(words, count).filter(|&(byte, _)| i16::from(byte) < before).max()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::portable;

    /// Many edge values, all different; lanes beyond the count hold values that must not be found.
    fn words(seed: u32) -> [u32; 4] {
        let mut bytes = [0u8; 16];
        let mut next = seed.wrapping_mul(0x9e37_79b9);
        for at in 0..16 {
            loop {
                next = next.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f);
                let byte =
                    [0, 1, 127, 128, 254, 255, (next >> 16) as u8, (next >> 8) as u8][(next >> 29) as usize];
                if !bytes[..at].contains(&byte) {
                    bytes[at] = byte;
                    break;
                }
            }
        }
        std::array::from_fn(|word| u32::from_le_bytes(std::array::from_fn(|at| bytes[word * 4 + at])))
    }

    #[test]
    fn the_chosen_search_agrees_with_the_portable_one() {
        // Miri takes milliseconds for each vector instruction.
        let (seeds, count_step, byte_step) = if cfg!(miri) { (1, 4, 17) } else { (200, 1, 1) };
        for seed in 0..seeds {
            let words = words(seed);
            for count in (0..=16).step_by(count_step) {
                for byte in (0..=255).step_by(byte_step) {
                    assert_eq!(super::place_of(words, count, byte), portable::place_of(words, count, byte));
                }
                for limit in (-1..=8).chain(60..70).chain(120..136).chain(250..=256) {
                    let context = format!("seed {seed}, {count} bytes, limit {limit}");
                    let expected = portable::following(words, count, limit);
                    assert_eq!(super::following(words, count, limit), expected, "{context}");
                    let expected = portable::preceding(words, count, limit);
                    assert_eq!(super::preceding(words, count, limit), expected, "{context}");
                }
            }
        }
    }
}
