//! Nodes of the B+-tree: layout, search, and the publication of a new entry.
//!
//! All fields are words of [`Memory`]; a node is named by its unit like an entry.
//!
//! | word | field |
//! |---|---|
//! | 0 | level, 0 for leaves (bits 0-6), guarded (7), entries or separators (8-15), leaf's places (16-23) |
//! | 1 | how many bytes come before the heads in all keys of the node |
//!
//! Then, for a leaf of p places: words 2.. p hashes, p references to entries, p heads of two words. For an
//! inner node of n separators: words 2.. n heads, padded to a multiple of four by the greatest number, n + 1
//! children, n separators.

use super::search::{self, HEADS_STEP, Kernel};
use crate::arena::{Allocator, UNIT_BYTES};
use crate::entry::Entry;
use crate::memory::{Memory, Site};
use esker_base::key;
use std::cmp::Ordering;
use std::ops::Deref;

/// Entries of a leaf. Twice as many halve the copying and double the length of each search; measured.
pub(super) const LEAF_PLACES: usize = if cfg!(loom) { 4 } else { 32 };
/// Places of the first leaf, so that a memtable of a few entries is small.
pub(super) const FIRST_PLACES: usize = LEAF_PLACES / 2;
/// Children of an inner node. The models have few, to reach all kinds of splits with few keys.
pub(super) const FAN_OUT: usize = if cfg!(loom) { 4 } else { 32 };
pub(super) const SEPARATORS: usize = FAN_OUT - 1;

/// Inner nodes on a path. A node that is not at an edge has at least half of its children, a leaf half of its
/// places, and an entry takes 24 bytes of 16 GiB at least: log16(2^34 / 24 / 16) = 6.4.
pub(super) const MAX_LEVELS: usize = 8;

pub(super) const HEADER: usize = 2;

const fn leaf_words(places: usize) -> usize {
    HEADER + 4 * places
}

pub(super) const fn padded(separators: usize) -> usize {
    separators.next_multiple_of(HEADS_STEP)
}

pub(super) const fn inner_words(separators: usize) -> usize {
    HEADER + 2 * padded(separators) + separators + separators + 1
}

const fn bytes(words: usize) -> usize {
    (words * 4).next_multiple_of(UNIT_BYTES)
}

const LEAF_BYTES: usize = bytes(leaf_words(LEAF_PLACES));
const INNER_BYTES: usize = bytes(inner_words(SEPARATORS));
/// Two halves of an inner node instead of a whole one: a header, padding and an alignment more.
const HALVES_BYTES: usize = INNER_BYTES + 4 * HEADER + 8 * HEADS_STEP + UNIT_BYTES;

/// Most bytes of nodes for each distinct key.
///
/// A leaf is split by its 33rd entry and leaves 16 and 17, so that each split has 16 insertions of its own.
/// It takes two leaves and a copy of the parent. A 16th of these copies at most are splits in their turn,
/// which take a little more than a copy, and one of the next level; in all, copy * 16/15 + (halves -
/// copy)/15. That is 1040 + 560 bytes for 16 keys, 100 each.
///
/// A leaf for a key beyond all others is charged to the insertions that fill it up to 17 entries, which no
/// split is charged to: 520 + 560 bytes, less than 16 times 100. The first leaf's growth is charged in the
/// same way; the root's word and the first places are in the fixed part
/// ([`FIXED_BYTES`](crate::kind::FIXED_BYTES)).
pub(crate) const MAX_BYTES_PER_KEY: usize = {
    let half = FAN_OUT / 2;
    let copies = (INNER_BYTES * half + (HALVES_BYTES - INNER_BYTES)).div_ceil(half - 1);
    (2 * LEAF_BYTES + copies).div_ceil(LEAF_PLACES / 2).next_multiple_of(UNIT_BYTES)
};
/// Most bytes of nodes that one insertion takes: two leaves, two halves on each level, and a root.
pub(crate) const MAX_BYTES_PER_INSERT: usize =
    2 * LEAF_BYTES + MAX_LEVELS * HALVES_BYTES + bytes(inner_words(1));

const _: () = {
    assert!(cfg!(loom) || (LEAF_BYTES == 520 && INNER_BYTES == 520 && MAX_BYTES_PER_KEY == 104));
    let first = bytes(1) + bytes(leaf_words(FIRST_PLACES));
    assert!(first as u64 <= MAX_BYTES_PER_KEY as u64 + crate::kind::FIXED_BYTES);
};

/// A node, by its first word's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BTreeNode {
    pub(super) at: usize,
}

/// The first word of a node: its level, and how much of it is published.
#[derive(Clone, Copy, Debug)]
pub(super) struct BTreeHeader(u32);

const GUARDED: u32 = 1 << 7;

impl BTreeHeader {
    pub(super) const NONE: BTreeHeader = BTreeHeader(0);

