//! S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi 2023), by the crate `quick_cache`: new entries go through a small
//! queue. Those used there move to a large queue with second chances; the others are evicted and leave a
//! *ghost entry*, their key alone. A block that is loaded while its ghost entry is present enters the large
//! queue at once.
//!
//! # The library chooses what is evicted, the cache chooses when
//! `quick_cache` evicts when its own budget is used up. That would break this cache's guarantees: the library
//! divides its budget evenly among its shards, so it refuses an entry larger than a shard's part silently;
//! and it cannot share a budget with scans' blocks and with other shards. So each shard here has one unshared
//! `unsync::Cache`, whose budget follows what is resident:
//!
//! * To insert, it is raised to what is resident and the new entry; nothing is evicted, and nothing is too
//!   large.
//! * To evict, it is lowered to one less than what is resident; what the library then evicts is returned, at
//!   times several entries.
//!
//! So the library's budget is always what the shard holds when it is full, and its queues divide that as they
//! should. Two details make it hold for long:
//!
//! * Each change scales the library's targets and rounds them down. Weights are counted in units of 2^-16
//!   bytes, so that a million changes lose a dozen bytes.
//! * The number of ghost entries is scaled as well, and would soon be rounded to nothing. So the library may
//!   keep far more than can exist, and they are counted here: half as many as entries, which is the library's
//!   own proportion. Older ones are removed from it.
//!
//! Blocks that serve whole tables are marked as used twice when they enter, which takes them to the large
//! queue. The library evicts from there only when other entries are promoted, so there they can stay long
//! without being used. The library does not see scans' blocks: they wait in a list of their own, are evicted
//! first, and enter when a lookup uses them.

use super::lists::{self, Lists};
use super::{Entry, ShouldRemove};
use crate::entry::{BlockKind, CacheKey};
use foldhash::fast::FixedState;
use parking_lot::Mutex;
use quick_cache::unsync::Cache;
use quick_cache::{Lifecycle, OptionsBuilder, Weighter};
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of an entry: its place in the library's array of 72 bytes, and half a place for a ghost entry, in an
/// array that doubles; the same in its index of five bytes, which may be filled to 7/16; a key in a queue
/// that doubles. A scan's block takes less.
pub(super) const OVERHEAD_BYTES: usize = {
    let in_library = 2 * (72 + 36) + (5 + 3) * 16 / 7 + 2 * 4;
    let in_list = lists::overhead_bytes::<()>();
    if in_library > in_list { in_library } else { in_list }
};

/// Weight of a byte.
const UNITS: u64 = 1 << 16;

/// Ghost entries for each entry: the library's own half.
const GHOSTS_FOR_ENTRIES: (usize, usize) = (1, 2);

/// Ghost entries that are kept however few entries there are.
const MIN_GHOSTS: usize = 16;

/// Uses credited to a block that serves a whole table: the most that the library counts.
const INITIAL_USES: usize = 2;

/// The library's budget at creation, for one ghost entry a unit; lowered to an empty cache's at once.
const FIRST_BUDGET: u64 = UNITS << 32;

#[derive(Clone, Debug)]
struct ByCharge;

impl<V> Weighter<CacheKey, Entry<V>> for ByCharge {
    fn weight(&self, _key: &CacheKey, entry: &Entry<V>) -> u64 {
        u64::from(entry.charge) * UNITS
    }
}

/// Collects what the library evicts, and the keys of new ghost entries.
#[derive(Debug)]
struct EvictionListener<V>(Arc<Mutex<Collected<V>>>);

#[derive(Debug)]
struct Collected<V> {
    evicted: Vec<Entry<V>>,
    ghosts: VecDeque<CacheKey>,
}

impl<V> Lifecycle<CacheKey, Entry<V>> for EvictionListener<V> {
    type RequestState = ();

    fn on_evict_cold(&self, _state: &mut (), key: CacheKey, entry: Entry<V>) {
        let mut collected = self.0.lock();
        collected.ghosts.push_back(key);
        collected.evicted.push(entry);
    }

    fn on_evict_hot(&self, _state: &mut (), _key: CacheKey, entry: Entry<V>) {
        self.0.lock().evicted.push(entry);
    }
}

pub(crate) struct S3FifoPolicy<V> {
    library: Cache<CacheKey, Entry<V>, ByCharge, FixedState, EvictionListener<V>>,
    /// Shared with the library. Never contended: both are reached under the shard's lock only.
    collected: Arc<Mutex<Collected<V>>>,
    /// Scans' blocks, oldest first.
    scanned: Lists<V, ()>,
}

impl<V: Clone> S3FifoPolicy<V> {
    pub(super) fn new() -> S3FifoPolicy<V> {
        let collected = Arc::new(Mutex::new(Collected { evicted: Vec::new(), ghosts: VecDeque::new() }));
        // Space for a ghost entry in each unit of weight: more than can exist, whatever the rounding.
        let options = OptionsBuilder::new()
            .weight_capacity(FIRST_BUDGET)
            .estimated_items_capacity(FIRST_BUDGET as usize)
            .ghost_allocation(1.0)
            .build()
            .expect("all that is needed was given");
        let listener = EvictionListener(Arc::clone(&collected));
        let mut library = Cache::with_options(options, ByCharge, FixedState::default(), listener);
        library.set_capacity(UNITS);
        S3FifoPolicy { library, collected, scanned: Lists::new(1) }
    }

