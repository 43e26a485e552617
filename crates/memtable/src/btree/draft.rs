//! Inner nodes under construction: a copy is changed in a draft before it is written.

use super::node::{
    BTreeHeader, BTreeNode, FAN_OUT, HEADER, SEPARATORS, init_head, inner_words, padded, shared_bytes,
};
use crate::arena::Allocator;
use crate::entry::Entry;
use crate::memory::Memory;
use esker_base::key;

/// An inner node under construction, with room for one separator and child more than a node has.
#[derive(Debug)]
pub(super) struct Draft {
    level: usize,
    prefix_len: usize,
    is_guarded: bool,
    count: usize,
    heads: [u64; FAN_OUT],
    separators: [u32; FAN_OUT],
    children: [u32; FAN_OUT + 1],
}

impl Draft {
    fn empty(level: usize) -> Draft {
        Draft {
            level,
            prefix_len: 0,
            is_guarded: false,
            count: 0,
            heads: [0; FAN_OUT],
            separators: [0; FAN_OUT],
            children: [0; FAN_OUT + 1],
        }
    }

    /// A new root above two nodes of the level below `level`.
    pub(super) fn root(memory: &Memory, level: usize, left: u32, separator: Entry, right: u32) -> Draft {
        let mut draft = Draft::empty(level);
        draft.children[0] = left;
        draft.insert(memory, 0, left, separator, right);
        draft.fit(memory, None, None);
        draft
    }

    pub(super) fn copy(memory: &Memory, node: BTreeNode) -> Draft {
        let header = node.header(memory);
        let mut draft = Draft::empty(header.level());
        draft.prefix_len = node.prefix_len(memory);
        draft.is_guarded = header.is_guarded();
        draft.count = header.count();
        draft.heads[..draft.count].copy_from_slice(&node.separator_heads(memory, header)[..draft.count]);
        for slot in 0..draft.count {
            draft.separators[slot] = node.separator(memory, header, slot).0;
        }
        for slot in 0..=draft.count {
            draft.children[slot] = memory.peek(node.child_word(header, slot));
        }
        draft
    }

    pub(super) fn is_too_large(&self) -> bool {
        self.count > SEPARATORS
    }

    /// Puts `left` and `right`, with a separator between, where the child `slot` is.
    pub(super) fn insert(&mut self, memory: &Memory, slot: usize, left: u32, separator: Entry, right: u32) {
        self.heads.copy_within(slot..self.count, slot + 1);
        self.separators.copy_within(slot..self.count, slot + 1);
        self.children.copy_within(slot + 1..self.count + 1, slot + 2);
        self.heads[slot] = key::head(separator.key(memory), self.prefix_len);
        self.separators[slot] = separator.0;
        self.children[slot] = left;
        self.children[slot + 1] = right;
        self.count += 1;
    }

    /// Splits the draft: the children up to `slot` stay, the separator behind them is returned with the rest.
    pub(super) fn split(&mut self, slot: usize) -> (Entry, Draft) {
        let mut rest = Draft::empty(self.level);
        rest.prefix_len = self.prefix_len;
        rest.count = self.count - slot - 1;
        rest.heads[..rest.count].copy_from_slice(&self.heads[slot + 1..self.count]);
        rest.separators[..rest.count].copy_from_slice(&self.separators[slot + 1..self.count]);
        rest.children[..=rest.count].copy_from_slice(&self.children[slot + 1..=self.count]);
        self.count = slot;
        (Entry(self.separators[slot]), rest)
    }

    /// Makes heads begin where keys between the fences may first differ; at an edge, where separators do.
    pub(super) fn fit(&mut self, memory: &Memory, low: Option<Entry>, high: Option<Entry>) {
        self.is_guarded = low.is_none() || high.is_none();
        let (first, last) = (Entry(self.separators[0]), Entry(self.separators[self.count - 1]));
        let prefix_len = match (self.is_guarded, self.count) {
            (false, _) => shared_bytes(memory, low, high),
            // A single separator would be shared as a whole, and its head be empty.
            (true, 1) => first.key(memory).len().saturating_sub(8),
            (true, _) => shared_bytes(memory, Some(first), Some(last)),
        };
        if prefix_len != self.prefix_len {
            self.prefix_len = prefix_len;
            for (head, &separator) in self.heads.iter_mut().zip(&self.separators[..self.count]) {
                *head = key::head(Entry(separator).key(memory), prefix_len);
            }
        }
    }

    /// Whether an insertion may have changed where heads begin.
    pub(super) fn is_guarded(&self) -> bool {
        self.is_guarded
    }

    pub(super) fn write(&self, memory: &Memory, allocator: &mut Allocator) -> u32 {
        let node = BTreeNode::from_reference(allocator.node(inner_words(self.count)));
        let header = BTreeHeader::inner(self.level, self.is_guarded, self.count);
        node.init_header(memory, header, self.prefix_len);
        for place in 0..padded(self.count) {
            let head = if place < self.count { self.heads[place] } else { u64::MAX };
            init_head(memory, node.at + HEADER + 2 * place, head);
        }
        for (slot, &child) in self.children[..=self.count].iter().enumerate() {
            memory.init(node.child_word(header, slot), child);
        }
        for (slot, &separator) in self.separators[..self.count].iter().enumerate() {
            memory.init(node.separator_word(header, slot), separator);
        }
        node.reference()
    }
}
