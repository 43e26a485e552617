//! A table's filter: kept with the table, or paged through the cache.
//!
//! Kept with the table, a filter is in memory as long as its table is open, and a lookup finds it without
//! asking anybody. Paged, it is a block of the cache like any other, of [`BlockKind::Filter`] and so with
//! more patience than data: it counts against the cache's budget instead of the open table's memory, goes
//! when nobody asks for it, and is read again when somebody does. That is for databases whose filters do not
//! fit memory; a lookup pays a shard's lock for each table that it asks. Opening a table does not read a
//! filter that is paged: the first lookup that asks does.
//!
//! # Invariants
//! * PF1. Whatever happens to a filter, lookups are right: one that is damaged, cannot be read or has no room
//!   counts as *maybe*. Damage is remembered and told by [`Table::filter_damage`], as for filters that are
//!   kept, and not read again. That reading failed is not remembered: the lookup goes on to a block, whose
//!   error is told.
//! * PF2. A filter is verified before anybody sees it, however often it is read (BS6).
//! * PF3. A filter is charged once: to its table while it is kept, to the cache while it is paged and there.
//!   Who is just asking it holds it for no longer than the question.
//! * PF4. Of those who miss a filter at the same time one reads it, and the others wait for what it brings.
//!   They hold no other lock while they wait, and whoever reads takes a shard's lock only.
//!
//! # Size
//! A filter that would take more than [`MAX_CACHE_SHARE`] of the cache is not read at all: it would be evicted
//! before it is asked again, and reading it costs more than the block that it might save. One below that is
//! still larger than all other entries of the cache by far, so the cache makes its room in all shards alike
//! ([`esker_cache::LARGE_SHARE`]).
//!
//! # Rejected
//! * Filters in parts, each an entry of its own, as RocksDB's partitioned filters: a lookup would bring in
//!   kilobytes instead of the whole, at the price of a second kind of section, written only where the option
//!   was set before the table was. Tables here are cut at some tens of mebibytes, so a filter is some hundred
//!   kibibytes, which a device reads in the time of a few blocks, once.
//! * *Maybe* for those who find somebody reading: each of them would read a block in vain, one read for each
//!   lookup, to save waiting for a part of one.

use crate::cached_part::CachedPart;
use crate::decode_error::DecodeError;
use crate::footer::Section;
use crate::table::Table;
use esker_base::{Error, Result, SeqNo};
use esker_cache::{Admission, BlockKind, CacheKey};
use esker_filter::Filter;
use esker_filter::watch::is_sampled;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};

/// The number under which a table's filter lies in the cache: no block's, because blocks are counted in 32
/// bits.
const FILTER_NUMBER: u32 = u32::MAX;

/// Largest share of the cache that a paged filter may take: 1/16.
const MAX_CACHE_SHARE: usize = 16;

/// Where a table's filter is.
pub(crate) enum FilterAccess {
    /// In memory as long as the table.
    Kept(Filter),
    /// There is none, or it is damaged.
    None,
    /// In the cache, or in a section of the file.
    Paged(PagedFilter),
}

/// A filter that comes and goes.
pub(crate) struct PagedFilter {
    section: Section,
    /// Held by the one who reads it (PF4).
    reading: Mutex<()>,
}

impl PagedFilter {
    /// The filter in this section, which nobody has read yet.
    pub(crate) fn new(section: Section) -> PagedFilter {
        PagedFilter { section, reading: Mutex::new(()) }
    }
}

impl FilterAccess {
    /// Bytes that are the table's own.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            FilterAccess::Kept(filter) => filter.memory_bytes(),
            FilterAccess::None | FilterAccess::Paged(_) => 0,
        }
    }
}

/// What went wrong with a table's filter, if anything did.
pub(crate) type FilterDamage = OnceLock<Error>;

impl Table {
    /// The filter, if it is kept in memory with the table and can be used.
    pub fn filter(&self) -> Option<&Filter> {
        match &self.filter {
            FilterAccess::Kept(filter) => Some(filter),
            FilterAccess::None | FilterAccess::Paged(_) => None,
        }
    }

    /// Why the table's filter is not used although it has one: lookups are right, but slower.
    pub fn filter_damage(&self) -> Option<&Error> {
        self.filter_damage.get()
    }

    /// Share of absent keys within the table's range for which a lookup is expected to search it: what the
    /// filter promises, 1 without one that can be used.
    pub fn expected_false_positive_rate(&self) -> f64 {
        if self.has_usable_filter() { self.filter_rate } else { 1.0 }
    }

    /// Whether the key with this hash may be in the table: `false` is certain.
    #[inline(always)]
    pub fn may_contain(&self, hash: u64) -> bool {
        let maybe = match &self.filter {
            FilterAccess::Kept(filter) => filter.may_contain(hash),
            FilterAccess::None => return true,
            FilterAccess::Paged(paged) => self.may_contain_by_cache(paged, hash),
        };
        if !maybe && is_sampled(hash) {
            self.note_filter(false);
        }
        maybe
    }

    /// What [`Table::may_contain`] says if that needs no reading, and nothing counted; `None` if there is no
    /// filter in memory.
    pub fn may_contain_by_memory(&self, hash: u64) -> Option<bool> {
        match &self.filter {
            FilterAccess::Kept(filter) => Some(filter.may_contain(hash)),
            FilterAccess::None => None,
            FilterAccess::Paged(_) => match self.cache.peek(&self.filter_key()) {
                Some(CachedPart::Filter(filter)) => Some(filter.may_contain(hash)),
                _ => None,
            },
        }
    }

