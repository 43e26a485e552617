//! Nodes of the radix tree: layout, search, and the publication of a new child.
//!
//! All fields are words of [`Memory`]; a node is named by its unit like an entry.
//!
//! | word | field |
//! |---|---|
//! | 0 | class (bits 0-2), children or the row's first byte (8-15), branch depth (16-31) |
//! | 1 | the entry of the key that ends at the branch depth, 0 if none |
//! | 2 | the sample: some entry below this node |
//! | 3, 4 | the window: the 8 key bytes before the branch depth, most significant first, low half first |
//!
//! and then by class: 4 children: word 5 key bytes, words 6-9 references; 16 children: words 5-8 and 9-24; 48
//! children: words 5-68 a byte for each of 256 that is 0 or one more than the child's place, words 69-116
//! references; 256 children: words 5-260 references. A *row* is for up to 16 children whose bytes share their
//! upper half, as all digits do: words 5-20 references by the lower half. A row needs no search, so a level
//! takes half of the instructions of a searched node, and the processor has more lookups under way at once:
//! with half a million sparse numbers a lookup takes 390 nanoseconds instead of 640 where memory is slow and
//! shared (medians, interleaved runs).
//!
//! The branch depth is counted from the start of the key, not from the parent, and window and sample do not
//! depend on the parent either. So a node does not change when its prefix is split, and only growing copies
//! nodes: all nodes together take at most 47 bytes for each distinct key, whatever the keys
//! ([`MAX_BYTES_PER_KEY`]).

mod grow;

use super::bytes16;
use crate::arena::{Allocator, UNIT_BYTES};
use crate::entry::Entry;
use crate::memory::{Memory, Site, View};
use esker_base::key;
use std::ops::Range;

/// Marks a reference to an entry; without it a reference names a node. 0 refers to nothing.
pub(super) const LEAF: u32 = 1 << 31;

/// Most bytes of nodes for each distinct key.
///
/// A tree over n keys has branches of b children and values together with sum(b - 1) = n - 1. A node that
/// grew to its b, outgrown copies included, has taken 40 (b >= 2), 128 (b > 4; a row), 232 (b > 5; a row that
/// met a byte of another), 704 (b > 16) or 1752 bytes (b > 48); over b - 1 the greatest of these is 46.4, at
/// b = 6.
pub(crate) const MAX_BYTES_PER_KEY: usize = 47;
/// Most bytes of nodes that one insertion takes.
pub(crate) const MAX_BYTES_PER_INSERT: usize = (WORDS[CLASS_256] * 4).next_multiple_of(UNIT_BYTES);

const _: () = {
    assert!((WORDS[CLASS_4] * 4).next_multiple_of(UNIT_BYTES) == 40);
    assert!((WORDS[CLASS_16] * 4).next_multiple_of(UNIT_BYTES) == 104);
    assert!((WORDS[CLASS_48] * 4).next_multiple_of(UNIT_BYTES) == 472);
    assert!((WORDS[CLASS_ROW] * 4).next_multiple_of(UNIT_BYTES) == 88);
    assert!((WORDS[CLASS_256] * 4).next_multiple_of(UNIT_BYTES) == 1048);
};

const VALUE: usize = 1;
const SAMPLE: usize = 2;
const WINDOW: usize = 3;
const BODY: usize = 5;

/// Bytes of a prefix that can be compared without reading an entry.
const WINDOW_BYTES: usize = 8;

const CLASS_4: usize = 0;
const CLASS_16: usize = 1;
const CLASS_48: usize = 2;
const CLASS_ROW: usize = 3;
const CLASS_256: usize = 4;

/// Children by class.
const CAPACITY: [usize; 5] = [4, 16, 48, ROW, 256];
/// First word of the references by class.
const CHILDREN: [usize; 5] = [BODY + 1, BODY + 4, BODY + 64, BODY, BODY];
/// Words of a node by class.
const WORDS: [usize; 5] = [
    CHILDREN[0] + CAPACITY[0],
    CHILDREN[1] + CAPACITY[1],
    CHILDREN[2] + CAPACITY[2],
    CHILDREN[3] + CAPACITY[3],
    CHILDREN[4] + CAPACITY[4],
];

