//! LFU, for comparison: evicts the entry that was used least often, and of several the one used longest ago.
//!
//! Every operation takes constant time (Shah, Mitra, Matani 2010): there is a list for each frequency, in the
//! order of use; a hit moves its entry to the next list, and the oldest entry of the lowest list is evicted.
//! Frequencies end at [`MOST_USES`], because beyond that only the order of use is informative.
//!
//! # Ageing
//! Without it, what was hot once would stay for ever. After [`AGEING_USES`] uses for each entry all
//! frequencies are halved, as in TinyLFU (Einziger, Friedman, Manes 2017). No walk is needed: the lists of 2f
//! and 2f + 1 are appended to that of f, which changes their ends only, and an entry stores in which age its
//! frequency was counted. Invariant: an entry is in the list of its frequency halved as often as the shard
//! aged since, or of 1.
//!
//! Data blocks enter with frequency 1, blocks that serve whole tables with 4. Scans' blocks have a list of
//! their own below all others.

use crate::entry::CacheKey;
use crate::policy::lists::{self, Lists};
use crate::policy::{Entry, ShouldRemove};

pub(in crate::policy) const OVERHEAD_BYTES: usize = lists::overhead_bytes::<Uses>();

/// Highest frequency. One below a power of two, so that halving all lists fills all of the lower half.
const MOST_USES: u8 = 15;

/// Uses of each entry, on average, between two halvings: TinyLFU's sample of ten times the cache.
const AGEING_USES: usize = 10;

/// Least length of an age, so that nearly empty shards do not age with each use.
const MIN_AGE_USES: usize = 1_000;

/// The list of scans' blocks; list `f` is that of frequency `f`.
const SCANNED: usize = 0;

#[derive(Clone, Copy, Debug)]
struct Uses {
    /// The frequency at the age `counted`.
    frequency: u8,
    counted: u32,
}

#[derive(Debug)]
pub(crate) struct LfuPolicy<V> {
    lists: Lists<V, Uses>,
    /// How often frequencies were halved. Wraps after four billion; older entries then count as young.
    age: u32,
    /// Uses and insertions in this age.
    uses: usize,
}

fn list_of<V>(entry: &Entry<V>, uses: Uses, age: u32) -> usize {
    if entry.scanned {
        return SCANNED;
    }
    let halvings = age.wrapping_sub(uses.counted).min(u8::BITS - 1);
    usize::from(uses.frequency >> halvings).max(1)
}

impl<V: Clone> LfuPolicy<V> {
    pub(in crate::policy) fn new() -> LfuPolicy<V> {
        LfuPolicy { lists: Lists::new(usize::from(MOST_USES) + 1), age: 0, uses: 0 }
    }

    pub(in crate::policy) fn len(&self) -> usize {
        self.lists.len()
    }

    pub(in crate::policy) fn scanned_bytes(&self) -> usize {
        self.lists.scanned_bytes()
    }

    pub(in crate::policy) fn get(&mut self, _hash: u64, key: &CacheKey, is_use: bool) -> Option<V> {
        let place = self.lists.find(key)?;
        if is_use {
            let uses = self.lists.state(place);
            let from = list_of(self.lists.entry(place), uses, self.age);
            self.lists.make_ordinary(place);
            let to = (from + 1).min(usize::from(MOST_USES));
            self.lists.renew(from, to, place);
            self.lists.set_state(place, Uses { frequency: to as u8, counted: self.age });
            self.count_use();
        }
        Some(self.lists.entry(place).value.clone())
    }

    pub(in crate::policy) fn resident(&mut self, _hash: u64, key: &CacheKey) -> Option<&Entry<V>> {
        self.lists.find(key).map(|place| self.lists.entry(place))
    }

    pub(in crate::policy) fn insert(&mut self, _hash: u64, entry: Entry<V>) {
        let uses = Uses { frequency: entry.kind.initial_chances(), counted: self.age };
        self.lists.insert(list_of(&entry, uses, self.age), entry, uses);
        self.count_use();
    }

    fn count_use(&mut self) {
        self.uses += 1;
        if self.uses >= (AGEING_USES * self.lists.len()).max(MIN_AGE_USES) {
            self.uses = 0;
            self.age = self.age.wrapping_add(1);
            // More frequent entries lie above less frequent ones.
            self.lists.append(1, 2);
            self.lists.append(1, 3);
            for frequency in 2..=usize::from(MOST_USES) / 2 {
                self.lists.append(frequency, 2 * frequency);
                self.lists.append(frequency, 2 * frequency + 1);
            }
        }
    }

    pub(in crate::policy) fn evict(&mut self) -> Option<Entry<V>> {
        (SCANNED..=usize::from(MOST_USES)).find_map(|list| self.evict_from(list))
    }

    pub(in crate::policy) fn evict_scanned(&mut self) -> Option<Entry<V>> {
        self.evict_from(SCANNED)
    }

    fn evict_from(&mut self, list: usize) -> Option<Entry<V>> {
        let place = self.lists.oldest(list)?;
        Some(self.lists.remove(list, place))
    }

    pub(in crate::policy) fn remove_where(
        &mut self,
        should_remove: &mut ShouldRemove<'_, V>,
        removed: &mut Vec<Entry<V>>,
    ) {
        let age = self.age;
        self.lists.remove_where(should_remove, |entry, uses| list_of(entry, uses, age), removed);
    }

    pub(in crate::policy) fn shrink_to_fit(&mut self) {
        self.lists.shrink_to_fit();
    }

    #[cfg(test)]
    pub(in crate::policy) fn entries(&self) -> impl Iterator<Item = &Entry<V>> {
        self.lists.entries()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Admission, BlockKind};
    use crate::policy::testing::{entry, random_uses};

    /// Against a list of keys in use order: evicts the least frequent, the first of them, and ages.
    #[test]
    fn the_least_frequent_is_evicted_and_frequencies_age() {
        let mut policy: LfuPolicy<u64> = LfuPolicy::new();
        let mut model: Vec<(CacheKey, u8)> = Vec::new();
        let (mut evictions, mut age) = (0, 0);
        random_uses(0x5eed_0102, 60_000, |key, admission| {
            let is_use = admission == Admission::Point;
            match model.iter().position(|(other, _)| *other == key) {
                Some(at) => {
                    assert!(policy.get(0, &key, is_use).is_some());
                    if is_use {
                        let (key, frequency) = model.remove(at);
                        model.push((key, (frequency + 1).min(MOST_USES)));
                    }
                }
                None => {
                    assert!(policy.get(0, &key, is_use).is_none());
                    if model.len() == 200 {
                        let least = model.iter().map(|&(_, frequency)| frequency).min().unwrap();
                        let at = model.iter().position(|&(_, frequency)| frequency == least).unwrap();
                        assert_eq!(policy.evict().map(|entry| entry.key), Some(model.remove(at).0));
                        evictions += 1;
                    }
                    policy.insert(0, entry(key, BlockKind::Data));
                    model.push((key, 1));
                }
            }
            if policy.age != age {
                age = policy.age;
                // Of entries that become equal, the more frequent counts as used later.
                model.sort_by_key(|&(_, frequency)| frequency);
                model.iter_mut().for_each(|(_, frequency)| *frequency = (*frequency / 2).max(1));
            }
        });
        assert!(evictions > 1_000 && age > 10, "{evictions} evictions, {age} halvings");
        assert_eq!(policy.entries().count(), model.len());
    }
}
