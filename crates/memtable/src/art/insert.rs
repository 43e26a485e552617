//! The writer's side of the tree.
//!
//! # The append hint
//! The writer remembers the word that refers to the node that took the last leaf, the depth that word stands
//! for, and the last entry. A key that agrees with that entry up to that depth belongs below that word, so
//! the descent starts there: ascending keys skip all but the last floor. The word stays the right one while
//! nodes grow, because a node only grows when it takes a leaf, and that renews the hint; and a prefix split
//! puts the new node into the same word.
//!
//! # Insertions in two halves
//! The lowest floors of a large tree are in none of the processor's caches, and an insertion waits for one
//! after the other. Who has something else to do between knowing the key and inserting it, as a log has,
//! begins with [`ArtWriter::approach`]: nothing depends on what is loaded there, so the other work is done
//! meanwhile. It passes as many nodes as the last insertion and asks for what follows, where most end;
//! [`ArtWriter::insert_from`] goes on there. Going on while there are nodes took longer than not going:
//! whether there is another is known when the load arrives, and where the processor guessed wrong the other
//! work waits, too.

use super::node::{Branch, LEAF, Node, target_word};
use super::{Art, Step, is_node, step};
use crate::LOCKSTEP_KEYS;
use crate::arena::Allocator;
use crate::entry::{Entry, Operation};
use crate::memory::{Memory, Site};
use esker_base::key::leading;

/// The right to insert into a tree, and what the writer remembers between insertions.
#[derive(Debug)]
pub(crate) struct ArtWriter {
    tree: Art,
    hint: Option<Hint>,
    /// Of the last batch chunk, how many insertions began at the hint.
    hits: usize,
    /// Nodes that lead to the word where the last insertion ended.
    floors: usize,
}

#[derive(Clone, Copy, Debug)]
struct Hint {
    /// The way to the word that refers to the node.
    way: Way,
    /// An entry below it.
    entry: Entry,
    /// The first bytes of its key. The entry itself may lie in the cache of another core, where the last
    /// writer was.
    leading: u128,
}

impl Hint {
    fn new(way: Way, entry: Entry, key: &[u8]) -> Hint {
        Hint { way, entry, leading: leading(key) }
    }

    /// Whether a key belongs below the word.
    #[inline(always)]
    fn leads_to(&self, memory: &Memory, key: &[u8]) -> bool {
        let depth = self.way.depth;
        if depth <= size_of::<u128>() {
            let differing = leading(key) ^ self.leading;
            return differing.leading_zeros() as usize >= 8 * depth && key.len() >= depth;
        }
        key.len() >= depth && key[..depth] == self.entry.key(memory)[..depth]
    }
}

/// How far an insertion has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    /// The word it has come to.
    slot: usize,
    /// Key bytes that lead there.
    depth: usize,
    /// Nodes that lead there.
    floors: usize,
}

impl Way {
    /// One node further, to the word of a child.
    #[inline(always)]
    fn down(self, child: usize, depth: usize) -> Way {
        Way { slot: child, depth, floors: self.floors + 1 }
    }
}

impl ArtWriter {
    pub(crate) fn create(memory: &Memory, allocator: &mut Allocator) -> (Art, ArtWriter) {
        let root = allocator.node(1) as usize * 2;
        memory.init(root, 0);
        let tree = Art { root };
        (tree, ArtWriter { tree, hint: None, hits: 0, floors: 0 })
    }

    /// Inserts a chunk of at most [`LOCKSTEP_KEYS`] operations, in order. Unless the hint made descents
    /// unnecessary so far, all first descend together, so that the floors' cache misses overlap.
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

    /// The first half of an insertion, which changes nothing.
    #[inline]
    pub(crate) fn approach(&self, memory: &Memory, key: &[u8]) -> Way {
        let mut way = self.start(memory, key);
        while way.floors < self.floors {
            let reference = memory.peek(way.slot);
            if !is_node(reference) {
                return way;
            }
            let node = Node::from_reference(reference);
            let meta = node.meta(memory);
            if node.mismatch(memory, meta, key, way.depth).is_some() {
                return way;
            }
            let child = key.get(meta.depth()).and_then(|&byte| node.find(memory, meta, byte));
            let Some(child) = child else { return way };
            way = way.down(child, meta.depth() + 1);
        }
        memory.prefetch(target_word(memory.peek(way.slot)));
        way
    }

