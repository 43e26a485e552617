//! Tables, slots and cache together: state shared by threads stays right and within the budget.

use super::{EXPECTED, new_fs, options, path, write};
use crate::testing::{Shape, TestEntry, entries};
use crate::{OpenTables, ReadPurpose, Table, TableCache, TableIdentity, TableOptions};
use esker_base::SeqNo;
use esker_base::checksum::key_hash;
use esker_cache::{BlockKind, CacheKind};
use esker_env::fault::StrictFs;
use esker_env::{Clock, FileSystem, ManualClock, OpenMode, SeededRandom};
use esker_iter::Cursor;
use std::sync::Arc;

/// A file with a table of a hundred blocks and more.
fn file() -> (StrictFs, Vec<TestEntry>) {
    let entries = entries(Shape::Random, 3_000, 0, &SeededRandom::new(1));
    let fs = new_fs();
    write(&fs, &entries, TableOptions { block_size_bytes: 1_000, ..options() });
    (fs, entries)
}

fn open(fs: &StrictFs, identity: &Arc<TableIdentity>) -> Arc<Table> {
    let len = fs.file_len(path()).unwrap().unwrap();
    let file = fs.open(path(), OpenMode::Read).unwrap();
    Arc::new(Table::open(file, len, EXPECTED, Arc::clone(identity)).unwrap())
}

fn tables(cache: &Arc<TableCache>) -> (Vec<Arc<Table>>, Vec<TestEntry>) {
    let (fs, entries) = file();
    // Two identities of the same file are two tables to the cache.
    let open = || open(&fs, &TableIdentity::standalone(Arc::clone(cache)).unwrap());
    (vec![open(), open()], entries)
}

fn get(table: &Table, entry: &TestEntry) {
    let hit = table.get(&entry.key, key_hash(&entry.key), SeqNo::MAX).unwrap();
    assert_eq!(hit.map(|hit| hit.value.to_vec()).as_ref(), Some(&entry.value));
}

fn full_slots(tables: &[Arc<Table>]) -> usize {
    tables.iter().flat_map(|table| table.slots.iter()).filter(|slot| slot.get().is_some()).count()
}

/// SL4, while no call is running: a block that a slot holds is in the cache.
fn assert_within_budget(cache: &TableCache, tables: &[Arc<Table>]) {
    let stats = cache.stats();
    assert!(full_slots(tables) <= stats.entries, "{} slots, {stats:?}", full_slots(tables));
    assert!(stats.used_bytes <= stats.capacity_bytes);
}

#[test]
fn slots_follow_the_cache() {
    let cache = Arc::new(TableCache::new(60_000));
    let (mut tables, entries) = tables(&cache);
    let random = SeededRandom::new(2);
    for round in 0..6_000 {
        let entry = &entries[random.below(entries.len() as u64) as usize];
        get(&tables[round % 2], entry);
        if round % 500 == 0 {
            assert_within_budget(&cache, &tables);
            assert!(full_slots(&tables) > 0);
        }
    }
    // A use through a slot counts as much as a cache hit.
    for _ in 0..50 {
        get(&tables[0], &entries[7]);
        let before = cache.stats()[BlockKind::Data];
        get(&tables[0], &entries[7]);
        let after = cache.stats()[BlockKind::Data];
        assert_eq!((after.hits, after.misses), (before.hits + 1, before.misses), "it stayed");
        let mut cursor = tables[1].cursor(ReadPurpose::Scan);
        cursor.seek_to_first().unwrap();
        while cursor.is_valid() {
            cursor.next().unwrap();
        }
    }
    cache.set_capacity_bytes(10_000);
    assert_within_budget(&cache, &tables);
    cache.set_capacity_bytes(0);
    assert_eq!(full_slots(&tables), 0);
    get(&tables[0], &entries[1]);
    assert_eq!(full_slots(&tables), 0, "what the cache declines gets no slot");
    // A closed table leaves blocks in the cache, which continue without slots.
    cache.set_capacity_bytes(60_000);
    get(&tables[0], &entries[1]);
    get(&tables[1], &entries[1]);
    tables.remove(0);
    assert_eq!(cache.stats().entries, 2);
    assert_eq!(cache.remove_dropped_tables(), 1);
    assert_eq!(full_slots(&tables), 1);
}

