//! Parameters of a sharded memtable, and their text.

use super::Ring;
use crate::reference::skiplist::HEAD_BYTES;
use esker_base::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// Number of shards of a sharded memtable, their points on the ring, and their shares of the keys.
///
/// A shard's points are virtual nodes times weight, and its share of the keys is its weight's share of all
/// weights, but for a relative deviation of about one in the square root of its points. Its text is `SHARDS`,
/// `SHARDS:VIRTUAL_NODES` or `SHARDS:VIRTUAL_NODES:WEIGHTS`, the weights separated by commas:
///
/// ```
/// use esker_memtable::ShardPlan;
///
/// let plan: ShardPlan = "4:64:1,2,1,4".parse().unwrap();
/// assert_eq!((plan.shards(), plan.weight(3)), (4, 4));
/// assert_eq!(plan, ShardPlan::new(4, 64).unwrap().weighted(&[1, 2, 1, 4]).unwrap());
/// assert_eq!(plan.to_string(), "4:64:1,2,1,4");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ShardPlan {
    shards: u8,
    virtual_nodes: u16,
    /// Of each shard; zero behind the last.
    weights: [u8; ShardPlan::MAX_SHARDS as usize],
}

impl ShardPlan {
    /// Sixteen shards with 64 points each: shares that differ by an eighth.
    pub const DEFAULT: ShardPlan = ShardPlan::equal(16, 64);
    /// Most shards: a cursor holds a position in each.
    pub const MAX_SHARDS: u8 = 64;
    /// Most virtual nodes of a shard.
    pub const MAX_VIRTUAL_NODES: u16 = 256;
    /// Most points of all shards together, which are virtual nodes times weights: as many as the most shards
    /// have with the most virtual nodes, and half a millisecond of sorting for each memtable.
    pub const MAX_POINTS: u32 = ShardPlan::MAX_SHARDS as u32 * ShardPlan::MAX_VIRTUAL_NODES as u32;

    /// A plan of 1 to [`ShardPlan::MAX_SHARDS`] shards with 1 to [`ShardPlan::MAX_VIRTUAL_NODES`] points
    /// each, all of weight 1.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for what lies outside.
    pub fn new(shards: u8, virtual_nodes: u16) -> Result<ShardPlan> {
        let (most_shards, most_nodes) = (ShardPlan::MAX_SHARDS, ShardPlan::MAX_VIRTUAL_NODES);
        if !(1..=most_shards).contains(&shards) || !(1..=most_nodes).contains(&virtual_nodes) {
            return Err(Error::invalid(format!(
                "{shards} shards with {virtual_nodes} virtual nodes each: there can be 1 to {most_shards} shards with 1 to {most_nodes}"
            )));
        }
        Ok(ShardPlan::equal(shards, virtual_nodes))
    }

    const fn equal(shards: u8, virtual_nodes: u16) -> ShardPlan {
        let mut weights = [0; ShardPlan::MAX_SHARDS as usize];
        let mut shard = 0;
        while shard < shards as usize {
            weights[shard] = 1;
            shard += 1;
        }
        ShardPlan { shards, virtual_nodes, weights }
    }

    /// The same plan with a weight of 1 to 255 for each shard.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there are not as many weights as shards, a weight is 0, or there would
    /// be more points than [`ShardPlan::MAX_POINTS`].
    pub fn weighted(mut self, weights: &[u8]) -> Result<ShardPlan> {
        if weights.len() != usize::from(self.shards) {
            let (weights, shards) = (weights.len(), self.shards);
            return Err(Error::invalid(format!(
                "{weights} weights for {shards} shards: each shard has one, or none is given and all are 1"
            )));
        }
        if let Some(shard) = weights.iter().position(|weight| *weight == 0) {
            return Err(Error::invalid(format!(
                "shard {shard} has weight 0 and would hold no key: weights are 1 to 255"
            )));
        }
        let sum: u32 = weights.iter().map(|weight| u32::from(*weight)).sum();
        let points = sum * u32::from(self.virtual_nodes);
        if points > ShardPlan::MAX_POINTS {
            let (nodes, most) = (self.virtual_nodes, ShardPlan::MAX_POINTS);
            return Err(Error::invalid(format!(
                "weights of {sum} together with {nodes} virtual nodes for each 1 make {points} points: there can be {most}"
            )));
        }
        self.weights[..weights.len()].copy_from_slice(weights);
        Ok(self)
    }

