//! What jobs read from the cache and from files (HO12), and the bytes that they are charged for it.

use super::cache_warmer::{Tables, load, table_path};
use super::read_modes::OnDisk;
use super::{EXPECTED, options, path};
use crate::testing::{Shape, TestEntry, entries};
use crate::{
    InputReading, JobControl, OpenTables, ReadPurpose, Table, TableCursor, TableIdentity, TableOptions,
};
use esker_base::{Error, Result};
use esker_cache::{Admission, BlockCache, CacheKind};
use esker_codec::Codec;
use esker_env::{AsyncReads, Env, File, FileSystem, FileWrapper, OpenMode, Random, ReadQueue, SeededRandom};
use esker_iter::Cursor;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ThreadId;

#[derive(Debug, Default)]
struct CountedReads(AtomicU64);

impl CountedReads {
    fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl JobControl for CountedReads {
    fn before_read(&self, bytes: u64) -> Result<()> {
        self.0.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn check_cancelled(&self) -> Result<()> {
        Ok(())
    }
}

fn job(table: &Arc<Table>) -> (TableCursor, Arc<CountedReads>) {
    let control = Arc::new(CountedReads::default());
    let reading = InputReading {
        control: Arc::clone(&control) as Arc<dyn JobControl>,
        residency: Arc::default(),
        scratch: None,
    };
    (table.job_cursor(reading), control)
}

fn check(cursor: &TableCursor, entry: &TestEntry) {
    assert!(cursor.is_valid());
    let expected = (&entry.key[..], entry.tag, &entry.value[..]);
    assert_eq!((cursor.key(), cursor.tag(), cursor.value()), expected);
}

fn walk(cursor: &mut TableCursor, entries: &[TestEntry], mut between: impl FnMut(&TableCursor)) {
    cursor.seek_to_first().unwrap();
    for entry in entries {
        check(cursor, entry);
        cursor.next().unwrap();
        between(cursor);
    }
    assert!(!cursor.is_valid());
}

fn data_bytes(table: &Table, blocks: impl Iterator<Item = usize>) -> u64 {
    blocks.map(|number| table.place(number).unwrap()).map(|place| place.end - place.start).sum()
}

/// HO12: a job takes blocks whose slots are full from the cache, and the rest from the file; that is not
/// recorded as a use.
#[test]
fn a_job_reads_resident_blocks_from_the_cache() {
    let sample = entries(Shape::Random, 20_000, 0, &SeededRandom::new(12));
    let in_cache: [fn(usize) -> bool; 4] =
        [|_| true, |number| number % 2 == 0, |number| number % 50 < 40, |number| number % 50 == 7];
    for (codec, is_in_cache) in
        [Codec::None, Codec::Lz4].into_iter().flat_map(|codec| in_cache.map(|choice| (codec, choice)))
    {
        let tables = Tables::new(CacheKind::Slots, 256 << 20);
        let input = tables.input(&sample, &TableOptions { codec, block_size_bytes: 1_000, ..options() });
        load(&input, (0..input.blocks()).filter(|&number| is_in_cache(number)), Admission::Point);
        // Reading the damaged copy of these blocks would be detected.
        let file = tables.fs.open(&table_path(1), OpenMode::ReadWrite).unwrap();
        for number in (0..input.blocks()).filter(|&number| is_in_cache(number)) {
            let place = input.place(number).unwrap();
            file.write_at(&vec![0xa5; (place.end - place.start) as usize], place.start).unwrap();
        }
        let before = tables.open.cache().stats();
        let (mut cursor, control) = job(&input);
        walk(&mut cursor, &sample, |_| ());
        drop(cursor);
        assert_eq!(tables.open.cache().stats(), before);
        // Each block is charged once, from the cache or the file.
        assert_eq!(control.bytes(), data_bytes(&input, 0..input.blocks()));
        // A cursor that is no job's reads everything from the file.
        let mut cursor = input.cursor(ReadPurpose::Compaction);
        let mut walked = cursor.seek_to_first();
        while walked.is_ok() && cursor.is_valid() {
            walked = cursor.next();
        }
        assert!(matches!(walked, Err(Error::Corruption(_))), "{walked:?}");
    }
}

/// Raw blocks of a mapped file are used in place, and those between are read or cached: each is charged once.
#[test]
fn blocks_of_mapped_files_count_once() {
    let mut sample = entries(Shape::Decimal, 12_000, 0, &SeededRandom::new(5));
    let random = SeededRandom::new(6);
    for (at, entry) in sample.iter_mut().enumerate().filter(|(_, entry)| !entry.value.is_empty()) {
        // Some ranges can be compressed and some cannot.
        let is_random = at / 300 % 3 == 0;
        entry.value = (0..100).map(|_| if is_random { random.next_u64() as u8 } else { 3 }).collect();
    }
    for codec in [Codec::None, Codec::Lz4] {
        let disk = OnDisk::new("mapped-jobs", &sample, TableOptions { codec, ..options() });
        for step in [1, 3, usize::MAX] {
            let table = disk.open(OpenMode::ReadMapped, 64 << 20, None).unwrap();
            load(&table, (0..table.blocks()).step_by(step), Admission::Point);
            let (mut cursor, control) = job(&table);
            walk(&mut cursor, &sample, |_| ());
            assert_eq!(
                control.bytes(),
                data_bytes(&table, 0..table.blocks()),
                "{codec}, one in {step} resident"
            );
        }
    }
}

#[derive(Debug)]
struct ObservedFile {
    file: Arc<dyn File>,
    by: ThreadId,
    own_reads: AtomicU64,
    bytes: AtomicU64,
}

impl FileWrapper for ObservedFile {
    fn below(&self) -> &dyn File {
        &*self.file
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        if std::thread::current().id() == self.by {
            self.own_reads.fetch_add(1, Ordering::Relaxed);
        }
        let read = self.file.read_at(buffer, offset)?;
        self.bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// A table whose reads overlap by threads, and its file.
fn watched(entries: &[TestEntry]) -> (Arc<Table>, Arc<ObservedFile>) {
    let fs = super::new_fs();
    super::write(&fs, entries, options());
    let len = fs.file_len(path()).unwrap().unwrap();
    let file = fs.open(path(), OpenMode::Read).unwrap();
    let by = std::thread::current().id();
    let file = Arc::new(ObservedFile { file, by, own_reads: AtomicU64::new(0), bytes: AtomicU64::new(0) });
    let queue = ReadQueue::new(AsyncReads::Threads, &Env::real()).unwrap();
    let cache = Arc::new(BlockCache::new(256 << 20));
    let identity = TableIdentity::new(&OpenTables::with_choices(
        cache,
        false,
        queue,
        esker_env::MemoryLedger::unlimited(),
    ))
    .unwrap();
    let table = Table::open(Arc::clone(&file) as Arc<dyn File>, len, EXPECTED, identity).unwrap();
    (Arc::new(table), file)
}

fn large_sample() -> Vec<TestEntry> {
    let mut sample = entries(Shape::Random, 16_000, 0, &SeededRandom::new(1));
    sample.iter_mut().filter(|entry| !entry.value.is_empty()).for_each(|entry| entry.value = vec![3; 100]);
    sample
}

/// A reader may load the block that the pending window begins with, or all of it, or some in its middle: the
/// job reads nothing twice, and each block is charged once.
#[test]
fn a_pending_window_is_used_although_blocks_became_resident() {
    let sample = large_sample();
    let chosen: [fn(Range<usize>) -> Range<usize>; 4] = [
        |window| window.start..window.start + 1,
        |window| window,
        |window| window.start + 2..window.start + 4,
        |window| window.start..window.end - 1,
    ];
    for choose in chosen {
        let (table, file) = watched(&sample);
        let opened = file.bytes.load(Ordering::Relaxed);
        let (mut cursor, control) = job(&table);
        let (mut seen, mut by_reader, mut windows) = (0, 0, 0);
        walk(&mut cursor, &sample, |cursor| {
            let Some(window) = cursor.under_way().filter(|window| window.start != seen) else { return };
            seen = window.start;
            windows += 1;
            let blocks = choose(window);
            load(&table, blocks.clone(), Admission::Point);
            by_reader += data_bytes(&table, blocks);
        });
        assert!(windows > 2, "{windows}");
        let all = data_bytes(&table, 0..table.blocks());
        assert_eq!(control.bytes(), all);
        // A window that was not waited for may still be pending, and counts less then.
        assert!(file.bytes.load(Ordering::Relaxed) - opened <= all + by_reader);
    }
}

/// Reads of a job overlap with its work, except those that start anew after many resident blocks.
#[test]
fn reads_overlap_between_blocks_that_are_resident() {
    let sample = large_sample();
    for (part, most) in [(0, 1), (10, 1), (50, 1), (90, 8)] {
        let (table, file) = watched(&sample);
        let random = SeededRandom::new(part);
        load(&table, (0..table.blocks()).filter(|_| random.below(100) < part), Admission::Point);
        file.own_reads.store(0, Ordering::Relaxed);
        let (mut cursor, control) = job(&table);
        walk(&mut cursor, &sample, |_| ());
        assert_eq!(control.bytes(), data_bytes(&table, 0..table.blocks()));
        let waited = file.own_reads.load(Ordering::Relaxed);
        assert!((1..=most).contains(&waited), "{waited} reads were waited for, {part} % of blocks resident");
    }
}
