//! Read set: the keys and ranges of one keyspace that a commit depends on.

use esker_engine::state::keyspace::KeyspaceState;
use esker_iter::Bounds;
use std::cmp::Ordering;
use std::ops::Bound;

/// Keys and ranges of one keyspace that must be unchanged by others.
#[derive(Debug)]
pub(super) struct Footprint<'a> {
    pub(super) keyspace: &'a KeyspaceState,
    /// Ascending, each once.
    points: Vec<&'a [u8]>,
    /// Ascending and disjoint.
    ranges: Vec<Bounds>,
}

impl<'a> Footprint<'a> {
    /// The keys and ranges in any order; they may overlap.
    pub(super) fn new(
        keyspace: &'a KeyspaceState,
        mut points: Vec<&'a [u8]>,
        ranges: Vec<Bounds>,
    ) -> Footprint<'a> {
        points.sort_unstable();
        points.dedup();
        Footprint { keyspace, points, ranges: joined(ranges) }
    }

    pub(super) fn points(&self) -> &[&'a [u8]] {
        &self.points
    }

    pub(super) fn ranges(&self) -> &[Bounds] {
        &self.ranges
    }

    /// Whether `key` is among the keys or in one of the ranges.
    pub(super) fn contains(&self, key: &[u8]) -> bool {
        let at = self.ranges.partition_point(|range| range.is_behind(key));
        self.ranges.get(at).is_some_and(|range| range.contains(key))
            || self.points.binary_search(&key).is_ok()
    }
}

/// The union of the ranges as ascending disjoint ranges, without empty ones.
fn joined(mut ranges: Vec<Bounds>) -> Vec<Bounds> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by(|left, right| by_lower(left.lower(), right.lower()));
    let mut joined: Vec<Bounds> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if reaches(last.upper(), range.lower()) => {
                if by_upper(last.upper(), range.upper()) == Ordering::Less {
                    *last = Bounds::new(last.lower(), range.upper());
                }
            }
            _ => joined.push(range),
        }
    }
    joined
}

/// Orders starts of ranges: `None` sorts before every key, and a key before the position right after it.
fn by_lower(left: Bound<&[u8]>, right: Bound<&[u8]>) -> Ordering {
    let place = |bound| match bound {
        Bound::Unbounded => None,
        Bound::Included(key) => Some((key, false)),
        Bound::Excluded(key) => Some((key, true)),
    };
    place(left).cmp(&place(right))
}

fn by_upper(left: Bound<&[u8]>, right: Bound<&[u8]>) -> Ordering {
    let place = |bound| match bound {
        Bound::Unbounded => (true, (&[][..], false)),
        Bound::Included(key) => (false, (key, true)),
        Bound::Excluded(key) => (false, (key, false)),
    };
    place(left).cmp(&place(right))
}

/// Whether no key lies between a range that ends at `upper` and one that starts at `lower`.
fn reaches(upper: Bound<&[u8]>, lower: Bound<&[u8]>) -> bool {
    match (upper, lower) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
        (Bound::Excluded(upper), Bound::Excluded(lower)) => lower < upper,
        (
            Bound::Included(upper) | Bound::Excluded(upper),
            Bound::Included(lower) | Bound::Excluded(lower),
        ) => lower <= upper,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(text: &str) -> Bounds {
        let (lower, upper) = text[1..text.len() - 1].split_once(',').unwrap();
        let bound = |open: bool, key: &'static str| match key {
            "" => Bound::Unbounded,
            key if open => Bound::Excluded(key.as_bytes()),
            key => Bound::Included(key.as_bytes()),
        };
        let (lower, upper): (&'static str, &'static str) = (lower.to_owned().leak(), upper.to_owned().leak());
        Bounds::new(bound(text.starts_with('('), lower), bound(text.ends_with(')'), upper))
    }

    fn check(given: &[&str], expected: &[&str]) {
        let all = |texts: &[&str]| texts.iter().map(|text| bounds(text)).collect::<Vec<Bounds>>();
        assert_eq!(joined(all(given)), all(expected), "{given:?}");
    }

    #[test]
    fn ranges_that_touch_become_one() {
        check(&["[c,d]", "[a,b]"], &["[a,b]", "[c,d]"]);
        check(&["[a,c)", "[b,d]"], &["[a,d]"]);
        check(&["[a,b]", "(b,c]"], &["[a,c]"]);
        check(&["[a,b)", "[b,c]"], &["[a,c]"]);
        check(&["[a,b)", "(b,c]"], &["[a,b)", "(b,c]"]);
        check(&["[a,)", "[b,c]"], &["[a,)"]);
        check(&["(,b)", "[a,b]"], &["(,b]"]);
        check(&["[a,z]", "[b,c]", "[d,e]"], &["[a,z]"]);
        check(&["[c,b]", "(a,a)"], &[]);
    }
}
