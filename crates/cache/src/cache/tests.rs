//! Guarantees of all kinds: the cache against a plain map, its accounting, its priorities, the scans' share,
//! and many threads at once.

mod hit_rates;
mod large;
mod warming;

use super::*;
use esker_env::ManualClock;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Runs a test for each kind, and for one with a TTL that never expires.
fn for_each_kind(test: impl Fn(CacheKind)) {
    let patient = CacheKind::Lru { ttl: Some(Duration::from_secs(1)) };
    for kind in CacheKind::ALL.into_iter().chain([patient]) {
        println!("kind {kind}");
        test(kind);
    }
}

/// A cache of so many shards whose clock stands still.
fn cache_of<V: Charge + Clone>(kind: CacheKind, capacity_bytes: usize, shards: usize) -> BlockCache<V> {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(0));
    BlockCache::with_shards(kind, capacity_bytes, shards, &clock)
}

#[derive(Debug)]
struct Block {
    key: CacheKey,
    bytes: usize,
}

impl Charge for Block {
    fn charge_bytes(&self) -> usize {
        self.bytes
    }
}

fn key(table: u64, number: u64) -> CacheKey {
    CacheKey { table: table as u32, block: number as u32 }
}

fn block(key: CacheKey, bytes: usize) -> Arc<Block> {
    Arc::new(Block { key, bytes })
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}

/// Checks BS4 and the counters when no operation is under way; returns what is resident.
fn audit<V: Charge + Clone>(cache: &BlockCache<V>) -> BTreeMap<CacheKey, V> {
    let mut resident = BTreeMap::new();
    let (mut used, mut scanned) = (0, 0);
    let mut by_kind = [(0u64, 0usize); BlockKind::ALL.len()];
    for (at, shard) in cache.shards.iter().enumerate() {
        for entry in shard.lock().entries() {
            assert_eq!(entry.charge as usize, entry.value.charge_bytes() + cache.entry_overhead_bytes());
            assert_eq!(cache.shard_of(hash_of(&entry.key)), at);
            used += entry.charge as usize;
            scanned += if entry.scanned { entry.charge as usize } else { 0 };
            by_kind[entry.kind as usize].0 += 1;
            by_kind[entry.kind as usize].1 += entry.charge as usize;
            assert!(resident.insert(entry.key, entry.value.clone()).is_none(), "twice: {:?}", entry.key);
        }
    }
    let stats = cache.stats();
    assert_eq!(cache.used_bytes(), used, "BS4");
    assert!(used <= cache.capacity_bytes());
    assert_eq!((stats.used_bytes, stats.scanned_bytes, stats.entries), (used, scanned, resident.len()));
    for kind in BlockKind::ALL {
        let counted = &stats[kind];
        assert_eq!(
            counted.inserts - counted.evictions - counted.removals - counted.expirations,
            by_kind[kind as usize].0,
            "{kind:?}"
        );
        assert_eq!(counted.resident_bytes, by_kind[kind as usize].1, "{kind:?}");
    }
    resident
}

#[test]
fn overheads_are_those_of_the_crate_page() {
    assert_eq!(CacheKind::ALL.map(overhead_bytes), [92, 80, 258, 166, 150]);
}

#[test]
fn a_block_is_found_until_its_table_goes() {
    for_each_kind(|kind| {
        let cache = cache_of(kind, 1 << 20, 1);
        let (a, b) = (key(1, 0), key(2, 0));
        assert!(cache.get(&a, BlockKind::Data, Admission::Point).is_none());
        let first = cache.insert(a, block(a, 100), BlockKind::Data, Admission::Point);
        cache.insert(b, block(b, 200), BlockKind::Index, Admission::Scan);
        assert!(Arc::ptr_eq(&cache.get(&a, BlockKind::Data, Admission::Point).unwrap(), &first));
        assert_eq!(cache.used_bytes(), 300 + 2 * overhead_bytes(kind));

        // A second load of the same block yields the resident one.
        let second = block(a, 100);
        assert!(Arc::ptr_eq(&cache.insert(a, second, BlockKind::Data, Admission::Point), &first));
        let stats = cache.stats();
        assert_eq!((stats.duplicate_loads, stats.entries), (1, 2));
        assert_eq!((stats[BlockKind::Data].hits, stats[BlockKind::Data].misses), (1, 1));
        assert_eq!(stats[BlockKind::Data].hit_rate(), Some(0.5));
        assert_eq!(stats[BlockKind::Filter].hit_rate(), None);

        assert_eq!(cache.remove_tables(&[1]), 1);
        assert_eq!(cache.remove_tables(&[1]), 0);
        assert!(cache.get(&a, BlockKind::Data, Admission::Point).is_none());
        assert!(cache.get(&b, BlockKind::Index, Admission::Point).is_some());
        assert_eq!(first.bytes, 100, "a held block stays");
        assert_eq!(audit(&cache).len(), 1);
    });
}

