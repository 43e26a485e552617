//! Staging buffer of the block being written: collects entries before they are encoded.
//!
//! Common prefix and tag width are known only with the last entry, so a block is encoded at once. Keys and
//! values are adjacent in one buffer that is reused from block to block.

use super::delta_encode::{self, DeltaOptions};
use super::flat_encode::{self, ENTRY_SLACK};
use super::header::FRAME_BYTES;
use super::raw::{copy_exactly, copy_key};
use super::tags::TagCoding;
use esker_base::coding::varint_len;
use esker_base::key::common_prefix_len;
use esker_base::{SeqNo, Tag, large_buffer};

/// One entry; its key and value follow those of the entry before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StagedEntry {
    pub(crate) tag: u64,
    pub(crate) hash: u64,
    pub(crate) value_len: u32,
    pub(crate) key_len: u16,
    /// Leading bytes that the key has in common with the key before; 0 for the first.
    pub(crate) shared_len: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LayoutOptions {
    Flat,
    Delta(DeltaOptions),
}

#[derive(Debug)]
pub(crate) struct Staged {
    options: LayoutOptions,
    bytes: Vec<u8>,
    entries: Vec<StagedEntry>,
    last_key_at: usize,
    longest_key: usize,
    shortest_key: usize,
    min_tag: u64,
    max_tag: u64,
    /// Tag and key length of the first entry; only entries that differ need more work.
    first_tag: u64,
    first_key_len: usize,
    /// Length of the first value; an impossible length without an entry.
    first_value_len: usize,
    has_equal_values: bool,
    /// Most bytes of the block for each entry besides key and value, if the next one has tag, key length and
    /// value length of the first.
    around_bytes: usize,
    /// Bits in which the kinds of other entries differ from that of the first.
    kind_differences: u8,
    /// Bytes of the delta coding so far, without tags, restart points and hash slots.
    delta_bytes: usize,
}

/// Most bytes of a block that has no entry.
const MOST_OF_NONE: usize = FRAME_BYTES + flat_encode::PAYLOAD_HEADER_BYTES;

/// What a block holds, counted once it is full instead of entry by entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) entries: u64,
    pub(crate) key_bytes: u64,
    pub(crate) value_bytes: u64,
    pub(crate) tombstones: u64,
    pub(crate) min_seqno: SeqNo,
    pub(crate) max_seqno: SeqNo,
    pub(crate) is_all_plain: bool,
}

