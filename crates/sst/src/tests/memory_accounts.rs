//! What cursors and writers hold of the memory budget: bounded, and given back on every path.

use super::contract::check_everything;
use super::{EXPECTED, new_fs, options, path, write};
use crate::testing::{Shape, TestEntry, entries};
use crate::{
    InputReading, JobControl, OpenTables, ReadPurpose, ScratchFiles, Table, TableIdentity, TableOptions,
    TableWriter,
};
use esker_base::large_buffer::LARGE_BYTES;
use esker_base::{Error, Result, SeqNo, Tag, ValueKind};
use esker_cache::BlockCache;
use esker_codec::Codec;
use esker_env::fault::StrictFs;
use esker_env::{
    AsyncReads, Env, File, FileSystem, FileWrapper, MemoryLedger, OpenMode, ReadQueue, SeededRandom,
    StdFileSystem,
};
use esker_iter::Cursor;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const BUDGET_BYTES: u64 = 4 << 20;

fn open(fs: &StrictFs, ledger: &Arc<MemoryLedger>, way: AsyncReads) -> Arc<Table> {
    let queue = ReadQueue::new(way, &Env::real()).unwrap();
    let tables = OpenTables::with_choices(Arc::new(BlockCache::new(0)), false, queue, Arc::clone(ledger));
    let len = fs.file_len(path()).unwrap().unwrap();
    let file = fs.open(path(), OpenMode::Read).unwrap();
    Arc::new(Table::open(file, len, EXPECTED, TableIdentity::new(&tables).unwrap()).unwrap())
}

fn put(key: u32, len: usize) -> TestEntry {
    // Bytes that compress to about a half.
    let value = (0..len).map(|at| if at % 2 == 0 { ((at * 7919) >> 5) as u8 } else { 0 }).collect();
    let tag = Tag::from_parts(SeqNo::new(u64::from(key) + 1), ValueKind::Put as u8);
    TestEntry { key: key.to_be_bytes().to_vec(), tag, value }
}

/// Cursors that stay open in the middle of a walk hold windows; however many they are, these have the share
/// of scans, and single blocks beyond.
#[test]
fn windows_of_all_scans_together_stay_within_their_share() {
    const CURSORS: usize = 60;
    let fs = new_fs();
    let sample: Vec<TestEntry> = (0..12_000).map(|key| put(key, 300)).collect();
    write(&fs, &sample, options());
    for way in [AsyncReads::Off, AsyncReads::Threads] {
        let ledger = MemoryLedger::for_budget(BUDGET_BYTES);
        let table = open(&fs, &ledger, way);
        let account = &ledger.read_ahead;
        let mut cursors: Vec<_> = (0..CURSORS).map(|_| table.cursor(ReadPurpose::Scan)).collect();
        let (mut most, mut seen) = (0, 0);
        for cursor in &mut cursors {
            cursor.seek_to_first().unwrap();
            for entry in &sample[..9_000] {
                assert_eq!(cursor.value(), entry.value);
                cursor.next().unwrap();
                seen += 1;
            }
            most = most.max(account.held_bytes());
        }
        let single_blocks = CURSORS as u64 * 3 * (options().block_size_bytes as u64 + 512);
        assert!(most > BUDGET_BYTES / 64, "{most}: scans read ahead");
        assert!(most <= BUDGET_BYTES / 16 + single_blocks, "{most} bytes by {CURSORS} cursors");
        assert_eq!(seen, CURSORS * 9_000);
        drop(cursors);
        assert_eq!(ledger.held_bytes(), 0, "{way}");
    }
}

/// A file that notes the most that large values have while it is written.
#[derive(Debug)]
struct WatchedFile {
    file: Arc<dyn File>,
    ledger: Arc<MemoryLedger>,
    most: Arc<AtomicU64>,
}

impl FileWrapper for WatchedFile {
    fn below(&self) -> &dyn File {
        &*self.file
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.most.fetch_max(self.ledger.large_values.held_bytes(), Ordering::Relaxed);
        self.file.write_at(bytes, offset)
    }
}

