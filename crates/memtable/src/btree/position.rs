//! A position in the B+-tree: the path from the root to a leaf, the leaf's places in order, and one of them.
//!
//! The places are sorted when the position comes to a leaf; what is added to the leaf later is not met before
//! the next seek. Steps from leaf to leaf go over the path, whose nodes may have been replaced meanwhile: the
//! head of `btree.rs` says why this is right. Keys met in one direction are strictly monotone, because the
//! ranges of children never change and do not overlap.

use super::BTree;
use super::node::{LEAF_PLACES, MAX_LEVELS, Meta, Node};
use super::search::{self, Isa, Kernel, Task};
use crate::entry::Entry;
use crate::memory::{Memory, Site};
use esker_base::key;

/// How many entries ahead of a walk are asked for.
const AHEAD: usize = 6;

/// Sorts the places of the leaf's published entries by their keys.
///
/// By insertion: a leaf begins sorted, and what came since is a few.
pub(super) fn sorted_places(memory: &Memory, leaf: Node, meta: Meta, places: &mut [u8; LEAF_PLACES]) {
    let heads = leaf.heads(memory, meta);
    for place in 0..meta.count() {
        let head = heads[place];
        let mut at = place;
        while let Some(&before) = at.checked_sub(1).and_then(|index| places.get(index)) {
            let other = heads[usize::from(before)];
            if other < head || other == head && is_less(memory, leaf, meta, usize::from(before), place) {
                break;
            }
            places[at] = before;
            at -= 1;
        }
        places[at] = place as u8;
    }
}

#[inline(never)]
fn is_less(memory: &Memory, leaf: Node, meta: Meta, one: usize, other: usize) -> bool {
    leaf.entry(memory, meta, one).key(memory) < leaf.entry(memory, meta, other).key(memory)
}

/// A path in the tree.
#[derive(Debug)]
pub(crate) struct BTreePosition {
    tree: BTree,
    depth: usize,
    /// Inner nodes and the slots of the children that the path goes on to.
    path: [(Node, usize); MAX_LEVELS],
    leaf: Node,
    meta: Meta,
    places: [u8; LEAF_PLACES],
    /// Index into `places`.
    at: usize,
}

struct Seek<'a> {
    memory: &'a Memory,
    position: &'a mut BTreePosition,
    root: u32,
    key: &'a [u8],
}

impl Task for Seek<'_> {
    type Output = ();

    #[inline(always)]
    fn run<K: Kernel>(self) {
        let mut node = Node::from_reference(self.root);
        loop {
            let meta = node.load_meta(self.memory);
            if meta.is_leaf() {
                self.position.enter(self.memory, node, meta);
                return;
            }
            let slot = node.slot_of::<K>(self.memory, meta, self.key);
            self.position.push(node, slot);
            node = Node::from_reference(self.memory.load(Site::Reference, node.child_word(meta, slot)));
            if meta.level() == 1 { node.prefetch_all(self.memory) } else { node.prefetch(self.memory) }
        }
    }
}

impl BTreePosition {
    pub(crate) fn new(tree: BTree) -> BTreePosition {
        let none = Node::from_reference(0);
        BTreePosition {
            tree,
            depth: 0,
            path: [(none, 0); MAX_LEVELS],
            leaf: none,
            meta: Meta::NONE,
            places: [0; LEAF_PLACES],
            at: 0,
        }
    }

    fn push(&mut self, node: Node, slot: usize) {
        self.path[self.depth] = (node, slot);
        self.depth += 1;
    }

    fn enter(&mut self, memory: &Memory, leaf: Node, meta: Meta) {
        (self.leaf, self.meta) = (leaf, meta);
        sorted_places(memory, leaf, meta, &mut self.places);
    }

    #[inline(always)]
    fn entry(&self, memory: &Memory) -> Entry {
        self.leaf.entry(memory, self.meta, usize::from(self.places[self.at]))
    }

    /// Asks for the entry at an index of the leaf, if there is one.
    #[inline(always)]
    fn prefetch(&self, memory: &Memory, index: usize) {
        if index < self.meta.count() {
            self.leaf.entry(memory, self.meta, usize::from(self.places[index])).prefetch(memory);
        }
    }

    /// Moves to the first key; returns its newest version, or no entry if there is none.
    pub(crate) fn seek_to_first(&mut self, memory: &Memory) -> Entry {
        self.depth = 0;
        match self.tree.load_root(memory) {
            0 => Entry::NONE,
            root => self.descend_to_first(memory, root),
        }
    }

