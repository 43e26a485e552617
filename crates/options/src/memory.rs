//! The division of the memory budget.
//!
//! The rule at the start: a quarter of the budget, at most 64 MiB of payload or four memtables of the
//! configured size, for memtables; the log keeps at most as many bytes mapped as the memtables hold payload,
//! and two segments ahead; merge buffers are fixed; indexes and filters take what the open tables need, and
//! tables are closed when that is more than three quarters of the rest; the block cache gets the remainder
//! and is resized whenever that changes. While memtables need little of their share it is lent to the cache
//! and to open tables as well (the memory arbiter of the engine).
//!
//! A block cache of a fixed size is taken off the budget first, and the same rule divides the rest, all of
//! whose remainder is then for indexes and filters.

use super::Options;

/// The most payload bytes of memtables, whatever the budget: four of [`MAX_WRITE_BUFFER_BYTES`]; or four of
/// the largest configured write buffer, so that these fill before all memtables together reach half of their
/// limit.
const MAX_MEMTABLES_BYTES: u64 = 64 << 20;
/// The most of one memtable by default. With 2 M entries of 16 and 100 bytes, buffers of 64 MiB were filled
/// and drained at half the rate, because their arenas are never reused within such a load and first touch of
/// fresh memory costs more than the insertions. Larger data may be worth larger buffers, set by the
/// keyspace's option.
const MAX_WRITE_BUFFER_BYTES: u64 = 16 << 20;
/// One active and three sealed memtables fit the memtables' share.
const MEMTABLES: u64 = 4;
/// The least part of the memtables' share that they keep while it is lent: 1/8.
const KEPT_DIVISOR: u64 = 8;
/// The least share of the budget for the block cache, whatever indexes and filters need: 1/16.
const CACHE_FLOOR_DIVISOR: u64 = 16;
/// Memory beside the cache's blocks that counts as the cache's, as a part of these: at most 1/4. Evicted
/// blocks leave gaps between others, which return nothing to the system until whole pages are free: without
/// a limit each eviction would ask for the next.
const IDLE_BLOCKS_DIVISOR: u64 = 4;
/// Share of the budget, after memtables, log and merges, for indexes and filters, as numerator and
/// denominator. A large one: a block that is not in memory costs one read, a table that is not open reads a
/// hundredth of its file.
const TABLES_SHARE: (u64, u64) = (3, 4);
/// The limit of flushed memtables that only readers hold: 1/16. Enough for the cursors of short scans, so
/// that these write no files; what is held counts like any memtable.
const PINNED_DIVISOR: u64 = 16;
/// Read-ahead, output and block buffers of one flush and one compaction.
const MERGE_BUFFERS_BYTES: u64 = 8 << 20;

/// The fixed shares of the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPlan {
    /// The whole budget.
    pub budget_bytes: u64,
    /// The size of the block cache, if it is fixed.
    pub fixed_cache_bytes: Option<u64>,
    /// Payload bytes that all memtables, active and sealed, may hold before writes wait.
    pub memtables_bytes: u64,
    /// Payload bytes at which a memtable is sealed.
    pub write_buffer_bytes: u64,
    /// Size of a log segment.
    pub wal_segment_bytes: u64,
    /// Mapped log bytes beyond which memtables that pin the oldest segment are flushed.
    pub wal_bytes: u64,
}

