//! The numbers by which tables are known in the cache.
//!
//! A number has 32 bits, so that a bucket has room for a pointer to a value that knows its length. Counting
//! up alone would come round after four billion tables, within weeks for a process that keeps writing small
//! ones, and a block would be served for another table's. So numbers are used again, and what makes that
//! harmless is the order of three steps:
//!
//! 1. The owner of a number, a [`TableNumber`], is dropped: nobody can insert a block of its table any more.
//! 2. [`BlockCache::remove_departed`] removes what the cache still has of it.
//! 3. Only then the number may be given out again.
//!
//! So at no time do two tables' blocks lie under one number (BS5). As many numbers as tables exist at once,
//! or wait for the second step, are enough, and four billion of them would take more memory for their bare
//! names than any machine has; should it happen all the same, there is no number to be had, and the table
//! cannot be opened.
//!
//! # When it is worth a walk
//! Removing walks over all that the cache holds, because which blocks of a table are there is known to the
//! entries alone: 8 ms for a million of them, however few are removed. A cache of 64 GiB has sixteen million,
//! and a store that merges gives up tables every second. Nothing asks for the blocks of a table that is gone,
//! so they may as well wait, where they take room, and count as resident, until they are evicted like others.
//! [`BlockCache::is_worth_removing`] says that they have waited long enough: once the tables that are gone
//! may have a sixteenth of what is cached ([`DEPARTED_SHARE`]), a walk looks at sixteen entries or so for
//! each block that they had.
//!
//! Rejected: to ask for each block of a departed table by its key. Who inserts would have to be held to
//! numbers below what the table says it has, for a block that is forgotten under a number which another table
//! is given would be served as that table's; and each question is a cache miss, so that for what is mostly
//! resident the walk is cheaper.

use crate::cache::BlockCache;
use crate::entry::Charge;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What tables that are gone may have of the cache before it is worth a walk: one part in so many. If they
/// were cached as a whole, the walk costs an entry that it removes 128 ns, a thirtieth of what merging a
/// block of 4 KiB does; and evictions meet so little that is of no use that hits stay what they are.
const DEPARTED_SHARE: u64 = 16;

/// What a table counts for at least, so that numbers of tables without cached blocks come back as well: at
/// most a name of four bytes waits for each sixteen KiB of the cache.
const LEAST_BYTES: u64 = 1 << 10;

/// Which numbers are free.
#[derive(Debug)]
pub(crate) struct Numbers {
    /// Never given out so far, from here on. `u32::MAX` itself is not given out.
    next: u32,
    /// Given out before, and nothing of them is left.
    free: Vec<u32>,
    /// Their owners are gone; blocks may be left.
    departed: Vec<u32>,
    /// What these may have left, roughly.
    departed_bytes: u64,
}

impl Numbers {
    /// All numbers from `next` on are free.
    pub(crate) fn starting_at(next: u32) -> Numbers {
        Numbers { next, free: Vec::new(), departed: Vec::new(), departed_bytes: 0 }
    }

    fn take(&mut self) -> Option<u32> {
        // The one used last first: numbers stay small, and reuse is nothing that happens only after years.
        self.free.pop().or_else(|| {
            let after = self.next.checked_add(1)?;
            Some(std::mem::replace(&mut self.next, after))
        })
    }
}

/// The number of a table in a cache, for as long as somebody can insert blocks of it.
pub struct TableNumber<V: Charge + Clone> {
    cache: Arc<BlockCache<V>>,
    number: u32,
    /// What there may be to remove when the table is gone; an estimate, on which nothing depends but when
    /// that is done.
    bytes: AtomicU64,
}

impl<V: Charge + Clone> TableNumber<V> {
    /// The number, for [`crate::CacheKey::table`]. Whoever inserts with it keeps this value alive.
    pub fn get(&self) -> u32 {
        self.number
    }

    /// Says how many bytes of the table there may be in the cache: those of its blocks, uncompressed. The
    /// most that was said counts.
    pub fn expect_bytes(&self, bytes: u64) {
        self.bytes.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Says that so many bytes more of the table were put into the cache, by somebody who does not know how
    /// many there will be.
    pub fn expect_more_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The cache that gave it out.
    pub fn cache(&self) -> &Arc<BlockCache<V>> {
        &self.cache
    }
}

impl<V: Charge + Clone> Drop for TableNumber<V> {
    fn drop(&mut self) {
        let mut numbers = self.cache.numbers.lock();
        numbers.departed.push(self.number);
        numbers.departed_bytes =
            numbers.departed_bytes.saturating_add((*self.bytes.get_mut()).max(LEAST_BYTES));
    }
}

impl<V: Charge + Clone> fmt::Debug for TableNumber<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TableNumber").field(&self.number).finish()
    }
}

impl<V: Charge + Clone> BlockCache<V> {
    /// A number that no other table has, and under which the cache holds nothing. `None` if four billion
    /// tables have one.
    pub fn number_table(self: &Arc<Self>) -> Option<TableNumber<V>> {
        let number = self.numbers.lock().take()?;
        Some(TableNumber { cache: Arc::clone(self), number, bytes: AtomicU64::new(0) })
    }

    /// Whether tables are gone whose blocks may still be there.
    pub fn has_departed(&self) -> bool {
        !self.numbers.lock().departed.is_empty()
    }

    /// Whether tables are gone that may have as much of what is cached as is worth
    /// [`BlockCache::remove_departed`]: a sixteenth. Until then what is left of them takes room like other
    /// blocks, and nobody asks for it.
    pub fn is_worth_removing(&self) -> bool {
        let numbers = self.numbers.lock();
        let most_bytes = numbers.departed_bytes.saturating_mul(DEPARTED_SHARE);
        !numbers.departed.is_empty() && most_bytes >= self.used_bytes() as u64
    }

    /// Removes the blocks of all tables whose [`TableNumber`] was dropped and answers how many they were; the
    /// numbers may be given out again. Walks over all entries, which takes about 8 ms for a million of them,
    /// one shard's lock held at a time; does nothing if no table has gone.
    pub fn remove_departed(&self) -> usize {
        let mut departed = {
            let mut numbers = self.numbers.lock();
            numbers.departed_bytes = 0;
            std::mem::take(&mut numbers.departed)
        };
        if departed.is_empty() {
            return 0;
        }
        let count = self.remove_tables(&departed);
        self.numbers.lock().free.append(&mut departed);
        count
    }
}

#[cfg(test)]
mod tests;
