//! Access to a table's filter: kept in memory with the table, or paged through the block cache.
//!
//! A kept filter is in memory as long as its table is open, and lookups read it without a lock. A paged
//! filter is an entry of the cache, of [`BlockKind::Filter`] and so evicted later than data. It is charged to
//! the cache's budget instead of the open table's memory, is evicted when it is not used, and is read again
//! on demand. Paging is for databases whose filters do not fit memory; it costs a shard's lock for each table
//! that a lookup probes. Opening a table does not read a paged filter: the first lookup does.
//!
//! # Invariants
//! * PF1. Lookups are right whatever happens to a filter: one that is damaged, cannot be read or has no space
//!   in the cache counts as *maybe*. Damage is remembered, told by [`Table::filter_damage`] as for kept
//!   filters, and the filter is not read again. A failed read is not remembered: the lookup continues with a
//!   block, whose read reports the error.
//! * PF2. A filter is verified before it is used, however often it is read (BS6).
//! * PF3. A filter is charged once: to its table while it is kept, to the cache while it is paged and
//!   resident. A probe holds a reference no longer than it needs.
//! * PF4. If several threads miss a filter at once, one reads it and the others wait for the result. They
//!   hold no other lock while they wait, and the reading thread takes a shard's lock only.
//!
//! # Size
//! A filter that would take more than [`MAX_CACHE_SHARE`] of the cache is not read: it would be evicted
//! before the next probe, and reading it costs more than the block that it might save. A filter below that is
//! still far larger than all other entries of the cache, so the cache makes space for it in all shards alike
//! ([`esker_cache::LARGE_SHARE`]).
//!
//! # Rejected
//! * Partitioned filters, each partition a cache entry, as in RocksDB: a lookup would read kilobytes instead
//!   of the whole filter, at the price of a second kind of section, written only where the option was set
//!   before the table. Tables are cut at some tens of mebibytes, so a filter is some hundred kibibytes, which
//!   a device reads once in the time of a few blocks.
//! * *Maybe* while another thread reads the filter: each such lookup would read a block in vain to save
//!   waiting for a part of one read.

use crate::cached_part::CachedPart;
use crate::decode_error::DecodeError;
use crate::filter_access::{FilterAccess, PagedFilter};
use crate::footer::Section;
use crate::observed_reads::{BlockOrigin, ObservedReads, note};
use crate::table::Table;
use esker_base::{Error, Result, SeqNo};
use esker_cache::{Admission, BlockKind, CacheKey};
use esker_filter::Filter;
use esker_filter::watch::is_sampled;
use std::sync::Arc;

/// The block number of the table's filter in the cache. No block has it: blocks are counted in 32 bits.
const FILTER_NUMBER: u32 = u32::MAX;

/// Largest share of the cache that a paged filter may take: 1/16.
const MAX_CACHE_SHARE: usize = 16;

impl Table {
    /// The filter, if it is kept in memory and usable.
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

    /// Expected share of absent keys within the table's range for which a lookup searches it: the filter's
    /// false-positive rate, 1 without a usable filter.
    pub fn expected_false_positive_rate(&self) -> f64 {
        if self.has_usable_filter() { self.filter_rate } else { 1.0 }
    }

    /// Whether the key with this hash may be in the table; `false` is certain.
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

    /// As [`Table::may_contain`], without reading and counting; `None` if no filter is in memory.
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

    /// Counts a false positive if a reader at `seqno` did not find a key that the filter let pass.
    #[inline]
    pub(crate) fn note_absent(&self, key: &[u8], hash: u64, seqno: SeqNo) {
        if is_sampled(hash) {
            self.note_sampled_absent(key, hash, seqno);
        }
    }

    /// A filter knows keys, not versions: if the table has only versions of the key that are newer than the
    /// reader, passing it was right. So the key is searched again at the newest sequence number where that
    /// may differ.
    #[cold]
    fn note_sampled_absent(&self, key: &[u8], hash: u64, seqno: SeqNo) {
        let sees_all = self.properties().max_seqno.max(self.global_seqno) <= seqno;
        // A failed read tells nothing.
        let is_absent = || match ObservedReads::is_on() {
            true => matches!(self.get_observed(key, hash, SeqNo::MAX), Ok(None)),
            false => matches!(self.get_with(key, hash, SeqNo::MAX, |_, _| ()), Ok(None)),
        };
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

    /// Whether lookups have a filter to probe.
    fn has_usable_filter(&self) -> bool {
        match &self.filter {
            FilterAccess::Kept(_) => true,
            FilterAccess::None => false,
            FilterAccess::Paged(paged) => self.filter_damage().is_none() && self.has_room_for(&paged.section),
        }
    }

    /// Prefetches the memory that [`Table::may_contain`] will read, if its address is known.
    #[inline]
    pub fn prefetch_filter(&self, hash: u64) {
        match &self.filter {
            FilterAccess::Kept(filter) => filter.prefetch(hash),
            FilterAccess::None => self.prefetch_locator(hash),
            FilterAccess::Paged(_) => {}
        }
    }

    /// The filter's key in the cache.
    fn filter_key(&self) -> CacheKey {
        CacheKey { table: self.number, block: FILTER_NUMBER }
    }

    #[cold]
    fn may_contain_by_cache(&self, paged: &PagedFilter, hash: u64) -> bool {
        // Checked first, so that a filter that cannot be there is not counted as a miss.
        if !self.has_usable_filter() {
            return true;
        }
        if let Some(CachedPart::Filter(filter)) =
            self.cache.get(&self.filter_key(), BlockKind::Filter, Admission::Point)
        {
            note(BlockOrigin::OtherInCache);
            return filter.may_contain(hash);
        }
        self.load_filter(paged).is_none_or(|filter| filter.may_contain(hash))
    }

    /// Reads a filter that was not in the cache, once for all threads that miss it (PF4).
    fn load_filter(&self, paged: &PagedFilter) -> Option<Arc<Filter>> {
        let _reading = paged.reading.lock();
        // A thread that waited finds the result of the one before it.
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
        // The footer's check bounds the length by the file's.
        let mut bytes = vec![0; section.len as usize];
        note(BlockOrigin::OtherInFile { bytes: section.len });
        self.file.read_exact_at(&mut bytes, section.offset)?;
        section
            .verify(self.uid, &bytes)
            .and_then(|()| Filter::decode(&bytes).map_err(DecodeError::Damaged))
            .map_err(|error| self.decode_error_at(error, section.offset))
    }

    /// Puts a verified filter into the cache; returns the resident one.
    fn admit_filter(&self, filter: Filter) -> Arc<Filter> {
        let filter = Arc::new(filter);
        let part = CachedPart::Filter(Arc::clone(&filter));
        match self.cache.insert(self.filter_key(), part, BlockKind::Filter, Admission::Point) {
            CachedPart::Filter(resident) => resident,
            CachedPart::Block(_) => filter,
        }
    }

    /// Checks that the filter, if there is one, is usable; reads it if it is paged.
    ///
    /// # Errors
    /// Its damage, and errors of reading.
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