impl Staged {
    pub(crate) fn new(options: LayoutOptions) -> Staged {
        Staged {
            options,
            bytes: Vec::new(),
            entries: Vec::new(),
            last_key_at: 0,
            longest_key: 0,
            shortest_key: usize::MAX,
            min_tag: u64::MAX,
            max_tag: 0,
            first_tag: u64::MAX,
            first_key_len: usize::MAX,
            first_value_len: usize::MAX,
            has_equal_values: true,
            around_bytes: 0,
            kind_differences: 0,
            delta_bytes: 0,
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[inline]
    pub(crate) fn entries(&self) -> &[StagedEntry] {
        &self.entries
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn raw_len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the layout needs to know what each key shares with the one before it.
    #[inline]
    pub(crate) fn needs_shared_len(&self) -> bool {
        matches!(self.options, LayoutOptions::Delta(_))
    }

    pub(crate) fn totals(&self) -> Totals {
        let (first, entries) = (Tag::from_raw(self.min_tag), self.entries.len() as u64);
        let is_one_kind = self.kind_differences == 0;
        let key_bytes = if self.has_equal_lengths() {
            entries * self.longest_key as u64
        } else {
            self.entries.iter().map(|entry| u64::from(entry.key_len)).sum()
        };
        let tombstones = if is_one_kind {
            if first.is_tombstone() { entries } else { 0 }
        } else {
            self.entries.iter().filter(|entry| Tag::from_raw(entry.tag).is_tombstone()).count() as u64
        };
        Totals {
            entries,
            key_bytes,
            value_bytes: self.bytes.len() as u64 - key_bytes,
            tombstones,
            min_seqno: first.seqno(),
            max_seqno: Tag::from_raw(self.max_tag).seqno(),
            is_all_plain: is_one_kind && first.is_plain_put(),
        }
    }

    pub(crate) fn first_key(&self) -> &[u8] {
        self.entries.first().map_or(&[], |entry| &self.bytes[..usize::from(entry.key_len)])
    }

    #[inline]
    pub(crate) fn last_key(&self) -> &[u8] {
        self.entries
            .last()
            .map_or(&[], |entry| &self.bytes[self.last_key_at..self.last_key_at + usize::from(entry.key_len)])
    }

    /// Whether all keys have the same length behind any common prefix.
    pub(crate) fn has_equal_lengths(&self) -> bool {
        self.longest_key == self.shortest_key
    }

    /// The length of all values, if they have one.
    pub(crate) fn equal_value_len(&self) -> Option<usize> {
        self.has_equal_values.then_some(self.first_value_len)
    }

    /// Bytes common to all keys. Keys are sorted, so the first and the last one decide.
    pub(crate) fn common_prefix_len(&self) -> usize {
        common_prefix_len(self.first_key(), self.last_key())
    }

    pub(crate) fn tag_coding(&self) -> TagCoding {
        TagCoding::covering(self.min_tag, self.max_tag, self.kind_differences == 0)
    }

    /// Adds an entry. `shared_len` is the length of the prefix that its key has in common with the last one;
    /// the caller checked the order.
    ///
    /// The caller keeps keys and values within their limits, and adds an entry too large for a block to an
    /// empty one.
    #[inline]
    pub(crate) fn add(&mut self, key: &[u8], hash: u64, tag: Tag, value: &[u8], shared_len: usize) {
        let shared_len = if self.entries.is_empty() { 0 } else { shared_len };
        if let LayoutOptions::Delta(options) = &self.options {
            self.delta_bytes += options.entry_len(self.entries.len(), shared_len, key.len(), value.len());
        }
        self.push(key, hash, tag, value, shared_len);
    }

    /// As [`Staged::add`], for the flat layout, which does not use common prefixes of adjacent keys.
    #[inline(always)]
    pub(crate) fn add_flat(&mut self, key: &[u8], hash: u64, tag: Tag, value: &[u8]) {
        debug_assert!(!self.needs_shared_len());
        self.push(key, hash, tag, value, 0);
    }

    #[inline(always)]
    fn push(&mut self, key: &[u8], hash: u64, tag: Tag, value: &[u8], shared_len: usize) {
        debug_assert!(key.len() <= usize::from(u16::MAX) && u32::try_from(value.len()).is_ok());
        self.last_key_at = self.bytes.len();
        let end = self.last_key_at + key.len() + value.len();
        if end + ENTRY_SLACK > self.bytes.capacity() {
            self.make_room(end + ENTRY_SLACK - self.last_key_at);
        }
        // SAFETY: the capacity suffices for both up to `end`, and all of it is initialised then; neither
        // slice lies in a buffer that is borrowed mutably.
        unsafe {
            let to = self.bytes.as_mut_ptr().add(self.last_key_at);
            copy_key(key, to);
            copy_exactly(value, to.add(key.len()));
            self.bytes.set_len(end);
        }
        if !self.is_like_first(key, tag) {
            self.note_other(tag, key.len());
        }
        if value.len() != self.first_value_len {
            self.note_other_value(value.len());
        }
        self.entries.push(StagedEntry {
            tag: tag.raw(),
            hash,
            value_len: value.len() as u32,
            key_len: key.len() as u16,
            shared_len: shared_len as u16,
        });
    }

    #[cold]
    #[inline(never)]
    fn make_room(&mut self, bytes: usize) {
        large_buffer::reserve(&mut self.bytes, bytes);
    }

    /// Records tag and key length of an entry that differs in them from the first, or is the first.
    #[inline]
    fn note_other(&mut self, tag: Tag, key_len: usize) {
        if self.entries.is_empty() {
            (self.first_tag, self.first_key_len) = (tag.raw(), key_len);
            // As long as all entries are like the first, neither tags nor suffix lengths are written, nor
            // offsets if values are as long as the first. Keys with one tag differ, so there is a length to
            // state; one that does not fit its field is that of a single entry.
            let is_flat = !self.needs_shared_len();
            self.around_bytes =
                if is_flat { flat_encode::FINGERPRINT_AND_HEAD_BYTES } else { self.most_around() };
        } else {
            self.around_bytes = self.most_around();
        }
        self.kind_differences |= Tag::from_raw(self.first_tag).kind_byte() ^ tag.kind_byte();
        self.longest_key = self.longest_key.max(key_len);
        self.shortest_key = self.shortest_key.min(key_len);
        self.min_tag = self.min_tag.min(tag.raw());
        self.max_tag = self.max_tag.max(tag.raw());
    }

    /// Records a value whose length differs from the first, or is the first.
    #[inline]
    fn note_other_value(&mut self, value_len: usize) {
        if self.first_value_len == usize::MAX {
            self.first_value_len = value_len;
        } else {
            self.has_equal_values = false;
            self.around_bytes = self.around_bytes.max(flat_encode::DIRECTORY_BYTES);
        }
    }

    /// Whether the block with this entry, uncompressed, is certainly not larger than `limit_bytes`.
    #[inline(always)]
    pub(crate) fn certainly_fits(&self, limit_bytes: usize, key: &[u8], tag: Tag, value: &[u8]) -> bool {
        let around = if !self.is_like_first(key, tag) {
            self.most_around()
        } else if value.len() == self.first_value_len {
            self.around_bytes
        } else {
            self.around_bytes.max(flat_encode::DIRECTORY_BYTES)
        };
        let contents = self.bytes.len() + key.len() + value.len();
        MOST_OF_NONE + contents + around * (self.entries.len() + 1) <= limit_bytes
    }

    /// Whether tag and key length are those of the first entry.
    #[inline(always)]
    fn is_like_first(&self, key: &[u8], tag: Tag) -> bool {
        tag.raw() == self.first_tag && key.len() == self.first_key_len
    }

    /// Most bytes of a block for an entry besides its key and value.
    #[inline]
    fn most_around(&self) -> usize {
        // Flat: directory, tag and suffix length. Delta: three lengths, tag, restart point and four hash
        // slots.
        const AROUND_A_FLAT_ENTRY: usize = flat_encode::DIRECTORY_BYTES + 8 + 3;
        const AROUND_A_DELTA_ENTRY: usize = 32;
        if self.needs_shared_len() { AROUND_A_DELTA_ENTRY } else { AROUND_A_FLAT_ENTRY }
    }

    /// Whether the block with this entry, uncompressed, would be larger than `limit_bytes`.
    #[inline]
    pub(crate) fn would_exceed(
        &self,
        limit_bytes: usize,
        key: &[u8],
        tag: Tag,
        value: &[u8],
        shared_len: usize,
    ) -> bool {
        !self.certainly_fits(limit_bytes, key, tag, value)
            && self.exact_len_with(key, tag, value, shared_len) > limit_bytes
    }

    #[inline(never)]
    fn exact_len_with(&self, key: &[u8], tag: Tag, value: &[u8], shared_len: usize) -> usize {
        let entries = self.entries.len() + 1;
        let (min, max) = (self.min_tag.min(tag.raw()), self.max_tag.max(tag.raw()));
        let first_kind = Tag::from_raw(self.first_tag).kind_byte();
        let same_kind = self.kind_differences == 0 && (self.is_empty() || first_kind == tag.kind_byte());
        let tag_len = TagCoding::covering(min, max, same_kind).width();
        let payload = match &self.options {
            LayoutOptions::Flat => {
                let first = if self.is_empty() { key } else { self.first_key() };
                let prefix = common_prefix_len(first, key);
                let longest = self.longest_key.max(key.len());
                let equal = longest == self.shortest_key.min(key.len());
                let length_bytes = if equal { 0 } else { entries * varint_len((longest - prefix) as u64) };
                let contents = self.bytes.len() + key.len() + value.len() - entries * prefix;
                let has_equal_values =
                    self.is_empty() || self.equal_value_len().is_some_and(|len| len == value.len());
                let stride = flat_encode::stride_of(tag_len, longest - prefix, value.len())
                    .filter(|_| equal && has_equal_values);
                let directory_bytes = match stride {
                    Some(_) => flat_encode::FINGERPRINT_AND_HEAD_BYTES,
                    None => flat_encode::DIRECTORY_BYTES,
                };
                flat_encode::fixed_len(entries, prefix, directory_bytes) + contents + length_bytes
            }
            LayoutOptions::Delta(options) => {
                let entry = options.entry_len(self.entries.len(), shared_len, key.len(), value.len());
                options.fixed_len(entries) + self.delta_bytes + entry
            }
        };
        FRAME_BYTES + payload + entries * tag_len
    }

    /// Appends the payload of the block to `out` and starts the next block; returns the flags for its header.
    pub(crate) fn encode(&mut self, out: &mut Vec<u8>) -> u8 {
        let flags = match self.options {
            LayoutOptions::Flat => flat_encode::encode(self, out),
            LayoutOptions::Delta(options) => delta_encode::encode(self, options, out),
        };
        self.clear();
        flags
    }

    fn clear(&mut self) {
        /// Releases the memory that a giant value made the buffer grow to.
        const LARGEST_KEPT_BYTES: usize = 1 << 20;
        self.bytes.clear();
        self.bytes.shrink_to(LARGEST_KEPT_BYTES);
        self.entries.clear();
        self.last_key_at = 0;
        self.longest_key = 0;
        self.shortest_key = usize::MAX;
        self.min_tag = u64::MAX;
        self.max_tag = 0;
        self.first_tag = u64::MAX;
        self.first_key_len = usize::MAX;
        self.first_value_len = usize::MAX;
        self.has_equal_values = true;
        self.kind_differences = 0;
        self.delta_bytes = 0;
    }
}
