//! The whole cache: shards and one budget.

use crate::entry::{Admission, BlockKind, CacheKey, Charge};
use crate::kind::CacheKind;
use crate::need::Need;
use crate::numbers::Numbers;
use crate::policy::{Entry, hash_of, overhead_bytes};
use crate::shard::Shard;
use crate::stats::CacheStats;
use esker_base::sync::CachePadded;
use esker_env::{Clock, SystemClock};
use parking_lot::{Mutex, MutexGuard};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Least capacity for each shard: 1024 blocks of 4 KiB, or 64 of the largest block size, so that the clock of
/// a shard sees enough blocks to tell used from unused ones.
const MIN_SHARD_BYTES: usize = 4 << 20;

/// Most shards. A lookup of a key takes 400 ns or more and holds a lock of the cache for about 20 of them, so
/// even of 64 threads that do nothing else a thread finds its shard taken only once in about 20 times.
const MAX_SHARDS: usize = 64;

/// Share of the cache that data blocks of scans may take, as numerator and denominator: 40 %. Whatever scans
/// do, the other 60 % keeps what lookups use.
pub const SCAN_SHARE: (usize, usize) = (2, 5);

/// What part of an even share of a shard an entry may take at the cost of its own shard: one eighth. Room for
/// a larger one, such as a paged filter or a block with a giant value, is made in all shards alike: a shard
/// that gave all of it would lose a good part of what it has, or everything, and the others nothing. An
/// eighth is 512 KiB of the smallest of several shards, eight times the largest usual block.
pub const LARGE_SHARE: usize = 8;

/// Rounds over all shards in search of room before an insertion gives up, which takes other threads that use
/// up all the room it makes.
const MAX_BORROW_ROUNDS: usize = 3;

/// A cache of blocks. See the [crate's page](crate) for design and invariants.
///
/// Values are handles, cheap to clone: an `Arc` as a rule.
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
    /// What is counted without a shard's lock, by stripe.
    counted: Box<[CachePadded<Counted>]>,
    pub(crate) numbers: Mutex<Numbers>,
    need: Need,
}

/// A counter for each kind of block.
type KindCounters = [AtomicU64; BlockKind::ALL.len()];

/// What callers count.
#[derive(Default)]
struct Counted {
    shortcut_hits: KindCounters,
    misses: KindCounters,
}

/// Threads spread their counting over as many lines, so that they seldom meet.
const STRIPES: usize = 16;

static NEXT_STRIPE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static STRIPE: usize = NEXT_STRIPE.fetch_add(1, Ordering::Relaxed) % STRIPES;
}

/// Entries on their way out. Dropping them, which callers do after unlocking, tells the values that they have
/// left.
pub(crate) struct Departed<V: Charge>(pub(crate) Vec<Entry<V>>);

impl<V: Charge> Drop for Departed<V> {
    fn drop(&mut self) {
        self.0.iter().filter(|entry| entry.told).for_each(|entry| entry.value.left());
    }
}

/// The bytes that entries may take and do take.
///
/// Relaxed everywhere: the numbers order nothing, entries are handed over by the shards' mutexes.
pub(crate) struct Budget {
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

    pub(crate) fn release(&self, bytes: usize) {
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "BS4: {bytes} bytes given back of {before}");
    }
}

