//! Scans over more than a full cache holds: they evict nothing (SD1, SD2), read many blocks with one call in
//! both directions, return what is stored and notice what is damaged.

use super::{EXPECTED, new_fs, options, path, write};
use crate::testing::TestEntry;
use crate::{BlockLayout, ReadPurpose, Table, TableCache, TableIdentity, TableOptions};
use esker_base::checksum::key_hash;
use esker_base::{Error, Result, SeqNo, Tag, ValueKind};
use esker_cache::BlockCache;
use esker_codec::Codec;
use esker_env::fault::StrictFs;
use esker_env::{File, FileSystem, FileWrapper, OpenMode};
use esker_iter::Cursor;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const ENTRIES: u32 = 4_000;
const VALUE_BYTES: usize = 400;
/// Room for a tenth of the entries.
const CACHE_BYTES: usize = ENTRIES as usize / 10 * VALUE_BYTES;

/// Entries whose values shrink by half.
fn sample() -> Vec<TestEntry> {
    let value = |number: u32| -> Vec<u8> {
        let mut state = number.wrapping_mul(2_654_435_761) | 1;
        let mut half = || -> u8 {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state as u8
        };
        let noise: Vec<u8> = (0..VALUE_BYTES / 2).map(|_| half()).collect();
        [&noise[..], &noise[..]].concat()
    };
    let tag = Tag::new(SeqNo::new(1), ValueKind::Put);
    let entry = |number: u32| TestEntry { key: number.to_be_bytes().to_vec(), tag, value: value(number) };
    (0..ENTRIES).map(entry).collect()
}

#[derive(Debug)]
struct CountedFile {
    file: Arc<dyn File>,
    reads: AtomicU64,
}

impl FileWrapper for CountedFile {
    fn below(&self) -> &dyn File {
        &*self.file
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.file.read_at(buffer, offset)
    }
}

struct Opened {
    table: Arc<Table>,
    cache: Arc<TableCache>,
    file: Arc<CountedFile>,
}

fn open(fs: &StrictFs) -> Opened {
    let len = fs.file_len(path()).unwrap().unwrap();
    let file = fs.open(path(), OpenMode::Read).unwrap();
    let file = Arc::new(CountedFile { file, reads: AtomicU64::new(0) });
    let cache = Arc::new(BlockCache::new(CACHE_BYTES));
    let identity = TableIdentity::standalone(Arc::clone(&cache)).unwrap();
    let table = Table::open(Arc::clone(&file) as Arc<dyn File>, len, EXPECTED, identity).unwrap();
    Opened { table: Arc::new(table), cache, file }
}

/// Lookups all over the table, until its cache is full.
fn fill(opened: &Opened, entries: &[TestEntry]) {
    for entry in entries.iter().step_by(7) {
        let found = opened.table.get(&entry.key, key_hash(&entry.key), SeqNo::MAX).unwrap();
        assert_eq!(*found.unwrap().value, *entry.value);
    }
    assert!(opened.cache.stats().not_admitted > 0, "the cache is full");
}

fn check(cursor: &impl Cursor, entry: &TestEntry) {
    assert!(cursor.is_valid());
    assert_eq!((cursor.key(), cursor.tag(), cursor.value()), (&entry.key[..], entry.tag, &entry.value[..]));
}

fn walk(table: &Arc<Table>, entries: &[TestEntry], is_backward: bool) {
    let mut cursor = table.cursor(ReadPurpose::Scan);
    if is_backward {
        cursor.seek_to_last().unwrap();
        for entry in entries.iter().rev() {
            check(&cursor, entry);
            cursor.prev().unwrap();
        }
    } else {
        cursor.seek_to_first().unwrap();
        for entry in entries {
            check(&cursor, entry);
            cursor.next().unwrap();
        }
    }
    assert!(!cursor.is_valid());
}

fn for_each_form(test: impl Fn(TableOptions, &str)) {
    for layout in [BlockLayout::Flat, BlockLayout::Delta] {
        for codec in [Codec::None, Codec::Lz4] {
            test(TableOptions { layout, codec, ..options() }, &format!("{layout:?}, {codec}"));
        }
    }
}

#[test]
fn they_evict_nothing_and_read_many_blocks_at_once() {
    let entries = sample();
    for_each_form(|options, form| {
        let fs = new_fs();
        write(&fs, &entries, options);
        for is_backward in [false, true] {
            let opened = open(&fs);
            fill(&opened, &entries);
            let (before, reads) = (opened.cache.stats(), opened.file.reads.load(Ordering::Relaxed));
            walk(&opened.table, &entries, is_backward);
            let (after, blocks) = (opened.cache.stats(), opened.table.blocks() as u64);
            let reads = opened.file.reads.load(Ordering::Relaxed) - reads;
            let evicted = after.total().evictions - before.total().evictions;
            assert!(evicted < blocks / 50, "{form}, backward {is_backward}: {evicted} of {blocks} evicted");
            assert!(after.not_admitted - before.not_admitted > blocks / 2, "{form}: blocks pass the cache");
            assert!(reads < blocks / 8, "{form}, backward {is_backward}: {reads} reads of {blocks} blocks");
        }
    });
}