#[test]
fn a_block_larger_than_the_budget_is_returned_but_not_cached() {
    for_each_kind(|kind| {
        let cache = cache_of(kind, 10_000, 1);
        let (large, fitting) = (key(1, 1), key(1, 2));
        let value = block(large, 10_000);
        let answer = cache.insert(large, Arc::clone(&value), BlockKind::Data, Admission::Point);
        assert!(Arc::ptr_eq(&answer, &value));
        cache.insert(large, block(large, usize::MAX), BlockKind::Data, Admission::Point);
        assert!(cache.get(&large, BlockKind::Data, Admission::Point).is_none());
        // Exactly the budget fits, and evicts everything else.
        cache.insert(key(1, 3), block(key(1, 3), 50), BlockKind::Filter, Admission::Point);
        let exactly = 10_000 - overhead_bytes(kind);
        cache.insert(fitting, block(fitting, exactly), BlockKind::Data, Admission::Point);
        assert_eq!(audit(&cache).into_keys().collect::<Vec<_>>(), [fitting]);
        // A scan may not take all.
        cache.insert(large, block(large, 5000), BlockKind::Data, Admission::Scan);
        assert_eq!(cache.stats().declined, 3);

        let nothing = cache_of(kind, 0, 1);
        nothing.insert(large, block(large, 0), BlockKind::Data, Admission::Point);
        assert!(audit(&nothing).is_empty());
    });
}

#[test]
fn a_block_larger_than_a_shards_part_borrows_from_others() {
    for_each_kind(|kind| {
        let cache = cache_of(kind, 1 << 20, 16);
        for number in 0..400 {
            let key = key(1, number);
            cache.insert(key, block(key, 4096), BlockKind::Data, Admission::Point);
        }
        for number in 0..20 {
            let key = key(2, number);
            cache.insert(key, block(key, 600_000), BlockKind::Data, Admission::Point);
            assert!(audit(&cache).contains_key(&key));
        }
        assert!(cache.used_bytes() > 600_000);
    });
}

/// Random operations against a map of everything ever inserted and not removed since.
#[test]
fn agrees_with_a_plain_map() {
    for_each_kind(|kind| {
        for (seed, capacity, shards) in [(1, 1 << 30, 8), (2, 300_000, 1), (3, 1 << 20, 4), (4, 40_000, 16)] {
            println!("seed {seed}");
            let mut random = Random(seed);
            let cache = cache_of(kind, capacity, shards);
            let mut model: BTreeMap<CacheKey, Arc<Block>> = BTreeMap::new();
            let kind_of = |key: &CacheKey| BlockKind::ALL[(key.block % 7 % 4) as usize];
            let mut lowered = false;
            for step in 0..30_000u64 {
                let key = key(random.below(6), random.below(150));
                let admission = if random.below(3) == 0 { Admission::Scan } else { Admission::Point };
                match random.below(1000) {
                    0 => {
                        let tables = [random.below(6), random.below(6)];
                        cache.remove_tables(&tables.map(|table| table as u32));
                        model.retain(|key, _| !tables.contains(&u64::from(key.table)));
                    }
                    1 if capacity < 1 << 30 => {
                        cache.set_capacity_bytes(capacity / (1 + random.below(4) as usize));
                        lowered = true;
                    }
                    2..500 => {
                        let new = block(key, 10 + random.below(5000) as usize);
                        let answer = cache.insert(key, Arc::clone(&new), kind_of(&key), admission);
                        let is_new = Arc::ptr_eq(&answer, &new);
                        assert!(
                            is_new || Arc::ptr_eq(&answer, &model[&key]),
                            "neither the new nor the resident one"
                        );
                        model.insert(key, answer);
                    }
                    _ => match cache.get(&key, kind_of(&key), admission) {
                        Some(found) => assert!(Arc::ptr_eq(&found, &model[&key]), "step {step}"),
                        None => assert!(capacity < 1 << 30 || !model.contains_key(&key), "lost without need"),
                    },
                }
                if step % 500 == 0 {
                    for (key, value) in audit(&cache) {
                        assert!(Arc::ptr_eq(&value, &model[&key]));
                    }
                }
            }
            let stats = cache.stats();
            assert_eq!(stats.total().evictions > 0, capacity < 1 << 30);
            assert!(lowered || capacity == 1 << 30);
            assert_eq!(audit(&cache).len() == model.len(), capacity == 1 << 30);
            cache.set_capacity_bytes(0);
            assert!(audit(&cache).is_empty());
        }
    });
}

