//! Delta block layout (T2): reading, lookups and seeks.
//!
//! ```text
//! payload: tag coding 10 | restart interval 2 | hash slots 2 | zero 2
//!          entries n x   shared varint | unshared varint | value length varint
//!                        | tag distance | unshared key bytes | value
//!          restart points 2 x ceil(n / interval) (wide: 4 x), where every interval-th entry starts
//!          hash slots 1 x
//! ```
//! `shared` is the length of the common prefix with the previous key, zero at restart points, where a search
//! can start. A hash slot holds the restart interval in which a key first occurs, or says that no key has
//! such a hash, or that keys of several intervals do, so that only a binary search over the restart points
//! decides.
//!
//! # Safety argument
//! [`Delta::validate`] runs once, when a block enters memory. It walks all entries and establishes:
//! * D1. hash slots and restart points lie within the payload, and entries fill the space before them
//!   exactly;
//! * D2. each entry's varints, tag distance, key bytes and value lie within that space;
//! * D3. `shared` is zero at restart points, and never more than the length of the previous key;
//! * D4. keys are at most [`MAX_KEY_LEN`] bytes;
//! * D5. restart point `r` is where entry `r * interval` starts.
//!
//! Positions are computed only from restart points, or as the end of an entry before `count` that has a
//! successor, so every access is within the payload; eight-byte loads may reach into the readable bytes after
//! it.

use super::FoundEntry;
use super::delta_encode::{PAYLOAD_HEADER_BYTES, SLOT_CANCELLED, SLOT_EMPTY, slot_of};
use super::header::{BlockHeader, HEADER_BYTES};
use super::raw;
use super::tags::{TAG_CODING_BYTES, TagCoding};
use crate::decode_error::{DecodeError, damaged};
use crate::simd::prefetch;
use esker_base::coding::Reader;
use esker_base::key::common_prefix_len;
use esker_base::limits::{MAX_KEY_LEN, MAX_VALUE_LEN};
use esker_base::{Tag, coding};
use std::cmp::Ordering;

/// Where the parts of a validated delta block lie.
///
/// Has no lifetime, so that cursors can keep it beside the block. Every unsafe method requires that the block
/// is alive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delta {
    base: *const u8,
    count: usize,
    interval: usize,
    restarts: usize,
    restarts_at: usize,
    slots_at: usize,
    slots: usize,
    wide: bool,
    tags: TagCoding,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct DeltaEntry {
    pub(crate) tag: Tag,
    pub(crate) shared_len: usize,
    pub(crate) unshared_at: usize,
    pub(crate) unshared_len: usize,
    /// End of the value and of the entry.
    pub(crate) end: usize,
}

impl DeltaEntry {
    #[inline(always)]
    pub(crate) fn value_at(&self) -> usize {
        self.unshared_at + self.unshared_len
    }

    #[inline(always)]
    fn found(&self) -> FoundEntry {
        // Payloads have less than 4 GiB.
        let start = (HEADER_BYTES + self.value_at()) as u32;
        FoundEntry { tag: self.tag, start, len: (self.end - self.value_at()) as u32 }
    }
}

/// What the hash index tells about a key.
enum HashSlot {
    /// The key is not in the block.
    Absent,
    /// If it is in the block, its newest version is in this restart interval.
    Restart(usize),
    /// No information.
    Unknown,
}

impl Delta {
    /// The view of a payload, which [`Delta::validate`] must have accepted before anything unsafe is called.
    #[inline(always)]
    pub(crate) fn new(header: &BlockHeader, payload: &[u8]) -> Delta {
        let field = |at: usize| usize::from(u16::from_le_bytes([payload[at], payload[at + 1]]));
        // Short payloads were refused before; the bounds check costs nothing beside the copy.
        let tags: [u8; TAG_CODING_BYTES] = payload[..TAG_CODING_BYTES].try_into().expect("ten bytes");
        let (count, interval, slots) = (header.entries as usize, field(10).max(1), field(12));
        let restarts = count.div_ceil(interval);
        let wide = header.wide_offsets();
        // Invalid payloads may make these wrap; validation detects that.
        let slots_at = (header.raw_len as usize).wrapping_sub(slots);
        let restarts_at = slots_at.wrapping_sub(restarts * if wide { 4 } else { 2 });
        Delta {
            base: payload.as_ptr(),
            count,
            interval,
            restarts,
            restarts_at,
            slots_at,
            slots,
            wide,
            tags: TagCoding::from_validated(&tags),
        }
    }