impl MemoryPlan {
    /// Divides the budget; `limit_bytes` is the limit of the machine or control group.
    pub fn new(options: &Options, limit_bytes: u64) -> MemoryPlan {
        let fixed_cache_bytes = options.cache_bytes;
        let least_bytes = fixed_cache_bytes.unwrap_or(0).saturating_add(super::MIN_MEMORY_BUDGET_BYTES);
        let budget_bytes = options.memory_budget_bytes.unwrap_or(limit_bytes / 4).max(least_bytes);
        let divided_bytes = budget_bytes - fixed_cache_bytes.unwrap_or(0).min(budget_bytes);
        let memtables_bytes = (divided_bytes / 4).min(MAX_MEMTABLES_BYTES);
        let write_buffer_bytes = (memtables_bytes / MEMTABLES).min(MAX_WRITE_BUFFER_BYTES);
        let wal_segment_bytes = options
            .wal_segment_bytes
            .unwrap_or_else(|| (write_buffer_bytes / 4).clamp(256 << 10, 16 << 20).next_multiple_of(4096));
        let plan = MemoryPlan {
            budget_bytes,
            fixed_cache_bytes,
            memtables_bytes,
            write_buffer_bytes,
            wal_segment_bytes,
            wal_bytes: 0,
        };
        plan.for_buffers_of(options.keyspace.write_buffer_bytes.unwrap_or(0))
    }

    /// The part of the budget that the rule divides: all but a cache of a fixed size.
    fn divided_bytes(&self) -> u64 {
        self.budget_bytes.saturating_sub(self.fixed_cache_bytes.unwrap_or(0))
    }

    /// The same for keyspaces with write buffers of up to `bytes`, within a quarter of the budget.
    pub fn for_buffers_of(self, bytes: u64) -> MemoryPlan {
        let wanted = bytes.saturating_mul(MEMTABLES).min(self.divided_bytes() / 4);
        let memtables_bytes = self.memtables_bytes.max(wanted);
        MemoryPlan { memtables_bytes, wal_bytes: memtables_bytes + memtables_bytes / 2, ..self }
    }

    /// Released log segments kept for reuse: as many as the memtables' payload fills.
    pub fn kept_segments(&self) -> usize {
        usize::try_from(self.memtables_bytes / self.wal_segment_bytes).unwrap_or(usize::MAX).max(1)
    }

    /// The limit of indexes and filters of open tables that holds at all times.
    pub fn table_metadata_bytes(&self) -> u64 {
        self.table_metadata_bytes_beside(self.memtables_bytes, self.wal_bytes)
    }

    /// The limit of indexes and filters of open tables while memtables and log have so much memory.
    pub fn table_metadata_bytes_beside(&self, memtables_bytes: u64, wal_bytes: u64) -> u64 {
        let others = memtables_bytes + wal_bytes + self.merge_buffers_bytes();
        let rest = self.divided_bytes().saturating_sub(others);
        let (numerator, denominator) = TABLES_SHARE;
        if self.fixed_cache_bytes.is_some() { rest } else { rest / denominator * numerator }
    }

    /// The part of the memtables' share that is kept while it is lent to the block cache: at least an eighth,
    /// with room for two log segments.
    pub fn kept_bytes(&self) -> u64 {
        let least = self.wal_segment_bytes.saturating_mul(2);
        (self.memtables_bytes / KEPT_DIVISOR).max(least).min(self.memtables_bytes)
    }

    /// Touched memory of arenas to keep for the next memtables, while memtables hold `held_bytes`: both
    /// together half as much again as the payload that may be in memtables, which is what entries of a
    /// hundred bytes need around them; and a write buffer in any case, since first touch of fresh memory is
    /// slow.
    pub fn idle_arenas_bytes(&self, held_bytes: u64) -> u64 {
        let both = self.memtables_bytes + self.memtables_bytes / 2;
        both.saturating_sub(held_bytes)
            .clamp(self.write_buffer_bytes, self.memtables_bytes.max(self.write_buffer_bytes))
    }

    /// The limit of flushed memtables in memory that only readers hold.
    pub fn pinned_bytes(&self) -> u64 {
        self.budget_bytes / PINNED_DIVISOR
    }

    /// The part that is kept for the buffers of flushes and merges, however little they hold.
    pub fn merge_buffers_bytes(&self) -> u64 {
        MERGE_BUFFERS_BYTES.min(self.divided_bytes() / 8)
    }

