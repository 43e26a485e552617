//! One shard of the cache: a policy, its doorkeeper and the counters, without any locking.

use crate::doorkeeper::{Doorkeeper, SCAN_DIVISOR};
use crate::entry::{Admission, BlockKind, CacheKey, Charge};
use crate::kind::CacheKind;
use crate::policy::{Entry, Policy, ShouldRemove, hash_of};
use crate::stats::KindStats;
use esker_env::Clock;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Shard<V> {
    policy: Policy<V>,
    /// `None` if the kind has none.
    doorkeeper: Option<Doorkeeper>,
    /// That of scans (SD3), for the kinds that have one.
    scan_doorkeeper: Doorkeeper,
    /// The block that the doorkeeper rejected last. Resident, but not known to the policy.
    candidate: Option<Entry<V>>,
    /// By the number of the block kind. Plain numbers: every writer holds the shard's lock.
    pub(crate) kinds: [KindStats; BlockKind::ALL.len()],
    pub(crate) duplicate_loads: u64,
    pub(crate) declined: u64,
    pub(crate) not_admitted: u64,
    pub(crate) warm_inserts: u64,
}

impl<V: Charge + Clone> Shard<V> {
    pub(crate) fn new(kind: CacheKind, clock: &Arc<dyn Clock>) -> Shard<V> {
        Shard {
            policy: Policy::new(kind, clock),
            doorkeeper: kind.has_doorkeeper().then(Doorkeeper::default),
            scan_doorkeeper: Doorkeeper::default(),
            candidate: None,
            kinds: Default::default(),
            duplicate_loads: 0,
            declined: 0,
            not_admitted: 0,
            warm_inserts: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.policy.len() + usize::from(self.candidate.is_some())
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
        let found =
            self.policy.get(hash, key, kind, admission).or_else(|| self.find_candidate(key, admission));
        self.kinds[kind as usize].hits += u64::from(found.is_some());
        if found.is_none() && self.doorkeeper.as_ref().is_some_and(|doorkeeper| doorkeeper.would_admit(hash))
        {
            // The insertion that follows will be admitted, and evicts an entry.
            self.policy.prefetch_victims();
        }
        found
    }

    pub(crate) fn prefetch(&self, hash: u64) {
        self.policy.prefetch(hash);
        if let Some(doorkeeper) = &self.doorkeeper {
            doorkeeper.prefetch(hash);
        }
    }

    /// The resident value of a key, without counting anything.
    pub(crate) fn resident(&mut self, hash: u64, key: &CacheKey) -> Option<V> {
        self.policy.resident(hash, key).map(|entry| entry.value.clone()).or_else(|| self.candidate_value(key))
    }

    fn candidate_value(&self, key: &CacheKey) -> Option<V> {
        self.candidate.as_ref().filter(|entry| entry.key == *key).map(|entry| entry.value.clone())
    }

    /// See [`crate::BlockCache::admission_of`].
    pub(crate) fn admission_of(&mut self, hash: u64, key: &CacheKey) -> Option<Admission> {
        let entry = self.policy.resident(hash, key)?;
        match (entry.value.is_used() || entry.chances > 0, entry.scanned) {
            (true, _) => Some(Admission::Point),
            (false, true) => Some(Admission::Scan),
            (false, false) => None,
        }
    }

    /// As [`Shard::find`], for the candidate; a lookup gives it the chance with which it is admitted later.
    /// The value is notified only now, since most candidates leave without having been found.
    #[cold]
    fn find_candidate(&mut self, key: &CacheKey, admission: Admission) -> Option<V> {
        let entry = self.candidate.as_mut().filter(|entry| entry.key == *key)?;
        notify_entered(entry);
        if admission == Admission::Point {
            entry.chances = entry.kind.initial_chances();
        }
        Some(entry.value.clone())
    }

    /// Whether a lookup's data block is admitted to a full cache; otherwise it becomes the candidate.
    pub(crate) fn admits(&mut self, hash: u64) -> bool {
        let residents = self.len();
        // An empty shard admits every block: room is made in other shards.
        residents == 0 || self.doorkeeper.as_mut().is_none_or(|doorkeeper| doorkeeper.admit(hash, residents))
    }

    /// Whether a full cache keeps a scan's data block (SD2); a refused one is counted.
    pub(crate) fn admits_scanned(&mut self, hash: u64) -> bool {
        let is_admitted = self.scan_doorkeeper.admit(hash, self.len() / SCAN_DIVISOR);
        self.not_admitted += u64::from(!is_admitted);
        is_admitted
    }

    /// Empties the candidate's place: a used one is admitted, another rejected; returns the latter's charge.
    pub(crate) fn settle_candidate(&mut self, evicted: &mut Vec<Entry<V>>) -> usize {
        let Some(mut entry) = self.candidate.take() else { return 0 };
        if entry.chances > 0 || entry.value.take_use() {
            entry.chances = entry.kind.initial_chances();
            notify_entered(&mut entry);
            self.policy.insert(hash_of(&entry.key), entry);
            return 0;
        }
        self.not_admitted += 1;
        self.count_removed(&entry).evictions += 1;
        let charge = entry.charge as usize;
        evicted.push(entry);
        charge
    }

    /// Makes an entry the candidate; it is absent and reserved. Returns the charge of a rejected previous
    /// one.
    pub(crate) fn insert_candidate(&mut self, entry: Entry<V>, evicted: &mut Vec<Entry<V>>) -> usize {
        let freed_bytes = self.settle_candidate(evicted);
        self.count_inserted(&entry);
        self.candidate = Some(Entry { chances: 0, ..entry });
        freed_bytes
    }

    /// Adds an entry whose key is absent and whose charge is reserved.
    pub(crate) fn insert(&mut self, hash: u64, mut entry: Entry<V>) {
        self.count_inserted(&entry);
        notify_entered(&mut entry);
        self.policy.insert(hash, entry);
    }

    fn count_inserted(&mut self, entry: &Entry<V>) {
        let counters = &mut self.kinds[entry.kind as usize];
        counters.inserts += 1;
        counters.resident_bytes += entry.charge as usize;
    }

    /// Evicts what the policy chooses and returns its charge: 0 only if the shard is empty.
    pub(crate) fn evict(&mut self, evicted: &mut Vec<Entry<V>>) -> usize {
        let before = evicted.len();
        match self.policy.len() {
            0 => evicted.extend(self.candidate.take()),
            _ => self.policy.evict(evicted),
        }
        evicted[before..].iter().for_each(|entry| self.count_removed(entry).evictions += 1);
        charges(&evicted[before..])
    }

    /// Evicts a block that a scan brought in and no lookup used since; `None` if there is none.
    pub(crate) fn evict_scanned(&mut self) -> Option<Entry<V>> {
        let entry = self.policy.evict_scanned()?;
        self.count_removed(&entry).evictions += 1;
        Some(entry)
    }

    /// Removes some expired entries, `key`'s among them, and returns their charges.
    pub(crate) fn expire(&mut self, key: &CacheKey, expired: &mut Vec<Entry<V>>) -> usize {
        let before = expired.len();
        self.policy.expire(key, expired);
        expired[before..].iter().for_each(|entry| self.count_removed(entry).expirations += 1);
        charges(&expired[before..])
    }

    /// Removes the entries of some tables, given in ascending order, and returns their charges.
    pub(crate) fn remove_tables(&mut self, tables: &[u32], removed: &mut Vec<Entry<V>>) -> usize {
        let before = removed.len();
        self.remove_where(&mut |entry| tables.binary_search(&entry.key.table).is_ok(), removed);
        self.policy.forget_tables(tables);
        removed[before..].iter().for_each(|entry| self.count_removed(entry).removals += 1);
        charges(&removed[before..])
    }

    fn remove_where(&mut self, should_remove: &mut ShouldRemove<'_, V>, taken: &mut Vec<Entry<V>>) {
        self.policy.remove_where(should_remove, taken);
        taken.extend(self.candidate.take_if(|entry| should_remove(entry)));
    }

    /// Takes an entry out of the resident bytes; the caller counts why it left.
    fn count_removed(&mut self, entry: &Entry<V>) -> &mut KindStats {
        let counters = &mut self.kinds[entry.kind as usize];
        counters.resident_bytes -= entry.charge as usize;
        counters
    }

    pub(crate) fn shrink_to_fit(&mut self) {
        self.policy.shrink_to_fit();
    }

    #[cfg(test)]
    pub(crate) fn entries(&self) -> Vec<Entry<V>> {
        self.policy.entries().into_iter().chain(self.candidate.clone()).collect()
    }
}

fn notify_entered<V: Charge>(entry: &mut Entry<V>) {
    if !entry.notified {
        entry.notified = true;
        entry.value.entered();
    }
}

fn charges<V>(entries: &[Entry<V>]) -> usize {
    entries.iter().map(|entry| entry.charge as usize).sum()
}
