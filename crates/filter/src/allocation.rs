//! Allocation of filter memory over the levels of a tree: the user's choice, and the filter of a new table by
//! it.

use crate::monkey::{FilterGoal, FilteredRun, RateCurve, allocate};
use crate::policy::FilterPolicy;
use esker_base::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// Most levels that [`FilterAllocation::Dynamic`] has targets for; deeper ones have the last.
pub const MAX_TARGETS: usize = 8;

/// A false-positive rate or a sum of them, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetRate(u32);

impl TargetRate {
    /// A millionth: less than any filter reaches.
    pub const MIN: TargetRate = TargetRate(1);
    /// One read in vain in each of a hundred runs.
    pub const MAX: TargetRate = TargetRate(100_000_000);

    /// The nearest representable rate within the limits.
    pub fn from_rate(rate: f64) -> TargetRate {
        TargetRate((rate * 1e6).round() as u32).clamp(Self::MIN, Self::MAX)
    }

    /// The rate.
    pub fn rate(self) -> f64 {
        f64::from(self.0) / 1e6
    }
}

/// The target rates of [`FilterAllocation::Dynamic`], level by level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LevelTargets {
    targets: [TargetRate; MAX_TARGETS],
    len: u8,
}

impl LevelTargets {
    /// 0.1, 0.5, 1, 2, 5, 10, 15 and 20 %, as the CS265 report has them.
    pub const DEFAULT: LevelTargets = LevelTargets {
        targets: [
            TargetRate(1_000),
            TargetRate(5_000),
            TargetRate(10_000),
            TargetRate(20_000),
            TargetRate(50_000),
            TargetRate(100_000),
            TargetRate(150_000),
            TargetRate(200_000),
        ],
        len: MAX_TARGETS as u8,
    };

    /// Targets for the levels that hold data, from the newest on; one to [`MAX_TARGETS`].
    pub fn new(targets: &[TargetRate]) -> Option<LevelTargets> {
        let last = *targets.last()?;
        let mut all = [last; MAX_TARGETS];
        all.get_mut(..targets.len())?.copy_from_slice(targets);
        Some(LevelTargets { targets: all, len: targets.len() as u8 })
    }

    /// The target of the level with so many non-empty levels above it.
    pub fn of_level(&self, position: usize) -> TargetRate {
        self.targets[position.min(usize::from(self.len) - 1)]
    }

    fn as_slice(&self) -> &[TargetRate] {
        &self.targets[..usize::from(self.len)]
    }
}

/// How the filter memory of a tree is divided over its levels.
///
/// Its text is `uniform`, `monkey`, `monkey:0.1` (the bound on reads in vain), `proportional`,
/// `fixed:1000000` (bits of each table), `dynamic` or `dynamic:0.001,0.01` (the targets from level to level);
/// [`fmt::Display`] gives the same back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FilterAllocation {
    /// Each table gets the bits a key of the policy.
    Uniform,
    /// The bits a key of the policy are the average over the tree, divided so that lookups of absent keys
    /// read the fewest blocks: small runs get more bits, large ones fewer ([`crate::monkey`]).
    #[default]
    Monkey,
    /// The least memory with which lookups of absent keys read at most so many blocks in vain on average; the
    /// bits of the policy are ignored. Kinds come in steps, and the next larger size is taken, so that the
    /// bound holds.
    MonkeyReads(TargetRate),
    /// Bits a key in proportion to the size of the run, with the policy's on average over the tree, as in the
    /// byron report: the opposite of Monkey, for comparison.
    Proportional,
    /// Each table has so many bits, however many keys it holds.
    FixedBits(u64),
    /// Each level has a target rate of false positives. The rates of sampled lookups are measured, and the
    /// bits of new tables move between [`crate::tuning::MIN_BITS`] and [`crate::tuning::MAX_BITS`] until the
    /// measured rate is the target.
    Dynamic(LevelTargets),
}

/// Most bits that [`FilterAllocation::FixedBits`] takes: the filter of one table may have half a gigabyte.
pub const MAX_FIXED_BITS: u64 = 1 << 32;

/// The runs of a tree as they will be with a new table.
#[derive(Clone, Debug)]
pub struct FilteredTree {
    /// Its runs, the one of the new table included.
    pub runs: Vec<FilteredRun>,
    /// The index of the new table's run.
    pub run: usize,
}

impl FilterAllocation {
    /// Whether [`FilterAllocation::policy_for`] depends on the tree.
    pub fn depends_on_tree(&self) -> bool {
        matches!(self, Self::Monkey | Self::MonkeyReads(_) | Self::Proportional)
    }

