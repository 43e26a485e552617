//! The whole cache: shards and one budget.

use crate::entry::{Admission, BlockKind, CacheKey, Charge, ENTRY_OVERHEAD_BYTES};
use crate::numbers::Numbers;
use crate::shard::Shard;
use crate::stats::CacheStats;
use crate::table::{Entry, hash_of};
use esker_base::sync::CachePadded;
use parking_lot::{Mutex, MutexGuard};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Least capacity for each shard: 1024 blocks of 4 KiB, or 64 of the largest block size, so that the clock of a shard
/// sees enough blocks to tell used from unused ones.
const MIN_SHARD_BYTES: usize = 4 << 20;

/// Most shards. A lookup of a key takes 400 ns or more and holds a lock of the cache for about 20 of them, so even
/// of 64 threads that do nothing else a thread finds its shard taken only once in about 20 times.
const MAX_SHARDS: usize = 64;

/// Share of the cache that data blocks of scans may take, as numerator and denominator: 40 %. Whatever scans do,
/// the other 60 % keeps what lookups use.
pub const SCAN_SHARE: (usize, usize) = (2, 5);

/// Rounds over all shards in search of room before an insertion gives up, which takes other threads that use up all
/// the room it makes.
const MAX_BORROW_ROUNDS: usize = 3;

/// A cache of blocks. See the [crate's page](crate) for design and invariants.
pub struct BlockCache<V: ?Sized> {
    shards: Box<[CachePadded<Mutex<Shard<V>>>]>,
    budget: CachePadded<Budget>,
    /// Hits by shortcuts, by stripe and kind.
    shortcut_hits: Box<[CachePadded<KindCounters>]>,
    pub(crate) numbers: Mutex<Numbers>,
}

/// A counter for each kind of block.
type KindCounters = [AtomicU64; BlockKind::ALL.len()];

/// Threads spread their counting over as many lines, so that they seldom meet.
const STRIPES: usize = 16;

static NEXT_STRIPE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static STRIPE: usize = NEXT_STRIPE.fetch_add(1, Ordering::Relaxed) % STRIPES;
}

/// Entries on their way out. Dropping them, which callers do after unlocking, tells the values that they have left.
struct Departed<V: ?Sized + Charge>(Vec<Entry<V>>);

impl<V: ?Sized + Charge> Drop for Departed<V> {
    fn drop(&mut self) {
        self.0.iter().for_each(|entry| entry.value.left());
    }
}

/// The bytes that entries may take and do take.
///
/// Relaxed everywhere: the numbers order nothing, entries are handed over by the shards' mutexes.
struct Budget {
    capacity: AtomicUsize,
    used: AtomicUsize,
}

impl Budget {
    /// Takes `bytes` if they fit.
    fn reserve(&self, bytes: usize) -> bool {
        let fits = |used: usize| {
            let after = used.checked_add(bytes)?;
            (after <= self.capacity.load(Ordering::Relaxed)).then_some(after)
        };
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    fn release(&self, bytes: usize) {
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "BS4: {bytes} bytes given back of {before}");
    }
}

impl<V: ?Sized + Charge> BlockCache<V> {
    /// A cache of `capacity_bytes`; 0 caches nothing. The number of shards follows from this first capacity.
    pub fn new(capacity_bytes: usize) -> BlockCache<V> {
        let fitting = (capacity_bytes / MIN_SHARD_BYTES).max(1);
        // The power of two below or at it.
        let shards = (1usize << fitting.ilog2()).min(MAX_SHARDS);
        BlockCache::with_shards(capacity_bytes, shards)
    }

    fn with_shards(capacity_bytes: usize, shards: usize) -> BlockCache<V> {
        debug_assert!(shards.is_power_of_two());
        BlockCache {
            shards: (0..shards).map(|_| CachePadded(Mutex::new(Shard::new()))).collect(),
            budget: CachePadded(Budget {
                capacity: AtomicUsize::new(capacity_bytes),
                used: AtomicUsize::new(0),
            }),
            shortcut_hits: (0..STRIPES).map(|_| CachePadded::default()).collect(),
            numbers: Mutex::new(Numbers::starting_at(0)),
        }
    }