    /// Inserts one operation; returns whether its key is new.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        memory: &Memory,
        allocator: &mut Allocator,
        operation: &Operation<'_>,
    ) -> bool {
        let way = self.start(memory, operation.key);
        self.hits += usize::from(way.depth > 0);
        self.insert_from(way, memory, allocator, operation)
    }

    /// Inserts one operation whose key was approached after the last insertion; returns whether it is new.
    #[inline]
    pub(crate) fn insert_from(
        &mut self,
        mut way: Way,
        memory: &Memory,
        allocator: &mut Allocator,
        operation: &Operation<'_>,
    ) -> bool {
        let key = operation.key;
        loop {
            self.floors = way.floors;
            let reference = memory.peek(way.slot);
            if reference & LEAF != 0 || reference == 0 {
                return self.end_at_leaf(memory, allocator, operation, way);
            }
            let node = Node::from_reference(reference);
            let meta = node.meta(memory);
            if let Some(differs) = node.mismatch(memory, meta, key, way.depth) {
                let sample = node.sample(memory);
                let entry = Entry::write(memory, allocator, operation, Entry::NONE);
                let old = Branch::of(sample.key(memory), differs, reference);
                let new = Branch::of(key, differs, LEAF | entry.0);
                let split = Node::with_two(memory, allocator, differs, sample, [old, new]);
                memory.publish(Site::Reference, way.slot, split);
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
                node.add(memory, allocator, way.slot, byte, LEAF | entry.0);
                self.hint = Some(Hint::new(way, entry, key));
                return true;
            };
            way = way.down(child, meta.depth() + 1);
        }
    }

    /// Where the descent for `key` begins.
    #[inline(always)]
    fn start(&self, memory: &Memory, key: &[u8]) -> Way {
        match &self.hint {
            Some(hint) if hint.leads_to(memory, key) => hint.way,
            _ => Way { slot: self.tree.root, depth: 0, floors: 0 },
        }
    }

    /// The descent ended at a word that refers to an entry or, if it is the root, to nothing.
    #[inline]
    fn end_at_leaf(
        &mut self,
        memory: &Memory,
        allocator: &mut Allocator,
        operation: &Operation<'_>,
        way: Way,
    ) -> bool {
        let Way { slot, depth, .. } = way;
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
        self.hint = Some(Hint::new(way, entry, key));
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::arena::{ArenaPool, Expectation};
    use esker_base::{SeqNo, Tag, ValueKind};

    #[test]
    fn a_hint_leads_those_that_agree_so_far_and_are_long_enough() {
        let (memory, _) = ArenaPool::new(0).acquire(8 << 20, Expectation::Filled).expect("reserved");
        let mut allocator = Allocator::new(&memory);
        let tag = Tag::new(SeqNo::new(1), ValueKind::Put);
        // Zeros, so that a shorter key, padded, would agree.
        for hinted in [vec![7; 20], vec![0; 20], [vec![1; 14], vec![0; 6]].concat()] {
            let operation = Operation { key: &hinted, tag, value: b"" };
            let entry = Entry::write(&memory, &mut allocator, &operation, Entry::NONE);
            for depth in 0..=hinted.len() {
                let hint = Hint::new(Way { slot: 0, depth, floors: 0 }, entry, &hinted);
                for len in 0..=hinted.len() + 2 {
                    let mut key = hinted.clone();
                    key.resize(len, 0);
                    assert_eq!(hint.leads_to(&memory, &key), len >= depth, "{hinted:?}: {depth}, {len}");
                    for differs in 0..len.min(hinted.len()) {
                        key[differs] ^= 1;
                        let leads = len >= depth && differs >= depth;
                        assert_eq!(hint.leads_to(&memory, &key), leads, "{hinted:?}: {depth}, {key:?}");
                        key[differs] ^= 1;
                    }
                }
            }
        }
    }
}
