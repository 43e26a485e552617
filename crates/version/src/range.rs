//! Key ranges of parts and compactions.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// A shared user key.
pub type Key = Arc<[u8]>;

/// The end of a [`KeyRange`].
///
/// Both forms are needed: the last key of a table is known exactly and lies inside, while the end of a slice
/// or of a range tombstone is an exclusive bound, and a byte string has no greatest predecessor that could
/// stand in for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyEnd {
    /// The last key lies inside.
    Included(Key),
    /// The first key that lies outside.
    Excluded(Key),
    /// There is no end.
    Unbounded,
}

impl KeyEnd {
    /// Whether `key` is not behind this end.
    #[inline]
    pub fn covers(&self, key: &[u8]) -> bool {
        match self {
            KeyEnd::Included(last) => key <= &**last,
            KeyEnd::Excluded(bound) => key < &**bound,
            KeyEnd::Unbounded => true,
        }
    }

    /// The first key that lies outside; `None` if there is no end.
    pub fn exclusive_bound(&self) -> Option<Cow<'_, [u8]>> {
        match self {
            // The first key after an included one is that key followed by a zero byte.
            KeyEnd::Included(last) => Some([last, &[0u8][..]].concat().into()),
            KeyEnd::Excluded(bound) => Some((&**bound).into()),
            KeyEnd::Unbounded => None,
        }
    }

    /// The key at this end, whether inside or not.
    pub fn key(&self) -> Option<&Key> {
        match self {
            KeyEnd::Included(key) | KeyEnd::Excluded(key) => Some(key),
            KeyEnd::Unbounded => None,
        }
    }

    fn rank(&self) -> (bool, &[u8], bool) {
        match self {
            KeyEnd::Excluded(key) => (false, key, false),
            KeyEnd::Included(key) => (false, key, true),
            KeyEnd::Unbounded => (true, &[], false),
        }
    }
}

impl PartialOrd for KeyEnd {
    fn partial_cmp(&self, other: &KeyEnd) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// An end is less than another iff it includes fewer keys.
impl Ord for KeyEnd {
    fn cmp(&self, other: &KeyEnd) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

/// An interval of user keys with an inclusive start; the empty key starts at the beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key that may lie inside.
    pub start: Key,
    /// The end.
    pub end: KeyEnd,
}

impl KeyRange {
    /// From `smallest` to `largest`, both inside.
    pub fn inclusive(smallest: impl Into<Key>, largest: impl Into<Key>) -> KeyRange {
        KeyRange { start: smallest.into(), end: KeyEnd::Included(largest.into()) }
    }

    /// From `start`, which lies inside, to `bound`, which does not.
    pub fn half_open(start: impl Into<Key>, bound: impl Into<Key>) -> KeyRange {
        KeyRange { start: start.into(), end: KeyEnd::Excluded(bound.into()) }
    }

    /// Every key from `start` on.
    pub fn from_key(start: impl Into<Key>) -> KeyRange {
        KeyRange { start: start.into(), end: KeyEnd::Unbounded }
    }

    /// Every key.
    pub fn everything() -> KeyRange {
        KeyRange { start: Key::default(), end: KeyEnd::Unbounded }
    }

    /// Whether no key can lie inside.
    pub fn is_empty(&self) -> bool {
        !self.end.covers(&self.start)
    }

    /// Whether `key` lies inside.
    #[inline]
    pub fn contains(&self, key: &[u8]) -> bool {
        &*self.start <= key && self.end.covers(key)
    }

    /// Whether all of `other` lies inside.
    pub fn covers(&self, other: &KeyRange) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// Whether some key may lie in both.
    #[inline]
    pub fn overlaps(&self, other: &KeyRange) -> bool {
        self.end.covers(&other.start) && other.end.covers(&self.start)
    }

    /// Whether this range ends before `other` starts.
    #[inline]
    pub fn is_before(&self, other: &KeyRange) -> bool {
        !self.end.covers(&other.start)
    }

