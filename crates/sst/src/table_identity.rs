//! What stays of a table while it is closed, so that it can be opened again as the same one.
//!
//! Blocks outlive the table that loaded them: they stay in the cache when the table is closed to give its
//! descriptor, index and filter back. When it is opened again they must be found again, by the same number
//! and soon by slots as before. So the number belongs to a [`TableIdentity`], and blocks know the home instead of
//! the slots; the home knows the slots of the table that is open, if one is. Invariants, beside those of
//! [`crate::slots`]:
//!
//! * HM1. Whoever can insert blocks under a number holds its home: every [`crate::Table`] does. So the number
//!   goes back to the cache when neither the home's owner nor a table of it is left (BS5).
//! * HM2. A home has one open table at a time. Its owner sees to it, by sharing the one that is open; so a
//!   block that leaves the cache finds the one array that may point to it (SL4). While a table is being
//!   dropped its successor may be open already: nobody looks into the old array any more, and the blocks in
//!   it are let go with it.
//! * HM3. When no table is open the home holds no slots but those of HM4: closing gives their memory back
//!   too, whatever is in the cache.
//! * HM4. Before its table is opened for the first time, a home may hold slots of blocks that were put into
//!   the cache when they were written ([`crate::cache_warming`]). They are touched under the home's lock alone, so a
//!   block that leaves finds the slot that holds it (SL4), or its flag is seen to be gone before there is
//!   one. The table takes them over when it is opened, before anybody can look into it.
//!
//! [`OpenTables`] counts what is open, because both descriptors and memory are bounded by whoever opens and
//! closes.

use crate::block::BlockRef;
use crate::cached_part::{CachedPart, TableCache};
use crate::slots::{Slot, Slots};
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

    /// As [`OpenTables::new`]; filters go into the cache as well if they are `paged`, and by the queue
    /// lookups of many keys and long walks read several things at once.
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

    /// Bytes of memory that their indexes, slots and filters, if those are not paged, take: the sum of
    /// [`Table::memory_bytes`].
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
pub struct TableIdentity {
    number: TableNumber<CachedPart>,
    tables: Arc<OpenTables>,
    slots: Mutex<IdentitySlots>,
    /// Who wants to know how the filter does.
    watch: Option<Arc<FilterWatch>>,
}

/// The slots that a home knows.
#[derive(Debug, Default)]
struct IdentitySlots {
    /// Of the table that is open.
    open: Option<Slots>,
    /// Of blocks of the table that is not opened yet, with their numbers, which ascend (HM4).
    warm_slots: Vec<(u32, Slot<BlockRef>)>,
}

impl TableIdentity {
    /// A home for one table file, counted among `tables` while it is open.
    ///
    /// # Errors
    /// [`Error::Full`] if four billion homes share the cache.
    pub fn new(tables: &Arc<OpenTables>) -> Result<Arc<TableIdentity>> {
        TableIdentity::watched(tables, None)
    }

    /// As [`TableIdentity::new`], with somebody who counts what the table's filter answers.
    ///
    /// # Errors
    /// As [`TableIdentity::new`].
    pub fn watched(tables: &Arc<OpenTables>, watch: Option<Arc<FilterWatch>>) -> Result<Arc<TableIdentity>> {
        let number = tables.cache.number_table();
        let number = number.ok_or_else(|| Error::Full("the cache has a number for no more tables".into()))?;
        Ok(Arc::new(TableIdentity { number, tables: Arc::clone(tables), slots: Mutex::default(), watch }))
    }

    /// A home for a table that stands alone.
    ///
    /// # Errors
    /// As [`TableIdentity::new`].
    pub fn alone(cache: Arc<TableCache>) -> Result<Arc<TableIdentity>> {
        TableIdentity::new(&OpenTables::new(cache))
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
        self.number.expect_bytes(table.properties().uncompressed_bytes);
        let mut slots = self.slots.lock();
        for (number, slot) in std::mem::take(&mut slots.warm_slots) {
            if let Some(own) = table.slots.get(number as usize) {
                own.take_from(slot);
            }
        }
        slots.open = Some(Arc::clone(&table.slots));
    }

    /// Block `number` of the table to be was put into the cache a moment ago: its slot is filled, as that of
    /// a block that a reader loaded.
    pub(crate) fn add_warm_block(&self, block: &BlockRef, number: u32) {
        // The table may never be opened.
        self.number.expect_more_bytes(block.memory_bytes() as u64);
        if !self.cache().kind().has_shortcuts() {
            return;
        }
        let mut slots = self.slots.lock();
        debug_assert!(slots.warm_slots.last().is_none_or(|(last, _)| *last < number), "HM4");
        let slot = Slot::new();
        slot.install(block, |block| block.is_resident());
        slots.warm_slots.push((number, slot));
    }

    /// A table that was opened goes (HM3).
    pub(crate) fn closed(&self, table: &Table) {
        self.tables.count.fetch_sub(1, Ordering::Relaxed);
        self.tables.memory_bytes.fetch_sub(table.memory_bytes() as u64, Ordering::Relaxed);
        let mut slots = self.slots.lock();
        if slots.open.as_ref().is_some_and(|open| Arc::ptr_eq(open, &table.slots)) {
            slots.open = None;
        }
    }

    /// Empties the slot of block `number` if it holds the block at this address. The caller holds the block.
    pub(crate) fn empty_slot(&self, number: usize, block: usize) {
        let slots = self.slots.lock();
        if let Some(slot) = slots.open.as_ref().and_then(|open| open.get(number)) {
            slot.remove(block);
        } else if let Ok(at) = slots.warm_slots.binary_search_by_key(&number, |(number, _)| *number as usize)
        {
            slots.warm_slots[at].1.remove(block);
        }
    }
}
