//! Skiplist, for comparison: one writer and wait-free readers, simpler than the radix tree.
//!
//! After Pugh, "Skip lists: a probabilistic alternative to balanced trees" (1990). It is several times slower
//! than the tree; with it everything above memtables is tested over two structures that share no code but the
//! entries.
//!
//! A node is a word with the newest version of its key and one word a level with the next node there. The
//! head is a node without a key. A node is linked from the lowest level up, each link by one release store;
//! the bottom link makes it reachable, the others are shortcuts. Nothing is ever unlinked. A newer version of
//! a key replaces the older one, to which it links, in the node's first word. The argument for MT1 and MT2 is
//! that of `art`: words only advance, and a reader sees at least the links that were stored before it began.
//!
//! Heights come from a generator with a fixed seed: the structure depends on the order of insertions alone.

use crate::arena::Allocator;
use crate::entry::{Entry, Operation};
use crate::memory::{Memory, Site};
use crate::merged::Part;
use esker_base::Tag;

/// Levels; with one node in four going up, enough for 4^12 keys.
const MAX_HEIGHT: usize = 12;
/// Most bytes of nodes for each distinct key, and for one insertion.
pub(crate) const MAX_BYTES_PER_KEY: usize = (4 * (1 + MAX_HEIGHT)).next_multiple_of(crate::arena::UNIT_BYTES);

pub(crate) const HEAD_BYTES: u64 = MAX_BYTES_PER_KEY as u64;

/// A node by its unit; 0 is the end of a level.
type Node = u32;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Skiplist {
    head: Node,
}

#[inline(always)]
fn entry_word(node: Node) -> usize {
    node as usize * 2
}

#[inline(always)]
fn link_word(node: Node, floor: usize) -> usize {
    node as usize * 2 + 1 + floor
}

#[inline(always)]
fn newest(memory: &Memory, node: Node) -> Entry {
    Entry(memory.load(Site::Reference, entry_word(node)))
}

#[inline(always)]
fn next(memory: &Memory, node: Node, floor: usize) -> Node {
    memory.load(Site::Reference, link_word(node, floor))
}

impl Skiplist {
    /// The last node whose key is less than `key`, or the head, and the node that was seen to its right;
    /// `path` receives the former on each level.
    ///
    /// Callers must not load the link between the two again: by then it may lead to a newer node, whose key
    /// is less than `key` too.
    fn descend(&self, memory: &Memory, key: &[u8], mut path: impl FnMut(usize, Node)) -> (Node, Node) {
        let (mut at, mut right) = (self.head, 0);
        for floor in (0..MAX_HEIGHT).rev() {
            loop {
                right = next(memory, at, floor);
                if right == 0 || newest(memory, right).key(memory) >= key {
                    break;
                }
                at = right;
            }
            path(floor, at);
        }
        (at, right)
    }

    pub(crate) fn find(&self, memory: &Memory, key: &[u8]) -> Entry {
        let (_, node) = self.descend(memory, key, |_, _| ());
        if node == 0 {
            return Entry::NONE;
        }
        let entry = newest(memory, node);
        if entry.key(memory) == key { entry } else { Entry::NONE }
    }
}

#[derive(Debug)]
pub(crate) struct SkiplistWriter {
    list: Skiplist,
    random: u32,
}

impl SkiplistWriter {
    pub(crate) fn create(memory: &Memory, allocator: &mut Allocator) -> (Skiplist, SkiplistWriter) {
        let head = allocator.node(1 + MAX_HEIGHT);
        memory.init(entry_word(head), 0);
        for floor in 0..MAX_HEIGHT {
            memory.init(link_word(head, floor), 0);
        }
        let list = Skiplist { head };
        (list, SkiplistWriter { list, random: 0x9e37_79b9 })
    }

    pub(crate) fn insert(
        &mut self,
        memory: &Memory,
        allocator: &mut Allocator,
        operation: &Operation<'_>,
    ) -> bool {
        let mut path = [0; MAX_HEIGHT];
        let (_, right) = self.list.descend(memory, operation.key, |floor, node| path[floor] = node);
        if right != 0 {
            let met = newest(memory, right);
            if met.key(memory) == operation.key {
                let entry = Entry::write(memory, allocator, operation, met);
                memory.publish(Site::Reference, entry_word(right), entry.0);
                return false;
            }
        }
        let entry = Entry::write(memory, allocator, operation, Entry::NONE);
        let height = self.height();
        let node = allocator.node(1 + height);
        memory.init(entry_word(node), entry.0);
        for (floor, &left) in path.iter().enumerate().take(height) {
            memory.init(link_word(node, floor), next(memory, left, floor));
        }
        for (floor, &left) in path.iter().enumerate().take(height) {
            memory.publish(Site::Reference, link_word(left, floor), node);
        }
        true
    }

    /// Xorshift (Marsaglia, 2003); two bits decide about each level.
    fn height(&mut self) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        let floors = self.random.trailing_zeros() as usize / 2;
        (1 + floors).min(MAX_HEIGHT)
    }
}

/// A position in the list: its node, or 0.
#[derive(Debug)]
pub(crate) struct SkiplistPosition {
    list: Skiplist,
    node: Node,
}

impl SkiplistPosition {
    pub(crate) fn new(list: Skiplist) -> SkiplistPosition {
        SkiplistPosition { list, node: 0 }
    }

    #[inline]
    fn stand_on(&mut self, memory: &Memory, node: Node) -> Entry {
        self.node = node;
        if node == 0 || node == self.list.head { Entry::NONE } else { newest(memory, node) }
    }

    pub(crate) fn seek_to_first(&mut self, memory: &Memory) -> Entry {
        self.stand_on(memory, next(memory, self.list.head, 0))
    }

    pub(crate) fn seek_to_last(&mut self, memory: &Memory) -> Entry {
        let mut at = self.list.head;
        for floor in (0..MAX_HEIGHT).rev() {
            loop {
                let right = next(memory, at, floor);
                if right == 0 {
                    break;
                }
                at = right;
            }
        }
        self.stand_on(memory, at)
    }

    pub(crate) fn seek(&mut self, memory: &Memory, key: &[u8]) -> Entry {
        let (_, found) = self.list.descend(memory, key, |_, _| ());
        self.stand_on(memory, found)
    }

    #[inline]
    pub(crate) fn next(&mut self, memory: &Memory) -> Entry {
        self.stand_on(memory, next(memory, self.node, 0))
    }

    /// Moves to the preceding key, found by a new descent.
    pub(crate) fn prev(&mut self, memory: &Memory) -> Entry {
        let key = newest(memory, self.node).key(memory);
        let (below, _) = self.list.descend(memory, key, |_, _| ());
        self.stand_on(memory, below)
    }
}

impl Part for SkiplistPosition {
    fn seek_to_first(&mut self, memory: &Memory) -> Entry {
        SkiplistPosition::seek_to_first(self, memory)
    }

    fn seek_to_last(&mut self, memory: &Memory) -> Entry {
        SkiplistPosition::seek_to_last(self, memory)
    }

    fn seek(&mut self, memory: &Memory, key: &[u8], _limit: Tag) -> Entry {
        SkiplistPosition::seek(self, memory, key)
    }

    #[inline]
    fn next(&mut self, memory: &Memory) -> Entry {
        SkiplistPosition::next(self, memory)
    }

    fn prev(&mut self, memory: &Memory) -> Entry {
        SkiplistPosition::prev(self, memory)
    }
}
