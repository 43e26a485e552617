//! A map that lists its entries in the order of their insertion.
//!
//! Rules come by the ten thousand, so neither insertion nor removal may look at all entries.

use std::collections::BTreeMap;

#[derive(Clone, Debug)]
pub(super) struct Ordered<K, V> {
    /// Entries by the number of their insertion.
    entries: BTreeMap<u64, (K, V)>,
    numbers: BTreeMap<K, u64>,
    next: u64,
}

impl<K, V> Default for Ordered<K, V> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), numbers: BTreeMap::new(), next: 0 }
    }
}

impl<K: Ord + Clone, V> Ordered<K, V> {
    /// The value of a key, which is inserted at the end if it is new.
    pub(super) fn entry(&mut self, key: K, new: V) -> &mut V {
        let number = *self.numbers.entry(key.clone()).or_insert(self.next);
        self.next = self.next.max(number + 1);
        &mut self.entries.entry(number).or_insert((key, new)).1
    }

    /// Removes a key and says whether it was there.
    pub(super) fn remove(&mut self, key: &K) -> bool {
        let number = self.numbers.remove(key);
        number.is_some_and(|number| self.entries.remove(&number).is_some())
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn contains(&self, key: &K) -> bool {
        self.numbers.contains_key(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.values().map(|(key, value)| (key, value))
    }
}

#[cfg(test)]
mod tests {
    use super::Ordered;

    #[test]
    fn entries_keep_the_order_of_their_first_insertion() {
        let mut map = Ordered::default();
        for key in ["b", "a", "c"] {
            map.entry(key, 0);
        }
        *map.entry("b", 0) += 7;
        assert!(map.remove(&"a") && !map.remove(&"a"));
        map.entry("a", 1);
        assert_eq!(map.iter().collect::<Vec<_>>(), [(&"b", &7), (&"c", &0), (&"a", &1)]);
        assert!(map.contains(&"c") && !map.is_empty());
    }
}
