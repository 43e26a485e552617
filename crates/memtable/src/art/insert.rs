//! The writer's side of the tree.
//!
//! # The append hint
//! The writer remembers the word that refers to the node that took the last leaf, the depth that word stands for, and
//! the last entry. A key that agrees with that entry up to that depth belongs below that word, so the
//! descent starts there: ascending keys skip all but the last floor. The word stays the right one while nodes
//! grow, because a node only grows when it takes a leaf, and that renews the hint; and a prefix split puts
//! the new node into the same word.

use super::node::{Branch, LEAF, Node, target_word};
use super::{Art, Step, is_node, step};
use crate::LOCKSTEP_KEYS;
use crate::arena::Allocator;
use crate::entry::{Entry, Operation};
use crate::memory::{Memory, Site};

/// The right to insert into a tree, and what the writer remembers between insertions.
#[derive(Debug)]
pub(crate) struct ArtWriter {
    tree: Art,
    hint: Option<Hint>,
    /// Of the last batch chunk, how many insertions began at the hint.
    hits: usize,
}

#[derive(Clone, Copy, Debug)]
struct Hint {
    /// The word that refers to the node.
    slot: usize,
    /// Key bytes that lead to the word.
    depth: usize,
    /// An entry below it.
    entry: Entry,
}

impl ArtWriter {
    pub(crate) fn create(memory: &Memory, allocator: &mut Allocator) -> (Art, ArtWriter) {
        let root = allocator.node(1) as usize * 2;
        memory.init(root, 0);
        let tree = Art { root };
        (tree, ArtWriter { tree, hint: None, hits: 0 })
    }

    /// Inserts a chunk of at most [`LOCKSTEP_KEYS`] operations, in order. Unless the hint made descents unnecessary
    /// so far, all first descend together, so that the floors' cache misses overlap.
    pub(crate) fn insert_chunk(
        &mut self,
        memory: &Memory,
        allocator: &mut Allocator,
        chunk: &[Operation<'_>],
    ) -> usize {
        if chunk.len() > 1 && self.hits * 2 < LOCKSTEP_KEYS {
            self.fetch_paths(memory, chunk);
        }
        self.hits = 0;
        chunk.iter().map(|operation| usize::from(self.insert(memory, allocator, operation))).sum()
    }

    fn fetch_paths(&self, memory: &Memory, chunk: &[Operation<'_>]) {
        let root = memory.peek(self.tree.root);
        let mut references = [root; LOCKSTEP_KEYS];
        let mut descending = (1u32 << chunk.len()) - 1;
        while descending != 0 {
            let mut left = descending;
            while left != 0 {
                let index = left.trailing_zeros() as usize;
                left &= left - 1;
                let reference = references[index];
                if !is_node(reference) {
                    descending &= !(1 << index);
                    continue;
                }
                match step(memory, reference, chunk[index].key) {
                    Step::Down(next) => {
                        references[index] = next;
                        memory.prefetch(target_word(next));
                    }
                    Step::End(_) => descending &= !(1 << index),
                }
            }
        }
    }

    /// Inserts one operation; returns whether its key is new.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        memory: &Memory,
        allocator: &mut Allocator,
        operation: &Operation<'_>,
    ) -> bool {
        let key = operation.key;
        let (mut slot, mut depth) = self.start(memory, key);
        loop {
            let reference = memory.peek(slot);
            if reference & LEAF != 0 || reference == 0 {
                return self.end_at_leaf(memory, allocator, operation, (slot, depth));
            }
            let node = Node::from_reference(reference);
            let meta = node.meta(memory);
            if let Some(differs) = node.mismatch(memory, meta, key, depth) {
                let sample = node.sample(memory);
                let entry = Entry::write(memory, allocator, operation, Entry::NONE);
                let old = Branch::of(sample.key(memory), differs, reference);
                let new = Branch::of(key, differs, LEAF | entry.0);
                let split = Node::with_two(memory, allocator, differs, sample, [old, new]);
                memory.publish(Site::Reference, slot, split);
                return true;
            }
            let Some(&byte) = key.get(meta.depth()) else {
                let older = Entry(memory.peek(node.value_slot()));
                let entry = Entry::write(memory, allocator, operation, older);
                memory.publish(Site::Reference, node.value_slot(), entry.0);
                return older.is_none();
            };
            let Some(child) = node.find(memory, meta, byte) else {
                let entry = Entry::write(memory, allocator, operation, Entry::NONE);
                node.add(memory, allocator, slot, byte, LEAF | entry.0);
                self.hint = Some(Hint { slot, depth, entry });
                return true;
            };
            slot = child;
            depth = meta.depth() + 1;
        }
    }

    /// Where the descent for `key` begins: a word, and how many key bytes lead there.
    #[inline(always)]
    fn start(&mut self, memory: &Memory, key: &[u8]) -> (usize, usize) {
        if let Some(hint) = self.hint
            && agree_before(key, hint.entry.key(memory), hint.depth)
        {
            self.hits += usize::from(hint.depth > 0);
            return (hint.slot, hint.depth);
        }
        (self.tree.root, 0)
    }

    /// The descent ended at the word `slot`, which refers to an entry or, if it is the root, to nothing.
    #[inline]
    fn end_at_leaf(
        &mut self,
        memory: &Memory,
        allocator: &mut Allocator,
        operation: &Operation<'_>,
        (slot, depth): (usize, usize),
    ) -> bool {
        let reference = memory.peek(slot);
        let (key, met) = (operation.key, Entry(reference & !LEAF));
        if met.is_none() {
            let entry = Entry::write(memory, allocator, operation, Entry::NONE);
            memory.publish(Site::Reference, slot, LEAF | entry.0);
            return true;
        }
        let met_key = met.key(memory);
        let differs = depth + esker_base::key::common_prefix_len(&met_key[depth..], &key[depth..]);
        if differs == key.len() && differs == met_key.len() {
            let entry = Entry::write(memory, allocator, operation, met);
            memory.publish(Site::Reference, slot, LEAF | entry.0);
            return false;
        }
        let entry = Entry::write(memory, allocator, operation, Entry::NONE);
        let branches = [Branch::of(met_key, differs, reference), Branch::of(key, differs, LEAF | entry.0)];
        let split = Node::with_two(memory, allocator, differs, met, branches);
        memory.publish(Site::Reference, slot, split);
        self.hint = Some(Hint { slot, depth, entry });
        true
    }
}

/// Whether `a` has at least `len` bytes and agrees there with `b`, which has.
#[inline(always)]
fn agree_before(a: &[u8], b: &[u8], len: usize) -> bool {
    if let (Some(a), Some(b)) = (a.first_chunk::<16>(), b.first_chunk::<16>())
        && len <= 16
    {
        let differing = u128::from_be_bytes(*a) ^ u128::from_be_bytes(*b);
        return differing.leading_zeros() as usize >= 8 * len;
    }
    a.len() >= len && a[..len] == b[..len]
}
