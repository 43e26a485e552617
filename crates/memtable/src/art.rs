//! Adaptive radix tree (ART), the default structure: one writer, wait-free readers.
//!
//! After Leis, Kemper and Neumann, "The adaptive radix tree: ARTful indexing for main-memory databases" (ICDE
//! 2013): nodes of several sizes branch on one byte of the key, prefixes without a branch are skipped, and a
//! subtree with a single key is a leaf, a reference to the entry itself. Readers skip prefixes without
//! comparing and compare the whole key once, at the entry; the writer and cursors compare prefixes on the
//! way.
//!
//! # Publication
//! There is one writer. Every change reaches readers by exactly one release store, and whatever a reader
//! reads through an acquiring load of that word was written before it:
//!
//! * *A new child in a small node* (4 or 16): byte and reference are put behind the published ones, then the
//!   count in the first word is published. Readers read the first `count` places only; the words with the key
//!   bytes may already hold more, never something else.
//! * *... in a node of 48*: the reference is put, then the word of the index that names its place is
//!   published.
//! * *... in a row or a node of 256*, *the value of a node*, *the first key*: the reference itself is
//!   published.
//! * *A full node*: a larger copy with the new child is built, then the one word that refers to the node is
//!   published.
//! * *A leaf or a prefix that a new key splits*: a node with two branches, the old reference and the new
//!   entry, is built, then the word that held the old reference is published.
//! * *A newer version of a key*: an entry that links to the older one takes its place in the word that held
//!   it.
//!
//! Thus (MT1) what can be reached is immutable but for these words, and each of them only advances: a count
//! grows, an index byte or reference is set once or replaced by something that leads to everything the old
//! value led to.
//!
//! **MT2**, *every entry inserted before a reader began is reachable for it*: the reader's view of the
//! database comes from an acquiring load that the writer's release store of the visible sequence number
//! precedes, so every publication of those entries happens before all its loads, and each load yields that
//! publication or a later one. A node that was outgrown after the reader reached it is frozen, but it was the
//! live one at some moment after the reader began, and so was every reference in it: by induction the subtree
//! it leads to holds all those entries. What a frozen subtree lacks was inserted later. For the same reason a
//! cursor may walk outgrown nodes between seeks, and every seek descends from the root again.
//!
//! **Wait-free**: the branch depth grows with each step down, so a lookup takes at most as many steps as the
//! key has bytes, whatever the writer does. All descents are loops.
//!
//! # Costs of hostile keys
//! A prefix is compared with eight bytes kept in the node or, if it is longer, with the node's sample entry;
//! both are found in constant time, and the prefixes compared along one path do not overlap. An insertion is
//! therefore linear in the key's length even for 65 KB keys that share 64 KB or are prefixes of each other.
//! Node memory is at most 47 bytes for each distinct key (see `node`), because a prefix split copies nothing:
//! depths are absolute.
//!
//! # Rejected
//! Optimistic lock coupling: readers that race with plain stores and validate afterwards are data races for
//! the language. Keeping small nodes sorted: an insertion would move published bytes. Depths relative to the
//! parent: every prefix split would copy a node. Parallel writers: measured 1.4 to 3.3 times slower than one
//! lock around all of it on two cores. Leaf buckets, which hold some twenty entries in the place of the
//! lowest nodes, against the depth that sparse digits cause: the leaves of the [`btree`](crate::btree) are
//! such buckets, and beside it the tree takes 12 % more at inserting such keys and 20 % less at looking them
//! up, because the miss of the entry itself remains; random keys would take twice as long. Prefetching each
//! node's second cache line on the way down: no difference beyond noise.

mod bytes16;
mod insert;
mod node;
mod position;

pub(crate) use insert::{ArtWriter, InsertPoint};
pub(crate) use node::{MAX_BYTES_PER_INSERT, MAX_BYTES_PER_KEY};
pub(crate) use position::ArtPosition;

use crate::MULTI_GET_KEYS;
use crate::entry::Entry;
use crate::memory::{Memory, Site};
use node::{ArtNode, LEAF, target_word};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Art {
    root: usize,
}

enum Descent {
    /// A reference, if it is not 0.
    Down(u32),
    /// The entry of the key that ends at the node, or none.
    End(Entry),
}

impl Art {
    /// The newest version of `key`, or no entry.
    #[inline]
    pub(crate) fn find(&self, memory: &Memory, key: &[u8]) -> Entry {
        let mut reference = memory.load(Site::Reference, self.root);
        while is_node(reference) {
            match step(memory, reference, key) {
                Descent::Down(next) => reference = next,
                Descent::End(entry) => return if_equal(memory, entry, key),
            }
        }
        if_equal(memory, Entry(reference & !LEAF), key)
    }

