//! The compaction strategies by name.

mod names;

use crate::fifo::FifoLimits;
use crate::fluid::{Fluid, Partial};
use crate::flush_placement::flush_placement;
use crate::level_limit::LevelLimit;
use crate::manual::{self, ManualMark, ManualStep};
use crate::options::{SizeRatio, StrategyOptions};
use crate::partial::CompactionPriority;
use crate::partitioned;
use crate::plan::CompactionPlan;
use crate::plan_builder::Context;
use crate::position::Position;
use crate::running_jobs::Busy;
use crate::runs_per_level::{MAX_RUNS_PER_LEVEL, RunsPerLevel};
use crate::shape::Shape;
use crate::work_round;
use esker_version::{KeyRange, LevelIndex, Version};

/// How the shape of a tree is maintained.
///
/// Any shape is legal for any strategy, so a keyspace may change its strategy at any time; the new one's
/// rules then bring the tree into their form. Printed and parsed as `none`, `leveled:10`, `lazy-leveled:4`,
/// `tiered:4`, `tiered-leveled:4`, `fluid:10,3,1` (size ratio, runs per upper level, runs of the last level),
/// `partial:10,least-overlap`, `golden-ratio`, `fifo:64GiB,7d`, `partitioned`.
///
/// # Costs
/// The figures below are for uniform overwrites of N bytes with memtables of P bytes at size ratio T, with m
/// levels between level 0 and the last: bytes written to tables for each byte of the user, the log not
/// counted; runs that a lookup may search; and bytes of tables against live bytes before a merge begins. In
/// brackets for 10 million entries of 116 bytes and 64 MiB of memtable, N/P = 17.3.
///
/// ```
/// use esker_strategy::Strategy;
///
/// let strategy: Strategy = "partial:10,oldest".parse()?;
/// assert_eq!(strategy.to_string(), "partial:10,oldest");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "CompactionStyle")]
#[doc(alias = "compaction style")]
pub enum Strategy {
    /// No compaction: for experiments.
    ///
    /// Writes 1, runs without bound, space without bound.
    None,
    /// Leveling: every level below the first is one run, larger than the one before by a ratio (O'Neil et al.
    /// 1996; LevelDB).
    ///
    /// Writes `1 + N/(4P)` with no level between, else about `1 + m(T+1)/2 + T` (T=10: 5.3), runs m+5 at
    /// most, space `1 + 1/(T-1)` and level 0 (1.23).
    Leveled {
        /// The size ratio of adjacent levels.
        size_ratio: SizeRatio,
    },
    /// Tiering: every level holds up to T-1 runs; the T-th merges them into one run of the next level
    /// (Cassandra's size-tiered compaction).
    ///
    /// Writes about m+2 (T=4: 2.9), runs `(T-1)(m+2)`, space up to T-1 and more (3.7).
    Tiered {
        /// How many runs make one of the next level.
        size_ratio: SizeRatio,
    },
    /// Lazy leveling: tiers above a single run in the last level (Dostoevsky, SIGMOD'18).
    ///
    /// Writes about `1 + m + N/(P T^(m+1))` (T=4: 2.9), runs `(T-1)(m+1)+1`, space up to 2 (1.79).
    LazyLeveled {
        /// How many runs make one of the next level.
        size_ratio: SizeRatio,
    },
    /// Tiered level 0 above leveling: T-1 runs in level 0, one run in each level below; the CS265 report
    /// calls it lazy leveling. The same as `fluid:T,T-1/1,1`.
    ///
    /// As [`Strategy::Leveled`] with T runs of level 0 merged at a time; runs T+m.
    TieredLeveled {
        /// The size ratio of adjacent levels, and the number of runs of level 0 merged at a time.
        size_ratio: SizeRatio,
    },
    /// The fluid LSM-tree of Dostoevsky: a number of runs per level, which generalises the four above.
    ///
    /// Writes about `m(T-1)/(K+1)` for the levels between, runs `K(m+1) + Z`, space between leveling's and
    /// tiering's.
    Fluid {
        /// The size ratio of adjacent levels.
        size_ratio: SizeRatio,
        /// Runs in the levels above the last.
        upper_runs: RunsPerLevel,
        /// Runs in the last level, 1 to [`MAX_RUNS_PER_LEVEL`].
        last_runs: u32,
    },
    /// Partial leveling: a part of a level is compacted at a time (LevelDB; the CS265 report's partial
    /// compaction).
    ///
    /// Writes 0.55 to 0.75 of leveling's, because level 0 collects 8 runs, which pass through a level that is
    /// too small for them, and the least overlap is chosen below (T=10: 2.9), runs m+9, space as leveling's
    /// and more of level 0 (1.52). Jobs are a tenth of leveling's and smaller.
    Partial {
        /// The size ratio of adjacent levels.
        size_ratio: SizeRatio,
        /// Which part of a level is compacted next.
        pick: CompactionPriority,
    },
    /// Partial leveling with a size ratio of 1.618, jobs of at most 64 MiB and few runs in level 0 (the byron
    /// report).
    ///
    /// Many levels and small merges: writes 5.8, runs m+3 (4.7 on average), space up to 2.6.
    GoldenRatio,
    /// FIFO: tables are dropped whole when they are too old or exceed the size limit, for logs, events and
    /// caches (RocksDB's FIFO).
    ///
    /// Writes 1, space as configured. Runs without bound, unless keys ascend with time: then one run.
    Fifo(FifoLimits),
    /// Tiers above a last level that is merged window by window, densest first (Spooky, VLDB 15(11), and
    /// staggered).
    ///
    /// Writes `1 + m + 2.6` with a fifth of garbage allowed (3.4), runs about 5, space 1.25; one run when
    /// idle. New keys are no garbage: a fill leaves up to 600/1000 of them above the last level and writes
    /// `1 + m + 0.8`.
    #[default]
    Partitioned,
}

