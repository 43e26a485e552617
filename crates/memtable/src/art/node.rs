//! Nodes of the radix tree: layout, search, and how one child more is published.
//!
//! All fields are words of [`Memory`]; a node is named by its unit like an entry.
//!
//! | word | field |
//! |---|---|
//! | 0 | size class (bits 0-7), number of children (8-15), branch depth (16-31) |
//! | 1 | the entry of the key that ends at the branch depth, 0 if none |
//! | 2 | the sample: some entry below this node |
//! | 3, 4 | the window: the 8 key bytes before the branch depth, most significant first, low half first |
//!
//! and then by size class: 4 children: word 5 key bytes, words 6-9 references; 16 children: words 5-8 and 9-24; 48
//! children: words 5-68 a byte for each of 256 that is 0 or one more than the child's place, words 69-116 references; 256
//! children: words 5-260 references.
//!
//! The branch depth is counted from the start of the key, not from the parent, and window and sample do not depend on
//! the parent either. So a node stays as it is when its prefix is split, and only growing copies nodes: all nodes
//! together take at most 40 bytes for each distinct key, whatever the keys look like ([`MAX_BYTES_PER_KEY`]).

use super::bytes16;
use crate::arena::{Allocator, UNIT_BYTES};
use crate::entry::Entry;
use crate::memory::{Memory, Site, View};
use esker_base::key;

/// Marks a reference to an entry; without it a reference names a node. 0 refers to nothing.
pub(super) const LEAF: u32 = 1 << 31;

/// Most bytes of nodes for each distinct key.
///
/// A tree over n keys has branches of b children and values together with sum(b - 1) = n - 1. A node that grew to
/// its b left 40 (b >= 2), 144 (b > 4), 616 (b > 16) or 1664 bytes (b > 48) behind, outgrown copies included;
/// over b - 1 the greatest of these is 40, at b = 2.
pub(crate) const MAX_BYTES_PER_KEY: usize = 40;
/// Most bytes of nodes that one insertion takes.
pub(crate) const MAX_BYTES_PER_INSERT: usize = (WORDS[3] * 4).next_multiple_of(UNIT_BYTES);

const _: () = {
    assert!((WORDS[0] * 4).next_multiple_of(UNIT_BYTES) == 40);
    assert!((WORDS[1] * 4).next_multiple_of(UNIT_BYTES) == 104);
    assert!((WORDS[2] * 4).next_multiple_of(UNIT_BYTES) == 472);
    assert!((WORDS[3] * 4).next_multiple_of(UNIT_BYTES) == 1048);
};

const VALUE: usize = 1;
const SAMPLE: usize = 2;
const WINDOW: usize = 3;
const BODY: usize = 5;

/// Bytes of a prefix that can be compared without looking at an entry.
const WINDOW_BYTES: usize = 8;

/// Children by size class.
const CAPACITY: [usize; 4] = [4, 16, 48, 256];
/// First word of the references by size class.
const CHILDREN: [usize; 4] = [BODY + 1, BODY + 4, BODY + 64, BODY];
/// Words of a node by size class.
const WORDS: [usize; 4] = [
    CHILDREN[0] + CAPACITY[0],
    CHILDREN[1] + CAPACITY[1],
    CHILDREN[2] + CAPACITY[2],
    CHILDREN[3] + CAPACITY[3],
];

const CLASS_4: usize = 0;
const CLASS_16: usize = 1;
const CLASS_48: usize = 2;
const CLASS_256: usize = 3;

/// A node, by its first word's number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    at: usize,
}

/// The first word of a node: what it is and how much of it is published.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meta(u32);

impl Meta {
    fn new(class: usize, count: usize, depth: usize) -> Meta {
        Meta(class as u32 | (count as u32) << 8 | (depth as u32) << 16)
    }

    #[inline(always)]
    fn class(self) -> usize {
        (self.0 & 3) as usize
    }

    /// Children; exact but in the largest class, where it is not kept.
    #[inline(always)]
    fn count(self) -> usize {
        (self.0 >> 8 & 0xff) as usize
    }

    /// Where keys below this node first differ, counted from the start of the key.
    #[inline(always)]
    pub(super) fn depth(self) -> usize {
        (self.0 >> 16) as usize
    }

    /// Whether the children's references lie in few cache lines.
    #[inline(always)]
    pub(super) fn is_small(self) -> bool {
        self.class() <= CLASS_16
    }
}

