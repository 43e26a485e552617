//! The design space: which combinations of strategy, filters and write buffer the search tries.

use crate::cost::Form;
use esker_strategy::{CompactionPriority, RunsPerLevel, SizeRatio, Strategy, StrategyOptions};

/// A design: strategy and division of memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Design {
    /// The strategy, with T, K and Z.
    pub strategy: Strategy,
    /// Bytes of a memtable.
    pub write_buffer_bytes: f64,
    /// Filter memory in bits for each entry, divided over the runs by Monkey.
    pub filter_bits_per_key: f64,
}

/// Strategies that differ in their parameters only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Family {
    /// [`Strategy::Partitioned`].
    Partitioned,
    /// [`Strategy::Leveled`].
    Leveled,
    /// [`Strategy::Partial`].
    Partial,
    /// [`Strategy::GoldenRatio`].
    GoldenRatio,
    /// [`Strategy::TieredLeveled`].
    TieredLeveled,
    /// [`Strategy::LazyLeveled`].
    LazyLeveled,
    /// [`Strategy::Tiered`].
    Tiered,
    /// [`Strategy::Fluid`].
    Fluid,
}

impl Family {
    /// The family of a strategy; `None` for strategies without merges, which are never advised.
    pub fn of(strategy: &Strategy) -> Option<Family> {
        Some(match strategy {
            Strategy::Partitioned => Family::Partitioned,
            Strategy::Leveled { .. } => Family::Leveled,
            Strategy::Partial { .. } => Family::Partial,
            Strategy::GoldenRatio => Family::GoldenRatio,
            Strategy::TieredLeveled { .. } => Family::TieredLeveled,
            Strategy::LazyLeveled { .. } => Family::LazyLeveled,
            Strategy::Tiered { .. } => Family::Tiered,
            Strategy::Fluid { .. } => Family::Fluid,
            Strategy::None | Strategy::Fifo(_) => return None,
        })
    }
}

/// Size ratios in the grid. Costs change slowly between neighbours.
const RATIOS: [u32; 11] = [2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32];

/// Filter bits in the grid. Beyond 16 blocked filters hardly improve.
pub(super) const FILTER_BITS: [f64; 9] = [0.0, 2.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0];

/// Write buffers in the grid: powers of two from this on.
pub(super) const LEAST_WRITE_BUFFER_BYTES: f64 = (1u64 << 20) as f64;

/// Strategies in the grid. Leveling, tiering and lazy leveling appear under their own names only.
pub(super) fn strategies() -> Vec<Strategy> {
    let mut all = vec![Strategy::Partitioned, Strategy::GoldenRatio];
    for ratio in RATIOS {
        let Some(size_ratio) = SizeRatio::from_permille(ratio * 1000) else { continue };
        all.extend([
            Strategy::Leveled { size_ratio },
            Strategy::Tiered { size_ratio },
            Strategy::LazyLeveled { size_ratio },
            Strategy::TieredLeveled { size_ratio },
            Strategy::Partial { size_ratio, pick: CompactionPriority::default() },
        ]);
        let mut runs = vec![1, 2, 3, ratio / 2, ratio - 1];
        runs.retain(|runs| *runs > 0);
        runs.sort_unstable();
        runs.dedup();
        for &upper in &runs {
            for &last in runs.iter().filter(|last| **last <= upper) {
                let has_name =
                    upper == last && (upper == 1 || upper == ratio - 1) || last == 1 && upper == ratio - 1;
                if !has_name {
                    let upper_runs = RunsPerLevel::same(upper);
                    all.push(Strategy::Fluid { size_ratio, upper_runs, last_runs: last });
                }
            }
        }
    }
    all
}

/// The form of a strategy over this many bytes. Small trees of the partitioned strategy are allowed more
/// garbage than its share; those smaller than a memtable count as one memtable, as in the formulas.
pub fn form(strategy: &Strategy, options: &StrategyOptions, data_bytes: f64) -> Option<Form> {
    let form = Form::of(strategy, options)?;
    Some(match form {
        Form::Partitioned { tier_runs, garbage } => {
            let tier = tier_runs * options.memtable_bytes as f64;
            let size = data_bytes.max(options.memtable_bytes as f64).max(1.0);
            let least = (options.small_garbage_bytes as f64).min(tier) / size;
            Form::Partitioned { tier_runs, garbage: garbage.max(least) }
        }
        other => other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_is_tried_and_nothing_twice() {
        let all = strategies();
        let mut texts: Vec<String> = all.iter().map(Strategy::to_string).collect();
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), all.len());
        let mut families: Vec<Family> = all.iter().filter_map(Family::of).collect();
        families.sort();
        families.dedup();
        assert_eq!(families.len(), 8);
        assert!(all.iter().all(|strategy| Form::of(strategy, &StrategyOptions::default()).is_some()));
        assert_eq!(Family::of(&Strategy::None), None);
    }
}
