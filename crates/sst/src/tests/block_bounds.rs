//! Block bounds: a key between two blocks costs no read, and nothing else changes.

use super::contract::check_everything;
use super::paged_filters::NotedFile;
use super::slots_and_cache::cache_of;
use super::{EXPECTED, identity, new_fs, open_as, options, path, write};
use crate::block_bounds::BoundsSection;
use crate::testing::{SHAPES, Shape, TestEntry, entries, key_of};
use crate::{
    BlockBounds, IndexKind, Lookup, ReadPurpose, SectionKind, Table, TableIdentity, TableOptions,
    TableReading, multi_get,
};
use esker_base::checksum::key_hash;
use esker_base::{Error, SeqNo, Tag, ValueKind};
use esker_cache::{BlockKind, CacheKind};
use esker_env::{FileSystem, OpenMode, SeededRandom};
use esker_filter::FilterPolicy;
use esker_iter::Cursor;
use std::sync::Arc;

fn bounded(index: IndexKind) -> TableOptions {
    TableOptions { bounds: BlockBounds::Always, filter: FilterPolicy::None, index, ..options() }
}

#[test]
fn every_kind_answers_as_without() {
    for (number, shape) in SHAPES.into_iter().enumerate() {
        for (block_size_bytes, seqnos) in [(64, 300), (512, 0)] {
            let random = SeededRandom::new((number * 10 + block_size_bytes) as u64);
            let count = if shape == Shape::Giant { 25 } else { 500 };
            let entries = entries(shape, count, seqnos, &random);
            for kind in IndexKind::ALL {
                println!("{shape:?}, blocks of {block_size_bytes}, {kind}");
                let fs = new_fs();
                write(&fs, &entries, TableOptions { block_size_bytes, ..bounded(kind) });
                // Nothing stays in the cache, so that bounds are checked each time.
                let table = open_as(&fs, 0, kind);
                assert_eq!(table.bounds.is_some(), table.blocks() > 1);
                check_everything(table, &entries, shape, &random);
            }
        }
    }
}

/// The numbers 0 to 9,999,000 in thousands, some thirty to a block.
fn thousands() -> Vec<TestEntry> {
    let entry = |number: u32| TestEntry {
        key: (1_000 * number).to_be_bytes().to_vec(),
        tag: Tag::new(SeqNo::ZERO, ValueKind::Put),
        value: vec![7; 100],
    };
    (0..10_000).map(entry).collect()
}

fn noted(options: TableOptions, cache_bytes: usize) -> (Arc<NotedFile>, Arc<Table>) {
    let (fs, index) = (new_fs(), options.index);
    let len = write(&fs, &thousands(), options).file_bytes;
    let file = NotedFile::over(fs.open(path(), OpenMode::Read).unwrap());
    let reading = TableReading { index };
    let table = Table::open_for(Arc::clone(&file) as _, len, Some(EXPECTED), identity(cache_bytes), reading);
    let table = Arc::new(table.unwrap());
    (file, table)
}

/// For each block but the last: a key behind its last one, and the first key of the next.
fn gaps(table: &Table) -> Vec<(Vec<u8>, Vec<u8>)> {
    let first = |block| table.block_facts(block).unwrap().first_key;
    let before = |key: &[u8]| {
        let number = u32::from_be_bytes(key.try_into().unwrap());
        (number - 500).to_be_bytes().to_vec()
    };
    (1..table.blocks()).map(|block| (before(&first(block)), first(block))).collect()
}

