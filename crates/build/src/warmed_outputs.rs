//! Cache warming by jobs: merges insert the blocks that replace cached ones, flushes those of read keyspaces.
//!
//! The blocks that replace resident ones are inserted into the cache when they are written, see
//! [`esker_sst::CacheWarmer`]. This file prepares their tables: the file, with the identity that it was
//! given, is registered before the tree has it, and the merge opens it and fills its slots, so that the first
//! lookup after the install is a cache hit as before.
//!
//! Memtables are read without the cache, and the first reads of their tables' blocks would be misses. So a
//! flush inserts its blocks, too, if the keyspace is read often enough ([`CacheWarming::for_flush`]), and as
//! far as there is room; not for a keyspace that is only written to.
//!
//! * HO9. A failure here only costs time: the merge or flush continues, and readers open what they need, as
//!   without warming.
//! * HO10. A failed job leaves nothing: its identities are dropped with its outputs, and the deletion worker,
//!   which is requested when it is worth it, removes the blocks under their numbers. Until then they are
//!   charged, and evicted like other unused blocks.

use crate::pending_outputs::Outputs;
use esker_base::KeyspaceId;
use esker_filter::watch::SAMPLE;
use esker_sst::{CacheWarmer, InputResidency};
use esker_view::tree::{Access, TableFiles, TableHandle};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The inputs of cache warming for a merge's table writers.
#[derive(Clone)]
pub struct CacheWarming<'a> {
    /// Whose cache is warmed.
    pub files: &'a TableFiles,
    /// Which blocks of the inputs are in the cache.
    pub residency: Arc<InputResidency>,
}

impl<'a> CacheWarming<'a> {
    /// For a flush of so many writes, if readers are likely to read what it writes. Called once a flush;
    /// `scans` counts all scans of the keyspace so far.
    pub fn for_flush(
        files: &'a TableFiles,
        keyspace: KeyspaceId,
        scans: u64,
        reads_at_flush: &ReadsAtFlush,
        writes: u64,
    ) -> Option<CacheWarming<'a>> {
        let lookups = files.lookup_stats_of(keyspace).seen_lookups().present * SAMPLE;
        let residency = || Arc::new(InputResidency::of_memtables());
        reads_at_flush
            .are_enough(lookups + scans, writes)
            .then(|| CacheWarming { files, residency: residency() })
    }

    /// The cache warmer of one table.
    pub fn cache_warmer(&self, keyspace: KeyspaceId) -> CacheWarmer {
        let cache_warmer =
            CacheWarmer::new(&self.files.tables, Some(self.files.watch_of(keyspace)), &self.residency);
        if self.files.are_mapped() { cache_warmer.for_mapped() } else { cache_warmer }
    }
}

/// Reads of a keyspace counted up to its last flush.
#[derive(Debug, Default)]
pub struct ReadsAtFlush(AtomicU64);

/// A flush warms the cache if there was a read for this many writes since the last flush: a block has some
/// dozens of entries, and reading it costs ten times as much as inserting it.
const WRITES_PER_READ: u64 = 4;

impl ReadsAtFlush {
    /// Lets the first flush count reads from `reads` on, which earlier opens of the database have counted.
    pub fn begin_at(&self, reads: u64) {
        self.0.store(reads, Ordering::Relaxed);
    }

    /// Whether keys were read often enough for so many writes, `reads` being all reads of the keyspace so
    /// far.
    fn are_enough(&self, reads: u64, writes: u64) -> bool {
        let new = reads.saturating_sub(self.0.swap(reads, Ordering::Relaxed));
        new * WRITES_PER_READ >= writes
    }
}

/// Opens the tables that have blocks in the cache, which are durable and about to be installed, and with
/// `opens_all` every table (RP5 in [`crate::overwrite_ratio`]). The caller holds the files until the tree
/// does.
pub fn open_outputs(
    files: &Arc<TableFiles>,
    keyspace: KeyspaceId,
    opens_all: bool,
    tables: &mut Outputs<'_>,
) -> Vec<Arc<TableHandle>> {
    let inherit = |(part, inheritance): (&_, esker_sst::WarmedTable)| {
        let file = files.file_of(keyspace, part);
        file.identity().inherit(inheritance.identity());
        (file, Access::Use)
    };
    let mut opened: Vec<_> = tables.take_warmed().into_iter().map(inherit).collect();
    if opens_all {
        opened.extend(tables.parts.iter().map(|part| (files.file_of(keyspace, part), Access::Pass)));
    }
    let open = |(file, access): (Arc<TableHandle>, Access)| {
        if let Err(error) = file.table(access) {
            tracing::debug!(%error, "a new table could not be opened yet");
        }
        file
    };
    opened.into_iter().map(open).collect()
}

/// Schedules the removal of what a failed job has left in the cache, if it is worth a walk.
pub fn remove_leftovers(files: &TableFiles) {
    if files.cache().should_remove_dropped() {
        files.request_cleanup();
    }
}