/// A doorkeeper candidate gets its slot by the lookup that finds it; most get none.
#[test]
fn doorkeeper_candidates_have_no_slot_until_found() {
    let cache = Arc::new(TableCache::new(60_000));
    let (tables, entries) = tables(&cache);
    entries.iter().for_each(|entry| get(&tables[1], entry));
    // One lookup in each of many blocks: no neighbour finds a candidate before the next one comes.
    entries.iter().step_by(100).for_each(|entry| get(&tables[1], entry));
    assert!(cache.stats().not_admitted > 0, "the cache is full");
    let step = |entry: &TestEntry| {
        get(&tables[0], entry);
        (full_slots(&tables[..1]), cache.stats()[BlockKind::Data].misses)
    };
    let (_, misses) = step(&entries[0]);
    assert_eq!(step(&entries[2_000]), (0, misses + 1), "the first one was dropped before it was found");
    assert_eq!(step(&entries[2_000]), (1, misses + 1), "this one was found");
    assert_eq!(step(&entries[1_000]), (1, misses + 2), "and entered");
    assert_within_budget(&cache, &tables);
}

pub(super) fn cache_of(kind: CacheKind, capacity_bytes: usize) -> Arc<TableCache> {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(0));
    Arc::new(TableCache::of_kind(kind, capacity_bytes, &clock))
}

/// Whatever the cache kind, lookups find cached blocks; slots exist for the kinds that support them.
#[test]
fn hits_are_counted_once_with_and_without_slots() {
    for kind in CacheKind::ALL {
        let cache = cache_of(kind, 1 << 20);
        let (tables, entries) = tables(&cache);
        let blocks = tables[0].blocks() as u64;
        assert_eq!(tables[0].slots.len(), if kind == CacheKind::Slots { tables[0].blocks() } else { 0 });
        for round in 0..3 {
            entries.iter().for_each(|entry| get(&tables[0], entry));
            let data = cache.stats()[BlockKind::Data];
            assert_eq!((data.misses, data.inserts), (blocks, blocks), "{kind}");
            assert_eq!(data.hits, (round + 1) * entries.len() as u64 - blocks, "{kind}");
        }
        let mut cursor = tables[0].cursor(ReadPurpose::Scan);
        cursor.seek_to_first().unwrap();
        while cursor.is_valid() {
            cursor.next().unwrap();
        }
        assert_eq!(cache.stats()[BlockKind::Data].misses, blocks, "{kind}");
        assert_eq!(full_slots(&tables) as u64, if kind.has_shortcuts() { blocks } else { 0 });
    }
}

#[test]
fn threads_share_tables_while_blocks_come_and_go() {
    CacheKind::ALL.into_iter().for_each(share_tables);
}

fn share_tables(kind: CacheKind) {
    let cache = cache_of(kind, 60_000);
    let (tables, entries) = tables(&cache);
    std::thread::scope(|scope| {
        for seed in 0..3 {
            let (tables, entries, cache) = (&tables, &entries, &cache);
            scope.spawn(move || {
                let random = SeededRandom::new(seed);
                let mut cursor = tables[seed as usize % 2].cursor(ReadPurpose::Scan);
                for round in 0..4_000u64 {
                    let at = random.below(entries.len() as u64) as usize;
                    // Some blocks are read by all threads at once.
                    get(&tables[round as usize % 2], &entries[if round % 3 == 0 { at % 40 } else { at }]);
                    if round % 16 == 0 {
                        cursor.seek(&entries[at].key, SeqNo::MAX).unwrap();
                        for entry in entries[at..].iter().take(40) {
                            assert_eq!((cursor.key(), cursor.value()), (&entry.key[..], &entry.value[..]));
                            cursor.next().unwrap();
                        }
                    }
                    if round % 100 == 0 {
                        cache.set_capacity_bytes([60_000, 5_000, 0, 30_000][random.below(4) as usize]);
                    }
                }
            });
        }
    });
    assert_within_budget(&cache, &tables);
    cache.set_capacity_bytes(0);
    assert_eq!(full_slots(&tables), 0);
}