/// Blocks of the caches that scans go through.
const SCANNED_CACHE_BLOCKS: u64 = 4000;

/// A cache with a hot set of 55 % of it, used three times; lookups of which all find their block.
fn with_hot_set(kind: CacheKind) -> BlockCache<Arc<Block>> {
    let cache = cache_of(kind, SCANNED_CACHE_BLOCKS as usize * (4096 + overhead_bytes(kind)), 4);
    for _ in 0..3 {
        for number in 0..SCANNED_CACHE_BLOCKS * 11 / 20 {
            let key = key(1, number);
            if cache.get(&key, BlockKind::Data, Admission::Point).is_none() {
                cache.insert(key, block(key, 4096), BlockKind::Data, Admission::Point);
            }
        }
    }
    assert_eq!(hit_rate_of_hot_set(&cache), 1.0);
    cache
}

fn hit_rate_of_hot_set(cache: &BlockCache<Arc<Block>>) -> f64 {
    let hot = SCANNED_CACHE_BLOCKS * 11 / 20;
    let is_hit = |&number: &u64| cache.get(&key(1, number), BlockKind::Data, Admission::Point).is_some();
    (0..hot).filter(is_hit).count() as f64 / hot as f64
}

/// Inserts blocks of many tables, ten times the cache, and returns the share that they occupy.
fn walk(cache: &BlockCache<Arc<Block>>, admission: Admission) -> f64 {
    for number in 0..10 * SCANNED_CACHE_BLOCKS {
        let key = key(2 + number / 1000, number);
        assert!(cache.get(&key, BlockKind::Data, admission).is_none());
        cache.insert(key, block(key, 4096), BlockKind::Data, admission);
    }
    let left = audit(cache).keys().filter(|key| key.table > 1).count();
    left as f64 / SCANNED_CACHE_BLOCKS as f64
}

/// A hot set survives a scan over ten times the cache, and the scan's blocks keep no more than the scans'
/// share. The same walk by lookups keeps more than that.
#[test]
fn scans_leave_the_hot_set_alone() {
    let share = f64::from(DEFAULT_SCAN_PERCENT) / 100.0;
    for_each_kind(|kind| {
        let cache = with_hot_set(kind);
        let left = walk(&cache, Admission::Scan);
        assert_eq!(hit_rate_of_hot_set(&cache), 1.0, "hits of the hot set after the scan");
        assert!(left <= share && left > share * 0.9, "a scan leaves {left} of the cache filled");
        let stats = cache.stats();
        let scanned_share = stats.scanned_bytes as f64 / stats.capacity_bytes as f64;
        assert!(scanned_share <= share && scanned_share > share * 0.9, "{scanned_share}");

        // A lookup makes a scan's block an ordinary one, a scan's own hit does not.
        let resident = audit(&cache);
        let scanned = resident.keys().rfind(|key| key.table > 1).unwrap();
        let (scanned_bytes, charge) = (stats.scanned_bytes, 4096 + overhead_bytes(kind));
        cache.get(scanned, BlockKind::Data, Admission::Scan).unwrap();
        assert_eq!(cache.stats().scanned_bytes, scanned_bytes);
        cache.get(scanned, BlockKind::Data, Admission::Point).unwrap();
        assert_eq!(cache.stats().scanned_bytes, scanned_bytes - charge);
        assert!(audit(&cache).contains_key(scanned));

        let left = walk(&with_hot_set(kind), Admission::Point);
        assert!(left > share, "lookups leave {left} of the cache filled: there is nothing to limit");
    });
}

