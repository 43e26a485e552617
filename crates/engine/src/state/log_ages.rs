//! The age of log segments and of the manifest, for delete-persistence targets.

use esker_base::{FileNumber, LogId, SeqNo};
use std::collections::BTreeMap;

/// When log segments were first seen by the compaction worker. Their contents were written after that.
#[derive(Debug, Default)]
pub struct LogAges {
    /// When each segment was first seen.
    pub since_ms: BTreeMap<LogId, u64>,
    /// The segment that was begun because of a target, and the last sequence number before it: it is empty as
    /// long as nothing was written since, and need not be left.
    pub begun: Option<(LogId, SeqNo)>,
    /// The present manifest, and since when.
    pub manifest: Option<(FileNumber, u64)>,
}

impl LogAges {
    /// Since when a segment exists; registers it if it is new.
    pub fn since_ms(&mut self, id: LogId, now_ms: u64) -> u64 {
        *self.since_ms.entry(id).or_insert(now_ms)
    }
}
