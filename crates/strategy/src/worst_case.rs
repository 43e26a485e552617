//! Worst-case read cost: how many runs a lookup of an absent key may search, by the formulas of the
//! literature for each shape.

use crate::kind::Strategy;
use crate::options::{SizeRatio, StrategyOptions};

/// A bound on the sources that one lookup searches: the memtable, and runs of tables.
///
/// It holds for the steady form of the shape. Level 0 may temporarily hold more runs when writes are faster
/// than merges, up to the write stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorstCase {
    /// The formula: L levels, size ratio T, K runs in an upper level or a tier, Z in the last, B in level 0.
    pub formula: &'static str,
    /// The source of the formula.
    pub source: &'static str,
    /// Its value.
    pub max_sources: u64,
}

impl Strategy {
    /// The bounds for a tree with tables in this many levels; none for strategies without bounds.
    pub fn worst_case_reads(&self, levels: u64, options: &StrategyOptions) -> Vec<WorstCase> {
        let upper = levels.saturating_sub(1);
        let last = levels.min(1);
        let bound = |formula, source, max_sources| WorstCase { formula, source, max_sources };
        match *self {
            Strategy::Leveled { .. } => vec![bound("L + 1", "O'Neil 1996", levels + 1)],
            Strategy::Tiered { size_ratio } => {
                vec![bound("L T + 1", "Monkey", levels * whole(size_ratio) + 1)]
            }
            Strategy::LazyLeveled { size_ratio } => {
                let ratio = whole(size_ratio);
                vec![
                    bound("(L-1) T + 1 + 1", "Dostoevsky", upper * ratio + last + 1),
                    bound("T + (L-1) + 1", "CS265", ratio * last + upper + 1),
                ]
            }
            Strategy::TieredLeveled { size_ratio } => {
                vec![bound("T + (L-1) + 1", "CS265", whole(size_ratio) * last + upper + 1)]
            }
            Strategy::Fluid { upper_runs, last_runs, .. } => {
                let upper_runs = (0..upper).map(|level| u64::from(upper_runs.of(level.min(63) as u8)));
                let sources = upper_runs.sum::<u64>() + last * u64::from(last_runs) + 1;
                vec![bound("(L-1) K + Z + 1", "Dostoevsky", sources)]
            }
            Strategy::Partial { .. } | Strategy::GoldenRatio => {
                let first = u64::from(self.level0_trigger(options).unwrap_or(1));
                vec![bound("B + (L-1) + 1", "B runs in level 0 over single ones", first * last + upper + 1)]
            }
            Strategy::Partitioned => {
                let sources = upper * u64::from(options.tier_runs) + last + 1;
                vec![bound("(L-1) K + 1 + 1", "tiers of K runs over one", sources)]
            }
            Strategy::None | Strategy::Fifo(_) => Vec::new(),
        }
    }
}

fn whole(ratio: SizeRatio) -> u64 {
    u64::from(ratio.permille().div_ceil(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_formulas() {
        let options = StrategyOptions::default();
        let bounds = |name: &str, levels| {
            let strategy: Strategy = name.parse().unwrap();
            let bounds = strategy.worst_case_reads(levels, &options);
            bounds.into_iter().map(|bound| bound.max_sources).collect::<Vec<_>>()
        };
        assert_eq!(bounds("leveled:10", 4), [5]);
        assert_eq!(bounds("tiered:4", 3), [13]);
        assert_eq!(bounds("lazy-leveled:4", 3), [10, 7]);
        assert_eq!(bounds("tiered-leveled:4", 3), [7]);
        assert_eq!(bounds("fluid:10,3,2", 3), [9]);
        assert_eq!(bounds("fluid:10,6/3,2", 3), [12]);
        assert_eq!(bounds("partial", 3), [11]);
        assert_eq!(bounds("golden-ratio", 3), [5]);
        assert_eq!(bounds("partitioned", 3), [18]);
        assert_eq!(bounds("none", 3), []);
        // An explicit trigger of level 0 counts.
        let options = StrategyOptions { level0_trigger_runs: Some(20), ..options.clone() };
        for name in ["partial:4", "golden-ratio"] {
            let bounds = name.parse::<Strategy>().unwrap().worst_case_reads(3, &options);
            assert_eq!(bounds[0].max_sources, 23, "{name}");
        }
        for name in
            ["leveled:10", "tiered:4", "lazy-leveled:4", "fluid:10,3,1", "golden-ratio", "partitioned"]
        {
            assert!(
                bounds(name, 0).iter().all(|&sources| sources == 1),
                "{name}: an empty tree has a memtable"
            );
        }
    }
}
