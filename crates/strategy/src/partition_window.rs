//! Partition windows: a range of the last level's partitions and the column of parts above it.
//!
//! The oldest run of the last level is the *base*; each of its parts is a *partition*, which owns the keys
//! from its start to the next part's start (the first and the last are unbounded). A *window* is a few
//! adjacent partitions. The *column* over a window holds, from the oldest run up, every part that overlaps
//! the window. Merging a column into the base leaves the rest of the level untouched: the transient space is
//! one window, where merging the whole level needs a second copy of it (Spooky, VLDB 15(11)).
//!
//! A part that extends beyond the window widens it as long as the window stays small; otherwise the part is
//! sliced, if slices are allowed and large enough; otherwise the column ends below that part's run.
//! Windows always begin with the oldest run and include every overlapping part, so no older data
//! stays above newer data (V1).

use crate::plan::{Class, CompactionPlan, InputPart, PlanInput, Reason};
use crate::plan_builder::is_busy;
use crate::plan_builder::{Context, PlanDraft, bytes_of, hull_of, input_from, narrow};
use crate::position::Position;
use crate::score::Score;
use esker_version::{Key, KeyEnd, KeyRange, LevelIndex, PartMeta, Run};
use std::sync::Arc;

const MAX_WINDOW_PARTS: usize = 4;
/// How many windows are tried when running jobs conflict with the best.
const MAX_TRIES: usize = 8;
/// A slice of less than one in this many of a table for each partition of the window stays where it is.
const LEAST_SLICE: u64 = 64;

/// Adjacent partitions, by index, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) first: usize,
    pub(crate) last: usize,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UpperLoad {
    /// Effective bytes of parts that no job uses, or their garbage estimate.
    pub(crate) bytes: u64,
    /// Runs that overlap the partition.
    pub(crate) runs: u32,
}

/// Entries that the merge of a column drops, and all entries that it reads.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GarbageLoad {
    /// Tombstones and expired entries above the base.
    pub(crate) garbage: u64,
    /// All entries, those of the base included.
    pub(crate) entries: u64,
}

/// [`GarbageLoad`] of every window, as prefix sums over the partitions.
#[derive(Debug)]
pub(crate) struct GarbageLoads {
    sums: Vec<GarbageLoad>,
}

impl GarbageLoads {
    pub(crate) fn over(&self, window: Window) -> GarbageLoad {
        let (before, until) = (self.sums[window.first], self.sums[window.last + 1]);
        GarbageLoad {
            garbage: until.garbage.saturating_sub(before.garbage),
            entries: until.entries.saturating_sub(before.entries),
        }
    }
}

#[derive(Debug)]
pub(crate) struct PartitionWindows<'a> {
    cx: Context<'a>,
    base_run: Option<&'a Arc<Run>>,
    base: &'a [Arc<PartMeta>],
    /// Oldest first.
    upper: Vec<(LevelIndex, &'a Arc<Run>)>,
    table_bytes: u64,
    max_job_bytes: u64,
}

impl<'a> PartitionWindows<'a> {
    pub(crate) fn new(cx: &Context<'a>) -> PartitionWindows<'a> {
        let base_run = cx.shape.base();
        let last_bytes = cx.shape.last_bytes();
        PartitionWindows {
            cx: *cx,
            base_run,
            base: base_run.map_or(&[], |run| run.parts()),
            upper: cx.shape.upper().collect(),
            table_bytes: cx.options.table_bytes(last_bytes),
            max_job_bytes: cx.options.max_job_bytes(last_bytes),
        }
    }

    pub(crate) fn base(&self) -> &'a [Arc<PartMeta>] {
        self.base
    }

