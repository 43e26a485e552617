//! Compaction plans: the output of a strategy, as a value.

use crate::cut::Cut;
use crate::position::{Position, RunPosition};
use esker_base::{KeyspaceId, PartId, RunId};
use esker_version::{Key, KeyEnd, KeyRange, LevelIndex, PartMeta, Place, Version, VersionEdit};
use std::fmt;
use std::sync::Arc;

/// Priority of a job; the greatest runs first. The two lowest classes run only while nothing higher waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Convergence while the database is idle.
    Idle,
    /// Getting rid of tombstones and expired entries.
    Clean,
    /// Maintaining the shape of the tree.
    Shape,
    /// Meeting a target with a deadline.
    Target,
    /// Level 0 is about to stop the writers.
    L0Urgent,
    /// Parts that are dropped unread. Only an edit, so it waits for nothing, and nothing waits for it.
    Free,
    /// A memtable flush. No plan has this class; it exists so that the scheduler orders all work by one type.
    Flush,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::Idle => "idle",
            Class::Clean => "clean",
            Class::Shape => "shape",
            Class::Target => "target",
            Class::L0Urgent => "level 0 urgent",
            Class::Free => "free",
            Class::Flush => "flush",
        })
    }
}

/// Why a plan was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Level 0 has enough runs.
    Level0Runs,
    /// A level has too many runs.
    TooManyRuns,
    /// A level exceeds its capacity.
    TooLarge,
    /// Enough runs for a tier.
    Tier,
    /// Scans seek in several runs above the last level: read-triggered compaction.
    Scans,
    /// The densest window of the last level: the most garbage for the bytes rewritten.
    DenseWindow,
    /// Many tombstones above the last level.
    Tombstones,
    /// Tombstones in the last level that no snapshot needs.
    LastTombstones,
    /// The delete-persistence target: deleted data is due.
    DeleteTarget,
    /// The space target: too many bytes above the last level.
    SpaceTarget,
    /// Every entry has expired.
    Expired,
    /// Range tombstones hide every entry.
    RangeDeleted,
    /// More bytes than FIFO may keep.
    OverSize,
    /// Everything is older than FIFO keeps it.
    TooOld,
    /// Adjacent small runs of FIFO.
    SmallRuns,
    /// Too much garbage in blob files.
    BlobGarbage,
    /// Convergence of an idle database.
    Converge,
    /// A request of the user.
    Manual,
}

impl Reason {
    /// All of them.
    pub const ALL: [Reason; 18] = [
        Reason::Level0Runs,
        Reason::TooManyRuns,
        Reason::TooLarge,
        Reason::Tier,
        Reason::Scans,
        Reason::DenseWindow,
        Reason::Tombstones,
        Reason::LastTombstones,
        Reason::DeleteTarget,
        Reason::SpaceTarget,
        Reason::Expired,
        Reason::RangeDeleted,
        Reason::OverSize,
        Reason::TooOld,
        Reason::SmallRuns,
        Reason::BlobGarbage,
        Reason::Converge,
        Reason::Manual,
    ];
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Level0Runs => "level 0 has enough runs",
            Reason::TooManyRuns => "the level has too many runs",
            Reason::TooLarge => "the level is too large",
            Reason::Tier => "enough runs for a tier",
            Reason::Scans => "scans seek in several runs",
            Reason::DenseWindow => "the densest window",
            Reason::Tombstones => "many tombstones",
            Reason::LastTombstones => "tombstones no snapshot needs",
            Reason::DeleteTarget => "deleted data is due",
            Reason::SpaceTarget => "the space target",
            Reason::Expired => "everything in it has expired",
            Reason::RangeDeleted => "everything in it is deleted",
            Reason::OverSize => "over the size limit",
            Reason::TooOld => "over the age limit",
            Reason::SmallRuns => "small runs beside each other",
            Reason::BlobGarbage => "garbage in blob files",
            Reason::Converge => "idle",
            Reason::Manual => "requested",
        })
    }
}

/// What is done with the inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanKind {
    /// The parts change their level; no byte is rewritten.
    Move,
    /// The inputs are merged into new tables.
    Merge,
    /// The parts are removed without replacement.
    Drop,
}

