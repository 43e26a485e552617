//! Balanced tree under one lock, for comparison.
//!
//! An AVL tree (Adelson-Velsky and Landis, "An algorithm for the organization of information", 1962), as
//! courses on databases have their students build for a memtable (Toronto CSC443), and one lock for readers
//! and the inserter. Nodes are 16 bytes of the arena: the newest version of a key, two children, the height.
//!
//! # What threads rely on
//! * LT1: words of nodes that can be reached change only under the write lock, and are read under the read
//!   lock, or by the inserter, which alone changes them. So every reader sees a complete tree, and (MT2)
//!   every insertion that ended before the read began: the locks order the two.
//! * LT2: no other lock is taken under this one, no memory is allocated, and no callback runs. So it is last
//!   in any order of locks, and it is released after O(log n) steps, at most 32 more for a cursor.
//! * LT3: entries are immutable and do not move (MT1), so an entry that was found is used after the lock was
//!   released.
//!
//! The inserter descends without the lock (LT1) and takes it to link the new node and to rotate, so readers
//! wait for a few stores. **Reading is not wait-free**: a reader waits for the inserter, and the inserter,
//! which holds the commit lock, for readers; one that is preempted under the lock delays both.
//!
//! # Cost
//! A lookup compares at most 1.44 log2 n keys, each likely a cache miss or two, as in a skiplist with a
//! better constant, and writes the lock's word, which moves between the caches of all readers. Cursors take
//! up to 32 keys at a time under the lock and then walk without it: O(1) a step, amortized.

mod position;

pub(crate) use position::LockedPosition;

use crate::arena::Allocator;
use crate::entry::{Entry, Operation};
use crate::memory::Memory;
use std::cmp::Ordering;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Words of a node: the newest version, the left child, the right child, the height.
const NODE_WORDS: usize = 4;
const LEFT: usize = 1;
const RIGHT: usize = 2;
const HEIGHT: usize = 3;

/// Most bytes of nodes for each distinct key, and for one insertion.
pub(crate) const MAX_BYTES_PER_KEY: usize = NODE_WORDS * 4;

/// An AVL tree of n keys is at most 1.44 log2(n + 2) high; 16 GiB hold fewer than 2^29 nodes.
const MAX_HEIGHT: usize = 42;

/// A node by its unit; 0 is none.
type LockedNode = u32;

/// The tree for readers: its root, behind the lock that covers all nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct LockedTree {
    root: Arc<RwLock<LockedNode>>,
}

#[inline(always)]
fn word(node: LockedNode, field: usize) -> usize {
    node as usize * 2 + field
}

#[inline(always)]
fn newest(memory: &Memory, node: LockedNode) -> Entry {
    Entry(memory.peek(word(node, 0)))
}

#[inline(always)]
fn child(memory: &Memory, node: LockedNode, side: usize) -> LockedNode {
    memory.peek(word(node, side))
}

fn height(memory: &Memory, node: LockedNode) -> u32 {
    if node == 0 { 0 } else { memory.peek(word(node, HEIGHT)) }
}

impl LockedTree {
    fn read(&self) -> RwLockReadGuard<'_, LockedNode> {
        // The inserter panics only before any change, so a poisoned lock still guards a complete tree.
        self.root.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, LockedNode> {
        self.root.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn find(&self, memory: &Memory, key: &[u8]) -> Entry {
        let root = self.read();
        let mut at = *root;
        while at != 0 {
            let entry = newest(memory, at);
            match key.cmp(entry.key(memory)) {
                Ordering::Less => at = child(memory, at, LEFT),
                Ordering::Greater => at = child(memory, at, RIGHT),
                Ordering::Equal => return entry,
            }
        }
        Entry::NONE
    }
}

#[derive(Debug)]
pub(crate) struct LockedTreeWriter {
    tree: LockedTree,
}

/// The path from the root to a node: nodes, and the side of the child that follows.
#[derive(Debug)]
struct LockedPath {
    steps: [(LockedNode, usize); MAX_HEIGHT],
    len: usize,
}

impl LockedTreeWriter {
    pub(crate) fn create() -> (LockedTree, LockedTreeWriter) {
        let tree = LockedTree::default();
        (tree.clone(), LockedTreeWriter { tree })
    }

    pub(crate) fn insert(
        &mut self,
        memory: &Memory,
        allocator: &mut Allocator,
        operation: &Operation<'_>,
    ) -> bool {
        let (path, met) = self.descend(memory, operation.key);
        if met != 0 {
            let entry = Entry::write(memory, allocator, operation, newest(memory, met));
            let _root = self.tree.write();
            memory.put(word(met, 0), entry.0);
            return false;
        }
        let entry = Entry::write(memory, allocator, operation, Entry::NONE);
        let node = allocator.node(NODE_WORDS);
        for (field, value) in [entry.0, 0, 0, 1].into_iter().enumerate() {
            memory.init(word(node, field), value);
        }
        let mut root = self.tree.write();
        link(memory, &mut root, &path, path.len, node);
        rebalance(memory, &mut root, &path);
        true
    }

