//! Ranges of keys as arguments.

use esker_iter::Bounds;
use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// A range of keys: `a..b`, `a..=b`, `a..`, `..b`, `..=b`, `..` or a pair of [`Bound`]s, over anything that is bytes.
///
/// ```
/// use esker_engine::KeyRange;
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
