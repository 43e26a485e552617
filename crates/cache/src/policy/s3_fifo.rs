//! S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi 2023), as the crate `quick_cache` has it: new entries go through a
//! small queue; those asked for meanwhile move to a large one with second chances, the others go and leave
//! their names behind; who comes back by a remembered name enters the large queue at once.
//!
//! # The library decides who goes, the cache decides when
//! `quick_cache` evicts when its own budget is used up. Used as it comes, that would break this cache's
//! promises: its budget is divided evenly among its shards and not shared, so an entry larger than a shard's
//! part is refused without a word; and a budget shared with scans' blocks and with other shards cannot be
//! told to it. So each shard here has one unshared `unsync::Cache`, whose budget is moved to what is wanted:
//!
//! * To insert, it is raised to what is resident and the new entry; nothing goes, and nothing is too large.
//! * To evict, it is lowered to one less than what is resident; whoever the library names goes, several at
//!   times.
//!
//! So the library's budget is always what the shard holds when it is full, and its queues divide that as they
//! should. Two details make it hold for long:
//!
//! * Each change scales the library's targets and rounds them down. Weights are counted in units of 2^-16
//!   bytes, so that a million changes lose a dozen bytes.
//! * The number of names it remembers is scaled as well, and would soon be rounded away. So it is told to
//!   remember far more than there can be, and the names are counted here: as many as half of the entries, as
//!   the library does by itself. Older ones are removed from it.
//!
//! Blocks that serve whole tables are marked as used twice when they enter, which takes them to the large
//! queue. The library evicts from there only when more was found worth keeping, so there they can stay long
//! without being used. Scans' blocks are not told to the library: they wait in a list of their own, go first,
//! and enter when a lookup asks for them.

use super::lists::{self, Lists};
use super::{Entry, IsDoomed};
use crate::entry::{BlockKind, CacheKey};
use foldhash::fast::FixedState;
use parking_lot::Mutex;
use quick_cache::unsync::Cache;
use quick_cache::{Lifecycle, OptionsBuilder, Weighter};
use std::collections::VecDeque;
use std::sync::Arc;

/// What an entry takes: its place in the library's array of 72 bytes, and half a place for a name, in an
/// array that doubles; the same in its index of five bytes, which may be filled to 7/16; a name in a queue
/// that doubles. For a scan's block it is less.
pub(super) const OVERHEAD_BYTES: usize = {
    let in_library = 2 * (72 + 36) + (5 + 3) * 16 / 7 + 2 * 4;
    let in_list = lists::overhead_bytes::<()>();
    if in_library > in_list { in_library } else { in_list }
};

/// Weight of a byte.
const UNITS: u64 = 1 << 16;

/// Names to remember for an entry: the library's own half.
const NAMES_FOR_ENTRIES: (usize, usize) = (1, 2);

/// Names that are remembered however few entries there are.
const MIN_NAMES: usize = 16;

/// Uses that an entry which serves a whole table is credited with: the most that the library counts.
const INITIAL_USES: usize = 2;

/// The library is made with this budget, to have one name a unit, and then brought down to that of nothing.
const FIRST_BUDGET: u64 = UNITS << 32;

#[derive(Clone, Debug)]
struct ByCharge;

impl<V> Weighter<CacheKey, Entry<V>> for ByCharge {
    fn weight(&self, _key: &CacheKey, entry: &Entry<V>) -> u64 {
        u64::from(entry.charge) * UNITS
    }
}

/// Gathers what the library evicts, and whose names it keeps.
#[derive(Debug)]
struct Gather<V>(Arc<Mutex<Gathered<V>>>);

#[derive(Debug)]
struct Gathered<V> {
    evicted: Vec<Entry<V>>,
    names: VecDeque<CacheKey>,
}

impl<V> Lifecycle<CacheKey, Entry<V>> for Gather<V> {
    type RequestState = ();

    fn on_evict_cold(&self, _state: &mut (), key: CacheKey, entry: Entry<V>) {
        let mut gathered = self.0.lock();
        gathered.names.push_back(key);
        gathered.evicted.push(entry);
    }

    fn on_evict_hot(&self, _state: &mut (), _key: CacheKey, entry: Entry<V>) {
        self.0.lock().evicted.push(entry);
    }
}

pub(crate) struct S3FifoPolicy<V> {
    library: Cache<CacheKey, Entry<V>, ByCharge, FixedState, Gather<V>>,
    /// Shared with the library. Never waited for: both are reached under the shard's lock only.
    gathered: Arc<Mutex<Gathered<V>>>,
    /// What scans brought in, oldest first.
    scanned: Lists<V, ()>,
}

impl<V: Clone> S3FifoPolicy<V> {
    pub(super) fn new() -> S3FifoPolicy<V> {
        let gathered = Arc::new(Mutex::new(Gathered { evicted: Vec::new(), names: VecDeque::new() }));
        // Places for a name in each unit of weight: more than there can be, whatever the rounding.
        let options = OptionsBuilder::new()
            .weight_capacity(FIRST_BUDGET)
            .estimated_items_capacity(FIRST_BUDGET as usize)
            .ghost_allocation(1.0)
            .build()
            .expect("all that is needed was given");
        let gather = Gather(Arc::clone(&gathered));
        let mut library = Cache::with_options(options, ByCharge, FixedState::default(), gather);
        library.set_capacity(UNITS);
        S3FifoPolicy { library, gathered, scanned: Lists::new(1) }
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
        debug_assert!(self.gathered.lock().evicted.is_empty(), "there was room");
        if kind != BlockKind::Data {
            (0..INITIAL_USES).for_each(|_| _ = self.library.get(&key));
        }
    }

