//! Tables as a whole: answers, and behaviour with damaged files and failing calls.

mod block_bounds;
mod cache_warmer;
mod cancellation;
mod contract;
mod damage;
mod dictionaries;
mod faults;
mod filter_watch;
mod galloping;
mod global_seqno;
mod index_kinds;
mod job_reads;
mod memory_accounts;
mod observed_reads;
mod page_alignment;
mod page_cache_reads;
mod paged_filters;
mod read_modes;
mod read_patterns;
mod scans_beyond_the_cache;
mod slots_and_cache;
mod write_back;
mod writer_fast_path;

use crate::testing::TestEntry;
use crate::{
    ExpectedTable, IndexKind, OpenTables, Table, TableCache, TableIdentity, TableOptions, TableReading,
    TableSummary, TableWriter,
};
use esker_base::{KeyspaceId, TableUid};
use esker_cache::BlockCache;
use esker_env::fault::StrictFs;
use esker_env::{FileSystem, MemoryLedger, OpenMode};
use std::path::Path;
use std::sync::Arc;

pub(crate) const UID: TableUid = TableUid(0xfeed_beef_0bad_cafe);
pub(crate) const KEYSPACE: KeyspaceId = KeyspaceId(3);
pub(crate) const EXPECTED: ExpectedTable = ExpectedTable { uid: UID, keyspace: KEYSPACE, global_seqno: None };

pub(crate) fn options() -> TableOptions {
    TableOptions { uid: UID, keyspace: KEYSPACE, ..TableOptions::default() }
}

pub(crate) fn path() -> &'static Path {
    Path::new("/t/7.sst")
}

pub(crate) fn new_fs() -> StrictFs {
    let fs = StrictFs::new();
    fs.create_dir_all(Path::new("/t")).unwrap();
    fs
}

/// The identity of a table whose filter goes into the cache.
pub(crate) fn paging_filters(cache: &Arc<TableCache>) -> Arc<TableIdentity> {
    let tables = OpenTables::with_choices(Arc::clone(cache), true, None, MemoryLedger::unlimited());
    TableIdentity::new(&tables).unwrap()
}

pub(crate) fn write(fs: &StrictFs, entries: &[TestEntry], options: TableOptions) -> TableSummary {
    let file = fs.open(path(), OpenMode::CreateOrTruncate).unwrap();
    let mut writer = TableWriter::new(file, options).unwrap();
    for entry in entries {
        writer.add(&entry.key, entry.tag, &entry.value).unwrap();
    }
    let estimated = writer.estimated_file_bytes() as f64;
    let summary = writer.finish().unwrap();
    assert_eq!(fs.file_len(path()).unwrap(), Some(summary.file_bytes));
    if entries.len() > 1_000 {
        let ratio = estimated / summary.file_bytes as f64;
        assert!((0.8..1.2).contains(&ratio), "{estimated} bytes estimated, {} written", summary.file_bytes);
    }
    summary
}

pub(crate) fn identity(cache_bytes: usize) -> Arc<TableIdentity> {
    TableIdentity::standalone(Arc::new(BlockCache::new(cache_bytes))).unwrap()
}

pub(crate) fn open(fs: &StrictFs, cache_bytes: usize) -> Arc<Table> {
    open_as(fs, cache_bytes, IndexKind::default())
}

pub(crate) fn open_as(fs: &StrictFs, cache_bytes: usize, index: IndexKind) -> Arc<Table> {
    let len = fs.file_len(path()).unwrap().unwrap();
    let file = fs.open(path(), OpenMode::Read).unwrap();
    let reading = TableReading { index };
    Arc::new(Table::open_for(file, len, Some(EXPECTED), identity(cache_bytes), reading).unwrap())
}

/// A table of the entries, its cache too small for all of it.
pub(crate) fn table(entries: &[TestEntry], options: TableOptions) -> Arc<Table> {
    let fs = new_fs();
    write(&fs, entries, options);
    open(&fs, 100_000)
}
