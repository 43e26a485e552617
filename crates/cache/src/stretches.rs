//! Giving memory back by whole stretches of it.
//!
//! A cache that becomes smaller lets go of what its policy thinks least of, and that lies anywhere: of a
//! third of the blocks nearly every stretch of memory keeps two thirds of its own, and none goes back to the
//! system. What the cache had would be counted as somebody else's and be used by nobody. So when much has to
//! go, it goes by where it lies: all entries of as many stretches as it takes. What is lost are entries that
//! the policy would have kept, as many of a stretch as there are among all; they come back when they are
//! asked for.
//!
//! Stretches of which the cache has the fewest bytes go first: they give back most for what is lost.
//!
//! * ST1. Nothing new comes to lie in a stretch that was chosen ([`Charge::close_stretch`]), so it is empty
//!   when the cache's entries and those who still read them are gone.
//! * ST2. Entries go once, under their shard's mutex, and are counted as evicted (BS1). One lock is held at a
//!   time.

use crate::cache::{BlockCache, Removed};
use crate::entry::Charge;
use foldhash::fast::FixedState;
use std::collections::{HashMap, HashSet};

/// Least that has to go before it goes by stretches. A walk over all entries is more than some evictions are
/// worth, and stretches have 2 MiB.
const LEAST_BYTES: usize = 4 << 20;

/// What the cache has in a stretch.
struct Stretch<V> {
    number: usize,
    entries: usize,
    bytes: usize,
    /// One of the values that lie there.
    one: V,
}

impl<V: Charge + Clone> BlockCache<V> {
    /// Evicts whole stretches until what is used fits the capacity, if much more is used than that.
    pub(crate) fn evict_stretches(&self) {
        let excess_bytes = self.used_bytes().saturating_sub(self.capacity_bytes());
        if excess_bytes < LEAST_BYTES {
            return;
        }
        let mut stretches = self.stretches();
        stretches.sort_unstable_by_key(|stretch| (stretch.bytes, stretch.number));
        let (mut chosen, mut chosen_bytes) = (HashSet::with_hasher(FixedState::default()), 0);
        for stretch in &stretches {
            if chosen_bytes < excess_bytes && stretch.one.close_stretch(stretch.entries) {
                chosen.insert(stretch.number);
                chosen_bytes += stretch.bytes;
            }
        }
        for shard in &self.shards {
            let mut evicted = Removed(Vec::new());
            let mut shard = shard.lock();
            let is_chosen = |value: &V| value.stretch().is_some_and(|number| chosen.contains(&number));
            let freed_bytes = shard.evict_where(&mut |entry| is_chosen(&entry.value), &mut evicted.0);
            self.budget.release(freed_bytes);
            shard.shrink_to_fit();
        }
    }

    fn stretches(&self) -> Vec<Stretch<V>> {
        let mut stretches: HashMap<usize, Stretch<V>, FixedState> = HashMap::default();
        for shard in &self.shards {
            shard.lock().for_each_entry(|entry| {
                let Some(number) = entry.value.stretch() else { return };
                let stretch = stretches.entry(number).or_insert_with(|| Stretch {
                    number,
                    entries: 0,
                    bytes: 0,
                    one: entry.value.clone(),
                });
                stretch.entries += 1;
                stretch.bytes += entry.charge as usize;
            });
        }
        stretches.into_values().collect()
    }
}