/// Bytes that share their upper half.
const ROW: usize = 16;
const ALL: usize = 256;
/// Words that map bytes to places in a node of 48.
const INDEX_WORDS: usize = ALL / 4;
const UPPER_HALF: u8 = 0xf0;

/// A node, by its first word's number.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArtNode {
    at: usize,
}

/// The first word of a node: its class, depth, and how much of it is published.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArtHeader(u32);

impl ArtHeader {
    /// Of a node whose children are counted.
    fn counted(class: usize, count: usize, depth: usize) -> ArtHeader {
        ArtHeader(class as u32 | (count as u32) << 8 | (depth as u32) << 16)
    }

    /// Of a node with a reference for each byte of the row of `byte`.
    fn row(byte: u8, depth: usize) -> ArtHeader {
        let first = byte & UPPER_HALF;
        ArtHeader(CLASS_ROW as u32 | u32::from(UPPER_HALF) | u32::from(first) << 8 | (depth as u32) << 16)
    }

    /// Of a node with a reference for each byte there is.
    fn all(depth: usize) -> ArtHeader {
        ArtHeader(CLASS_256 as u32 | (depth as u32) << 16)
    }

    #[inline(always)]
    fn class(self) -> usize {
        (self.0 & 7) as usize
    }

    /// Children, where they are counted.
    #[inline(always)]
    fn count(self) -> usize {
        (self.0 >> 8 & 0xff) as usize
    }

    /// Where keys below this node first differ, counted from the start of the key.
    #[inline(always)]
    pub(super) fn depth(self) -> usize {
        (self.0 >> 16) as usize
    }

    #[inline(always)]
    fn is_small(self) -> bool {
        self.class() <= CLASS_16
    }

    /// Whether the children's references lie in few cache lines.
    #[inline(always)]
    pub(super) fn is_compact(self) -> bool {
        self.is_small() || self.class() == CLASS_ROW
    }

    /// The first byte for which a row or the largest class has a reference.
    #[inline(always)]
    fn first_byte(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// The place of a byte's reference in a row or the largest class; `None` for a byte of another row.
    #[inline(always)]
    fn place(self, byte: u8) -> Option<usize> {
        let place = byte ^ self.first_byte();
        (place & (self.0 as u8 & UPPER_HALF) == 0).then_some(place as usize)
    }

    #[inline(always)]
    fn has_place(self, byte: u8) -> bool {
        let class = self.class();
        if class >= CLASS_ROW { self.place(byte).is_some() } else { self.count() < CAPACITY[class] }
    }
}

/// A branch of a node: below a byte, or its value if the key ends there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Branch {
    pub(super) byte: Option<u8>,
    pub(super) reference: u32,
}

impl Branch {
    #[inline(always)]
    pub(super) fn of(key: &[u8], depth: usize, reference: u32) -> Branch {
        Branch { byte: key.get(depth).copied(), reference }
    }
}

impl ArtNode {
    #[inline(always)]
    pub(super) fn from_reference(reference: u32) -> ArtNode {
        ArtNode { at: reference as usize * 2 }
    }