    /// Counts that a reader at `seqno` did not find a key although the filter let it pass, if there is one.
    #[inline]
    pub(crate) fn note_absent(&self, key: &[u8], hash: u64, seqno: SeqNo) {
        if is_sampled(hash) {
            self.note_sampled_absent(key, hash, seqno);
        }
    }

    /// A filter knows keys and not versions: that it let a key pass of which the table has only versions
    /// newer than the reader is no mistake of its. So the key is looked for once more, as somebody who sees
    /// everything, where that may make a difference.
    #[cold]
    fn note_sampled_absent(&self, key: &[u8], hash: u64, seqno: SeqNo) {
        let sees_all = self.properties().max_seqno.max(self.global_seqno) <= seqno;
        // What cannot be read says nothing.
        let is_absent = || matches!(self.get_with(key, hash, SeqNo::MAX, |_, _| ()), Ok(None));
        if self.has_usable_filter() && (sees_all || is_absent()) {
            self.note_filter(true);
        }
    }

    #[cold]
    fn note_filter(&self, was_in_vain: bool) {
        if let Some(watch) = self.identity.watch() {
            let level = u8::try_from(self.properties().level).unwrap_or(u8::MAX);
            watch.note(level, self.filter_rate, was_in_vain);
        }
    }

    /// Whether a lookup could ask a filter.
    fn has_usable_filter(&self) -> bool {
        match &self.filter {
            FilterAccess::Kept(_) => true,
            FilterAccess::None => false,
            FilterAccess::Paged(paged) => self.filter_damage().is_none() && self.has_room_for(&paged.section),
        }
    }

    /// Asks for the memory that [`Table::may_contain`] will look at, if it is known where that is.
    #[inline]
    pub fn prefetch_filter(&self, hash: u64) {
        match &self.filter {
            FilterAccess::Kept(filter) => filter.prefetch(hash),
            FilterAccess::None => self.prefetch_locator(hash),
            FilterAccess::Paged(_) => {}
        }
    }

    /// The cache's name for the filter.
    fn filter_key(&self) -> CacheKey {
        CacheKey { table: self.number, block: FILTER_NUMBER }
    }

    #[cold]
    fn may_contain_by_cache(&self, paged: &PagedFilter, hash: u64) -> bool {
        // Asked first: what cannot be there is no miss of the cache.
        if !self.has_usable_filter() {
            return true;
        }
        if let Some(CachedPart::Filter(filter)) =
            self.cache.get(&self.filter_key(), BlockKind::Filter, Admission::Point)
        {
            return filter.may_contain(hash);
        }
        self.load_filter(paged).is_none_or(|filter| filter.may_contain(hash))
    }

    /// The filter that was not in the cache a moment ago, read by one thread for all that want it (PF4).
    fn load_filter(&self, paged: &PagedFilter) -> Option<Arc<Filter>> {
        let _reading = paged.reading.lock();
        // Whoever waited finds what the one before it brought or learnt.
        if self.filter_damage().is_some() {
            return None;
        }
        if let Some(CachedPart::Filter(filter)) = self.cache.peek(&self.filter_key()) {
            return Some(filter);
        }
        match self.read_filter(&paged.section) {
            Ok(filter) => Some(self.admit_filter(filter)),
            Err(Error::Io(_)) => None,
            Err(damage) => {
                _ = self.filter_damage.set(damage);
                None
            }
        }
    }

    fn has_room_for(&self, section: &Section) -> bool {
        section.len <= (self.cache.capacity_bytes() / MAX_CACHE_SHARE) as u64
    }

    /// Reads, verifies and decodes the filter, past the cache.
    fn read_filter(&self, section: &Section) -> Result<Filter> {
        // The length is that of a part of the file, which the footer was checked to say rightly.
        let mut bytes = vec![0; section.len as usize];
        self.file.read_exact_at(&mut bytes, section.offset)?;
        section
            .verify(self.uid, &bytes)
            .and_then(|()| Filter::decode(&bytes).map_err(DecodeError::Damaged))
            .map_err(|error| self.decode_error_at(error, section.offset))
    }

    /// Puts a verified filter into the cache; answers the one to use.
    fn admit_filter(&self, filter: Filter) -> Arc<Filter> {
        let filter = Arc::new(filter);
        let part = CachedPart::Filter(Arc::clone(&filter));
        match self.cache.insert(self.filter_key(), part, BlockKind::Filter, Admission::Point) {
            CachedPart::Filter(resident) => resident,
            CachedPart::Block(_) => filter,
        }
    }

    /// Whether the filter, if there is one, can be used: reads it if it is paged.
    ///
    /// # Errors
    /// Its damage, and whatever reading it meets.
    pub(crate) fn check_filter(&self) -> Result<()> {
        if let Some(damage) = self.filter_damage() {
            return Err(damage.clone());
        }
        match &self.filter {
            FilterAccess::Paged(paged) => self.read_filter(&paged.section).map(drop),
            FilterAccess::None | FilterAccess::Kept(_) => Ok(()),
        }
    }
}