    /// The filter of a new table in this tree. [`FilterAllocation::Dynamic`] and
    /// [`FilterAllocation::FixedBits`] do not depend on the tree and return the policy as it is: see
    /// [`crate::tuning`] and [`FilterAllocation::fixed_bits`].
    pub fn policy_for(&self, policy: FilterPolicy, tree: &FilteredTree) -> FilterPolicy {
        let Some(run) = tree.runs.get(tree.run).filter(|run| run.keys > 0) else { return policy };
        let goal = match self {
            Self::Uniform | Self::FixedBits(_) | Self::Dynamic(_) => return policy,
            Self::Monkey => FilterGoal::BitsPerKey(policy.bits_per_key()),
            Self::MonkeyReads(reads) => return within_reads(policy, tree, *reads),
            Self::Proportional => {
                let keys: f64 = tree.runs.iter().map(|run| run.keys as f64).sum();
                let squares: f64 = tree.runs.iter().map(|run| (run.keys as f64).powi(2)).sum();
                return policy.with_bits_per_key(policy.bits_per_key() * run.keys as f64 * keys / squares);
            }
        };
        if policy == FilterPolicy::None {
            return policy;
        }
        let bits = allocate(&tree.runs, goal, &RateCurve::of(policy.kind()));
        policy.with_bits_per_key(bits[tree.run])
    }

    /// The bits of each table's filter, if they are fixed.
    pub fn fixed_bits(&self) -> Option<u64> {
        match self {
            Self::FixedBits(bits) => Some(*bits),
            _ => None,
        }
    }
}

/// The filter of the new table with which lookups of absent keys read at most so many blocks in vain.
///
/// The division uses a curve through the sizes of the kind. A run's share mostly lies between two of them; so
/// the smallest filter whose rate is at most that of the curve there is taken. Then the rates sum to no more
/// than the bound, if the largest filters can reach it.
fn within_reads(policy: FilterPolicy, tree: &FilteredTree, reads: TargetRate) -> FilterPolicy {
    if policy == FilterPolicy::None {
        return policy;
    }
    let curve = RateCurve::of(policy.kind());
    let bits = allocate(&tree.runs, FilterGoal::ReadsInVain(reads.rate()), &curve);
    let rate = curve.rate(bits[tree.run]);
    policy.with_false_positive_rate(rate).unwrap_or_else(|| policy.with_bits_per_key(f64::INFINITY))
}

impl fmt::Display for FilterAllocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Monkey => f.write_str("monkey"),
            Self::MonkeyReads(reads) => write!(f, "monkey:{}", reads.rate()),
            Self::Proportional => f.write_str("proportional"),
            Self::FixedBits(bits) => write!(f, "fixed:{bits}"),
            Self::Dynamic(LevelTargets::DEFAULT) => f.write_str("dynamic"),
            Self::Dynamic(targets) => {
                let texts: Vec<String> =
                    targets.as_slice().iter().map(|target| target.rate().to_string()).collect();
                write!(f, "dynamic:{}", texts.join(","))
            }
        }
    }
}

fn parse_rate(text: &str) -> Option<TargetRate> {
    let rate: f64 = text.parse().ok()?;
    (TargetRate::MIN.rate()..=TargetRate::MAX.rate()).contains(&rate).then(|| TargetRate::from_rate(rate))
}

impl FromStr for FilterAllocation {
    type Err = Error;

