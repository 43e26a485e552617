//! Bounded map from objects to the ends of their lists or sorted sets that stay in memory.

use std::collections::BTreeMap;

/// Objects whose ends are kept: some mebibytes at most, since an end has some kibibytes.
const KEPT_OBJECTS: usize = 1024;

/// Both ends of an object.
pub(crate) trait BothEnds {
    /// Forgets an end that takes too much memory to be kept.
    fn trim(&mut self);
}

/// Ends by the numbers of their objects.
#[derive(Debug)]
pub(crate) struct KeptEnds<E> {
    /// The object that was put last, apart: most groups pop from one.
    last: Option<(u64, E)>,
    others: BTreeMap<u64, E>,
}

impl<E> Default for KeptEnds<E> {
    fn default() -> Self {
        KeptEnds { last: None, others: BTreeMap::new() }
    }
}

impl<E: BothEnds> KeptEnds<E> {
    /// Takes the ends of an object out.
    pub(crate) fn take(&mut self, object: u64) -> Option<E> {
        match self.last.take_if(|(last, _)| *last == object) {
            Some((_, ends)) => Some(ends),
            None if self.others.is_empty() => None,
            None => self.others.remove(&object),
        }
    }

    /// Puts the ends of an object that has none.
    pub(crate) fn put(&mut self, object: u64, ends: E) {
        if let Some((before, ends)) = self.last.replace((object, ends)) {
            self.others.insert(before, ends);
        }
    }

    /// Moves all to others, which are forgotten before if they have become too many.
    pub(crate) fn move_to(&mut self, others: &mut Self) {
        let own = std::mem::take(self);
        for (object, mut ends) in own.last.into_iter().chain(own.others) {
            ends.trim();
            if others.others.len() >= KEPT_OBJECTS {
                others.clear();
            }
            others.put(object, ends);
        }
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.last.is_none() && self.others.is_empty()
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Ends(u64);

    impl BothEnds for Ends {
        fn trim(&mut self) {
            self.0 = self.0.min(5000);
        }
    }

    #[test]
    fn the_ends_of_few_objects_are_kept() {
        let (mut own, mut kept) = (KeptEnds::default(), KeptEnds::default());
        for object in 0..3000 {
            own.put(object, Ends(object));
            own.put(object + 10_000, Ends(object + 10_000));
            own.move_to(&mut kept);
            assert!(own.is_empty() && kept.others.len() <= KEPT_OBJECTS);
        }
        assert_eq!((kept.take(2999), kept.take(2999)), (Some(Ends(2999)), None));
        assert_eq!(kept.take(12_999), Some(Ends(5000)), "trimmed when it was moved");
        assert_eq!(kept.take(0), None, "forgotten");
    }
}