    fn leaf(count: usize, places: usize) -> BTreeHeader {
        BTreeHeader((count as u32) << 8 | (places as u32) << 16)
    }

    pub(super) fn inner(level: usize, is_guarded: bool, separators: usize) -> BTreeHeader {
        BTreeHeader(level as u32 | if is_guarded { GUARDED } else { 0 } | (separators as u32) << 8)
    }

    #[inline(always)]
    pub(super) fn is_leaf(self) -> bool {
        self.level() == 0
    }

    /// Levels below this node.
    #[inline(always)]
    pub(super) fn level(self) -> usize {
        (self.0 & 0x7f) as usize
    }

    #[inline(always)]
    pub(super) fn is_guarded(self) -> bool {
        self.0 & GUARDED != 0
    }

    /// Entries of a leaf, separators of an inner node.
    #[inline(always)]
    pub(super) fn count(self) -> usize {
        (self.0 >> 8 & 0xff) as usize
    }

    #[inline(always)]
    pub(super) fn places(self) -> usize {
        (self.0 >> 16 & 0xff) as usize
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) entry: Entry,
    pub(super) hash: u32,
    pub(super) head: u64,
}

/// The bytes that all keys between two entries share; none where one of them is missing.
pub(super) fn shared_bytes(memory: &Memory, low: Option<Entry>, high: Option<Entry>) -> usize {
    match (low, high) {
        (Some(low), Some(high)) => key::common_prefix_len(low.key(memory), high.key(memory)),
        _ => 0,
    }
}

#[inline(always)]
pub(super) fn init_head(memory: &Memory, at: usize, head: u64) {
    let [a, b, c, d, e, f, g, h] = head.to_ne_bytes();
    memory.view::<2>(at).init([u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h])]);
}

impl BTreeNode {
    #[inline(always)]
    pub(super) fn from_reference(reference: u32) -> BTreeNode {
        BTreeNode { at: reference as usize * 2 }
    }

    #[inline(always)]
    pub(super) fn reference(self) -> u32 {
        (self.at / 2) as u32
    }

    /// For readers: synchronizes with the writer's latest addition to a leaf.
    #[inline(always)]
    pub(super) fn load_header(self, memory: &Memory) -> BTreeHeader {
        BTreeHeader(memory.load(Site::Count, self.at))
    }

    /// For the writer.
    #[inline(always)]
    pub(super) fn header(self, memory: &Memory) -> BTreeHeader {
        BTreeHeader(memory.peek(self.at))
    }

    pub(super) fn init_header(self, memory: &Memory, header: BTreeHeader, prefix_len: usize) {
        memory.view::<HEADER>(self.at).init([header.0, prefix_len as u32]);
    }

    /// Number of bytes before the heads in all keys of this node.
    #[inline(always)]
    pub(super) fn prefix_len(self, memory: &Memory) -> usize {
        memory.peek(self.at + 1) as usize
    }

    /// Prefetches what a descent reads: the heads and children of an inner node, or the hashes and references
    /// of a leaf. Otherwise the reference would be a second miss, after the search.
    #[inline(always)]
    pub(super) fn prefetch(self, memory: &Memory) {
        memory.prefetch(self.at);
        memory.prefetch(self.at + 32);
        memory.prefetch(self.at + 64);
    }

    #[inline(always)]
    pub(super) fn prefetch_all(self, memory: &Memory) {
        (0..LEAF_BYTES / 128).for_each(|pair| memory.prefetch(self.at + 32 * pair));
    }

    // Leaves.

    #[inline(always)]
    fn hashes(self, memory: &Memory, header: BTreeHeader) -> impl Deref<Target = [u32]> {
        // SAFETY: the first `count` hashes were written before the count in `header` was published, and never
        // again.
        unsafe { memory.words(self.at + HEADER, header.count()) }
    }

    #[inline(always)]
    pub(super) fn heads(self, memory: &Memory, header: BTreeHeader) -> impl Deref<Target = [u64]> {
        // SAFETY: as for the hashes.
        unsafe { memory.numbers(self.at + HEADER + 2 * header.places(), header.count()) }
    }

    #[inline(always)]
    pub(super) fn hash(self, memory: &Memory, place: usize) -> u32 {
        memory.peek(self.at + HEADER + place)
    }

    #[inline(always)]
    pub(super) fn entry_word(self, header: BTreeHeader, place: usize) -> usize {
        self.at + HEADER + header.places() + place
    }

    #[inline(always)]
    pub(super) fn entry(self, memory: &Memory, header: BTreeHeader, place: usize) -> Entry {
        Entry(memory.load(Site::Reference, self.entry_word(header, place)))
    }

    /// Prefetches the first entry that may have the key of this hash.
    #[inline(always)]
    pub(super) fn prefetch_match(self, memory: &Memory, hash: u32) {
        let header = self.load_header(memory);
        let matches = search::equal(&self.hashes(memory, header), hash);
        if matches != 0 {
            self.entry(memory, header, matches.trailing_zeros() as usize).prefetch(memory);
        }
    }

