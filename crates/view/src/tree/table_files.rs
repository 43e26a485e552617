//! All table files in use, found by number.
//!
//! A [`FileIdentity`] exists while some tree refers to a part of its file; trees of successive versions, and
//! the readers that hold old ones, share it. The table is opened at first use, because opening a database
//! must not cost a read per table (R3). Files that the current versions no longer refer to are in
//! [`super::obsolete_files`].

use super::obsolete_files::{ObsoleteFiles, RequestCleanup};
use super::table_cache::{EvictionClock, KeepOpen, OpenAmount};
use super::table_handle::{FileIdentity, TableHandle};
use crate::lookup_counts::LookupStats;
use crate::paths;
use crate::tree::blob_files::LargeFiles;
use esker_base::{FileNumber, KeyspaceId};
use esker_env::{Env, RateLimiter, ReadMode};
use esker_filter::FilterWatch;
use esker_sst::{OpenTables, TableCache, TableReading};
use esker_version::PartMeta;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// The change in memory of open tables before the block cache is adjusted: one in so many of their limit.
const UNTOLD_DIVISOR: u64 = 32;

/// All table files in use, and those that are to be deleted.
#[derive(Debug)]
pub struct TableFiles {
    /// Where the files are.
    pub env: Env,
    /// The directory of the database.
    pub dir: PathBuf,
    /// All open tables, whatever their owner.
    pub tables: Arc<OpenTables>,
    /// How their files are read.
    pub(super) reads: ReadMode,
    /// The evictable ones.
    pub(super) eviction: EvictionClock,
    /// Bytes of open tables that the block cache is adjusted for.
    told_bytes: AtomicU64,
    known: Mutex<HashMap<FileNumber, Weak<FileIdentity>, foldhash::fast::FixedState>>,
    /// Statistics of a keyspace's filters and lookups.
    watches: Mutex<HashMap<KeyspaceId, Watches, foldhash::fast::FixedState>>,
    /// How tables of a keyspace are read, where that is not the default.
    readings: Mutex<HashMap<KeyspaceId, TableReading, foldhash::fast::FixedState>>,
    /// The rate limits of background reads and writes.
    pub rates: Arc<RateLimiter>,
    /// Blob files in use.
    pub large: LargeFiles,
    pub(super) obsolete: ObsoleteFiles,
}

/// The statistics of one keyspace's lookups.
#[derive(Debug, Default)]
struct Watches {
    filters: Option<Arc<FilterWatch>>,
    reads: Arc<LookupStats>,
}

impl TableFiles {
    /// No files yet.
    pub fn new(
        env: Env,
        dir: PathBuf,
        tables: Arc<OpenTables>,
        reads: ReadMode,
        request_cleanup: RequestCleanup,
        limit: OpenAmount,
    ) -> Arc<TableFiles> {
        Arc::new(TableFiles {
            env,
            dir,
            tables,
            reads,
            eviction: EvictionClock::new(limit),
            told_bytes: AtomicU64::new(0),
            known: Mutex::default(),
            watches: Mutex::default(),
            readings: Mutex::default(),
            rates: Arc::default(),
            large: LargeFiles::beside(limit.tables),
            obsolete: ObsoleteFiles::new(request_cleanup),
        })
    }

    /// The file that holds `part`, as the next tree refers to it.
    pub fn file_of(self: &Arc<Self>, keyspace: KeyspaceId, part: &PartMeta) -> Arc<TableHandle> {
        let identity = {
            let mut known = self.known.lock();
            known.get(&part.file).and_then(Weak::upgrade).unwrap_or_else(|| {
                let path = paths::table(&self.dir, part.file);
                let identity = FileIdentity::new(self, keyspace, part, path);
                known.insert(part.file, Arc::downgrade(&identity));
                identity
            })
        };
        identity.current()
    }

    /// The statistics of the filters of a keyspace's tables.
    pub fn watch_of(&self, keyspace: KeyspaceId) -> Arc<FilterWatch> {
        Arc::clone(self.watches.lock().entry(keyspace).or_default().filters.get_or_insert_default())
    }

