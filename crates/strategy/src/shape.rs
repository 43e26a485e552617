//! The inputs of planning: a tree and its circumstances.

use crate::migration::Migration;
use esker_base::{PartId, SeqNo};
use esker_version::{LevelIndex, PartMeta, Run, Version};
use std::sync::Arc;

/// The base: the oldest run of the last level, whose bytes are taken as the live data.
pub(crate) fn base_run(version: &Version) -> Option<&Arc<Run>> {
    version.runs_of(LevelIndex::LAST).last()
}

/// Everything above [`base_run`], oldest run first.
pub fn upper_runs(version: &Version) -> impl Iterator<Item = (LevelIndex, &Arc<Run>)> {
    // The base is last in reading order, because it is the oldest run of the last level.
    let skip = usize::from(base_run(version).is_some());
    version.runs().rev().skip(skip)
}

/// Bytes of [`base_run`]; zero without one.
pub fn base_bytes(version: &Version) -> u64 {
    base_run(version).map_or(0, |run| run.bytes())
}

/// Bytes of all runs above [`base_run`]; a slice counts its share. O(parts).
pub fn upper_bytes(version: &Version) -> u64 {
    let parts = upper_runs(version).flat_map(|(_, run)| run.parts());
    parts.fold(0, |sum, part| sum.saturating_add(part.effective_bytes()))
}

/// A tree and its circumstances, as a strategy sees them. Nothing else enters a decision: no clock, no
/// randomness, no floats, so that equal shapes give equal plans everywhere.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    /// The tree.
    pub version: &'a Version,
    /// The sequence number of the oldest snapshot; [`SeqNo::MAX`] without one.
    pub oldest_snapshot: SeqNo,
    /// The time, in milliseconds since 1970.
    pub now_ms: u64,
    /// Entries expired up to this time are visible to no reader: the oldest snapshot's time, else now; 0 if
    /// unknown.
    pub expired_ms: u64,
    /// Parts that range tombstones hide completely from every reader, ascending.
    pub hidden: &'a [PartId],
    /// Read heat of recently read parts, ascending by part, in an arbitrary unit.
    pub heat: &'a [(PartId, u64)],
    /// Overwrite ratio of a part: how much of it overwrites entries of older runs, in 1/1000 of its bytes,
    /// ascending by part; an upper bound. Missing parts are unknown and count in full.
    pub overwrite_ratios: &'a [(PartId, u32)],
    /// An unfinished change of strategy.
    pub migration: Option<Migration>,
    /// Whether the database is idle.
    pub idle: bool,
    /// Whether scans justify merging the runs above the last level before they are a tier.
    pub is_scanned: bool,
}

impl<'a> Shape<'a> {
    /// A tree without snapshots, at time zero, not idle.
    pub fn new(version: &'a Version) -> Shape<'a> {
        Shape {
            version,
            oldest_snapshot: SeqNo::MAX,
            now_ms: 0,
            expired_ms: 0,
            hidden: &[],
            heat: &[],
            overwrite_ratios: &[],
            migration: None,
            idle: false,
            is_scanned: false,
        }
    }

    /// The same, idle or not.
    #[must_use]
    pub fn with_idle(self, idle: bool) -> Shape<'a> {
        Shape { idle, ..self }
    }

    pub(crate) fn runs(&self, level: LevelIndex) -> &'a [Arc<Run>] {
        self.version.runs_of(level)
    }

    /// See [`base_run`].
    pub(crate) fn base(&self) -> Option<&'a Arc<Run>> {
        base_run(self.version)
    }

    /// See [`upper_runs`].
    pub(crate) fn upper(&self) -> impl Iterator<Item = (LevelIndex, &'a Arc<Run>)> {
        upper_runs(self.version)
    }

    pub(crate) fn heat_of(&self, part: &PartMeta) -> u64 {
        self.heat.binary_search_by_key(&part.id, |(id, _)| *id).map_or(0, |at| self.heat[at].1)
    }

    pub(crate) fn overwrite_permille(&self, part: &PartMeta) -> u64 {
        let known = self.overwrite_ratios.binary_search_by_key(&part.id, |(id, _)| *id);
        known.map_or(1000, |at| u64::from(self.overwrite_ratios[at].1))
    }

    pub(crate) fn last_bytes(&self) -> u64 {
        self.version.level(LevelIndex::LAST).map_or(0, |last| last.bytes())
    }
}
