//! Doubly linked lists of entries with an index by key: the base of policies with an exact order.
//!
//! Links are indices into one array, so an entry costs no allocation of its own and no unsafe code. The list
//! of an entry is not stored: the policy derives it from the entry's state. Every operation takes constant
//! time, but for walks over all entries.

use super::{Entry, ShouldRemove};
use crate::entry::CacheKey;
use foldhash::fast::FixedState;
use std::collections::HashMap;

const NONE: u32 = u32::MAX;

/// Bytes of an entry in array and index, which double when full, the index at 7/16 of 17-byte buckets.
pub(super) const fn overhead_bytes<S>() -> usize {
    2 * size_of::<Node<std::sync::Arc<[u8]>, S>>() + (16 + 1) * 16 / 7
}

/// Lists of entries with a policy's state `S` for each.
#[derive(Debug)]
pub(crate) struct Lists<V, S> {
    places: HashMap<u64, u32, FixedState>,
    nodes: Vec<Node<V, S>>,
    /// Places without an entry, linked by `older`.
    free: u32,
    ends: Vec<Ends>,
    /// Charges of the entries that a scan inserted and no lookup used since.
    scanned_bytes: usize,
}

#[derive(Debug)]
struct Node<V, S> {
    /// `None` for a place that is free.
    entry: Option<Entry<V>>,
    state: S,
    newer: u32,
    older: u32,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    newest: u32,
    oldest: u32,
}

const EMPTY: Ends = Ends { newest: NONE, oldest: NONE };

impl<V, S: Copy> Lists<V, S> {
    pub(super) fn new(lists: usize) -> Lists<V, S> {
        let ends = vec![EMPTY; lists];
        Lists { places: HashMap::default(), nodes: Vec::new(), free: NONE, ends, scanned_bytes: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn scanned_bytes(&self) -> usize {
        self.scanned_bytes
    }

    #[inline]
    pub(super) fn find(&self, key: &CacheKey) -> Option<u32> {
        self.places.get(&key.packed()).copied()
    }

    #[inline]
    pub(super) fn entry(&self, place: u32) -> &Entry<V> {
        self.nodes[place as usize].entry.as_ref().expect("a place in a list has an entry")
    }

    /// Clears `scanned`, since a lookup used the entry.
    #[inline]
    pub(super) fn make_ordinary(&mut self, place: u32) {
        let entry = self.nodes[place as usize].entry.as_mut().expect("a place in a list has an entry");
        if entry.scanned {
            entry.scanned = false;
            self.scanned_bytes -= entry.charge as usize;
        }
    }

    #[inline]
    pub(super) fn state(&self, place: u32) -> S {
        self.nodes[place as usize].state
    }

    #[inline]
    pub(super) fn set_state(&mut self, place: u32, state: S) {
        self.nodes[place as usize].state = state;
    }

    /// The end of a list from which entries are evicted.
    #[inline]
    pub(super) fn oldest(&self, list: usize) -> Option<u32> {
        Some(self.ends[list].oldest).filter(|&place| place != NONE)
    }

    /// Adds an entry, whose key is in no list, as the newest of one.
    pub(super) fn insert(&mut self, list: usize, entry: Entry<V>, state: S) {
        let key = entry.key.packed();
        if entry.scanned {
            self.scanned_bytes += entry.charge as usize;
        }
        let node = Node { entry: Some(entry), state, newer: NONE, older: NONE };
        let place = if self.free == NONE {
            // Each entry is charged more than a byte, and a shard has far fewer than 2^32 of them.
            self.nodes.push(node);
            self.nodes.len() as u32 - 1
        } else {
            let place = self.free;
            self.free = self.nodes[place as usize].older;
            self.nodes[place as usize] = node;
            place
        };
        let other = self.places.insert(key, place);
        debug_assert!(other.is_none(), "a key is in the lists once");
        self.link_newest(list, place);
    }

    /// Moves an entry from a list to the newest end of the same or another one.
    #[inline]
    pub(super) fn renew(&mut self, from: usize, to: usize, place: u32) {
        if from != to || self.ends[to].newest != place {
            self.unlink(from, place);
            self.link_newest(to, place);
        }
    }

    pub(super) fn remove(&mut self, list: usize, place: u32) -> Entry<V> {
        self.unlink(list, place);
        let node = &mut self.nodes[place as usize];
        node.older = self.free;
        self.free = place;
        let entry = node.entry.take().expect("a place in a list has an entry");
        self.places.remove(&entry.key.packed());
        if entry.scanned {
            self.scanned_bytes -= entry.charge as usize;
        }
        entry
    }

    /// Makes all of `from`, in its order, newer than what `to` has.
    pub(super) fn append(&mut self, to: usize, from: usize) {
        let above = std::mem::replace(&mut self.ends[from], EMPTY);
        let below = self.ends[to];
        if above.oldest == NONE {
            return;
        }
        if below.newest == NONE {
            self.ends[to] = above;
            return;
        }
        self.nodes[above.oldest as usize].older = below.newest;
        self.nodes[below.newest as usize].newer = above.oldest;
        self.ends[to].newest = above.newest;
    }

    fn link_newest(&mut self, list: usize, place: u32) {
        let below = std::mem::replace(&mut self.ends[list].newest, place);
        let node = &mut self.nodes[place as usize];
        (node.newer, node.older) = (NONE, below);
        match below {
            NONE => self.ends[list].oldest = place,
            below => self.nodes[below as usize].newer = place,
        }
    }

    fn unlink(&mut self, list: usize, place: u32) {
        let (newer, older) = (self.nodes[place as usize].newer, self.nodes[place as usize].older);
        match newer {
            NONE => self.ends[list].newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
        match older {
            NONE => self.ends[list].oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
    }

    /// Removes the chosen entries; `list_of` returns the list of an entry.
    pub(super) fn remove_where(
        &mut self,
        should_remove: &mut ShouldRemove<'_, V>,
        list_of: impl Fn(&Entry<V>, S) -> usize,
        removed: &mut Vec<Entry<V>>,
    ) {
        for place in 0..self.nodes.len() {
            let node = &self.nodes[place];
            let Some(entry) = &node.entry else { continue };
            if should_remove(entry) {
                let list = list_of(entry, node.state);
                removed.push(self.remove(list, place as u32));
            }
        }
    }

    /// Shrinks the array if more than half of its places are free. Lists keep their order.
    pub(super) fn shrink_to_fit(&mut self) {
        if self.len() * 2 < self.nodes.len() {
            let mut fitting = Lists::new(self.ends.len());
            for list in 0..self.ends.len() {
                while let Some(place) = self.oldest(list) {
                    let state = self.state(place);
                    fitting.insert(list, self.remove(list, place), state);
                }
            }
            *self = fitting;
        }
    }

    #[cfg(test)]
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry<V>> {
        let mut all = Vec::new();
        for ends in &self.ends {
            let (mut place, mut below) = (ends.newest, NONE);
            let mut above = NONE;
            while place != NONE {
                let node = &self.nodes[place as usize];
                assert_eq!(node.newer, above);
                (above, below, place) = (place, place, node.older);
                all.push(self.entry(below));
                assert_eq!(self.find(&self.entry(below).key), Some(below));
            }
            assert_eq!(ends.oldest, below);
        }
        assert_eq!(all.len(), self.len(), "each entry is in one list");
        all.into_iter()
    }
}