    /// The smallest range that holds both.
    #[must_use]
    pub fn hull(&self, other: &KeyRange) -> KeyRange {
        KeyRange {
            start: self.start.clone().min(other.start.clone()),
            end: self.end.clone().max(other.end.clone()),
        }
    }

    /// What lies in both; `None` if nothing does.
    pub fn intersection(&self, other: &KeyRange) -> Option<KeyRange> {
        let both = KeyRange {
            start: self.start.clone().max(other.start.clone()),
            end: self.end.clone().min(other.end.clone()),
        };
        (!both.is_empty()).then_some(both)
    }

    /// What remains of this range without `other`: the part before it and the part after it.
    pub fn without(&self, other: &KeyRange) -> (Option<KeyRange>, Option<KeyRange>) {
        let before_end = self.end.clone().min(KeyEnd::Excluded(other.start.clone()));
        let before = KeyRange { start: self.start.clone(), end: before_end };
        let after: Option<Key> = match &other.end {
            KeyEnd::Excluded(bound) => Some(bound.clone()),
            end => end.exclusive_bound().map(|bound| bound.into_owned().into()),
        };
        let after =
            after.map(|bound| KeyRange { start: self.start.clone().max(bound), end: self.end.clone() });
        (Some(before).filter(|range| !range.is_empty()), after.filter(|range| !range.is_empty()))
    }

    /// The share of this range that lies in `other`, in 1/65536, if keys were spread evenly: estimated from
    /// twelve bytes of the keys behind the common prefix of this range's ends. Integers only, so that every
    /// platform plans alike.
    pub fn share_inside(&self, other: &KeyRange) -> u64 {
        if !self.overlaps(other) {
            return 0;
        }
        if other.covers(self) {
            return SHARE_ONE;
        }
        let Some(last) = self.end.key() else { return SHARE_ONE / 2 };
        let scale = KeyInterpolator::new(&self.start, last);
        let (low, high) = (scale.measure(&self.start), scale.measure(last));
        let high = high.max(low + 1);
        let from = if other.start > self.start { scale.measure(&other.start) } else { low };
        let to = match other.end.key() {
            Some(key) if other.end < self.end => scale.measure(key),
            _ => high,
        };
        let inside = to.clamp(low, high).saturating_sub(from.clamp(low, high));
        // At least one unit, because the ranges overlap.
        ((inside * u128::from(SHARE_ONE) / (high - low)) as u64).max(1)
    }
}

/// Maps keys to numbers for interpolation. A position where both end keys have a decimal digit, or both a
/// small letter, is counted in that alphabet: text keys are sparse, and as plain bytes an even spread would
/// look like a staircase.
struct KeyInterpolator {
    skip: usize,
    alphabets: [(u8, u8); KeyInterpolator::POSITIONS],
}

impl KeyInterpolator {
    /// Positions used: numbers of twelve bytes leave room for multiplication.
    const POSITIONS: usize = 12;

    fn new(first: &[u8], last: &[u8]) -> KeyInterpolator {
        let skip = esker_base::key::common_prefix_len(first, last);
        let alphabets = std::array::from_fn(|at| {
            let within = |low: u8, high: u8| {
                let fits = |key: &[u8]| key.get(skip + at).is_none_or(|byte| (low..=high).contains(byte));
                fits(first) && fits(last) && (first.len() > skip + at || last.len() > skip + at)
            };
            match () {
                () if within(b'0', b'9') => (b'0', b'9'),
                () if within(b'a', b'z') => (b'a', b'z'),
                () => (0, 255),
            }
        });
        KeyInterpolator { skip, alphabets }
    }

