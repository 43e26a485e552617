//! The recorded reads of a transaction.

use crate::Keyspace;
use crate::overlay::ENTRY_OVERHEAD_BYTES;
use esker_base::KeyspaceId;
use esker_iter::Bounds;
use std::ops::Bound;

/// Keys and ranges that were read.
#[derive(Debug, Default)]
pub(super) struct Reads {
    /// Few, in the order of their first use.
    keyspaces: Vec<KeyspaceReads>,
    bytes: u64,
}

/// What was read of one keyspace.
#[derive(Debug)]
pub(super) struct KeyspaceReads {
    pub(super) keyspace: Keyspace,
    pub(super) points: Points,
    /// `None` for a range that turned out to show nothing.
    pub(super) ranges: Vec<Option<Bounds>>,
}

/// Keys that were read, some of them more than once: a list is cheaper than a tree for the few that most
/// transactions read, and as it is sorted and deduplicated each time it has doubled, it has at most twice the
/// distinct keys and some more.
#[derive(Debug, Default)]
pub(super) struct Points {
    keys: Vec<Box<[u8]>>,
    /// This many at the beginning are ascending and distinct.
    distinct: usize,
}

/// The number of duplicates not worth removing.
const REPETITIONS_KEPT: usize = 64;

impl Points {
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().map(|key| &**key)
    }

    /// Adds a key; returns the bytes of removed duplicates.
    fn add(&mut self, key: &[u8]) -> u64 {
        self.keys.push(key.into());
        if self.keys.len() > 2 * self.distinct + REPETITIONS_KEPT { self.remove_repetitions() } else { 0 }
    }

    fn remove_repetitions(&mut self) -> u64 {
        let mut freed = 0;
        if self.keys.len() == self.distinct {
            return freed;
        }
        self.keys.sort_unstable();
        self.keys.dedup_by(|key, before| {
            let is_repeated = key == before;
            freed += if is_repeated { Reads::point_cost(key) } else { 0 };
            is_repeated
        });
        self.distinct = self.keys.len();
        freed
    }
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

    /// Upper bound of the bytes for recording a key.
    pub(super) fn point_cost(key: &[u8]) -> u64 {
        ENTRY_OVERHEAD_BYTES + key.len() as u64
    }

    /// Upper bound of the bytes for recording a range.
    pub(super) fn range_cost(range: &Bounds) -> u64 {
        ENTRY_OVERHEAD_BYTES + bound_bytes(range.lower()) + bound_bytes(range.upper())
    }

    fn of(&mut self, keyspace: &Keyspace) -> &mut KeyspaceReads {
        let at = self.keyspaces.iter().position(|of| of.keyspace.id() == keyspace.id());
        let at = at.unwrap_or_else(|| {
            let (points, ranges) = (Points::default(), Vec::new());
            self.keyspaces.push(KeyspaceReads { keyspace: keyspace.clone(), points, ranges });
            self.keyspaces.len() - 1
        });
        &mut self.keyspaces[at]
    }

    /// Records a key.
    pub(super) fn add_point(&mut self, keyspace: &Keyspace, key: &[u8]) {
        let freed = self.of(keyspace).points.add(key);
        self.bytes = self.bytes + Reads::point_cost(key) - freed;
    }

    /// Removes duplicates. Sorts all keys if some were added since the last time: for a transaction at its
    /// limit.
    pub(super) fn remove_repetitions(&mut self) {
        for of in &mut self.keyspaces {
            self.bytes -= of.points.remove_repetitions();
        }
    }

    /// Whether a key is recorded; valid right after [`Reads::remove_repetitions`].
    pub(super) fn has_point(&self, keyspace: KeyspaceId, key: &[u8]) -> bool {
        self.find(keyspace)
            .is_some_and(|of| of.points.keys.binary_search_by(|other| (**other).cmp(key)).is_ok())
    }

    /// Records a range; returns its index for [`Reads::narrow`].
    pub(super) fn add_range(&mut self, keyspace: &Keyspace, range: Bounds) -> usize {
        self.bytes += Reads::range_cost(&range);
        let ranges = &mut self.of(keyspace).ranges;
        ranges.push(Some(range));
        ranges.len() - 1
    }

    /// Replaces a range by the parts of it that were iterated.
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
        self.keyspaces.iter()
    }

    pub(super) fn find(&self, keyspace: KeyspaceId) -> Option<&KeyspaceReads> {
        self.keyspaces.iter().find(|of| of.keyspace.id() == keyspace)
    }
}
