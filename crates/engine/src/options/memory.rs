//! How one memory budget is divided.
//!
//! The rule for the cold start: a quarter of the budget, at most 64 MiB of payload or four memtables of the
//! size asked for, for memtables; the log keeps at most as many bytes mapped as the memtables hold payload,
//! and two segments ahead; merge buffers are fixed; indexes and filters take what the open tables need, and
//! tables are closed when that is more than three quarters of what is left; the block cache gets the rest and
//! is resized whenever the rest changes. While memtables need little of their share it is lent to the cache
//! as well ([`crate::memory_arbiter`]).

use super::Options;

/// Memtables may hold this many payload bytes at most, whatever the budget: four of
/// [`MAX_WRITE_BUFFER_BYTES`]; or four of the largest that a keyspace asks for, so that these fill before all
/// memtables together have half of what they may have.
const MAX_MEMTABLES_BYTES: u64 = 64 << 20;
/// One memtable at most. Measured with 2 M entries of 16 and 100 bytes: buffers of 64 MiB were filled and
/// drained at half the rate, because their arenas are never used again within such a load and first touch of
/// fresh memory costs more than the insertions. Larger data may be worth larger buffers; the keyspace's
/// option says so.
const MAX_WRITE_BUFFER_BYTES: u64 = 16 << 20;
/// One active and three sealed memtables fit the memtables' share.
const MEMTABLES: u64 = 4;
/// Share of the memtables' share that they keep while it is lent: 1/8.
const KEPT_DIVISOR: u64 = 8;
/// Share of the budget that the block cache keeps even if tables' indexes and filters want everything: 1/16.
const CACHE_FLOOR_DIVISOR: u64 = 16;
/// Share of what memtables, log and merges leave that indexes and filters may take, as numerator and
/// denominator. A large one: a block that is not in memory costs one read, a table that is not open reads a
/// hundredth of its file.
const TABLES_SHARE: (u64, u64) = (3, 4);
/// Read-ahead, output and block buffers of one flush and one compaction.
const MERGE_BUFFERS_BYTES: u64 = 8 << 20;

/// The fixed shares of the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryPlan {
    /// The whole budget.
    pub(crate) budget_bytes: u64,
    /// Payload bytes that all memtables, active and sealed, may hold before writes wait.
    pub(crate) memtables_bytes: u64,
    /// Payload bytes at which a memtable is sealed.
    pub(crate) write_buffer_bytes: u64,
    /// Size of a log segment.
    pub(crate) wal_segment_bytes: u64,
    /// Log bytes kept mapped beyond which memtables that pin the oldest segment are flushed.
    pub(crate) wal_bytes: u64,
}

impl MemoryPlan {
    /// Divides the budget; `limit_bytes` is what machine or control group allow.
    pub(crate) fn new(options: &Options, limit_bytes: u64) -> MemoryPlan {
        let budget_bytes =
            options.memory_budget_bytes.unwrap_or(limit_bytes / 4).max(super::MIN_MEMORY_BUDGET_BYTES);
        let memtables_bytes = (budget_bytes / 4).min(MAX_MEMTABLES_BYTES);
        let write_buffer_bytes = (memtables_bytes / MEMTABLES).min(MAX_WRITE_BUFFER_BYTES);
        let wal_segment_bytes = options
            .wal_segment_bytes
            .unwrap_or_else(|| (write_buffer_bytes / 4).clamp(256 << 10, 16 << 20).next_multiple_of(4096));
        let plan =
            MemoryPlan { budget_bytes, memtables_bytes, write_buffer_bytes, wal_segment_bytes, wal_bytes: 0 };
        plan.for_buffers_of(options.keyspace.write_buffer_bytes.unwrap_or(0))
    }