/// The share for scans is a choice: without one nothing of a scan stays, and where it may take everything it
/// takes all that is not hot.
#[test]
fn the_share_of_scans_is_a_choice() {
    for_each_kind(|kind| {
        for percent in [0, 10, 25] {
            let cache = with_hot_set(kind).with_scan_percent(percent);
            let (left, share) = (walk(&cache, Admission::Scan), f64::from(percent) / 100.0);
            assert!(
                left <= share && left >= share * 0.9,
                "{percent} %: a scan leaves {left} of the cache filled"
            );
            assert_eq!(hit_rate_of_hot_set(&cache), 1.0, "{percent} %");
        }
        // The hot set leaves 45 % of the cache, all of which an unlimited scan takes.
        let left = walk(&with_hot_set(kind).with_scan_percent(100), Admission::Scan);
        assert!(left > 0.43, "an unlimited scan leaves {left} of the cache filled");
    });
}

/// A full cache with a doorkeeper admits a lookup's data block that is loaded twice, or that is used while it
/// is the candidate; blocks loaded once evict nothing. While there is room, and for blocks of other kinds,
/// every block is admitted.
#[test]
fn a_full_cache_admits_what_is_loaded_twice() {
    for_each_kind(|kind| {
        let cache = cache_of(kind, 100 * (1000 + overhead_bytes(kind)), 1);
        let load = |table: u64, number: u64| {
            let key = key(table, number);
            cache.get(&key, BlockKind::Data, Admission::Point).is_some() || {
                cache.insert(key, block(key, 1000), BlockKind::Data, Admission::Point);
                false
            }
        };
        let residents = |table: u32| audit(&cache).keys().filter(|key| key.table == table).count();
        (0..100).for_each(|number| _ = load(1, number));
        assert_eq!((residents(1), cache.stats().not_admitted), (100, 0));
        (0..1000).for_each(|number| _ = load(2, number));
        let (stayed, not_admitted) = (residents(1), cache.stats().not_admitted);
        let has_doorkeeper = kind == CacheKind::Slots;
        assert!(!has_doorkeeper || stayed > 90 && not_admitted > 980, "{stayed} stayed, {not_admitted} went");
        assert!(has_doorkeeper || not_admitted == 0);
        // Lookups of neighbouring keys follow each other in one block.
        assert_eq!((0..30).filter(|&number| !load(3, number) && load(3, number)).count(), 30);
        assert!(residents(3) >= 29 || !has_doorkeeper, "{} entered", residents(3));
        // A new set that fits, in rounds.
        (0..300).for_each(|number| _ = load(4, number % 50));
        assert!((0..50).filter(|&number| load(4, number)).count() > 45);
        for number in 0..20 {
            let key = key(5, number);
            cache.insert(key, block(key, 1000), BlockKind::Index, Admission::Point);
            assert!(cache.peek(&key).is_some());
        }
    });
}

/// Blocks that serve whole tables do not count for the scans' share, and are kept.
#[test]
fn scans_do_not_evict_index_blocks() {
    for_each_kind(|kind| {
        let charge = 1000 + overhead_bytes(kind);
        let cache = cache_of(kind, 100 * charge, 1);
        for number in 0..90 {
            let key = key(1, number);
            cache.insert(key, block(key, 1000), BlockKind::Index, Admission::Scan);
        }
        assert_eq!(cache.stats().scanned_bytes, 0);
        for number in 0..1000 {
            let key = key(2, number);
            cache.insert(key, block(key, 1000), BlockKind::Data, Admission::Scan);
        }
        let kept = audit(&cache).keys().filter(|key| key.table == 1).count();
        assert!(kept >= 60, "{kept} of 90 index blocks");
    });
}

