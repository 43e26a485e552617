//! Lower and upper bounds of a range of keys.

use esker_base::key::prefix_successor;
use std::ops::{Bound, RangeBounds};

/// A range of keys. It may be empty, also by an upper bound below the lower one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    lower: Bound<Box<[u8]>>,
    upper: Bound<Box<[u8]>>,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds::all()
    }
}

impl Bounds {
    /// All keys.
    pub const fn all() -> Bounds {
        Bounds { lower: Bound::Unbounded, upper: Bound::Unbounded }
    }

    /// The keys in `range`, as in `Bounds::of(&(b"a".as_slice()..b"m"))`.
    pub fn of<K: AsRef<[u8]> + ?Sized>(range: &impl RangeBounds<K>) -> Bounds {
        Bounds::new(range.start_bound().map(AsRef::as_ref), range.end_bound().map(AsRef::as_ref))
    }

    /// The keys between two bounds.
    pub fn new(lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> Bounds {
        Bounds { lower: lower.map(Box::from), upper: upper.map(Box::from) }
    }

    /// The keys that start with `prefix`; all keys for the empty prefix.
    pub fn prefix(prefix: &[u8]) -> Bounds {
        let upper = match prefix_successor(prefix) {
            Some(successor) => Bound::Excluded(successor.into_boxed_slice()),
            None => Bound::Unbounded,
        };
        Bounds { lower: Bound::Included(prefix.into()), upper }
    }

    /// The lower bound.
    pub fn lower(&self) -> Bound<&[u8]> {
        self.lower.as_ref().map(AsRef::as_ref)
    }

    /// The upper bound.
    pub fn upper(&self) -> Bound<&[u8]> {
        self.upper.as_ref().map(AsRef::as_ref)
    }

    /// Whether `key` lies before the range.
    #[inline(always)]
    pub fn is_before(&self, key: &[u8]) -> bool {
        !matches!(self.lower, Bound::Unbounded) && self.is_before_lower(key)
    }

    fn is_before_lower(&self, key: &[u8]) -> bool {
        match &self.lower {
            Bound::Unbounded => false,
            Bound::Included(lower) => key < lower,
            Bound::Excluded(lower) => key <= lower,
        }
    }

    /// Whether `key` lies behind the range.
    #[inline(always)]
    pub fn is_behind(&self, key: &[u8]) -> bool {
        !matches!(self.upper, Bound::Unbounded) && self.is_behind_upper(key)
    }

    fn is_behind_upper(&self, key: &[u8]) -> bool {
        match &self.upper {
            Bound::Unbounded => false,
            Bound::Included(upper) => key > upper,
            Bound::Excluded(upper) => key >= upper,
        }
    }

    /// Whether `key` lies in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        !self.is_before(key) && !self.is_behind(key)
    }

    /// Whether no key can lie in the range; between adjacent keys like `a` and `a\0` not detected.
    pub fn is_empty(&self) -> bool {
        match (&self.lower, &self.upper) {
            (Bound::Included(lower), Bound::Included(upper)) => lower > upper,
            (
                Bound::Included(lower) | Bound::Excluded(lower),
                Bound::Included(upper) | Bound::Excluded(upper),
            ) => lower >= upper,
            (_, Bound::Excluded(upper)) => upper.is_empty(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_range() {
        let keys: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
        let within = |bounds: &Bounds| -> Vec<u8> {
            keys.iter().filter(|key| bounds.contains(key)).map(|key| key[0]).collect()
        };
        assert_eq!(within(&Bounds::all()), b"abcd");
        assert_eq!(within(&Bounds::of(&(b"b".as_slice()..b"d"))), b"bc");
        assert_eq!(within(&Bounds::of(&(b"b".to_vec()..=b"d".to_vec()))), b"bcd");
        assert_eq!(within(&Bounds::of::<[u8]>(&(Bound::Excluded(&b"b"[..]), Bound::Unbounded))), b"cd");
        assert_eq!(within(&Bounds::of(&(.."b"))), b"a");
        let inverted = Bounds::of(&("c".."b"));
        assert!(inverted.is_empty() && within(&inverted).is_empty());
        assert!(Bounds::of(&("b".."b")).is_empty() && Bounds::of(&(.."")).is_empty());
        assert!(!Bounds::of(&("b"..="b")).is_empty() && !Bounds::all().is_empty());
    }

    #[test]
    fn prefixes() {
        let bounds = Bounds::prefix(b"a\xff");
        assert!(bounds.contains(b"a\xff") && bounds.contains(b"a\xff\xff\xff"));
        assert!(bounds.is_before(b"a\xfe\xff") && bounds.is_behind(b"b"));
        assert_eq!(Bounds::prefix(b"\xff\xff").upper(), Bound::Unbounded);
        assert!(Bounds::prefix(b"").contains(b""));
    }
}