    /// Moves to the last key.
    pub(crate) fn seek_to_last(&mut self, memory: &Memory) -> Entry {
        self.depth = 0;
        match self.tree.load_root(memory) {
            0 => Entry::NONE,
            root => self.descend_to_last(memory, root),
        }
    }

    /// Moves to the first key that is not less than `key`.
    pub(crate) fn seek(&mut self, memory: &Memory, key: &[u8]) -> Entry {
        self.depth = 0;
        let root = self.tree.load_root(memory);
        if root == 0 {
            return Entry::NONE;
        }
        let isa: Isa = self.tree.isa;
        search::run(isa, Seek { memory, position: self, root, key });
        let head = key::head(key, self.leaf.prefix_len(memory));
        self.at = {
            let heads = self.leaf.heads(memory, self.meta);
            let places = &self.places[..self.meta.count()];
            places.partition_point(|&place| {
                let place = usize::from(place);
                let is_tie = heads[place] == head;
                heads[place] < head || is_tie && self.leaf.entry(memory, self.meta, place).key(memory) < key
            })
        };
        if self.at == self.meta.count() { self.next_leaf(memory) } else { self.entry(memory) }
    }

    /// Moves to the following key.
    #[inline]
    pub(crate) fn next(&mut self, memory: &Memory) -> Entry {
        self.at += 1;
        if self.at >= self.meta.count() {
            return self.next_leaf(memory);
        }
        self.prefetch(memory, self.at + AHEAD);
        self.entry(memory)
    }

    /// Moves to the preceding key.
    #[inline]
    pub(crate) fn prev(&mut self, memory: &Memory) -> Entry {
        let Some(at) = self.at.checked_sub(1) else {
            return self.preceding_leaf(memory);
        };
        self.at = at;
        self.prefetch(memory, at.wrapping_sub(AHEAD));
        self.entry(memory)
    }

    fn next_leaf(&mut self, memory: &Memory) -> Entry {
        while let Some(above) = self.depth.checked_sub(1) {
            let (node, slot) = &mut self.path[above];
            let meta = node.load_meta(memory);
            if *slot < meta.count() {
                *slot += 1;
                let child = memory.load(Site::Reference, node.child_word(meta, *slot));
                if *slot < meta.count() {
                    let sibling = memory.load(Site::Reference, node.child_word(meta, *slot + 1));
                    Node::from_reference(sibling).prefetch_all(memory);
                }
                return self.descend_to_first(memory, child);
            }
            self.depth = above;
        }
        Entry::NONE
    }

    fn preceding_leaf(&mut self, memory: &Memory) -> Entry {
        while let Some(above) = self.depth.checked_sub(1) {
            let (node, slot) = &mut self.path[above];
            let meta = node.load_meta(memory);
            if let Some(before) = slot.checked_sub(1) {
                *slot = before;
                let child = memory.load(Site::Reference, node.child_word(meta, before));
                if let Some(sibling) = before.checked_sub(1) {
                    let sibling = memory.load(Site::Reference, node.child_word(meta, sibling));
                    Node::from_reference(sibling).prefetch_all(memory);
                }
                return self.descend_to_last(memory, child);
            }
            self.depth = above;
        }
        Entry::NONE
    }

    fn descend_to_first(&mut self, memory: &Memory, reference: u32) -> Entry {
        let mut node = Node::from_reference(reference);
        let mut meta = node.load_meta(memory);
        while !meta.is_leaf() {
            self.push(node, 0);
            node = Node::from_reference(memory.load(Site::Reference, node.child_word(meta, 0)));
            meta = node.load_meta(memory);
        }
        self.enter(memory, node, meta);
        self.at = 0;
        (1..=AHEAD).for_each(|index| self.prefetch(memory, index));
        self.entry(memory)
    }

    fn descend_to_last(&mut self, memory: &Memory, reference: u32) -> Entry {
        let mut node = Node::from_reference(reference);
        let mut meta = node.load_meta(memory);
        while !meta.is_leaf() {
            self.push(node, meta.count());
            node = Node::from_reference(memory.load(Site::Reference, node.child_word(meta, meta.count())));
            meta = node.load_meta(memory);
        }
        self.enter(memory, node, meta);
        self.at = meta.count() - 1;
        (1..=AHEAD).for_each(|back| self.prefetch(memory, self.at.wrapping_sub(back)));
        self.entry(memory)
    }
}
