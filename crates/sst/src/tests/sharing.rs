//! Tables, slots and cache together: what is shared by threads stays right and within the budget.

use super::{IDENTITY, new_fs, options, path, write};
use crate::testing::{Entry, Shape, entries};
use crate::{Block, ReadPurpose, Table, TableOptions};
use esker_base::SeqNo;
use esker_base::checksum::key_hash;
use esker_cache::{BlockCache, BlockKind};
use esker_env::{FileSystem, OpenMode, SeededRandom};
use esker_iter::Cursor;
use std::sync::Arc;

fn tables(cache: &Arc<BlockCache<Block>>) -> (Vec<Arc<Table>>, Vec<Entry>) {
    let entries = entries(Shape::Random, 3_000, 0, &SeededRandom::new(1));
    let fs = new_fs();
    let len = write(&fs, &entries, TableOptions { block_size_bytes: 1_000, ..options() }).file_bytes;
    let open = |id| {
        let file = fs.open(path(), OpenMode::Read).unwrap();
        Arc::new(Table::open(file, len, IDENTITY, Arc::clone(cache), id).unwrap())
    };
    // Two tables of the same file are two tables to the cache.
    (vec![open(1), open(2)], entries)
}

fn get(table: &Table, entry: &Entry) {
    let hit = table.get(&entry.key, key_hash(&entry.key), SeqNo::MAX).unwrap();
    assert_eq!(hit.map(|hit| hit.value.to_vec()).as_ref(), Some(&entry.value));
}

fn full_slots(tables: &[Arc<Table>]) -> usize {
    tables.iter().flat_map(|table| table.slots.iter()).filter(|slot| slot.get().is_some()).count()
}

/// SL4, while nothing is under way: what a slot holds is in the cache.
fn assert_within_budget(cache: &BlockCache<Block>, tables: &[Arc<Table>]) {
    let stats = cache.stats();
    assert!(full_slots(tables) <= stats.entries, "{} slots, {stats:?}", full_slots(tables));
    assert!(stats.used_bytes <= stats.capacity_bytes);
}

#[test]
fn slots_follow_the_cache() {
    let cache = Arc::new(BlockCache::new(60_000));
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
    // A block in use by its slot is worth as much as one that the cache was asked for.
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
    // A closed table leaves blocks in the cache, which go on without slots.
    cache.set_capacity_bytes(60_000);
    get(&tables[0], &entries[1]);
    get(&tables[1], &entries[1]);
    tables.remove(0);
    assert_eq!(cache.stats().entries, 2);
    assert_eq!(cache.remove_table(1), 1);
    assert_eq!(full_slots(&tables), 1);
}

#[test]
fn threads_share_tables_while_blocks_come_and_go() {
    let cache = Arc::new(BlockCache::new(60_000));
    let (tables, entries) = tables(&cache);
    std::thread::scope(|scope| {
        for seed in 0..3 {
            let (tables, entries, cache) = (&tables, &entries, &cache);
            scope.spawn(move || {
                let random = SeededRandom::new(seed);
                let mut cursor = tables[seed as usize % 2].cursor(ReadPurpose::Scan);
                for round in 0..4_000u64 {
                    let at = random.below(entries.len() as u64) as usize;
                    // A few blocks are wanted by all threads at once.
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