/// A table reopened with its identity is the same to the cache, and its slots are filled again.
#[test]
fn cache_identity_outlives_its_table() {
    let cache = Arc::new(TableCache::new(1 << 20));
    let (fs, entries) = file();
    let open_tables = OpenTables::new(Arc::clone(&cache));
    let identity = TableIdentity::new(&open_tables).unwrap();
    let table = open(&fs, &identity);
    assert_eq!((open_tables.count(), open_tables.memory_bytes()), (1, table.memory_bytes() as u64));
    entries.iter().for_each(|entry| get(&table, entry));
    let (blocks, loads) = (cache.stats().entries, cache.stats()[BlockKind::Data].misses);
    let (number, slots) = (table.number, Arc::downgrade(&table.slots));
    assert!(blocks > 100 && full_slots(std::slice::from_ref(&table)) == blocks);
    drop(table);
    assert_eq!((open_tables.count(), open_tables.memory_bytes()), (0, 0));
    assert_eq!(slots.strong_count(), 0, "HM3: the blocks in the cache keep no slots");
    assert_eq!((cache.stats().entries, cache.has_dropped_tables()), (blocks, false));

    let tables = [open(&fs, &identity)];
    assert_eq!((tables[0].number, full_slots(&tables)), (number, 0));
    entries.iter().for_each(|entry| get(&tables[0], entry));
    assert_eq!(cache.stats()[BlockKind::Data].misses, loads, "nothing is read again");
    assert_eq!(full_slots(&tables), blocks, "each has its slot again");

    // HM2: evictions now empty the new slots.
    cache.set_capacity_bytes(cache.used_bytes() / 2);
    assert!(full_slots(&tables) > 0);
    assert_within_budget(&cache, &tables);
    // Evictions while no table is open have no slot to empty.
    drop(tables);
    cache.set_capacity_bytes(0);
    let tables = [open(&fs, &identity)];
    get(&tables[0], &entries[1]);
    assert_eq!(full_slots(&tables), 0);

    // HM1: the number is free when neither identity nor table is left.
    drop(identity);
    assert!(!cache.has_dropped_tables());
    drop(tables);
    assert!(cache.has_dropped_tables());
}

/// Threads read while the table is closed and opened again, and blocks are loaded and evicted.
#[test]
fn threads_read_while_tables_are_closed_and_opened() {
    let cache = Arc::new(TableCache::new(60_000));
    let (fs, entries) = file();
    let identity = TableIdentity::standalone(Arc::clone(&cache)).unwrap();
    let current = parking_lot::Mutex::new(Some(open(&fs, &identity)));
    std::thread::scope(|scope| {
        for seed in 0..3 {
            let (fs, identity, current, entries, cache) = (&fs, &identity, &current, &entries, &cache);
            scope.spawn(move || {
                let random = SeededRandom::new(seed);
                for round in 0..3_000u64 {
                    let table = current.lock().clone().unwrap();
                    for _ in 0..4 {
                        get(&table, &entries[random.below(entries.len() as u64) as usize]);
                    }
                    drop(table);
                    if round % 50 == seed {
                        let mut current = current.lock();
                        // HM2: closed as by the table cache, readers continue, and it is shared as long as it
                        // lives.
                        let closed = current.take().as_ref().map(Arc::downgrade).unwrap();
                        *current = Some(closed.upgrade().unwrap_or_else(|| open(fs, identity)));
                        cache.set_capacity_bytes([60_000, 5_000, 30_000][random.below(3) as usize]);
                    }
                }
            });
        }
    });
    let tables = [current.into_inner().unwrap()];
    assert_within_budget(&cache, &tables);
    cache.set_capacity_bytes(0);
    assert_eq!(full_slots(&tables), 0);
}

fn with_paged_filters(cache: &Arc<TableCache>) -> (StrictFs, Arc<OpenTables>, Vec<TestEntry>) {
    let (fs, entries) = file();
    (
        fs,
        OpenTables::with_choices(Arc::clone(cache), true, None, esker_env::MemoryLedger::unlimited()),
        entries,
    )
}

