//! What a transaction has looked at and therefore depends on.

use super::writes::ENTRY_OVERHEAD_BYTES;
use crate::Keyspace;
use esker_base::KeyspaceId;
use esker_iter::Bounds;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// Keys and ranges that were read.
#[derive(Debug, Default)]
pub(super) struct Reads {
    keyspaces: BTreeMap<KeyspaceId, KeyspaceReads>,
    bytes: u64,
}

/// What was read of one keyspace.
#[derive(Debug)]
pub(super) struct KeyspaceReads {
    pub(super) keyspace: Keyspace,
    pub(super) points: BTreeSet<Box<[u8]>>,
    /// `None` for a range that turned out to show nothing.
    pub(super) ranges: Vec<Option<Bounds>>,
}

fn bound_bytes(bound: Bound<&[u8]>) -> u64 {
    match bound {
        Bound::Unbounded => 0,
        Bound::Included(key) | Bound::Excluded(key) => key.len() as u64,
    }
}

impl Reads {
    /// Bytes of memory, estimated.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that remembering a key takes at most.
    pub(super) fn point_cost(key: &[u8]) -> u64 {
        ENTRY_OVERHEAD_BYTES + key.len() as u64
    }

    /// Bytes that remembering a range takes at most.
    pub(super) fn range_cost(range: &Bounds) -> u64 {
        ENTRY_OVERHEAD_BYTES + bound_bytes(range.lower()) + bound_bytes(range.upper())
    }

    fn of(&mut self, keyspace: &Keyspace) -> &mut KeyspaceReads {
        self.keyspaces.entry(keyspace.id()).or_insert_with(|| KeyspaceReads {
            keyspace: keyspace.clone(),
            points: BTreeSet::new(),
            ranges: Vec::new(),
        })
    }

    /// Remembers a key.
    pub(super) fn add_point(&mut self, keyspace: &Keyspace, key: &[u8]) {
        if self.of(keyspace).points.insert(key.into()) {
            self.bytes += Reads::point_cost(key);
        }
    }

    /// Whether a key is remembered.
    pub(super) fn has_point(&self, keyspace: KeyspaceId, key: &[u8]) -> bool {
        self.keyspaces.get(&keyspace).is_some_and(|of| of.points.contains(key))
    }

    /// Remembers a range; returns its place for [`Reads::narrow`].
    pub(super) fn add_range(&mut self, keyspace: &Keyspace, range: Bounds) -> usize {
        self.bytes += Reads::range_cost(&range);
        let ranges = &mut self.of(keyspace).ranges;
        ranges.push(Some(range));
        ranges.len() - 1
    }

    /// Puts the pieces of a range that were really looked at in its place.
    pub(super) fn narrow(&mut self, keyspace: &Keyspace, at: usize, pieces: [Option<Bounds>; 2]) {
        let added: u64 = pieces.iter().flatten().map(Reads::range_cost).sum();
        let ranges = &mut self.of(keyspace).ranges;
        let removed = ranges[at].take().map_or(0, |range| Reads::range_cost(&range));
        let [first, second] = pieces;
        ranges[at] = first;
        ranges.extend(second.map(Some));
        while let Some(None) = ranges.last() {
            ranges.pop();
        }
        self.bytes = self.bytes - removed + added;
    }

    pub(super) fn keyspaces(&self) -> impl Iterator<Item = &KeyspaceReads> {
        self.keyspaces.values()
    }

    pub(super) fn find(&self, keyspace: KeyspaceId) -> Option<&KeyspaceReads> {
        self.keyspaces.get(&keyspace)
    }
}
