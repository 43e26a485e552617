//! The block cache: shards under one budget.

use crate::entry::{Admission, BlockKind, CacheKey, Charge};
use crate::full_notification::FullNotification;
use crate::kind::CacheKind;
use crate::number_allocator::TableNumbers;
use crate::policy::{Entry, hash_of, overhead_bytes};
use crate::shard::Shard;
use crate::stats::CacheStats;
use esker_base::sync::CachePadded;
use esker_env::{Clock, SystemClock};
use parking_lot::{Mutex, MutexGuard};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Least capacity of a shard: 1024 blocks of 4 KiB, or 64 of the largest block size, so that the clock of a
/// shard has enough blocks to tell used from unused ones.
const MIN_SHARD_BYTES: usize = 4 << 20;

/// Most shards. A lookup of a key takes 400 ns or more and holds a lock of the cache for about 20 of them, so
/// even with 64 threads that do nothing else a thread finds its shard locked only once in about 20 times.
const MAX_SHARDS: usize = 64;

/// Share of the cache for data blocks of scans, in percent, where no other is chosen: lookups keep the other
/// 60. The CSC443 report has the same (sequential flooding).
pub const DEFAULT_SCAN_PERCENT: u8 = 40;

/// Up to one part in this many of an even share, an entry evicts from its own shard. Room for a larger one,
/// such as a paged filter or a block with a giant value, is made in all shards alike: one shard alone would
/// lose a good part of its entries, or all. An eighth is 512 KiB of the smallest of several shards, eight
/// times the largest usual block.
pub const LARGE_SHARE: usize = 8;

/// Rounds over all shards for room before an insertion gives up: other threads took all it made.
const MAX_BORROW_ROUNDS: usize = 3;

/// A cache of blocks. See the [crate's page](crate) for design and invariants.
///
/// Values are handles that are cheap to clone: an `Arc` as a rule.
///
/// ```
/// use esker_cache::{Admission, BlockCache, BlockKind, CacheKey, CacheKind, Charge};
/// use esker_env::SystemClock;
/// use std::sync::Arc;
///
/// struct Text(String);
///
/// impl Charge for Text {
///     fn charge_bytes(&self) -> usize {
///         size_of::<Text>() + self.0.len()
///     }
/// }
///
/// let cache = BlockCache::of_kind("lru:60s".parse()?, 1 << 20, &(Arc::new(SystemClock::new()) as _));
/// let key = CacheKey { table: 1, block: 7 };
/// assert!(cache.get(&key, BlockKind::Data, Admission::Point).is_none());
/// let text = Arc::new(Text("seven".to_owned()));
/// cache.insert(key, text, BlockKind::Data, Admission::Point);
/// assert_eq!(cache.get(&key, BlockKind::Data, Admission::Point).unwrap().0, "seven");
/// assert_eq!(cache.stats()[BlockKind::Data].hit_rate(), Some(0.5));
/// # Ok::<(), esker_base::Error>(())
/// ```
pub struct BlockCache<V> {
    kind: CacheKind,
    pub(crate) shards: Box<[CachePadded<Mutex<Shard<V>>>]>,
    pub(crate) budget: CachePadded<Budget>,
    /// Counters outside of the shards' locks, by stripe.
    counted: Box<[CachePadded<Counted>]>,
    pub(crate) numbers: Mutex<TableNumbers>,
    full_notification: FullNotification,
    /// See [`BlockCache::with_scan_percent`]; at most 100.
    scan_percent: usize,
}

type KindCounters = [AtomicU64; BlockKind::ALL.len()];

#[derive(Default)]
struct Counted {
    shortcut_hits: KindCounters,
    misses: KindCounters,
}

/// Threads are spread over this many counter stripes, so that they seldom share a cache line.
const STRIPES: usize = 16;

static NEXT_STRIPE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static STRIPE: usize = NEXT_STRIPE.fetch_add(1, Ordering::Relaxed) % STRIPES;
}

/// Entries that have left. Callers drop this after unlocking; the drop calls [`Charge::left`] for the values.
pub(crate) struct Removed<V: Charge>(pub(crate) Vec<Entry<V>>);

impl<V: Charge> Drop for Removed<V> {
    fn drop(&mut self) {
        self.0.iter().filter(|entry| entry.notified).for_each(|entry| entry.value.left());
    }
}

/// Capacity and bytes in use. Relaxed: the shards' mutexes publish entries.
pub(crate) struct Budget {
    capacity: AtomicUsize,
    used: AtomicUsize,
}

impl Budget {
    fn reserve(&self, bytes: usize) -> bool {
        let fits = |used: usize| {
            let after = used.checked_add(bytes)?;
            (after <= self.capacity.load(Ordering::Relaxed)).then_some(after)
        };
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    pub(crate) fn release(&self, bytes: usize) {
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "BS4: {bytes} bytes given back of {before}");
    }
}