impl<V: Charge + Clone> BlockCache<V> {
    /// A cache of the default kind with `capacity_bytes`; 0 caches nothing. The number of shards follows from
    /// this first capacity.
    pub fn new(capacity_bytes: usize) -> BlockCache<V> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        BlockCache::of_kind(CacheKind::default(), capacity_bytes, &clock)
    }

    /// As [`BlockCache::new`], of any kind. The clock tells what has outlived a TTL, and is not asked by
    /// kinds without.
    pub fn of_kind(kind: CacheKind, capacity_bytes: usize, clock: &Arc<dyn Clock>) -> BlockCache<V> {
        let fitting = (capacity_bytes / MIN_SHARD_BYTES).max(1);
        // The power of two below or at it.
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
            numbers: Mutex::new(Numbers::starting_at(0)),
            need: Need::default(),
        }
    }

    /// Which policy it has.
    #[inline]
    pub fn kind(&self) -> CacheKind {
        self.kind
    }

    /// What each entry is charged beyond what its value says, in bytes.
    pub fn entry_overhead_bytes(&self) -> usize {
        overhead_bytes(self.kind)
    }

    /// The block, if it is there. `kind` is what the caller expects it to be; a miss is counted for it.
    #[inline]
    pub fn get(&self, key: &CacheKey, kind: BlockKind, admission: Admission) -> Option<V> {
        let found = self.find(key, kind, admission);
        if found.is_none() {
            self.count_miss(kind);
        }
        found
    }

    /// As [`BlockCache::get`], but a miss is not counted: whoever then finds that the block has to be loaded
    /// says so by [`BlockCache::count_miss`]. For callers who may learn otherwise that they do not need it.
    #[inline]
    pub fn find(&self, key: &CacheKey, kind: BlockKind, admission: Admission) -> Option<V> {
        let hash = hash_of(key);
        self.shards[self.shard_of(hash)].lock().find(hash, key, kind, admission)
    }

    /// Asks for the memory that [`BlockCache::find`] and [`BlockCache::insert`] of this key would wait for,
    /// one piece after the other. For callers who have something else to do before. Waits for nothing: a
    /// shard that somebody has locked is left alone.
    pub fn prefetch(&self, key: &CacheKey) {
        let hash = hash_of(key);
        if let Some(shard) = self.shards[self.shard_of(hash)].try_lock() {
            shard.prefetch(hash);
        }
    }

    /// Counts that a block was not there and is loaded now.
    #[inline]
    pub fn count_miss(&self, kind: BlockKind) {
        let stripe = STRIPE.with(|&stripe| stripe);
        self.counted[stripe].misses[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The block, if it is there, without counting the question or taking it for a use: for who has asked
    /// already and waited since.
    pub fn peek(&self, key: &CacheKey) -> Option<V> {
        let hash = hash_of(key);
        self.shards[self.shard_of(hash)].lock().resident(hash, key)
    }

    /// Caches a block that was just loaded and verified, and answers the one to use: that of another thread
    /// if it was faster.
    ///
    /// A block larger than the budget is not cached; `value` is answered as it is.
    pub fn insert(&self, key: CacheKey, value: V, kind: BlockKind, admission: Admission) -> V {
        if self.need.is_awaited() && self.is_full_for(self.charge_of(&value)) {
            self.need.meet();
        }
        self.enter(key, value, kind, admission, false)
    }

    fn charge_of(&self, value: &V) -> usize {
        value.charge_bytes().saturating_add(self.entry_overhead_bytes())
    }

    /// As [`BlockCache::insert`], or for one that is handed over ([`crate::handing`]).
    #[inline]
    pub(crate) fn enter(
        &self,
        key: CacheKey,
        value: V,
        kind: BlockKind,
        admission: Admission,
        is_handed_over: bool,
    ) -> V {
        let bytes = self.charge_of(&value);
        let scanned = admission == Admission::Scan && kind == BlockKind::Data;
        let chances = if scanned { 0 } else { kind.initial_chances() };
        let hash = hash_of(&key);
        let home = self.shard_of(hash);
        // Declared before the guard, hence dropped after it: values are told and freed outside of the lock.
        let mut evicted = Departed(Vec::with_capacity(4));
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
        let is_asked = !scanned && !is_handed_over && kind == BlockKind::Data;
        let knocks = is_asked && !is_large && self.is_full_for(bytes);
        let waits = knocks && !shard.lets_in(hash);
        if waits {
            self.budget.release(shard.free_the_door(&mut evicted.0));
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
        let entry = Entry { key, value: value.clone(), charge, kind, chances, scanned, told: false };
        shard.handed_over += u64::from(is_handed_over);
        if waits {
            self.budget.release(shard.seat(entry, &mut evicted.0));
        } else {
            shard.insert(hash, entry);
        }
        value
    }

    /// Whether somebody has to go for `bytes` more. Not so after the capacity was lowered below what is used:
    /// then insertions see to it that it is kept.
    fn is_full_for(&self, bytes: usize) -> bool {
        let (used, capacity) = (self.used_bytes(), self.capacity_bytes());
        used <= capacity && used.saturating_add(bytes) > capacity
    }

    /// Evicts what scans brought into a shard until it is no more than `most_bytes`.
    #[inline]
    fn keep_scan_share(&self, shard: &mut Shard<V>, most_bytes: usize, evicted: &mut Departed<V>) {
        while shard.scanned_bytes() > most_bytes {
            let Some(entry) = shard.evict_scanned() else { return };
            self.budget.release(entry.charge as usize);
            evicted.0.push(entry);
        }
    }

    /// Reserves `bytes`, evicting from one shard as needed; `false` if the shard is empty and they still do
    /// not fit.
    fn make_room(
        &self,
        shard: &mut MutexGuard<'_, Shard<V>>,
        bytes: usize,
        evicted: &mut Departed<V>,
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

    /// Reserves `bytes` at the cost of the shards after `home`; called without any lock held.
    fn borrow_room(&self, home: usize, bytes: usize, evicted: &mut Departed<V>) -> bool {
        let mask = self.shards.len() - 1;
        (1..=MAX_BORROW_ROUNDS * self.shards.len())
            .any(|step| self.make_room(&mut self.shards[(home + step) & mask].lock(), bytes, evicted))
    }

    /// Reserves `bytes` at the cost of all shards alike; called without any lock held.
    #[cold]
    fn make_room_everywhere(&self, bytes: usize, evicted: &mut Departed<V>) -> bool {
        for _ in 0..MAX_BORROW_ROUNDS {
            for (done, shard) in self.shards.iter().enumerate() {
                if self.budget.reserve(bytes) {
                    return true;
                }
                // What others take meanwhile is shared out over the shards that are left.
                let missing = self.used_bytes().saturating_add(bytes).saturating_sub(self.capacity_bytes());
                self.evict_bytes(&mut shard.lock(), missing.div_ceil(self.shards.len() - done), evicted);
            }
        }
        self.budget.reserve(bytes)
    }

    /// Removes all blocks of some tables and answers how many they were.
    pub(crate) fn remove_tables(&self, tables: &[u32]) -> usize {
        let mut tables = tables.to_vec();
        tables.sort_unstable();
        let mut count = 0;
        for shard in &self.shards {
            let mut removed = Departed(Vec::new());
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

    /// Changes the budget while the cache is in use; what no longer fits is evicted: if it is much, by the
    /// memory that it lies in (`stretches`), and evenly from all shards. The number of shards stays.
    pub fn set_capacity_bytes(&self, capacity_bytes: usize) {
        self.budget.capacity.store(capacity_bytes, Ordering::Relaxed);
        self.evict_stretches();
        loop {
            let mut freed_bytes = 0;
            for (done, shard) in self.shards.iter().enumerate() {
                let excess = self.used_bytes().saturating_sub(self.capacity_bytes());
                let share = excess.div_ceil(self.shards.len() - done);
                freed_bytes += self.shrink_by(shard, share);
            }
            // A round without success: the rest belongs to insertions under way, whose next eviction sees to
            // it.
            if freed_bytes == 0 || self.used_bytes() <= self.capacity_bytes() {
                return;
            }
        }
    }

    /// Evicts at least `bytes` from a shard for good, or all it has; answers what was freed.
    fn shrink_by(&self, shard: &Mutex<Shard<V>>, bytes: usize) -> usize {
        let mut evicted = Departed(Vec::new());
        let mut shard = shard.lock();
        let freed_bytes = self.evict_bytes(&mut shard, bytes, &mut evicted);
        if freed_bytes > 0 {
            shard.shrink_to_fit();
        }
        freed_bytes
    }

    /// Evicts at least `bytes` from a shard, or all it has; answers what was freed.
    fn evict_bytes(&self, shard: &mut Shard<V>, bytes: usize, evicted: &mut Departed<V>) -> usize {
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

    /// Names whoever is to be told when the cache is full and somebody waits for that
    /// ([`BlockCache::await_need`]). It is called by insertions.
    pub fn tell_of_need(&self, tell: impl Fn() + Send + Sync + 'static) {
        self.need.set_tell(Box::new(tell));
    }

    /// Has it told, once, that an entry came for which there was no room.
    pub fn await_need(&self) {
        self.need.wait();
    }

    /// Whether there was such an entry since somebody began to wait for it.
    pub fn needs_more(&self) -> bool {
        self.need.is_met()
    }

    /// Bytes in use: the charges of all entries, and of those just entering.
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
            stats.turned_away += shard.turned_away;
            stats.handed_over += shard.handed_over;
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

    fn scan_share_of_a_shard(&self) -> usize {
        let (numerator, denominator) = SCAN_SHARE;
        self.capacity_bytes() / (denominator * self.shards.len()) * numerator
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