fn large_sample() -> Vec<TestEntry> {
    let len = |key: u32| if key.is_multiple_of(3) { LARGE_BYTES + 1000 * key as usize } else { 100 };
    (0..12).map(|key| put(key, len(key))).collect()
}

/// Writers on two threads have one large value in work together, if two are more than the share.
#[test]
fn large_values_take_turns() {
    let (ledger, most) = (MemoryLedger::for_budget(BUDGET_BYTES), Arc::new(AtomicU64::new(0)));
    let sample = large_sample();
    std::thread::scope(|scope| {
        for number in 0..2 {
            let (ledger, most, sample) = (&ledger, &most, &sample);
            scope.spawn(move || {
                let file =
                    new_fs().open(Path::new(&format!("/t/{number}.sst")), OpenMode::CreateNew).unwrap();
                let file = WatchedFile { file, ledger: Arc::clone(ledger), most: Arc::clone(most) };
                let mut writer = TableWriter::new(Arc::new(file), options()).unwrap();
                writer.set_memory(ledger);
                for entry in sample {
                    writer.add(&entry.key, entry.tag, &entry.value).unwrap();
                }
                assert!(ledger.jobs.held_bytes() >= 256 << 10, "the buffer of a piece");
                writer.finish().unwrap();
            });
        }
    });
    let largest = sample.iter().map(|entry| entry.value.len() as u64).max().unwrap();
    let most = most.load(Ordering::Relaxed);
    assert!(most >= 2 * LARGE_BYTES as u64 && most <= 2 * largest, "{most} for values of {largest}");
    assert_eq!(ledger.held_bytes(), 0);
}

/// Blocks of large values are closed early; what is found, in every order, is the same.
#[test]
fn tables_with_large_values_read_back() {
    for codec in [Codec::None, Codec::Lz4] {
        let mut sample = large_sample();
        // Older versions of a key behind a large one, and of a large one behind a small one.
        for key in [3, 4] {
            let older = Tag::from_parts(SeqNo::ZERO, ValueKind::Put as u8);
            let at = sample.iter().position(|entry| entry.key == put(key, 0).key).unwrap();
            let value = put(key, if key == 4 { LARGE_BYTES } else { 9 }).value;
            sample.insert(at + 1, TestEntry { key: sample[at].key.clone(), tag: older, value });
        }
        let fs = new_fs();
        write(&fs, &sample, TableOptions { codec, ..options() });
        let ledger = MemoryLedger::for_budget(BUDGET_BYTES);
        let table = open(&fs, &ledger, AsyncReads::Off);
        super::contract::check_walks(&table, &sample, ReadPurpose::Compaction);
        check_everything(table, &sample, Shape::Giant, &SeededRandom::new(1));
        assert_eq!(ledger.held_bytes(), 0);
    }
}

/// A merge that stands on a decompressed large value holds it once, without the image in the file.
#[test]
fn a_merge_holds_a_large_value_once() {
    let fs = new_fs();
    let sample: Vec<TestEntry> = (0..4).map(|key| put(key, 2 * LARGE_BYTES)).collect();
    write(&fs, &sample, TableOptions { codec: Codec::Lz4, ..options() });
    let ledger = MemoryLedger::for_budget(BUDGET_BYTES);
    let table = open(&fs, &ledger, AsyncReads::Threads);
    let mut cursor = table.cursor(ReadPurpose::Compaction);
    cursor.seek_to_first().unwrap();
    for entry in &sample {
        assert_eq!(cursor.value(), entry.value);
        let held = ledger.jobs.held_bytes() + ledger.large_inputs.held_bytes();
        let (least, most) = (2 * LARGE_BYTES as u64, 2 * LARGE_BYTES as u64 + (200 << 10));
        assert!((least..=most).contains(&held), "{held} bytes");
        cursor.next().unwrap();
    }
    assert!(!cursor.is_valid());
    drop(cursor);
    assert_eq!(ledger.held_bytes(), 0);
}