    /// The statistics of the filters of a keyspace's tables, if anything was counted.
    pub fn known_watch_of(&self, keyspace: KeyspaceId) -> Option<Arc<FilterWatch>> {
        self.watches.lock().get(&keyspace).and_then(|watches| watches.filters.clone())
    }

    /// The statistics of lookups of a keyspace.
    pub fn lookup_stats_of(&self, keyspace: KeyspaceId) -> Arc<LookupStats> {
        Arc::clone(&self.watches.lock().entry(keyspace).or_default().reads)
    }

    /// Drops the statistics of a dropped keyspace.
    pub fn forget_watch(&self, keyspace: KeyspaceId) {
        self.watches.lock().remove(&keyspace);
    }

    /// Sets how tables of a keyspace are read that are opened from now on.
    pub fn set_reading(&self, keyspace: KeyspaceId, reading: TableReading) {
        let mut readings = self.readings.lock();
        if reading == TableReading::default() {
            readings.remove(&keyspace);
        } else {
            readings.insert(keyspace, reading);
        }
    }

    /// How a table of a keyspace that is opened now is read.
    pub(super) fn reading(&self, keyspace: KeyspaceId) -> TableReading {
        self.readings.lock().get(&keyspace).copied().unwrap_or_default()
    }

    /// Removes a file from the map that new trees use; its identity, if a tree still refers to it.
    pub(super) fn forget(&self, number: FileNumber) -> Option<Arc<FileIdentity>> {
        self.known.lock().remove(&number).and_then(|known| known.upgrade())
    }

    /// Whether a table that was just opened may stay open.
    pub(super) fn room(&self) -> KeepOpen {
        self.eviction.room(self.open_amount())
    }

    /// Counts an opened file, which may be evictable.
    pub(super) fn note_opening(&self) {
        if self.eviction.note_opening(self.open_amount()) || self.has_untold_bytes() {
            self.request_cleanup();
        }
    }

    /// Whether the memory of open tables has changed much since the cache was adjusted. Installs adjust it in
    /// passing; lookups, which open tables without any install, request the log worker.
    pub fn has_untold_bytes(&self) -> bool {
        let told = self.told_bytes.load(Ordering::Relaxed);
        self.open_amount().bytes.abs_diff(told) > self.limit().bytes / UNTOLD_DIVISOR
    }

    /// Bytes of open tables; the caller adjusts the cache.
    pub fn tell_bytes(&self) -> u64 {
        let bytes = self.open_amount().bytes;
        self.told_bytes.store(bytes, Ordering::Relaxed);
        bytes
    }

    /// Whether files are read as memory, where the system can do that.
    pub fn are_mapped(&self) -> bool {
        self.reads == ReadMode::Mapped
    }

    /// The tables to be closed now, if eviction is due.
    pub fn choose_cold(&self) -> Vec<Arc<FileIdentity>> {
        self.eviction.choose_cold(self.open_amount())
    }

    /// All open tables, whatever their owner.
    pub fn open_amount(&self) -> OpenAmount {
        OpenAmount { tables: self.tables.count(), bytes: self.tables.memory_bytes() }
    }

    /// Lets metadata of open tables have so many bytes for the present, at least those of the limit. Of
    /// tables above a lower target the next [`TableFiles::choose_cold`] tells.
    pub fn set_target_bytes(&self, bytes: u64) {
        self.eviction.set_target_bytes(bytes);
    }

    /// What may be open at present: the limit, or more by lent memory.
    pub fn target(&self) -> OpenAmount {
        self.eviction.target()
    }

    /// The limit of open tables that holds at all times.
    pub fn limit(&self) -> OpenAmount {
        self.eviction.limit()
    }

    /// Files opened so far.
    pub fn openings(&self) -> u64 {
        self.eviction.openings()
    }

    /// The block cache.
    pub fn cache(&self) -> &Arc<TableCache> {
        self.tables.cache()
    }
}
