//! Blocks of a merge's output that are in the cache before anybody has asked for them.

use super::slots_and_cache::cache_of;
use super::{EXPECTED, new_fs, options};
use crate::block::header::HEADER_BYTES;
use crate::testing::{SHAPES, Shape, TestEntry, entries};
use crate::{
    BlockLayout, CacheWarmer, CachedPart, IndexKind, InputReading, JobControl, OpenTables, Table,
    TableIdentity, TableOptions, TableReading, TableWriter, WarmedTable,
};
use esker_base::Result;
use esker_base::checksum::key_hash;
use esker_cache::{Admission, BlockKind, CacheKind};
use esker_codec::Codec;
use esker_env::fault::StrictFs;
use esker_env::{FileSystem, OpenMode, SeededRandom};
use esker_iter::Cursor;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Debug)]
struct NoHurry;

impl JobControl for NoHurry {
    fn before_read(&self, _: u64) -> Result<()> {
        Ok(())
    }

    fn check_cancelled(&self) -> Result<()> {
        Ok(())
    }
}

/// Some tables of one cache.
pub(super) struct Tables {
    pub(super) fs: StrictFs,
    pub(super) open: Arc<OpenTables>,
    index: IndexKind,
}

pub(super) fn table_path(number: u32) -> PathBuf {
    format!("/t/{number}.sst").into()
}

impl Tables {
    pub(super) fn new(kind: CacheKind, cache_bytes: usize) -> Tables {
        let open = OpenTables::new(cache_of(kind, cache_bytes));
        Tables { fs: new_fs(), open, index: IndexKind::default() }
    }

    fn writer(&self, number: u32, options: &TableOptions) -> TableWriter {
        let file = self.fs.open(&table_path(number), OpenMode::CreateNew).unwrap();
        TableWriter::new(file, TableOptions { index: self.index, ..options.clone() }).unwrap()
    }

    fn open(&self, number: u32, identity: &Arc<TableIdentity>) -> Arc<Table> {
        let len = self.fs.file_len(&table_path(number)).unwrap().unwrap();
        let file = self.fs.open(&table_path(number), OpenMode::Read).unwrap();
        let reading = TableReading { index: self.index };
        Arc::new(Table::open_for(file, len, Some(EXPECTED), Arc::clone(identity), reading).unwrap())
    }

    /// A table of entries that nobody has read yet.
    pub(super) fn input(&self, entries: &[TestEntry], options: &TableOptions) -> Arc<Table> {
        let mut writer = self.writer(1, options);
        entries.iter().for_each(|entry| writer.add(&entry.key, entry.tag, &entry.value).unwrap());
        writer.finish().unwrap();
        self.open(1, &TableIdentity::new(&self.open).unwrap())
    }

    /// Writes what is in a table into another one, as a merge does.
    fn merge(&self, input: &Arc<Table>, options: &TableOptions) -> Option<WarmedTable> {
        let reading = InputReading { control: Arc::new(NoHurry), residency: Arc::default() };
        let mut writer = self.writer(2, options);
        writer.set_cache_warmer(CacheWarmer::new(&self.open, None, &reading.residency));
        let mut cursor = input.job_cursor(reading);
        cursor.seek_to_first().unwrap();
        while cursor.is_valid() {
            writer.add(cursor.key(), cursor.tag(), cursor.value()).unwrap();
            cursor.next().unwrap();
        }
        writer.finish_warmed().unwrap().1
    }

    /// The table that [`Tables::merge`] wrote, with what it has inherited.
    fn output(&self, warmed: &WarmedTable) -> Arc<Table> {
        self.open(2, warmed.identity())
    }
}

/// Has blocks of a table loaded.
pub(super) fn load(table: &Table, numbers: impl Iterator<Item = usize>, admission: Admission) {
    numbers.for_each(|number| drop(table.block(number, admission).unwrap()));
}

/// The blocks of a table that are in the cache. Those that are have the bytes that a reader would load (HO5).
fn resident(table: &Table) -> Vec<usize> {
    let is_there = |&number: &usize| {
        let Some(CachedPart::Block(block)) = table.cache.peek(&table.cache_key(number)) else { return false };
        let loaded = table.read_block(number).unwrap();
        let range = 0..HEADER_BYTES + loaded.header().raw_len as usize;
        assert_eq!(block.contents().slice(range.clone()), loaded.contents().slice(range), "block {number}");
        assert_eq!(block.memory_bytes(), loaded.memory_bytes());
        true
    };
    (0..table.blocks()).filter(is_there).collect()
}

