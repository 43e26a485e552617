//! The keys that a workload has stored so far: membership and a uniform choice in constant time.

use crate::data::Rng;
use std::collections::HashMap;

/// A set of keys. Invariant: `places[key]` is the index of `key` in `keys`, for exactly the keys of the set.
#[derive(Clone, Debug, Default)]
pub(super) struct StoredKeys {
    keys: Vec<i64>,
    places: HashMap<i64, usize>,
}

impl StoredKeys {
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(super) fn contains(&self, key: i64) -> bool {
        self.places.contains_key(&key)
    }

    pub(super) fn insert(&mut self, key: i64) {
        let place = self.keys.len();
        if let std::collections::hash_map::Entry::Vacant(vacant) = self.places.entry(key) {
            vacant.insert(place);
            self.keys.push(key);
        }
    }

    pub(super) fn remove(&mut self, key: i64) {
        if let Some(place) = self.places.remove(&key) {
            self.keys.swap_remove(place);
            if let Some(moved) = self.keys.get(place) {
                self.places.insert(*moved, place);
            }
        }
    }

    /// A key of the set, each with the same probability; 0 from an empty set.
    pub(super) fn any(&self, rng: &mut Rng) -> i64 {
        let place = rng.below(self.keys.len() as u64) as usize;
        self.keys.get(place).copied().unwrap_or_default()
    }
}