/// Blocks used repeatedly outlive a stream of blocks used once, and unused index blocks outlive unused data.
#[test]
fn used_blocks_and_index_blocks_stay() {
    for_each_kind(|kind| {
        let charge = 1000 + overhead_bytes(kind);
        let cache = cache_of(kind, 1000 * charge, 2);
        let put = |key: CacheKey, kind| {
            if cache.get(&key, kind, Admission::Point).is_none() {
                let is_full = cache.used_bytes() + charge > cache.capacity_bytes();
                cache.insert(key, block(key, 1000), kind, Admission::Point);
                // A candidate that is used is admitted, with no more chances than others.
                if is_full && cache.kind().has_doorkeeper() && kind == BlockKind::Data {
                    cache.get(&key, kind, Admission::Point);
                }
            }
        };
        (0..100).for_each(|number| put(key(1, number), BlockKind::Data));
        (0..100).for_each(|number| put(key(2, number), BlockKind::Index));
        (0..100).for_each(|number| put(key(3, number), BlockKind::Data));
        for number in 0..2000 {
            put(key(1, number % 100), BlockKind::Data);
            put(key(4, number), BlockKind::Data);
        }
        let resident = audit(&cache);
        let count = |table| resident.keys().filter(|key| key.table == table).count();
        assert_eq!(count(1), 100, "used data");
        // S3-FIFO's large queue gives an entry up only for a promoted one.
        if kind != CacheKind::S3Fifo {
            assert_eq!(count(3), 0, "unused data");
        }
        assert_eq!(count(2), 100, "unused index blocks, after three rounds of the hand");
        for number in 2000..60_000 {
            put(key(4, number), BlockKind::Data);
        }
        if kind != CacheKind::S3Fifo {
            assert!(audit(&cache).keys().all(|key| key.table == 4), "nothing stays for ever");
        }
    });
}

/// A block whose drop calls the cache: the lock must not be held meanwhile.
struct Nosy {
    cache: Weak<BlockCache<Arc<Nosy>>>,
    dropped: Arc<AtomicU64>,
}

impl Charge for Nosy {
    fn charge_bytes(&self) -> usize {
        1000
    }
}

impl Drop for Nosy {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
        if let Some(cache) = self.cache.upgrade() {
            assert!(cache.stats().entries < 1000);
        }
    }
}

#[test]
fn values_are_freed_outside_of_the_locks_and_once() {
    for_each_kind(|kind| {
        let cache = Arc::new(cache_of(kind, 20_000, 2));
        let dropped = Arc::new(AtomicU64::new(0));
        for round in 0..4 {
            for number in 0..100 {
                let nosy = Nosy { cache: Arc::downgrade(&cache), dropped: Arc::clone(&dropped) };
                let admission = if number % 2 == 0 { Admission::Point } else { Admission::Scan };
                cache.insert(key(round, number), Arc::new(nosy), BlockKind::Data, admission);
            }
            cache.remove_tables(&[(round / 2) as u32]);
            cache.set_capacity_bytes(20_000 - round as usize * 3000);
        }
        let resident = audit(&cache).len() as u64;
        assert!(resident > 0);
        assert_eq!(dropped.load(Ordering::Relaxed), 400 - resident);
        drop(cache);
        assert_eq!(dropped.load(Ordering::Relaxed), 400);
    });
}

