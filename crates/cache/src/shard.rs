//! One shard: a policy and the counters, without any locking.

use crate::entry::{Admission, BlockKind, CacheKey, Charge};
use crate::kind::CacheKind;
use crate::policy::{Entry, Policy};
use crate::stats::KindStats;
use esker_env::Clock;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Shard<V> {
    policy: Policy<V>,
    /// By the number of the kind. Plain numbers: whoever counts holds the lock already.
    pub(crate) kinds: [KindStats; BlockKind::ALL.len()],
    pub(crate) duplicate_loads: u64,
    pub(crate) declined: u64,
}

impl<V: Charge + Clone> Shard<V> {
    pub(crate) fn new(kind: CacheKind, clock: &Arc<dyn Clock>) -> Shard<V> {
        Shard { policy: Policy::new(kind, clock), kinds: Default::default(), duplicate_loads: 0, declined: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.policy.len()
    }

    pub(crate) fn scanned_bytes(&self) -> usize {
        self.policy.scanned_bytes()
    }

    /// A lookup, which is counted if it finds the block.
    #[inline]
    pub(crate) fn find(
        &mut self,
        hash: u64,
        key: &CacheKey,
        kind: BlockKind,
        admission: Admission,
    ) -> Option<V> {
        let found = self.policy.get(hash, key, kind, admission);
        self.kinds[kind as usize].hits += u64::from(found.is_some());
        found
    }

    /// The resident value of a key, without counting anything.
    pub(crate) fn resident(&mut self, hash: u64, key: &CacheKey) -> Option<V> {
        self.policy.resident(hash, key)
    }

    /// Adds an entry whose key is absent and whose charge is reserved.
    pub(crate) fn insert(&mut self, hash: u64, entry: Entry<V>) {
        entry.value.entered();
        let counters = &mut self.kinds[entry.kind as usize];
        counters.inserts += 1;
        counters.resident_bytes += entry.charge as usize;
        self.policy.insert(hash, entry);
    }

    /// Evicts what the policy names and answers the charges: 0 only if the shard is empty.
    pub(crate) fn evict(&mut self, evicted: &mut Vec<Entry<V>>) -> usize {
        let before = evicted.len();
        self.policy.evict(evicted);
        evicted[before..].iter().for_each(|entry| self.went(entry).evictions += 1);
        charges(&evicted[before..])
    }

    /// Evicts a block that a scan brought in and nobody looked up since; `None` if there is none.
    pub(crate) fn evict_scanned(&mut self) -> Option<Entry<V>> {
        let entry = self.policy.evict_scanned()?;
        self.went(&entry).evictions += 1;
        Some(entry)
    }

    /// Removes some entries that are older than the kind's TTL, that of `key` among them if it is, and answers their charges.
    pub(crate) fn expire(&mut self, key: &CacheKey, expired: &mut Vec<Entry<V>>) -> usize {
        let before = expired.len();
        self.policy.expire(key, expired);
        expired[before..].iter().for_each(|entry| self.went(entry).expirations += 1);
        charges(&expired[before..])
    }

    /// Removes the entries of some tables, given in ascending order, and answers their charges.
    pub(crate) fn remove_tables(&mut self, tables: &[u32], removed: &mut Vec<Entry<V>>) -> usize {
        let before = removed.len();
        self.policy.remove_tables(tables, removed);
        removed[before..].iter().for_each(|entry| self.went(entry).removals += 1);
        charges(&removed[before..])
    }

    /// Notes that an entry is not resident any more.
    fn went(&mut self, entry: &Entry<V>) -> &mut KindStats {
        let counters = &mut self.kinds[entry.kind as usize];
        counters.resident_bytes -= entry.charge as usize;
        counters
    }

    /// Gives memory back after many removals.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.policy.shrink_to_fit();
    }

    /// All entries, for checks.
    #[cfg(test)]
    pub(crate) fn entries(&self) -> Vec<Entry<V>> {
        self.policy.entries()
    }
}

fn charges<V>(entries: &[Entry<V>]) -> usize {
    entries.iter().map(|entry| entry.charge as usize).sum()
}