/// PF3: a paged filter is charged to the cache and not to its table, is evicted, is read again on demand, and
/// is removed before its table's number is reused.
#[test]
fn paged_filters_come_and_go() {
    for kind in CacheKind::ALL {
        let cache = cache_of(kind, 1 << 20);
        let (fs, open_tables, entries) = with_paged_filters(&cache);
        let kept = open(&fs, &TableIdentity::standalone(Arc::clone(&cache)).unwrap());
        let identity = TableIdentity::new(&open_tables).unwrap();
        let table = open(&fs, &identity);
        let filter_bytes = kept.filter().unwrap().memory_bytes();
        assert!(table.filter().is_none() && table.filter_damage().is_none());
        assert_eq!(table.memory_bytes(), kept.memory_bytes() - filter_bytes, "{kind}");
        let of_filters = || cache.stats()[BlockKind::Filter];
        assert_eq!((of_filters().resident_bytes, of_filters().misses), (0, 0), "it was not probed");

        let refused = |table: &Table| (0..1_000u64).filter(|&hash| !table.may_contain(hash << 32)).count();
        assert_eq!(refused(&table), refused(&kept));
        assert_eq!(of_filters().misses, 1, "the first to ask brought it in");
        let resident = of_filters().resident_bytes;
        assert!(resident >= filter_bytes && resident < filter_bytes + 500, "{resident} for {filter_bytes}");
        cache.set_capacity_bytes(0);
        assert_eq!(of_filters().resident_bytes, 0);
        assert_eq!(refused(&table), 0, "without room there is no filter");
        cache.set_capacity_bytes(1 << 20);
        assert_eq!(refused(&table), refused(&kept), "and with room it is there again");
        assert!(entries.iter().all(|entry| table.may_contain(key_hash(&entry.key))));
        assert_eq!((of_filters().inserts, of_filters().evictions), (2, 1));

        // Closed and opened again, the table finds it in the cache.
        drop(table);
        let table = open(&fs, &identity);
        assert_eq!(refused(&table), refused(&kept));
        assert_eq!((of_filters().inserts, cache.stats().duplicate_loads), (2, 0));
        table.verify().unwrap();
        drop((table, identity));
        assert_eq!(cache.remove_dropped_tables(), 1);
        assert_eq!(of_filters().resident_bytes, 0);
    }
}

/// PF1 while filters and blocks are loaded and evicted: threads find every entry.
#[test]
fn threads_share_paged_filters() {
    for kind in CacheKind::ALL {
        let cache = cache_of(kind, 100_000);
        let (fs, open_tables, entries) = with_paged_filters(&cache);
        let tables = [(), ()].map(|()| open(&fs, &TableIdentity::new(&open_tables).unwrap()));
        std::thread::scope(|scope| {
            for seed in 0..3 {
                let (tables, entries, cache) = (&tables, &entries, &cache);
                scope.spawn(move || {
                    let random = SeededRandom::new(seed);
                    for round in 0..3_000u64 {
                        let entry = &entries[random.below(entries.len() as u64) as usize];
                        let table = &tables[round as usize % 2];
                        assert!(table.may_contain(key_hash(&entry.key)));
                        get(table, entry);
                        if round % 20 == 0 {
                            cache.set_capacity_bytes([100_000, 80_000, 0][random.below(3) as usize]);
                        }
                    }
                });
            }
        });
        let filters = cache.stats()[BlockKind::Filter];
        assert!(filters.inserts > 20 && filters.hits > filters.misses, "{kind}: {filters:?}");
        assert_within_budget(&cache, &tables);
    }
}

#[test]
fn prepared_lookup_works_after_its_block_is_evicted() {
    let cache = Arc::new(TableCache::new(60_000));
    let (tables, entries) = tables(&cache);
    for entry in entries.iter().step_by(41) {
        let hash = key_hash(&entry.key);
        get(&tables[0], entry);
        let begin_lookup = tables[0].begin_lookup(&entry.key, SeqNo::MAX).expect("a tree tells the block");
        cache.set_capacity_bytes(0);
        assert_eq!(full_slots(&tables), 0, "the block is gone");
        cache.set_capacity_bytes(60_000);
        // Another table's block may reuse its address.
        get(&tables[1], entry);
        let hit = begin_lookup.get(&entry.key, hash).unwrap();
        assert_eq!(hit.map(|hit| hit.value.to_vec()).as_ref(), Some(&entry.value));
    }
    assert_within_budget(&cache, &tables);
}
