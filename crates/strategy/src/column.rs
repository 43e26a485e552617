//! Columns: a window of the last level with what lies above it.
//!
//! The oldest run of the last level is the *base*; each of its parts is a *partition*, which owns the keys from its
//! start to the next part's start (the first and the last reach to the ends). A *window* is a few neighbouring
//! partitions. The *column* over a window holds, from the oldest run up, every part that touches the window. Merging
//! a column into the base makes room without touching the rest of the level: the transient space is one window, where
//! merging the whole level needs a second copy of it (Spooky, VLDB 15(11)).
//!
//! A part that sticks out of the window widens it as long as the window stays small; else the part is sliced, if
//! slices are allowed and worth it; else the column ends below that part's run. Columns always begin with the oldest
//! run and take everything that touches them, so nothing older stays behind above newer data (V1).

use crate::draft::{Context, Draft, bytes_of, hull_of};
use crate::fluid::is_busy;
use crate::plan::{Class, CompactionPlan, InputPart, PlanInput, Position, Reason};
use crate::score::Score;
use esker_version::{Key, KeyEnd, KeyRange, LevelIndex, PartMeta, Run};
use std::sync::Arc;

/// Most partitions of a window that is chosen by density.
const MAX_WINDOW_PARTS: usize = 4;
/// How many windows are tried when running jobs are in the way of the best.
const MAX_TRIES: usize = 8;
/// A part that spans more partitions than this is taken to be spread evenly over them.
const MAX_WEIGHED_SPAN: usize = 8;

/// Neighbouring partitions, by index, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) first: usize,
    pub(crate) last: usize,
}

/// What lies over one partition.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    /// Effective bytes of parts that no job uses.
    pub(crate) bytes: u64,
    /// Runs that touch the partition.
    pub(crate) runs: u32,
}

/// The windows of a tree.
#[derive(Debug)]
pub(crate) struct Columns<'a> {
    cx: Context<'a>,
    base_run: Option<&'a Arc<Run>>,
    base: &'a [Arc<PartMeta>],
    /// Oldest first.
    upper: Vec<(LevelIndex, &'a Arc<Run>)>,
    table_bytes: u64,
    max_job_bytes: u64,
}

impl<'a> Columns<'a> {
    pub(crate) fn new(cx: &Context<'a>) -> Columns<'a> {
        let base_run = cx.shape.base();
        let last_bytes = cx.shape.last_bytes();
        Columns {
            cx: *cx,
            base_run,
            base: base_run.map_or(&[], |run| run.parts()),
            upper: cx.shape.upper().collect(),
            table_bytes: cx.options.table_bytes(last_bytes),
            max_job_bytes: cx.options.max_job_bytes(last_bytes),
        }
    }

    /// The partitions, in key order.
    pub(crate) fn base(&self) -> &'a [Arc<PartMeta>] {
        self.base
    }

