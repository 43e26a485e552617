//! Consistent hashing: the shard of a hash.
//!
//! After Karger, Lehman, Leighton, Panigrahy, Levine and Lewin, "Consistent hashing and random trees" (STOC
//! 1997). Each shard has a number of points on the circle of 64-bit numbers, its *virtual nodes*, in
//! proportion to its weight; a hash belongs to the shard of the first point at or after it. A new shard takes
//! what lies before its own points, a removed one leaves the same to its neighbours on the circle: about 1/n
//! of the keys move, and none between two other shards.
//!
//! The position of a point is the XXH3-64 of shard and number, so that a ring is a pure function of its
//! shards. Shares differ from the weights by about one part in the square root of the number of virtual
//! nodes.
//!
//! A lookup uses the top bits of the hash to find the place among the sorted points where the search begins,
//! about one point before its end: a constant number of steps on average, log n for unlucky hashes of points.

use esker_base::checksum::xxh3_64;

/// Points of consistent hashing, sorted.
///
/// ```
/// use esker_memtable::Ring;
///
/// let three = Ring::new([(0, 1), (1, 1), (2, 2)], 64);
/// let four = Ring::new([(0, 1), (1, 1), (2, 2), (3, 1)], 64);
/// for hash in (0..64).map(|number: u64| number << 58) {
///     // What moved, moved to the new shard.
///     assert!(four.shard_of(hash) == three.shard_of(hash) || four.shard_of(hash) == 3);
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Positions in ascending order.
    positions: Box<[u64]>,
    shards: Box<[u32]>,
    /// For each value of the top bits of a hash, the first point that such a hash can belong to.
    starts: Box<[u32]>,
    /// How far a hash is shifted for its top bits.
    shift: u32,
}

/// Most points of a ring; further ones are dropped. A million take 16 MiB.
const MAX_POINTS: usize = 1 << 20;

impl Ring {
    /// The ring of these shards, given as (number, weight): each has `virtual_nodes` points for each unit of
    /// its weight. O(p log p) for p points.
    pub fn new(shards: impl IntoIterator<Item = (u32, u32)>, virtual_nodes: u32) -> Ring {
        let point = |shard: u32, node: u64| {
            let mut name = [0; 12];
            name[..4].copy_from_slice(&shard.to_le_bytes());
            name[4..].copy_from_slice(&node.to_le_bytes());
            (xxh3_64(&name), shard)
        };
        let nodes = |weight: u32| 0..u64::from(weight) * u64::from(virtual_nodes);
        let all =
            shards.into_iter().flat_map(|(shard, weight)| nodes(weight).map(move |node| point(shard, node)));
        let mut points: Vec<(u64, u32)> = all.take(MAX_POINTS).collect();
        points.sort_unstable();
        let bits = points.len().next_power_of_two().trailing_zeros().max(1);
        let shift = 64 - bits;
        let starts = (0..1u64 << bits)
            .map(|top| points.partition_point(|(position, _)| *position < top << shift) as u32)
            .collect();
        let (positions, shards): (Vec<u64>, Vec<u32>) = points.into_iter().unzip();
        Ring { positions: positions.into(), shards: shards.into(), starts, shift }
    }

    /// The shard that `hash` belongs to; 0 if the ring has no point.
    #[inline]
    pub fn shard_of(&self, hash: u64) -> u32 {
        let mut at = self.starts[(hash >> self.shift) as usize] as usize;
        while self.positions.get(at).is_some_and(|position| *position < hash) {
            at += 1;
        }
        // Beyond the last point the circle begins anew.
        let at = if at == self.positions.len() { 0 } else { at };
        self.shards.get(at).copied().unwrap_or(0)
    }

    /// Number of points.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Whether there is no point.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use esker_base::checksum::key_hash;

    const KEYS: u64 = 100_000;
    const VIRTUAL_NODES: u32 = 64;

    fn hashes() -> impl Iterator<Item = u64> {
        (0..KEYS).map(|number| key_hash(format!("user{number:010}").as_bytes()))
    }

    fn equal(count: u32) -> Ring {
        Ring::new((0..count).map(|shard| (shard, 1)), VIRTUAL_NODES)
    }

    fn counts(ring: &Ring, shards: usize) -> Vec<u64> {
        let mut counts = vec![0; shards];
        for hash in hashes() {
            counts[ring.shard_of(hash) as usize] += 1;
        }
        counts
    }