/// Threads that load, hit, remove tables and change the capacity; every lookup returns the right block.
#[test]
fn accounting_holds_under_many_threads() {
    for_each_kind(|kind| {
        let cache = cache_of(kind, 1 << 20, 4);
        // Table numbers are never reused: removed ones make room for higher ones.
        let oldest = AtomicU64::new(0);
        let loads = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (cache, oldest, loads) = (&cache, &oldest, &loads);
                scope.spawn(move || {
                    let mut random = Random(0x5eed_0040 + thread);
                    for step in 0..40_000u64 {
                        // Skewed towards low numbers, so that threads often load the same block.
                        let number = random.below(40) * random.below(20);
                        let key = key(oldest.load(Ordering::Relaxed) + random.below(3), number);
                        let kind = BlockKind::ALL[(number % 4) as usize];
                        let admission = if random.below(4) == 0 { Admission::Scan } else { Admission::Point };
                        let found = cache.get(&key, kind, admission).unwrap_or_else(|| {
                            loads.fetch_add(1, Ordering::Relaxed);
                            let large = if number.is_multiple_of(31) { 200_000 } else { 0 };
                            cache.insert(key, block(key, 3000 + large + number as usize), kind, admission)
                        });
                        assert_eq!(found.key, key);
                        assert!(cache.used_bytes() <= 1 << 20);
                        if thread == 0 && step % 2000 == 1999 {
                            let table = oldest.fetch_add(1, Ordering::Relaxed);
                            cache.remove_tables(&[table as u32]);
                        }
                        if thread == 1 && step % 3000 == 2999 {
                            cache.set_capacity_bytes(
                                if step % 2 == 0 { 1 << 19 } else { 1 << 20 } - number as usize,
                            );
                        }
                    }
                });
            }
        });
        // The next insertion enforces a capacity that was lowered during an insertion.
        cache.insert(key(1 << 40, 0), block(key(1 << 40, 0), 100), BlockKind::Data, Admission::Point);
        let stats = cache.stats();
        let total = stats.total();
        assert_eq!(total.hits + total.misses, 4 * 40_000);
        assert_eq!(total.misses, loads.load(Ordering::Relaxed));
        assert_eq!(total.inserts + stats.duplicate_loads + stats.declined, total.misses + 1);
        assert!(total.evictions > 1000 && total.removals > 100, "{total:?}");
        audit(&cache);
    });
}

/// Few large blocks in many shards: nearly every insertion borrows room, and meets the same block again.
#[test]
fn borrowing_threads_agree_on_one_block() {
    for_each_kind(|kind| {
        let cache = cache_of(kind, 1_000_000, 64);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let cache = &cache;
                scope.spawn(move || {
                    let mut random = Random(0x5eed_0050 + thread);
                    for _ in 0..20_000 {
                        let key = key(1, random.below(14));
                        let found = cache.get(&key, BlockKind::Data, Admission::Point).unwrap_or_else(|| {
                            cache.insert(key, block(key, 99_000), BlockKind::Data, Admission::Point)
                        });
                        assert_eq!(found.key, key);
                    }
                });
            }
        });
        assert!(audit(&cache).len() >= 9);
    });
}

/// A block with a shortcut, which counts its notifications.
#[derive(Debug)]
struct Shortcut {
    bytes: usize,
    entered: AtomicUsize,
    left: AtomicUsize,
    used: AtomicUsize,
}

impl Shortcut {
    fn new(bytes: usize) -> Arc<Shortcut> {
        let zero = || AtomicUsize::new(0);
        Arc::new(Shortcut { bytes, entered: zero(), left: zero(), used: zero() })
    }

    fn is_resident(&self) -> bool {
        let (entered, left) = (self.entered.load(Ordering::Relaxed), self.left.load(Ordering::Relaxed));
        assert!(
            left <= entered && entered <= 1,
            "told {entered} times of entering and {left} times of leaving"
        );
        entered > left
    }
}

impl Charge for Shortcut {
    fn charge_bytes(&self) -> usize {
        self.bytes
    }

    fn entered(&self) {
        assert_eq!(self.entered.fetch_add(1, Ordering::Relaxed), 0);
    }

    fn left(&self) {
        assert_eq!(self.left.fetch_add(1, Ordering::Relaxed), 0);
    }

    fn take_use(&self) -> bool {
        let uses = self.used.load(Ordering::Relaxed);
        self.used.store(uses.saturating_sub(1), Ordering::Relaxed);
        uses > 0
    }
}