    /// [`Art::find`] for the keys in `wanted`, level by level, so that their cache misses overlap.
    pub(crate) fn find_many(
        &self,
        memory: &Memory,
        keys: &[&[u8]],
        wanted: u32,
        found: &mut [Entry; MULTI_GET_KEYS],
    ) {
        let root = memory.load(Site::Reference, self.root);
        let mut references = [root; MULTI_GET_KEYS];
        let mut descending = wanted;
        while descending != 0 {
            let mut left = descending;
            while left != 0 {
                let index = left.trailing_zeros() as usize;
                left &= left - 1;
                let reference = references[index];
                if !is_node(reference) {
                    found[index] = Entry(reference & !LEAF);
                    descending &= !(1 << index);
                    continue;
                }
                match step(memory, reference, keys[index]) {
                    Descent::Down(next) => {
                        references[index] = next;
                        memory.prefetch(target_word(next));
                    }
                    Descent::End(entry) => {
                        found[index] = entry;
                        descending &= !(1 << index);
                    }
                }
            }
        }
        let mut left = wanted;
        while left != 0 {
            let index = left.trailing_zeros() as usize;
            left &= left - 1;
            found[index] = if_equal(memory, found[index], keys[index]);
        }
    }
}

/// Whether a reference leads to a node. One comparison: entries have the sign bit.
#[inline(always)]
fn is_node(reference: u32) -> bool {
    const { assert!(LEAF == 1 << 31) };
    reference.cast_signed() > 0
}

#[inline(always)]
fn step(memory: &Memory, reference: u32, key: &[u8]) -> Descent {
    let node = ArtNode::from_reference(reference);
    let header = node.load_header(memory);
    let depth = header.depth();
    match key.get(depth) {
        Some(&byte) => Descent::Down(node.child(memory, header, byte)),
        None => Descent::End(if depth == key.len() { node.load_value(memory) } else { Entry::NONE }),
    }
}

