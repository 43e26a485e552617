//! Insertion into the radix tree.
//!
//! # The append hint
//! The writer remembers the word that refers to the node that took the last leaf, the depth of that word, and
//! the last entry. A key that agrees with that entry up to that depth belongs below that word, so the descent
//! starts there: ascending keys skip all but the last level. The word stays right while nodes grow, because a
//! node only grows when it takes a leaf, which renews the hint; and a prefix split puts the new node into the
//! same word.
//!
//! # Insertions in two halves
//! The lowest levels of a large tree are not in the processor's caches, and an insertion waits for one after
//! the other. A caller with other work between knowing the key and inserting it, such as the log write,
//! begins with [`ArtWriter::begin_insert`]: its loads complete meanwhile. It passes as many nodes as the last
//! insertion and prefetches what follows, where most insertions end; [`ArtWriter::finish_insert`] continues
//! there. Descending on while there are nodes is slower: whether there is another node is known when the load
//! arrives, and a mispredicted branch delays the other work, too.

use super::node::{ArtNode, Branch, LEAF, target_word};
use super::{Art, Descent, is_node, step};
use crate::LOCKSTEP_KEYS;
use crate::arena::Allocator;
use crate::entry::{Entry, Operation};
use crate::memory::{Memory, Site};
use esker_base::key::leading;

/// The right to insert into a tree, and the writer's memory between insertions.
#[derive(Debug)]
pub(crate) struct ArtWriter {
    tree: Art,
    hint: Option<Hint>,
    /// How many insertions of the last batch chunk began at the hint.
    hits: usize,
    /// Nodes above the word where the last insertion ended.
    levels: usize,
}

#[derive(Clone, Copy, Debug)]
struct Hint {
    /// The word that refers to the node.
    point: InsertPoint,
    /// An entry below it.
    entry: Entry,
    /// First bytes of its key. The entry itself may be in another core's cache, the last writer's.
    leading: u128,
}

impl Hint {
    fn new(point: InsertPoint, entry: Entry, key: &[u8]) -> Hint {
        Hint { point, entry, leading: leading(key) }
    }

