//! Flat block layout: reading, lookups and seeks.
//!
//! ```text
//! payload: tag coding 10 | prefix length 2 | suffix length 2 | entry length 2
//!          prefix                      what all keys start with
//!          fingerprints 1 x n          a byte of each key's hash
//!          offsets 2 x n (wide: 4 x n) where each entry starts; none if all have the same length
//!          heads 2 x n                 first two bytes of each suffix, as a number
//!          entries n x                 tag distance | [suffix length varint] | suffix | value
//! ```
//! A value ends where the next entry starts. The suffix length is stored unless a header flag says that all
//! suffixes have the same. If values have one length as well, a multiplication replaces the offsets, which
//! would be an eighth of each entry for keys and values of eight bytes. A lookup compares all fingerprints at
//! once and reads the one entry; a seek ranks the heads. Both read two or three adjacent cache lines and one
//! more, in half the time of a walk over delta-coded entries.
//!
//! # Safety argument
//! [`Flat::validate`] ([`validity`]) runs once, when a block enters memory. It establishes, for all
//! `i < count`:
//! * F1. prefix and directory lie within the payload;
//! * F2. `offset(i)` is not less than the end of the directory, offsets do not decrease, and the last entry
//!   ends with the payload;
//! * F3. tag distance, suffix length and suffix of entry `i` lie within `offset(i)..offset(i + 1)`;
//! * F4. prefix and suffix together are at most [`MAX_KEY_LEN`](esker_base::limits::MAX_KEY_LEN) bytes;
//! * F5. the header's flag says that entries have one length if and only if that is not zero; then suffixes
//!   have one as well, and no offset is wide.
//!
//! [`BlockBytes`](super::BlockBytes) have at least [`LANE_BYTES`] readable bytes after the payload. So every
//! position computed from an index less than `count` is readable, even by loads of 64 bytes, and no other
//! position is computed. The order of keys is not part of the argument: a wrong order gives wrong answers
//! (which the checksum excludes), never a wrong access.

mod validity;

use super::FoundEntry;
use super::flat_encode::{PAYLOAD_HEADER_BYTES, fingerprint, head_of_suffix};
use super::header::{BlockHeader, FLAG_FIXED_SUFFIX, HEADER_BYTES};
use super::raw;
use super::tags::{TAG_CODING_BYTES, TagCoding};
use crate::simd::{Kernel, LANE_BYTES, prefetch};
use esker_base::Tag;
use std::cmp::Ordering;

/// With more entries, fingerprints alone would match several wrong ones, so heads narrow the search first.
const MAX_ENTRIES_BY_FINGERPRINT: usize = 128;

/// Versions of one key compared one by one before a binary search.
const MAX_LINEAR_VERSIONS: usize = 4;

/// Where the parts of a validated flat block lie.
///
/// Has no lifetime, so that cursors can keep it beside the block. Every unsafe method requires that the block
/// is alive and that indexes are less than [`Flat::count`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flat {
    base: *const u8,
    len: usize,
    count: usize,
    prefix_len: usize,
    /// `None` if each entry states it.
    suffix_len: Option<usize>,
    /// Bytes of each entry, if all have the same; else 0, and offsets tell.
    stride: usize,
    /// Whether offsets have four bytes.
    wide: bool,
    tags: TagCoding,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct FlatEntry {
    pub(crate) tag: Tag,
    pub(crate) suffix_at: usize,
    pub(crate) suffix_len: usize,
    /// End of the value.
    pub(crate) end: usize,
}

impl FlatEntry {
    #[inline(always)]
    pub(crate) fn value_at(&self) -> usize {
        self.suffix_at + self.suffix_len
    }

    #[inline(always)]
    pub(crate) fn found(&self) -> FoundEntry {
        // Payloads have less than 4 GiB.
        let start = (HEADER_BYTES + self.value_at()) as u32;
        FoundEntry { tag: self.tag, start, len: (self.end - self.value_at()) as u32 }
    }
}

impl Flat {
    /// The view of a payload, which [`Flat::validate`] must have accepted before anything unsafe is called.
    #[inline(always)]
    pub(crate) fn new(header: &BlockHeader, payload: &[u8]) -> Flat {
        // Short payloads are refused before; one check is enough for all fields.
        let front: &[u8; PAYLOAD_HEADER_BYTES] = payload.first_chunk().expect("sixteen bytes");
        let field = |at: usize| usize::from(u16::from_le_bytes([front[at], front[at + 1]]));
        let tags: [u8; TAG_CODING_BYTES] = *front.first_chunk().expect("ten bytes");
        Flat {
            base: payload.as_ptr(),
            len: header.raw_len as usize,
            count: header.entries as usize,
            prefix_len: field(10),
            suffix_len: (header.flags & FLAG_FIXED_SUFFIX != 0).then(|| field(12)),
            stride: field(14),
            wide: header.wide_offsets(),
            tags: TagCoding::from_validated(&tags),
        }
    }