#[inline(always)]
fn if_equal(memory: &Memory, entry: Entry, key: &[u8]) -> Entry {
    if !entry.is_none() && entry.has_key(memory, key) { entry } else { Entry::NONE }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::arena::{Allocator, ArenaPool, ExpectedUse};
    use crate::entry::Operation;
    use esker_base::{SeqNo, Tag, ValueKind};

    /// Bytes of nodes for each of these keys, inserted in this order.
    fn node_bytes_per_key(keys: impl Iterator<Item = Vec<u8>>) -> f64 {
        let (memory, _) = ArenaPool::new(0).acquire(8 << 20, ExpectedUse::Filled).expect("reserved");
        let mut allocator = Allocator::new(&memory);
        let (tree, mut writer) = ArtWriter::create(&memory, &mut allocator);
        let empty = allocator.high_bytes();
        let mut count = 0;
        for key in keys {
            let tag = Tag::new(SeqNo::new(count + 1), ValueKind::Put);
            assert!(writer.insert(&memory, &mut allocator, &Operation { key: &key, tag, value: b"" }));
            assert!(tree.find(&memory, &key).has_key(&memory, &key));
            count += 1;
        }
        (allocator.high_bytes() - empty) as f64 / count as f64
    }

    fn words(alphabet: &[u8], letters: u32) -> impl Iterator<Item = Vec<u8>> + '_ {
        (0..alphabet.len().pow(letters)).map(move |number| {
            let letter = |place| alphabet[number / alphabet.len().pow(letters - 1 - place) % alphabet.len()];
            (0..letters).map(letter).collect()
        })
    }

    #[test]
    #[cfg_attr(miri, ignore = "interprets millions of steps")]
    fn the_bound_of_node_memory_holds_and_is_met() {
        // Every node has just grown: to two, to a row, from a row to sixteen, to forty-eight, to all.
        let grown: [&[u8]; 5] = [b"ab", b"abcde", b"abcdeA", b"abcdefghijklmnoA", &[0; 0]];
        let all: Vec<u8> = (0..49).map(|number| number * 5).collect();
        let shares = grown.map(|alphabet| match alphabet.len() {
            0 => node_bytes_per_key(words(&all, 2)),
            2 => node_bytes_per_key(words(alphabet, 12)),
            16 => node_bytes_per_key(words(alphabet, 3)),
            _ => node_bytes_per_key(words(alphabet, 5)),
        });
        assert!(shares.iter().all(|share| *share <= MAX_BYTES_PER_KEY as f64), "{shares:?}");
        assert!(
            shares[2] > MAX_BYTES_PER_KEY as f64 - 1.0,
            "the bound is no larger than it must be: {shares:?}"
        );
    }

    #[test]
    fn neighbours_are_found_in_nodes_of_every_size() {
        let spread = |count: u32| (0..count).map(move |number| (number * 255 / (count - 1)) as u8);
        let row = |count: u8| (0..count).map(move |number| b'`' + number * 5 % 16);
        let (memory, _) = ArenaPool::new(0).acquire(8 << 20, ExpectedUse::Filled).expect("reserved");
        let mut allocator = Allocator::new(&memory);
        for bytes in [2, 4, 5, 16, 17, 48, 49, 256].map(|count| spread(count).collect::<Vec<u8>>()) {
            check_neighbours(&memory, &mut allocator, &bytes);
        }
        for bytes in [5, 15, 16].map(|count| row(count).collect::<Vec<u8>>()) {
            check_neighbours(&memory, &mut allocator, &bytes);
        }
    }

    /// Seeks in one step and in two find the next and the last key from every byte.
    fn check_neighbours(memory: &Memory, allocator: &mut Allocator, bytes: &[u8]) {
        let (tree, mut writer) = ArtWriter::create(memory, allocator);
        for (seqno, byte) in (1..).zip(bytes) {
            let tag = Tag::new(SeqNo::new(seqno), ValueKind::Put);
            // Behind the byte more than is sought, so that a seek to it goes on to a greater key.
            assert!(writer.insert(memory, allocator, &Operation { key: &[*byte, 5], tag, value: b"" }));
        }
        let mut position = ArtPosition::new(tree);
        let first_of = |entry: Entry| (!entry.is_none()).then(|| entry.key(memory)[0]);
        for byte in (0..=u8::MAX).step_by(if cfg!(miri) { 15 } else { 1 }) {
            let following =
                |least: u16| bytes.iter().copied().filter(|other| u16::from(*other) >= least).min();
            let preceding = bytes.iter().copied().filter(|other| *other < byte).max();
            for (behind, least) in [(0, u16::from(byte)), (9, u16::from(byte) + 1)] {
                let key = [byte, behind];
                assert_eq!(first_of(position.seek(memory, &key)), following(least), "{key:?} of {bytes:?}");
                let entry = position.begin_seek(memory, &key);
                let arrived = first_of(position.arrive(memory, &key, entry));
                assert_eq!(arrived, following(least), "{key:?} of {bytes:?}");
                if let Some(arrived) = arrived {
                    let next = first_of(position.next(memory));
                    assert_eq!(next, following(u16::from(arrived) + 1), "behind {key:?} of {bytes:?}");
                }
            }
            if !position.seek(memory, &[byte]).is_none() {
                assert_eq!(first_of(position.prev(memory)), preceding, "before {byte} of {bytes:?}");
            }
        }
    }

    /// Both halves build the same tree word by word; a first half alone changes nothing.
    #[test]
    #[cfg_attr(miri, ignore = "interprets millions of steps")]
    fn insertions_in_two_halves_build_the_same_tree() {
        // Few bytes deep, and many of them side by side, so that nodes grow through all sizes.
        let deep = (1..5).flat_map(|letters| words(b"\0ae~", letters));
        let wide = [(b'v', 17), (b'w', 60), (b'x', 256)];
        let wide =
            wide.iter().flat_map(|&(first, count)| (0..count).map(move |byte| vec![first, byte as u8, 1]));
        let keys: Vec<Vec<u8>> = deep.chain(wide).collect();
        let build = |in_halves: bool| {
            let (memory, _) = ArenaPool::new(0).acquire(8 << 20, ExpectedUse::Filled).expect("reserved");
            let mut allocator = Allocator::new(&memory);
            let (tree, mut writer) = ArtWriter::create(&memory, &mut allocator);
            for (seqno, at) in (1..).zip((0..keys.len()).cycle().step_by(97).take(2 * keys.len())) {
                let (key, other) = (&keys[at], &keys[at * 31 % keys.len()]);
                let tag = Tag::new(SeqNo::new(seqno), ValueKind::Put);
                let operation = Operation { key, tag, value: b"" };
                if in_halves {
                    for unused in [other.as_slice(), b"", b"aaaaaaaa"] {
                        writer.begin_insert(&memory, unused);
                    }
                    let point = writer.begin_insert(&memory, key);
                    writer.finish_insert(point, &memory, &mut allocator, &operation);
                } else {
                    writer.insert(&memory, &mut allocator, &operation);
                }
                assert!(tree.find(&memory, key).has_key(&memory, key));
            }
            let words: Vec<u32> = (0..(8 << 20) / 4).map(|at| memory.peek(at)).collect();
            (allocator.high_bytes(), allocator.low_bytes(), words)
        };
        assert!(build(true) == build(false));
    }

    #[test]
    #[cfg_attr(miri, ignore = "interprets millions of steps")]
    fn digits_branch_in_rows() {
        // A row takes 88 bytes, after 40 of the node that it grew from; sixteen search places would take 104.
        let per_key = node_bytes_per_key(words(b"0123456789", 4));
        assert!((per_key - 128.0 / 9.0).abs() < 0.1, "{per_key}");
    }
}