#[test]
fn a_key_between_two_blocks_costs_no_read() {
    for kind in IndexKind::ALL {
        let (file, table) = noted(bounded(kind), 0);
        let gaps = gaps(&table);
        assert!(gaps.len() > 200);
        let data = 0..table.data_end;
        let reads = |of: &dyn Fn()| {
            file.clear();
            of();
            file.bytes_read_of(&data)
        };
        for (absent, next) in &gaps {
            let (hash, seqno) = (key_hash(absent), SeqNo::MAX);
            let get = || assert!(table.get(absent, hash, seqno).unwrap().is_none());
            assert_eq!(reads(&get), 0, "{kind}: {}", absent.escape_ascii());
            let get = || assert!(table.get(next, key_hash(next), seqno).unwrap().is_some());
            assert!(reads(&get) > 0, "{kind}: {}", next.escape_ascii());
            let lookup = Lookup { table: &table, key: absent, hash };
            let get = || {
                let (mut pending, mut hits) = (3, [None, None]);
                multi_get(&[lookup, lookup], seqno, &mut pending, &mut hits).unwrap();
                assert_eq!(pending, 3);
            };
            assert_eq!(reads(&get), 0);
            // A seek reads the block behind the gap, and not the one before it.
            let seek = || {
                let mut cursor = table.cursor(ReadPurpose::Point);
                cursor.seek(absent, seqno).unwrap();
                assert_eq!(cursor.key(), next);
            };
            let number = table.locate(table.index.as_ref().unwrap(), next, Tag::NEWEST).unwrap();
            let place = table.place(number).unwrap();
            assert_eq!(reads(&seek), place.end - place.start, "{kind}: {}", absent.escape_ascii());
        }
    }
}

/// The last entry before a key is in the block where the key belongs or in the one before it, and finding it
/// reads no other block. With bounds it is known beforehand which of the two.
#[test]
fn the_last_entry_before_a_key_costs_one_read() {
    for kind in IndexKind::ALL {
        for bounds in [BlockBounds::Never, BlockBounds::Always] {
            let (file, table) = noted(TableOptions { bounds, ..bounded(kind) }, 0);
            let data = 0..table.data_end;
            for (block, (absent, next)) in gaps(&table).iter().enumerate().step_by(7) {
                let last = (u32::from_be_bytes(next[..].try_into().unwrap()) - 1_000).to_be_bytes();
                let behind_last = [&last[..], &[0]].concat();
                let read = |key: &[u8]| {
                    file.clear();
                    let mut cursor = table.cursor(ReadPurpose::Point);
                    cursor.seek_before(key).unwrap();
                    assert_eq!(cursor.key(), last);
                    file.bytes_read_of(&data)
                };
                let len = |block| table.place(block).map(|place| place.end - place.start).unwrap();
                // The gap's first half decides for a key just behind the block's end.
                assert_eq!(read(&behind_last), len(block), "{kind}, {bounds}: {}", last.escape_ascii());
                let in_gap = read(absent);
                match bounds {
                    BlockBounds::Always => {
                        assert_eq!(in_gap, len(block), "{kind}: {}", absent.escape_ascii());
                    }
                    _ => assert!(in_gap <= len(block) + len(block + 1), "{kind}"),
                }
                assert!(read(next) <= len(block) + len(block + 1), "{kind}, {bounds}");
            }
        }
    }
}