    /// The block, if it is there. `kind` is what the caller expects it to be; a miss is counted for it.
    #[inline]
    pub fn get(&self, key: &CacheKey, kind: BlockKind, admission: Admission) -> Option<Arc<V>> {
        let hash = hash_of(key);
        self.shards[self.shard_of(hash)].lock().get(hash, key, kind, admission)
    }

    /// Caches a block that was just loaded and verified, and answers the one to use: that of another thread if
    /// it was faster.
    ///
    /// A block larger than the budget is not cached; `value` is answered as it is.
    pub fn insert(&self, key: CacheKey, value: Arc<V>, kind: BlockKind, admission: Admission) -> Arc<V> {
        let bytes = value.charge_bytes().saturating_add(ENTRY_OVERHEAD_BYTES);
        let scanned = admission == Admission::Scan && kind == BlockKind::Data;
        let chances = if scanned { 0 } else { kind.initial_chances() };
        let hash = hash_of(&key);
        let home = self.shard_of(hash);
        // Declared before the guard, hence dropped after it: values are told and freed outside of the lock.
        let mut evicted = Departed(Vec::with_capacity(4));
        let mut shard = self.shards[home].lock();
        if let Some(winner) = shard.resident(hash, &key) {
            shard.duplicate_loads += 1;
            return winner;
        }
        let room = if scanned { self.scan_share_of_a_shard() } else { self.capacity_bytes() };
        let (Ok(charge), true) = (u32::try_from(bytes), bytes <= room) else {
            shard.declined += 1;
            return value;
        };
        while scanned && shard.scanned_bytes() + bytes > room {
            let Some(entry) = shard.evict_scanned() else { break };
            self.budget.release(entry.charge as usize);
            evicted.0.push(entry);
        }
        if !self.make_room(&mut shard, bytes, &mut evicted) {
            drop(shard);
            let reserved = self.borrow_room(home, bytes, &mut evicted);
            shard = self.shards[home].lock();
            if let Some(winner) = shard.resident(hash, &key) {
                if reserved {
                    self.budget.release(bytes);
                }
                shard.duplicate_loads += 1;
                return winner;
            }
            if !reserved {
                shard.declined += 1;
                return value;
            }
        }
        shard.insert(hash, Entry { key, value: Arc::clone(&value), charge, kind, chances, scanned });
        value
    }

    /// Reserves `bytes`, evicting from one shard as needed; `false` if the shard is empty and they still do not fit.
    fn make_room(
        &self,
        shard: &mut MutexGuard<'_, Shard<V>>,
        bytes: usize,
        evicted: &mut Departed<V>,
    ) -> bool {
        while !self.budget.reserve(bytes) {
            let Some(entry) = shard.evict() else { return false };
            self.budget.release(entry.charge as usize);
            evicted.0.push(entry);
        }
        true
    }

    /// Reserves `bytes` at the cost of the shards after `home`; called without any lock held.
    fn borrow_room(&self, home: usize, bytes: usize, evicted: &mut Departed<V>) -> bool {
        let mask = self.shards.len() - 1;
        (1..=MAX_BORROW_ROUNDS * self.shards.len())
            .any(|step| self.make_room(&mut self.shards[(home + step) & mask].lock(), bytes, evicted))
    }

    /// Removes all blocks of some tables and answers how many they were.
    pub(crate) fn remove_tables(&self, tables: &[u32]) -> usize {
        let mut tables = tables.to_vec();
        tables.sort_unstable();
        let mut count = 0;
        for shard in &self.shards {
            let mut removed = Departed(Vec::new());
            shard.lock().remove_tables(&tables, &mut removed.0);
            self.budget.release(removed.0.iter().map(|entry| entry.charge as usize).sum());
            count += removed.0.len();
        }
        count
    }