#[test]
fn entered_and_left_are_called_once() {
    for_each_kind(|kind| {
        for admission in [Admission::Point, Admission::Scan] {
            let cache = cache_of(kind, 40_000, 4);
            let all: Vec<(CacheKey, Arc<Shortcut>)> =
                (0..300).map(|i| (key(i % 3, i), Shortcut::new(900 + 40 * (i as usize % 7)))).collect();
            let too_large = Shortcut::new(50_000);
            cache.insert(key(9, 0), Arc::clone(&too_large), BlockKind::Data, admission);
            assert!(!too_large.is_resident());
            for (step, (key, value)) in all.iter().enumerate() {
                cache.insert(*key, Arc::clone(value), BlockKind::Data, admission);
                let late = Shortcut::new(900);
                if let Some(resident) = cache.get(key, BlockKind::Data, admission) {
                    assert!(Arc::ptr_eq(
                        &cache.insert(*key, Arc::clone(&late), BlockKind::Data, admission),
                        &resident
                    ));
                    assert!(!late.is_resident());
                }
                match step {
                    100 => cache.set_capacity_bytes(20_000),
                    200 => assert!(cache.remove_tables(&[1]) > 0),
                    _ => {}
                }
                if step % 50 == 49 {
                    let resident = audit(&cache);
                    for (key, value) in &all {
                        assert_eq!(resident.contains_key(key), value.is_resident(), "{key:?}");
                    }
                }
            }
            cache.remove_tables(&[0, 1, 2]);
            assert!(all.iter().all(|(_, value)| !value.is_resident()));
        }
    });
}

/// A candidate is notified once a lookup finds it, and otherwise never.
#[test]
fn a_candidate_gets_no_shortcuts_until_it_is_found() {
    let cache = cache_of(CacheKind::Slots, 40_000, 1);
    let load = |number: u64| {
        let value = Shortcut::new(900);
        cache.insert(key(1, number), Arc::clone(&value), BlockKind::Data, Admission::Point);
        value
    };
    let first: Vec<Arc<Shortcut>> = (0..100).map(load).collect();
    let entered = |value: &Arc<Shortcut>| value.entered.load(Ordering::Relaxed);
    let residents = first.iter().take_while(|value| entered(value) == 1).count();
    assert!((30..60).contains(&residents), "{residents} found room");
    assert!(first[residents..].iter().all(|value| entered(value) == 0), "{residents} found room");
    assert_eq!(cache.stats().not_admitted, 99 - residents as u64);
    let found = cache.find(&key(1, 99), BlockKind::Data, Admission::Point).unwrap();
    assert!(Arc::ptr_eq(&found, &first[99]) && found.is_resident());
    let next = load(100);
    assert!(found.is_resident() && entered(&next) == 0, "the one that was used entered");
    assert!(cache.find(&key(1, 100), BlockKind::Data, Admission::Scan).is_some() && next.is_resident());
    load(101);
    assert!(!next.is_resident(), "it was not used, and heard that it left");
    audit(&cache);
}

/// A prefetch does not wait for locks, and is no lookup.
#[test]
fn prefetch_changes_nothing() {
    for_each_kind(|kind| {
        let cache = cache_of(kind, 40_000, 2);
        for number in 0..200 {
            cache.prefetch(&key(1, number));
            cache.insert(key(1, number), block(key(1, number), 900), BlockKind::Data, Admission::Point);
        }
        let before = cache.stats();
        let held: Vec<_> = cache.shards[..1].iter().map(|shard| shard.lock()).collect();
        (0..300).for_each(|number| cache.prefetch(&key(1, number)));
        drop(held);
        assert_eq!(cache.stats(), before);
    });
}

