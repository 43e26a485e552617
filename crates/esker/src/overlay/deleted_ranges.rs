//! Deleted ranges as a sorted map of disjoint ranges.

use super::writes::ENTRY_OVERHEAD_BYTES;
use esker_view::read::HalfOpen;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Disjoint ranges of keys that do not touch, by their first key.
#[derive(Debug, Default)]
pub(crate) struct DeletedRanges {
    /// From the first key to the end, which is outside; empty for no end.
    ends: BTreeMap<Vec<u8>, Vec<u8>>,
    bytes: u64,
}

/// Whether `key` lies before this end.
fn is_before_end(key: &[u8], end: &[u8]) -> bool {
    end.is_empty() || key < end
}

impl DeletedRanges {
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of memory, estimated.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether a range spans `key`. O(log ranges).
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        let before = self.ends.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back();
        before.is_some_and(|(_, end)| is_before_end(key, end))
    }

    /// Adds a range; those that it overlaps or touches become one with it.
    pub(crate) fn add(&mut self, range: HalfOpen) {
        let HalfOpen { mut start, mut end } = range;
        loop {
            // The last range that begins at or before the end of the new one.
            let upper = if end.is_empty() { Bound::Unbounded } else { Bound::Included(end.as_slice()) };
            let last = self.ends.range::<[u8], _>((Bound::Unbounded, upper)).next_back();
            let Some((begin, other_end)) = last
                .filter(|(_, other_end)| other_end.is_empty() || other_end.as_slice() >= start.as_slice())
            else {
                break;
            };
            if other_end.is_empty() || !end.is_empty() && *other_end > end {
                end.clone_from(other_end);
            }
            let begin = begin.clone();
            self.remove(&begin);
            start = start.min(begin);
        }
        self.bytes += cost(&start, &end);
        self.ends.insert(start, end);
    }

    fn remove(&mut self, start: &[u8]) {
        if let Some(end) = self.ends.remove(start) {
            self.bytes -= cost(start, &end);
        }
    }

    /// The ranges, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Bound<&[u8]>, Bound<&[u8]>)> {
        self.ends.iter().map(|(start, end)| {
            let end = if end.is_empty() { Bound::Unbounded } else { Bound::Excluded(end.as_slice()) };
            (Bound::Included(start.as_slice()), end)
        })
    }
}

fn cost(start: &[u8], end: &[u8]) -> u64 {
    ENTRY_OVERHEAD_BYTES + (start.len() + end.len()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn range(start: u8, end: Option<u8>) -> HalfOpen {
        HalfOpen { start: vec![start], end: end.map_or(Vec::new(), |end| vec![end]) }
    }

    #[test]
    fn ranges_that_touch_become_one_and_no_key_is_lost_or_gained() {
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..500 {
            let (mut ranges, mut keys) = (DeletedRanges::default(), BTreeSet::new());
            for _ in 0..random(8) {
                let start = random(30) as u8;
                let end = start + 1 + random(6) as u8;
                let is_open = random(20) == 0;
                ranges.add(range(start, (!is_open).then_some(end)));
                keys.extend(start..if is_open { 40 } else { end });
            }
            for key in 0..40 {
                assert_eq!(ranges.contains(&[key]), keys.contains(&key), "{key} in {ranges:?}");
            }
            let listed: Vec<_> = ranges.iter().collect();
            for pair in listed.windows(2) {
                let (Bound::Excluded(end), Bound::Included(start)) = (pair[0].1, pair[1].0) else {
                    panic!("only the last range has no end: {ranges:?}");
                };
                assert!(end < start, "{ranges:?}");
            }
            assert_eq!(ranges.bytes(), ranges.ends.iter().map(|(start, end)| cost(start, end)).sum::<u64>());
        }
    }
}