    /// The budget, in bytes.
    pub fn capacity_bytes(&self) -> usize {
        self.budget.capacity.load(Ordering::Relaxed)
    }

    /// Changes the budget while the cache is in use; what no longer fits is evicted, evenly from all shards. The
    /// number of shards stays.
    pub fn set_capacity_bytes(&self, capacity_bytes: usize) {
        self.budget.capacity.store(capacity_bytes, Ordering::Relaxed);
        loop {
            let mut freed_bytes = 0;
            for (done, shard) in self.shards.iter().enumerate() {
                let excess = self.used_bytes().saturating_sub(self.capacity_bytes());
                let share = excess.div_ceil(self.shards.len() - done);
                freed_bytes += self.evict_bytes(shard, share);
            }
            // A round without success: the rest belongs to insertions under way, whose next eviction sees to it.
            if freed_bytes == 0 || self.used_bytes() <= self.capacity_bytes() {
                return;
            }
        }
    }

    /// Evicts at least `bytes` from a shard, or all it has; answers what was freed.
    fn evict_bytes(&self, shard: &Mutex<Shard<V>>, bytes: usize) -> usize {
        let mut evicted = Departed(Vec::new());
        let mut freed_bytes = 0;
        let mut shard = shard.lock();
        while freed_bytes < bytes {
            let Some(entry) = shard.evict() else { break };
            freed_bytes += entry.charge as usize;
            evicted.0.push(entry);
        }
        if !evicted.0.is_empty() {
            shard.shrink_to_fit();
        }
        self.budget.release(freed_bytes);
        freed_bytes
    }

    /// Bytes in use: the charges of all entries, and of those just entering.
    pub fn used_bytes(&self) -> usize {
        self.budget.used.load(Ordering::Relaxed)
    }

    /// Counters and sizes; locks one shard after the other.
    pub fn stats(&self) -> CacheStats {
        let mut stats = CacheStats {
            capacity_bytes: self.capacity_bytes(),
            used_bytes: self.used_bytes(),
            ..CacheStats::default()
        };
        for shard in &self.shards {
            let shard = shard.lock();
            stats.entries += shard.len();
            stats.scanned_bytes += shard.scanned_bytes();
            stats.duplicate_loads += shard.duplicate_loads;
            stats.declined += shard.declined;
            for (sum, &part) in stats.kinds.iter_mut().zip(&shard.kinds) {
                *sum += part;
            }
        }
        for (sum, kind) in stats.kinds.iter_mut().zip(BlockKind::ALL) {
            let stripes = self.shortcut_hits.iter();
            sum.hits += stripes.map(|stripe| stripe[kind as usize].load(Ordering::Relaxed)).sum::<u64>();
        }
        stats
    }

    /// Counts lookups that found their block by a shortcut.
    #[inline]
    pub fn count_shortcut_hits(&self, kind: BlockKind, count: u64) {
        let stripe = STRIPE.with(|&stripe| stripe);
        self.shortcut_hits[stripe][kind as usize].fetch_add(count, Ordering::Relaxed);
    }

    fn scan_share_of_a_shard(&self) -> usize {
        let (numerator, denominator) = SCAN_SHARE;
        self.capacity_bytes() / (denominator * self.shards.len()) * numerator
    }
}

impl<V: ?Sized> BlockCache<V> {
    #[inline]
    fn shard_of(&self, hash: u64) -> usize {
        // The high half of the hash; the table uses the low bits.
        (hash >> 32) as usize & (self.shards.len() - 1)
    }
}

impl<V: ?Sized> fmt::Debug for BlockCache<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockCache")
            .field("shards", &self.shards.len())
            .field("capacity_bytes", &self.budget.capacity)
            .field("used_bytes", &self.budget.used)
            .finish()
    }
}

#[cfg(test)]
mod tests;
