//! Cache warming by jobs: merges insert the blocks that replace cached ones, flushes those of read keyspaces.
//!
//! The blocks that replace resident ones are inserted into the cache when they are written, see
//! [`esker_sst::CacheWarmer`]. This file prepares their tables: the file, with the identity that it was
//! given, is registered before the tree has it, and the merge opens it and fills its slots, so that the first
//! lookup after the install is a cache hit as before.
//!
//! Memtables are read without the cache, and the first reads of their tables' blocks would be misses. So a
//! flush inserts its blocks, too, if the keyspace is read often enough ([`Store::flush_heirs`]), and as far
//! as there is room; not for a keyspace that is only written to.
//!
//! * HO9. A failure here only costs time: the merge or flush continues, and readers open what they need, as
//!   without warming.
//! * HO10. A failed job leaves nothing: its identities are dropped with its outputs, and the log worker,
//!   which is requested when it is worth it, removes the blocks under their numbers. Until then they are
//!   charged, and evicted like other unused blocks.

use crate::keyspace::KeyspaceState;
use crate::pending_outputs::Outputs;
use crate::scheduler::Lane;
use crate::store::Store;
use crate::tree::{Access, TableFile, TableFiles};
use esker_base::KeyspaceId;
use esker_filter::watch::SAMPLE;
use esker_sst::{CacheWarmer, InputResidency};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The inputs of cache warming for a merge's table writers.
pub(crate) struct Heirs<'a> {
    pub(crate) files: &'a TableFiles,
    pub(crate) warmth: Arc<InputResidency>,
}

impl Heirs<'_> {
    /// The cache warmer of one table.
    pub(crate) fn heir(&self, keyspace: KeyspaceId) -> CacheWarmer {
        let heir = CacheWarmer::new(&self.files.tables, Some(self.files.watch_of(keyspace)), &self.warmth);
        if self.files.are_mapped() { heir.for_mapped() } else { heir }
    }
}

/// Reads of a keyspace counted up to its last flush.
#[derive(Debug, Default)]
pub(crate) struct ReadsAtFlush(AtomicU64);

/// A flush warms the cache if there was a read for this many writes since the last flush: a block has some
/// dozens of entries, and reading it costs ten times as much as inserting it.
const WRITES_PER_READ: u64 = 4;

impl Store {
    /// The cache warming of a flush of `writes` writes, if reads are likely. Called once for each flush.
    pub(crate) fn flush_heirs(&self, keyspace: &KeyspaceState, writes: u64) -> Option<Heirs<'_>> {
        let scans = keyspace.scans.seen();
        let lookups = self.files.read_watch_of(keyspace.id).seen_lookups().present * SAMPLE;
        let reads = lookups + scans.short + scans.long;
        let new = reads.saturating_sub(keyspace.reads_at_flush.0.swap(reads, Ordering::Relaxed));
        let warmth = || Arc::new(InputResidency::of_memtables());
        (new * WRITES_PER_READ >= writes).then(|| Heirs { files: &self.files, warmth: warmth() })
    }

    /// Opens the tables that have blocks in the cache, which are durable and about to be installed, and all
    /// of them where their filters will be asked what they replace (RP5 in [`crate::overwrite_ratio`]). Their files
    /// are to be held until they are.
    pub(crate) fn open_heirs(
        &self,
        keyspace: &KeyspaceState,
        tables: &mut Outputs<'_>,
    ) -> Vec<Arc<TableFile>> {
        let inherit = |(part, inheritance): (&_, esker_sst::WarmedTable)| {
            let file = self.files.file_of(keyspace.id, part);
            file.identity().inherit(inheritance.identity());
            (file, Access::Use)
        };
        let mut files: Vec<_> = tables.take_inheritances().into_iter().map(inherit).collect();
        if keyspace.options().strategy.uses_replaced() {
            files.extend(
                tables.parts.iter().map(|part| (self.files.file_of(keyspace.id, part), Access::Pass)),
            );
        }
        let open = |(file, access): (Arc<TableFile>, Access)| {
            if let Err(error) = file.table(access) {
                tracing::debug!(%error, "a new table could not be opened yet");
            }
            file
        };
        files.into_iter().map(open).collect()
    }

    /// Schedules removal of cache entries left by a failed job, if it is worth it.
    pub(crate) fn forget_heirs(&self) {
        if self.files.cache().is_worth_removing() {
            self.scheduler.request(Lane::Log);
        }
    }
}
