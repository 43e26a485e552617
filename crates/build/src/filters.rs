//! Filter selection for new tables: the kind follows from the options, the bits from the target tree or from
//! the lookups observed in its level.
//!
//! The choice is made once for each job and is stored in its tables. A tree changes while a job runs, and
//! tables persist while it grows; so the sum of all filters follows the budget of [`FilterAllocation`] with
//! the delay of a merge, and no read depends on it.

use esker_base::PartId;
use esker_filter::tuning::Tuned;
use esker_filter::{
    FilterAllocation, FilterPolicy, FilterWatch, FilteredRun, FilteredTree, LevelTargets, LevelTuning,
    Observed,
};
use esker_options::KeyspaceOptions;
use esker_strategy::{CompactionPlan, InputPart, Position};
use esker_version::{LevelIndex, Version};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// The filter of a table to be written.
#[derive(Clone, Copy, Debug)]
pub struct TableFilter {
    /// The kind of filter.
    pub policy: FilterPolicy,
    /// Bits of the whole filter, if they are fixed.
    pub bits: Option<u64>,
}

impl TableFilter {
    /// No filter.
    pub const NONE: TableFilter = TableFilter { policy: FilterPolicy::None, bits: None };

    /// The filter by the options, independent of any tree.
    pub fn standing_alone(options: &KeyspaceOptions) -> TableFilter {
        TableFilter { policy: options.filter, bits: options.filter_allocation.fixed_bits() }
    }

    /// The filter for a job that writes `keys` keys to a position in this tree and consumes some of its
    /// parts.
    pub fn in_tree(
        options: &KeyspaceOptions,
        version: &Version,
        plan: Option<&CompactionPlan>,
        to: Position,
        keys: u64,
        tuner: Option<(&FilterTuner, &FilterWatch)>,
    ) -> TableFilter {
        let allocation = options.filter_allocation;
        let alone = TableFilter::standing_alone(options);
        if options.filter == FilterPolicy::None {
            return alone;
        }
        if let (FilterAllocation::Dynamic(targets), Some((tuner, watch))) = (allocation, tuner) {
            let target = target_of(targets, version, to.level());
            let tuned = tuner.next(options.filter, target, to.level(), watch.observed(to.level().get()));
            return TableFilter { policy: options.filter.with_bits_per_key(tuned.bits), ..alone };
        }
        if !allocation.depends_on_tree() {
            return alone;
        }
        let policy = allocation.policy_for(options.filter, &tree_after(version, plan, to, keys));
        TableFilter { policy, ..alone }
    }
}

/// Keys of an input, estimated for a slice.
pub fn keys_of(input: &InputPart) -> u64 {
    let part = &input.part;
    match &input.slice {
        None => part.entries,
        Some(_) => {
            (u128::from(part.entries) * u128::from(input.bytes()) / u128::from(part.bytes.max(1))) as u64
        }
    }
}

/// Upper bound of the keys of a plan's output: how many are dropped is not known before.
pub fn keys_taken(plan: &CompactionPlan) -> u64 {
    plan.parts().map(|(_, input)| keys_of(input)).sum()
}

/// The keys of each run once a job is done.
fn tree_after(version: &Version, plan: Option<&CompactionPlan>, to: Position, keys: u64) -> FilteredTree {
    let taken: BTreeMap<PartId, u64> =
        plan.iter().flat_map(|plan| plan.parts()).map(|(_, input)| (input.part.id, keys_of(input))).collect();
    let joined = match to {
        Position::Front(_) => None,
        Position::Into { run, .. } => Some(run),
    };
    let mut tree = FilteredTree { runs: Vec::new(), run: usize::MAX };
    for (_, run) in version.runs() {
        let left = run
            .parts()
            .iter()
            .map(|part| part.entries.saturating_sub(taken.get(&part.id).copied().unwrap_or(0)));
        let is_joined = joined == Some(run.id);
        if is_joined {
            tree.run = tree.runs.len();
        }
        let keys = left.sum::<u64>() + if is_joined { keys } else { 0 };
        tree.runs.push(FilteredRun::of_keys(keys));
    }
    if tree.run == usize::MAX {
        tree.run = tree.runs.len();
        tree.runs.push(FilteredRun::of_keys(keys));
    }
    tree
}

/// The tuning of a keyspace's new filters by the observed results of present ones.
#[derive(Debug, Default)]
pub struct FilterTuner {
    levels: Mutex<BTreeMap<LevelIndex, LevelTuning>>,
}

impl FilterTuner {
    /// Lets the tuning of a level begin with what is counted from now on.
    pub fn begin_at(&self, level: LevelIndex, seen: Observed) {
        self.levels.lock().insert(level, LevelTuning::beginning_at(seen));
    }

    fn next(&self, policy: FilterPolicy, target: f64, level: LevelIndex, seen: Observed) -> Tuned {
        let mut levels = self.levels.lock();
        let tuned = levels.entry(level).or_default().next(policy, target, seen);
        if !tuned.is_in_reach && seen.probes > 0 {
            tracing::debug!(%level, target, rate = tuned.rate, "no filter within the bounds reaches the target");
        }
        tuned
    }

    /// Target and choice of a level, if its bits are tuned.
    pub fn present(
        &self,
        options: &KeyspaceOptions,
        version: &Version,
        level: LevelIndex,
    ) -> Option<(f64, Tuned)> {
        let FilterAllocation::Dynamic(targets) = options.filter_allocation else { return None };
        if options.filter == FilterPolicy::None {
            return None;
        }
        let target = target_of(targets, version, level);
        let tuning = self.levels.lock().get(&level).copied().unwrap_or_default();
        Some((target, tuning.present(options.filter, target)))
    }
}

/// The target of a level, counting levels with data.
fn target_of(targets: LevelTargets, version: &Version, level: LevelIndex) -> f64 {
    let above = version.levels().iter().filter(|other| other.index < level && !other.runs().is_empty());
    targets.of_level(above.count()).rate()
}