#[derive(Debug)]
struct NoHurry;

impl JobControl for NoHurry {
    fn before_read(&self, _bytes: u64) -> Result<()> {
        Ok(())
    }

    fn check_cancelled(&self) -> Result<()> {
        Ok(())
    }
}

/// Files on the disk that the tests run on, or none.
#[derive(Debug, Default)]
struct Scratch {
    is_full: bool,
    files: AtomicU64,
}

impl ScratchFiles for Scratch {
    fn scratch_file(&self) -> Result<Option<Arc<dyn File>>> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        if self.is_full {
            return Err(Error::Full("no room".into()));
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("esker-scratch-{}-{number}", std::process::id()));
        let file = StdFileSystem.open(&path, OpenMode::CreateNew)?;
        StdFileSystem.remove_file(&path)?;
        self.files.fetch_add(1, Ordering::Relaxed);
        Ok(Some(file))
    }
}

/// WB1, WB2: of the large values that the inputs of a merge stand on only some are in memory, if there is
/// room for files. What is read is the same.
#[test]
fn the_inputs_of_a_merge_hold_a_few_large_values_in_memory() {
    const INPUTS: usize = 6;
    for (codec, is_full) in [(Codec::Lz4, false), (Codec::None, false), (Codec::Lz4, true)] {
        let fs = new_fs();
        let sample: Vec<TestEntry> = (0..3).map(|key| put(key, 2 * LARGE_BYTES)).collect();
        write(&fs, &sample, TableOptions { codec, ..options() });
        let ledger = MemoryLedger::for_budget(16 * BUDGET_BYTES);
        let table = open(&fs, &ledger, AsyncReads::Off);
        let scratch = Arc::new(Scratch { is_full, ..Scratch::default() });
        let reading = InputReading {
            control: Arc::new(NoHurry),
            residency: Arc::default(),
            scratch: Some(Arc::clone(&scratch) as Arc<dyn ScratchFiles>),
        };
        let mut inputs: Vec<_> = (0..INPUTS).map(|_| table.job_cursor(reading.clone())).collect();
        inputs.iter_mut().for_each(|input| input.seek_to_first().unwrap());
        let held = ledger.held_bytes() / LARGE_BYTES as u64;
        assert!(if is_full { held >= 2 * INPUTS as u64 } else { held <= 8 }, "{held} MiB with {codec}");
        for entry in &sample {
            for input in &mut inputs {
                assert!(input.value() == entry.value, "another value with {codec}");
                input.next().unwrap();
            }
        }
        let waited = scratch.files.load(Ordering::Relaxed) as usize;
        assert!(if is_full { waited == 0 } else { waited > INPUTS }, "{waited} with {codec}");
        drop(inputs);
        assert_eq!(ledger.held_bytes(), 0);
    }
}

/// A write that fails gives back the turn and the buffers.
#[test]
fn a_failed_writer_holds_nothing() {
    let fs = new_fs();
    let ledger = MemoryLedger::for_budget(BUDGET_BYTES);
    let random = SeededRandom::new(4);
    let file = fs.open(path(), OpenMode::CreateNew).unwrap();
    let mut writer = TableWriter::new(Arc::new(FailingFile(file)), options()).unwrap();
    writer.set_memory(&ledger);
    let failed = entries(Shape::Decimal, 50, 0, &random)
        .iter()
        .chain([&put(u32::MAX, LARGE_BYTES)])
        .any(|entry| writer.add(&entry.key, entry.tag, &entry.value).is_err());
    assert!(failed);
    drop(writer);
    assert_eq!(ledger.held_bytes(), 0);
    drop(ledger.large_values.wait_for_turn(u64::MAX));
}

#[derive(Debug)]
struct FailingFile(Arc<dyn File>);

impl FileWrapper for FailingFile {
    fn below(&self) -> &dyn File {
        &*self.0
    }

    fn write_at(&self, _: &[u8], _: u64) -> Result<()> {
        Err(esker_base::Error::Full("the device is full".into()))
    }
}
