//! What a strategy sees of a tree.

use crate::migration::Migration;
use esker_base::{PartId, SeqNo};
use esker_version::{LevelIndex, PartMeta, Run, Version};
use std::sync::Arc;

/// A tree and the circumstances, as a strategy sees them. Nothing else goes into a decision: no clock, no
/// randomness, no floats, so that equal shapes give equal plans everywhere.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    /// The tree.
    pub version: &'a Version,
    /// What the oldest snapshot reads at; [`SeqNo::MAX`] if there is none.
    pub oldest_snapshot: SeqNo,
    /// The time, in milliseconds since 1970.
    pub now_ms: u64,
    /// Entries that expired up to this time are seen by no reader: the time of the oldest snapshot, else now;
    /// 0 if unknown.
    pub expired_ms: u64,
    /// Parts in which range deletes hide everything from every reader, ascending.
    pub hidden: &'a [PartId],
    /// How often parts were read lately, ascending by part; the unit does not matter. Parts that are not there were not read,
    /// or nobody counted.
    pub heat: &'a [(PartId, u64)],
    /// A change of strategy that is being worked through.
    pub migration: Option<Migration>,
    /// Whether there is nothing else to do.
    pub idle: bool,
}

impl<'a> Shape<'a> {
    /// A tree that nobody has a snapshot of, at time zero, not idle.
    pub fn new(version: &'a Version) -> Shape<'a> {
        Shape {
            version,
            oldest_snapshot: SeqNo::MAX,
            now_ms: 0,
            expired_ms: 0,
            hidden: &[],
            heat: &[],
            migration: None,
            idle: false,
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

    /// The run that the partitioned machinery takes for the last: the oldest of the last level.
    pub(crate) fn base(&self) -> Option<&'a Arc<Run>> {
        self.runs(LevelIndex::LAST).last()
    }

    /// Everything above [`Shape::base`], oldest run first.
    pub(crate) fn upper(&self) -> impl Iterator<Item = (LevelIndex, &'a Arc<Run>)> {
        let skip = usize::from(self.base().is_some());
        self.version.runs().rev().skip(skip)
    }

    pub(crate) fn heat_of(&self, part: &PartMeta) -> u64 {
        self.heat.binary_search_by_key(&part.id, |(id, _)| *id).map_or(0, |at| self.heat[at].1)
    }

    pub(crate) fn last_bytes(&self) -> u64 {
        self.version.level(LevelIndex::LAST).map_or(0, |last| last.bytes())
    }
}
