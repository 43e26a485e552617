//! A position in the B+-tree: the path from the root to a leaf, the leaf's places in order, and one of them.
//!
//! The places are sorted when the position enters a leaf; what is added to the leaf later is not met before
//! the next seek. Steps from leaf to leaf use the path, whose nodes may have been replaced meanwhile: the
//! head of `btree.rs` proves this right. Keys met in one direction are strictly monotone, because the ranges
//! of children never change and do not overlap.

use super::BTree;
use super::node::{BTreeHeader, BTreeNode, LEAF_PLACES, MAX_LEVELS};
use super::search::{self, Isa, Kernel, Task};
use crate::entry::Entry;
use crate::memory::{Memory, Site};
use esker_base::key;

/// Entries that are prefetched ahead of a walk.
const AHEAD: usize = 6;

/// Sorts the places of the leaf's published entries by their keys.
///
/// By insertion: a leaf begins sorted, and few entries were added since.
pub(super) fn sorted_places(
    memory: &Memory,
    leaf: BTreeNode,
    header: BTreeHeader,
    places: &mut [u8; LEAF_PLACES],
) {
    let heads = leaf.heads(memory, header);
    for place in 0..header.count() {
        let head = heads[place];
        let mut at = place;
        while let Some(&before) = at.checked_sub(1).and_then(|index| places.get(index)) {
            let other = heads[usize::from(before)];
            if other < head || other == head && is_less(memory, leaf, header, usize::from(before), place) {
                break;
            }
            places[at] = before;
            at -= 1;
        }
        places[at] = place as u8;
    }
}

#[inline(never)]
fn is_less(memory: &Memory, leaf: BTreeNode, header: BTreeHeader, one: usize, other: usize) -> bool {
    leaf.entry(memory, header, one).key(memory) < leaf.entry(memory, header, other).key(memory)
}

#[derive(Debug)]
pub(crate) struct BTreePosition {
    tree: BTree,
    depth: usize,
    /// Inner nodes and the slots of the children that the path continues to.
    path: [(BTreeNode, usize); MAX_LEVELS],
    leaf: BTreeNode,
    header: BTreeHeader,
    places: [u8; LEAF_PLACES],
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
        let mut node = BTreeNode::from_reference(self.root);
        loop {
            let header = node.load_header(self.memory);
            if header.is_leaf() {
                self.position.enter(self.memory, node, header);
                return;
            }
            let slot = node.slot_of::<K>(self.memory, header, self.key);
            self.position.push(node, slot);
            node =
                BTreeNode::from_reference(self.memory.load(Site::Reference, node.child_word(header, slot)));
            if header.level() == 1 { node.prefetch_all(self.memory) } else { node.prefetch(self.memory) }
        }
    }
}

impl BTreePosition {
    pub(crate) fn new(tree: BTree) -> BTreePosition {
        let none = BTreeNode::from_reference(0);
        BTreePosition {
            tree,
            depth: 0,
            path: [(none, 0); MAX_LEVELS],
            leaf: none,
            header: BTreeHeader::NONE,
            places: [0; LEAF_PLACES],
            at: 0,
        }
    }

    fn push(&mut self, node: BTreeNode, slot: usize) {
        self.path[self.depth] = (node, slot);
        self.depth += 1;
    }

    fn enter(&mut self, memory: &Memory, leaf: BTreeNode, header: BTreeHeader) {
        (self.leaf, self.header) = (leaf, header);
        sorted_places(memory, leaf, header, &mut self.places);
    }

    #[inline(always)]
    fn entry(&self, memory: &Memory) -> Entry {
        self.leaf.entry(memory, self.header, usize::from(self.places[self.at]))
    }

    #[inline(always)]
    fn prefetch(&self, memory: &Memory, index: usize) {
        if index < self.header.count() {
            self.leaf.entry(memory, self.header, usize::from(self.places[index])).prefetch(memory);
        }
    }

    pub(crate) fn seek_to_first(&mut self, memory: &Memory) -> Entry {
        self.depth = 0;
        match self.tree.load_root(memory) {
            0 => Entry::NONE,
            root => self.descend_to_first(memory, root),
        }
    }

    pub(crate) fn seek_to_last(&mut self, memory: &Memory) -> Entry {
        self.depth = 0;
        match self.tree.load_root(memory) {
            0 => Entry::NONE,
            root => self.descend_to_last(memory, root),
        }
    }

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
            let heads = self.leaf.heads(memory, self.header);
            let places = &self.places[..self.header.count()];
            places.partition_point(|&place| {
                let place = usize::from(place);
                let is_tie = heads[place] == head;
                heads[place] < head || is_tie && self.leaf.entry(memory, self.header, place).key(memory) < key
            })
        };
        if self.at == self.header.count() { self.next_leaf(memory) } else { self.entry(memory) }
    }

    #[inline]
    pub(crate) fn next(&mut self, memory: &Memory) -> Entry {
        self.at += 1;
        if self.at >= self.header.count() {
            return self.next_leaf(memory);
        }
        self.prefetch(memory, self.at + AHEAD);
        self.entry(memory)
    }

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
            let header = node.load_header(memory);
            if *slot < header.count() {
                *slot += 1;
                let child = memory.load(Site::Reference, node.child_word(header, *slot));
                if *slot < header.count() {
                    let sibling = memory.load(Site::Reference, node.child_word(header, *slot + 1));
                    BTreeNode::from_reference(sibling).prefetch_all(memory);
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
            let header = node.load_header(memory);
            if let Some(before) = slot.checked_sub(1) {
                *slot = before;
                let child = memory.load(Site::Reference, node.child_word(header, before));
                if let Some(sibling) = before.checked_sub(1) {
                    let sibling = memory.load(Site::Reference, node.child_word(header, sibling));
                    BTreeNode::from_reference(sibling).prefetch_all(memory);
                }
                return self.descend_to_last(memory, child);
            }
            self.depth = above;
        }
        Entry::NONE
    }

    fn descend_to_first(&mut self, memory: &Memory, reference: u32) -> Entry {
        let mut node = BTreeNode::from_reference(reference);
        let mut header = node.load_header(memory);
        while !header.is_leaf() {
            self.push(node, 0);
            node = BTreeNode::from_reference(memory.load(Site::Reference, node.child_word(header, 0)));
            header = node.load_header(memory);
        }
        self.enter(memory, node, header);
        self.at = 0;
        (1..=AHEAD).for_each(|index| self.prefetch(memory, index));
        self.entry(memory)
    }

    fn descend_to_last(&mut self, memory: &Memory, reference: u32) -> Entry {
        let mut node = BTreeNode::from_reference(reference);
        let mut header = node.load_header(memory);
        while !header.is_leaf() {
            self.push(node, header.count());
            node = BTreeNode::from_reference(
                memory.load(Site::Reference, node.child_word(header, header.count())),
            );
            header = node.load_header(memory);
        }
        self.enter(memory, node, header);
        self.at = header.count() - 1;
        (1..=AHEAD).for_each(|back| self.prefetch(memory, self.at.wrapping_sub(back)));
        self.entry(memory)
    }
}