    pub(super) fn len(&self) -> usize {
        self.library.len() + self.scanned.len()
    }

    pub(super) fn scanned_bytes(&self) -> usize {
        self.scanned.scanned_bytes()
    }

    pub(super) fn get(&mut self, _hash: u64, key: &CacheKey, is_use: bool) -> Option<V> {
        if self.scanned.len() > 0
            && let Some(place) = self.scanned.find(key)
        {
            let value = self.scanned.entry(place).value.clone();
            if is_use {
                let mut entry = self.scanned.remove(0, place);
                entry.scanned = false;
                self.insert_ordinary(entry);
            }
            return Some(value);
        }
        let found = if is_use { self.library.get(key) } else { self.library.peek(key) };
        found.map(|entry| entry.value.clone())
    }

    pub(super) fn resident(&mut self, _hash: u64, key: &CacheKey) -> Option<&Entry<V>> {
        let scanned = self.scanned.find(key).map(|place| self.scanned.entry(place));
        scanned.or_else(|| self.library.peek(key))
    }

    pub(super) fn insert(&mut self, _hash: u64, entry: Entry<V>) {
        if entry.scanned {
            self.scanned.insert(0, entry, ());
        } else {
            self.insert_ordinary(entry);
        }
    }

    fn insert_ordinary(&mut self, entry: Entry<V>) {
        let (key, kind) = (entry.key, entry.kind);
        let weight = ByCharge.weight(&key, &entry);
        // The library refuses what is larger than its target for the large queue, 97 % of its budget.
        let wanted = (self.library.weight() + weight).max(weight + weight / 16);
        if wanted > self.library.capacity() {
            self.library.set_capacity(wanted);
        }
        self.library.insert(key, entry);
        debug_assert!(self.collected.lock().evicted.is_empty(), "there was room");
        if kind != BlockKind::Data {
            (0..INITIAL_USES).for_each(|_| _ = self.library.get(&key));
        }
    }

    /// Evicts what the library chooses: several entries if a promoted one displaces smaller ones.
    pub(super) fn evict(&mut self, evicted: &mut Vec<Entry<V>>) {
        if let Some(entry) = self.evict_scanned() {
            evicted.push(entry);
        } else if self.library.weight() > 0 {
            self.library.set_capacity(self.library.weight() - 1);
            evicted.append(&mut self.collected.lock().evicted);
            self.trim_ghosts();
        }
    }

    /// Removes the oldest ghost entries beyond their limit.
    fn trim_ghosts(&mut self) {
        let (numerator, denominator) = GHOSTS_FOR_ENTRIES;
        let most = (self.library.len() * numerator / denominator).max(MIN_GHOSTS);
        loop {
            let mut collected = self.collected.lock();
            if collected.ghosts.len() <= most {
                return;
            }
            let ghost = collected.ghosts.pop_front();
            drop(collected);
            // A block that was loaded again is an entry, and no ghost.
            if let Some(key) = ghost.filter(|key| !self.library.contains_key(key)) {
                self.library.remove(&key);
            }
        }
    }

    pub(super) fn evict_scanned(&mut self) -> Option<Entry<V>> {
        let place = self.scanned.oldest(0)?;
        Some(self.scanned.remove(0, place))
    }

    pub(super) fn remove_where(
        &mut self,
        should_remove: &mut ShouldRemove<'_, V>,
        removed: &mut Vec<Entry<V>>,
    ) {
        let doomed = self.library.iter().filter(|(_, entry)| should_remove(entry));
        let doomed: Vec<CacheKey> = doomed.map(|(&key, _)| key).collect();
        removed.extend(doomed.iter().filter_map(|key| self.library.remove(key)).map(|(_, entry)| entry));
        self.scanned.remove_where(should_remove, |_, ()| 0, removed);
    }

    /// Drops the ghost entries of some tables, since the numbers are given to other tables.
    pub(super) fn forget_tables(&mut self, tables: &[u32]) {
        let is_of = |key: &CacheKey| tables.binary_search(&key.table).is_ok();
        let mut ghosts = Vec::new();
        self.collected.lock().ghosts.retain(|ghost| {
            let stays = !is_of(ghost);
            if !stays {
                ghosts.push(*ghost);
            }
            stays
        });
        ghosts.iter().for_each(|ghost| _ = self.library.remove(ghost));
    }

    /// The library's arrays do not shrink; their free space is reused.
    pub(super) fn shrink_to_fit(&mut self) {
        self.scanned.shrink_to_fit();
    }

    #[cfg(test)]
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry<V>> {
        assert_eq!(
            self.library.weight(),
            self.library.iter().map(|(_, entry)| u64::from(entry.charge) * UNITS).sum::<u64>()
        );
        self.library.iter().map(|(_, entry)| entry).chain(self.scanned.entries())
    }
}

