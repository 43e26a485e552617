//! Multi-gets whose blocks are partly in the system's page cache: these are read at once, the others by the
//! read queue, and all of them are verified.

use super::{EXPECTED, new_fs, options, path, write};
use crate::testing::{Shape, TestEntry, entries};
use crate::{
    Lookup, MAX_LOOKUPS, OpenTables, ReadPurpose, Table, TableHit, TableIdentity, TableOptions, multi_get,
};
use esker_base::checksum::key_hash;
use esker_base::{Error, Result, SeqNo};
use esker_cache::BlockCache;
use esker_codec::Codec;
use esker_env::fault::StrictFs;
use esker_env::{
    AsyncReads, Env, File, FileSystem, FileWrapper, MemoryLedger, OpenMode, ReadQueue, SeededRandom,
};
use esker_iter::Cursor;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A file whose first bytes are in the page cache.
#[derive(Debug)]
struct PartlyCached {
    file: Arc<dyn File>,
    cached_end: AtomicU64,
    /// Reads that the page cache answered, and those that it did not.
    cached: AtomicU64,
    refused: AtomicU64,
    /// Other reads.
    plain: AtomicU64,
}

impl PartlyCached {
    /// The reads since the last call: from the page cache, refused, others.
    fn take(&self) -> (u64, u64, u64) {
        let take = |count: &AtomicU64| count.swap(0, Ordering::Relaxed);
        (take(&self.cached), take(&self.refused), take(&self.plain))
    }
}

impl FileWrapper for PartlyCached {
    fn below(&self) -> &dyn File {
        &*self.file
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.plain.fetch_add(1, Ordering::Relaxed);
        self.file.read_at(buffer, offset)
    }