/// A part, or a slice of it, as input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputPart {
    /// The part.
    pub part: Arc<PartMeta>,
    /// The keys of it that are consumed; all if `None`.
    pub slice: Option<KeyRange>,
}

impl InputPart {
    /// All of a part.
    pub fn whole(part: Arc<PartMeta>) -> InputPart {
        InputPart { part, slice: None }
    }

    /// The overlap of a part with `range`; `None` if there is none.
    pub fn within(part: &Arc<PartMeta>, range: &KeyRange) -> Option<InputPart> {
        if range.covers(&part.range) {
            return Some(InputPart::whole(part.clone()));
        }
        let slice = part.range.intersection(range)?;
        Some(InputPart { part: part.clone(), slice: Some(slice) })
    }

    /// The keys that are consumed.
    pub fn range(&self) -> &KeyRange {
        self.slice.as_ref().unwrap_or(&self.part.range)
    }

    /// Whether everything of the part that lies in `range` is consumed.
    pub fn leaves_nothing_in(&self, range: &KeyRange) -> bool {
        let Some(slice) = &self.slice else { return true };
        self.part.range.intersection(range).is_none_or(|inside| slice.covers(&inside))
    }

    /// Bytes that are consumed, estimated for a slice.
    pub fn bytes(&self) -> u64 {
        match &self.slice {
            None => self.part.bytes,
            Some(slice) => {
                let share = self.part.range.share_inside(slice);
                (u128::from(self.part.bytes) * u128::from(share) / u128::from(esker_version::SHARE_ONE))
                    as u64
            }
        }
    }
}

/// Inputs from one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanInput {
    /// The level of the run.
    pub level: LevelIndex,
    /// The run.
    pub run: RunId,
    /// The run's order.
    pub order: u64,
    /// Its parts, in key order; never empty.
    pub parts: Vec<InputPart>,
}

impl PlanInput {
    /// The run's position in reading order.
    pub fn position(&self) -> RunPosition {
        RunPosition { level: self.level, order: self.order }
    }

    /// Its overlap with `range`; without parts if there is none.
    #[must_use]
    pub fn within(&self, range: &KeyRange) -> PlanInput {
        let parts = self.parts.iter().filter_map(|input| {
            if range.covers(input.range()) {
                return Some(input.clone());
            }
            let slice = input.range().intersection(range)?;
            Some(InputPart { part: Arc::clone(&input.part), slice: Some(slice) })
        });
        PlanInput { parts: parts.collect(), ..*self }
    }
}

/// A compaction planned by a strategy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionPlan {
    /// What is done with the inputs.
    pub kind: PlanKind,
    /// Its priority.
    pub class: Class,
    /// Why it was planned.
    pub reason: Reason,
    /// The inputs in reading order: earlier ones have newer versions.
    pub inputs: Vec<PlanInput>,
    /// From the first to the last key of the inputs.
    pub hull: KeyRange,
    /// Where the output goes.
    pub to: Position,
    /// Nothing older than the output overlaps the hull. A hint for codec and filter; whether a tombstone may
    /// be dropped is decided key by key from sequence numbers.
    pub bottom: bool,
    /// Where output tables end.
    pub cut: Cut,
    /// Whether output tables have filters: not if they are merged again at once.
    pub filter: bool,
    /// Bytes read, by estimate.
    pub est_in_bytes: u64,
    /// Upper bound of bytes written, by estimate.
    pub est_out_bytes: u64,
}

impl CompactionPlan {
    /// The position of the newest input.
    pub fn from(&self) -> RunPosition {
        let to = self.to.in_reading_order();
        self.inputs.iter().map(PlanInput::position).fold(to, RunPosition::min)
    }

    /// All input parts in reading order.
    pub fn parts(&self) -> impl Iterator<Item = (&PlanInput, &InputPart)> {
        self.inputs.iter().flat_map(|input| input.parts.iter().map(move |part| (input, part)))
    }

    /// Bytes read from above the last level.
    fn bytes_from_above(&self) -> u64 {
        let from_above = self.parts().filter(|(input, _)| !input.level.is_last());
        from_above.fold(0, |sum, (_, part)| sum.saturating_add(part.bytes()))
    }

