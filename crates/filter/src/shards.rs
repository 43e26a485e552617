//! Shards: divides the keys of a large table into parts, each of which becomes a small filter of its own.
//!
//! Kinds that solve equations for their keys need memory for all equations at once, and more bits a key for
//! more keys. Shards bound both, and can be built in parallel. Persisted, hence fixed: the shard of a hash is
//! `mulhi(upper half of (hash * SPREAD mod 2^64), shards)`, which depends on every bit of the hash.

use crate::lines::line_index;

/// 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Largest shard as a multiple of the mean. For hashes beyond it the substitute is built.
const MOST_OF_MEAN: usize = 4;

#[inline(always)]
pub(crate) fn shard_of(hash: u64, shards: u32) -> usize {
    line_index(hash.wrapping_mul(SPREAD), shards)
}

/// The high and the low half of a product, folded: mixes all bits of `number` into all bits of the result.
#[inline(always)]
pub(crate) fn fold(number: u64, factor: u64) -> u64 {
    let product = u128::from(number) * u128::from(factor);
    product as u64 ^ (product >> 64) as u64
}

#[inline(always)]
pub(crate) fn seeded(hash: u64, seed: u8) -> u64 {
    fold(hash ^ (u64::from(seed) + 1).wrapping_mul(0xd1b5_4a32_d192_ed03), 0xa076_1d64_78bd_642f)
}

/// Number of shards for `keys` keys, `mean` in each.
pub(crate) fn shards_for(keys: usize, mean: usize) -> u32 {
    u32::try_from(keys.div_ceil(mean)).unwrap_or(u32::MAX).max(1)
}

/// Bytes of lists while `keys` are sharded and merged again, `of_a_shard` of them the caller's.
pub(crate) fn list_bytes(keys: usize, mean: usize, of_a_shard: usize) -> usize {
    // Sizes, ends, places and parts; the caller's list grows by doubling.
    shards_for(keys, mean) as usize * (3 * size_of::<usize>() + size_of::<&mut [u64]>() + 3 * of_a_shard)
        + 8 * of_a_shard
}

/// Orders `hashes` by shard, in place, and returns each shard's hashes. Equal hashes are dropped if a shard
/// would be too large with them. `None` if some shard still has more than [`MOST_OF_MEAN`] times `mean` keys.
pub(crate) fn partition(hashes: &mut Vec<u64>, mean: usize) -> Option<Vec<&mut [u64]>> {
    let limit = mean.saturating_mul(MOST_OF_MEAN);
    let counted = |hashes: &[u64]| {
        let shards = shards_for(hashes.len(), mean);
        let mut counts = vec![0usize; shards as usize];
        for &hash in hashes {
            counts[shard_of(hash, shards)] += 1;
        }
        counts
    };
    let mut counts = counted(hashes);
    if counts.iter().any(|&count| count > limit) {
        hashes.sort_unstable();
        hashes.dedup();
        counts = counted(hashes);
        if counts.iter().any(|&count| count > limit) {
            return None;
        }
    }
    move_into_place(hashes, &counts);
    let mut rest = hashes.as_mut_slice();
    let mut parts = Vec::with_capacity(counts.len());
    for count in counts {
        let (part, behind) = rest.split_at_mut(count);
        parts.push(part);
        rest = behind;
    }
    Some(parts)
}

/// Makes `list` one of `len` zeros, without holding old and new memory at once, nor more than needed.
pub(crate) fn renew<T: Clone + Default>(list: &mut Vec<T>, len: usize) {
    list.clear();
    if list.capacity() < len {
        *list = Vec::new();
        list.reserve_exact(len);
    }
    list.resize(len, T::default());
}

/// Swaps each hash into the range of its shard ("American flag" order): two passes, no second copy.
fn move_into_place(hashes: &mut [u64], counts: &[usize]) {
    let shards = counts.len() as u32;
    let mut ends = Vec::with_capacity(counts.len());
    let mut next = Vec::with_capacity(counts.len());
    let mut end = 0;
    for count in counts {
        next.push(end);
        end += count;
        ends.push(end);
    }
    for shard in 0..counts.len() {
        while next[shard] < ends[shard] {
            let place = next[shard];
            let home = shard_of(hashes[place], shards);
            if home != shard {
                hashes.swap(place, next[home]);
            }
            next[home] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hash_is_in_its_shard_and_none_is_lost() {
        for keys in [0u64, 1, 2, 99, 100, 101, 10_000] {
            let original: Vec<u64> = (0..keys).map(|at| seeded(at, 3)).collect();
            let mut hashes = original.clone();
            let shards = shards_for(hashes.len(), 100);
            let parts = partition(&mut hashes, 100).unwrap();
            assert_eq!(parts.len(), shards as usize);
            for (shard, part) in parts.iter().enumerate() {
                assert!(part.iter().all(|&hash| shard_of(hash, shards) == shard));
            }
            hashes.sort_unstable();
            let mut expected = original;
            expected.sort_unstable();
            assert_eq!(hashes, expected);
        }
    }

    /// With random hashes the first shard's pass brings nearly all others into place.
    #[test]
    fn a_single_misplaced_hash_at_the_end_is_moved() {
        let mut hashes: Vec<u64> = (0..10_000).map(|at| seeded(at, 3)).collect();
        hashes.sort_unstable_by_key(|&hash| shard_of(hash, 100));
        let of_the_last_but_one = hashes.partition_point(|&hash| shard_of(hash, 100) < 98);
        hashes.swap(of_the_last_but_one, 9_999);
        for (shard, part) in partition(&mut hashes, 100).unwrap().iter().enumerate() {
            assert!(part.iter().all(|&hash| shard_of(hash, 100) == shard), "shard {shard}");
        }
    }

    #[test]
    fn repetitions_are_dropped_where_they_make_a_shard_too_large() {
        let mut hashes: Vec<u64> = (0..100_000).map(|at| seeded(at % 1000, 0)).collect();
        assert_eq!(partition(&mut hashes, 1000).unwrap().len(), 100);
        let mut hashes = [vec![7; 50_000], (0..1000).map(|at| seeded(at, 0)).collect()].concat();
        let parts = partition(&mut hashes, 1000).unwrap();
        assert_eq!(parts.iter().map(|part| part.len()).sum::<usize>(), 1001);
    }

    /// Hashes made for the purpose: products whose upper half is zero.
    #[test]
    fn hashes_that_share_a_shard_are_refused() {
        let mut inverse = 1u64;
        for _ in 0..6 {
            inverse = inverse.wrapping_mul(2u64.wrapping_sub(SPREAD.wrapping_mul(inverse)));
        }
        let mut hashes: Vec<u64> = (0..10_000u64).map(|at| at.wrapping_mul(inverse)).collect();
        assert!(hashes.iter().all(|&hash| shard_of(hash, 10) == 0));
        assert!(partition(&mut hashes, 1000).is_none());
    }
}
