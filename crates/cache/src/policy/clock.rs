//! CLOCK (Corbató 1968): a hand goes round over the buckets of a hash table, takes a chance from each entry
//! that has one and evicts the first that has none.
//!
//! A hit touches one bucket, and writes to it only if the entry lacks a chance. An eviction takes amortized
//! constant time. Each entry costs one bucket of 32 bytes, in a table that is three eighths to three quarters
//! full.
//!
//! This is the only policy that reads the reference bits of shortcuts ([`Charge::take_use`]).

use super::table::Table;
use super::{Entry, ShouldRemove};
use crate::entry::{BlockKind, CacheKey, Charge};

/// Rounds in which reference bits count: every entry can have been used before, and once more.
const ROUNDS_WITH_SHORTCUTS: usize = 2 + MOST_CHANCES;

/// Buckets ahead of the hand whose values are prefetched: with uniform use the next victim is within so many.
const BUCKETS_AHEAD: usize = 8;

const MOST_CHANCES: usize = BlockKind::Index.most_chances() as usize;

#[derive(Debug)]
pub(crate) struct ClockPolicy<V> {
    table: Table<V>,
    hand: usize,
    scan_hand: usize,
    scanned_bytes: usize,
}

impl<V: Charge + Clone> ClockPolicy<V> {
    pub(super) fn new() -> ClockPolicy<V> {
        ClockPolicy { table: Table::new(), hand: 0, scan_hand: 0, scanned_bytes: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn scanned_bytes(&self) -> usize {
        self.scanned_bytes
    }

    /// A lookup; one that counts as a use gives the entry a chance.
    #[inline]
    pub(super) fn get(&mut self, hash: u64, key: &CacheKey, is_use: bool) -> Option<V> {
        let entry = self.table.find_mut(hash, key)?;
        if is_use {
            // Stored only if it changes, so that a hot entry's line stays clean.
            if entry.chances < entry.kind.most_chances() {
                entry.chances += 1;
            }
            if entry.scanned {
                entry.scanned = false;
                self.scanned_bytes -= entry.charge as usize;
            }
        }
        Some(entry.value.clone())
    }

    pub(super) fn prefetch(&self, hash: u64) {
        // Clusters seldom end later.
        self.table.prefetch(hash as usize, 4);
        self.table.prefetch(self.hand, BUCKETS_AHEAD);
    }

    pub(super) fn prefetch_victims(&self) {
        let mask = self.table.bucket_count() - 1;
        let ahead = (0..BUCKETS_AHEAD).filter_map(|step| self.table.at((self.hand + step) & mask));
        ahead.for_each(|entry| entry.value.prefetch());
    }

    pub(super) fn resident(&mut self, hash: u64, key: &CacheKey) -> Option<&Entry<V>> {
        self.table.find_mut(hash, key).map(|entry| &*entry)
    }

    pub(super) fn insert(&mut self, hash: u64, entry: Entry<V>) {
        if entry.scanned {
            self.scanned_bytes += entry.charge as usize;
        }
        self.table.insert(hash, entry);
    }

    /// Evicts by the clock; `None` if the shard is empty.
    ///
    /// An entry whose reference bit is set gains a chance, up to [`BlockKind::most_chances`]; any other loses
    /// one. So entries used in several rounds outlive those used in one. Each chance lost was gained by a
    /// use, so the cost is amortized constant. At worst every entry has all its chances and one call walks
    /// round as many times. Reference bits are read only in the first rounds, since uses may go on while the
    /// hand moves.
    pub(super) fn evict(&mut self) -> Option<Entry<V>> {
        if self.table.len() == 0 {
            return None;
        }
        let mask = self.table.bucket_count() - 1;
        let mut bucket = self.hand & mask;
        let mut rounds_left = ROUNDS_WITH_SHORTCUTS * (mask + 1);
        loop {
            match self.table.at_mut(bucket) {
                Some(entry) if rounds_left > 0 && entry.value.take_use() => {
                    entry.chances = (entry.chances + 1).min(entry.kind.most_chances());
                }
                Some(entry) if entry.chances == 0 => break,
                Some(entry) => entry.chances -= 1,
                None => {}
            }
            bucket = (bucket + 1) & mask;
            rounds_left = rounds_left.saturating_sub(1);
        }
        // The hand stays: removing may have moved another entry here.
        self.hand = bucket;
        self.remove_at(bucket)
    }

    /// Evicts a block that a scan inserted and no lookup used since; `None` if there is none.
    ///
    /// Called when such blocks have used up their share, so they are frequent and one is soon found. No
    /// chance of any other entry is touched.
    pub(super) fn evict_scanned(&mut self) -> Option<Entry<V>> {
        if self.scanned_bytes == 0 {
            return None;
        }
        let mask = self.table.bucket_count() - 1;
        let first = self.scan_hand & mask;
        for bucket in (0..=mask).map(|step| (first + step) & mask) {
            let Some(entry) = self.table.at_mut(bucket).filter(|entry| entry.scanned) else { continue };
            if entry.value.take_use() {
                // A lookup used it by a shortcut: it is an ordinary block now.
                entry.scanned = false;
                entry.chances = entry.kind.initial_chances();
                self.scanned_bytes -= entry.charge as usize;
                continue;
            }
            self.scan_hand = bucket;
            return self.remove_at(bucket);
        }
        None
    }

    fn remove_at(&mut self, bucket: usize) -> Option<Entry<V>> {
        let entry = self.table.remove_at(bucket)?;
        if entry.scanned {
            self.scanned_bytes -= entry.charge as usize;
        }
        Some(entry)
    }

    pub(super) fn remove_where(
        &mut self,
        should_remove: &mut ShouldRemove<'_, V>,
        removed: &mut Vec<Entry<V>>,
    ) {
        // Closing a gap moves entries from unvisited buckets here or later, or to the end, visited again.
        let mut bucket = 0;
        while bucket < self.table.bucket_count() {
            let doomed = self.table.at(bucket).is_some_and(&mut *should_remove);
            match doomed.then(|| self.remove_at(bucket)).flatten() {
                Some(entry) => removed.push(entry),
                None => bucket += 1,
            }
        }
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.table.shrink_to_fit();
    }

    #[cfg(test)]
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry<V>> {
        (0..self.table.bucket_count()).filter_map(|bucket| self.table.at(bucket))
    }
}