    /// Establishes D1 to D5 for the payload, `header.raw_len` bytes.
    pub(crate) fn validate(header: &BlockHeader, payload: &[u8]) -> Result<(), DecodeError> {
        let Some(front) = payload.first_chunk::<PAYLOAD_HEADER_BYTES>() else {
            return damaged(format!("a delta block of {} bytes is too short", payload.len()));
        };
        let tags: [u8; TAG_CODING_BYTES] = front[..TAG_CODING_BYTES].try_into().expect("ten bytes");
        TagCoding::decode(&tags)?;
        if front[10..12] == [0, 0] {
            return damaged("a delta block has no restart interval");
        }
        let delta = Delta::new(header, payload);
        let tail = delta.slots as u64 + delta.restarts as u64 * if delta.wide { 4 } else { 2 };
        if payload.len() != header.raw_len as usize
            || tail + PAYLOAD_HEADER_BYTES as u64 > payload.len() as u64
        {
            return damaged(format!(
                "{} restart points and {} hash slots do not fit a delta block of {} bytes",
                delta.restarts,
                delta.slots,
                payload.len()
            ));
        }
        delta.validate_entries(&payload[..delta.restarts_at])
    }

    fn validate_entries(&self, entries: &[u8]) -> Result<(), DecodeError> {
        let mut reader = Reader::new(entries);
        reader.take(PAYLOAD_HEADER_BYTES);
        let mut previous_len = 0;
        for i in 0..self.count {
            if i % self.interval == 0 {
                // SAFETY: D1 was established, and `i / interval < restarts`.
                let stated = unsafe { self.restart(i / self.interval) };
                if stated != reader.position() {
                    let found = reader.position();
                    return damaged(format!("entry {i} of a delta block starts at {found}, not at {stated}"));
                }
                previous_len = 0;
            }
            let Some(key_len) = self.read_entry(&mut reader, previous_len) else {
                return damaged(format!("entry {i} of a delta block does not fit"));
            };
            previous_len = key_len;
        }
        if !reader.is_empty() {
            return damaged(format!("a delta block has {} bytes too many", reader.remaining()));
        }
        Ok(())
    }

    /// Passes one entry; returns the length of its key.
    fn read_entry(&self, reader: &mut Reader<'_>, previous_len: usize) -> Option<usize> {
        let (shared, unshared) = (reader.varint_u32()? as usize, reader.varint_u32()? as usize);
        let value_len = reader.varint_u32()? as usize;
        reader.take(self.tags.width())?;
        reader.take(unshared)?;
        reader.take(value_len)?;
        let key_len = shared.checked_add(unshared)?;
        (shared <= previous_len && key_len <= MAX_KEY_LEN && value_len <= MAX_VALUE_LEN).then_some(key_len)
    }

    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    #[inline(always)]
    pub(crate) fn base(&self) -> *const u8 {
        self.base
    }

    pub(crate) fn tags(&self) -> TagCoding {
        self.tags
    }

    /// Entries from one restart point to the next.
    #[inline(always)]
    pub(crate) fn interval(&self) -> usize {
        self.interval
    }

    pub(crate) fn restarts(&self) -> usize {
        self.restarts
    }

    /// The hash slots.
    ///
    /// # Safety
    /// The block must be alive for `'a`.
    pub(crate) unsafe fn slots<'a>(&self) -> &'a [u8] {
        // SAFETY: D1.
        unsafe { raw::slice_at(self.base, self.slots_at, self.slots) }
    }

    /// Where the entry of restart point `r` starts.
    ///
    /// # Safety
    /// The block must be alive and `r < restarts`.
    #[inline(always)]
    pub(crate) unsafe fn restart(&self, r: usize) -> usize {
        // SAFETY: D1.
        unsafe {
            if self.wide {
                raw::u32_at(self.base, self.restarts_at + 4 * r) as usize
            } else {
                usize::from(raw::u16_at(self.base, self.restarts_at + 2 * r))
            }
        }
    }

