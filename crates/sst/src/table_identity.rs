//! Table identity: the block-cache number and the slots of a table, kept across close and reopen.
//!
//! Blocks outlive the open table that loaded them: they stay in the cache when the table is closed to release
//! its descriptor, index and filter. After a reopen they must be found under the same number and, soon, by
//! slots. So the number belongs to a [`TableIdentity`], and a block refers to the identity's [`TableSlots`]
//! instead of to a slot array; these refer to the slots of the table that is open, if one is. Invariants,
//! beside those of [`crate::slots`]:
//!
//! * HM1. Every [`crate::Table`] holds its identity, so whatever can insert blocks under a number keeps the
//!   number alive. The number returns to the cache when neither the owner of the identity nor a table of it
//!   is left (BS5).
//! * HM2. An identity has at most one open table. Its owner ensures this by sharing the open one; so a block
//!   that leaves the cache finds the one slot array that may point to it (SL4). While a table is being
//!   dropped, its successor may already be open: no thread reads the old array any more, and the references
//!   in it are released with it.
//! * HM3. When no table is open, the identity holds no slots but those of HM4: closing releases their memory,
//!   whatever is in the cache.
//! * HM4. Before its table is opened for the first time, an identity may hold slots of blocks that cache
//!   warming inserted while the table was written ([`crate::cache_warmer`]). They are accessed only under
//!   the identity's lock, so a block that leaves the cache finds the slot that holds it (SL4), or its
//!   residence flag is already clear when the slot is installed. Opening the table moves them into the
//!   table's slots before any lookup can read those.
//!
//! [`OpenTables`] counts the open tables, because the code that opens and closes them bounds both descriptors
//! and memory.

use crate::block::BlockRef;
use crate::cached_part::{CachedPart, TableCache};
use crate::slots::Slots;
use crate::table_slots::TableSlots;
use esker_base::{Error, Result};
use esker_cache::TableNumber;
use esker_env::{MemoryLedger, ReadQueue};
use esker_filter::FilterWatch;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The open tables of one owner: the cache they share, and what they use beside it.
#[derive(Debug)]
pub struct OpenTables {
    cache: Arc<TableCache>,
    pages_filters: bool,
    count: AtomicUsize,
    memory_bytes: AtomicU64,
    /// Queue for overlapped reads.
    reads: Option<Arc<ReadQueue>>,
    /// Accounts for what cursors read ahead.
    memory: Arc<MemoryLedger>,
}

impl OpenTables {
    /// No table open yet; blocks go into `cache`, filters stay with their tables.
    pub fn new(cache: Arc<TableCache>) -> Arc<OpenTables> {
        OpenTables::with_choices(cache, false, None, MemoryLedger::unlimited())
    }

    /// As [`OpenTables::new`]. If `pages_filters`, filters go into the cache as well. With a queue, lookups
    /// of many keys and long walks overlap their reads. What cursors read ahead is held in `memory`.
    pub fn with_choices(
        cache: Arc<TableCache>,
        pages_filters: bool,
        reads: Option<Arc<ReadQueue>>,
        memory: Arc<MemoryLedger>,
    ) -> Arc<OpenTables> {
        let (count, memory_bytes) = (AtomicUsize::new(0), AtomicU64::new(0));
        Arc::new(OpenTables { cache, pages_filters, count, memory_bytes, reads, memory })
    }

    /// Number of open tables, which is the number of descriptors in use.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Bytes of memory of their indexes, slots and unpaged filters: the sum of
    /// [`crate::Table::memory_bytes`].
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    /// The block cache.
    pub fn cache(&self) -> &Arc<TableCache> {
        &self.cache
    }
}

/// What is kept of a table while it is closed.
#[derive(Debug)]
pub struct TableIdentity {
    number: TableNumber<CachedPart>,
    tables: Arc<OpenTables>,
    slots: Arc<TableSlots<BlockRef>>,
    /// Counts how well the filter does.
    watch: Option<Arc<FilterWatch>>,
}

impl TableIdentity {
    /// An identity for one table file, counted among `tables` while it is open.
    ///
    /// # Errors
    /// [`Error::Full`] if four billion identities share the cache.
    pub fn new(tables: &Arc<OpenTables>) -> Result<Arc<TableIdentity>> {
        TableIdentity::with_filter_watch(tables, None)
    }

    /// As [`TableIdentity::new`]; `watch` counts the answers of the table's filter.
    ///
    /// # Errors
    /// As [`TableIdentity::new`].
    pub fn with_filter_watch(
        tables: &Arc<OpenTables>,
        watch: Option<Arc<FilterWatch>>,
    ) -> Result<Arc<TableIdentity>> {
        let number = tables.cache.number_table();
        let number = number.ok_or_else(|| Error::Full("the cache has no more table numbers".into()))?;
        Ok(Arc::new(TableIdentity { number, tables: Arc::clone(tables), slots: TableSlots::new(), watch }))
    }

    /// An identity for a single table with a cache of its own.
    ///
    /// # Errors
    /// As [`TableIdentity::new`].
    pub fn standalone(cache: Arc<TableCache>) -> Result<Arc<TableIdentity>> {
        TableIdentity::new(&OpenTables::new(cache))
    }

    pub(crate) fn reads(&self) -> Option<&ReadQueue> {
        self.tables.reads.as_deref()
    }

    pub(crate) fn memory(&self) -> &MemoryLedger {
        &self.tables.memory
    }

    pub(crate) fn watch(&self) -> Option<&FilterWatch> {
        self.watch.as_deref()
    }

    pub(crate) fn cache(&self) -> &Arc<TableCache> {
        self.number.cache()
    }

    pub(crate) fn pages_filters(&self) -> bool {
        self.tables.pages_filters
    }

    /// The table's number in the cache, valid as long as the identity lives.
    pub(crate) fn number(&self) -> u32 {
        self.number.get()
    }

    /// The slots of its blocks, which blocks refer to.
    pub(crate) fn slots(&self) -> &Arc<TableSlots<BlockRef>> {
        &self.slots
    }

    /// Registers a table that was opened: its slots, the memory it takes, and the bytes of its blocks.
    pub(crate) fn opened(&self, slots: &Slots<BlockRef>, memory_bytes: usize, uncompressed_bytes: u64) {
        self.tables.count.fetch_add(1, Ordering::Relaxed);
        self.tables.memory_bytes.fetch_add(memory_bytes as u64, Ordering::Relaxed);
        self.number.expect_bytes(uncompressed_bytes);
        self.slots.open(slots);
    }

    /// Installs a slot for block `number` of the table to be, which was just inserted into the cache.
    pub(crate) fn add_warm_block(&self, block: &BlockRef, number: u32) {
        // The table may never be opened.
        self.number.expect_more_bytes(block.memory_bytes() as u64);
        if !self.cache().kind().has_shortcuts() {
            return;
        }
        self.slots.add_warm(number, block, |block| block.is_resident());
    }

    /// Unregisters a table that is dropped (HM3).
    pub(crate) fn closed(&self, slots: &Slots<BlockRef>, memory_bytes: usize) {
        self.tables.count.fetch_sub(1, Ordering::Relaxed);
        self.tables.memory_bytes.fetch_sub(memory_bytes as u64, Ordering::Relaxed);
        self.slots.close(slots);
    }
}