    fn read_cached_at(&self, buffer: &mut [u8], offset: u64) -> bool {
        if offset + buffer.len() as u64 <= self.cached_end.load(Ordering::Relaxed) {
            self.cached.fetch_add(1, Ordering::Relaxed);
            return self.file.read_exact_at(buffer, offset).is_ok();
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        // As a call that has copied something before it comes to what is missing.
        buffer.fill(0xa5);
        false
    }
}

/// The table in a file without a cache, so that each lookup reads its block.
fn open(fs: &StrictFs, way: AsyncReads) -> (Arc<Table>, Arc<PartlyCached>) {
    let len = fs.file_len(path()).unwrap().unwrap();
    let file = Arc::new(PartlyCached {
        file: fs.open(path(), OpenMode::Read).unwrap(),
        cached_end: AtomicU64::new(0),
        cached: AtomicU64::new(0),
        refused: AtomicU64::new(0),
        plain: AtomicU64::new(0),
    });
    let queue = ReadQueue::new(way, &Env::real()).unwrap();
    let tables =
        OpenTables::with_choices(Arc::new(BlockCache::new(0)), false, queue, MemoryLedger::unlimited());
    let identity = TableIdentity::new(&tables).unwrap();
    let table = Table::open(Arc::clone(&file) as Arc<dyn File>, len, EXPECTED, identity).unwrap();
    file.take();
    (Arc::new(table), file)
}

fn get(table: &Table, wanted: &[&TestEntry]) -> Result<Vec<Option<TableHit>>> {
    let lookup = |entry: &TestEntry| key_hash(&entry.key);
    let lookups: Vec<Lookup<'_>> =
        wanted.iter().map(|&entry| Lookup { table, key: &entry.key, hash: lookup(entry) }).collect();
    let (mut pending, mut hits) = (u32::MAX, vec![None; wanted.len()]);
    multi_get(&lookups, SeqNo::MAX, &mut pending, &mut hits)?;
    Ok(hits)
}

fn check(table: &Table, wanted: &[&TestEntry]) {
    for (hit, entry) in get(table, wanted).unwrap().iter().zip(wanted) {
        assert_eq!(hit.as_ref().map(|hit| (hit.tag, &*hit.value)), Some((entry.tag, &entry.value[..])));
    }
}

/// A table, and keys of as many of its blocks as a call takes, in ascending order.
fn sample(fs: &StrictFs, codec: Codec) -> Vec<TestEntry> {
    let entries = entries(Shape::Records, 4_000, 0, &SeededRandom::new(7));
    write(fs, &entries, TableOptions { codec, block_size_bytes: 1_000, ..options() });
    // More entries than a block has.
    entries.into_iter().step_by(100).take(MAX_LOOKUPS).collect()
}

#[test]
fn what_is_in_the_page_cache_is_read_at_once_and_the_rest_by_the_queue() {
    for codec in [Codec::None, Codec::Lz4] {
        let fs = new_fs();
        let sample = sample(&fs, codec);
        let ascending: Vec<&TestEntry> = sample.iter().collect();
        let descending: Vec<&TestEntry> = sample.iter().rev().collect();
        let all = MAX_LOOKUPS as u64;
        for way in [AsyncReads::Threads, AsyncReads::Auto] {
            let (table, file) = open(&fs, way);
            check(&table, &ascending);
            assert_eq!(file.take(), (0, 1, all), "{codec}: one refusal says that the data is on the device");
            file.cached_end.store(u64::MAX, Ordering::Relaxed);
            check(&table, &ascending);
            assert_eq!(file.take(), (all, 0, 0), "{codec}: the queue has nothing to do");
            file.cached_end.store(table.place(table.blocks() / 2).unwrap().start, Ordering::Relaxed);
            check(&table, &ascending);
            let (cached, refused, plain) = file.take();
            assert_eq!((cached + plain, refused), (all, 1), "{codec}: each block once");
            assert!(cached > all / 4 && plain > all / 4, "{codec}: {cached} and {plain}");
            check(&table, &descending);
            assert_eq!(file.take(), (0, 1, all), "{codec}: the first refusal ends the tries");
        }
        // Without a queue nothing is tried: a plain read does both.
        let (table, file) = open(&fs, AsyncReads::Off);
        file.cached_end.store(u64::MAX, Ordering::Relaxed);
        check(&table, &ascending);
        assert_eq!(file.take(), (0, 0, all));
    }
}

#[test]
fn keys_of_one_block_share_a_read_from_the_page_cache() {
    let fs = new_fs();
    let sample = sample(&fs, Codec::Lz4);
    let (table, file) = open(&fs, AsyncReads::Threads);
    file.cached_end.store(u64::MAX, Ordering::Relaxed);
    let twice: Vec<&TestEntry> = sample[..10].iter().flat_map(|entry| [entry, entry]).collect();
    check(&table, &twice);
    // The cache keeps nothing, so the second of each is read by itself.
    assert_eq!(file.take(), (10, 0, 10));
}

#[test]
fn damage_in_the_page_cache_is_an_error_with_its_place() {
    for codec in [Codec::None, Codec::Lz4] {
        let fs = new_fs();
        let sample = sample(&fs, codec);
        let (table, file) = open(&fs, AsyncReads::Threads);
        file.cached_end.store(u64::MAX, Ordering::Relaxed);
        let wanted: Vec<&TestEntry> = sample.iter().collect();
        check(&table, &wanted);
        let writable = fs.open(path(), OpenMode::ReadWrite).unwrap();
        let (mut damaged, blocks) = (0, table.blocks());
        for number in (0..blocks).step_by(3) {
            let start = table.place(number).unwrap().start;
            let mut byte = [0];
            writable.read_exact_at(&mut byte, start + 40).unwrap();
            writable.write_at(&[byte[0] ^ 2], start + 40).unwrap();
            // The other blocks are whole; a call meets the damage if it asks for a key of this one.
            match get(&table, &wanted) {
                Ok(hits) => assert!(hits.iter().all(Option::is_some), "block {number}"),
                Err(error) => {
                    let is_clear = matches!(error, Error::Corruption { .. });
                    assert!(is_clear && error.to_string().contains(&start.to_string()), "{error}");
                    damaged += 1;
                }
            }
            writable.write_at(&byte, start + 40).unwrap();
        }
        assert!(damaged > 5, "{codec}: {damaged} of {blocks} blocks");
    }
}

/// A walk asks for a window ahead only where the one before came from the device.
#[test]
fn windows_in_the_page_cache_are_not_requested_ahead() {
    let mut sample = entries(Shape::Random, 16_000, 0, &SeededRandom::new(8));
    sample.iter_mut().for_each(|entry| entry.value = vec![entry.key[0]; 100]);
    for codec in [Codec::None, Codec::Lz4] {
        let fs = new_fs();
        write(&fs, &sample, TableOptions { codec, ..options() });
        for purpose in [ReadPurpose::Scan, ReadPurpose::Compaction] {
            for is_cached in [false, true] {
                let (table, file) = open(&fs, AsyncReads::Threads);
                file.cached_end.store(if is_cached { u64::MAX } else { 0 }, Ordering::Relaxed);
                let (mut cursor, mut requested) = (table.cursor(purpose), 0);
                cursor.seek_to_first().unwrap();
                for entry in &sample {
                    assert_eq!((cursor.key(), cursor.value()), (&entry.key[..], &entry.value[..]));
                    requested += u64::from(cursor.under_way().is_some());
                    cursor.next().unwrap();
                }
                assert_eq!(requested > 0, !is_cached, "{codec}, {purpose:?}: {requested}");
                let (cached, refused, plain) = file.take();
                let blocks = table.blocks() as u64;
                assert!(cached + plain < blocks / 4, "{codec}, {purpose:?}: {cached} and {plain} reads");
                // A scan reads its first block alone.
                assert!(!is_cached || (refused == 0 && plain <= 1), "{codec}, {purpose:?}: {plain}");
            }
        }
    }
}
