//! Plain code, and the meaning of the other kernels.

use super::{Kernel, NODE_KEYS};

#[derive(Clone, Copy)]
pub(crate) struct Portable;

impl Kernel for Portable {
    #[inline(always)]
    unsafe fn rank_node(keys: &[u64; NODE_KEYS], wanted: u64) -> usize {
        // A binary search without branches; counting all sixteen takes twice as long without vectors.
        let mut rank = 8 * usize::from(keys[7] <= wanted);
        rank += 4 * usize::from(keys[rank + 3] <= wanted);
        rank += 2 * usize::from(keys[rank + 1] <= wanted);
        rank += usize::from(keys[rank] <= wanted);
        // The steps count at most fifteen.
        rank + usize::from(rank == 15 && keys[15] <= wanted)
    }

    #[inline(always)]
    unsafe fn match_bytes(bytes: *const u8, count: usize, wanted: u8) -> u64 {
        const LOW_BITS: u64 = 0x7f7f_7f7f_7f7f_7f7f;
        let pattern = u64::from(wanted) * 0x0101_0101_0101_0101;
        let mut mask = 0u64;
        let mut at = 0;
        while at < count {
            // SAFETY: `at` is a multiple of eight below 64, and 64 bytes are readable.
            let word = u64::from_le_bytes(unsafe { bytes.add(at).cast::<[u8; 8]>().read() });
            let difference = word ^ pattern;
            // The top bit of each byte that is zero, exactly: no carry crosses a byte.
            let equal = !(((difference & LOW_BITS) + LOW_BITS) | difference | LOW_BITS);
            // Gathers the top bits of the eight bytes.
            let bits = (equal >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56;
            mask |= bits << at;
            at += 8;
        }
        if count < 64 { mask & ((1 << count) - 1) } else { mask }
    }

    #[inline(always)]
    unsafe fn rank_heads(heads: *const u8, count: usize, wanted: u16) -> (usize, usize) {
        let head = |at: usize| {
            // SAFETY: the searches below ask for numbers below `count` only.
            u16::from_le_bytes(unsafe { heads.add(2 * at).cast::<[u8; 2]>().read() })
        };
        let below = partition(0, count, |at| head(at) < wanted);
        (below, partition(below, count, |at| head(at) <= wanted))
    }
}

/// The first position from `from` to `to` where `holds` fails; it must hold up to some position only.
#[inline(always)]
fn partition(mut from: usize, mut to: usize, holds: impl Fn(usize) -> bool) -> usize {
    while from < to {
        let middle = (from + to) / 2;
        if holds(middle) { from = middle + 1 } else { to = middle }
    }
    from
}