    /// The runs above the base, oldest first.
    pub(crate) fn upper(&self) -> &[(LevelIndex, &'a Arc<Run>)] {
        &self.upper
    }

    pub(crate) fn everything(&self) -> Window {
        Window { first: 0, last: self.base.len().saturating_sub(1) }
    }

    pub(crate) fn range(&self, window: Window) -> KeyRange {
        let start =
            if window.first == 0 { Key::default() } else { self.base[window.first].range.start.clone() };
        let behind = self.base.get(window.last + 1);
        let end = behind.map_or(KeyEnd::Unbounded, |next| KeyEnd::Excluded(next.range.start.clone()));
        KeyRange { start, end }
    }

    /// The smallest window that owns all keys of `range`.
    pub(crate) fn window_of(&self, range: &KeyRange) -> Window {
        let until = |covered: &dyn Fn(&Key) -> bool| {
            self.base.partition_point(|part| covered(&part.range.start)).saturating_sub(1)
        };
        Window { first: until(&|start| *start <= range.start), last: until(&|start| range.end.covers(start)) }
    }

    fn base_bytes(&self, window: Window) -> u64 {
        let parts = self.base.get(window.first..=window.last).unwrap_or_default();
        parts.iter().fold(0, |sum, part| sum.saturating_add(part.bytes))
    }

    fn is_busy(&self, window: Window) -> bool {
        let parts = self.base.get(window.first..=window.last).unwrap_or_default();
        parts.iter().any(|part| self.cx.busy.has(part))
    }

    pub(crate) fn loads(&self) -> Vec<UpperLoad> {
        self.loads_by(PartMeta::effective_bytes)
    }

    /// The bytes above each partition, by a given measure of a part. A part that spans several partitions is
    /// spread evenly over them: partitions are of about equal size, so they are quantiles of the keys and a
    /// better measure than the distance between keys. O(parts log partitions).
    pub(crate) fn loads_by(&self, bytes_of: impl Fn(&PartMeta) -> u64) -> Vec<UpperLoad> {
        // Differences to be summed up: a part needs two entries, however many partitions it spans.
        let mut steps = vec![(0i128, 0i64); self.base.len() + 1];
        for (_, run) in &self.upper {
            let mut counted_to = 0;
            for part in run.parts().iter().filter(|part| !self.cx.busy.has(part) && self.cx.counts(part)) {
                let Window { first, last } = self.window_of(&part.range);
                let bytes = i128::from(bytes_of(part) / (last - first + 1) as u64);
                steps[first].0 += bytes;
                steps[(last + 1).min(self.base.len())].0 -= bytes;
                // Two parts of a run may share a partition; they count as one run there.
                let from = first.max(counted_to);
                if from <= last {
                    steps[from].1 += 1;
                    steps[(last + 1).min(self.base.len())].1 -= 1;
                    counted_to = last + 1;
                }
            }
        }
        let mut sum = (0i128, 0i64);
        let partitions = steps.iter().take(self.base.len());
        partitions
            .map(|step| {
                sum = (sum.0 + step.0, sum.1 + step.1);
                let bytes = u64::try_from(sum.0).unwrap_or(u64::MAX);
                UpperLoad { bytes, runs: u32::try_from(sum.1).unwrap_or(u32::MAX) }
            })
            .collect()
    }

    /// The entries that merges drop and rewrite, for each partition. Parts above that span several partitions
    /// are spread evenly, as in [`PartitionWindows::loads`]. O(parts log partitions).
    pub(crate) fn garbage_loads(&self, garbage: impl Fn(&PartMeta) -> u64) -> GarbageLoads {
        let partitions = self.base.len().max(1);
        let mut steps = vec![(0i128, 0i128); partitions + 1];
        for part in self.upper.iter().flat_map(|(_, run)| run.parts()) {
            let Window { first, last } = self.window_of(&part.range);
            let share = |count: u64| i128::from(count / (last - first + 1) as u64);
            let (garbage, entries) = (share(garbage(part)), share(part.entries));
            steps[first] = (steps[first].0 + garbage, steps[first].1 + entries);
            steps[last + 1] = (steps[last + 1].0 - garbage, steps[last + 1].1 - entries);
        }
        let mut upper = (0i128, 0i128);
        let mut sums = vec![GarbageLoad::default()];
        for (at, step) in steps.into_iter().take(partitions).enumerate() {
            upper = (upper.0 + step.0, upper.1 + step.1);
            let before = sums[at];
            let below = self.base.get(at).map_or(0, |part| part.entries);
            let count = |count: i128| u64::try_from(count).unwrap_or(u64::MAX);
            sums.push(GarbageLoad {
                garbage: before.garbage.saturating_add(count(upper.0)),
                entries: before.entries.saturating_add(count(upper.1)).saturating_add(below),
            });
        }
        GarbageLoads { sums }
    }

    fn density(&self, loads: &[UpperLoad], at: usize) -> Score {
        Score::new(loads[at].bytes, self.base[at].bytes.max(1))
    }

    /// The densest eligible partition, with its denser neighbour while that is half as dense and the window
    /// small.
    fn best_window(&self, loads: &[UpperLoad], eligible: &[bool]) -> Option<Window> {
        // On a tie the smallest key: `max_by` returns the last of equals, so iterate from the end.
        let seed = (0..self.base.len())
            .rev()
            .filter(|&at| eligible[at] && loads[at].bytes > 0)
            .max_by(|&a, &b| self.density(loads, a).cmp(&self.density(loads, b)))?;
        let mut window = Window { first: seed, last: seed };
        let half = Score {
            part: u128::from(loads[seed].bytes),
            whole: u128::from(self.base[seed].bytes.max(1)) * 2,
        };
        let joins = |at: usize, window: Window| {
            let wider = Window { first: window.first.min(at), last: window.last.max(at) };
            let fits = self.base_bytes(wider) <= self.max_job_bytes;
            fits && !self.cx.busy.has(&self.base[at]) && self.density(loads, at) >= half
        };
        while window.last - window.first + 1 < MAX_WINDOW_PARTS {
            let left = window.first.checked_sub(1).filter(|&at| joins(at, window));
            let right = Some(window.last + 1).filter(|&at| at < self.base.len() && joins(at, window));
            match (left, right) {
                (Some(l), Some(r)) if self.density(loads, r) > self.density(loads, l) => window.last = r,
                (Some(l), _) => window.first = l,
                (None, Some(r)) => window.last = r,
                (None, None) => break,
            }
        }
        Some(window)
    }

    /// Merges the column over the best window among `eligible` partitions.
    pub(crate) fn merge_best(
        &self,
        loads: &[UpperLoad],
        mut eligible: Vec<bool>,
        class: Class,
        reason: Reason,
    ) -> Option<CompactionPlan> {
        for (at, part) in self.base.iter().enumerate() {
            eligible[at] &= !self.cx.busy.has(part);
        }
        for _ in 0..MAX_TRIES {
            let window = self.best_window(loads, &eligible)?;
            if let Some(plan) = self.merge(window, class, reason) {
                return Some(plan);
            }
            eligible[window.first..=window.last].fill(false);
        }
        None
    }

    /// Merges the column over a window into the base; `None` if it is empty or conflicts with a running job.
    pub(crate) fn merge(&self, window: Window, class: Class, reason: Reason) -> Option<CompactionPlan> {
        let forced = matches!(class, Class::L0Urgent | Class::Target | Class::Idle)
            || matches!(reason, Reason::Manual | Reason::BlobGarbage);
        let plan = |forced| {
            let inputs = self.column(window, forced)?;
            self.cx.finish(PlanDraft { inputs, to: self.target(), class, reason })
        };
        // If every slice is below the minimum, all are taken; otherwise they would stay forever.
        plan(forced).or_else(|| if forced { None } else { plan(true) })
    }

    pub(crate) fn target(&self) -> Position {
        match self.base_run {
            Some(run) => Position::Into { level: LevelIndex::LAST, run: run.id, order: run.order },
            None => Position::Front(LevelIndex::LAST),
        }
    }

    /// Everything above a window, and the window's partitions.
    fn column(&self, window: Window, forced: bool) -> Option<Vec<PlanInput>> {
        if self.is_busy(window) {
            return None;
        }
        let mut inputs = self.collect(window, forced);
        let hull = hull_of(&inputs)?;
        inputs.extend(self.base_run.and_then(|run| input_from(LevelIndex::LAST, run, Some(&hull))));
        if self.cx.options.slices && bytes_of(&inputs) > self.max_job_bytes.saturating_mul(2) {
            narrow(&mut inputs, self.target(), self.max_job_bytes);
        }
        Some(inputs)
    }

    /// The upper parts of the column over a window, which widens where parts extend beyond it.
    fn collect(&self, mut window: Window, forced: bool) -> Vec<PlanInput> {
        let slices = self.cx.options.slices;
        'widened: loop {
            let range = self.range(window);
            let mut inputs = Vec::new();
            for &(level, run) in &self.upper {
                let parts = run.overlapping(&range);
                let (Some(first), Some(last)) = (parts.first(), parts.last()) else { continue };
                if parts.iter().any(|part| self.cx.busy.has(part)) {
                    break;
                }
                let hull = KeyRange { start: first.range.start.clone(), end: last.range.end.clone() };
                let consumed: Vec<InputPart> =
                    parts.iter().filter_map(|part| InputPart::within(part, &range)).collect();
                let input = PlanInput { level, run: run.id, order: run.order, parts: consumed };
                if !range.covers(&hull) {
                    let wider = self.window_of(&range.hull(&hull));
                    let fits = self.base_bytes(wider) <= self.max_job_bytes || (forced && !slices);
                    if fits && !self.is_busy(wider) {
                        window = wider;
                        continue 'widened;
                    }
                    let least = self.table_bytes / LEAST_SLICE * (window.last - window.first + 1) as u64;
                    let worth = forced || bytes_of(std::slice::from_ref(&input)) >= least;
                    if !(slices && worth) {
                        break;
                    }
                }
                inputs.push(input);
            }
            return inputs;
        }
    }