    /// The node of `key`, or 0 and its path. Lock-free, since only the inserter changes the tree.
    fn descend(&self, memory: &Memory, key: &[u8]) -> (LockedPath, LockedNode) {
        let mut path = LockedPath { steps: [(0, 0); MAX_HEIGHT], len: 0 };
        let mut at = *self.tree.read();
        while at != 0 {
            let side = match key.cmp(newest(memory, at).key(memory)) {
                Ordering::Less => LEFT,
                Ordering::Greater => RIGHT,
                Ordering::Equal => return (path, at),
            };
            path.steps[path.len] = (at, side);
            path.len += 1;
            at = child(memory, at, side);
        }
        (path, 0)
    }
}

/// Makes `node` the end of the first `len` steps of the path.
fn link(memory: &Memory, root: &mut LockedNode, path: &LockedPath, len: usize, node: LockedNode) {
    match len.checked_sub(1) {
        None => *root = node,
        Some(last) => {
            let (parent, side) = path.steps[last];
            memory.put(word(parent, side), node);
        }
    }
}

/// Restores heights, and the balance with at most one rotation, from the end of the path up.
fn rebalance(memory: &Memory, root: &mut LockedNode, path: &LockedPath) {
    for len in (0..path.len).rev() {
        let (node, _) = path.steps[len];
        let before = height(memory, node);
        let top = balanced(memory, node);
        if top != node {
            link(memory, root, path, len, top);
        }
        if height(memory, top) == before {
            return;
        }
    }
}

/// Height of the right side minus that of the left.
fn lean(memory: &Memory, node: LockedNode) -> i64 {
    let side = |side| i64::from(height(memory, child(memory, node, side)));
    side(RIGHT) - side(LEFT)
}

/// The top of the subtree of `node` after its height was updated and it was balanced.
fn balanced(memory: &Memory, node: LockedNode) -> LockedNode {
    let (heavy, light) = match lean(memory, node) {
        2 => (RIGHT, LEFT),
        -2 => (LEFT, RIGHT),
        _ => {
            renew_height(memory, node);
            return node;
        }
    };
    let low = child(memory, node, heavy);
    let leans_inwards = if heavy == RIGHT { lean(memory, low) < 0 } else { lean(memory, low) > 0 };
    if leans_inwards {
        let inner = rotate(memory, low, light, heavy);
        memory.put(word(node, heavy), inner);
    }
    rotate(memory, node, heavy, light)
}

/// Lifts the child on side `up` above `node`; returns it.
fn rotate(memory: &Memory, node: LockedNode, up: usize, down: usize) -> LockedNode {
    let top = child(memory, node, up);
    memory.put(word(node, up), child(memory, top, down));
    memory.put(word(top, down), node);
    renew_height(memory, node);
    renew_height(memory, top);
    top
}

fn renew_height(memory: &Memory, node: LockedNode) {
    let side = |side| height(memory, child(memory, node, side));
    memory.put(word(node, HEIGHT), 1 + side(LEFT).max(side(RIGHT)));
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::arena::{ArenaPool, ExpectedUse};
    use esker_base::{SeqNo, Tag, ValueKind};

    /// Checks order, heights and balance below a node; returns its height and number of keys.
    fn check(memory: &Memory, node: LockedNode, above: Option<&[u8]>, below: Option<&[u8]>) -> (u32, usize) {
        if node == 0 {
            return (0, 0);
        }
        let key = newest(memory, node).key(memory);
        assert!(above.is_none_or(|above| above < key) && below.is_none_or(|below| key < below), "order");
        let (left, left_keys) = check(memory, child(memory, node, LEFT), above, Some(key));
        let (right, right_keys) = check(memory, child(memory, node, RIGHT), Some(key), below);
        assert!(left.abs_diff(right) <= 1, "balance: {left} and {right}");
        assert_eq!(height(memory, node), 1 + left.max(right), "height");
        (1 + left.max(right), left_keys + right_keys + 1)
    }

    #[test]
    fn the_tree_is_ordered_and_balanced_after_each_insertion() {
        let orders: [fn(u64) -> u64; 4] =
            [|at| at, |at| 1000 - at, |at| at * 7919 % 1009, |at| if at % 2 == 0 { at } else { 1000 - at }];
        for order in orders {
            let (memory, _) = ArenaPool::new(0).acquire(4 << 20, ExpectedUse::Filled).expect("reserved");
            let mut allocator = Allocator::new(&memory);
            let (tree, mut writer) = LockedTreeWriter::create();
            let mut keys = std::collections::BTreeSet::new();
            for number in 0..1000u64 {
                let key = order(number).to_be_bytes();
                let tag = Tag::new(SeqNo::new(number + 1), ValueKind::Put);
                let operation = Operation { key: &key, tag, value: b"" };
                assert_eq!(writer.insert(&memory, &mut allocator, &operation), keys.insert(key));
                let (height, count) = check(&memory, *tree.read(), None, None);
                assert_eq!(count, keys.len());
                assert!(
                    f64::from(height) <= 1.4405 * (count as f64 + 2.0).log2(),
                    "{height} for {count} keys"
                );
            }
        }
    }

    #[test]
    fn paths_are_long_enough_for_a_full_arena() {
        let most_keys = ((1u64 << 31) * 8 / (24 + MAX_BYTES_PER_KEY as u64)) as f64;
        assert!(1.4405 * (most_keys + 2.0).log2() <= MAX_HEIGHT as f64);
    }
}
