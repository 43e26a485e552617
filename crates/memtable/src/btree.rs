//! B+-tree: one writer, wait-free readers. Faster to walk than the radix tree.
//!
//! After Bayer and McCreight, "Organization and maintenance of large ordered indexes" (1972), in the form
//! where all entries are in leaves. Two techniques make nodes cheap to search without reading keys: inner
//! nodes keep *heads*, eight bytes of each separator behind the prefix that all keys of the node share
//! (Lomet, "The evolution of effective B-tree", 2001, calls it poor man's normalisation), and compare them by
//! vector instructions; leaves are append-only and unsorted, and are searched by a 32-bit hash of the key, as
//! in FP-tree (Oukid et al., SIGMOD 2016). Leaves keep heads too, but only for sorting.
//!
//! Against the radix tree: no key shape makes it deep, and adjacent keys lie together; but each lookup
//! compares more.
//!
//! # Nodes
//! A leaf holds up to 32 entries in the order of their insertion. Each has a hash, a reference and a head;
//! the leaf has a count. An inner node has up to 32 children and a separator, the entry with the least key
//! that was to its right when it was made, between each two. It is exactly as large as it has to be, because
//! it never grows: all of an inner node is immutable but the references to its children. All leaves are at
//! the same depth.
//!
//! Heads begin behind the bytes that the keys of a node share. Where a node has a separator on either side
//! somewhere above, its fences, these bytes are what the two fences share: keys between them cannot differ
//! there, so they are not compared. A node at the edge of the tree lacks a fence; if it is an inner node, it
//! takes what its separators share, and a descent compares these bytes (the node is *guarded*). A leaf at the
//! edge takes nothing: its heads may tie, which costs only when it is sorted.
//!
//! # Publication
//! There is one writer. Every change reaches readers by exactly one release store, and whatever a reader
//! reads through an acquiring load of that word was written before it:
//!
//! * *A new entry in a leaf*: hash, reference and head are written behind the published ones, then the count
//!   is published. Readers read the first `count` places only. No place is ever written twice but for its
//!   reference:
//! * *A newer version of a key*: an entry that links to the older one takes its place in the leaf's
//!   reference.
//! * *A full leaf*: two leaves are built from its entries and the new one, then a copy of the parent with
//!   both; if the parent is full as well, two halves of it and a copy of its parent, and so on. The one word
//!   that refers to the topmost node that was copied is published. Everything below the copy is new, or is
//!   shared with the node that it replaces.
//! * *A key beyond all others in a full leaf*: the same with the full leaf as it is, and a new one for the
//!   key.
//!
//! Thus (MT1) what can be reached is immutable but for these words, and each of them only advances: a count
//! grows, a version is replaced by one that links to it, and a reference to a node is replaced by one to a
//! node of the same range of keys that leads to everything the old one led to. Because ranges never change,
//! the places of a cursor's path stay right whatever the writer does.
//!
//! **MT2**, *every entry inserted before a reader began is reachable for it*, by the argument of
//! [`art`](crate::art): the reader's loads yield what was published before it began or later. A node that was
//! replaced after the reader reached it is frozen, but it was the live one at some moment after the reader
//! began, and so was each reference in it; what a frozen node lacks came later. Splitting copies references
//! to the newest versions; newer ones go to the copy, and came later too.
//!
//! **Wait-free**: the depth of the tree is fixed when a reader loads the root, and a leaf has a bounded
//! number of places.
//!
//! Heads and hashes are read as plain numbers, by vectors: that is sound because what is read lies below a
//! published count and is never written again.
//!
//! # Cost
//! A split leaves a full leaf behind, and the copied parent. Node memory is at most 104 bytes for each
//! distinct key ([`MAX_BYTES_PER_KEY`]), about 65 for keys in random order, and 26 for ascending ones.
//!
//! A cursor sorts the places of a leaf when it enters it, by the heads; that is the price of leaves that
//! never move an entry.
//!
//! # Rejected
//! Sorted leaves: an insertion would move published words. A permutation word for each leaf (Masstree): with
//! 32-bit words it holds at most 6 entries. Heads instead of hashes for lookups in leaves: keys with a long
//! common part that is not the fences' tie, and each tie is a cache miss. Changing inner nodes in place, with
//! a published list of places in order: one more dependent access on each level, to save a copy at each 16th
//! insertion.

