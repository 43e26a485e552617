//! Insertion into the B+-tree.
//!
//! # The right edge
//! The writer remembers the entry with the greatest key, and the last leaf. A greater key belongs behind it
//! and cannot be present: it is put into that leaf without a descent and without a search. Where the leaf is
//! full, the next one begins with the new key, and the same happens on the levels above, so that ascending
//! keys fill nodes completely.

use super::draft::Draft;
use super::items::{Items, fitting_leaf};
use super::node::{BTreeNode, FAN_OUT, FIRST_PLACES, Item, LEAF_PLACES, MAX_LEVELS, SEPARATORS};
use super::search::{self, Isa, Kernel, Task};
use super::{BTree, step};
use crate::LOCKSTEP_KEYS;
use crate::arena::Allocator;
use crate::entry::{Entry, Operation};
use crate::memory::{Memory, Site};
use esker_base::key;

/// The right to insert into a tree, and the writer's memory between insertions.
#[derive(Debug)]
pub(crate) struct BTreeWriter {
    tree: BTree,
    /// The entry with the greatest key and the leaf where it is; both 0 in an empty tree.
    greatest: Entry,
    last_leaf: u32,
    /// How many insertions of the last batch chunk went to the right edge.
    hits: usize,
}

#[derive(Debug)]
struct InsertPath {
    depth: usize,
    steps: [PathStep; MAX_LEVELS],
}

#[derive(Clone, Copy, Debug)]
struct PathStep {
    node: BTreeNode,
    slot: usize,
}

impl InsertPath {
    fn push(&mut self, node: BTreeNode, slot: usize) {
        self.steps[self.depth] = PathStep { node, slot };
        self.depth += 1;
    }

    /// The nearest separators on either side of what lies below the first `depth` steps.
    fn fences(&self, memory: &Memory, depth: usize) -> (Option<Entry>, Option<Entry>) {
        let (mut low, mut high) = (None, None);
        for step in self.steps[..depth].iter().rev() {
            let header = step.node.header(memory);
            if low.is_none() && step.slot > 0 {
                low = Some(step.node.separator(memory, header, step.slot - 1));
            }
            if high.is_none() && step.slot < header.count() {
                high = Some(step.node.separator(memory, header, step.slot));
            }
        }
        (low, high)
    }
}

struct Descend<'a> {
    memory: &'a Memory,
    root: u32,
    key: &'a [u8],
    path: &'a mut InsertPath,
}

impl Task for Descend<'_> {
    type Output = BTreeNode;

    #[inline(always)]
    fn run<K: Kernel>(self) -> BTreeNode {
        let mut node = BTreeNode::from_reference(self.root);
        loop {
            let header = node.header(self.memory);
            if header.is_leaf() {
                return node;
            }
            let slot = node.slot_of::<K>(self.memory, header, self.key);
            self.path.push(node, slot);
            node = BTreeNode::from_reference(self.memory.peek(node.child_word(header, slot)));
            node.prefetch(self.memory);
        }
    }
}

/// Descends for all keys of a chunk, to load the cache.
struct Fetch<'a, 'k> {
    memory: &'a Memory,
    root: u32,
    chunk: &'a [Operation<'k>],
}

impl Task for Fetch<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<K: Kernel>(self) {
        let mut references = [self.root; LOCKSTEP_KEYS];
        for _ in 0..BTreeNode::from_reference(self.root).header(self.memory).level() {
            for (reference, operation) in references.iter_mut().zip(self.chunk) {
                *reference = step::<K>(self.memory, *reference, operation.key);
            }
        }
    }
}

impl BTreeWriter {
    pub(crate) fn create(memory: &Memory, allocator: &mut Allocator) -> (BTree, BTreeWriter) {
        let root = allocator.node(1) as usize * 2;
        memory.init(root, 0);
        let tree = BTree { root, isa: Isa::detect() };
        (tree, BTreeWriter { tree, greatest: Entry::NONE, last_leaf: 0, hits: 0 })
    }