/// A walk that turns round within a window and at its ends, step by step beside the entries.
#[test]
fn walks_that_turn_round_see_every_entry() {
    let entries = sample();
    for_each_form(|options, form| {
        let fs = new_fs();
        write(&fs, &entries, options);
        let opened = open(&fs);
        fill(&opened, &entries);
        let mut cursor = opened.table.cursor(ReadPurpose::Scan);
        let mut at = 0usize;
        cursor.seek_to_first().unwrap();
        for (turn, steps) in (0..).zip([900, 40, 1_500, 13, 13, 700, 1, 1, 60, 2_000, 3_000, 1_200]) {
            for _ in 0..steps {
                match turn % 2 {
                    0 if at + 1 < entries.len() => {
                        cursor.next().unwrap();
                        at += 1;
                    }
                    1 if at > 0 => {
                        cursor.prev().unwrap();
                        at -= 1;
                    }
                    _ => break,
                }
                check(&cursor, &entries[at]);
            }
        }
        assert!(opened.cache.stats().not_admitted > 100, "{form}: blocks pass the cache");
    });
}

/// A short scan of what is not in the page cache waits for the device once: its first read has the blocks
/// behind the first one.
#[test]
fn a_short_scan_reads_its_blocks_at_once() {
    let entries = sample();
    for_each_form(|options, form| {
        let fs = new_fs();
        write(&fs, &entries, options);
        let opened = open(&fs);
        fill(&opened, &entries);
        let reads = |walk: &dyn Fn(&mut crate::TableCursor)| {
            let before = opened.file.reads.load(Ordering::Relaxed);
            walk(&mut opened.table.cursor(ReadPurpose::Scan));
            opened.file.reads.load(Ordering::Relaxed) - before
        };
        for (first, last) in [(1_001, 1_021), (2_003, 2_023), (3_000, 3_019)] {
            let forwards = reads(&|cursor| {
                cursor.seek(&entries[first].key, SeqNo::MAX).unwrap();
                for entry in &entries[first..last] {
                    check(cursor, entry);
                    cursor.next().unwrap();
                }
            });
            assert_eq!(forwards, 1, "{form}: reads of two blocks or three");
        }
    });
}

/// A range that is scanned again and again is read from the file no more.
#[test]
fn a_range_that_is_scanned_again_is_kept() {
    let entries = sample();
    let fs = new_fs();
    write(&fs, &entries, TableOptions { codec: Codec::Lz4, ..options() });
    let opened = open(&fs);
    fill(&opened, &entries);
    let range = &entries[1_000..1_080];
    let scan = || {
        let reads = opened.file.reads.load(Ordering::Relaxed);
        let mut cursor = opened.table.cursor(ReadPurpose::Scan);
        cursor.seek(&range[0].key, SeqNo::MAX).unwrap();
        for entry in range {
            check(&cursor, entry);
            cursor.next().unwrap();
        }
        opened.file.reads.load(Ordering::Relaxed) - reads
    };
    let first = scan();
    (0..3).for_each(|_| _ = scan());
    let last = scan();
    assert!(first > 0 && last == 0, "{first} reads at first, {last} after four scans");
}

/// Each block that a scan decodes past the cache was verified: a flipped bit is an error with its place, in
/// both directions, and all before it is right.
#[test]
fn damage_in_a_window_is_an_error_where_it_lies() {
    let entries = sample();
    for_each_form(|options, form| {
        let fs = new_fs();
        write(&fs, &entries, options);
        let clean = open(&fs);
        let place = clean.table.place(clean.table.blocks() / 2).unwrap();
        let file = fs.open(path(), OpenMode::ReadWrite).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, place.start + 60).unwrap();
        file.write_at(&[byte[0] ^ 4], place.start + 60).unwrap();
        for is_backward in [false, true] {
            let opened = open(&fs);
            let ends: Vec<_> = [&entries[..1_000], &entries[3_000..]].concat();
            fill(&opened, &ends);
            let mut cursor = opened.table.cursor(ReadPurpose::Scan);
            if is_backward { cursor.seek_to_last() } else { cursor.seek_to_first() }.unwrap();
            let mut seen = 0;
            let error = loop {
                let entry = if is_backward { &entries[entries.len() - 1 - seen] } else { &entries[seen] };
                check(&cursor, entry);
                seen += 1;
                if let Err(error) = if is_backward { cursor.prev() } else { cursor.next() } {
                    break error;
                }
            };
            assert!(!cursor.is_valid() && seen > 1_000, "{form}: {seen} entries before the damage");
            let is_clear = matches!(&error, Error::Corruption { .. });
            assert!(is_clear && error.to_string().contains(&place.start.to_string()), "{form}: {error}");
        }
    });
}
