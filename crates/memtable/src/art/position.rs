//! A position in the radix tree: the path from the root to an entry, walked in either direction.
//!
//! A frame of the path is a node and the byte below which the path continues; nothing is copied out of the
//! node, and each step reads the node again. The head of `art.rs` proves this right although the writer adds
//! children and replaces nodes meanwhile. Keys met in one direction are strictly monotone, because a step
//! visits only bytes beyond the frame's, and every key below a node agrees with the path before the node's
//! depth.

use super::Art;
use super::node::{ArtHeader, ArtNode, LEAF, prefetch_target};
use crate::entry::Entry;
use crate::memory::{Memory, Site};

/// Frames without an allocation; only keys with long common prefixes need more.
const INLINE_FRAMES: usize = 16;

/// Children of a node that are prefetched ahead of a walk, where not all are.
const CHILDREN_AHEAD: usize = 4;

/// The path ends at the node's own value, which sorts before all children.
const AT_VALUE: i16 = -1;
/// Beyond all children.
const AT_END: i16 = 256;

#[derive(Clone, Copy, Debug)]
struct Frame {
    node: u32,
    /// A byte, [`AT_VALUE`] or [`AT_END`].
    at: i16,
}

#[derive(Debug)]
pub(crate) struct ArtPosition {
    tree: Art,
    depth: usize,
    /// A seek has reached a key that may lie before the one sought: its entry has not been compared.
    is_open: bool,
    /// The walk is still in the node that a seek reached, whose children were not prefetched as a whole.
    is_sought: bool,
    /// Children of the lowest node up to this byte are prefetched, where they are prefetched one by one.
    prefetched: i16,
    /// So many lines behind the first are prefetched of entries ahead: those of the last visited entry,
    /// because entries of a memtable are mostly of similar length.
    lines_behind: u32,
    inline: [Frame; INLINE_FRAMES],
    spilled: Vec<Frame>,
}

impl ArtPosition {
    pub(crate) fn new(tree: Art) -> ArtPosition {
        let none = Frame { node: 0, at: AT_VALUE };
        ArtPosition {
            tree,
            depth: 0,
            is_open: false,
            is_sought: false,
            prefetched: AT_VALUE,
            lines_behind: 0,
            inline: [none; INLINE_FRAMES],
            spilled: Vec::new(),
        }
    }

    #[inline(always)]
    fn push(&mut self, frame: Frame) {
        match self.inline.get_mut(self.depth) {
            Some(place) => *place = frame,
            None => self.spilled.push(frame),
        }
        self.depth += 1;
        self.prefetched = AT_VALUE;
    }

    #[inline(always)]
    fn top(&mut self) -> Option<&mut Frame> {
        let index = self.depth.checked_sub(1)?;
        if index < INLINE_FRAMES { self.inline.get_mut(index) } else { self.spilled.last_mut() }
    }

    #[inline(always)]
    fn pop(&mut self) {
        self.depth -= 1;
        self.prefetched = AT_VALUE;
        if self.depth >= INLINE_FRAMES {
            self.spilled.pop();
        }
    }

    /// Starts over at the root.
    fn root(&mut self, memory: &Memory) -> u32 {
        self.depth = 0;
        (self.is_open, self.is_sought) = (false, false);
        self.spilled.clear();
        memory.load(Site::Reference, self.tree.root)
    }

    pub(crate) fn seek_to_first(&mut self, memory: &Memory) -> Entry {
        let root = self.root(memory);
        if root == 0 { Entry::NONE } else { self.descend_to_first(memory, root) }
    }

    pub(crate) fn seek_to_last(&mut self, memory: &Memory) -> Entry {
        let root = self.root(memory);
        if root == 0 { Entry::NONE } else { self.descend_to_last(memory, root) }
    }

    pub(crate) fn seek(&mut self, memory: &Memory, key: &[u8]) -> Entry {
        let entry = self.descend(memory, key);
        self.arrive(memory, key, entry)
    }

    /// The first half of a seek: all but the comparison with the entry that it reaches, which is prefetched
    /// together with some that follow. The result is for [`ArtPosition::arrive`].
    pub(crate) fn begin_seek(&mut self, memory: &Memory, key: &[u8]) -> Entry {
        let entry = self.descend(memory, key);
        entry.prefetch(memory);
        self.is_sought = true;
        self.prefetch_ahead(memory);
        entry
    }

    /// The second half of a seek to the same key.
    #[inline]
    pub(crate) fn arrive(&mut self, memory: &Memory, key: &[u8], entry: Entry) -> Entry {
        let is_before = self.is_open && !entry.is_none() && entry.key(memory) < key;
        if is_before { self.next(memory) } else { entry }
    }

    fn descend(&mut self, memory: &Memory, key: &[u8]) -> Entry {
        let mut reference = self.root(memory);
        let mut agreed = 0;
        loop {
            if reference & LEAF != 0 || reference == 0 {
                self.is_open = true;
                return Entry(reference & !LEAF);
            }
            let node = ArtNode::from_reference(reference);
            let header = node.load_header(memory);
            if let Some(differs) = node.mismatch(memory, header, key, agreed) {
                let shared = node.sample(memory).key(memory);
                // All keys below the node are on the same side.
                let below = key.get(differs).is_some_and(|&byte| shared[differs] < byte);
                return if below { self.next(memory) } else { self.descend_to_first(memory, reference) };
            }
            agreed = header.depth();
            let Some(&byte) = key.get(agreed) else {
                return self.descend_to_first(memory, reference);
            };
            let Some((found, slot)) = node.following(memory, header, i16::from(byte) - 1) else {
                return self.next(memory);
            };
            self.push(Frame { node: reference, at: i16::from(found) });
            reference = memory.load(Site::Reference, slot);
            if found != byte {
                return self.descend_to_first(memory, reference);
            }
            agreed += 1;
        }
    }

