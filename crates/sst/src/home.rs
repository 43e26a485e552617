//! What stays of a table while it is closed, so that it can be opened again as the same one.
//!
//! Blocks outlive the table that loaded them: they stay in the cache when the table is closed to give its descriptor, index
//! and filter back. When it is opened again they must be found again, by the same number and soon by slots as before. So the
//! number belongs to a [`TableHome`], and blocks know the home instead of the slots; the home knows the slots of the table
//! that is open, if one is. Invariants, beside those of [`crate::slots`]:
//!
//! * HM1. Whoever can insert blocks under a number holds its home: every [`crate::Table`] does. So the number goes back
//!   to the cache when neither the home's owner nor a table of it is left (BS5).
//! * HM2. A home has one open table at a time. Its owner sees to it, by sharing the one that is open; so a block that leaves
//!   the cache finds the one array that may point to it (SL4). While a table is being dropped its successor may be
//!   open already: nobody looks into the old array any more, and the blocks in it are let go with it.
//! * HM3. When no table is open the home holds no slots: closing gives their memory back too, whatever is in the cache.
//!
//! [`OpenTables`] counts what is open, because both descriptors and memory are bounded by whoever opens and closes.

use crate::part::{CachedPart, TableCache};
use crate::slots::Slots;
use crate::table::Table;
use esker_base::{Error, Result};
use esker_cache::TableNumber;
use esker_env::ReadQueue;
use esker_filter::FilterWatch;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The tables of one owner that are open: the cache they share, and what they take beside it.
#[derive(Debug)]
pub struct OpenTables {
    cache: Arc<TableCache>,
    pages_filters: bool,
    count: AtomicUsize,
    memory_bytes: AtomicU64,
    /// For reads that overlap.
    reads: Option<Arc<ReadQueue>>,
}

impl OpenTables {
    /// None open so far; blocks go into `cache`, filters stay with their tables.
    pub fn new(cache: Arc<TableCache>) -> Arc<OpenTables> {
        OpenTables::with_choices(cache, false, None)
    }

    /// As [`OpenTables::new`]; filters go into the cache as well if they are `paged`, and by the queue lookups of many keys and long walks
    /// read several things at once.
    pub fn with_choices(
        cache: Arc<TableCache>,
        pages_filters: bool,
        reads: Option<Arc<ReadQueue>>,
    ) -> Arc<OpenTables> {
        let (count, memory_bytes) = (AtomicUsize::new(0), AtomicU64::new(0));
        Arc::new(OpenTables { cache, pages_filters, count, memory_bytes, reads })
    }

    /// Tables that are open, which is descriptors in use.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Bytes of memory that their indexes, slots and filters, if those are not paged, take: the sum of [`Table::memory_bytes`].
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    /// The cache.
    pub fn cache(&self) -> &Arc<TableCache> {
        &self.cache
    }
}

/// What stays of a table while it is closed.
#[derive(Debug)]
pub struct TableHome {
    number: TableNumber<CachedPart>,
    tables: Arc<OpenTables>,
    /// Of the table that is open.
    slots: Mutex<Option<Slots>>,
    /// Who wants to know how the filter does.
    watch: Option<Arc<FilterWatch>>,
}

impl TableHome {
    /// A home for one table file, counted among `tables` while it is open.
    ///
    /// # Errors
    /// [`Error::Full`] if four billion homes share the cache.
    pub fn new(tables: &Arc<OpenTables>) -> Result<Arc<TableHome>> {
        TableHome::watched(tables, None)
    }

    /// As [`TableHome::new`], with somebody who counts what the table's filter answers.
    ///
    /// # Errors
    /// As [`TableHome::new`].
    pub fn watched(tables: &Arc<OpenTables>, watch: Option<Arc<FilterWatch>>) -> Result<Arc<TableHome>> {
        let number = tables.cache.number_table();
        let number = number.ok_or_else(|| Error::Full("the cache has a number for no more tables".into()))?;
        Ok(Arc::new(TableHome { number, tables: Arc::clone(tables), slots: Mutex::new(None), watch }))
    }

    /// A home for a table that stands alone.
    ///
    /// # Errors
    /// As [`TableHome::new`].
    pub fn alone(cache: Arc<TableCache>) -> Result<Arc<TableHome>> {
        TableHome::new(&OpenTables::new(cache))
    }

    pub(crate) fn reads(&self) -> Option<&ReadQueue> {
        self.tables.reads.as_deref()
    }

    pub(crate) fn watch(&self) -> Option<&FilterWatch> {
        self.watch.as_deref()
    }

    pub(crate) fn cache(&self) -> &Arc<TableCache> {
        self.number.cache()
    }

    /// Whether its table's filter lies in the cache instead of with the table.
    pub(crate) fn pages_filters(&self) -> bool {
        self.tables.pages_filters
    }

    /// The number in the cache, for as long as the home lives.
    pub(crate) fn number(&self) -> u32 {
        self.number.get()
    }

    /// A table has been opened.
    pub(crate) fn opened(&self, table: &Table) {
        self.tables.count.fetch_add(1, Ordering::Relaxed);
        self.tables.memory_bytes.fetch_add(table.memory_bytes() as u64, Ordering::Relaxed);
        *self.slots.lock() = Some(Arc::clone(&table.slots));
    }

    /// A table that was opened goes (HM3).
    pub(crate) fn closed(&self, table: &Table) {
        self.tables.count.fetch_sub(1, Ordering::Relaxed);
        self.tables.memory_bytes.fetch_sub(table.memory_bytes() as u64, Ordering::Relaxed);
        let mut slots = self.slots.lock();
        if slots.as_ref().is_some_and(|slots| Arc::ptr_eq(slots, &table.slots)) {
            *slots = None;
        }
    }

    /// Empties the slot of block `number` if it holds the block at this address. The caller holds the block.
    pub(crate) fn empty_slot(&self, number: usize, block: usize) {
        if let Some(slot) = self.slots.lock().as_ref().and_then(|slots| slots.get(number)) {
            slot.remove(block);
        }
    }
}
