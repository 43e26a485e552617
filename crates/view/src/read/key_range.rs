//! Ranges of keys as arguments.

use esker_base::key::prefix_successor;
use esker_base::limits::MAX_KEY_LEN;
use esker_iter::Bounds;
use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// A range of keys: `a..b`, `a..=b`, `a..`, `..b`, `..=b`, `..` or a pair of [`Bound`]s, over anything that
/// is bytes.
///
/// ```
/// use esker_view::read::KeyRange;
/// fn takes(_: impl KeyRange) {}
/// takes(..);
/// takes(b"a".as_slice()..b"m");
/// takes("user:"..="user:9");
/// takes(vec![1, 2]..);
/// ```
pub trait KeyRange {
    /// The bounds.
    fn into_bounds(self) -> Bounds;
}

fn bounds<K: AsRef<[u8]>>(lower: Bound<&K>, upper: Bound<&K>) -> Bounds {
    Bounds::new(lower.map(AsRef::as_ref), upper.map(AsRef::as_ref))
}

impl KeyRange for RangeFull {
    fn into_bounds(self) -> Bounds {
        Bounds::default()
    }
}

impl<K: AsRef<[u8]>> KeyRange for Range<K> {
    fn into_bounds(self) -> Bounds {
        bounds(Bound::Included(&self.start), Bound::Excluded(&self.end))
    }
}

impl<K: AsRef<[u8]>> KeyRange for RangeInclusive<K> {
    fn into_bounds(self) -> Bounds {
        bounds(Bound::Included(self.start()), Bound::Included(self.end()))
    }
}

impl<K: AsRef<[u8]>> KeyRange for RangeFrom<K> {
    fn into_bounds(self) -> Bounds {
        bounds(Bound::Included(&self.start), Bound::Unbounded)
    }
}

impl<K: AsRef<[u8]>> KeyRange for RangeTo<K> {
    fn into_bounds(self) -> Bounds {
        bounds(Bound::Unbounded, Bound::Excluded(&self.end))
    }
}

impl<K: AsRef<[u8]>> KeyRange for RangeToInclusive<K> {
    fn into_bounds(self) -> Bounds {
        bounds(Bound::Unbounded, Bound::Included(&self.end))
    }
}

impl<K: AsRef<[u8]>> KeyRange for (Bound<K>, Bound<K>) {
    fn into_bounds(self) -> Bounds {
        bounds(self.0.as_ref(), self.1.as_ref())
    }
}

/// A range as range deletes are stored: from a first key, which is inside, up to an end, which is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HalfOpen {
    /// Its first key.
    pub start: Vec<u8>,
    /// Empty if there is no end: the least key can be none.
    pub end: Vec<u8>,
}

impl HalfOpen {
    /// The range between two bounds; `None` if no key can lie in it.
    pub fn of(bounds: &Bounds) -> Option<HalfOpen> {
        let start = match bounds.lower() {
            Bound::Unbounded => Vec::new(),
            Bound::Included(key) => key.to_vec(),
            Bound::Excluded(key) => following(key)?,
        };
        let end = match bounds.upper() {
            Bound::Unbounded => Vec::new(),
            Bound::Included(key) => following(key).unwrap_or_default(),
            Bound::Excluded([]) => return None,
            Bound::Excluded(key) => key.to_vec(),
        };
        (end.is_empty() || start < end).then_some(HalfOpen { start, end })
    }

    /// The same range in the form of parts.
    pub fn to_key_range(&self) -> esker_version::KeyRange {
        match self.end.as_slice() {
            [] => esker_version::KeyRange::from_key(self.start.as_slice()),
            end => esker_version::KeyRange::half_open(self.start.as_slice(), end),
        }
    }

    /// What a range delete counts for in the limits of memtables.
    pub fn counted_bytes(&self) -> usize {
        self.start.len() + self.end.len() + esker_memtable::RANGE_DELETE_OVERHEAD_BYTES as usize
    }
}

/// The least key that is greater; `None` if there is none.
fn following(key: &[u8]) -> Option<Vec<u8>> {
    if key.len() < MAX_KEY_LEN {
        return Some([key, b"\0"].concat());
    }
    // Nothing can be put behind a key of the greatest length, so the next key differs within it.
    prefix_successor(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn half_open(range: impl KeyRange) -> Option<(Vec<u8>, Vec<u8>)> {
        HalfOpen::of(&range.into_bounds()).map(|range| (range.start, range.end))
    }

    #[test]
    fn every_range_becomes_half_open() {
        let pair = |start: &[u8], end: &[u8]| Some((start.to_vec(), end.to_vec()));
        assert_eq!(half_open("a".."c"), pair(b"a", b"c"));
        assert_eq!(half_open("a"..="c"), pair(b"a", b"c\0"));
        assert_eq!(half_open((Bound::Excluded("a"), Bound::Unbounded)), pair(b"a\0", b""));
        assert_eq!(half_open(..), pair(b"", b""));
        assert_eq!(half_open(.."c"), pair(b"", b"c"));
        assert_eq!(half_open(""..""), None);
        assert_eq!(half_open(""..=""), pair(b"", b"\0"));
        assert_eq!(half_open("c".."a"), None);
        assert_eq!(half_open("c".."c"), None);
        assert_eq!(half_open((Bound::Excluded("a"), Bound::Excluded("a\0"))), None);
    }

    #[test]
    fn the_longest_keys_have_followers_too() {
        let longest = vec![b'k'; MAX_KEY_LEN];
        let mut next = longest.clone();
        next[MAX_KEY_LEN - 1] = b'l';
        assert_eq!(half_open("k".as_bytes().to_vec()..=longest.clone()), Some((b"k".to_vec(), next.clone())));
        assert_eq!(half_open((Bound::Excluded(longest), Bound::Unbounded)), Some((next, Vec::new())));
        let last = vec![0xff; MAX_KEY_LEN];
        assert_eq!(half_open(..=last.clone()), Some((Vec::new(), Vec::new())));
        assert_eq!(half_open((Bound::Excluded(last), Bound::Unbounded)), None);
    }
}