mod draft;
mod insert;
mod items;
mod node;
mod position;
mod search;

pub(crate) use insert::BTreeWriter;
pub(crate) use node::{MAX_BYTES_PER_INSERT, MAX_BYTES_PER_KEY};
pub(crate) use position::BTreePosition;

use crate::MULTI_GET_KEYS;
use crate::entry::Entry;
use crate::memory::{Memory, Site};
use node::{BTreeHeader, BTreeNode};
use search::{Isa, Kernel, Task};

/// The tree for readers: the place of its root, and the instructions that compare heads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BTree {
    root: usize,
    isa: Isa,
}

impl BTree {
    #[inline(always)]
    fn load_root(self, memory: &Memory) -> u32 {
        memory.load(Site::Reference, self.root)
    }

    #[inline(never)]
    pub(crate) fn find(&self, memory: &Memory, key: &[u8]) -> Entry {
        search::run(self.isa, Find { memory, root: self.load_root(memory), key })
    }

    /// [`BTree::find`] for the keys in `wanted`, level by level, so that their cache misses overlap.
    #[inline(never)]
    pub(crate) fn find_many(
        &self,
        memory: &Memory,
        keys: &[&[u8]],
        wanted: u32,
        found: &mut [Entry; MULTI_GET_KEYS],
    ) {
        let root = self.load_root(memory);
        search::run(self.isa, FindMany { memory, root, keys, wanted, found });
    }
}

#[inline(always)]
fn leaf_of<K: Kernel>(memory: &Memory, mut reference: u32, key: &[u8]) -> (BTreeNode, BTreeHeader) {
    loop {
        let node = BTreeNode::from_reference(reference);
        let header = node.load_header(memory);
        if header.is_leaf() {
            return (node, header);
        }
        reference = step::<K>(memory, reference, key);
    }
}

struct Find<'a> {
    memory: &'a Memory,
    root: u32,
    key: &'a [u8],
}

impl Task for Find<'_> {
    type Output = Entry;

    #[inline(always)]
    fn run<K: Kernel>(self) -> Entry {
        if self.root == 0 {
            return Entry::NONE;
        }
        let hash = search::hash(self.key);
        let (leaf, header) = leaf_of::<K>(self.memory, self.root, self.key);
        leaf.find(self.memory, header, self.key, hash).map_or(Entry::NONE, |(_, entry)| entry)
    }
}

struct FindMany<'a, 'k> {
    memory: &'a Memory,
    root: u32,
    keys: &'a [&'k [u8]],
    wanted: u32,
    found: &'a mut [Entry; MULTI_GET_KEYS],
}

#[inline(always)]
fn bits(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let index = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (index < 32).then_some(index)
    })
}

impl Task for FindMany<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<K: Kernel>(self) {
        if self.root == 0 {
            return;
        }
        let memory = self.memory;
        let mut references = [self.root; MULTI_GET_KEYS];
        let mut hashes = [0; MULTI_GET_KEYS];
        for _ in 0..BTreeNode::from_reference(self.root).load_header(memory).level() {
            for index in bits(self.wanted) {
                references[index] = step::<K>(memory, references[index], self.keys[index]);
            }
        }
        for index in bits(self.wanted) {
            hashes[index] = search::hash(self.keys[index]);
            BTreeNode::from_reference(references[index]).prefetch_match(memory, hashes[index]);
        }
        for index in bits(self.wanted) {
            let leaf = BTreeNode::from_reference(references[index]);
            let header = leaf.load_header(memory);
            let place = leaf.find(memory, header, self.keys[index], hashes[index]);
            self.found[index] = place.map_or(Entry::NONE, |(_, entry)| entry);
        }
    }
}

/// One level down from the inner node `reference`; prefetches the child.
#[inline(always)]
fn step<K: Kernel>(memory: &Memory, reference: u32, key: &[u8]) -> u32 {
    let node = BTreeNode::from_reference(reference);
    let header = node.load_header(memory);
    let slot = node.slot_of::<K>(memory, header, key);
    let child = memory.load(Site::Reference, node.child_word(header, slot));
    BTreeNode::from_reference(child).prefetch(memory);
    child
}