    /// Inserts a chunk of at most [`LOCKSTEP_KEYS`] operations, in order. Unless the right edge made descents
    /// unnecessary so far, all first descend together, so that their cache misses overlap.
    #[inline(never)]
    pub(crate) fn insert_chunk(
        &mut self,
        memory: &Memory,
        allocator: &mut Allocator,
        chunk: &[Operation<'_>],
    ) -> usize {
        if chunk.len() > 1 && self.hits * 2 < LOCKSTEP_KEYS && self.last_leaf != 0 {
            search::run(self.tree.isa, Fetch { memory, root: memory.peek(self.tree.root), chunk });
        }
        self.hits = 0;
        chunk.iter().map(|operation| usize::from(self.insert(memory, allocator, operation))).sum()
    }

    #[inline(never)]
    pub(crate) fn insert(
        &mut self,
        memory: &Memory,
        allocator: &mut Allocator,
        operation: &Operation<'_>,
    ) -> bool {
        if self.last_leaf == 0 {
            self.insert_first(memory, allocator, operation);
            return true;
        }
        if operation.key > self.greatest.key(memory) {
            self.hits += 1;
            self.insert_greatest(memory, allocator, operation);
            return true;
        }
        let none = PathStep { node: BTreeNode::from_reference(0), slot: 0 };
        let mut path = InsertPath { depth: 0, steps: [none; MAX_LEVELS] };
        let root = memory.peek(self.tree.root);
        let leaf = search::run(self.tree.isa, Descend { memory, root, key: operation.key, path: &mut path });
        let header = leaf.header(memory);
        let hash = search::hash(operation.key);
        if let Some((word, older)) = leaf.find(memory, header, operation.key, hash) {
            let entry = Entry::write(memory, allocator, operation, older);
            memory.publish(Site::Reference, word, entry.0);
            return false;
        }
        let entry = Entry::write(memory, allocator, operation, Entry::NONE);
        let item = Item { entry, hash, head: key::head(operation.key, leaf.prefix_len(memory)) };
        if header.count() < header.places() {
            leaf.append(memory, header, item);
        } else {
            self.insert_into_full(memory, allocator, &path, leaf, operation.key, item);
        }
        true
    }

    /// The root of the first key is a leaf of few places.
    #[cold]
    fn insert_first(&mut self, memory: &Memory, allocator: &mut Allocator, operation: &Operation<'_>) {
        let entry = Entry::write(memory, allocator, operation, Entry::NONE);
        let item = Item { entry, hash: search::hash(operation.key), head: key::head(operation.key, 0) };
        let leaf = BTreeNode::new_leaf(memory, allocator, FIRST_PLACES, 0, &[item]);
        memory.publish(Site::Reference, self.tree.root, leaf.reference());
        self.greatest = entry;
        self.last_leaf = leaf.reference();
    }

    /// Inserts a key that is greater than all others.
    fn insert_greatest(&mut self, memory: &Memory, allocator: &mut Allocator, operation: &Operation<'_>) {
        let leaf = BTreeNode::from_reference(self.last_leaf);
        let header = leaf.header(memory);
        let entry = Entry::write(memory, allocator, operation, Entry::NONE);
        self.greatest = entry;
        let head = key::head(operation.key, leaf.prefix_len(memory));
        let item = Item { entry, hash: search::hash(operation.key), head };
        if header.count() < header.places() {
            leaf.append(memory, header, item);
            return;
        }
        if header.places() < LEAF_PLACES {
            self.grow_first(memory, allocator, leaf, item);
            return;
        }
        let path = self.right_path(memory);
        // Without a fence to its right a leaf's heads begin with the key.
        let item = Item { head: key::head(operation.key, 0), ..item };
        let new = BTreeNode::new_leaf(memory, allocator, LEAF_PLACES, 0, &[item]);
        self.last_leaf = new.reference();
        self.replace(memory, allocator, &path, leaf.reference(), entry, new.reference(), true);
    }

    fn right_path(&self, memory: &Memory) -> InsertPath {
        let none = PathStep { node: BTreeNode::from_reference(0), slot: 0 };
        let mut path = InsertPath { depth: 0, steps: [none; MAX_LEVELS] };
        let mut node = BTreeNode::from_reference(memory.peek(self.tree.root));
        let mut header = node.header(memory);
        while !header.is_leaf() {
            path.push(node, header.count());
            node = BTreeNode::from_reference(memory.peek(node.child_word(header, header.count())));
            header = node.header(memory);
        }
        path
    }

    /// The first leaf, which is the root, gets as many places as all others.
    #[cold]
    fn grow_first(&mut self, memory: &Memory, allocator: &mut Allocator, leaf: BTreeNode, item: Item) {
        let mut items = Items::of(memory, leaf);
        items.insert(items.count, item);
        let grown = BTreeNode::new_leaf(memory, allocator, LEAF_PLACES, 0, items.all());
        memory.publish(Site::Reference, self.tree.root, grown.reference());
        self.last_leaf = grown.reference();
    }

    /// Inserts an item with `key`, which is not the greatest, into a leaf that has no place for it.
    #[inline(never)]
    fn insert_into_full(
        &mut self,
        memory: &Memory,
        allocator: &mut Allocator,
        path: &InsertPath,
        leaf: BTreeNode,
        key: &[u8],
        item: Item,
    ) {
        if leaf.header(memory).places() < LEAF_PLACES {
            self.grow_first(memory, allocator, leaf, item);
            return;
        }
        let mut items = Items::of(memory, leaf);
        let at = items.all().partition_point(|other| {
            other.head < item.head || other.head == item.head && other.entry.key(memory) < key
        });
        items.insert(at, item);
        let (left, right) = items.all().split_at(items.count / 2);
        let separator = right[0].entry;
        let (low, high) = path.fences(memory, path.depth);
        let prefix_len = leaf.prefix_len(memory);
        let left = fitting_leaf(memory, allocator, prefix_len, left, low, Some(separator));
        let right = fitting_leaf(memory, allocator, prefix_len, right, Some(separator), high);
        if self.last_leaf == leaf.reference() {
            self.last_leaf = right;
        }
        self.replace(memory, allocator, path, left, separator, right, false);
    }

    /// Puts two nodes with a separator between them where the path ends, and publishes that. `is_edge` says
    /// that the second is the last of its level and has few entries yet.
    #[expect(clippy::too_many_arguments, reason = "what is put, and where")]
    fn replace(
        &mut self,
        memory: &Memory,
        allocator: &mut Allocator,
        path: &InsertPath,
        mut left: u32,
        mut separator: Entry,
        mut right: u32,
        is_edge: bool,
    ) {
        for depth in (0..path.depth).rev() {
            let PathStep { node, slot } = path.steps[depth];
            let mut draft = Draft::copy(memory, node);
            draft.insert(memory, slot, left, separator, right);
            let (low, high) = path.fences(memory, depth);
            if !draft.is_too_large() {
                if draft.is_guarded() {
                    draft.fit(memory, low, high);
                }
                let copy = draft.write(memory, allocator);
                memory.publish(Site::Reference, self.word_above(memory, path, depth), copy);
                return;
            }
            let kept = if is_edge { SEPARATORS - 1 } else { FAN_OUT / 2 };
            let (middle, mut rest) = draft.split(kept);
            draft.fit(memory, low, Some(middle));
            rest.fit(memory, Some(middle), high);
            left = draft.write(memory, allocator);
            right = rest.write(memory, allocator);
            separator = middle;
        }
        let level = 1 + BTreeNode::from_reference(left).header(memory).level();
        let root = Draft::root(memory, level, left, separator, right).write(memory, allocator);
        memory.publish(Site::Reference, self.tree.root, root);
    }

    /// The word that refers to the node of this step.
    fn word_above(&self, memory: &Memory, path: &InsertPath, depth: usize) -> usize {
        match path.steps[..depth].last() {
            None => self.tree.root,
            Some(above) => above.node.child_word(above.node.header(memory), above.slot),
        }
    }
}

const _: () = {
    assert!(FAN_OUT / 2 >= 1 && SEPARATORS >= 3, "both halves of an inner node keep a separator");
    assert!(LEAF_PLACES <= 32, "a search of hashes gives 32 bits");
};

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::arena::{ArenaPool, ExpectedUse};
    use crate::btree::{MAX_BYTES_PER_INSERT, MAX_BYTES_PER_KEY};
    use crate::kind::FIXED_BYTES;
    use esker_base::{SeqNo, Tag, ValueKind};