    /// What the cache has to leave of the budget for `idle_bytes` of memory between and beside its
    /// `block_bytes`.
    pub fn idle_blocks_bytes(&self, idle_bytes: u64, block_bytes: u64) -> u64 {
        idle_bytes.min(block_bytes / IDLE_BLOCKS_DIVISOR)
    }

    /// The capacity of the block cache, given the present memory of memtables, log and table metadata.
    pub fn cache_bytes(&self, memtables_bytes: u64, wal_bytes: u64, tables_bytes: u64) -> u64 {
        if let Some(bytes) = self.fixed_cache_bytes {
            return bytes;
        }
        let fixed = memtables_bytes + wal_bytes + tables_bytes + self.merge_buffers_bytes();
        self.budget_bytes.saturating_sub(fixed).max(self.budget_bytes / CACHE_FLOOR_DIVISOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_write_buffer_fills_before_memtables_are_sealed_for_lack_of_memory() {
        let with_buffer = |bytes: u64| {
            let keyspace = crate::KeyspaceOptions::default().write_buffer_size(bytes);
            let options = Options::default().memory_budget(1 << 30).keyspace_options(keyspace);
            MemoryPlan::new(&options, 1 << 30)
        };
        assert_eq!(with_buffer(64 << 20).memtables_bytes, 256 << 20);
        assert_eq!(with_buffer(1 << 20).memtables_bytes, MAX_MEMTABLES_BYTES);
        assert_eq!(with_buffer(512 << 20).memtables_bytes, 256 << 20, "a quarter of the budget is the most");
        // Memtables are sealed past half of their share.
        assert!(with_buffer(64 << 20).memtables_bytes / 2 > 64 << 20);
        let usual = MemoryPlan::new(&Options::default().memory_budget(1 << 30), 1 << 30);
        assert_eq!(usual.for_buffers_of(64 << 20), with_buffer(64 << 20));
        assert_eq!(usual.for_buffers_of(1 << 20), usual);
    }

    #[test]
    fn a_cache_of_a_fixed_size_has_it_whatever_others_hold_and_all_fit_the_budget() {
        for (budget, cache) in [(18u64 << 20, 10u64 << 20), (64 << 20, 0), (1 << 30, 600 << 20)] {
            let options = Options::default().memory_budget(budget).cache_size(cache);
            options.validate().unwrap();
            for plan in [
                MemoryPlan::new(&options, 1 << 30),
                MemoryPlan::new(&options, 1 << 30).for_buffers_of(8 << 20),
            ] {
                let tables = plan.table_metadata_bytes();
                assert_eq!(plan.cache_bytes(0, 0, 0), cache);
                assert_eq!(plan.cache_bytes(plan.memtables_bytes, plan.wal_bytes, tables), cache);
                let all = plan.memtables_bytes + plan.wal_bytes + plan.merge_buffers_bytes() + tables + cache;
                assert!(
                    all <= budget && tables >= (budget - cache) / 8,
                    "{budget}, {cache}: {all}, {tables}"
                );
            }
        }
        // A budget that nothing but the machine gives grows around the cache.
        let plan = MemoryPlan::new(&Options::default().cache_size(1 << 30), 1 << 30);
        assert_eq!(plan.budget_bytes, (1 << 30) + crate::MIN_MEMORY_BUDGET_BYTES);
        assert_eq!(plan.cache_bytes(0, 0, 0), 1 << 30);
        // A cache of nothing is a size as well.
        let none = Options::default().set("cache_size", "0").unwrap();
        assert_eq!(MemoryPlan::new(&none, 1 << 30).cache_bytes(0, 0, 0), 0);
        assert_eq!(none.set("cache_size", "auto").unwrap().cache_bytes, None);
        // A chosen budget does not.
        let refused = Options::default().memory_budget(16 << 20).cache_size(10 << 20).validate().unwrap_err();
        assert!(refused.to_string().contains("cache_size is 10485760 bytes"), "{refused}");
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
