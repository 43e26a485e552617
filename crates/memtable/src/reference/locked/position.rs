//! A position in the tree under a lock: some keys that were read together, and the current one.
//!
//! A cursor that took the lock for each step would do a descent and two atomic operations for each. So it
//! takes several keys at once, two after a seek, then eight, then [`MOST`]: a read of one key does not take
//! many, and a walk pays little for each. Keys that are inserted meanwhile between the taken ones are not
//! met, as the contract of cursors allows, and neither are newer versions of the taken ones.

use super::{LEFT, LockedNode, LockedTree, MAX_HEIGHT, RIGHT, child, newest};
use crate::entry::Entry;
use crate::memory::Memory;
use std::cmp::Ordering;

/// Most keys that are taken at once.
const MOST: usize = 32;
/// Keys that are taken after a seek, and the factor for the next time.
const FIRST: usize = 2;
const GROWTH: usize = 4;

#[derive(Clone, Copy)]
enum From<'a> {
    /// At the least key, or at the greatest where the walk goes backwards.
    End,
    /// At the key, or the next one in the direction of the walk.
    At(&'a [u8]),
    /// At the key after this one in the direction of the walk.
    Beyond(&'a [u8]),
}

#[derive(Debug)]
pub(crate) struct LockedPosition {
    tree: LockedTree,
    /// In the order of the walk.
    taken: [Entry; MOST],
    len: usize,
    at: usize,
    backward: bool,
    /// Number of keys to take next time.
    want: usize,
}

impl LockedPosition {
    pub(crate) fn new(tree: LockedTree) -> LockedPosition {
        LockedPosition { tree, taken: [Entry::NONE; MOST], len: 0, at: 0, backward: false, want: FIRST }
    }

    pub(crate) fn seek_to_first(&mut self, memory: &Memory) -> Entry {
        self.want = FIRST;
        self.take(memory, From::End, false)
    }

    pub(crate) fn seek_to_last(&mut self, memory: &Memory) -> Entry {
        self.want = FIRST;
        self.take(memory, From::End, true)
    }

    pub(crate) fn seek(&mut self, memory: &Memory, key: &[u8]) -> Entry {
        self.want = FIRST;
        self.take(memory, From::At(key), false)
    }

    pub(crate) fn seek_before(&mut self, memory: &Memory, key: &[u8]) -> Entry {
        self.want = FIRST;
        self.take(memory, From::Beyond(key), true)
    }

    #[inline]
    pub(crate) fn next(&mut self, memory: &Memory) -> Entry {
        self.step(memory, false)
    }

    #[inline]
    pub(crate) fn prev(&mut self, memory: &Memory) -> Entry {
        self.step(memory, true)
    }

    #[inline]
    fn step(&mut self, memory: &Memory, backward: bool) -> Entry {
        if self.backward == backward && self.at + 1 < self.len {
            self.at += 1;
            return self.taken[self.at];
        }
        let key = self.taken[self.at].key(memory);
        self.take(memory, From::Beyond(key), backward)
    }

    /// Takes the next keys from the tree and moves to the first of them.
    fn take(&mut self, memory: &Memory, from: From<'_>, backward: bool) -> Entry {
        let (before, behind) = if backward { (RIGHT, LEFT) } else { (LEFT, RIGHT) };
        (self.len, self.at, self.backward) = (0, 0, backward);
        let root = self.tree.read();
        // Nodes not yet visited, each before those in front of it.
        let mut waiting: [LockedNode; MAX_HEIGHT] = [0; MAX_HEIGHT];
        let mut depth = 0;
        let mut at = *root;
        while at != 0 {
            if is_met(memory, at, from, backward) {
                waiting[depth] = at;
                depth += 1;
                at = child(memory, at, before);
            } else {
                at = child(memory, at, behind);
            }
        }
        while depth > 0 && self.len < self.want {
            depth -= 1;
            let node = waiting[depth];
            self.taken[self.len] = newest(memory, node);
            self.len += 1;
            let mut at = child(memory, node, behind);
            while at != 0 {
                waiting[depth] = at;
                depth += 1;
                at = child(memory, at, before);
            }
        }
        self.want = (self.want * GROWTH).min(MOST);
        if self.len == 0 { Entry::NONE } else { self.taken[0] }
    }
}

/// Whether a walk that begins there visits the node.
fn is_met(memory: &Memory, node: LockedNode, from: From<'_>, backward: bool) -> bool {
    let (key, meets_equal) = match from {
        From::End => return true,
        From::At(key) => (key, true),
        From::Beyond(key) => (key, false),
    };
    match newest(memory, node).key(memory).cmp(key) {
        Ordering::Equal => meets_equal,
        Ordering::Greater => !backward,
        Ordering::Less => backward,
    }
}