    /// One step towards a single run, the densest window first; `None` when there is a single run, where too
    /// little lies above the last level to justify the rewrite, or on conflicts with running jobs.
    pub(crate) fn converge(&self) -> Option<CompactionPlan> {
        if self.upper.is_empty() {
            return None;
        }
        if self.base.is_empty() {
            return self.merge(self.everything(), Class::Idle, Reason::Converge);
        }
        let loads = self.loads();
        let least = u128::from(self.cx.options.idle_permille);
        let is_worth = |(part, load): (&Arc<PartMeta>, &UpperLoad)| {
            u128::from(load.bytes) * 1000 >= u128::from(part.bytes) * least
        };
        let eligible = self.base.iter().zip(&loads).map(is_worth).collect();
        self.merge_best(&loads, eligible, Class::Idle, Reason::Converge)
    }

    /// The window from `first` up to `last` while it stays small and every partition satisfies `wanted`.
    pub(crate) fn window_from(&self, first: usize, last: usize, wanted: impl Fn(usize) -> bool) -> Window {
        let mut window = Window { first, last: first };
        while window.last < last && window.last - first + 1 < MAX_WINDOW_PARTS && wanted(window.last + 1) {
            let wider = Window { first, last: window.last + 1 };
            if self.base_bytes(wider) > self.max_job_bytes || self.is_busy(wider) {
                break;
            }
            window = wider;
        }
        window
    }

    pub(crate) fn upper_is_busy(&self) -> bool {
        self.upper.iter().any(|(_, run)| is_busy(&self.cx, run))
    }
}