#[test]
fn uses_by_shortcut_count_and_do_not_stop_the_clock() {
    let kind = CacheKind::Slots;
    assert!(kind.has_shortcuts());
    let cache = cache_of(kind, 100_000, 1);
    let hot: Vec<Arc<Shortcut>> = (0..20).map(|_| Shortcut::new(900)).collect();
    for (i, value) in hot.iter().enumerate() {
        // A scan's blocks become ordinary ones by being used.
        let admission = if i % 2 == 0 { Admission::Point } else { Admission::Scan };
        cache.insert(key(0, i as u64), Arc::clone(value), BlockKind::Data, admission);
    }
    for i in 0..1_000 {
        hot.iter().for_each(|value| value.used.store(1, Ordering::Relaxed));
        let admission = if i % 2 == 0 { Admission::Point } else { Admission::Scan };
        cache.insert(key(1, i), Shortcut::new(900), BlockKind::Data, admission);
    }
    assert!(hot.iter().all(|value| value.is_resident()));
    assert!(cache.stats().entries > 80);
    // All blocks are in use all the time: the capacity is enforced all the same.
    hot.iter().for_each(|value| value.used.store(usize::MAX, Ordering::Relaxed));
    cache.set_capacity_bytes(5_000);
    assert!(cache.used_bytes() <= 5_000);
    cache.count_shortcut_hits(BlockKind::Data, 5);
    cache.count_shortcut_hits(BlockKind::Index, 2);
    let stats = cache.stats();
    assert_eq!((stats[BlockKind::Data].hits, stats[BlockKind::Index].hits), (5, 2));
}

/// A TTL counts from the insertion; an expired entry is not found, leaves once, and leaves the accounting.
#[test]
fn an_expired_entry_is_not_found() {
    let clock = Arc::new(ManualClock::new(0));
    let as_clock: Arc<dyn Clock> = Arc::clone(&clock) as _;
    let kind: CacheKind = "lru:10s".parse().unwrap();
    let cache: BlockCache<Arc<Shortcut>> = BlockCache::with_shards(kind, 1 << 20, 1, &as_clock);
    let load = |number: u64| {
        let key = key(1, number);
        cache
            .get(&key, BlockKind::Data, Admission::Point)
            .unwrap_or_else(|| cache.insert(key, Shortcut::new(100), BlockKind::Data, Admission::Point))
    };
    let old = load(0);
    let forgotten = load(1);
    clock.advance(Duration::from_secs(6));
    let young = load(2);
    assert!(Arc::ptr_eq(&load(0), &old), "a use finds it");
    clock.advance(Duration::from_millis(3_999));
    assert!(Arc::ptr_eq(&load(0), &old), "and does not let it live longer");
    clock.advance(Duration::from_millis(1));
    assert!(cache.get(&key(1, 0), BlockKind::Data, Admission::Point).is_none());
    let new = load(0);
    assert!(!Arc::ptr_eq(&new, &old) && !old.is_resident() && new.is_resident());
    assert!(!forgotten.is_resident(), "it was at the end of the list");
    assert!(Arc::ptr_eq(&load(2), &young));
    let stats = cache.stats();
    assert_eq!((stats[BlockKind::Data].expirations, stats.duplicate_loads, stats.entries), (2, 0, 2));
    assert_eq!(audit(&cache).len(), 2);
    clock.advance(Duration::from_secs(100));
    let last = load(3);
    assert!(last.is_resident() && !new.is_resident() && !young.is_resident());
    assert_eq!(audit(&cache).len(), 1);
}

/// ND1: fired once for each arming, by the first entry that does not fit.
#[test]
fn the_full_notification_fires_once_and_only_when_full() {
    for_each_kind(|kind| {
        let cache = cache_of(kind, 64 << 10, 1);
        let told = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&told);
        cache.on_full(move || _ = count.fetch_add(1, Ordering::Relaxed));
        let mut next = 0;
        let mut fill = |blocks: u64| {
            (next..next + blocks).for_each(|number| {
                let key = key(1, number);
                cache.insert(key, block(key, 1000), BlockKind::Data, Admission::Point);
            });
            next += blocks;
            told.load(Ordering::Relaxed)
        };
        assert_eq!((fill(200), cache.was_full()), (0, false), "not armed");
        cache.set_capacity_bytes(256 << 10);
        cache.arm_full_notification();
        assert_eq!((fill(50), cache.was_full()), (0, false), "there is room");
        assert_eq!((fill(500), cache.was_full()), (1, true));
        assert_eq!((fill(500), cache.was_full()), (1, true));
        cache.arm_full_notification();
        assert!(!cache.was_full());
        assert_eq!((fill(1), cache.was_full()), (2, true));
    });
}