    /// Length of the suffixes, if all have one and no offset is wide.
    #[inline(always)]
    pub(crate) fn uniform_suffix_len(&self) -> Option<usize> {
        self.suffix_len.filter(|_| !self.wide)
    }

    #[inline(always)]
    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    #[inline(always)]
    pub(crate) fn tags(&self) -> TagCoding {
        self.tags
    }

    /// Start of the narrow offsets, if there are offsets, and where the last entry ends.
    #[inline(always)]
    pub(crate) fn narrow_offsets(&self) -> (*const u8, usize) {
        (self.base.wrapping_add(self.fingerprints_at() + self.count), self.len)
    }

    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    #[inline(always)]
    pub(crate) fn base(&self) -> *const u8 {
        self.base
    }

    #[inline(always)]
    pub(crate) fn prefix_len(&self) -> usize {
        self.prefix_len
    }

    /// What all keys start with.
    ///
    /// # Safety
    /// The block must be alive for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn prefix<'a>(&self) -> &'a [u8] {
        // SAFETY: F1.
        unsafe { raw::slice_at(self.base, PAYLOAD_HEADER_BYTES, self.prefix_len) }
    }

    #[inline(always)]
    fn fingerprints_at(&self) -> usize {
        PAYLOAD_HEADER_BYTES + self.prefix_len
    }

    #[inline(always)]
    fn offset_bytes(&self) -> usize {
        match (self.stride, self.wide) {
            (0, false) => 2,
            (0, true) => 4,
            _ => 0,
        }
    }

    #[inline(always)]
    fn heads_at(&self) -> usize {
        self.fingerprints_at() + self.count * (1 + self.offset_bytes())
    }

    /// Where entry `i` starts.
    ///
    /// # Safety
    /// The block must be alive and `i < count`.
    #[inline(always)]
    unsafe fn offset(&self, i: usize) -> usize {
        if self.stride != 0 {
            // Entries fill the payload to its end; counting from there takes fewer steps.
            return self.len - self.stride * (self.count - i);
        }
        let offsets_at = self.fingerprints_at() + self.count;
        // SAFETY: F1.
        unsafe {
            if self.wide {
                raw::u32_at(self.base, offsets_at + 4 * i) as usize
            } else {
                usize::from(raw::u16_at(self.base, offsets_at + 2 * i))
            }
        }
    }

    /// Where entry `i`, which starts at `at`, ends.
    ///
    /// # Safety
    /// The block must be alive and `i < count`.
    #[inline(always)]
    unsafe fn end(&self, i: usize, at: usize) -> usize {
        if self.stride != 0 {
            at + self.stride
        } else if i + 1 < self.count {
            // SAFETY: the next index is less than `count`.
            unsafe { self.offset(i + 1) }
        } else {
            self.len
        }
    }

    /// # Safety
    /// The block must be alive and `i < count`.
    #[inline(always)]
    pub(crate) unsafe fn entry(&self, i: usize) -> FlatEntry {
        // SAFETY: guaranteed by the caller.
        unsafe { self.entry_at(i, self.offset(i)) }
    }

    /// Entry `i`, which starts at `at`.
    ///
    /// # Safety
    /// The block must be alive and `i < count`.
    #[inline(always)]
    unsafe fn entry_at(&self, i: usize, at: usize) -> FlatEntry {
        // SAFETY: F2 and F3; eight bytes behind any offset are readable.
        unsafe {
            let tag = self.tags.tag_at(self.base, at);
            let key_at = at + self.tags.width();
            let (suffix_len, suffix_at) = match self.suffix_len {
                Some(len) => (len, key_at),
                None => raw::varint_at(self.base, key_at),
            };
            FlatEntry { tag, suffix_at, suffix_len, end: self.end(i, at) }
        }
    }

    /// Whether the directory is right about entry `i`, whose key has this hash. A wrong directory may still
    /// find the entry, but misleads seeks of absent keys.
    ///
    /// # Safety
    /// The block must be alive and `i < count`.
    pub(crate) unsafe fn directory_fits(&self, i: usize, hash: u64) -> bool {
        // SAFETY: F1, F3.
        unsafe {
            let suffix = self.suffix(&self.entry(i));
            *self.base.add(self.fingerprints_at() + i) == fingerprint(hash)
                && raw::u16_at(self.base, self.heads_at() + 2 * i) == head_of_suffix(suffix)
        }
    }

    /// Suffix of an entry of this block.
    ///
    /// # Safety
    /// The block must be alive for `'a`.
    #[inline(always)]
    unsafe fn suffix<'a>(&self, entry: &FlatEntry) -> &'a [u8] {
        // SAFETY: F3.
        unsafe { raw::slice_at(self.base, entry.suffix_at, entry.suffix_len) }
    }

    /// The newest version of `key` whose tag is at most `newest`.
    ///
    /// # Safety
    /// The block must be alive, and the kernel's instructions available.
    #[inline(always)]
    pub(crate) unsafe fn find<K: Kernel>(&self, key: &[u8], hash: u64, newest: Tag) -> Option<FoundEntry> {
        if self.count > LANE_BYTES {
            // SAFETY: guaranteed by the caller.
            return unsafe { self.find_in_lanes::<K>(key, hash, newest) };
        }
        // SAFETY: F1, and 64 bytes behind the fingerprints are readable. Bits are set below `count` only.
        unsafe {
            let fingerprints = self.base.add(self.fingerprints_at());
            let mask = K::match_bytes(fingerprints, self.count, fingerprint(hash));
            if mask == 0 {
                return None;
            }
            // The first match is nearly always right; outside of a loop it needs less setup.
            let first = mask.trailing_zeros() as usize;
            let at = self.offset(first);
            self.prefetch_at(at);
            let entry = self.entry_at(first, at);
            if self.has_key(&entry, key) && entry.tag <= newest {
                return Some(entry.found());
            }
            self.resolve_candidates(0, mask, key, newest).flatten()
        }
    }

    /// As [`Flat::find`], for any number of entries.
    ///
    /// # Safety
    /// As for [`Flat::find`].
    #[inline(always)]
    unsafe fn find_in_lanes<K: Kernel>(&self, key: &[u8], hash: u64, newest: Tag) -> Option<FoundEntry> {
        let (mut at, mut to) = (0, self.count);
        if self.count > MAX_ENTRIES_BY_FINGERPRINT {
            let suffix = key.get(self.prefix_len..)?;
            // SAFETY: F1, and 64 bytes behind the heads are readable.
            (at, to) =
                unsafe { K::rank_heads(self.base.add(self.heads_at()), self.count, head_of_suffix(suffix)) };
        }
        while at < to {
            let lane = (to - at).min(LANE_BYTES);
            // SAFETY: F1, and 64 bytes behind the fingerprints are readable.
            let mask = unsafe {
                K::match_bytes(self.base.add(self.fingerprints_at() + at), lane, fingerprint(hash))
            };
            if mask != 0 {
                // SAFETY: bits are set below `lane` only, so they name entries below `count`.
                let answer = unsafe { self.resolve_candidates(at, mask, key, newest) };
                if let Some(answer) = answer {
                    return answer;
                }
            }
            at += lane;
        }
        None
    }

    /// Checks the entries whose bits are set, numbered from `at`. `None` if none of them has the key; else
    /// the version found, if it is visible.
    ///
    /// # Safety
    /// The block must be alive, and the numbers less than `count`.
    #[inline(never)]
    unsafe fn resolve_candidates(
        &self,
        at: usize,
        mut mask: u64,
        key: &[u8],
        newest: Tag,
    ) -> Option<Option<FoundEntry>> {
        while mask != 0 {
            let i = at + mask.trailing_zeros() as usize;
            mask &= mask - 1;
            // The key arrives with the first line; prefetching the others saves the reader of the value from
            // waiting for them. SAFETY: guaranteed by the caller.
            let entry = unsafe {
                let at = self.offset(i);
                self.prefetch_at(at);
                self.entry_at(i, at)
            };
            // SAFETY: the block is alive.
            if unsafe { self.has_key(&entry, key) } {
                if entry.tag <= newest {
                    return Some(Some(entry.found()));
                }
                // SAFETY: as above.
                return Some(unsafe { self.find_older(i + 1, key, newest) });
            }
        }
        None
    }

    /// # Safety
    /// The block must be alive.
    #[inline(always)]
    unsafe fn has_key(&self, entry: &FlatEntry, key: &[u8]) -> bool {
        if self.prefix_len + entry.suffix_len != key.len() {
            return false;
        }
        let (front, back) = key.split_at(self.prefix_len);
        // SAFETY: the block is alive.
        unsafe { raw::bytes_equal(self.suffix(entry), back) && raw::bytes_equal(self.prefix(), front) }
    }

    /// Searches for an older version of `key` from entry `i` on; the entry before is too new.
    ///
    /// # Safety
    /// The block must be alive.
    #[cold]
    unsafe fn find_older(&self, mut i: usize, key: &[u8], newest: Tag) -> Option<FoundEntry> {
        let suffix = key.get(self.prefix_len..)?;
        let one_by_one = self.count.min(i + MAX_LINEAR_VERSIONS);
        // SAFETY: indexes stay below `count`, and the block is alive.
        unsafe {
            while i < one_by_one && self.is_before(i, suffix, newest) {
                i += 1;
            }
            if i == one_by_one {
                i = self.partition(i, self.count, suffix, newest);
            }
            if i == self.count {
                return None;
            }
            let entry = self.entry(i);
            self.has_key(&entry, key).then(|| entry.found())
        }
    }

    /// Whether entry `i` comes before the version `newest` of the key with this suffix.
    ///
    /// # Safety
    /// The block must be alive and `i < count`.
    #[inline(always)]
    unsafe fn is_before(&self, i: usize, suffix: &[u8], newest: Tag) -> bool {
        // SAFETY: guaranteed by the caller.
        let entry = unsafe { self.entry(i) };
        // SAFETY: the block is alive.
        match unsafe { self.suffix(&entry) }.cmp(suffix) {
            Ordering::Less => true,
            Ordering::Equal => entry.tag > newest,
            Ordering::Greater => false,
        }
    }

    /// # Safety
    /// The block must be alive and `to <= count`.
    #[inline(always)]
    unsafe fn partition(&self, mut from: usize, mut to: usize, suffix: &[u8], newest: Tag) -> usize {
        while from < to {
            let middle = (from + to) / 2;
            // SAFETY: `middle < to <= count`.
            if unsafe { self.is_before(middle, suffix, newest) } { from = middle + 1 } else { to = middle }
        }
        from
    }

    /// The first entry that is not before the version `newest` of `key`; `count` if there is none.
    ///
    /// # Safety
    /// The block must be alive, and the kernel's instructions available.
    #[inline(always)]
    pub(crate) unsafe fn lower_bound<K: Kernel>(&self, key: &[u8], newest: Tag) -> usize {
        // SAFETY: the block is alive.
        let prefix = unsafe { self.prefix() };
        let shared = prefix.len().min(key.len());
        let (front, suffix) = key.split_at(shared);
        if !raw::bytes_equal(front, prefix) {
            // A key that is a proper prefix of the prefix is less than all keys here.
            return if front > prefix { self.count } else { 0 };
        }
        // SAFETY: F1, and 64 bytes behind the heads are readable; ranks are at most `count`.
        unsafe {
            let heads = self.base.add(self.heads_at());
            let (from, to) = K::rank_heads(heads, self.count, head_of_suffix(suffix));
            self.partition(from, to, suffix, newest)
        }
    }

    /// Prefetches the entry that [`Flat::find`] reads first.
    ///
    /// # Safety
    /// As [`Flat::find`].
    #[inline(always)]
    pub(crate) unsafe fn prefetch_found<K: Kernel>(&self, hash: u64) {
        let lane = self.count.min(LANE_BYTES);
        // SAFETY: F1, and 64 bytes behind the fingerprints are readable.
        let mask = unsafe { K::match_bytes(self.base.add(self.fingerprints_at()), lane, fingerprint(hash)) };
        if mask != 0 {
            // SAFETY: bits are set below `lane` only.
            unsafe { self.prefetch_entry(mask.trailing_zeros() as usize) };
        }
    }

    /// Prefetches the entry that [`Flat::lower_bound`] reads first.
    ///
    /// # Safety
    /// As [`Flat::lower_bound`].
    #[inline(always)]
    pub(crate) unsafe fn prefetch_lower_bound<K: Kernel>(&self, key: &[u8]) {
        let Some(suffix) = key.get(self.prefix_len..) else { return };
        // SAFETY: F1, and 64 bytes behind the heads are readable.
        let (from, _) =
            unsafe { K::rank_heads(self.base.add(self.heads_at()), self.count, head_of_suffix(suffix)) };
        if from < self.count {
            // SAFETY: `from < count` was just checked.
            unsafe { self.prefetch_entry(from) };
        }
    }

    /// # Safety
    /// The block must be alive and `i < count`.
    #[inline(always)]
    unsafe fn prefetch_entry(&self, i: usize) {
        // SAFETY: guaranteed by the caller.
        self.prefetch_at(unsafe { self.offset(i) });
    }

    #[inline(always)]
    fn prefetch_at(&self, at: usize) {
        let at = self.base.wrapping_add(at);
        // A key and a small value take two or three lines.
        prefetch(at);
        prefetch(at.wrapping_add(64));
        prefetch(at.wrapping_add(120));
    }
}
