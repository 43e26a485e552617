//! Counts of what a compaction dropped or changed, by rule.

use esker_base::SeqNo;

/// Counts of entries that were dropped or changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionIterStats {
    /// Versions dropped because a newer one hides them (rule 1).
    pub hidden: u64,
    /// Tombstones elided because nothing is left for them to hide (rule 2).
    pub tombstones: u64,
    /// Tombstones among the hidden versions: a newer version hides what they deleted outside of the inputs.
    pub hidden_deletes: u64,
    /// Versions kept, for a snapshot, under hidden tombstones.
    pub kept_deleted: u64,
    /// Entries whose sequence number became 0 (rule 3).
    pub zeroed: u64,
    /// Puts treated as deletes, and operands dropped, because they expired (rule 5).
    pub expired: u64,
    /// Operands not written because they were merged (rule 7).
    pub merged: u64,
    /// Keys whose operands stay because the operator could not merge them.
    pub unmergeable: u64,
    /// Puts that a filter changed or removed (rule 8).
    pub filtered: u64,
    /// The smallest sequence number among them.
    pub oldest_filtered: Option<SeqNo>,
    /// Puts for which a filter panicked.
    pub filter_failures: u64,
}