    #[inline]
    pub(crate) fn next(&mut self, memory: &Memory) -> Entry {
        while let Some(frame) = self.top() {
            let node = ArtNode::from_reference(frame.node);
            let header = node.load_header(memory);
            if let Some((byte, slot)) = node.following(memory, header, frame.at) {
                frame.at = i16::from(byte);
                let child = memory.load(Site::Reference, slot);
                if child & LEAF != 0 {
                    // The leaves of compact nodes were prefetched when the walk was at the sibling before.
                    if self.is_sought || !header.is_compact() {
                        self.prefetch_one_more(memory, node, header, i16::from(byte));
                    }
                    return Entry(child & !LEAF);
                }
                prefetch_siblings(memory, node, header, byte, self.lines_behind);
                if std::mem::take(&mut self.is_sought) {
                    ArtNode::from_reference(child).prefetch_children(memory, self.lines_behind);
                }
                return self.descend_to_first(memory, child);
            }
            self.pop();
        }
        Entry::NONE
    }

    #[inline]
    pub(crate) fn prev(&mut self, memory: &Memory) -> Entry {
        while let Some(frame) = self.top() {
            if frame.at > AT_VALUE {
                let node = ArtNode::from_reference(frame.node);
                if let Some((byte, slot)) = node.preceding(memory, node.load_header(memory), frame.at) {
                    frame.at = i16::from(byte);
                    let child = memory.load(Site::Reference, slot);
                    return self.descend_to_last(memory, child);
                }
                frame.at = AT_VALUE;
                let value = node.load_value(memory);
                if !value.is_none() {
                    return value;
                }
            }
            self.pop();
        }
        Entry::NONE
    }

    fn descend_to_first(&mut self, memory: &Memory, mut reference: u32) -> Entry {
        while reference & LEAF == 0 {
            let node = ArtNode::from_reference(reference);
            let header = node.load_header(memory);
            let value = node.load_value(memory);
            let mut frame = Frame { node: reference, at: AT_VALUE };
            if !value.is_none() {
                self.push(frame);
                return value;
            }
            let (byte, slot) = node
                .following(memory, header, AT_VALUE)
                .expect("a node has a value or two children at least");
            frame.at = i16::from(byte);
            self.push(frame);
            reference = memory.load(Site::Reference, slot);
            if reference & LEAF == 0 {
                prefetch_siblings(memory, node, header, byte, self.lines_behind);
            } else if !header.is_compact() {
                self.prefetch_ahead(memory);
            }
        }
        let entry = Entry(reference & !LEAF);
        self.lines_behind = entry.lines_behind(memory);
        entry
    }

    #[inline(never)]
    fn prefetch_ahead(&mut self, memory: &Memory) {
        let Some(&mut Frame { node, at }) = self.top() else { return };
        let node = ArtNode::from_reference(node);
        let header = node.load_header(memory);
        self.prefetched = at;
        for _ in 0..CHILDREN_AHEAD {
            self.prefetch_one_more(memory, node, header, at);
        }
    }

    /// Prefetches one more child of the lowest node, where the walk is at the byte `at`; after the last one,
    /// the following node.
    #[inline]
    fn prefetch_one_more(&mut self, memory: &Memory, node: ArtNode, header: ArtHeader, at: i16) {
        if self.prefetched == AT_END {
            return;
        }
        if let Some((byte, slot)) = node.following(memory, header, self.prefetched.max(at)) {
            prefetch_target(memory, memory.load(Site::Reference, slot), self.lines_behind);
            self.prefetched = i16::from(byte);
            return;
        }
        self.prefetched = AT_END;
        if let Some(parent) = self.depth.checked_sub(2).and_then(|above| self.inline.get(above)) {
            let node = ArtNode::from_reference(parent.node);
            if let Some((_, slot)) = node.following(memory, node.load_header(memory), parent.at) {
                prefetch_target(memory, memory.load(Site::Reference, slot), self.lines_behind);
            }
        }
    }

    fn descend_to_last(&mut self, memory: &Memory, mut reference: u32) -> Entry {
        while reference & LEAF == 0 {
            let node = ArtNode::from_reference(reference);
            let (byte, slot) = node
                .preceding(memory, node.load_header(memory), AT_END)
                .expect("a node has a child at least");
            self.push(Frame { node: reference, at: i16::from(byte) });
            reference = memory.load(Site::Reference, slot);
        }
        Entry(reference & !LEAF)
    }
}

/// The walk has reached the node below `byte`: prefetches the next sibling's children and the node after
/// that, which arrive while the walk is here.
#[inline(always)]
fn prefetch_siblings(memory: &Memory, node: ArtNode, header: ArtHeader, byte: u8, lines_behind: u32) {
    let Some((second, slot)) = node.following(memory, header, i16::from(byte)) else { return };
    let reference = memory.load(Site::Reference, slot);
    if reference & LEAF == 0 {
        ArtNode::from_reference(reference).prefetch_children(memory, lines_behind);
    } else {
        prefetch_target(memory, reference, lines_behind);
    }
    if let Some((_, slot)) = node.following(memory, header, i16::from(second)) {
        prefetch_target(memory, memory.load(Site::Reference, slot), lines_behind);
    }
}