#[test]
fn blocks_of_what_was_resident_are_there_as_a_reader_would_load_them() {
    let codecs = [Codec::None, Codec::Lz4, Codec::ZstdDictionary { level: 1 }];
    for (codec, layout) in codecs
        .into_iter()
        .flat_map(|codec| [BlockLayout::Flat, BlockLayout::Delta].map(|layout| (codec, layout)))
    {
        for shape in SHAPES {
            let tables = Tables::new(CacheKind::Slots, 256 << 20);
            let entries = entries(shape, 2_000, 9, &SeededRandom::new(5));
            let input = tables.input(&entries, &TableOptions { block_size_bytes: 1_000, ..options() });
            load(&input, 0..input.blocks(), Admission::Point);
            let options = TableOptions { codec, layout, block_size_bytes: 1_000, ..options() };
            let warmed = tables.merge(&input, &options).expect("everything is warm");
            let (table, before) = (tables.output(&warmed), tables.open.cache().stats());
            assert_eq!(resident(&table).len(), table.blocks(), "{codec:?} {layout:?} {shape:?}");
            assert_eq!(before.handed_over, table.blocks() as u64);
            assert!(table.slots.iter().all(|slot| slot.get().is_some()), "slots are filled");
            for entry in entries.iter().step_by(10) {
                let hit = table.get(&entry.key, key_hash(&entry.key), entry.tag.seqno()).unwrap();
                assert_eq!(hit.expect("it was merged").value.to_vec(), entry.value);
            }
            let (before, after) = (before[BlockKind::Data], tables.open.cache().stats()[BlockKind::Data]);
            assert_eq!(before.misses, after.misses, "nobody had to read");
        }
    }
}

#[test]
fn tables_without_slots_and_all_kinds_of_caches_are_handed_on() {
    let sample = entries(Shape::Random, 2_000, 0, &SeededRandom::new(6));
    for kind in CacheKind::ALL {
        for index in [IndexKind::default(), IndexKind::BTreePages] {
            let tables = Tables { index, ..Tables::new(kind, 256 << 20) };
            let options = TableOptions { block_size_bytes: 1_000, ..options() };
            let input = tables.input(&sample, &options);
            load(&input, 0..input.blocks(), Admission::Point);
            let warmed = tables.merge(&input, &options).expect("everything is warm");
            let table = tables.output(&warmed);
            assert_eq!(resident(&table).len(), table.blocks(), "{kind} {index:?}");
        }
    }
}

/// HO8.
#[test]
fn where_nothing_is_resident_nothing_is_handed_on() {
    let tables = Tables::new(CacheKind::Slots, 256 << 20);
    let sample = entries(Shape::Random, 2_000, 0, &SeededRandom::new(6));
    let input = tables.input(&sample, &options());
    assert!(tables.merge(&input, &options()).is_none());
    assert_eq!(tables.open.cache().stats().entries, 0);
}

/// Of a table of which a part is in use, the same part of what takes its place.
#[test]
fn what_was_not_resident_stays_out() {
    let tables = Tables::new(CacheKind::Slots, 256 << 20);
    let sample = entries(Shape::Random, 20_000, 0, &SeededRandom::new(7));
    let small = TableOptions { block_size_bytes: 1_000, ..options() };
    let input = tables.input(&sample, &small);
    let blocks = input.blocks();
    assert!(blocks > 200);
    // A range of blocks, and far from it single ones.
    let (range, single) = (blocks / 4..blocks / 2, (blocks * 6 / 10..blocks).step_by(10));
    load(&input, range.clone().chain(single.clone()), Admission::Point);
    let warmed = tables.merge(&input, &small).expect("some are warm");
    let resident = resident(&tables.output(&warmed));
    let is_near = |number: &&usize| (range.start..=range.end).contains(*number);
    let near = resident.iter().filter(is_near).count();
    assert!(near >= range.len() - 2, "{near} of {}", range.len());
    let others = resident.len() - near;
    assert!((single.len() * 3 / 4..=single.len() * 3 / 2).contains(&others), "{others} for {}", single.len());
}

#[test]
fn what_scans_brought_in_stays_within_their_share() {
    let tables = Tables::new(CacheKind::Slots, 256 << 20);
    let sample = entries(Shape::Random, 2_000, 0, &SeededRandom::new(6));
    let input = tables.input(&sample, &options());
    load(&input, 0..input.blocks(), Admission::Scan);
    let before = tables.open.cache().stats().scanned_bytes;
    let warmed = tables.merge(&input, &options()).expect("everything is warm");
    let table = tables.output(&warmed);
    let of_table: usize =
        (0..table.blocks()).map(|number| table.block(number, Admission::Scan).unwrap().memory_bytes()).sum();
    assert!(tables.open.cache().stats().scanned_bytes >= before + of_table);
}