    /// Number of shards.
    pub fn shards(self) -> u8 {
        self.shards
    }

    /// Points of a shard on the ring for each 1 of its weight.
    pub fn virtual_nodes(self) -> u16 {
        self.virtual_nodes
    }

    /// The weight of a shard, 0 if there is no such shard.
    pub fn weight(self, shard: u8) -> u8 {
        self.weights.get(usize::from(shard)).copied().unwrap_or(0)
    }

    fn weights(&self) -> &[u8] {
        &self.weights[..usize::from(self.shards)]
    }

    /// The ring of this plan: a pure function of it. O(p log p) for p points.
    pub fn ring(&self) -> Ring {
        let weights = self.weights().iter().map(|weight| u32::from(*weight));
        Ring::new((0..).zip(weights), u32::from(self.virtual_nodes))
    }

    /// Bytes of the arena that the empty lists take.
    pub(crate) const fn head_bytes(self) -> u64 {
        self.shards as u64 * HEAD_BYTES
    }
}

/// `SHARDS:VIRTUAL_NODES`, and `:WEIGHTS` unless all are 1.
impl fmt::Display for ShardPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.shards, self.virtual_nodes)?;
        if self.weights().iter().all(|weight| *weight == 1) {
            return Ok(());
        }
        for (shard, weight) in self.weights().iter().enumerate() {
            write!(f, "{}{weight}", if shard == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

/// As `Display`, which is shorter than sixty-four numbers.
impl fmt::Debug for ShardPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShardPlan({self})")
    }
}

impl FromStr for ShardPlan {
    type Err = Error;

