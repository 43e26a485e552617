//! The entries of a leaf that is split, and the leaves made of them.

use super::node::{BTreeNode, Item, LEAF_PLACES, shared_bytes};
use super::position::sorted_places;
use crate::arena::Allocator;
use crate::entry::Entry;
use crate::memory::Memory;
use esker_base::key;

/// Heads of new leaves are taken from the keys again only if they begin so many bytes later: reading the keys
/// may miss the cache for each, and heads of seven bytes are as good as heads of eight.
const WORTHWHILE_BYTES: usize = 4;

/// The entries of a leaf in the order of their keys, and one more.
#[derive(Debug)]
pub(super) struct Items {
    pub(super) count: usize,
    items: [Item; LEAF_PLACES + 1],
}

impl Items {
    pub(super) fn of(memory: &Memory, leaf: BTreeNode) -> Items {
        let header = leaf.header(memory);
        let mut places = [0; LEAF_PLACES];
        sorted_places(memory, leaf, header, &mut places);
        let heads = leaf.heads(memory, header);
        let none = Item { entry: Entry::NONE, hash: 0, head: 0 };
        let mut items = Items { count: header.count(), items: [none; LEAF_PLACES + 1] };
        for (item, &place) in items.items.iter_mut().zip(&places[..header.count()]) {
            let place = usize::from(place);
            *item = Item {
                entry: Entry(memory.peek(leaf.entry_word(header, place))),
                hash: leaf.hash(memory, place),
                head: heads[place],
            };
        }
        items
    }

    pub(super) fn insert(&mut self, at: usize, item: Item) {
        self.items.copy_within(at..self.count, at + 1);
        self.items[at] = item;
        self.count += 1;
    }

    pub(super) fn all(&self) -> &[Item] {
        &self.items[..self.count]
    }
}

/// A leaf of these items; heads begin after `prefix_len` bytes, or later where that is worthwhile.
pub(super) fn fitting_leaf(
    memory: &Memory,
    allocator: &mut Allocator,
    prefix_len: usize,
    items: &[Item],
    low: Option<Entry>,
    high: Option<Entry>,
) -> u32 {
    let shared = shared_bytes(memory, low, high);
    if shared < prefix_len + WORTHWHILE_BYTES {
        return BTreeNode::new_leaf(memory, allocator, LEAF_PLACES, prefix_len, items).reference();
    }
    let mut fitting = [items[0]; LEAF_PLACES];
    let fitting = &mut fitting[..items.len()];
    fitting.copy_from_slice(items);
    for item in &mut *fitting {
        item.entry.prefetch(memory);
    }
    for item in &mut *fitting {
        item.head = key::head(item.entry.key(memory), shared);
    }
    BTreeNode::new_leaf(memory, allocator, LEAF_PLACES, shared, fitting).reference()
}
