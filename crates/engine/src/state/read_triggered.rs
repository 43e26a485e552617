//! Read-triggered compaction: small runs above the last level that scans seek in are merged early.
//!
//! A seek costs about the same in a small run as in a large one. A tree that was just written to has a few
//! small runs, and no strategy merges them before they are a tier. So each scan adds [`RUN_BYTES`] to a
//! budget of its keyspace for every run above the last level but one, and once the budget covers all that
//! these runs hold, the strategy may merge them (`Shape::is_scanned`). This is the rule for ski rental: a
//! merge costs no more than the seeks before it, so both together cost at most twice the optimum.
//!
//! Scans that meet one run or none add as much as for one run too many: workloads alternate, and what writes
//! bring is then merged before the next scans. At least [`UNREAD_RUNS`] runs are merged on such a budget; two
//! runs suffice once a scan has come since the tree changed.
//!
//! # Invariants
//! * RG1. Read-triggered merges read no more bytes than scans have added to the budget, which never exceeds
//!   [`BUDGET_BYTES`]. A keyspace without scans has none.
//! * RG2. They never write to the last level: few scans justify reading it, and each memtable of new keys
//!   would cause it again.
//!
//! Lookups add nothing: a run without their key costs a filter probe, a tenth of a seek.

use parking_lot::Mutex;

/// What a scan adds for one run: seeking in a small run takes a quarter of a microsecond, in which two
/// background threads merge about this many bytes.
const RUN_BYTES: u64 = 512;

/// The most that scans add in advance: what 131,072 scans add for one run.
const BUDGET_BYTES: u64 = 64 << 20;

/// The fewest runs that are merged before a scan has read them: half a tier.
const UNREAD_RUNS: u64 = 4;

/// The budget of one keyspace for read-triggered compaction.
#[derive(Debug, Default)]
pub struct ReadTrigger(Mutex<Budget>);

#[derive(Debug, Default)]
struct Budget {
    /// Scans that are included.
    scans: u64,
    /// Whether a scan has come since the tree changed.
    is_scanned: bool,
    /// Runs above the last level, and their bytes.
    runs: u64,
    runs_bytes: u64,
    bytes: u64,
}

impl Budget {
    /// Includes the scans since the last call, which have read the present runs.
    fn include(&mut self, scans: u64) {
        let new = scans.saturating_sub(self.scans);
        self.scans = self.scans.max(scans);
        self.is_scanned |= new > 0;
        let added = new.saturating_mul(self.runs.saturating_sub(1).max(1)).saturating_mul(RUN_BYTES);
        self.bytes = self.bytes.saturating_add(added).min(BUDGET_BYTES);
    }
}

impl ReadTrigger {
    /// Counts scans from `scans` on, which earlier opens of the database have counted.
    pub fn begin_at(&self, scans: u64) {
        self.0.lock().scans = scans;
    }

    /// The tree has changed after `scans` scans: `runs` runs of `runs_bytes` lie above its last level.
    /// Whether further scans can trigger a merge.
    pub fn note_shape(&self, scans: u64, runs: u64, runs_bytes: u64) -> bool {
        let mut budget = self.0.lock();
        budget.include(scans);
        (budget.runs, budget.runs_bytes, budget.is_scanned) = (runs, runs_bytes, false);
        runs > 1 && runs_bytes <= BUDGET_BYTES
    }

    /// Whether `scans` scans justify merging all runs above the last level.
    pub fn is_due(&self, scans: u64) -> bool {
        let mut budget = self.0.lock();
        budget.include(scans);
        let has_runs = budget.runs >= UNREAD_RUNS || (budget.runs > 1 && budget.is_scanned);
        has_runs && budget.bytes >= budget.runs_bytes
    }

    /// Charges a merge that reads `bytes`.
    pub fn spend(&self, bytes: u64) {
        let mut budget = self.0.lock();
        budget.bytes = budget.bytes.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::{BUDGET_BYTES, ReadTrigger, UNREAD_RUNS};

    const MIB: u64 = 1 << 20;
    /// Scans that add a mebibyte for each run too many.
    const SCANS: u64 = MIB / super::RUN_BYTES;

    /// RG1.
    #[test]
    fn merges_are_due_when_scans_have_added_what_they_read() {
        let trigger = ReadTrigger::default();
        assert!(trigger.note_shape(0, 3, 8 * MIB));
        assert!(!trigger.is_due(4 * SCANS - 1) && trigger.is_due(4 * SCANS));
        trigger.spend(8 * MIB);
        assert!(
            !trigger.note_shape(4 * SCANS, 1, 8 * MIB) && !trigger.is_due(5 * SCANS),
            "one run is the end"
        );
        assert!(trigger.note_shape(5 * SCANS, 2, 2 * MIB));
        assert!(!trigger.is_due(5 * SCANS + 1) && trigger.is_due(6 * SCANS), "one mebibyte was left");
    }

    #[test]
    fn earlier_scans_suffice_for_half_a_tier_and_never_for_more_than_the_limit() {
        let trigger = ReadTrigger::default();
        assert!(!trigger.note_shape(0, 0, 0));
        trigger.note_shape(20 * SCANS, UNREAD_RUNS - 1, 10 * MIB);
        assert!(!trigger.is_due(20 * SCANS), "no scan has read these");
        assert!(trigger.is_due(20 * SCANS + 1));
        trigger.note_shape(20 * SCANS + 1, UNREAD_RUNS, 10 * MIB);
        assert!(trigger.is_due(20 * SCANS + 1));
        assert!(!trigger.note_shape(u64::MAX, 9, BUDGET_BYTES + 1) && !trigger.is_due(u64::MAX));
    }

    #[test]
    fn nothing_is_due_without_scans() {
        let trigger = ReadTrigger::default();
        for runs in 0..10 {
            trigger.note_shape(0, runs, runs);
            assert!(!trigger.is_due(0));
        }
    }
}