    /// The runs above the base, oldest first.
    pub(crate) fn upper(&self) -> &[(LevelIndex, &'a Arc<Run>)] {
        &self.upper
    }

    /// The window over all keys.
    pub(crate) fn everything(&self) -> Window {
        Window { first: 0, last: self.base.len().saturating_sub(1) }
    }

    /// The keys that a window owns.
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

    /// What lies over each partition. O(parts), and up to a few steps for each part that spans several.
    pub(crate) fn loads(&self) -> Vec<Load> {
        let mut loads = vec![Load::default(); self.base.len()];
        if loads.is_empty() {
            return loads;
        }
        // What is added to all partitions from here on: parts that span many need two entries instead of many.
        let mut steps = vec![(0i128, 0i64); self.base.len() + 1];
        for (_, run) in &self.upper {
            let mut counted_to = 0;
            for part in run.parts().iter().filter(|part| !self.cx.busy.has(part)) {
                let window = self.window_of(&part.range);
                let span = window.last - window.first + 1;
                let bytes = part.effective_bytes();
                if span > MAX_WEIGHED_SPAN {
                    steps[window.first].0 += i128::from(bytes / span as u64);
                    steps[window.last + 1].0 -= i128::from(bytes / span as u64);
                } else {
                    self.weigh(part, bytes, window, &mut loads);
                }
                // Two parts of a run may share a partition; it is one run there.
                let from = window.first.max(counted_to);
                if from <= window.last {
                    steps[from].1 += 1;
                    steps[window.last + 1].1 -= 1;
                    counted_to = window.last + 1;
                }
            }
        }
        let (mut bytes, mut runs) = (0i128, 0i64);
        for (load, step) in loads.iter_mut().zip(&steps) {
            bytes += step.0;
            runs += step.1;
            load.bytes = load.bytes.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
            load.runs = u32::try_from(runs).unwrap_or(u32::MAX);
        }
        loads
    }

    fn weigh(&self, part: &PartMeta, bytes: u64, window: Window, loads: &mut [Load]) {
        for (at, load) in loads.iter_mut().enumerate().take(window.last + 1).skip(window.first) {
            let share = part.range.share_inside(&self.range(Window { first: at, last: at }));
            let inside = u128::from(bytes) * u128::from(share) / u128::from(esker_version::SHARE_ONE);
            load.bytes = load.bytes.saturating_add(inside as u64);
        }
    }

    fn density(&self, loads: &[Load], at: usize) -> Score {
        Score::new(loads[at].bytes, self.base[at].bytes.max(1))
    }

    /// The densest partition that is eligible, with the denser of its neighbours as long as those are at least half
    /// as dense and the window stays small.
    fn best_window(&self, loads: &[Load], eligible: &[bool]) -> Option<Window> {
        // Of equals the one with the smallest key: `max_by` takes the last of equals, so look from the end.
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
        loads: &[Load],
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

    /// Merges the column over a window into the base, `None` if it would be empty or a job is in the way.
    pub(crate) fn merge(&self, window: Window, class: Class, reason: Reason) -> Option<CompactionPlan> {
        let forced =
            matches!(class, Class::L0Urgent | Class::Promise | Class::Idle) || reason == Reason::Manual;
        let plan = |forced| {
            let inputs = self.column(window, forced)?;
            self.cx.finish(Draft { inputs, to: self.target(), class, reason })
        };
        // Where every slice is too small to be worth it, they are taken all the same rather than never.
        plan(forced).or_else(|| if forced { None } else { plan(true) })
    }

    pub(crate) fn target(&self) -> Position {
        match self.base_run {
            Some(run) => Position::Into { level: LevelIndex::LAST, run: run.id, order: run.order },
            None => Position::Front(LevelIndex::LAST),
        }
    }

    /// Everything above a window and the partitions under it.
    fn column(&self, window: Window, forced: bool) -> Option<Vec<PlanInput>> {
        if self.is_busy(window) {
            return None;
        }
        let (mut inputs, mut range) = self.collect(window, forced);
        let limit = self.max_job_bytes.saturating_mul(2);
        let base_bytes = self.base_bytes(self.window_of(&hull_of(&inputs)?));
        if self.cx.options.slices && bytes_of(&inputs).saturating_add(base_bytes) > limit {
            range = self.narrow(&inputs, range);
            inputs.iter_mut().for_each(|input| clip(input, &range));
            inputs.retain(|input| !input.parts.is_empty());
        }
        let hull = hull_of(&inputs)?;
        let parts = self.base_run.map_or(&[][..], |run| run.overlapping(&hull));
        let parts: Vec<InputPart> = parts.iter().filter_map(|part| InputPart::within(part, &range)).collect();
        if let Some(run) = self.base_run {
            inputs.push(PlanInput { level: LevelIndex::LAST, run: run.id, order: run.order, parts });
        }
        Some(inputs)
    }

    /// The upper parts of the column over a window, which grows where parts stick out, and its keys.
    fn collect(&self, mut window: Window, forced: bool) -> (Vec<PlanInput>, KeyRange) {
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
                    let worth = forced || bytes_of(std::slice::from_ref(&input)) >= self.table_bytes / 64;
                    if !(slices && worth) {
                        break;
                    }
                }
                inputs.push(input);
            }
            return (inputs, range);
        }
    }

    /// The first keys of a column that is too large, so that about one job's worth of bytes lies before the border.
    /// Borders are starts of parts; the whole range if there is none to cut at.
    fn narrow(&self, inputs: &[PlanInput], range: KeyRange) -> KeyRange {
        let base = self.base_run.map_or(&[][..], |run| run.overlapping(&range));
        let upper = inputs
            .iter()
            .flat_map(|input| &input.parts)
            .map(|part| (part.range().start.clone(), part.bytes()));
        let Some(first_upper) = upper.clone().map(|(start, _)| start).min() else { return range };
        let mut starts: Vec<(Key, u64)> = upper.collect();
        starts.extend(base.iter().map(|part| (part.range.start.clone(), part.bytes)));
        starts.sort_unstable();
        let mut before = 0u64;
        let mut border = None;
        for (start, bytes) in starts {
            if start > first_upper && (border.is_none() || before <= self.max_job_bytes) {
                border = Some(start);
            }
            before = before.saturating_add(bytes);
        }
        match border {
            Some(border) => KeyRange { start: range.start, end: KeyEnd::Excluded(border) },
            None => range,
        }
    }

    /// One step towards a single run, the densest window first; `None` when there is one, or jobs are in the way.
    pub(crate) fn converge(&self) -> Option<CompactionPlan> {
        if self.upper.is_empty() {
            return None;
        }
        if self.base.is_empty() {
            return self.merge(self.everything(), Class::Idle, Reason::Converge);
        }
        self.merge_best(&self.loads(), vec![true; self.base.len()], Class::Idle, Reason::Converge)
    }

    /// The window from `first` on, as long as it stays small, up to `last` and while `wanted`.
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

    /// Whether some upper run is used by a job.
    pub(crate) fn upper_is_busy(&self) -> bool {
        self.upper.iter().any(|(_, run)| is_busy(&self.cx, run))
    }
}

/// Keeps of an input what lies in `range`.
fn clip(input: &mut PlanInput, range: &KeyRange) {
    let consumed = std::mem::take(&mut input.parts);
    input.parts = consumed
        .into_iter()
        .filter_map(|consumed| match consumed.slice {
            None => InputPart::within(&consumed.part, range),
            Some(slice) => {
                let slice = Some(slice.intersection(range)?);
                Some(InputPart { slice, ..consumed })
            }
        })
        .collect();
}
