//! Merges that hand on what of their inputs is in the cache, and flushes of what is read.
//!
//! The blocks that take the place of those that are resident go into the cache when they are written, as
//! [`esker_sst::CacheWarmer`] says. Here is how the tables come to them: their file is known, with the home that
//! they were given, before the tree has it, and it is opened and its slots filled by the merge, so that the
//! first lookup after the install finds everything as it was before.
//!
//! Memtables are read without the cache, and the blocks of their tables would be read from the file by
//! whoever comes first. So a flush hands over what it writes, too, if the keyspace is read as often as makes
//! that likely ([`Store::flush_heirs`]), and as far as there is room; a keyspace that is only written to is
//! not.
//!
//! * HO9. What fails here costs time: the merge or flush goes on, and readers open what they need, as
//!   without.
//! * HO10. A job that fails leaves nothing: its homes go with its outputs, and the log lane, which is asked
//!   for when that is worth it, removes what lies under their numbers. Until then it is charged, and goes
//!   like other blocks that nobody asks for.

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

/// What the writers of a merge's tables need to hand blocks on.
pub(crate) struct Heirs<'a> {
    pub(crate) files: &'a TableFiles,
    pub(crate) warmth: Arc<InputResidency>,
}

impl Heirs<'_> {
    /// Hands on the blocks of one table.
    pub(crate) fn heir(&self, keyspace: KeyspaceId) -> CacheWarmer {
        let heir = CacheWarmer::new(&self.files.tables, Some(self.files.watch_of(keyspace)), &self.warmth);
        if self.files.are_mapped() { heir.for_mapped() } else { heir }
    }
}

/// Reads of a keyspace that had been counted when it was flushed last.
#[derive(Debug, Default)]
pub(crate) struct ReadsAtFlush(AtomicU64);

/// A flush hands over what it writes if there was a read for so many writes since the last flush: a block has
/// some dozens of them, and to read it costs ten times what it costs to hand it over.
const WRITES_PER_READ: u64 = 4;

impl Store {
    /// What a flush of so many writes needs to hand blocks on, if readers will want them. Asked once for each
    /// flush.
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

    /// Has removed what a job that failed has left in the cache, if it is worth it.
    pub(crate) fn forget_heirs(&self) {
        if self.files.cache().is_worth_removing() {
            self.scheduler.request(Lane::Log);
        }
    }
}
