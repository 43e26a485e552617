//! Cache warming: output blocks of a merge are in the cache before any reader requests them.

use super::slots_and_cache::cache_of;
use super::{EXPECTED, new_fs, options};
use crate::block::header::HEADER_BYTES;
use crate::testing::{SHAPES, Shape, TestEntry, entries};
use crate::{
    BlockLayout, CacheWarmer, CachedPart, IndexKind, InputReading, JobControl, OpenTables, Table,
    TableIdentity, TableOptions, TableReading, TableWriter, WarmedTable,
};
use esker_base::checksum::key_hash;
use esker_base::{Result, SeqNo, Tag, ValueKind};
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

    pub(super) fn input(&self, entries: &[TestEntry], options: &TableOptions) -> Arc<Table> {
        let mut writer = self.writer(1, options);
        entries.iter().for_each(|entry| writer.add(&entry.key, entry.tag, &entry.value).unwrap());
        writer.finish().unwrap();
        self.open(1, &TableIdentity::new(&self.open).unwrap())
    }

    /// Writes a table's entries to another one, as a merge does.
    fn merge(&self, input: &Arc<Table>, options: &TableOptions) -> Option<WarmedTable> {
        let reading = InputReading { control: Arc::new(NoHurry), residency: Arc::default(), scratch: None };
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

    /// The table that [`Tables::merge`] wrote, opened with its warmed identity.
    fn output(&self, warmed: &WarmedTable) -> Arc<Table> {
        self.open(2, warmed.identity())
    }
}

pub(super) fn load(table: &Table, numbers: impl Iterator<Item = usize>, admission: Admission) {
    numbers.for_each(|number| drop(table.block(number, admission).unwrap()));
}

/// The blocks of a table that are in the cache. They have the bytes that a reader would load (HO5).
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
fn warm_blocks_equal_loaded_blocks() {
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
            assert_eq!(before.warm_inserts, table.blocks() as u64);
            assert!(table.slots.iter().all(|slot| slot.get().is_some()), "slots are filled");
            for entry in entries.iter().step_by(10) {
                let hit = table.get(&entry.key, key_hash(&entry.key), entry.tag.seqno()).unwrap();
                assert_eq!(hit.expect("it was merged").value.to_vec(), entry.value);
            }
            let (before, after) = (before[BlockKind::Data], tables.open.cache().stats()[BlockKind::Data]);
            assert_eq!(before.misses, after.misses, "no reader loaded a block");
        }
    }
}

/// A buffer that grew for a block of half a mebibyte has room for a mebibyte: that is not the length of what
/// is in it.
#[test]
fn blocks_below_the_bound_of_large_values_are_warmed_whatever_room_their_buffer_has() {
    let lengths = [300, 550, 600, 730, 900, 1_012, 1_023, 1_024, 700, 20].map(|kib| kib << 10);
    let entries: Vec<TestEntry> = lengths
        .iter()
        .enumerate()
        .map(|(number, &len)| TestEntry {
            key: vec![b'a' + number as u8; 8],
            tag: Tag::new(SeqNo::new(1), ValueKind::Put),
            value: b"half of it repeats itself, ".iter().copied().cycle().take(len).collect(),
        })
        .collect();
    let tables = Tables::new(CacheKind::Slots, 256 << 20);
    let options = TableOptions { codec: Codec::Lz4, ..options() };
    let input = tables.input(&entries, &options);
    load(&input, 0..input.blocks(), Admission::Point);
    let warmed = tables.merge(&input, &options).expect("everything is warm");
    let table = tables.output(&warmed);
    let warm = resident(&table);
    let is_large = |number: usize| entries[number].value.len() + 64 >= 1 << 20;
    assert_eq!(warm, (0..entries.len()).filter(|&number| !is_large(number)).collect::<Vec<_>>());
}

#[test]
fn warming_works_without_slots_and_with_every_cache_kind() {
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
fn nothing_is_warmed_without_resident_inputs() {
    let tables = Tables::new(CacheKind::Slots, 256 << 20);
    let sample = entries(Shape::Random, 2_000, 0, &SeededRandom::new(6));
    let input = tables.input(&sample, &options());
    assert!(tables.merge(&input, &options()).is_none());
    assert_eq!(tables.open.cache().stats().entries, 0);
}

/// If a part of the input is resident, the same part of the output is warmed.
#[test]
fn cold_blocks_are_not_warmed() {
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
fn scan_blocks_stay_within_the_scan_share() {
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
fn warming_displaces_at_most_its_share() {
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
    let handed_bytes = (resident_bytes as u64 * stats.warm_inserts / input.blocks() as u64) as usize;
    let share = resident_bytes / 8;
    assert!((share / 2..=share + share / 4).contains(&handed_bytes), "{handed_bytes} of {resident_bytes}");
    assert_eq!(stats.not_admitted, 0, "every block was admitted");
    drop(warmed);
}

/// HO6: nothing stays of a table that is never opened.
#[test]
fn blocks_of_an_abandoned_table_leave_the_cache() {
    let tables = Tables::new(CacheKind::Slots, 64 << 20);
    let sample = entries(Shape::Random, 2_000, 0, &SeededRandom::new(6));
    let input = tables.input(&sample, &options());
    load(&input, 0..input.blocks(), Admission::Point);
    let before = tables.open.cache().stats().used_bytes;
    let warmed = tables.merge(&input, &options());
    assert!(tables.open.cache().stats().used_bytes > before && warmed.is_some());
    drop(warmed);
    assert!(tables.open.cache().has_dropped_tables());
    tables.open.cache().remove_dropped_tables();
    assert_eq!(tables.open.cache().stats().used_bytes, before);
}

/// HO11: a change of the kind of reader is detected soon, although not every block is probed.
#[test]
fn scan_and_point_residency_are_told_apart() {
    let tables = Tables::new(CacheKind::Slots, 256 << 20);
    let sample = entries(Shape::Random, 20_000, 0, &SeededRandom::new(7));
    let small = TableOptions { block_size_bytes: 1_000, ..options() };
    let input = tables.input(&sample, &small);
    let (cache, half) = (tables.open.cache(), input.blocks() / 2);
    load(&input, 0..half, Admission::Scan);
    load(&input, half..input.blocks(), Admission::Point);
    let warmed = tables.merge(&input, &small).expect("everything is warm");
    let table = tables.output(&warmed);
    let of_scans = |number: &usize| cache.admission_of(&table.cache_key(*number)) == Some(Admission::Scan);
    let scanned = (0..table.blocks()).filter(of_scans).count();
    assert!(scanned.abs_diff(half) <= 16, "{scanned} of {half}");
    assert!((0..half - 16).all(|number| of_scans(&number)), "they lie where they lay");
}

/// HO11: in a full cache a block is not warmed because the one beside it is in use.
#[test]
fn a_full_cache_is_queried_for_each_block() {
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
    let before = cache.stats().warm_inserts;
    let warmed = tables.merge(&input, &small).expect("some are warm");
    let warm_inserts = (cache.stats().warm_inserts - before) as usize;
    assert!(
        (used.len() / 2..=used.len() * 3 / 2).contains(&warm_inserts),
        "{warm_inserts} of {}",
        used.len()
    );
    drop(warmed);
}

/// HM4, SL4: a block that leaves the cache before its table is opened is in no slot.
#[test]
fn warm_blocks_may_be_evicted_before_the_table_opens() {
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