#[test]
fn misses_are_counted_where_blocks_are_read() {
    for cache in CacheKind::ALL {
        for index in IndexKind::ALL {
            let fs = new_fs();
            let len = write(&fs, &thousands(), bounded(index)).file_bytes;
            let cache = cache_of(cache, 64 << 20);
            let identity = TableIdentity::standalone(Arc::clone(&cache)).unwrap();
            let file = fs.open(path(), OpenMode::Read).unwrap();
            let table = Table::open_for(file, len, Some(EXPECTED), identity, TableReading { index });
            let table = Arc::new(table.unwrap());
            let loads = || (cache.stats()[BlockKind::Data].misses, cache.stats()[BlockKind::Data].inserts);
            let before = loads();
            let gaps = gaps(&table);
            for (absent, _) in &gaps {
                let hash = key_hash(absent);
                assert!(table.get(absent, hash, SeqNo::MAX).unwrap().is_none());
                let (mut pending, mut hits) = (1, [None]);
                multi_get(
                    &[Lookup { table: &table, key: absent, hash }],
                    SeqNo::MAX,
                    &mut pending,
                    &mut hits,
                )
                .unwrap();
            }
            assert_eq!(loads(), before, "{index}: no block was read");
            // By seeks, lookups of one and of several keys, and a walk: every read is counted once, and
            // loaded once.
            let quarter = table.blocks() as u64 / 4;
            let keys: Vec<&[u8]> = gaps.iter().map(|(_, next)| &next[..]).collect();
            let (sought, rest) = keys.split_at(keys.len() / 4);
            let (looked_up, rest) = rest.split_at(keys.len() / 4);
            for key in sought {
                let mut cursor = table.cursor(ReadPurpose::Point);
                for round in 0..3 {
                    cursor.prepare_seek(key, round);
                }
                cursor.seek(key, SeqNo::MAX).unwrap();
                assert_eq!(cursor.key(), *key);
            }
            for key in looked_up {
                assert!(table.get(key, key_hash(key), SeqNo::MAX).unwrap().is_some());
            }
            for keys in rest.chunks(8).take(3) {
                let lookup = |key: &&'_ [u8]| (key_hash(key), key.to_vec());
                let asked: Vec<(u64, Vec<u8>)> = keys.iter().chain(keys).map(lookup).collect();
                let lookups: Vec<Lookup<'_>> =
                    asked.iter().map(|(hash, key)| Lookup { table: &table, key, hash: *hash }).collect();
                let (mut pending, mut hits) = ((1 << lookups.len()) - 1, vec![None; lookups.len()]);
                multi_get(&lookups, SeqNo::MAX, &mut pending, &mut hits).unwrap();
                assert_eq!(pending, 0);
            }
            let (misses, inserts) = loads();
            assert!(
                misses == inserts && misses >= 2 * quarter,
                "{index}: {misses} missed, {inserts} brought in"
            );
            let mut cursor = table.cursor(ReadPurpose::Scan);
            cursor.seek_to_first().unwrap();
            while cursor.is_valid() {
                cursor.next().unwrap();
            }
            assert_eq!(loads(), (table.blocks() as u64, table.blocks() as u64), "{index}");
        }
    }
}

/// Blocks of tables with bounds are cached and found again, whatever the kind of the cache.
#[test]
fn blocks_are_read_once() {
    for kind in CacheKind::ALL {
        let fs = new_fs();
        let len = write(&fs, &thousands(), bounded(IndexKind::STree)).file_bytes;
        let file = NotedFile::over(fs.open(path(), OpenMode::Read).unwrap());
        let identity = TableIdentity::standalone(cache_of(kind, 8 << 20)).unwrap();
        let table = Table::open(Arc::clone(&file) as _, len, EXPECTED, identity).unwrap();
        for round in 0..2 {
            file.clear();
            for entry in thousands() {
                assert!(table.get(&entry.key, key_hash(&entry.key), SeqNo::MAX).unwrap().is_some());
            }
            let read = file.bytes_read_of(&(0..table.data_end));
            assert_eq!(read == 0, round == 1, "{kind:?}, round {round}: {read} bytes");
        }
    }
}