    /// The same for keyspaces that ask for write buffers of up to `bytes`, as far as a quarter of the budget
    /// goes.
    pub(crate) fn for_buffers_of(self, bytes: u64) -> MemoryPlan {
        let wanted = bytes.saturating_mul(MEMTABLES).min(self.budget_bytes / 4);
        let memtables_bytes = self.memtables_bytes.max(wanted);
        MemoryPlan { memtables_bytes, wal_bytes: memtables_bytes + memtables_bytes / 2, ..self }
    }

    /// Released log segments kept for reuse: as many as the memtables' payload fills.
    pub(crate) fn kept_segments(&self) -> usize {
        usize::try_from(self.memtables_bytes / self.wal_segment_bytes).unwrap_or(usize::MAX).max(1)
    }

    /// What indexes and filters of open tables may take.
    pub(crate) fn table_metadata_bytes(&self) -> u64 {
        let (numerator, denominator) = TABLES_SHARE;
        let others = self.memtables_bytes + self.wal_bytes + self.merge_buffers_bytes();
        self.budget_bytes.saturating_sub(others) / denominator * numerator
    }

    /// What memtables keep at least of their share while it is lent to the block cache: an eighth, with room
    /// for two log segments.
    pub(crate) fn kept_bytes(&self) -> u64 {
        let least = self.wal_segment_bytes.saturating_mul(2);
        (self.memtables_bytes / KEPT_DIVISOR).max(least).min(self.memtables_bytes)
    }

    fn merge_buffers_bytes(&self) -> u64 {
        MERGE_BUFFERS_BYTES.min(self.budget_bytes / 8)
    }

    /// What the block cache may hold, given what memtables, log and table metadata hold at present.
    pub(crate) fn cache_bytes(&self, memtables_bytes: u64, wal_bytes: u64, tables_bytes: u64) -> u64 {
        let fixed = memtables_bytes + wal_bytes + tables_bytes + self.merge_buffers_bytes();
        self.budget_bytes.saturating_sub(fixed).max(self.budget_bytes / CACHE_FLOOR_DIVISOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_write_buffer_is_filled_before_memtables_are_sealed_for_want_of_memory() {
        let with_buffer = |bytes: u64| {
            let keyspace = crate::KeyspaceOptions::default().write_buffer_size(bytes);
            let options = Options::default().memory_budget(1 << 30).keyspace_options(keyspace);
            MemoryPlan::new(&options, 1 << 30)
        };
        assert_eq!(with_buffer(64 << 20).memtables_bytes, 256 << 20);
        assert_eq!(with_buffer(1 << 20).memtables_bytes, MAX_MEMTABLES_BYTES);
        assert_eq!(with_buffer(512 << 20).memtables_bytes, 256 << 20, "a quarter of the budget is the most");
        // Past half of their share memtables are sealed.
        assert!(with_buffer(64 << 20).memtables_bytes / 2 > 64 << 20);
        let usual = MemoryPlan::new(&Options::default().memory_budget(1 << 30), 1 << 30);
        assert_eq!(usual.for_buffers_of(64 << 20), with_buffer(64 << 20));
        assert_eq!(usual.for_buffers_of(1 << 20), usual);
    }

    #[test]
    fn shares_fit_the_budget() {
        for budget in [8u64 << 20, 64 << 20, 512 << 20, 6 << 30] {
            let plan = MemoryPlan::new(&Options::default().memory_budget(budget), 1 << 30);
            assert!(plan.write_buffer_bytes * MEMTABLES <= plan.memtables_bytes);
            let worst = plan.memtables_bytes + plan.wal_bytes;
            assert!(worst + plan.cache_bytes(plan.memtables_bytes, plan.wal_bytes, 0) <= budget, "{budget}");
            let tables = plan.table_metadata_bytes();
            let cache = plan.cache_bytes(plan.memtables_bytes, plan.wal_bytes, tables);
            assert!(
                worst + tables + cache <= budget && tables >= budget / 8,
                "{budget}: {tables} for tables"
            );
        }
    }
}
