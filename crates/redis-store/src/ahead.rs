//! Values that were looked up together before they are wanted: one multi-get for a group.
//!
//! What holds:
//! * AH1. What was looked up is what the store has as long as the stripes of its keys are held; a transaction
//!   asks its own changes first, and forgets what was looked up before it frees the stripes.

use esker::Value;

/// A key, and how often in succession it will be asked for.
#[derive(Debug)]
struct Wanted {
    key: Vec<u8>,
    times: usize,
}

/// Looked up values, in the order in which they will be asked for.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    wanted: Vec<Wanted>,
    found: Vec<Option<Value>>,
    next: usize,
}

impl Ahead {
    /// Adds a key that is to be looked up, and asked for so often in succession.
    pub(crate) fn want(&mut self, key: Vec<u8>, times: usize) {
        self.wanted.push(Wanted { key, times });
    }

    /// The keys that are to be looked up.
    pub(crate) fn keys(&self) -> Vec<&[u8]> {
        self.wanted.iter().map(|wanted| &*wanted.key).collect()
    }

    /// Takes what the lookup found, in the order of the keys.
    pub(crate) fn found(&mut self, found: Vec<Option<Value>>) {
        self.found = found;
    }

    /// Whether there is nothing more.
    pub(crate) fn is_empty(&self) -> bool {
        self.next == self.found.len()
    }

    /// What was found for a key, as often as it was to be asked for. Those before it are passed over: they
    /// were not wanted.
    pub(crate) fn take(&mut self, key: &[u8]) -> Option<Option<Value>> {
        let rest = self.wanted.get(self.next..self.found.len())?;
        let place = self.next + rest.iter().position(|wanted| wanted.key == key)?;
        let wanted = &mut self.wanted[place];
        wanted.times -= 1;
        if wanted.times > 0 {
            self.next = place;
            return Some(self.found[place].clone());
        }
        self.next = place + 1;
        Some(self.found[place].take())
    }

    /// What was found for a key that has not been asked for as often as it was to be. It is not taken.
    pub(crate) fn peek(&self, key: &[u8]) -> Option<&Value> {
        let rest = self.wanted.get(self.next..self.found.len())?;
        let place = self.next + rest.iter().position(|wanted| wanted.key == key)?;
        self.found[place].as_ref()
    }

    /// How often a key will still be asked for, if it is the next one.
    pub(crate) fn times(&self, key: &[u8]) -> usize {
        self.wanted.get(self.next).filter(|wanted| wanted.key == key).map_or(0, |wanted| wanted.times)
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.wanted.clear();
        self.found.clear();
        self.next = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_taken_as_often_as_it_was_wanted() {
        let mut ahead = Ahead::default();
        for (key, times) in [("a", 1), ("b", 3), ("c", 1)] {
            ahead.want(key.into(), times);
        }
        assert!(ahead.is_empty() && ahead.take(b"a").is_none(), "nothing is found yet");
        ahead.found(vec![Some(Value::owned(b"1".to_vec())), Some(Value::owned(b"2".to_vec())), None]);
        let mut take = |key: &[u8]| ahead.take(key).map(|found| found.map(|value| value.to_vec()));
        assert_eq!(take(b"x"), None);
        for _ in 0..3 {
            assert_eq!(take(b"b"), Some(Some(b"2".to_vec())));
        }
        assert_eq!((take(b"b"), take(b"a")), (None, None), "what was passed over is gone");
        assert_eq!(take(b"c"), Some(None));
        assert!(ahead.is_empty());
    }

    #[test]
    fn a_value_that_is_looked_at_is_still_to_be_taken() {
        let mut ahead = Ahead::default();
        for key in ["a", "b", "c"] {
            ahead.want(key.into(), 1);
        }
        ahead.found(vec![None, Some(Value::owned(b"2".to_vec())), None]);
        assert!(ahead.peek(b"b").is_some_and(|value| *value == b"2"));
        assert!(ahead.peek(b"a").is_none() && ahead.peek(b"x").is_none());
        assert!(ahead.take(b"a").is_some() && ahead.take(b"b").flatten().is_some());
        assert!(ahead.peek(b"b").is_none(), "it is taken");
    }
}