    /// The words up to the key bytes of a small node, which all nodes have.
    #[inline(always)]
    fn start(self, memory: &Memory) -> View<'_, { CHILDREN[CLASS_16] }> {
        memory.view(self.at)
    }

    #[inline(always)]
    fn reference(self) -> u32 {
        (self.at / 2) as u32
    }

    /// For readers: synchronizes with the writer's latest addition of a child to a small node.
    #[inline(always)]
    pub(super) fn load_header(self, memory: &Memory) -> ArtHeader {
        ArtHeader(self.start(memory).load(Site::Count, 0))
    }

    /// For the writer.
    #[inline(always)]
    pub(super) fn header(self, memory: &Memory) -> ArtHeader {
        ArtHeader(self.start(memory).peek(0))
    }

    /// The word for the entry of the key that ends at the branch depth: a bare entry, not a leaf.
    #[inline(always)]
    pub(super) fn value_slot(self) -> usize {
        self.at + VALUE
    }

    #[inline(always)]
    pub(super) fn load_value(self, memory: &Memory) -> Entry {
        Entry(self.start(memory).load(Site::Reference, VALUE))
    }

    #[inline(always)]
    pub(super) fn sample(self, memory: &Memory) -> Entry {
        Entry(self.start(memory).peek(SAMPLE))
    }

    #[inline(always)]
    fn window(self, memory: &Memory) -> u64 {
        let start = self.start(memory);
        u64::from(start.peek(WINDOW + 1)) << 32 | u64::from(start.peek(WINDOW))
    }

    /// Compares the bytes of `key` from `from` up to the branch depth with those that all keys below this
    /// node share; they are known to agree before `from`. `None` if they agree, else the first place where
    /// they differ or `key` ends.
    #[inline(always)]
    pub(super) fn mismatch(
        self,
        memory: &Memory,
        header: ArtHeader,
        key: &[u8],
        from: usize,
    ) -> Option<usize> {
        let depth = header.depth();
        if depth == from {
            return None;
        }
        if depth <= key.len() && depth - from <= WINDOW_BYTES {
            let mask = u64::MAX >> (64 - 8 * (depth - from));
            if (window_before(key, depth) ^ self.window(memory)) & mask == 0 {
                return None;
            }
        }
        self.mismatch_with_sample(memory, depth, key, from)
    }

    #[inline(never)]
    fn mismatch_with_sample(self, memory: &Memory, depth: usize, key: &[u8], from: usize) -> Option<usize> {
        let shared = &self.sample(memory).key(memory)[from..depth];
        let agree = key::common_prefix_len(shared, &key[from..]);
        (agree < shared.len()).then_some(from + agree)
    }

    /// The word that refers to the child below `byte`.
    #[inline(always)]
    pub(super) fn find(self, memory: &Memory, header: ArtHeader, byte: u8) -> Option<usize> {
        if header.is_small() {
            let place = bytes16::place_of(self.small_keys(memory), header.count(), byte)?;
            return Some(self.small_slot(header, place));
        }
        match header.class() {
            CLASS_48 => {
                let word = memory.load(Site::Index, self.at + BODY + byte as usize / 4);
                let place = (word >> (byte % 4 * 8) & 0xff) as usize;
                (place != 0).then(|| self.at + CHILDREN[CLASS_48] + place - 1)
            }
            _ => {
                let slot = self.at + BODY + header.place(byte)?;
                (memory.load(Site::Reference, slot) != 0).then_some(slot)
            }
        }
    }

    /// For readers: the reference below `byte`, 0 if there is none.
    #[inline(always)]
    pub(super) fn child(self, memory: &Memory, header: ArtHeader, byte: u8) -> u32 {
        // Most nodes on the way down are of these classes, and their reference is one load away.
        if header.class() >= CLASS_ROW {
            return header
                .place(byte)
                .map_or(0, |place| memory.load(Site::Reference, self.at + BODY + place));
        }
        self.find(memory, header, byte).map_or(0, |slot| memory.load(Site::Reference, slot))
    }

    /// The words with the key bytes of a small node. A node of four has one, and references in the others,
    /// which are words too and beyond its count, so that both sizes are searched alike.
    #[inline(always)]
    fn small_keys(self, memory: &Memory) -> [u32; 4] {
        let start = self.start(memory);
        std::array::from_fn(|word| start.peek(BODY + word))
    }

    /// The word of a small node's reference at `place`.
    #[inline(always)]
    fn small_slot(self, header: ArtHeader, place: usize) -> usize {
        self.at + CHILDREN[CLASS_4] + header.class() * (CHILDREN[CLASS_16] - CHILDREN[CLASS_4]) + place
    }

    /// The child below the least byte greater than `after` (-1 for any): the byte and its word.
    #[inline]
    pub(super) fn following(self, memory: &Memory, header: ArtHeader, after: i16) -> Option<(u8, usize)> {
        if header.is_small() {
            let (byte, place) = bytes16::following(self.small_keys(memory), header.count(), after)?;
            return Some((byte, self.small_slot(header, place)));
        }
        let from = (after + 1) as usize;
        match header.class() {
            CLASS_48 => self.following_in_index(memory, from),
            CLASS_ROW => {
                let (first, row) = (header.first_byte() as usize, memory.view::<ROW>(self.at + BODY));
                let place =
                    (from.saturating_sub(first)..ROW).find(|place| row.load(Site::Reference, *place) != 0)?;
                Some(((first + place) as u8, self.at + BODY + place))
            }
            _ => {
                let all = memory.view::<ALL>(self.at + BODY);
                let byte = (from..ALL).find(|byte| all.load(Site::Reference, *byte) != 0)?;
                Some((byte as u8, self.at + BODY + byte))
            }
        }
    }

    /// [`ArtNode::following`] in a node of 48, from byte `from` on, by words of the index for four bytes.
    #[inline]
    fn following_in_index(self, memory: &Memory, from: usize) -> Option<(u8, usize)> {
        let index = memory.view::<INDEX_WORDS>(self.at + BODY);
        let mut mask = u32::MAX << (from % 4 * 8);
        for at in from / 4..INDEX_WORDS {
            let word = index.load(Site::Index, at) & mask;
            if word != 0 {
                let lane = word.trailing_zeros() as usize / 8;
                return Some(((at * 4 + lane) as u8, self.indexed_slot(word, lane)));
            }
            mask = u32::MAX;
        }
        None
    }

    /// [`ArtNode::preceding`] in a node of 48, below the byte `end`.
    #[inline]
    fn preceding_in_index(self, memory: &Memory, end: usize) -> Option<(u8, usize)> {
        let index = memory.view::<INDEX_WORDS>(self.at + BODY);
        let words = end.div_ceil(4);
        let mut mask = u32::MAX >> ((words * 4 - end) * 8);
        for at in (0..words).rev() {
            let word = index.load(Site::Index, at) & mask;
            if word != 0 {
                let lane = 3 - word.leading_zeros() as usize / 8;
                return Some(((at * 4 + lane) as u8, self.indexed_slot(word, lane)));
            }
            mask = u32::MAX;
        }
        None
    }

    /// The word of the reference that a word of the index names in this lane.
    #[inline(always)]
    fn indexed_slot(self, word: u32, lane: usize) -> usize {
        self.at + CHILDREN[CLASS_48] + (word >> (lane * 8) & 0xff) as usize - 1
    }

    /// The child below the greatest byte less than `before` (256 for any).
    #[inline]
    pub(super) fn preceding(self, memory: &Memory, header: ArtHeader, before: i16) -> Option<(u8, usize)> {
        if header.is_small() {
            let (byte, place) = bytes16::preceding(self.small_keys(memory), header.count(), before)?;
            return Some((byte, self.small_slot(header, place)));
        }
        let end = before as usize;
        match header.class() {
            CLASS_48 => self.preceding_in_index(memory, end),
            CLASS_ROW => {
                let (first, row) = (header.first_byte() as usize, memory.view::<ROW>(self.at + BODY));
                let end = end.saturating_sub(first).min(ROW);
                let place = (0..end).rev().find(|place| row.load(Site::Reference, *place) != 0)?;
                Some(((first + place) as u8, self.at + BODY + place))
            }
            _ => {
                let all = memory.view::<ALL>(self.at + BODY);
                let byte = (0..end).rev().find(|byte| all.load(Site::Reference, *byte) != 0)?;
                Some((byte as u8, self.at + BODY + byte))
            }
        }
    }

    /// The bytes from `start` to before `end` that can be below a node which is not small.
    #[inline(always)]
    fn bytes_within(self, header: ArtHeader, start: usize, end: usize) -> Range<usize> {
        if header.class() == CLASS_ROW {
            let first = header.first_byte() as usize;
            return start.max(first)..end.min(first + ROW);
        }
        start..end
    }

    /// Prefetches the targets of a small node's or a row's references, entries with their next lines.
    #[inline]
    pub(super) fn prefetch_children(self, memory: &Memory, lines_behind: u32) {
        let header = self.load_header(memory);
        if !header.is_compact() {
            return;
        }
        let first = self.at + CHILDREN[header.class()];
        let places = if header.is_small() { header.count() } else { ROW };
        for place in 0..places {
            let reference = memory.load(Site::Reference, first + place);
            if reference != 0 {
                prefetch_target(memory, reference, lines_behind);
            }
        }
    }

    /// A new unpublished node at `depth` with two branches; all its keys agree with `sample` before.
    pub(super) fn with_two(
        memory: &Memory,
        allocator: &mut Allocator,
        depth: usize,
        sample: Entry,
        branches: [Branch; 2],
    ) -> u32 {
        let node = ArtNode::from_reference(allocator.node(WORDS[CLASS_4]));
        let (mut keys, mut count, mut value, mut children) = (0, 0, 0, [0; CAPACITY[CLASS_4]]);
        for branch in branches {
            match branch.byte {
                None => value = branch.reference & !LEAF,
                Some(byte) => {
                    keys |= u32::from(byte) << (8 * count);
                    children[count] = branch.reference;
                    count += 1;
                }
            }
        }
        let window = window_before(sample.key(memory), depth);
        let header = ArtHeader::counted(CLASS_4, count, depth).0;
        let [a, b, c, d] = children;
        memory.view::<{ WORDS[CLASS_4] }>(node.at).init([
            header,
            value,
            sample.0,
            window as u32,
            (window >> 32) as u32,
            keys,
            a,
            b,
            c,
            d,
        ]);
        node.reference()
    }

    /// Publishes a child below `byte`, where there is none. `slot` is the word that refers to this node; if
    /// the node has no place for it, a larger copy with the child takes its place there.
    #[inline]
    pub(super) fn add(self, memory: &Memory, allocator: &mut Allocator, slot: usize, byte: u8, child: u32) {
        let header = self.header(memory);
        if !header.has_place(byte) {
            let grown = self.grown(memory, allocator, header, byte, child);
            memory.publish(Site::Reference, slot, grown);
            return;
        }
        let (class, count) = (header.class(), header.count());
        match class {
            CLASS_4 | CLASS_16 => {
                let keys = self.at + BODY + count / 4;
                let shift = 8 * (count % 4);
                // What is not published yet is zero.
                memory.put(keys, memory.peek(keys) | u32::from(byte) << shift);
                memory.put(self.at + CHILDREN[class] + count, child);
                memory.publish(Site::Count, self.at, ArtHeader::counted(class, count + 1, header.depth()).0);
            }
            CLASS_48 => {
                memory.put(self.at + CHILDREN[CLASS_48] + count, child);
                let index = self.at + BODY + byte as usize / 4;
                let added = (count as u32 + 1) << (byte % 4 * 8);
                memory.publish(Site::Index, index, memory.peek(index) | added);
                // Readers of this class do not read the count.
                memory.put(self.at, ArtHeader::counted(class, count + 1, header.depth()).0);
            }
            _ => {
                let place = (byte ^ header.first_byte()) as usize;
                memory.publish(Site::Reference, self.at + BODY + place, child);
            }
        }
    }
}