    /// Bytes that enter the last level from above it.
    pub fn bytes_into_last(&self) -> u64 {
        if self.to.level().is_last() { self.bytes_from_above() } else { 0 }
    }

    /// Adds the removal of the inputs to an edit: whole parts are removed, sliced ones are replaced by the
    /// remainder, under ids from `next_part`. The remainder keeps the file, which still contains the data
    /// that the job deleted, so it records since when.
    pub fn remove_inputs(
        &self,
        keyspace: KeyspaceId,
        edit: &mut VersionEdit,
        mut next_part: impl FnMut() -> PartId,
    ) {
        let oldest_delete_ms = self.parts().filter_map(|(_, input)| input.part.oldest_delete_ms).min();
        for (input, consumed) in self.parts() {
            edit.remove_part(keyspace, input.level, input.run, &consumed.part);
            let Some(slice) = &consumed.slice else { continue };
            let place = Place { level: input.level, run: input.run, order: input.order };
            let (before, after) = consumed.part.range.without(slice);
            for rest in [before, after].into_iter().flatten() {
                if let Some(mut remains) = consumed.part.slice(next_part(), &rest) {
                    remains.oldest_delete_ms =
                        remains.oldest_delete_ms.into_iter().chain(oldest_delete_ms).min();
                    edit.add_part(keyspace, place, Arc::new(remains));
                }
            }
        }
    }

    /// The complete edit of a [`PlanKind::Move`] or [`PlanKind::Drop`]; `version` is the tree at the install.
    pub fn edit_without_output(
        &self,
        keyspace: KeyspaceId,
        version: &Version,
        new_run: RunId,
        next_part: impl FnMut() -> PartId,
    ) -> VersionEdit {
        let mut edit = VersionEdit::new();
        self.remove_inputs(keyspace, &mut edit, next_part);
        if self.kind == PlanKind::Move {
            let place = self.to.place(version, new_run);
            for (_, moved) in self.parts() {
                edit.add_part(keyspace, place, moved.part.clone());
            }
        }
        edit
    }

    /// Splits the hull into at most `pieces` ranges of about equal input bytes, for subcompactions that run
    /// in parallel. Bounds are keys of `anchors`, in any order, which lie in the inputs: each stands for the
    /// input bytes from its key up to the next anchor of the same table. Deterministic. O(n log n) for n
    /// anchors.
    ///
    /// The ranges follow each other and cover the hull; none is empty.
    pub fn split(&self, pieces: usize, mut anchors: Vec<Anchor>) -> Vec<KeyRange> {
        anchors.sort_unstable();
        let total: u128 = anchors.iter().map(|anchor| u128::from(anchor.bytes)).sum();
        let mut ranges = Vec::new();
        let mut start = self.hull.start.clone();
        let mut done = 0u128;
        for Anchor { key, bytes } in anchors {
            let wanted = total * (ranges.len() as u128 + 1) / pieces.max(1) as u128;
            if ranges.len() + 1 < pieces && done >= wanted && key > start && self.hull.contains(&key) {
                ranges.push(KeyRange { start, end: KeyEnd::Excluded(key.clone()) });
                start = key;
            }
            done += u128::from(bytes);
        }
        ranges.push(KeyRange { start, end: self.hull.end.clone() });
        ranges
    }
}

/// A key of an input table, and the bytes from it up to the table's next anchor.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Anchor {
    /// The key.
    pub key: Key,
    /// The bytes.
    pub bytes: u64,
}

impl fmt::Display for CompactionPlan {
    /// One line:
    /// `Merge L0 run 9, L0 run 8 (3 parts, 4096 bytes, [a..z]) to run 2 of Llast: level 0 has enough runs`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ", self.kind)?;
        for (at, input) in self.inputs.iter().enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            write!(f, "{comma}{} run {}", input.level, input.run)?;
        }
        let (parts, bytes) = (self.parts().count(), self.est_in_bytes);
        write!(f, " ({parts} parts, {bytes} bytes, {}) to {}: {}", self.hull, self.to, self.reason)
    }
}
