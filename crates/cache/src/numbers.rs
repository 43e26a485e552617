//! Table numbers: 32-bit names of tables in cache keys, allocated and reused.
//!
//! A number has 32 bits, so that a bucket has room for a wide pointer. Counting up alone would wrap after
//! four billion tables, within weeks for a process that keeps writing small ones, and a block would be served
//! for another table's. So numbers are reused, in three steps:
//!
//! 1. The owner of a number, a [`TableNumber`], is dropped: no block of its table can be inserted any more.
//! 2. [`BlockCache::remove_dropped_tables`] removes the blocks that the cache still holds under it.
//! 3. Only then the number is allocated again.
//!
//! So two tables' blocks never lie under one number (BS5). If all numbers are in use or wait for the second
//! step, none is allocated and the table cannot be opened; four billion of them take more memory than any
//! machine has.
//!
//! # When removal is worth a walk
//! Removal walks over all entries, because only the entries know which blocks of a table are resident: 8 ms
//! for a million of them, however few are removed. A cache of 64 GiB has sixteen million, and merges drop
//! tables every second. No lookup probes for blocks of a dropped table, so they may stay, counted as
//! resident, until they are evicted like others. [`BlockCache::should_remove_dropped`] is true once dropped
//! tables may own a sixteenth of the cache ([`DROPPED_SHARE`]): then a walk visits sixteen entries or so for
//! each block that it removes.
//!
//! Rejected: to probe for each block of a dropped table by its key. Inserters would have to be held to
//! numbers below the table's count of blocks, since a block left under a number that is reused would be
//! served as the next table's; and each probe is a cache miss, so that the walk is cheaper where most blocks
//! are resident.

use crate::cache::BlockCache;
use crate::entry::Charge;
use esker_base::planted;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Dropped tables may own one part in so many of the cache before removal is worth a walk. If they were
/// cached as a whole, the walk costs 128 ns for each entry that it removes, a thirtieth of merging a block of
/// 4 KiB; and so few useless entries do not lower the hit rate.
const DROPPED_SHARE: u64 = 16;

/// Least bytes that a dropped table counts for, so that numbers of tables without cached blocks are reused as
/// well: at most one number of four bytes waits for each 16 KiB of the cache.
const MIN_COUNTED_BYTES: u64 = 1 << 10;

/// The number of a table in a cache, alive as long as blocks of the table can be inserted.
pub struct TableNumber<V: Charge + Clone> {
    cache: Arc<BlockCache<V>>,
    number: u32,
    /// Estimate of the table's bytes in the cache; decides only when dropped blocks are removed.
    bytes: AtomicU64,
}

impl<V: Charge + Clone> TableNumber<V> {
    /// The number, for [`crate::CacheKey::table`]. A caller that inserts with it keeps this value alive.
    pub fn get(&self) -> u32 {
        self.number
    }

    /// Notes that up to `bytes` of the table, uncompressed, may be cached. The greatest note counts.
    pub fn expect_bytes(&self, bytes: u64) {
        self.bytes.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Notes that `bytes` more of the table were inserted, for callers that do not know their sum beforehand.
    pub fn expect_more_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The cache that allocated it.
    pub fn cache(&self) -> &Arc<BlockCache<V>> {
        &self.cache
    }
}

impl<V: Charge + Clone> Drop for TableNumber<V> {
    fn drop(&mut self) {
        let mut numbers = self.cache.numbers.lock();
        if planted!(ReusesCacheNumber) {
            return numbers.free.push(self.number);
        }
        numbers.dropped.push(self.number);
        numbers.dropped_bytes =
            numbers.dropped_bytes.saturating_add((*self.bytes.get_mut()).max(MIN_COUNTED_BYTES));
    }
}

impl<V: Charge + Clone> fmt::Debug for TableNumber<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TableNumber").field(&self.number).finish()
    }
}

impl<V: Charge + Clone> BlockCache<V> {
    /// A number for a table of which nothing is cached. `None` if four billion tables have one.
    pub fn number_table(self: &Arc<Self>) -> Option<TableNumber<V>> {
        let number = self.numbers.lock().allocate()?;
        Some(TableNumber { cache: Arc::clone(self), number, bytes: AtomicU64::new(0) })
    }

    /// Whether tables were dropped whose blocks may still be resident.
    pub fn has_dropped_tables(&self) -> bool {
        !self.numbers.lock().dropped.is_empty()
    }

    /// Whether dropped tables may own a sixteenth: [`BlockCache::remove_dropped_tables`] is worth its walk.
    pub fn should_remove_dropped(&self) -> bool {
        let numbers = self.numbers.lock();
        let most_bytes = numbers.dropped_bytes.saturating_mul(DROPPED_SHARE);
        !numbers.dropped.is_empty() && most_bytes >= self.used_bytes() as u64
    }

    /// Removes the blocks of all tables whose [`TableNumber`] was dropped and returns their count; the
    /// numbers can then be reused. Walks over all entries, which takes about 8 ms for a million of them, one
    /// shard's lock held at a time; does nothing if no table was dropped.
    pub fn remove_dropped_tables(&self) -> usize {
        let mut dropped = {
            let mut numbers = self.numbers.lock();
            numbers.dropped_bytes = 0;
            std::mem::take(&mut numbers.dropped)
        };
        if dropped.is_empty() {
            return 0;
        }
        let count = self.remove_tables(&dropped);
        self.numbers.lock().free.append(&mut dropped);
        count
    }
}

#[cfg(test)]
mod tests;