    /// The entry that starts at `at`.
    ///
    /// # Safety
    /// The block must be alive, and an entry start at `at`.
    #[inline(always)]
    pub(crate) unsafe fn entry(&self, at: usize) -> DeltaEntry {
        // SAFETY: D2.
        unsafe {
            let (shared_len, at) = raw::varint_at(self.base, at);
            let (unshared_len, at) = raw::varint_at(self.base, at);
            let (value_len, at) = raw::varint_at(self.base, at);
            let tag = self.tags.tag_at(self.base, at);
            let unshared_at = at + self.tags.width();
            DeltaEntry {
                tag,
                shared_len,
                unshared_at,
                unshared_len,
                end: unshared_at + unshared_len + value_len,
            }
        }
    }

    /// The key bytes that an entry of this block stores.
    ///
    /// # Safety
    /// The block must be alive for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn unshared<'a>(&self, entry: &DeltaEntry) -> &'a [u8] {
        // SAFETY: D2.
        unsafe { raw::slice_at(self.base, entry.unshared_at, entry.unshared_len) }
    }

    /// # Safety
    /// The block must be alive.
    #[inline(always)]
    unsafe fn slot(&self, hash: u64) -> HashSlot {
        if self.slots == 0 {
            return HashSlot::Unknown;
        }
        // SAFETY: D1, and a slot number is less than `slots`.
        match unsafe { raw::u8_at(self.base, self.slots_at + slot_of(hash, self.slots)) } {
            SLOT_EMPTY => HashSlot::Absent,
            SLOT_CANCELLED => HashSlot::Unknown,
            // A number beyond the last restart point cannot have been written.
            restart => HashSlot::Restart(usize::from(restart).min(self.restarts - 1)),
        }
    }

    /// The newest version of `key` whose tag is at most `newest`.
    ///
    /// # Safety
    /// The block must be alive.
    #[inline(always)]
    pub(crate) unsafe fn find(&self, key: &[u8], hash: u64, newest: Tag) -> Option<FoundEntry> {
        // SAFETY: the block is alive.
        unsafe {
            match self.slot(hash) {
                HashSlot::Absent => None,
                // For an older version, newer ones may fill whole intervals: skip them by binary search.
                HashSlot::Restart(restart) => match self.scan(restart, key, newest, true) {
                    ScanResult::Found(found) => Some(found),
                    ScanResult::Ended => None,
                    ScanResult::LeftInterval => self.find_by_search(key, newest),
                },
                HashSlot::Unknown => self.find_by_search(key, newest),
            }
        }
    }

    /// # Safety
    /// The block must be alive.
    unsafe fn find_by_search(&self, key: &[u8], newest: Tag) -> Option<FoundEntry> {
        // SAFETY: the block is alive.
        match unsafe { self.scan(self.restart_before(key, newest), key, newest, false) } {
            ScanResult::Found(found) => Some(found),
            ScanResult::Ended | ScanResult::LeftInterval => None,
        }
    }

    /// Walks from restart point `restart` to the wanted version of `key`, comparing without assembling keys.
    ///
    /// `matched` is the length of the prefix that `key` has in common with the entry before, which is less
    /// than the wanted version. If an entry shares more with that entry, it is less too; if it shares less,
    /// it is greater than `key`; only if it shares exactly that much, its own bytes decide.
    ///
    /// # Safety
    /// The block must be alive and `restart < restarts`.
    #[inline(always)]
    unsafe fn scan(&self, restart: usize, key: &[u8], newest: Tag, one_interval: bool) -> ScanResult {
        // SAFETY: guaranteed by the caller.
        let mut at = unsafe { self.restart(restart) };
        let first = restart * self.interval;
        let mut next_restart = first;
        let (mut matched, mut met_key) = (0, false);
        for i in first..self.count {
            if i == next_restart {
                if one_interval && i != first {
                    // No version of the key so far: the first one would be in this interval.
                    return if met_key { ScanResult::LeftInterval } else { ScanResult::Ended };
                }
                // Restart points store whole keys.
                matched = 0;
                next_restart += self.interval;
            }
            // SAFETY: `at` is a restart point or the end of an entry before the last.
            let entry = unsafe { self.entry(at) };
            at = entry.end;
            match entry.shared_len.cmp(&matched) {
                Ordering::Greater => continue,
                Ordering::Less => return ScanResult::Ended,
                Ordering::Equal => {}
            }
            // SAFETY: the block is alive.
            let own = unsafe { self.unshared(&entry) };
            let wanted = &key[matched..];
            let common = common_prefix_len(own, wanted);
            if common == wanted.len() {
                if own.len() > common {
                    return ScanResult::Ended;
                }
                if entry.tag <= newest {
                    return ScanResult::Found(entry.found());
                }
                met_key = true;
            } else if own.len() > common && own[common] > wanted[common] {
                return ScanResult::Ended;
            }
            matched += common;
        }
        ScanResult::Ended
    }

    /// The last restart point whose entry is before the version `newest` of `key`; 0 if there is none.
    ///
    /// # Safety
    /// The block must be alive.
    pub(crate) unsafe fn restart_before(&self, key: &[u8], newest: Tag) -> usize {
        let (mut from, mut to) = (0, self.restarts);
        while to - from > 1 {
            let middle = (from + to) / 2;
            // SAFETY: `middle < restarts`; restart points store whole keys.
            let (entry, own) = unsafe {
                let entry = self.entry(self.restart(middle));
                (entry, self.unshared(&entry))
            };
            let before = match own.cmp(key) {
                Ordering::Less => true,
                Ordering::Equal => entry.tag > newest,
                Ordering::Greater => false,
            };
            if before { from = middle } else { to = middle }
        }
        from
    }

    /// Prefetches what [`Delta::find`] reads first.
    ///
    /// # Safety
    /// The block must be alive.
    #[inline(always)]
    pub(crate) unsafe fn prefetch_directory(&self, hash: u64) {
        if self.slots > 0 {
            prefetch(self.base.wrapping_add(self.slots_at + slot_of(hash, self.slots)));
        }
        prefetch(self.base.wrapping_add(self.restarts_at));
    }

    /// Prefetches the entries that [`Delta::find`] will walk over.
    ///
    /// # Safety
    /// The block must be alive.
    #[inline(always)]
    pub(crate) unsafe fn prefetch_found(&self, hash: u64) {
        // SAFETY: the block is alive, and slots name restart points.
        unsafe {
            if let HashSlot::Restart(restart) = self.slot(hash) {
                let at = self.base.wrapping_add(self.restart(restart));
                prefetch(at);
                prefetch(at.wrapping_add(64));
            }
        }
    }

    /// Bytes that prefix sharing and varints save, for inspection.
    ///
    /// # Safety
    /// The block must be alive.
    pub(crate) unsafe fn savings(&self) -> Savings {
        let mut savings = Savings::default();
        let mut at = PAYLOAD_HEADER_BYTES;
        for _ in 0..self.count {
            // SAFETY: the first entry follows the payload's header, and each other one its predecessor.
            let entry = unsafe { self.entry(at) };
            let value_len = entry.end - entry.value_at();
            let lengths = [entry.shared_len, entry.unshared_len, value_len];
            let varints: usize = lengths.iter().map(|&len| coding::varint_len(len as u64)).sum();
            savings.shared_bytes += entry.shared_len as u64;
            // The fixed form would have two bytes for each of the key's lengths and four for the value's.
            savings.varint_bytes += 8u64.saturating_sub(varints as u64);
            at = entry.end;
        }
        savings
    }
}

enum ScanResult {
    Found(FoundEntry),
    /// The version wanted is not in the block.
    Ended,
    /// The key is there, but all versions in the interval are too new.
    LeftInterval,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Savings {
    /// Key bytes not stored because the key before has them.
    pub(crate) shared_bytes: u64,
    /// Bytes that varints saved against lengths of two, two and four bytes.
    pub(crate) varint_bytes: u64,
}