    /// The entry of `key`, whose hash is `hash`, and the word that refers to it.
    #[inline(always)]
    pub(super) fn find(
        self,
        memory: &Memory,
        header: BTreeHeader,
        key: &[u8],
        hash: u32,
    ) -> Option<(usize, Entry)> {
        let mut matches = search::equal(&self.hashes(memory, header), hash);
        while matches != 0 {
            let word = self.entry_word(header, matches.trailing_zeros() as usize);
            let entry = Entry(memory.load(Site::Reference, word));
            if entry.has_key(memory, key) {
                return Some((word, entry));
            }
            matches &= matches - 1;
        }
        None
    }

    /// Writes the places 0 to n of a new unpublished leaf.
    pub(super) fn new_leaf(
        memory: &Memory,
        allocator: &mut Allocator,
        places: usize,
        prefix_len: usize,
        items: &[Item],
    ) -> BTreeNode {
        let node = BTreeNode::from_reference(allocator.node(leaf_words(places)));
        let header = BTreeHeader::leaf(items.len(), places);
        node.init_header(memory, header, prefix_len);
        for (place, item) in items.iter().enumerate() {
            node.init_item(memory, header, place, *item);
        }
        node
    }

    #[inline(always)]
    fn init_item(self, memory: &Memory, header: BTreeHeader, place: usize, item: Item) {
        memory.init(self.at + HEADER + place, item.hash);
        memory.init(self.entry_word(header, place), item.entry.0);
        init_head(memory, self.at + HEADER + 2 * header.places() + 2 * place, item.head);
    }

    #[inline(always)]
    pub(super) fn append(self, memory: &Memory, header: BTreeHeader, item: Item) {
        self.init_item(memory, header, header.count(), item);
        memory.publish(Site::Count, self.at, header.0 + (1 << 8));
    }

    // Inner nodes.

    #[inline(always)]
    pub(super) fn separator_heads(self, memory: &Memory, header: BTreeHeader) -> impl Deref<Target = [u64]> {
        // SAFETY: inner nodes were complete when they were published, and only references to children change.
        unsafe { memory.numbers(self.at + HEADER, padded(header.count())) }
    }

    #[inline(always)]
    fn children_at(self, header: BTreeHeader) -> usize {
        self.at + HEADER + 2 * padded(header.count())
    }

    #[inline(always)]
    pub(super) fn child_word(self, header: BTreeHeader, slot: usize) -> usize {
        self.children_at(header) + slot
    }

    /// The word that refers to the separator between the children `slot` and `slot + 1`.
    #[inline(always)]
    pub(super) fn separator_word(self, header: BTreeHeader, slot: usize) -> usize {
        self.children_at(header) + header.count() + 1 + slot
    }

    /// The separator between the children `slot` and `slot + 1`.
    #[inline(always)]
    pub(super) fn separator(self, memory: &Memory, header: BTreeHeader, slot: usize) -> Entry {
        Entry(memory.peek(self.separator_word(header, slot)))
    }

    /// The child below which `key` belongs: the number of separators that are not greater.
    #[inline(always)]
    pub(super) fn slot_of<K: Kernel>(self, memory: &Memory, header: BTreeHeader, key: &[u8]) -> usize {
        let prefix_len = self.prefix_len(memory);
        if header.is_guarded() && prefix_len > 0 {
            let shared = &self.separator(memory, header, 0).key(memory)[..prefix_len];
            match compare(&key[..key.len().min(prefix_len)], shared) {
                Ordering::Less => return 0,
                Ordering::Equal => {}
                Ordering::Greater => return header.count(),
            }
        }
        let head = key::head(key, prefix_len);
        let heads = self.separator_heads(memory, header);
        let below = K::below(&heads, head);
        if heads.get(below) != Some(&head) {
            return below;
        }
        let ties = heads[below..].iter().take_while(|&&other| other == head).count();
        self.slot_among(memory, header, key, below, header.count().min(below + ties))
    }

    /// The separators from `from` to `to` have the head of `key`.
    #[inline(never)]
    fn slot_among(
        self,
        memory: &Memory,
        header: BTreeHeader,
        key: &[u8],
        mut from: usize,
        mut to: usize,
    ) -> usize {
        while from < to {
            let middle = from.midpoint(to);
            if self.separator(memory, header, middle).key(memory) <= key {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        from
    }
}

#[inline(always)]
fn compare(a: &[u8], b: &[u8]) -> Ordering {
    if let (Some(x), Some(y)) = (a.first_chunk::<8>(), b.first_chunk::<8>())
        && x != y
    {
        return u64::from_be_bytes(*x).cmp(&u64::from_be_bytes(*y));
    }
    a.cmp(b)
}
