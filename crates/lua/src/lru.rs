//! A map bounded by bytes that forgets what was used longest ago.

use crate::script::Sha1Hex;
use std::collections::{BTreeMap, HashMap};

struct Entry<V> {
    value: V,
    bytes: usize,
    /// Its key in the order of use.
    used: u64,
}

/// Values by SHA-1.
pub(crate) struct Lru<V> {
    entries: HashMap<Sha1Hex, Entry<V>>,
    /// The last use of each entry; the first was used longest ago.
    order: BTreeMap<u64, Sha1Hex>,
    next: u64,
    bytes: usize,
    capacity_bytes: usize,
}

impl<V> Lru<V> {
    pub(crate) fn new(capacity_bytes: usize) -> Self {
        Self { entries: HashMap::new(), order: BTreeMap::new(), next: 0, bytes: 0, capacity_bytes }
    }

    /// The value, which is now the one used last.
    pub(crate) fn get(&mut self, key: &Sha1Hex) -> Option<&V> {
        let entry = self.entries.get_mut(key)?;
        self.order.remove(&entry.used);
        entry.used = self.next;
        self.order.insert(self.next, *key);
        self.next += 1;
        Some(&entry.value)
    }

    /// Adds or replaces a value, and forgets others until all take at most the capacity; the new one stays.
    pub(crate) fn insert(&mut self, key: Sha1Hex, value: V, bytes: usize) {
        self.remove(&key);
        self.entries.insert(key, Entry { value, bytes, used: self.next });
        self.order.insert(self.next, key);
        self.next += 1;
        self.bytes += bytes;
        while self.bytes > self.capacity_bytes && self.entries.len() > 1 {
            let Some((_, oldest)) = self.order.first_key_value() else { break };
            let oldest = *oldest;
            self.remove(&oldest);
        }
    }

    pub(crate) fn contains(&self, key: &Sha1Hex) -> bool {
        self.entries.contains_key(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.order.clear();
        self.bytes = 0;
    }

    fn remove(&mut self, key: &Sha1Hex) {
        if let Some(entry) = self.entries.remove(key) {
            self.order.remove(&entry.used);
            self.bytes -= entry.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Lru;

    #[test]
    fn what_was_used_longest_ago_is_forgotten_first() {
        let mut map = Lru::new(20);
        map.insert([b'a'; 40], 1, 10);
        map.insert([b'b'; 40], 2, 10);
        assert_eq!(map.get(&[b'a'; 40]), Some(&1));
        map.insert([b'c'; 40], 3, 10);
        assert!(!map.contains(&[b'b'; 40]) && map.contains(&[b'a'; 40]));
        assert_eq!((map.len(), map.bytes()), (2, 20));
    }

    #[test]
    fn one_value_stays_however_large_it_is() {
        let mut map = Lru::new(20);
        map.insert([b'a'; 40], 1, 10);
        map.insert([b'b'; 40], 2, 100);
        assert_eq!((map.len(), map.bytes()), (1, 100));
        map.insert([b'b'; 40], 2, 5);
        assert_eq!((map.len(), map.bytes()), (1, 5));
    }
}