    fn measure(&self, key: &[u8]) -> u128 {
        self.alphabets.iter().enumerate().fold(0, |number, (at, &(low, high))| {
            let digit = key.get(self.skip + at).map_or(0, |byte| (*byte).clamp(low, high) - low);
            number * (u128::from(high - low) + 1) + u128::from(digit)
        })
    }
}

/// The result of [`KeyRange::share_inside`] for the whole range.
pub const SHARE_ONE: u64 = 1 << 16;

impl fmt::Display for KeyRange {
    /// `[a..m]`, `[a..m)` or `[a..)`, keys escaped as ASCII.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}..", self.start.escape_ascii())?;
        match &self.end {
            KeyEnd::Included(key) => write!(f, "{}]", key.escape_ascii()),
            KeyEnd::Excluded(key) => write!(f, "{})", key.escape_ascii()),
            KeyEnd::Unbounded => f.write_str(")"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inclusive(a: &str, b: &str) -> KeyRange {
        KeyRange::inclusive(a.as_bytes(), b.as_bytes())
    }

    fn half_open(a: &str, b: &str) -> KeyRange {
        KeyRange::half_open(a.as_bytes(), b.as_bytes())
    }

    #[test]
    fn overlap_at_the_borders() {
        assert!(inclusive("a", "c").overlaps(&inclusive("c", "d")));
        assert!(!half_open("a", "c").overlaps(&inclusive("c", "d")));
        assert!(half_open("a", "c").is_before(&inclusive("c", "d")));
        assert!(KeyRange::everything().covers(&inclusive("", "z")));
        assert!(!inclusive("a", "z").covers(&KeyRange::from_key(&b"b"[..])));
        assert!(half_open("b", "b").is_empty() && !inclusive("b", "b").is_empty());
        assert!(KeyEnd::Excluded(b"c"[..].into()) < KeyEnd::Included(b"c"[..].into()));
    }

    #[test]
    fn cutting_a_range_loses_no_key() {
        // All ranges over a small alphabet, checked key by key.
        let keys: Vec<Vec<u8>> =
            (b'a'..=b'e').flat_map(|first| [vec![first], vec![first, 0], vec![first, b'a']]).collect();
        let mut ranges = vec![KeyRange::everything()];
        for a in &keys {
            ranges.push(KeyRange::from_key(&a[..]));
            for b in keys.iter().filter(|b| *b >= a) {
                ranges.push(KeyRange::inclusive(&a[..], &b[..]));
                ranges.push(KeyRange::half_open(&a[..], &b[..]));
            }
        }
        ranges.retain(|range| !range.is_empty());
        for x in &ranges {
            for y in &ranges {
                let (before, after) = x.without(y);
                let both = x.intersection(y);
                assert_eq!(both.is_some(), x.overlaps(y), "{x} and {y}");
                for key in &keys {
                    let pieces = [&before, &both, &after];
                    let holders = pieces.iter().filter(|p| p.as_ref().is_some_and(|p| p.contains(key)));
                    assert_eq!(holders.count(), usize::from(x.contains(key)), "{x} without {y} at {key:?}");
                }
            }
        }
    }

    #[test]
    fn shares_follow_the_keys() {
        let whole = inclusive("user000", "user999");
        let half = whole.share_inside(&half_open("user000", "user500"));
        assert!((SHARE_ONE * 4 / 10..SHARE_ONE * 6 / 10).contains(&half), "{half}");
        for (from, to, percent) in
            [("user000", "user010", 1), ("user900", "user990", 9), ("user123", "user456", 33)]
        {
            let share = whole.share_inside(&half_open(from, to)) * 100;
            assert!(share.abs_diff(SHARE_ONE * percent) < SHARE_ONE / 2, "{from} to {to}: {share}");
        }
        let letters = inclusive("aa", "zz").share_inside(&half_open("aa", "ak"));
        assert!((900..1100).contains(&letters), "10 of 676 are 970 of 65536, not {letters}");
        let bytes = inclusive("a\0\0", "a\u{7f}\u{7f}").share_inside(&half_open("a\0\0", "a\u{40}"));
        assert!(bytes.abs_diff(SHARE_ONE / 2) < 300, "{bytes}");
        assert_eq!(whole.share_inside(&inclusive("a", "b")), 0);
        assert_eq!(whole.share_inside(&KeyRange::everything()), SHARE_ONE);
        assert!(whole.share_inside(&inclusive("user777", "user777")) >= 1);
    }
}