/// HO7, and BS4: however much is resident, others lose no more than the share of it, and the budget is kept.
#[test]
fn a_full_cache_gives_no_more_than_a_share() {
    let sample = entries(Shape::Random, 20_000, 0, &SeededRandom::new(8));
    let small = TableOptions { block_size_bytes: 1_000, ..options() };
    let tables = Tables::new(CacheKind::Slots, 64 << 20);
    let input = tables.input(&sample, &small);
    load(&input, 0..input.blocks(), Admission::Point);
    let cache = tables.open.cache();
    let resident_bytes = cache.stats().used_bytes;
    cache.set_capacity_bytes(resident_bytes);
    let warmed = tables.merge(&input, &small).expect("everything is warm");
    let stats = cache.stats();
    assert!(stats.used_bytes <= stats.capacity_bytes);
    let handed_bytes = (resident_bytes as u64 * stats.handed_over / input.blocks() as u64) as usize;
    let share = resident_bytes / 8;
    assert!((share / 2..=share + share / 4).contains(&handed_bytes), "{handed_bytes} of {resident_bytes}");
    assert_eq!(stats.turned_away, 0, "nobody waits at the door");
    drop(warmed);
}

/// HO6: of a table that nobody ever opens nothing stays.
#[test]
fn what_never_becomes_a_table_leaves_the_cache() {
    let tables = Tables::new(CacheKind::Slots, 64 << 20);
    let sample = entries(Shape::Random, 2_000, 0, &SeededRandom::new(6));
    let input = tables.input(&sample, &options());
    load(&input, 0..input.blocks(), Admission::Point);
    let before = tables.open.cache().stats().used_bytes;
    let warmed = tables.merge(&input, &options());
    assert!(tables.open.cache().stats().used_bytes > before && warmed.is_some());
    drop(warmed);
    assert!(tables.open.cache().has_departed());
    tables.open.cache().remove_departed();
    assert_eq!(tables.open.cache().stats().used_bytes, before);
}

/// HO11: for whom blocks are there is soon known where it changes, though not every one is asked.
#[test]
fn stretches_of_scans_and_of_lookups_stay_apart() {
    let tables = Tables::new(CacheKind::Slots, 256 << 20);
    let sample = entries(Shape::Random, 20_000, 0, &SeededRandom::new(7));
    let small = TableOptions { block_size_bytes: 1_000, ..options() };
    let input = tables.input(&sample, &small);
    let (cache, half) = (tables.open.cache(), input.blocks() / 2);
    load(&input, 0..half, Admission::Scan);
    load(&input, half..input.blocks(), Admission::Point);
    let warmed = tables.merge(&input, &small).expect("everything is warm");
    let table = tables.output(&warmed);
    let of_scans = |number: &usize| cache.wanted_by(&table.cache_key(*number)) == Some(Admission::Scan);
    let scanned = (0..table.blocks()).filter(of_scans).count();
    assert!(scanned.abs_diff(half) <= 16, "{scanned} of {half}");
    assert!((0..half - 16).all(|number| of_scans(&number)), "they lie where they lay");
}

/// HO11: of a full cache nothing is carried on because its neighbour is in use.
#[test]
fn a_full_cache_is_asked_about_each_block() {
    let tables = Tables::new(CacheKind::Slots, 64 << 20);
    let sample = entries(Shape::Random, 20_000, 0, &SeededRandom::new(8));
    let small = TableOptions { block_size_bytes: 1_000, ..options() };
    let input = tables.input(&sample, &small);
    load(&input, 0..input.blocks(), Admission::Point);
    let cache = tables.open.cache();
    // All have used up their chances, and one in sixteen is used again.
    let full_bytes = cache.stats().used_bytes;
    cache.set_capacity_bytes(full_bytes - full_bytes / 20);
    let is_there = |number: &usize| input.slots[*number].address() != 0;
    let used: Vec<usize> = (0..input.blocks()).step_by(16).filter(is_there).collect();
    load(&input, used.iter().copied(), Admission::Point);
    let before = cache.stats().handed_over;
    let warmed = tables.merge(&input, &small).expect("some are warm");
    let handed_over = (cache.stats().handed_over - before) as usize;
    assert!((used.len() / 2..=used.len() * 3 / 2).contains(&handed_over), "{handed_over} of {}", used.len());
    drop(warmed);
}

/// HM4, SL4: what leaves the cache before its table is opened is in no slot.
#[test]
fn what_leaves_before_the_table_is_opened_is_gone() {
    let tables = Tables::new(CacheKind::Slots, 64 << 20);
    let sample = entries(Shape::Random, 2_000, 0, &SeededRandom::new(6));
    let input = tables.input(&sample, &options());
    load(&input, 0..input.blocks(), Admission::Point);
    let warmed = tables.merge(&input, &options()).expect("everything is warm");
    let cache = tables.open.cache();
    cache.set_capacity_bytes(cache.stats().used_bytes / 4);
    let table = tables.output(&warmed);
    let is_full = |number: &usize| table.slots[*number].address() != 0;
    let full: Vec<usize> = (0..table.blocks()).filter(is_full).collect();
    assert!(!full.is_empty() && full.len() < table.blocks(), "{} of {}", full.len(), table.blocks());
    assert_eq!(full, resident(&table));
}