impl<V> std::fmt::Debug for S3FifoPolicy<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("S3FifoPolicy")
            .field("library", &self.library)
            .field("scanned_bytes", &self.scanned.scanned_bytes())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::testing::entry;

    fn key(block: u32) -> CacheKey {
        CacheKey { table: 1, block }
    }

    /// Fills to `entries` by evicting as needed, as the cache does.
    fn put(policy: &mut S3FifoPolicy<u64>, block: u32, entries: usize) {
        if policy.get(0, &key(block), true).is_none() {
            while policy.len() >= entries {
                policy.evict(&mut Vec::new());
            }
            policy.insert(0, entry(key(block), BlockKind::Data));
        }
    }

    /// Rounding does not wear the library's targets out: after many evictions ghost entries are still kept,
    /// within their limit, and a block with a ghost entry stays when a block used once does not.
    #[test]
    fn ghosts_survive_rounding_and_stay_bounded() {
        const ENTRIES: usize = 1_000;
        let mut policy: S3FifoPolicy<u64> = S3FifoPolicy::new();
        let mut next = 0;
        for _ in 0..300 * ENTRIES {
            put(&mut policy, next, ENTRIES);
            next += 1;
        }
        assert_eq!(policy.len(), ENTRIES);
        let ghosts = policy.collected.lock().ghosts.clone();
        assert_eq!(ghosts.len(), (ENTRIES - 1) / 2, "half of what was left by the last eviction");
        assert!(ghosts.iter().all(|ghost| policy.library.remove(ghost).is_none()), "ghosts are no entries");
        // Those removed just now are unknown; the ones that follow are known.
        for _ in 0..ENTRIES / 4 {
            put(&mut policy, next, ENTRIES);
            next += 1;
        }
        let returning: Vec<u32> =
            policy.collected.lock().ghosts.iter().rev().take(50).map(|ghost| ghost.block).collect();
        returning.iter().for_each(|&block| put(&mut policy, block, ENTRIES));
        for _ in 0..10 * ENTRIES {
            put(&mut policy, next, ENTRIES);
            next += 1;
        }
        let stayed = returning.iter().filter(|&&block| policy.library.contains_key(&key(block))).count();
        assert_eq!(stayed, returning.len(), "a block with a ghost entry enters the large queue");
        assert!(policy.collected.lock().ghosts.len() <= ENTRIES / 2);
        assert_eq!(policy.entries().count(), ENTRIES);
        // An `Arc` of bytes is eight bytes longer than a number, twice for arrays that double.
        let used = policy.library.memory_used().total() + policy.collected.lock().ghosts.capacity() * 8;
        assert!(used + ENTRIES * 16 <= ENTRIES * OVERHEAD_BYTES, "{used} bytes for {ENTRIES} entries");
    }

    /// A dropped table leaves no ghost entries: the next table with its number starts without any.
    #[test]
    fn ghosts_of_a_dropped_table_are_forgotten() {
        const ENTRIES: usize = 200;
        let mut policy: S3FifoPolicy<u64> = S3FifoPolicy::new();
        (0..4 * ENTRIES as u32).for_each(|block| put(&mut policy, block, ENTRIES));
        let returning: Vec<u32> = policy.collected.lock().ghosts.iter().map(|ghost| ghost.block).collect();
        assert!(returning.len() > 50);
        policy.remove_where(&mut |entry| entry.key.table == 1, &mut Vec::new());
        policy.forget_tables(&[1]);
        assert_eq!((policy.len(), policy.collected.lock().ghosts.len()), (0, 0));
        // Without ghost entries they are evicted after one use, where blocks with one would stay.
        let start = 100_000;
        (start..start + ENTRIES as u32).for_each(|block| put(&mut policy, block, ENTRIES));
        returning.iter().for_each(|&block| put(&mut policy, block, ENTRIES));
        (2 * start..2 * start + 10 * ENTRIES as u32).for_each(|block| put(&mut policy, block, ENTRIES));
        let stayed = returning.iter().filter(|&&block| policy.library.contains_key(&key(block))).count();
        assert_eq!(stayed, 0);
    }

    /// No entry is refused for its size, or evicted without a request, whatever the library's budget.
    #[test]
    fn large_entries_are_accepted_and_evictions_happen_only_on_request() {
        let mut policy: S3FifoPolicy<u64> = S3FifoPolicy::new();
        for block in 0..40 {
            let charge = if block % 3 == 0 { u32::MAX } else { 1 + block };
            policy.insert(0, Entry { charge, ..entry(key(block), BlockKind::Data) });
            assert_eq!(policy.len(), block as usize + 1);
            assert!(policy.resident(0, &key(block)).is_some());
        }
        let mut gone = Vec::new();
        while policy.len() > 0 {
            let before = gone.len();
            policy.evict(&mut gone);
            assert!(gone.len() > before && gone.len() + policy.len() == 40);
        }
        let mut gone: Vec<u32> = gone.iter().map(|entry| entry.key.block).collect();
        gone.sort_unstable();
        assert_eq!(gone, (0..40).collect::<Vec<u32>>());
        assert_eq!(policy.len(), 0);
    }
}