    /// Evicts what the library names: several entries if one that was found worth keeping takes the place of
    /// smaller ones.
    pub(super) fn evict(&mut self, evicted: &mut Vec<Entry<V>>) {
        if let Some(entry) = self.evict_scanned() {
            evicted.push(entry);
        } else if self.library.weight() > 0 {
            self.library.set_capacity(self.library.weight() - 1);
            evicted.append(&mut self.gathered.lock().evicted);
            self.forget_names();
        }
    }

    /// Removes from the library the oldest names beyond those to remember.
    fn forget_names(&mut self) {
        let (numerator, denominator) = NAMES_FOR_ENTRIES;
        let most = (self.library.len() * numerator / denominator).max(MIN_NAMES);
        loop {
            let mut gathered = self.gathered.lock();
            if gathered.names.len() <= most {
                return;
            }
            let name = gathered.names.pop_front();
            drop(gathered);
            // Who came back is an entry again, and no name.
            if let Some(key) = name.filter(|key| !self.library.contains_key(key)) {
                self.library.remove(&key);
            }
        }
    }

    pub(super) fn evict_scanned(&mut self) -> Option<Entry<V>> {
        let place = self.scanned.oldest(0)?;
        Some(self.scanned.remove(0, place))
    }

    pub(super) fn remove_where(&mut self, is_doomed: &mut IsDoomed<'_, V>, removed: &mut Vec<Entry<V>>) {
        let doomed = self.library.iter().filter(|(_, entry)| is_doomed(entry));
        let doomed: Vec<CacheKey> = doomed.map(|(&key, _)| key).collect();
        removed.extend(doomed.iter().filter_map(|key| self.library.remove(key)).map(|(_, entry)| entry));
        self.scanned.remove_where(is_doomed, |_, ()| 0, removed);
    }

    /// Forgets the names of some tables' entries: a number is given to another table, whose blocks are not
    /// known for having been here.
    pub(super) fn forget_tables(&mut self, tables: &[u32]) {
        let is_of = |key: &CacheKey| tables.binary_search(&key.table).is_ok();
        let mut names = Vec::new();
        self.gathered.lock().names.retain(|name| {
            let stays = !is_of(name);
            if !stays {
                names.push(*name);
            }
            stays
        });
        names.iter().for_each(|name| _ = self.library.remove(name));
    }

    /// The library's arrays do not shrink; what they have too much is used again.
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

    /// Rounding does not wear the library's targets out: after many evictions names are still remembered, not
    /// more than are to be, and who comes back by its name stays when what came by once does not.
    #[test]
    fn names_are_remembered_for_ever_and_not_without_bound() {
        const ENTRIES: usize = 1_000;
        let mut policy: S3FifoPolicy<u64> = S3FifoPolicy::new();
        let mut next = 0;
        for _ in 0..300 * ENTRIES {
            put(&mut policy, next, ENTRIES);
            next += 1;
        }
        assert_eq!(policy.len(), ENTRIES);
        let names = policy.gathered.lock().names.clone();
        assert_eq!(names.len(), (ENTRIES - 1) / 2, "half of what was left by the last eviction");
        assert!(names.iter().all(|name| policy.library.remove(name).is_none()), "names are no entries");
        // Those that were removed just now are known no more; the ones that follow are.
        for _ in 0..ENTRIES / 4 {
            put(&mut policy, next, ENTRIES);
            next += 1;
        }
        let returning: Vec<u32> =
            policy.gathered.lock().names.iter().rev().take(50).map(|name| name.block).collect();
        returning.iter().for_each(|&block| put(&mut policy, block, ENTRIES));
        for _ in 0..10 * ENTRIES {
            put(&mut policy, next, ENTRIES);
            next += 1;
        }
        let stayed = returning.iter().filter(|&&block| policy.library.contains_key(&key(block))).count();
        assert_eq!(stayed, returning.len(), "who came back by its name is in the large queue");
        assert!(policy.gathered.lock().names.len() <= ENTRIES / 2);
        assert_eq!(policy.entries().count(), ENTRIES);
        // An `Arc` of bytes is eight bytes longer than a number, twice for arrays that double.
        let used = policy.library.memory_used().total() + policy.gathered.lock().names.capacity() * 8;
        assert!(used + ENTRIES * 16 <= ENTRIES * OVERHEAD_BYTES, "{used} bytes for {ENTRIES} entries");
    }

    /// A table that is gone leaves no names: whoever gets its number starts like a stranger.
    #[test]
    fn names_go_with_their_table() {
        const ENTRIES: usize = 200;
        let mut policy: S3FifoPolicy<u64> = S3FifoPolicy::new();
        (0..4 * ENTRIES as u32).for_each(|block| put(&mut policy, block, ENTRIES));
        let returning: Vec<u32> = policy.gathered.lock().names.iter().map(|name| name.block).collect();
        assert!(returning.len() > 50);
        policy.remove_where(&mut |entry| entry.key.table == 1, &mut Vec::new());
        policy.forget_tables(&[1]);
        assert_eq!((policy.len(), policy.gathered.lock().names.len()), (0, 0));
        // As strangers they come by once and go, where remembered ones would stay.
        let start = 100_000;
        (start..start + ENTRIES as u32).for_each(|block| put(&mut policy, block, ENTRIES));
        returning.iter().for_each(|&block| put(&mut policy, block, ENTRIES));
        (2 * start..2 * start + 10 * ENTRIES as u32).for_each(|block| put(&mut policy, block, ENTRIES));
        let stayed = returning.iter().filter(|&&block| policy.library.contains_key(&key(block))).count();
        assert_eq!(stayed, 0);
    }

    /// Nothing is refused for its size and nothing goes unasked, whatever the library's own budget would say.
    #[test]
    fn large_entries_are_taken_and_nothing_goes_unasked() {
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