    /// Whether a key belongs below the word.
    #[inline(always)]
    fn contains(&self, memory: &Memory, key: &[u8]) -> bool {
        let depth = self.point.depth;
        if depth <= size_of::<u128>() {
            let differing = leading(key) ^ self.leading;
            return differing.leading_zeros() as usize >= 8 * depth && key.len() >= depth;
        }
        key.len() >= depth && key[..depth] == self.entry.key(memory)[..depth]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InsertPoint {
    /// The word that the descent has reached.
    slot: usize,
    /// Key bytes above it.
    depth: usize,
    /// Nodes above it.
    levels: usize,
}

impl InsertPoint {
    #[inline(always)]
    fn down(self, child: usize, depth: usize) -> InsertPoint {
        InsertPoint { slot: child, depth, levels: self.levels + 1 }
    }
}

impl ArtWriter {
    pub(crate) fn create(memory: &Memory, allocator: &mut Allocator) -> (Art, ArtWriter) {
        let root = allocator.node(1) as usize * 2;
        memory.init(root, 0);
        let tree = Art { root };
        (tree, ArtWriter { tree, hint: None, hits: 0, levels: 0 })
    }

    /// Inserts a chunk of at most [`LOCKSTEP_KEYS`] operations, in order. Unless the hint made descents
    /// unnecessary so far, all first descend together, so that their cache misses overlap.
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
                    Descent::Down(next) => {
                        references[index] = next;
                        memory.prefetch(target_word(next));
                    }
                    Descent::End(_) => descending &= !(1 << index),
                }
            }
        }
    }

    /// The first half of an insertion, which changes nothing.
    #[inline]
    pub(crate) fn begin_insert(&self, memory: &Memory, key: &[u8]) -> InsertPoint {
        let mut point = self.start(memory, key);
        while point.levels < self.levels {
            let reference = memory.peek(point.slot);
            if !is_node(reference) {
                return point;
            }
            let node = ArtNode::from_reference(reference);
            let header = node.header(memory);
            if node.mismatch(memory, header, key, point.depth).is_some() {
                return point;
            }
            let child = key.get(header.depth()).and_then(|&byte| node.find(memory, header, byte));
            let Some(child) = child else { return point };
            point = point.down(child, header.depth() + 1);
        }
        memory.prefetch(target_word(memory.peek(point.slot)));
        point
    }

    #[inline]
    pub(crate) fn insert(
        &mut self,
        memory: &Memory,
        allocator: &mut Allocator,
        operation: &Operation<'_>,
    ) -> bool {
        let point = self.start(memory, operation.key);
        self.hits += usize::from(point.depth > 0);
        self.finish_insert(point, memory, allocator, operation)
    }

    /// Inserts one operation, from the point of a first half that followed the last insertion; returns
    /// whether its key is new.
    #[inline]
    pub(crate) fn finish_insert(
        &mut self,
        mut point: InsertPoint,
        memory: &Memory,
        allocator: &mut Allocator,
        operation: &Operation<'_>,
    ) -> bool {
        let key = operation.key;
        loop {
            self.levels = point.levels;
            let reference = memory.peek(point.slot);
            if reference & LEAF != 0 || reference == 0 {
                return self.end_at_leaf(memory, allocator, operation, point);
            }
            let node = ArtNode::from_reference(reference);
            let header = node.header(memory);
            if let Some(differs) = node.mismatch(memory, header, key, point.depth) {
                let sample = node.sample(memory);
                let entry = Entry::write(memory, allocator, operation, Entry::NONE);
                let old = Branch::of(sample.key(memory), differs, reference);
                let new = Branch::of(key, differs, LEAF | entry.0);
                let split = ArtNode::with_two(memory, allocator, differs, sample, [old, new]);
                memory.publish(Site::Reference, point.slot, split);
                return true;
            }
            let Some(&byte) = key.get(header.depth()) else {
                let older = Entry(memory.peek(node.value_slot()));
                let entry = Entry::write(memory, allocator, operation, older);
                memory.publish(Site::Reference, node.value_slot(), entry.0);
                return older.is_none();
            };
            let Some(child) = node.find(memory, header, byte) else {
                let entry = Entry::write(memory, allocator, operation, Entry::NONE);
                node.add(memory, allocator, point.slot, byte, LEAF | entry.0);
                self.hint = Some(Hint::new(point, entry, key));
                return true;
            };
            point = point.down(child, header.depth() + 1);
        }
    }

    #[inline(always)]
    fn start(&self, memory: &Memory, key: &[u8]) -> InsertPoint {
        match &self.hint {
            Some(hint) if hint.contains(memory, key) => hint.point,
            _ => InsertPoint { slot: self.tree.root, depth: 0, levels: 0 },
        }
    }

    /// The descent ended at a word that refers to an entry or, if it is the root, to nothing.
    #[inline]
    fn end_at_leaf(
        &mut self,
        memory: &Memory,
        allocator: &mut Allocator,
        operation: &Operation<'_>,
        point: InsertPoint,
    ) -> bool {
        let InsertPoint { slot, depth, .. } = point;
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
        let split = ArtNode::with_two(memory, allocator, differs, met, branches);
        memory.publish(Site::Reference, slot, split);
        self.hint = Some(Hint::new(point, entry, key));
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::arena::{ArenaPool, ExpectedUse};
    use esker_base::{SeqNo, Tag, ValueKind};

    #[test]
    fn a_hint_serves_keys_that_agree_and_are_long_enough() {
        let (memory, _) = ArenaPool::new(0).acquire(8 << 20, ExpectedUse::Filled).expect("reserved");
        let mut allocator = Allocator::new(&memory);
        let tag = Tag::new(SeqNo::new(1), ValueKind::Put);
        // Zeros, so that a shorter key, padded, would agree.
        for hinted in [vec![7; 20], vec![0; 20], [vec![1; 14], vec![0; 6]].concat()] {
            let operation = Operation { key: &hinted, tag, value: b"" };
            let entry = Entry::write(&memory, &mut allocator, &operation, Entry::NONE);
            for depth in 0..=hinted.len() {
                let hint = Hint::new(InsertPoint { slot: 0, depth, levels: 0 }, entry, &hinted);
                for len in 0..=hinted.len() + 2 {
                    let mut key = hinted.clone();
                    key.resize(len, 0);
                    assert_eq!(hint.contains(&memory, &key), len >= depth, "{hinted:?}: {depth}, {len}");
                    for differs in 0..len.min(hinted.len()) {
                        key[differs] ^= 1;
                        let leads = len >= depth && differs >= depth;
                        assert_eq!(hint.contains(&memory, &key), leads, "{hinted:?}: {depth}, {key:?}");
                        key[differs] ^= 1;
                    }
                }
            }
        }
    }
}
