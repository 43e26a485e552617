//! The strategies by name.

use crate::busy::Busy;
use crate::draft::Context;
use crate::fluid::Fluid;
use crate::manual::{self, ManualMark, ManualStep};
use crate::options::{SizeRatio, StrategyOptions};
use crate::partitioned;
use crate::place::flush_placement;
use crate::plan::{CompactionPlan, Position};
use crate::shape::Shape;
use esker_version::{KeyRange, LevelIndex, Version};
use std::fmt;
use std::str::FromStr;

/// Most runs that a level of [`Strategy::Fluid`] may be allowed.
pub const MAX_RUNS_PER_LEVEL: u32 = 64;

/// How a tree is kept in form.
///
/// Any shape is legal for any strategy, so a keyspace may change its strategy at any time; the new one's
/// rules then work the tree towards their form. Printed and parsed as `none`, `leveled:10`, `lazy-leveled:4`,
/// `tiered:4`, `fluid:10,3,1` (size ratio, runs per upper level, runs of the last level), `partitioned`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Nothing is ever merged: for experiments.
    None,
    /// Every level below the first is one run, larger than the one before by a ratio.
    Leveled {
        /// By which ratio.
        size_ratio: SizeRatio,
    },
    /// Every level is a tier of runs.
    Tiered {
        /// How many make one of the next level.
        size_ratio: SizeRatio,
    },
    /// Tiers above a single run in the last level (Dostoevsky).
    LazyLeveled {
        /// How many runs make one of the next level.
        size_ratio: SizeRatio,
    },
    /// A number of runs per level, which generalises the three.
    Fluid {
        /// How much larger a level is than the one before.
        size_ratio: SizeRatio,
        /// Runs in each level above the last, 1 to [`MAX_RUNS_PER_LEVEL`].
        upper_runs: u32,
        /// Runs in the last level, 1 to [`MAX_RUNS_PER_LEVEL`].
        last_runs: u32,
    },
    /// Tiers above a last level that is merged window by window, densest first.
    #[default]
    Partitioned,
}

impl Strategy {
    /// The next job, `None` if nothing is to be done or running jobs are in the way. Pure: equal arguments
    /// give equal plans. Call it again, with the plan added to `busy`, until it has none or no thread is
    /// free.
    pub fn plan(&self, shape: &Shape<'_>, busy: &Busy, options: &StrategyOptions) -> Option<CompactionPlan> {
        let cx = Context { shape: *shape, busy, options };
        match self.fluid() {
            Some(fluid) => fluid.plan(&cx),
            None if *self == Strategy::Partitioned => partitioned::plan(&cx),
            None => None,
        }
    }

    /// Bytes that jobs will read until the tree is at rest, by estimate: zero iff [`Strategy::plan`] has
    /// nothing to do with no job running and the database not idle.
    pub fn debt(&self, shape: &Shape<'_>, options: &StrategyOptions) -> u64 {
        let cx = Context { shape: shape.with_idle(false), busy: &Busy::new(), options };
        match self.fluid() {
            Some(fluid) => fluid.debt(&cx),
            None if *self == Strategy::Partitioned => partitioned::debt(&cx),
            None => 0,
        }
    }

    /// Where a flush of keys in `hull` goes; see [`flush_placement`].
    pub fn flush_placement(&self, version: &Version, hull: &KeyRange, busy: &Busy) -> Position {
        match self {
            Strategy::None => Position::Front(LevelIndex::FLUSH),
            _ => flush_placement(version, hull, busy),
        }
    }

    /// The next step of bringing all data of `range` that is older than `mark` into the last level. The same
    /// for every strategy.
    pub fn plan_manual(
        &self,
        shape: &Shape<'_>,
        busy: &Busy,
        options: &StrategyOptions,
        range: &KeyRange,
        mark: ManualMark,
    ) -> ManualStep {
        manual::plan(&Context { shape: *shape, busy, options }, range, mark)
    }

