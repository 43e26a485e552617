//! The parameters of a strategy that the formulas use.

use esker_strategy::{RunsPerLevel, SizeRatio, Strategy, StrategyOptions};

/// A strategy in the formulas: size ratio `T`, runs `K` of upper levels and `Z` of the last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    /// Levels of up to `K` runs above a last one of up to `Z`: leveling, tiering, lazy leveling and between.
    Fluid {
        /// T.
        ratio: f64,
        /// K, for each level from level 0 on.
        upper_runs: RunsPerLevel,
        /// Z.
        last_runs: f64,
        /// Flushes merged at once out of level 0.
        level0_runs: f64,
    },
    /// Leveling that moves a table at a time.
    Partial {
        /// T.
        ratio: f64,
        /// Flushes merged at once out of level 0.
        level0_runs: f64,
        /// The least size of level 1 in flushes.
        least_level: f64,
    },
    /// Tiers of `K` runs above a last level that is merged window by window.
    Partitioned {
        /// K.
        tier_runs: f64,
        /// Bytes above the last level over those of the last level.
        garbage: f64,
    },
}

impl Form {
    /// The form of a strategy; `None` if there is no formula for it.
    pub fn of(strategy: &Strategy, options: &StrategyOptions) -> Option<Form> {
        let level0 = |usual: u32| f64::from(options.level0_trigger_runs.unwrap_or(usual).max(1));
        let fluid = |size_ratio: SizeRatio, upper_runs: RunsPerLevel, last_runs: u32| {
            // As in the strategies: a tier merges one run more than it keeps, leveling follows the options.
            let kept = upper_runs.of(0);
            let level0_runs = if kept > 1 { f64::from(kept + 1) } else { level0(4) };
            let ratio = f64::from(size_ratio.permille()) / 1000.0;
            Form::Fluid { ratio, upper_runs, last_runs: f64::from(last_runs.max(1)), level0_runs }
        };
        match *strategy {
            Strategy::Leveled { size_ratio } => Some(fluid(size_ratio, RunsPerLevel::ONE, 1)),
            Strategy::Tiered { size_ratio } => {
                let runs = size_ratio.tier_runs();
                Some(fluid(size_ratio, RunsPerLevel::same(runs), runs))
            }
            Strategy::LazyLeveled { size_ratio } => {
                Some(fluid(size_ratio, RunsPerLevel::same(size_ratio.tier_runs()), 1))
            }
            Strategy::TieredLeveled { size_ratio } => {
                Some(fluid(size_ratio, RunsPerLevel::each(&[size_ratio.tier_runs(), 1])?, 1))
            }
            Strategy::Fluid { size_ratio, upper_runs, last_runs } => {
                Some(fluid(size_ratio, upper_runs, last_runs))
            }
            Strategy::Partial { size_ratio, .. } => Some(Form::Partial {
                ratio: f64::from(size_ratio.permille()) / 1000.0,
                level0_runs: level0(8),
                least_level: 1.0,
            }),
            Strategy::GoldenRatio => Some(Form::Partial {
                ratio: f64::from(SizeRatio::GOLDEN.permille()) / 1000.0,
                level0_runs: level0(2),
                least_level: 2.0,
            }),
            Strategy::Partitioned => Some(Form::Partitioned {
                tier_runs: f64::from(options.tier_runs.max(2)),
                garbage: f64::from(options.garbage_permille.max(1)) / 1000.0,
            }),
            Strategy::None | Strategy::Fifo(_) => None,
        }
    }

    /// Levels between level 0 and the last in a tree of `size` flushes.
    pub fn levels_between(&self, size: f64) -> u32 {
        let (growth, least) = match *self {
            Form::Fluid { ratio, level0_runs, .. } => (ratio, level0_runs * ratio),
            Form::Partial { ratio, least_level, .. } => (ratio, least_level * ratio),
            // At most half of the garbage of two adjacent levels may become one run.
            Form::Partitioned { tier_runs, garbage } => (tier_runs, 2.0 * tier_runs / garbage),
        };
        if size < least { 0 } else { ((size / least).ln() / growth.ln() + 1e-9).floor() as u32 + 1 }
    }

    /// The size ratio of adjacent levels.
    pub(crate) fn growth(&self) -> f64 {
        match *self {
            Form::Fluid { ratio, .. } | Form::Partial { ratio, .. } => ratio,
            Form::Partitioned { tier_runs, .. } => tier_runs,
        }
    }

    /// Write amplification and average runs of a level between first and last, without deduplication.
    pub(crate) fn level_between(&self) -> (f64, f64) {
        match *self {
            Form::Fluid { ratio, upper_runs, .. } if upper_runs.of(u8::MAX) > 1 => {
                let runs = f64::from(upper_runs.of(u8::MAX));
                let joined = ((ratio - 1.0) / runs).ceil().max(1.0);
                ((joined + 1.0) / 2.0, runs / 2.0)
            }
            Form::Fluid { ratio, .. } => ((ratio + 1.0) / 2.0, 1.0),
            Form::Partial { ratio, .. } => (ratio / 2.0, 1.0),
            Form::Partitioned { tier_runs, .. } => (1.0, (tier_runs - 1.0) / 2.0),
        }
    }
}
