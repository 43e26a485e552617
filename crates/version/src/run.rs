//! Runs: disjoint parts in key order.

use crate::part::PartMeta;
use crate::range::{Key, KeyRange};
use esker_base::RunId;
use std::ops::Range;
use std::sync::Arc;

/// Parts in ascending key order that share no key: a lookup reads at most one of them.
///
/// Never empty inside a [`crate::Version`]: the run is removed with its last part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Identity of the run; never reused.
    pub id: RunId,
    /// Position among the runs of its level: the greater, the newer. Unique in the level.
    pub order: u64,
    parts: Vec<Arc<PartMeta>>,
    bytes: u64,
}

impl Run {
    /// A run without parts.
    pub fn new(id: RunId, order: u64) -> Run {
        Run { id, order, parts: Vec::new(), bytes: 0 }
    }

    /// The parts in key order.
    #[inline]
    pub fn parts(&self) -> &[Arc<PartMeta>] {
        &self.parts
    }

    /// Bytes of all parts.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// From the first key of the first part to the end of the last; `None` for an empty run.
    pub fn hull(&self) -> Option<KeyRange> {
        let (first, last) = (self.parts.first()?, self.parts.last()?);
        Some(KeyRange { start: first.range.start.clone(), end: last.range.end.clone() })
    }

    /// The one part that may hold versions of `key`. O(log parts).
    #[inline]
    pub fn part_for(&self, key: &[u8]) -> Option<&Arc<PartMeta>> {
        let after = self.parts.partition_point(|part| &*part.range.start <= key);
        let part = &self.parts[after.checked_sub(1)?];
        part.range.end.covers(key).then_some(part)
    }

    /// Index of the first part that does not end before `key`, where a scan from `key` begins. O(log parts).
    #[inline]
    pub fn seek(&self, key: &[u8]) -> usize {
        self.parts.partition_point(|part| !part.range.end.covers(key))
    }

    /// Indexes of the parts that share keys with `range`. O(log parts).
    pub fn overlapping_indexes(&self, range: &KeyRange) -> Range<usize> {
        let from = self.seek(&range.start);
        let to = self.parts.partition_point(|part| range.end.covers(&part.range.start));
        from..to.max(from)
    }

    /// The parts that share keys with `range`, in key order.
    pub fn overlapping(&self, range: &KeyRange) -> &[Arc<PartMeta>] {
        &self.parts[self.overlapping_indexes(range)]
    }

    /// Whether some part shares keys with `range`.
    pub fn overlaps(&self, range: &KeyRange) -> bool {
        !self.overlapping_indexes(range).is_empty()
    }

    /// Inserts a part; on failure returns a part that it would share keys with.
    pub(crate) fn insert(&mut self, part: Arc<PartMeta>) -> Result<(), Arc<PartMeta>> {
        let at = self.overlapping_indexes(&part.range);
        if !at.is_empty() {
            return Err(self.parts[at.start].clone());
        }
        self.bytes = self.bytes.saturating_add(part.bytes);
        self.parts.insert(at.start, part);
        Ok(())
    }

    /// Removes the part that starts with `start`, if it has this id.
    pub(crate) fn remove(&mut self, start: &Key, id: esker_base::PartId) -> Option<Arc<PartMeta>> {
        let at = self.parts.partition_point(|part| part.range.start < *start);
        if self.parts.get(at)?.id != id {
            return None;
        }
        let part = self.parts.remove(at);
        self.bytes = self.bytes.saturating_sub(part.bytes);
        Some(part)
    }
}