impl Strategy {
    /// The next job; `None` if there is nothing to do or running jobs conflict. Pure: equal arguments give
    /// equal plans. Call it again, with the plan added to `busy`, until it returns `None` or no thread is
    /// free.
    pub fn plan(&self, shape: &Shape<'_>, busy: &Busy, options: &StrategyOptions) -> Option<CompactionPlan> {
        let cx = Context::new(shape, busy, options);
        let rules = self.rules();
        let plan = match shape.migration {
            None => rules.plan(&cx),
            Some(migration) => {
                let plan = rules.plan(&Context { counted: Some(migration), ..cx });
                plan.or_else(|| if migration.is_paused { None } else { rules.plan_shape(&cx) })
            }
        };
        plan.or_else(|| if self.merges() { work_round::plan(&cx) } else { None })
    }

    /// Compaction debt: the estimated bytes that jobs will read until the tree needs no compaction. Zero iff
    /// [`Strategy::plan`] returns `None` with no job running and the database not idle.
    pub fn debt(&self, shape: &Shape<'_>, options: &StrategyOptions) -> u64 {
        let (busy, rules) = (Busy::new(), self.rules());
        let cx = Context::new(&shape.with_idle(false), &busy, options);
        let Some(migration) = shape.migration else { return rules.debt(&cx) };
        let of_new = rules.debt(&Context { counted: Some(migration), ..cx });
        let plans_migration = !migration.is_paused && rules.plan_shape(&cx).is_some();
        if plans_migration { of_new.max(self.misplaced_bytes(shape, options)).max(1) } else { of_new }
    }

    /// Bytes in old files of a migration ([`Shape::migration`]) that are not in this form yet; else zero.
    pub fn misplaced_bytes(&self, shape: &Shape<'_>, options: &StrategyOptions) -> u64 {
        let busy = Busy::new();
        let cx = Context::new(shape, &busy, options);
        match self.rules() {
            Rules::Fluid(fluid) => fluid.misplaced_bytes(&cx),
            Rules::Partitioned => partitioned::misplaced_bytes(&cx),
            Rules::None | Rules::Fifo(_) => 0,
        }
    }

    /// Runs of level 0 that start a merge, its number in normal operation. `None` if it is unbounded.
    pub fn level0_trigger(&self, options: &StrategyOptions) -> Option<u32> {
        match self.rules() {
            Rules::Fluid(fluid) => Some(fluid.level0_trigger(options)),
            Rules::Partitioned => Some(options.tier_runs.max(2)),
            Rules::None | Rules::Fifo(_) => None,
        }
    }

    /// What each level of the tree may hold before it is compacted, in the order of the levels.
    pub fn level_limits(
        &self,
        shape: &Shape<'_>,
        options: &StrategyOptions,
    ) -> Vec<(LevelIndex, LevelLimit)> {
        let (busy, rules) = (Busy::new(), self.rules());
        let cx = Context::new(shape, &busy, options);
        let limit = |index: LevelIndex| match &rules {
            Rules::None => LevelLimit::default(),
            Rules::Fifo(limits) => LevelLimit { runs: None, bytes: limits.max_bytes },
            Rules::Fluid(fluid) => fluid.level_limit(&cx, index),
            Rules::Partitioned => partitioned::level_limit(&cx, index),
        };
        shape.version.levels().iter().map(|level| (level.index, limit(level.index))).collect()
    }

