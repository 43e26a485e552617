//! A position in the tree: the path from the root to an entry, to walk on from it in either direction.
//!
//! A frame of the path is a node and the byte below which the path goes on, nothing that was copied out of the
//! node: stepping looks at the node again. The head of `art.rs` says why this is right although the writer adds
//! children and replaces nodes meanwhile. Keys met in one direction are strictly monotone, because a step looks only
//! at bytes beyond the frame's, and every key below a node agrees with the path before the node's depth.

use super::Art;
use super::node::{LEAF, Meta, Node, target_word};
use crate::entry::Entry;
use crate::memory::{Memory, Site};

/// Frames that need no allocation; only keys that are prefixes of each other or share long stretches go deeper.
const INLINE_FRAMES: usize = 16;

/// The path does not go on below a byte but ends at the node's own value, which sorts before all children.
const AT_VALUE: i16 = -1;
/// Beyond all children.
const AT_END: i16 = 256;

#[derive(Clone, Copy, Debug)]
struct Frame {
    node: u32,
    /// A byte, [`AT_VALUE`] or [`AT_END`].
    at: i16,
}

/// A path in the tree.
#[derive(Debug)]
pub(crate) struct ArtPosition {
    tree: Art,
    depth: usize,
    inline: [Frame; INLINE_FRAMES],
    spilled: Vec<Frame>,
}

impl ArtPosition {
    pub(crate) fn new(tree: Art) -> ArtPosition {
        let none = Frame { node: 0, at: AT_VALUE };
        ArtPosition { tree, depth: 0, inline: [none; INLINE_FRAMES], spilled: Vec::new() }
    }

    #[inline(always)]
    fn push(&mut self, frame: Frame) {
        match self.inline.get_mut(self.depth) {
            Some(place) => *place = frame,
            None => self.spilled.push(frame),
        }
        self.depth += 1;
    }

    #[inline(always)]
    fn top(&mut self) -> Option<&mut Frame> {
        let index = self.depth.checked_sub(1)?;
        if index < INLINE_FRAMES { self.inline.get_mut(index) } else { self.spilled.last_mut() }
    }

    #[inline(always)]
    fn pop(&mut self) {
        self.depth -= 1;
        if self.depth >= INLINE_FRAMES {
            self.spilled.pop();
        }
    }

    /// Starts over at the root.
    fn root(&mut self, memory: &Memory) -> u32 {
        self.depth = 0;
        self.spilled.clear();
        memory.load(Site::Reference, self.tree.root)
    }

    /// Moves to the first key; returns its newest version, or no entry if there is none.
    pub(crate) fn seek_to_first(&mut self, memory: &Memory) -> Entry {
        let root = self.root(memory);
        if root == 0 { Entry::NONE } else { self.descend_to_first(memory, root) }
    }

    /// Moves to the last key.
    pub(crate) fn seek_to_last(&mut self, memory: &Memory) -> Entry {
        let root = self.root(memory);
        if root == 0 { Entry::NONE } else { self.descend_to_last(memory, root) }
    }

    /// Moves to the first key that is not less than `key`.
    pub(crate) fn seek(&mut self, memory: &Memory, key: &[u8]) -> Entry {
        let mut reference = self.root(memory);
        let mut agreed = 0;
        loop {
            if reference & LEAF != 0 || reference == 0 {
                let entry = Entry(reference & !LEAF);
                let reached = entry.is_none() || entry.key(memory) >= key;
                return if reached { entry } else { self.next(memory) };
            }
            let node = Node::from_reference(reference);
            let meta = node.load_meta(memory);
            if let Some(differs) = node.mismatch(memory, meta, key, agreed) {
                let shared = node.sample(memory).key(memory);
                // All keys below the node are on the same side.
                let below = key.get(differs).is_some_and(|&byte| shared[differs] < byte);
                return if below { self.next(memory) } else { self.descend_to_first(memory, reference) };
            }
            agreed = meta.depth();
            let Some(&byte) = key.get(agreed) else {
                return self.descend_to_first(memory, reference);
            };
            let Some((found, slot)) = node.following(memory, meta, i16::from(byte) - 1) else {
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

    /// Moves to the following key.
    #[inline]
    pub(crate) fn next(&mut self, memory: &Memory) -> Entry {
        while let Some(frame) = self.top() {
            let node = Node::from_reference(frame.node);
            let meta = node.load_meta(memory);
            if let Some((byte, slot)) = node.following(memory, meta, frame.at) {
                frame.at = i16::from(byte);
                let child = memory.load(Site::Reference, slot);
                look_ahead(memory, node, meta, byte, child);
                return if child & LEAF != 0 {
                    Entry(child & !LEAF)
                } else {
                    self.descend_to_first(memory, child)
                };
            }
            self.pop();
        }
        Entry::NONE
    }

    /// Moves to the preceding key.
    #[inline]
    pub(crate) fn prev(&mut self, memory: &Memory) -> Entry {
        while let Some(frame) = self.top() {
            if frame.at > AT_VALUE {
                let node = Node::from_reference(frame.node);
                if let Some((byte, slot)) = node.preceding(memory, node.load_meta(memory), frame.at) {
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
            let node = Node::from_reference(reference);
            let meta = node.load_meta(memory);
            let value = node.load_value(memory);
            let mut frame = Frame { node: reference, at: AT_VALUE };
            if !value.is_none() {
                self.push(frame);
                return value;
            }
            let (byte, slot) =
                node.following(memory, meta, AT_VALUE).expect("a node has a value or two children at least");
            frame.at = i16::from(byte);
            self.push(frame);
            reference = memory.load(Site::Reference, slot);
            look_ahead(memory, node, meta, byte, reference);
        }
        Entry(reference & !LEAF)
    }

    fn descend_to_last(&mut self, memory: &Memory, mut reference: u32) -> Entry {
        while reference & LEAF == 0 {
            let node = Node::from_reference(reference);
            let (byte, slot) =
                node.preceding(memory, node.load_meta(memory), AT_END).expect("a node has a child at least");
            self.push(Frame { node: reference, at: i16::from(byte) });
            reference = memory.load(Site::Reference, slot);
        }
        Entry(reference & !LEAF)
    }
}

/// The walk has come to `child`, below `byte`: asks for the next sibling's children and for the node after that, or
/// for a leaf some places ahead, so that they arrive while the walk is busy here.
#[inline(always)]
fn look_ahead(memory: &Memory, node: Node, meta: Meta, byte: u8, child: u32) {
    if child & LEAF != 0 {
        // The leaves of compact nodes were asked for when the walk was at the sibling before.
        if !meta.is_compact() {
            let ahead = byte.saturating_add(12);
            if let Some(slot) = node.find(memory, meta, ahead) {
                memory.prefetch(target_word(memory.load(Site::Reference, slot)));
            }
        }
        return;
    }
    let Some((second, slot)) = node.following(memory, meta, i16::from(byte)) else { return };
    let reference = memory.load(Site::Reference, slot);
    if reference & LEAF == 0 {
        Node::from_reference(reference).prefetch_children(memory);
    } else {
        memory.prefetch(target_word(reference));
    }
    if let Some((_, slot)) = node.following(memory, meta, i16::from(second)) {
        memory.prefetch(target_word(memory.load(Site::Reference, slot)));
    }
}