    /// The parameters of the strategies that are instances of the fluid tree.
    pub(crate) fn fluid(&self) -> Option<Fluid> {
        Some(match *self {
            Strategy::None | Strategy::Partitioned => return None,
            Strategy::Leveled { size_ratio } => Fluid { size_ratio, upper_runs: 1, last_runs: 1 },
            Strategy::Tiered { size_ratio } => {
                let runs = size_ratio.tier_runs();
                Fluid { size_ratio, upper_runs: runs, last_runs: runs }
            }
            Strategy::LazyLeveled { size_ratio } => {
                Fluid { size_ratio, upper_runs: size_ratio.tier_runs(), last_runs: 1 }
            }
            Strategy::Fluid { size_ratio, upper_runs, last_runs } => {
                let clamped = |runs: u32| runs.clamp(1, MAX_RUNS_PER_LEVEL);
                Fluid { size_ratio, upper_runs: clamped(upper_runs), last_runs: clamped(last_runs) }
            }
        })
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Strategy::None => f.write_str("none"),
            Strategy::Leveled { size_ratio } => write!(f, "leveled:{size_ratio}"),
            Strategy::Tiered { size_ratio } => write!(f, "tiered:{size_ratio}"),
            Strategy::LazyLeveled { size_ratio } => write!(f, "lazy-leveled:{size_ratio}"),
            Strategy::Fluid { size_ratio, upper_runs, last_runs } => {
                write!(f, "fluid:{size_ratio},{upper_runs},{last_runs}")
            }
            Strategy::Partitioned => f.write_str("partitioned"),
        }
    }
}

impl FromStr for Strategy {
    type Err = String;

    /// Reads what [`Strategy`] prints; the ratio may be left out.
    fn from_str(text: &str) -> Result<Strategy, String> {
        let (name, parameters) = match text.split_once(':') {
            Some((name, parameters)) => (name, Some(parameters)),
            None => (text, None),
        };
        let ratio = |default: SizeRatio| parameters.map_or(Ok(default), str::parse);
        match name {
            "leveled" => Ok(Strategy::Leveled { size_ratio: ratio(SizeRatio::TEN)? }),
            "tiered" => Ok(Strategy::Tiered { size_ratio: ratio(SizeRatio::FOUR)? }),
            "lazy-leveled" => Ok(Strategy::LazyLeveled { size_ratio: ratio(SizeRatio::FOUR)? }),
            "fluid" => parse_fluid(parameters.unwrap_or_default()),
            "none" if parameters.is_none() => Ok(Strategy::None),
            "partitioned" if parameters.is_none() => Ok(Strategy::Partitioned),
            _ => Err(format!(
                "no strategy is called {text:?}; \
                 there are none, leveled, tiered, lazy-leveled, fluid, partitioned"
            )),
        }
    }
}

fn parse_fluid(parameters: &str) -> Result<Strategy, String> {
    let fields: Vec<&str> = parameters.split(',').collect();
    let [ratio, upper, last] = fields[..] else {
        return Err(format!(
            "fluid needs a size ratio and two numbers of runs, as in fluid:10,3,1, not {parameters:?}"
        ));
    };
    let runs = |text: &str| {
        let parsed = text.parse().ok().filter(|runs| (1..=MAX_RUNS_PER_LEVEL).contains(runs));
        parsed.ok_or_else(|| format!("a level has 1 to {MAX_RUNS_PER_LEVEL} runs, not {text:?}"))
    };
    Ok(Strategy::Fluid { size_ratio: ratio.parse()?, upper_runs: runs(upper)?, last_runs: runs(last)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_as_printed() {
        for name in [
            "none",
            "leveled:10",
            "leveled:1.618",
            "tiered:4",
            "lazy-leveled:2.5",
            "fluid:10,3,1",
            "partitioned",
        ] {
            assert_eq!(name.parse::<Strategy>().unwrap().to_string(), name);
        }
        assert_eq!("leveled".parse::<Strategy>().unwrap().to_string(), "leveled:10");
        assert_eq!("tiered".parse::<Strategy>().unwrap().to_string(), "tiered:4");
        assert_eq!("lazy-leveled".parse::<Strategy>().unwrap().to_string(), "lazy-leveled:4");
        assert_eq!(Strategy::default(), Strategy::Partitioned);
        for name in [
            "",
            "lazy",
            "leveled:",
            "leveled:1",
            "none:3",
            "fluid",
            "fluid:4,0,1",
            "fluid:4,1,65",
            "fluid:4,1",
        ] {
            let error = name.parse::<Strategy>().unwrap_err();
            assert!(error.len() > 20, "{name}: {error}");
        }
    }
}
