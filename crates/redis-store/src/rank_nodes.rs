//! Nodes of rank indexes in memory: those that were changed last, so that a change of a sorted set finds its
//! nodes without a search in the store.
//!
//! A family is the nodes that have one parent. It is what the store has, from when it was read until a change
//! makes or removes nodes of several levels; such a change forgets it. One of the lowest level that becomes
//! two does not: reading the whole family again would cost more than all changes until the next one is full.
//!
//! What holds:
//! * RN1. A family in the store's memory is as it is stored. A transaction takes it out, changes it with the
//!   entries of its nodes, and gives it back when its batch is written and its stripes are still held. One
//!   that is rolled back, or fails on the way, forgets what it took.

use std::collections::BTreeMap;

/// Nodes that are kept, some 100 bytes each: those over 60 million members.
const KEPT_NODES: usize = 128 << 10;

/// A node: the part of the order from its place to that of the next node of its level.
#[derive(Clone, Debug)]
pub(crate) struct RankNode {
    pub(crate) place: Vec<u8>,
    pub(crate) members: u64,
    pub(crate) children: u32,
}

/// The nodes of one parent, by place.
pub(crate) type Family = Vec<RankNode>;

/// Families by the keys of their first nodes, which have the place of the parent.
#[derive(Debug, Default)]
pub(crate) struct Families {
    by_key: BTreeMap<Vec<u8>, Family>,
    nodes: usize,
}

impl Families {
    /// Takes a family out.
    pub(crate) fn take(&mut self, key: &[u8]) -> Option<Family> {
        let family = self.by_key.remove(key)?;
        self.nodes -= family.len();
        Some(family)
    }

    /// Puts a family that is not there.
    pub(crate) fn put(&mut self, key: Vec<u8>, family: Family) {
        self.nodes += family.len();
        self.by_key.insert(key, family);
    }

    /// Moves all families to others. Those have been too many if they are more than [`KEPT_NODES`], and are
    /// forgotten before.
    pub(crate) fn move_to(&mut self, others: &mut Self) {
        if others.nodes + self.nodes > KEPT_NODES {
            others.clear();
        }
        for (key, family) in std::mem::take(&mut self.by_key) {
            others.put(key, family);
        }
        self.nodes = 0;
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.by_key.clear();
        self.nodes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn family(nodes: usize) -> Family {
        vec![RankNode { place: Vec::new(), members: 1, children: 1 }; nodes]
    }

    #[test]
    fn no_more_nodes_are_kept_than_one_transaction_and_the_limit_have() {
        let (mut own, mut kept) = (Families::default(), Families::default());
        for at in 0..300_u32 {
            own.put(at.to_be_bytes().to_vec(), family(1000));
            own.move_to(&mut kept);
            assert!(own.is_empty() && own.nodes == 0);
            assert!(kept.nodes <= KEPT_NODES);
            assert_eq!(kept.nodes, kept.by_key.values().map(Vec::len).sum());
        }
        assert!(kept.take(&0_u32.to_be_bytes()).is_none());
        assert!(kept.take(&299_u32.to_be_bytes()).is_some());
        assert_eq!(kept.nodes, kept.by_key.values().map(Vec::len).sum());
    }
}