#[inline(always)]
pub(super) fn target_word(reference: u32) -> usize {
    (reference & !LEAF) as usize * 2
}

/// Prefetches the target of a reference; an entry with so many lines behind its first.
#[inline(always)]
pub(super) fn prefetch_target(memory: &Memory, reference: u32, lines_behind: u32) {
    memory.prefetch(target_word(reference));
    if reference & LEAF != 0 {
        Entry(reference & !LEAF).prefetch_behind(memory, lines_behind);
    }
}

/// The (up to) eight bytes of `key` before `depth`, most significant first, zeros before the start of the
/// key. `depth` is at most the key's length.
#[inline(always)]
fn window_before(key: &[u8], depth: usize) -> u64 {
    if depth >= WINDOW_BYTES {
        key::head(key, depth - WINDOW_BYTES)
    } else if depth == 0 {
        0
    } else {
        key::head(key, 0) >> (8 * (WINDOW_BYTES - depth))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn windows() {
        let key: Vec<u8> = (1..=20).collect();
        for depth in 0..=20 {
            let mut expected = [0u8; 8];
            for back in 1..=depth.min(8) {
                expected[8 - back] = key[depth - back];
            }
            assert_eq!(window_before(&key, depth), u64::from_be_bytes(expected), "{depth}");
            assert_eq!(window_before(&key[..depth], depth), u64::from_be_bytes(expected), "{depth}");
        }
    }
}