impl<V: Charge + Clone> BlockCache<V> {
    /// A cache of the default kind; 0 caches nothing. The shards follow from this first capacity.
    pub fn new(capacity_bytes: usize) -> BlockCache<V> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        BlockCache::of_kind(CacheKind::default(), capacity_bytes, &clock)
    }

    /// As [`BlockCache::new`], of any kind. The clock serves TTLs; kinds without one do not read it.
    pub fn of_kind(kind: CacheKind, capacity_bytes: usize, clock: &Arc<dyn Clock>) -> BlockCache<V> {
        let fitting = (capacity_bytes / MIN_SHARD_BYTES).max(1);
        // The greatest power of two that fits.
        let shards = (1usize << fitting.ilog2()).min(MAX_SHARDS);
        BlockCache::with_shards(kind, capacity_bytes, shards, clock)
    }

    fn with_shards(
        kind: CacheKind,
        capacity_bytes: usize,
        shards: usize,
        clock: &Arc<dyn Clock>,
    ) -> BlockCache<V> {
        debug_assert!(shards.is_power_of_two());
        BlockCache {
            kind: kind.within_limits(),
            shards: (0..shards).map(|_| CachePadded(Mutex::new(Shard::new(kind, clock)))).collect(),
            budget: CachePadded(Budget {
                capacity: AtomicUsize::new(capacity_bytes),
                used: AtomicUsize::new(0),
            }),
            counted: (0..STRIPES).map(|_| CachePadded::default()).collect(),
            numbers: Mutex::new(TableNumbers::starting_at(0)),
            full_notification: FullNotification::default(),
            scan_percent: usize::from(DEFAULT_SCAN_PERCENT),
        }
    }

    /// The same cache with another share for data blocks of scans, in percent of its capacity: 0 keeps none
    /// of them, 100 lets scans displace everything.
    #[must_use]
    pub fn with_scan_percent(mut self, percent: u8) -> BlockCache<V> {
        self.scan_percent = usize::from(percent.min(100));
        self
    }

    /// The kind of policy.
    #[inline]
    pub fn kind(&self) -> CacheKind {
        self.kind
    }

    /// Bytes that each entry is charged beyond the charge of its value.
    pub fn entry_overhead_bytes(&self) -> usize {
        overhead_bytes(self.kind)
    }

    /// The block if it is resident. `kind` is the block's expected kind; a miss is counted for it.
    #[inline]
    pub fn get(&self, key: &CacheKey, kind: BlockKind, admission: Admission) -> Option<V> {
        let found = self.find(key, kind, admission);
        if found.is_none() {
            self.count_miss(kind);
        }
        found
    }

    /// As [`BlockCache::get`], but does not count a miss: a caller that then has to load the block calls
    /// [`BlockCache::count_miss`]. For callers that may find that they do not need the block.
    #[inline]
    pub fn find(&self, key: &CacheKey, kind: BlockKind, admission: Admission) -> Option<V> {
        let hash = hash_of(key);
        self.shards[self.shard_of(hash)].lock().find(hash, key, kind, admission)
    }

    /// Prefetches what [`BlockCache::find`] and [`BlockCache::insert`] read first. Skips locked shards.
    pub fn prefetch(&self, key: &CacheKey) {
        let hash = hash_of(key);
        if let Some(shard) = self.shards[self.shard_of(hash)].try_lock() {
            shard.prefetch(hash);
        }
    }

    /// Counts that a block was not resident and is loaded now.
    #[inline]
    pub fn count_miss(&self, kind: BlockKind) {
        let stripe = STRIPE.with(|&stripe| stripe);
        self.counted[stripe].misses[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The block if resident, without counting. For callers that counted their lookup before they waited.
    pub fn peek(&self, key: &CacheKey) -> Option<V> {
        let hash = hash_of(key);
        self.shards[self.shard_of(hash)].lock().resident(hash, key)
    }

    /// Caches a block that was just loaded and verified. Returns the resident block, which is that of another
    /// thread if that one was faster.
    ///
    /// A block larger than the budget is not cached; `value` is returned as it is.
    pub fn insert(&self, key: CacheKey, value: V, kind: BlockKind, admission: Admission) -> V {
        if self.full_notification.is_armed() && self.is_full_for(self.charge_of(&value)) {
            self.notify_full();
        }
        self.enter(key, value, kind, admission, false)
    }

    /// Fires the full notification if it is armed. Called without any lock of the cache.
    pub(crate) fn notify_full(&self) {
        if self.full_notification.is_armed() {
            self.full_notification.fire();
        }
    }

    fn charge_of(&self, value: &V) -> usize {
        value.charge_bytes().saturating_add(self.entry_overhead_bytes())
    }

    /// As [`BlockCache::insert`], or a warm insert ([`crate::warming`]).
    #[inline]
    pub(crate) fn enter(
        &self,
        key: CacheKey,
        value: V,
        kind: BlockKind,
        admission: Admission,
        is_warm: bool,
    ) -> V {
        let bytes = self.charge_of(&value);
        let scanned = admission == Admission::Scan && kind == BlockKind::Data;
        let chances = if scanned { 0 } else { kind.initial_chances() };
        let hash = hash_of(&key);
        let home = self.shard_of(hash);
        // Declared before the guard, hence dropped after it: values are freed outside of the lock.
        let mut evicted = Removed(Vec::with_capacity(4));
        let mut shard = self.shards[home].lock();
        let expired_bytes = shard.expire(&key, &mut evicted.0);
        if expired_bytes > 0 {
            self.budget.release(expired_bytes);
        }
        if let Some(winner) = shard.resident(hash, &key) {
            shard.duplicate_loads += 1;
            return winner;
        }
        let room = if scanned { self.scan_share_of_a_shard() } else { self.capacity_bytes() };
        let (Ok(charge), true) = (u32::try_from(bytes), bytes <= room) else {
            shard.declined += 1;
            return value;
        };
        let is_large = bytes > self.capacity_bytes() / (self.shards.len() * LARGE_SHARE);
        let is_asked = !scanned && !is_warm && kind == BlockKind::Data;
        let must_pass_doorkeeper = is_asked && !is_large && self.is_full_for(bytes);
        let becomes_candidate = must_pass_doorkeeper && !shard.admits(hash);
        if becomes_candidate {
            self.budget.release(shard.settle_candidate(&mut evicted.0));
        }
        if scanned {
            self.keep_scan_share(&mut shard, room.saturating_sub(bytes), &mut evicted);
        }
        if is_large || !self.make_room(&mut shard, bytes, &mut evicted) {
            drop(shard);
            let reserved = match is_large {
                true => self.make_room_everywhere(bytes, &mut evicted),
                false => self.borrow_room(home, bytes, &mut evicted),
            };
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
        let entry = Entry { key, value: value.clone(), charge, kind, chances, scanned, notified: false };
        shard.warm_inserts += u64::from(is_warm);
        if becomes_candidate {
            self.budget.release(shard.insert_candidate(entry, &mut evicted.0));
        } else {
            shard.insert(hash, entry);
        }
        value
    }

    /// Whether `bytes` more need an eviction. False while a lowered capacity is exceeded: insertions enforce
    /// it.
    pub(crate) fn is_full_for(&self, bytes: usize) -> bool {
        let (used, capacity) = (self.used_bytes(), self.capacity_bytes());
        used <= capacity && used.saturating_add(bytes) > capacity
    }

    /// Evicts scans' blocks from a shard until they take no more than `most_bytes`.
    #[inline]
    fn keep_scan_share(&self, shard: &mut Shard<V>, most_bytes: usize, evicted: &mut Removed<V>) {
        while shard.scanned_bytes() > most_bytes {
            let Some(entry) = shard.evict_scanned() else { return };
            self.budget.release(entry.charge as usize);
            evicted.0.push(entry);
        }
    }

    /// Reserves `bytes`, evicting from one shard; `false` if it is empty and they still do not fit.
    fn make_room(
        &self,
        shard: &mut MutexGuard<'_, Shard<V>>,
        bytes: usize,
        evicted: &mut Removed<V>,
    ) -> bool {
        while !self.budget.reserve(bytes) {
            let freed_bytes = shard.evict(&mut evicted.0);
            if freed_bytes == 0 {
                return false;
            }
            self.budget.release(freed_bytes);
        }
        true
    }

    /// Reserves `bytes` by evictions from the shards after `home`; called without any lock held.
    fn borrow_room(&self, home: usize, bytes: usize, evicted: &mut Removed<V>) -> bool {
        let mask = self.shards.len() - 1;
        (1..=MAX_BORROW_ROUNDS * self.shards.len())
            .any(|step| self.make_room(&mut self.shards[(home + step) & mask].lock(), bytes, evicted))
    }

    /// Reserves `bytes` by evictions from all shards alike; called without any lock held.
    #[cold]
    fn make_room_everywhere(&self, bytes: usize, evicted: &mut Removed<V>) -> bool {
        for _ in 0..MAX_BORROW_ROUNDS {
            for (done, shard) in self.shards.iter().enumerate() {
                if self.budget.reserve(bytes) {
                    return true;
                }
                // What other threads reserve meanwhile is divided among the remaining shards.
                let missing = self.used_bytes().saturating_add(bytes).saturating_sub(self.capacity_bytes());
                self.evict_bytes(&mut shard.lock(), missing.div_ceil(self.shards.len() - done), evicted);
            }
        }
        self.budget.reserve(bytes)
    }

    pub(crate) fn remove_tables(&self, tables: &[u32]) -> usize {
        let mut tables = tables.to_vec();
        tables.sort_unstable();
        let mut count = 0;
        for shard in &self.shards {
            let mut removed = Removed(Vec::new());
            let freed_bytes = shard.lock().remove_tables(&tables, &mut removed.0);
            self.budget.release(freed_bytes);
            count += removed.0.len();
        }
        count
    }

    /// The budget, in bytes.
    pub fn capacity_bytes(&self) -> usize {
        self.budget.capacity.load(Ordering::Relaxed)
    }

    /// Changes the capacity; what no longer fits is evicted, evenly from all shards, whose number stays.
    pub fn set_capacity_bytes(&self, capacity_bytes: usize) {
        self.budget.capacity.store(capacity_bytes, Ordering::Relaxed);
        loop {
            let mut freed_bytes = 0;
            for (done, shard) in self.shards.iter().enumerate() {
                let excess = self.used_bytes().saturating_sub(self.capacity_bytes());
                let share = excess.div_ceil(self.shards.len() - done);
                freed_bytes += self.shrink_by(shard, share);
            }
            // No progress: the rest belongs to insertions under way, and the next insertion evicts.
            if freed_bytes == 0 || self.used_bytes() <= self.capacity_bytes() {
                return;
            }
        }
    }

    /// Evicts at least `bytes` from a shard, or all it has, and shrinks its tables; returns what was freed.
    fn shrink_by(&self, shard: &Mutex<Shard<V>>, bytes: usize) -> usize {
        let mut evicted = Removed(Vec::new());
        let mut shard = shard.lock();
        let freed_bytes = self.evict_bytes(&mut shard, bytes, &mut evicted);
        if freed_bytes > 0 {
            shard.shrink_to_fit();
        }
        freed_bytes
    }

    /// Evicts at least `bytes` from a shard, or all it has; returns what was freed.
    fn evict_bytes(&self, shard: &mut Shard<V>, bytes: usize, evicted: &mut Removed<V>) -> usize {
        let mut freed_bytes = 0;
        while freed_bytes < bytes {
            let more_bytes = shard.evict(&mut evicted.0);
            if more_bytes == 0 {
                break;
            }
            freed_bytes += more_bytes;
        }
        self.budget.release(freed_bytes);
        freed_bytes
    }

    /// Sets the callback of the full notification ([`BlockCache::arm_full_notification`]). Insertions call
    /// it.
    pub fn on_full(&self, tell: impl Fn() + Send + Sync + 'static) {
        self.full_notification.set_callback(Box::new(tell));
    }

    /// Arms the full notification: it fires once, when an entry does not fit.
    pub fn arm_full_notification(&self) {
        self.full_notification.arm();
    }

    /// Whether it has fired since it was armed.
    pub fn was_full(&self) -> bool {
        self.full_notification.has_fired()
    }

    /// Bytes in use: the charges of all entries and of insertions under way.
    pub fn used_bytes(&self) -> usize {
        self.budget.used.load(Ordering::Relaxed)
    }

    /// Counters and sizes; locks one shard after the other.
    pub fn stats(&self) -> CacheStats {
        let mut stats = CacheStats {
            kind: self.kind,
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
            stats.not_admitted += shard.not_admitted;
            stats.warm_inserts += shard.warm_inserts;
            for (sum, &part) in stats.kinds.iter_mut().zip(&shard.kinds) {
                *sum += part;
            }
        }
        for (sum, kind) in stats.kinds.iter_mut().zip(BlockKind::ALL) {
            for stripe in &self.counted {
                sum.hits += stripe.shortcut_hits[kind as usize].load(Ordering::Relaxed);
                sum.misses += stripe.misses[kind as usize].load(Ordering::Relaxed);
            }
        }
        stats
    }

    /// Counts lookups that found their block by a shortcut.
    #[inline]
    pub fn count_shortcut_hits(&self, kind: BlockKind, count: u64) {
        let stripe = STRIPE.with(|&stripe| stripe);
        self.counted[stripe].shortcut_hits[kind as usize].fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn scan_share_of_a_shard(&self) -> usize {
        self.capacity_bytes() / (100 * self.shards.len()) * self.scan_percent
    }
}

impl<V> BlockCache<V> {
    #[inline]
    pub(crate) fn shard_of(&self, hash: u64) -> usize {
        // The high half of the hash; the table uses the low bits.
        (hash >> 32) as usize & (self.shards.len() - 1)
    }
}

impl<V> fmt::Debug for BlockCache<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockCache")
            .field("kind", &format_args!("{}", self.kind))
            .field("shards", &self.shards.len())
            .field("capacity_bytes", &self.budget.capacity)
            .field("used_bytes", &self.budget.used)
            .finish()
    }
}

#[cfg(test)]
mod tests;