    /// The result of `shard_of`, without its shortcut.
    fn naive(ring: &Ring, hash: u64) -> u32 {
        let at = ring.positions.iter().position(|position| *position >= hash).unwrap_or(0);
        ring.shards[at]
    }

    #[test]
    fn a_hash_belongs_to_the_next_point() {
        for ring in [equal(1), equal(3), equal(16), Ring::new([(7, 1)], 1), Ring::new([(1, 2), (2, 5)], 3)] {
            let at_points =
                ring.positions.iter().flat_map(|at| [at.wrapping_sub(1), *at, at.wrapping_add(1)]);
            for hash in at_points.chain(hashes().take(2_000)).chain([0, u64::MAX]) {
                assert_eq!(ring.shard_of(hash), naive(&ring, hash), "{hash:x}");
            }
        }
        assert_eq!(Ring::new([], 64).shard_of(77), 0);
        assert!(Ring::new([(3, 0)], 64).is_empty());
    }

    #[test]
    fn shards_get_about_equal_shares() {
        // The share of a shard has a relative deviation of one in the square root of its points, 12.5 %; four
        // deviations bound sixteen shards with ease, and a ring without virtual nodes misses them by far.
        for count in [2, 5, 16] {
            let mean = KEYS as f64 / f64::from(count);
            for (shard, keys) in counts(&equal(count), count as usize).into_iter().enumerate() {
                assert!((keys as f64 - mean).abs() < 0.5 * mean, "shard {shard} of {count} has {keys}");
            }
        }
        let single = Ring::new((0..16).map(|shard| (shard, 1)), 1);
        assert!(counts(&single, 16).iter().any(|keys| *keys as f64 > 1.5 * KEYS as f64 / 16.0));
    }

    #[test]
    fn a_new_shard_takes_its_share_and_nothing_else_moves() {
        for count in [1, 4, 15] {
            let (before, after) = (equal(count), equal(count + 1));
            let mut moved = 0;
            for hash in hashes() {
                let (from, to) = (before.shard_of(hash), after.shard_of(hash));
                assert!(from == to || to == count, "a key moved from {from} to {to}");
                moved += u64::from(from != to);
            }
            let fair = KEYS as f64 / f64::from(count + 1);
            assert!((moved as f64 - fair).abs() < 0.5 * fair, "{moved} moved, {fair} is fair");
        }
    }

    #[test]
    fn a_removed_shard_leaves_its_keys_to_all_others() {
        let before = equal(8);
        let after = Ring::new((0..8).filter(|shard| *shard != 3).map(|shard| (shard, 1)), VIRTUAL_NODES);
        let mut inheriting = [0u64; 8];
        let mut moved = 0;
        for hash in hashes() {
            let (from, to) = (before.shard_of(hash), after.shard_of(hash));
            assert_eq!(from != to, from == 3, "only the keys of the shard that went may move");
            if from != to {
                moved += 1;
                inheriting[to as usize] += 1;
            }
        }
        let fair = KEYS as f64 / 8.0;
        assert!((moved as f64 - fair).abs() < 0.5 * fair, "{moved} moved, {fair} is fair");
        // With 64 points each of the seven inherits some, and none more than half of it.
        for (shard, keys) in inheriting.into_iter().enumerate().filter(|(shard, _)| *shard != 3) {
            assert!(keys > 0 && keys < moved / 2, "shard {shard} inherits {keys} of {moved}");
        }
    }

    #[test]
    fn weights_are_honoured() {
        let weights = [1u32, 2, 4, 8];
        let ring = Ring::new((0..).zip(weights), VIRTUAL_NODES);
        assert_eq!(ring.len(), 15 * VIRTUAL_NODES as usize);
        for (keys, weight) in counts(&ring, 4).into_iter().zip(weights) {
            let fair = KEYS as f64 * f64::from(weight) / 15.0;
            assert!((keys as f64 - fair).abs() < 0.4 * fair, "{keys} for weight {weight}, {fair} is fair");
        }
        // More weight takes keys from the others, and gives none of its own away.
        let heavier = Ring::new((0..).zip([1u32, 4, 4, 8]), VIRTUAL_NODES);
        for hash in hashes() {
            let (from, to) = (ring.shard_of(hash), heavier.shard_of(hash));
            assert!(from == to || to == 1, "a key moved from {from} to {to}");
        }
    }
}