    /// Inserts the keys and checks the bounds of node memory after each; returns the bytes for each key.
    fn check_bounds(name: &str, keys: impl Iterator<Item = u64>) -> f64 {
        let (memory, _) = ArenaPool::new(0).acquire(64 << 20, ExpectedUse::Filled).expect("reserved");
        let mut allocator = Allocator::new(&memory);
        let (_, mut writer) = BTreeWriter::create(&memory, &mut allocator);
        let mut count = 0;
        for (key, seqno) in keys.zip(1..) {
            let before = allocator.high_bytes();
            let tag = Tag::new(SeqNo::new(seqno), ValueKind::Put);
            let operation = Operation { key: &key.to_be_bytes(), tag, value: b"" };
            count += usize::from(writer.insert(&memory, &mut allocator, &operation));
            let used = allocator.high_bytes();
            assert!(used - before <= MAX_BYTES_PER_INSERT, "{name}: {} by one", used - before);
            let most = count * MAX_BYTES_PER_KEY + FIXED_BYTES as usize;
            assert!(used <= most, "{name}: {used} bytes for {count} keys");
        }
        allocator.high_bytes() as f64 / count as f64
    }

    #[test]
    #[cfg_attr(miri, ignore = "interprets millions of steps")]
    fn nodes_have_their_bounds() {
        const COUNT: u64 = 40_000;
        let ascending = check_bounds("ascending", 0..COUNT);
        assert!(ascending < 27.0, "{ascending} bytes for each ascending key");
        check_bounds("descending", (0..COUNT).rev());
        let random = check_bounds("random", (0..COUNT).map(|key| key.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        assert!(random < 75.0, "{random} bytes for each random key");
        // Each split has exactly its 16 insertions.
        let below = std::iter::once(COUNT).chain(0..COUNT);
        assert!(check_bounds("ascending below the greatest", below) > 80.0);
        // Full right-edge leaves that are split later, and the edge left with 17 entries before it is filled.
        check_bounds(
            "full leaves",
            (0..COUNT).map(|key| key * 64).chain((0..COUNT / 32).map(|key| key * 2048 + 1)),
        );
        let rounds = (0..COUNT / 50).flat_map(|round| {
            let base = round * 1_000;
            let first = (0..32).map(move |key| base + 10 * key);
            let rest = (32..48).map(move |key| base + 10 * key);
            first.chain([base + 5]).chain(rest).chain([base + 205])
        });
        check_bounds("both in turn", rounds);
        // Bits in reverse: all leaves fill up at the same time.
        check_bounds("reversed", (0..COUNT).map(u64::reverse_bits));
    }
}