    /// Parses what `Display` writes; weights, or virtual nodes and weights, may be left out.
    fn from_str(text: &str) -> Result<ShardPlan> {
        let wrong = |what: &str| {
            Error::invalid(format!(
                "{text:?} is no plan of shards, {what}: SHARDS, SHARDS:VIRTUAL_NODES or SHARDS:VIRTUAL_NODES:WEIGHT,WEIGHT,..."
            ))
        };
        let mut parts = text.splitn(3, ':');
        let shards = parts.next().unwrap_or_default();
        let shards = shards.parse().map_err(|_| wrong(&format!("{shards:?} is no number of shards")))?;
        let nodes = match parts.next() {
            Some(nodes) => {
                nodes.parse().map_err(|_| wrong(&format!("{nodes:?} is no number of virtual nodes")))?
            }
            None => ShardPlan::DEFAULT.virtual_nodes,
        };
        let plan = ShardPlan::new(shards, nodes)?;
        let Some(weights) = parts.next() else {
            return Ok(plan);
        };
        // One more than the limit suffices to report that there are too many.
        let weights = weights.split(',').take(usize::from(ShardPlan::MAX_SHARDS) + 1);
        let weight = |weight: &str| {
            weight.parse().map_err(|_| wrong(&format!("{weight:?} is no weight from 1 to 255")))
        };
        plan.weighted(&weights.map(weight).collect::<Result<Vec<u8>>>()?)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use esker_base::checksum::key_hash;

    const KEYS: u64 = 200_000;

    fn plan(text: &str) -> ShardPlan {
        text.parse().expect("a plan")
    }

    fn homes(text: &str) -> Vec<usize> {
        let ring = plan(text).ring();
        let hashes = (0..KEYS).map(|number| key_hash(format!("user{number:010}").as_bytes()));
        hashes.map(|hash| ring.shard_of(hash) as usize).collect()
    }

    /// A shard's share deviates by one in the square root of its points; four deviations miss 1 in 10,000.
    fn assert_fair(keys: u64, fair: f64, points: u32, what: &str) {
        let bound = 4.0 / f64::from(points).sqrt();
        assert!((keys as f64 / fair - 1.0).abs() < bound, "{what}: {keys} keys, {fair} are fair");
    }

    #[test]
    fn shares_follow_the_weights() {
        for weights in [&[1u8, 2, 1, 4][..], &[16, 1], &[3; 8], &[1, 10, 20, 5, 5]] {
            let plan = ShardPlan::new(weights.len() as u8, 64).and_then(|plan| plan.weighted(weights));
            let text = plan.expect("a plan").to_string();
            let sum: u32 = weights.iter().map(|weight| u32::from(*weight)).sum();
            let mut counts = vec![0u64; weights.len()];
            homes(&text).into_iter().for_each(|shard| counts[shard] += 1);
            for (keys, weight) in counts.into_iter().zip(weights) {
                let fair = KEYS as f64 * f64::from(*weight) / f64::from(sum);
                assert_fair(keys, fair, u32::from(*weight) * 64, &text);
            }
        }
    }

    /// Consistent hashing with weights: a grown shard takes its share from all others, and no other key
    /// moves.
    #[test]
    fn a_weight_moves_its_share_of_keys_and_no_others() {
        for (before, after, grown, points, share) in [
            // A fifth shard of weight 4 among twelve.
            ("4:64:1,2,1,4", "5:64:1,2,1,4,4", 4, 256, 4.0 / 12.0),
            // A third shard of weight 1 among five.
            ("2:64:1,3", "3:64:1,3,1", 2, 64, 1.0 / 5.0),
            // Shard 1 grows from 2 of eight to 6 of twelve: from a quarter of all keys to a half.
            ("4:64:1,2,1,4", "4:64:1,6,1,4", 1, 256, 1.0 / 4.0),
        ] {
            let mut moved = 0;
            let mut losses = [0u64; 8];
            let (from, to) = (homes(before), homes(after));
            for (from, to) in from.iter().zip(&to) {
                assert!(from == to || *to == grown, "{before} to {after}: a key moved from {from} to {to}");
                moved += u64::from(from != to);
                losses[*from] += u64::from(from != to);
            }
            assert_fair(moved, KEYS as f64 * share, points, after);
            for (shard, lost) in losses.into_iter().enumerate() {
                let weight = plan(before).weight(shard as u8);
                let is_robbed = weight > 0 && shard != grown;
                assert_eq!(lost > 0, is_robbed, "{before} to {after}: shard {shard} lost {lost}");
            }
        }
    }

    #[test]
    fn equal_weights_are_the_default() {
        assert_eq!(plan("3:5:1,1,1"), plan("3:5"));
        assert_eq!(plan("3:5:1,1,1").to_string(), "3:5");
        // Twice the weight and half the virtual nodes are the same points, and another plan.
        assert_eq!(plan("3:5:2,2,2").ring(), plan("3:10").ring());
        assert_eq!(plan("3:5:2,2,2").to_string(), "3:5:2,2,2");
        assert_eq!(format!("{:?}", plan("2:5:1,2")), "ShardPlan(2:5:1,2)");
    }

    #[test]
    fn wrong_plans_are_named_in_the_error() {
        let many = format!("64:1:{}", vec!["1"; 100_000].join(","));
        for (text, reason) in [
            ("", "\"\" is no number of shards"),
            ("4:", "\"\" is no number of virtual nodes"),
            ("4:x", "\"x\" is no number of virtual nodes"),
            ("65:1", "there can be 1 to 64 shards with 1 to 256"),
            ("4:64:", "\"\" is no weight from 1 to 255"),
            ("4:64:1,2,3", "3 weights for 4 shards"),
            ("4:64:1,2,3,4,5", "5 weights for 4 shards"),
            ("4:64:1,2,0,4", "shard 2 has weight 0"),
            ("4:64:1,2,256,4", "\"256\" is no weight from 1 to 255"),
            ("4:64:1,2,-1,4", "\"-1\" is no weight"),
            ("4:64:1,2,1,4:7", "\"4:7\" is no weight"),
            (
                "2:256:33,32",
                "65 together with 256 virtual nodes for each 1 make 16640 points: there can be 16384",
            ),
            (&many, "65 weights for 64 shards"),
        ] {
            let told = text.parse::<ShardPlan>().expect_err(reason).to_string();
            assert!(told.contains(reason), "{told}");
        }
        assert_eq!(plan("2:256:32,32").ring().len(), ShardPlan::MAX_POINTS as usize);
        assert_eq!(plan("64:256").ring().len(), ShardPlan::MAX_POINTS as usize);
    }
}
