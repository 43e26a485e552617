//! The hash table of a shard: linear probing over buckets of half a cache line.
//!
//! Entries lie in the buckets themselves, so a hit touches one line besides the mutex, and the hand of the
//! clock reads memory in order. A removal closes the gap by moving later entries of the cluster back, so
//! there are no tombstones and a lookup of an absent key ends at the first empty bucket.

use super::{Entry, hash_of};
use crate::entry::CacheKey;
use esker_env::memory::prefetch;

const MIN_BUCKETS: usize = 16;

pub(crate) const BUCKET_BYTES: usize = size_of::<Option<Entry<std::sync::Arc<[u8]>>>>();
const _: () = assert!(BUCKET_BYTES == 32, "two buckets make a cache line");

#[derive(Debug)]
pub(crate) struct Table<V> {
    /// A power of two, at most three quarters occupied.
    buckets: Box<[Option<Entry<V>>]>,
    len: usize,
}

impl<V> Table<V> {
    pub(crate) fn new() -> Table<V> {
        Table { buckets: empty_buckets(MIN_BUCKETS), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn bucket_count(&self) -> usize {
        self.buckets.len()
    }

    #[inline]
    pub(crate) fn at(&self, bucket: usize) -> Option<&Entry<V>> {
        self.buckets[bucket].as_ref()
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, bucket: usize) -> Option<&mut Entry<V>> {
        self.buckets[bucket].as_mut()
    }

    pub(crate) fn prefetch(&self, first: usize, count: usize) {
        let first = first & (self.buckets.len() - 1);
        // Two lie in a line.
        for bucket in self.buckets.iter().skip(first).take(count).step_by(2) {
            prefetch(std::ptr::from_ref(bucket).cast());
        }
    }

    #[inline]
    pub(crate) fn find_mut(&mut self, hash: u64, key: &CacheKey) -> Option<&mut Entry<V>> {
        let mask = self.buckets.len() - 1;
        let mut bucket = hash as usize & mask;
        // Ends, because a quarter of the buckets is empty.
        loop {
            match &self.buckets[bucket] {
                None => return None,
                Some(entry) if entry.key == *key => break,
                Some(_) => bucket = (bucket + 1) & mask,
            }
        }
        self.buckets[bucket].as_mut()
    }

    pub(crate) fn insert(&mut self, hash: u64, entry: Entry<V>) {
        if (self.len + 1) * 4 > self.buckets.len() * 3 {
            self.rebuild(self.buckets.len() * 2);
        }
        self.place(hash, entry);
        self.len += 1;
    }

    fn place(&mut self, hash: u64, entry: Entry<V>) {
        let mask = self.buckets.len() - 1;
        let mut bucket = hash as usize & mask;
        while let Some(other) = &self.buckets[bucket] {
            debug_assert!(other.key != entry.key, "a key is in the table once");
            bucket = (bucket + 1) & mask;
        }
        self.buckets[bucket] = Some(entry);
    }

    /// Removes the entry in a bucket. A later entry of its cluster may take its place.
    pub(crate) fn remove_at(&mut self, bucket: usize) -> Option<Entry<V>> {
        let removed = self.buckets[bucket].take()?;
        self.len -= 1;
        let mask = self.buckets.len() - 1;
        let (mut gap, mut next) = (bucket, (bucket + 1) & mask);
        while let Some(entry) = &self.buckets[next] {
            let home = hash_of(&entry.key) as usize & mask;
            // It may move back unless its home lies behind the gap, going round.
            if next.wrapping_sub(home) & mask >= next.wrapping_sub(gap) & mask {
                self.buckets.swap(gap, next);
                gap = next;
            }
            next = (next + 1) & mask;
        }
        Some(removed)
    }

    pub(crate) fn shrink_to_fit(&mut self) {
        let fitting = (self.len * 2).next_power_of_two().max(MIN_BUCKETS);
        if fitting < self.buckets.len() {
            self.rebuild(fitting);
        }
    }

    fn rebuild(&mut self, bucket_count: usize) {
        let old = std::mem::replace(&mut self.buckets, empty_buckets(bucket_count));
        for entry in old.into_iter().flatten() {
            self.place(hash_of(&entry.key), entry);
        }
    }
}

fn empty_buckets<V>(count: usize) -> Box<[Option<Entry<V>>]> {
    std::iter::repeat_with(|| None).take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::BlockKind;
    use std::collections::BTreeMap;

    fn entry(key: CacheKey, value: u64) -> Entry<u64> {
        let kind = BlockKind::Data;
        Entry { key, value, charge: 1, kind, chances: 0, scanned: false, notified: false }
    }

    /// Random insertions and removals against an ordered map, so dense that clusters wrap round.
    #[test]
    fn agrees_with_a_map() {
        let mut state = 0x5eed_0030u64;
        println!("seed {state:#x}");
        let mut random = move |end: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % end
        };
        let mut table = Table::new();
        let mut model = BTreeMap::new();
        for step in 0..60_000u64 {
            // Fills and empties in turn.
            let growing = step / 3000 % 2 == 0;
            let key = CacheKey { table: random(3) as u32, block: random(400) as u32 };
            let hash = hash_of(&key);
            if let Some(&value) = model.get(&key) {
                assert_eq!(table.find_mut(hash, &key).unwrap().value, value);
                if random(4) >= u64::from(growing) * 3 {
                    let bucket = (0..table.bucket_count())
                        .find(|&bucket| table.at(bucket).is_some_and(|entry| entry.key == key))
                        .unwrap();
                    assert_eq!(table.remove_at(bucket).unwrap().value, model.remove(&key).unwrap());
                }
            } else {
                assert!(table.find_mut(hash, &key).is_none());
                if growing || random(4) == 0 {
                    table.insert(hash, entry(key, step));
                    model.insert(key, step);
                }
            }
            assert_eq!(table.len(), model.len());
            if step % 1000 == 999 {
                table.shrink_to_fit();
                for (key, value) in &model {
                    assert_eq!(table.find_mut(hash_of(key), key).unwrap().value, *value);
                }
            }
        }
    }
}