/// Tables of the same keys, and how many of their absent keys the bounds exclude.
#[test]
fn most_of_what_lies_between_blocks_is_refused() {
    for shape in [Shape::Random, Shape::Decimal, Shape::Paths] {
        let random = SeededRandom::new(2);
        let entries = entries(shape, 20_000, 0, &random);
        let fs = new_fs();
        write(&fs, &entries, TableOptions { block_size_bytes: 512, ..bounded(IndexKind::STree) });
        let table = open_as(&fs, 0, IndexKind::STree);
        let index = table.index.as_ref().unwrap();
        let firsts: Vec<Vec<u8>> =
            (0..table.blocks()).map(|block| table.block_facts(block).unwrap().first_key).collect();
        let (mut between, mut refused) = (0, 0);
        for _ in 0..100_000 {
            let key = key_of(shape, 20_000, &random);
            let at = entries.partition_point(|entry| entry.key < key);
            let Some(next) = entries.get(at).filter(|next| next.key != key) else { continue };
            let is_between = firsts[1..].binary_search(&next.key).is_ok();
            let block = table.locate(index, &key, Tag::NEWEST).unwrap();
            let is_refused = table.excludes(index, block, &key).unwrap();
            assert!(is_between || !is_refused, "{}", key.escape_ascii());
            between += u32::from(is_between);
            refused += u32::from(is_refused);
        }
        println!("{shape:?}: {refused} of {between}");
        assert!(between > 2_000 && f64::from(refused) > 0.9 * f64::from(between), "{refused} of {between}");
    }
}

#[test]
fn tables_have_them_as_asked_for() {
    let entries = entries(Shape::Random, 2_000, 0, &SeededRandom::new(1));
    for bounds in BlockBounds::ALL {
        for filter in [FilterPolicy::None, FilterPolicy::DEFAULT] {
            let fs = new_fs();
            write(&fs, &entries, TableOptions { bounds, filter, ..options() });
            let table = open_as(&fs, 0, IndexKind::STree);
            let wanted = bounds == BlockBounds::Always
                || bounds == BlockBounds::Unfiltered && filter == FilterPolicy::None;
            let section = table.sections().iter().find(|section| section.kind == SectionKind::BOUNDS);
            let bytes = wanted.then(|| 6 * (table.blocks() - 1));
            assert_eq!(section.map(|section| section.len as usize), bytes);
            assert!(section.is_none_or(|section| section.is_optional));
            assert_eq!(table.index_facts().unwrap().unwrap().bounds_bytes, bytes);
        }
    }
}

#[test]
fn damaged_bounds_are_left_out_and_told() {
    let fs = new_fs();
    let len = write(&fs, &thousands(), bounded(IndexKind::STree)).file_bytes;
    let at = {
        let table = open_as(&fs, 0, IndexKind::STree);
        table.verify().unwrap();
        *table.sections().iter().find(|section| section.kind == SectionKind::BOUNDS).unwrap()
    };
    let file = fs.open(path(), OpenMode::ReadWrite).unwrap();
    file.write_at(&[0xa5], at.offset + at.len / 2).unwrap();
    let table = Table::open(file, len, EXPECTED, identity(0)).unwrap();
    assert!(table.bounds.is_none() && table.index_damage().is_some_and(Error::is_corruption));
    for entry in thousands().iter().step_by(7) {
        assert!(table.get(&entry.key, key_hash(&entry.key), SeqNo::MAX).unwrap().is_some());
    }
    assert!(table.verify().unwrap_err().is_corruption());
}

/// A checksum proves that bytes are what was written, not that they are true of the blocks.
#[test]
fn verification_compares_bounds_with_blocks() {
    let fs = new_fs();
    let len = write(&fs, &thousands(), bounded(IndexKind::STree)).file_bytes;
    let file = || fs.open(path(), OpenMode::Read).unwrap();
    let mut table = Table::open(file(), len, EXPECTED, identity(0)).unwrap();
    let section = table.sections().iter().find(|section| section.kind == SectionKind::BOUNDS).unwrap();
    let mut bytes = vec![0; section.len as usize];
    file().read_exact_at(&mut bytes, section.offset).unwrap();
    // A last key that is too small, and a first key that is too great.
    for (byte, wrong) in [(6 * 10 + 1, 0), (6 * 10 + 4, 0xff)] {
        let mut bytes = bytes.clone();
        bytes[byte] = wrong;
        table.bounds = Some(BoundsSection::decode(&bytes, table.blocks() as u64).unwrap());
        let error = table.verify().unwrap_err();
        assert!(error.is_corruption() && error.to_string().contains("the bounds exclude key"), "{error}");
    }
}