/// What hangs from a node: below a byte, or as its value if the key ends there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Branch {
    pub(super) byte: Option<u8>,
    pub(super) reference: u32,
}

impl Branch {
    /// The branch that `key` takes at `depth`.
    #[inline(always)]
    pub(super) fn of(key: &[u8], depth: usize, reference: u32) -> Branch {
        Branch { byte: key.get(depth).copied(), reference }
    }
}

impl Node {
    #[inline(always)]
    pub(super) fn from_reference(reference: u32) -> Node {
        Node { at: reference as usize * 2 }
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

    /// For readers: synchronises with the writer's latest addition of a child to a small node.
    #[inline(always)]
    pub(super) fn load_meta(self, memory: &Memory) -> Meta {
        Meta(self.start(memory).load(Site::Count, 0))
    }

    /// For the writer.
    #[inline(always)]
    pub(super) fn meta(self, memory: &Memory) -> Meta {
        Meta(self.start(memory).peek(0))
    }

    /// The word that refers to the entry of the key that ends at the branch depth. Holds a bare entry, not a leaf.
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

    /// Compares the bytes of `key` from `from` up to the branch depth with those that all keys below this node share; they
    /// are known to agree before `from`. `None` if they agree, else the first place where they differ or `key` ends.
    #[inline(always)]
    pub(super) fn mismatch(self, memory: &Memory, meta: Meta, key: &[u8], from: usize) -> Option<usize> {
        let depth = meta.depth();
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
    pub(super) fn find(self, memory: &Memory, meta: Meta, byte: u8) -> Option<usize> {
        if meta.is_small() {
            let place = bytes16::place_of(self.small_keys(memory), meta.count(), byte)?;
            return Some(self.small_slot(meta, place));
        }
        match meta.class() {
            CLASS_48 => {
                let word = memory.load(Site::Index, self.at + BODY + byte as usize / 4);
                let place = (word >> (byte % 4 * 8) & 0xff) as usize;
                (place != 0).then(|| self.at + CHILDREN[CLASS_48] + place - 1)
            }
            _ => {
                let slot = self.at + CHILDREN[CLASS_256] + byte as usize;
                (memory.load(Site::Reference, slot) != 0).then_some(slot)
            }
        }
    }

    /// The words with the key bytes of a small node. A node of four has one, and references in the others, which are
    /// words too and beyond its count, so that both sizes are searched alike.
    #[inline(always)]
    fn small_keys(self, memory: &Memory) -> [u32; 4] {
        let start = self.start(memory);
        std::array::from_fn(|word| start.peek(BODY + word))
    }

    /// The word of a small node's reference at `place`.
    #[inline(always)]
    fn small_slot(self, meta: Meta, place: usize) -> usize {
        self.at + CHILDREN[CLASS_4] + meta.class() * (CHILDREN[CLASS_16] - CHILDREN[CLASS_4]) + place
    }

    /// The child below the least byte greater than `after` (-1 for any): the byte and the word that refers to it.
    #[inline]
    pub(super) fn following(self, memory: &Memory, meta: Meta, after: i16) -> Option<(u8, usize)> {
        if meta.is_small() {
            let (byte, place) = bytes16::following(self.small_keys(memory), meta.count(), after)?;
            return Some((byte, self.small_slot(meta, place)));
        }
        let first = (after + 1) as usize;
        (first..256).find_map(|byte| self.find(memory, meta, byte as u8).map(|slot| (byte as u8, slot)))
    }

    /// The child below the greatest byte less than `before` (256 for any).
    #[inline]
    pub(super) fn preceding(self, memory: &Memory, meta: Meta, before: i16) -> Option<(u8, usize)> {
        if meta.is_small() {
            let (byte, place) = bytes16::preceding(self.small_keys(memory), meta.count(), before)?;
            return Some((byte, self.small_slot(meta, place)));
        }
        let end = before as usize;
        (0..end).rev().find_map(|byte| self.find(memory, meta, byte as u8).map(|slot| (byte as u8, slot)))
    }

    /// Asks for what the children of a small node refer to.
    #[inline]
    pub(super) fn prefetch_children(self, memory: &Memory) {
        let meta = self.load_meta(memory);
        if meta.is_small() {
            let first = self.at + CHILDREN[meta.class()];
            for place in 0..meta.count() {
                memory.prefetch(target_word(memory.load(Site::Reference, first + place)));
            }
        }
    }

    /// A new node at `depth` with two branches, which nobody else can reach yet. All keys below it agree with
    /// `sample` before `depth`.
    pub(super) fn with_two(
        memory: &Memory,
        allocator: &mut Allocator,
        depth: usize,
        sample: Entry,
        branches: [Branch; 2],
    ) -> u32 {
        let node = Node::from_reference(allocator.node(WORDS[CLASS_4]));
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
        let meta = Meta::new(CLASS_4, count, depth).0;
        let [a, b, c, d] = children;
        memory.view::<{ WORDS[CLASS_4] }>(node.at).init([
            meta,
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

    /// Publishes a child below `byte`, where there is none. `slot` is the word that refers to this node; if the
    /// node is full, a larger copy with the child takes its place there.
    #[inline]
    pub(super) fn add(self, memory: &Memory, allocator: &mut Allocator, slot: usize, byte: u8, child: u32) {
        let meta = self.meta(memory);
        let (class, count) = (meta.class(), meta.count());
        if class != CLASS_256 && count == CAPACITY[class] {
            let grown = self.grown(memory, allocator, meta, byte, child);
            memory.publish(Site::Reference, slot, grown);
            return;
        }
        let more = Meta::new(class, count + 1, meta.depth()).0;
        match class {
            CLASS_4 | CLASS_16 => {
                let keys = self.at + BODY + count / 4;
                let shift = 8 * (count % 4);
                // What is not published yet is zero.
                memory.put(keys, memory.peek(keys) | u32::from(byte) << shift);
                memory.put(self.at + CHILDREN[class] + count, child);
                memory.publish(Site::Count, self.at, more);
            }
            CLASS_48 => {
                memory.put(self.at + CHILDREN[CLASS_48] + count, child);
                let index = self.at + BODY + byte as usize / 4;
                let added = (count as u32 + 1) << (byte % 4 * 8);
                memory.publish(Site::Index, index, memory.peek(index) | added);
                // Readers of this class do not look at the count.
                memory.put(self.at, more);
            }
            _ => memory.publish(Site::Reference, self.at + CHILDREN[CLASS_256] + byte as usize, child),
        }
    }

    /// A copy of the next size class with one child more, which nobody else can reach yet.
    #[inline(never)]
    fn grown(self, memory: &Memory, allocator: &mut Allocator, meta: Meta, byte: u8, child: u32) -> u32 {
        let (class, count) = (meta.class(), meta.count());
        let next = class + 1;
        let node = Node::from_reference(allocator.node(WORDS[next]));
        let more = if next == CLASS_256 { 0 } else { count + 1 };
        memory.init(node.at, Meta::new(next, more, meta.depth()).0);
        for word in VALUE..BODY {
            memory.init(node.at + word, memory.peek(self.at + word));
        }
        let children = node.at + CHILDREN[next];
        if next != CLASS_256 {
            for place in 0..count {
                memory.init(children + place, memory.peek(self.at + CHILDREN[class] + place));
            }
            memory.init(children + count, child);
        }
        match next {
            CLASS_16 => {
                memory.init(node.at + BODY, memory.peek(self.at + BODY));
                memory.init(node.at + BODY + 1, u32::from(byte));
                memory.init(node.at + BODY + 2, 0);
                memory.init(node.at + BODY + 3, 0);
            }
            CLASS_48 => {
                let mut index = [0u8; 256];
                for place in 0..count {
                    let key = memory.peek(self.at + BODY + place / 4) >> (place % 4 * 8);
                    index[(key & 0xff) as usize] = place as u8 + 1;
                }
                index[byte as usize] = count as u8 + 1;
                for (word, bytes) in index.as_chunks::<4>().0.iter().enumerate() {
                    memory.init(node.at + BODY + word, u32::from_le_bytes(*bytes));
                }
            }
            _ => {
                for other in 0..=255u8 {
                    let slot = self.find(memory, meta, other);
                    let reference = if other == byte { child } else { slot.map_or(0, |at| memory.peek(at)) };
                    memory.init(children + other as usize, reference);
                }
            }
        }
        node.reference()
    }
}

/// The word that a reference leads to.
#[inline(always)]
pub(super) fn target_word(reference: u32) -> usize {
    (reference & !LEAF) as usize * 2
}

/// The (up to) eight bytes of `key` before `depth`, most significant first, zeros before the start of the key.
/// `depth` is at most the key's length.
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