    /// Where a flush of keys in `hull` is placed; see [`flush_placement`].
    pub fn flush_placement(&self, version: &Version, hull: &KeyRange, busy: &Busy) -> Position {
        match self {
            Strategy::None => Position::Front(LevelIndex::FLUSH),
            _ => flush_placement(version, hull, busy),
        }
    }

    /// The next step that merges all data of `range` older than `mark` into the last level, for every
    /// strategy.
    pub fn plan_manual(
        &self,
        shape: &Shape<'_>,
        busy: &Busy,
        options: &StrategyOptions,
        range: &KeyRange,
        mark: ManualMark,
    ) -> ManualStep {
        manual::plan(&Context::new(shape, busy, options), range, mark)
    }

    /// Whether the tree of an idle database is merged into a single run.
    pub fn converges(&self) -> bool {
        match self.rules() {
            Rules::Fluid(fluid) => fluid.converges(),
            Rules::Partitioned => true,
            Rules::None | Rules::Fifo(_) => false,
        }
    }

    /// Whether it merges to drop garbage; the others keep garbage until whole tables are dropped.
    pub fn merges(&self) -> bool {
        !matches!(self, Strategy::None | Strategy::Fifo(_))
    }

    /// Whether plans depend on the read heat of parts, [`Shape::heat`].
    pub fn uses_heat(&self) -> bool {
        matches!(self, Strategy::Partial { pick: CompactionPriority::Hottest, .. })
    }

    /// Whether plans depend on the overwrite ratio of parts, [`Shape::overwrite_ratios`].
    pub fn uses_overwrite_ratios(&self) -> bool {
        *self == Strategy::Partitioned
    }

    /// The rules that plan for it, with their parameters.
    fn rules(&self) -> Rules {
        let fluid = |size_ratio, upper_runs, last_runs, partial| {
            Rules::Fluid(Fluid { size_ratio, upper_runs, last_runs, partial })
        };
        match *self {
            Strategy::None => Rules::None,
            Strategy::Partitioned => Rules::Partitioned,
            Strategy::Fifo(limits) => Rules::Fifo(limits),
            Strategy::Leveled { size_ratio } => fluid(size_ratio, RunsPerLevel::ONE, 1, None),
            Strategy::Tiered { size_ratio } => {
                let runs = size_ratio.tier_runs();
                fluid(size_ratio, RunsPerLevel::same(runs), runs, None)
            }
            Strategy::LazyLeveled { size_ratio } => {
                fluid(size_ratio, RunsPerLevel::same(size_ratio.tier_runs()), 1, None)
            }
            Strategy::TieredLeveled { size_ratio } => {
                let runs = RunsPerLevel::each(&[size_ratio.tier_runs(), 1]).unwrap_or(RunsPerLevel::ONE);
                fluid(size_ratio, runs, 1, None)
            }
            Strategy::Fluid { size_ratio, upper_runs, last_runs } => {
                fluid(size_ratio, upper_runs, last_runs.clamp(1, MAX_RUNS_PER_LEVEL), None)
            }
            Strategy::Partial { size_ratio, pick } => {
                fluid(size_ratio, RunsPerLevel::ONE, 1, Some(Partial::with(pick)))
            }
            Strategy::GoldenRatio => fluid(SizeRatio::GOLDEN, RunsPerLevel::ONE, 1, Some(Partial::GOLDEN)),
        }
    }
}

enum Rules {
    None,
    Fluid(Fluid),
    Fifo(FifoLimits),
    Partitioned,
}

impl Rules {
    fn plan(&self, cx: &Context<'_>) -> Option<CompactionPlan> {
        match self {
            Rules::None => None,
            Rules::Fluid(fluid) => fluid.plan(cx),
            Rules::Fifo(limits) => limits.plan(cx),
            Rules::Partitioned => partitioned::plan(cx),
        }
    }

    /// The rules that maintain the shape, and nothing else.
    fn plan_shape(&self, cx: &Context<'_>) -> Option<CompactionPlan> {
        match self {
            Rules::None | Rules::Fifo(_) => None,
            Rules::Fluid(fluid) => fluid.plan_shape(cx),
            Rules::Partitioned => partitioned::plan_shape(cx),
        }
    }

    fn debt(&self, cx: &Context<'_>) -> u64 {
        match self {
            Rules::None => 0,
            Rules::Fluid(fluid) => fluid.debt(cx),
            Rules::Fifo(limits) => limits.debt(cx),
            Rules::Partitioned => partitioned::debt(cx),
        }
    }
}
