//! Observed reads give the answers of other reads (OR2) and note what the cache counts (OR1).

use super::read_modes::OnDisk;
use super::{new_fs, open_as, options, write};
use crate::testing::{SHAPES, Shape, TestEntry, entries, key_of};
use crate::{BlocksRead, IndexKind, ObservedReads, ReadPurpose, Table, TableOptions};
use esker_base::SeqNo;
use esker_base::checksum::key_hash;
use esker_cache::{BlockKind, KindStats};
use esker_codec::Codec;
use esker_env::{OpenMode, SeededRandom};
use esker_iter::Cursor;
use std::sync::Arc;

/// The lookups in the cache during a call.
struct CacheCounts {
    data: KindStats,
    index: KindStats,
}

fn counted(table: &Table, read: impl FnOnce()) -> CacheCounts {
    let stats = || table.cache.stats();
    let before = stats();
    read();
    let after = stats();
    let of = |kind: BlockKind| KindStats {
        hits: after[kind].hits - before[kind].hits,
        misses: after[kind].misses - before[kind].misses,
        ..KindStats::default()
    };
    CacheCounts { data: of(BlockKind::Data), index: of(BlockKind::Index) }
}

/// OR1 for one read.
fn assert_noted(seen: BlocksRead, counts: &CacheCounts) {
    let CacheCounts { data, index } = counts;
    assert_eq!((seen.from_slots + seen.from_cache, seen.from_files), (data.hits, data.misses), "{seen:?}");
    assert_eq!((seen.other_from_cache, seen.other_from_files), (index.hits, index.misses), "{seen:?}");
    assert_eq!(seen.from_files == 0, seen.file_bytes == 0);
}

/// What a reader finds, by a plain and by an observed lookup, and what the second one read.
fn check_lookup(table: &Arc<Table>, key: &[u8], seqno: SeqNo) -> BlocksRead {
    let hash = key_hash(key);
    let plain = table.get(key, hash, seqno).unwrap().map(|hit| (hit.tag, hit.value.to_vec()));
    let section = ObservedReads::enter();
    let mut observed = None;
    let counts = counted(table, || observed = table.get_observed(key, hash, seqno).unwrap());
    assert_eq!(observed.map(|hit| (hit.tag, hit.value.to_vec())), plain, "{key:?}");
    let seen = section.take();
    assert_noted(seen, &counts);
    seen
}

fn walk(table: &Arc<Table>, purpose: ReadPurpose) -> Vec<TestEntry> {
    let mut cursor = table.cursor(purpose);
    let mut found = Vec::new();
    cursor.seek_to_first().unwrap();
    while cursor.is_valid() {
        let (key, tag, value) = cursor.entry();
        found.push(TestEntry { key: key.to_vec(), tag, value: value.to_vec() });
        cursor.next().unwrap();
    }
    found
}

fn check_walk(table: &Arc<Table>) -> BlocksRead {
    let plain = walk(table, ReadPurpose::Scan);
    let section = ObservedReads::enter();
    let mut observed = Vec::new();
    let counts = counted(table, || observed = walk(table, ReadPurpose::Observed));
    assert_eq!(observed, plain);
    let seen = section.take();
    assert_noted(seen, &counts);
    seen
}

fn check(table: &Arc<Table>, shape: Shape, entries: &[TestEntry], random: &SeededRandom) -> BlocksRead {
    let mut seen = BlocksRead::default();
    for _ in 0..120 {
        let entry = &entries[random.below(entries.len() as u64) as usize];
        let key = if random.below(3) == 0 { key_of(shape, 400, random) } else { entry.key.clone() };
        seen += check_lookup(table, &key, SeqNo::new(random.below(102)));
    }
    seen += check_walk(table);
    seen
}

#[test]
fn whatever_the_index_an_observed_read_is_the_same_read() {
    let mut total = BlocksRead::default();
    for (round, shape) in SHAPES.into_iter().enumerate() {
        for kind in IndexKind::ALL {
            let random = SeededRandom::new(round as u64);
            let count = if shape == Shape::Giant { 25 } else { 400 };
            let entries = entries(shape, count, 100, &random);
            let fs = new_fs();
            write(&fs, &entries, TableOptions { index: kind, block_size_bytes: 512, ..options() });
            // A cache for all blocks, and one for few of them.
            for cache_bytes in [10 << 20, 20_000] {
                let table = open_as(&fs, cache_bytes, kind);
                total += check(&table, shape, &entries, &random);
            }
        }
    }
    assert!(total.from_slots > 1_000 && total.from_cache > 1_000 && total.from_files > 500, "{total:?}");
    assert!(total.other_from_cache > 100 && total.other_from_files > 100, "{total:?}");
}

#[test]
fn blocks_of_mapped_files_are_noted_apart() {
    for codec in [Codec::None, Codec::Lz4] {
        let random = SeededRandom::new(7);
        let entries = entries(Shape::Versions, 400, 100, &random);
        let on_disk =
            OnDisk::new("observed", &entries, TableOptions { codec, block_size_bytes: 512, ..options() });
        let table = on_disk.open(OpenMode::ReadMapped, 10 << 20, None).unwrap();
        let seen = check(&table, Shape::Versions, &entries, &random);
        assert!(seen.mapped > 0, "{seen:?}");
    }
}

#[test]
fn a_block_is_read_once_and_then_found_by_its_slot() {
    let entries = entries(Shape::Random, 300, 0, &SeededRandom::new(3));
    let fs = new_fs();
    write(&fs, &entries, options());
    let table = open_as(&fs, 10 << 20, IndexKind::default());
    let section = ObservedReads::enter();
    let get = || {
        let key = &entries[17].key;
        table.get_observed(key, key_hash(key), SeqNo::MAX).unwrap().expect("it is in the table");
        section.take()
    };
    let first = get();
    assert_eq!((first.data_blocks(), first.from_files), (1, 1));
    let bytes = table.block_facts(0).unwrap();
    assert!(first.file_bytes > 0, "{bytes:?}");
    assert_eq!(get(), BlocksRead { from_slots: 1, ..BlocksRead::default() });
}
