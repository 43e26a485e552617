//! Paged filters: when they are read, and how often.

use super::{EXPECTED, new_fs, options, paging_filters, path, write};
use crate::testing::{Shape, TestEntry, entries};
use crate::{SectionKind, Table, TableCache};
use esker_base::{Result, SeqNo, checksum::key_hash};
use esker_cache::BlockKind;
use esker_env::{File, FileSystem, FileWrapper, OpenMode, SeededRandom};
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A file that records reads, and may block readers of an offset until a condition holds.
#[derive(Debug)]
pub(super) struct NotedFile {
    file: Arc<dyn File>,
    reads: Mutex<Vec<Range<u64>>>,
    gate: Mutex<Option<Gate>>,
}

/// A read across `at` waits until so many threads have missed a filter.
#[derive(Clone, Debug)]
struct Gate {
    at: u64,
    cache: Arc<TableCache>,
    misses: u64,
}

impl NotedFile {
    pub(super) fn over(file: Arc<dyn File>) -> Arc<NotedFile> {
        Arc::new(NotedFile { file, reads: Mutex::default(), gate: Mutex::default() })
    }

    pub(super) fn clear(&self) {
        self.reads.lock().clear();
    }

    /// Bytes of a range that were read; those read twice count twice.
    pub(super) fn bytes_read_of(&self, range: &Range<u64>) -> u64 {
        let overlap = |read: &Range<u64>| read.end.min(range.end).saturating_sub(read.start.max(range.start));
        self.reads.lock().iter().map(overlap).sum()
    }
}

impl FileWrapper for NotedFile {
    fn below(&self) -> &dyn File {
        &*self.file
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let read = offset..offset + buffer.len() as u64;
        self.reads.lock().push(read.clone());
        let gate = self.gate.lock().clone();
        if let Some(gate) = gate.filter(|gate| read.contains(&gate.at)) {
            while gate.cache.stats()[BlockKind::Filter].misses < gate.misses {
                std::thread::yield_now();
            }
        }
        self.file.read_at(buffer, offset)
    }
}

/// A table of so many keys with a paged filter, its file, and the range of the filter.
struct Paged {
    cache: Arc<TableCache>,
    file: Arc<NotedFile>,
    table: Table,
    entries: Vec<TestEntry>,
    filter: Range<u64>,
}

impl Paged {
    fn new(keys: usize) -> Paged {
        let fs = new_fs();
        let entries = entries(Shape::Random, keys, 0, &SeededRandom::new(9));
        let len = write(&fs, &entries, options()).file_bytes;
        let file = fs.open(path(), OpenMode::Read).unwrap();
        let file = NotedFile::over(file);
        let cache = Arc::new(TableCache::new(4 << 20));
        let identity = paging_filters(&cache);
        let table = Table::open(Arc::clone(&file) as _, len, EXPECTED, identity).unwrap();
        let section = table.sections().iter().find(|section| section.kind == SectionKind::FILTER);
        let section = section.unwrap();
        let filter = section.offset..section.offset + section.len;
        Paged { cache, file, table, entries, filter }
    }
}

/// Opening reads no more of a paged filter than the read of the file's end includes.
#[test]
fn opening_reads_no_paged_filter() {
    let paged = Paged::new(80_000);
    let len = paged.filter.end - paged.filter.start;
    let by_opening = paged.file.bytes_read_of(&paged.filter);
    assert!(len > 90_000 && by_opening <= 16 << 10, "{by_opening} of {len} bytes read");
    assert_eq!(paged.cache.stats()[BlockKind::Filter].inserts, 0);
    // Each byte of the end is read once.
    let file_bytes = paged.table.file_bytes();
    assert!(
        paged.file.bytes_read_of(&(0..file_bytes)) <= file_bytes - paged.table.data_end - len + (16 << 10)
    );

    for entry in &paged.entries {
        assert!(paged.table.may_contain(key_hash(&entry.key)));
    }
    assert_eq!(paged.file.bytes_read_of(&paged.filter), by_opening + len, "the first lookup reads all of it");
    for entry in paged.entries.iter().step_by(1_000) {
        assert!(paged.table.get(&entry.key, key_hash(&entry.key), SeqNo::MAX).unwrap().is_some());
    }
    paged.table.verify().unwrap();
}

/// PF4: threads that miss a filter together read it once.
#[test]
fn a_missing_filter_is_read_once_for_all() {
    const THREADS: u64 = 4;
    let paged = Paged::new(20_000);
    let len = paged.filter.end - paged.filter.start;
    for round in 1..=5 {
        paged.file.clear();
        // No thread can read before all have missed it.
        let gate = Gate { at: paged.filter.start, cache: Arc::clone(&paged.cache), misses: round * THREADS };
        *paged.file.gate.lock() = Some(gate);
        let refused = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (paged, refused) = (&paged, &refused);
                scope.spawn(move || {
                    let is_refused = !paged.table.may_contain(key_hash(&[thread as u8]));
                    refused.fetch_add(usize::from(is_refused), Ordering::Relaxed);
                    assert!(paged.table.may_contain(key_hash(&paged.entries[thread as usize].key)));
                });
            }
        });
        assert_eq!(paged.file.bytes_read_of(&paged.filter), len);
        let filters = paged.cache.stats()[BlockKind::Filter];
        assert_eq!((filters.inserts, filters.misses), (round, round * THREADS));
        assert_eq!(paged.cache.stats().duplicate_loads, 0);
        assert!(refused.into_inner() >= 3);
        let capacity_bytes = paged.cache.capacity_bytes();
        paged.cache.set_capacity_bytes(0);
        paged.cache.set_capacity_bytes(capacity_bytes);
    }
}