    fn from_str(text: &str) -> Result<FilterAllocation> {
        let (name, parameter) = match text.split_once(':') {
            Some((name, parameter)) => (name, Some(parameter)),
            None => (text, None),
        };
        let parsed = match (name, parameter) {
            ("uniform", None) => Some(Self::Uniform),
            ("monkey", None) => Some(Self::Monkey),
            ("monkey", Some(reads)) => parse_rate(reads).map(Self::MonkeyReads),
            ("proportional", None) => Some(Self::Proportional),
            ("fixed", Some(bits)) => {
                let bits = bits.parse().ok().filter(|bits| (1..=MAX_FIXED_BITS).contains(bits));
                bits.map(Self::FixedBits)
            }
            ("dynamic", None) => Some(Self::Dynamic(LevelTargets::DEFAULT)),
            ("dynamic", Some(targets)) => {
                let targets: Option<Vec<TargetRate>> = targets.split(',').map(parse_rate).collect();
                targets.and_then(|targets| LevelTargets::new(&targets)).map(Self::Dynamic)
            }
            _ => None,
        };
        parsed.ok_or_else(|| {
            Error::invalid(format!(
                "unknown filter allocation {text:?}: uniform, monkey, monkey:READS (blocks read in vain, as in monkey:0.1), proportional, fixed:BITS (1 to {MAX_FIXED_BITS} for a table), dynamic or dynamic:RATE,RATE,... (one to {MAX_TARGETS} rates from {} to {})",
                TargetRate::MIN.rate(),
                TargetRate::MAX.rate()
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::FilterKind;

    #[test]
    fn names_round_trip() {
        for text in [
            "uniform",
            "monkey",
            "monkey:0.1",
            "monkey:2.5",
            "monkey:0.000001",
            "proportional",
            "fixed:1",
            "fixed:4294967296",
            "dynamic",
            "dynamic:0.001",
            "dynamic:0.001,0.01,0.2",
        ] {
            assert_eq!(text.parse::<FilterAllocation>().unwrap().to_string(), text);
        }
        let full = "dynamic:0.001,0.005,0.01,0.02,0.05,0.1,0.15,0.2";
        assert_eq!(full.parse::<FilterAllocation>().unwrap().to_string(), "dynamic");
        for text in [
            "",
            "Monkey",
            "monkey:",
            "monkey:0",
            "monkey:-1",
            "monkey:NaN",
            "monkey:101",
            "uniform:1",
            "fixed",
            "fixed:0",
            "fixed:4294967297",
            "dynamic:",
            "dynamic:0.1,",
            "dynamic:1,1,1,1,1,1,1,1,1",
        ] {
            let error = text.parse::<FilterAllocation>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")) && error.contains("proportional"), "{error}");
        }
    }

    fn tree(keys: &[u64], run: usize) -> FilteredTree {
        FilteredTree { runs: keys.iter().map(|&keys| FilteredRun::of_keys(keys)).collect(), run }
    }

    #[test]
    fn allocations_give_tables_their_bits() {
        let policy = FilterPolicy::blocked_bloom(10.0);
        let bits = |allocation: FilterAllocation, run| {
            allocation.policy_for(policy, &tree(&[100_000, 1_000_000, 10_000_000], run)).bits_per_key()
        };
        for run in 0..3 {
            assert_eq!(bits(FilterAllocation::Uniform, run), 10.0);
        }
        let monkey = |run| bits(FilterAllocation::Monkey, run);
        assert!(monkey(0) > monkey(1) && monkey(1) > 11.0 && monkey(2) > 9.0 && monkey(2) < 10.0);
        let proportional = |run| bits(FilterAllocation::Proportional, run);
        assert!(proportional(0) == 0.0 && proportional(1) < 2.0 && proportional(2) > 10.0);
        let strict = |run| bits(FilterAllocation::MonkeyReads(TargetRate::from_rate(0.01)), run);
        let lax = |run| bits(FilterAllocation::MonkeyReads(TargetRate::from_rate(0.5)), run);
        assert!((0..3).all(|run| strict(run) > lax(run)));
        assert_eq!(bits(FilterAllocation::MonkeyReads(TargetRate::from_rate(3.0)), 2), 0.0);
        // A tree of one run has nothing to divide.
        let alone = FilterAllocation::Monkey.policy_for(policy, &tree(&[5], 0));
        assert_eq!(alone, policy);
        assert_eq!(FilterAllocation::Monkey.policy_for(policy, &tree(&[], 0)), policy);
        assert_eq!(
            FilterAllocation::Monkey.policy_for(FilterPolicy::None, &tree(&[5], 0)),
            FilterPolicy::None
        );
    }

    /// Whatever steps a kind comes in, the bound holds where it can, with at most one step beyond it.
    #[test]
    fn a_bound_on_reads_in_vain_is_kept() {
        for kind in FilterKind::ALL.iter().copied().filter(|kind| kind.sizes().is_some()) {
            for keys in [&[1_000_000][..], &[100_000, 1_000_000, 10_000_000], &[5, 7, 7, 50, 400, 399]] {
                for bound in [0.001, 0.01, 0.05, 0.1, 0.3, 0.7, 1.3, 2.5] {
                    let allocation = FilterAllocation::MonkeyReads(TargetRate::from_rate(bound));
                    let policies: Vec<FilterPolicy> = (0..keys.len())
                        .map(|run| allocation.policy_for(kind.policy(10.0), &tree(keys, run)))
                        .collect();
                    let sum = |rates: &mut dyn Iterator<Item = f64>| rates.sum::<f64>();
                    let reads = sum(&mut policies.iter().map(|policy| policy.false_positive_rate()));
                    let least = kind.policy(f64::INFINITY).false_positive_rate() * keys.len() as f64;
                    let what = format!("{bound} for {keys:?}: {policies:?} read {reads} in vain");
                    assert!(reads <= bound * (1.0 + 1e-9) || least > bound, "{what}");
                    // A bit less for each of them would exceed it.
                    let less = policies.iter().map(|policy| policy.bits_per_key() - 1.2);
                    let mut less = less.map(|bits| kind.policy(bits).false_positive_rate());
                    assert!(sum(&mut less) > bound || bound >= keys.len() as f64, "{what}");
                }
            }
        }
    }

    #[test]
    fn targets_of_levels() {
        let targets = LevelTargets::DEFAULT;
        assert_eq!(targets.of_level(0).rate(), 0.001);
        assert_eq!(targets.of_level(7).rate(), 0.2);
        assert_eq!(targets.of_level(60).rate(), 0.2);
        let two = LevelTargets::new(&[TargetRate::from_rate(0.1), TargetRate::from_rate(0.2)]).unwrap();
        assert_eq!([0, 1, 2].map(|level| two.of_level(level).rate()), [0.1, 0.2, 0.2]);
        assert!(LevelTargets::new(&[]).is_none());
    }
}
