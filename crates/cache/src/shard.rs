//! One shard: a policy and the counters, without any locking.

use crate::door::Door;
use crate::entry::{Admission, BlockKind, CacheKey, Charge};
use crate::kind::CacheKind;
use crate::policy::{Entry, IsDoomed, Policy, hash_of};
use crate::stats::KindStats;
use esker_env::Clock;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Shard<V> {
    policy: Policy<V>,
    /// If the kind has one.
    door: Option<Door>,
    /// The entry that came to the door last and may not enter yet.
    waiting: Option<Entry<V>>,
    /// By the number of the kind. Plain numbers: whoever counts holds the lock already.
    pub(crate) kinds: [KindStats; BlockKind::ALL.len()],
    pub(crate) duplicate_loads: u64,
    pub(crate) declined: u64,
    pub(crate) turned_away: u64,
    pub(crate) handed_over: u64,
}

impl<V: Charge + Clone> Shard<V> {
    pub(crate) fn new(kind: CacheKind, clock: &Arc<dyn Clock>) -> Shard<V> {
        Shard {
            policy: Policy::new(kind, clock),
            door: kind.has_door().then(Door::default),
            waiting: None,
            kinds: Default::default(),
            duplicate_loads: 0,
            declined: 0,
            turned_away: 0,
            handed_over: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.policy.len() + usize::from(self.waiting.is_some())
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
        let found = self.policy.get(hash, key, kind, admission).or_else(|| self.find_waiting(key, admission));
        self.kinds[kind as usize].hits += u64::from(found.is_some());
        if found.is_none() && self.door.as_ref().is_some_and(|door| door.knows(hash)) {
            // Somebody will have to go for it.
            self.policy.prefetch_victims();
        }
        found
    }

    /// Asks for the memory that a lookup and an insertion with this hash would wait for.
    pub(crate) fn prefetch(&self, hash: u64) {
        self.policy.prefetch(hash);
        if let Some(door) = &self.door {
            door.prefetch(hash);
        }
    }

    /// The resident value of a key, without counting anything.
    pub(crate) fn resident(&mut self, hash: u64, key: &CacheKey) -> Option<V> {
        self.policy.resident(hash, key).map(|entry| entry.value.clone()).or_else(|| self.waiting_value(key))
    }

    fn waiting_value(&self, key: &CacheKey) -> Option<V> {
        self.waiting.as_ref().filter(|entry| entry.key == *key).map(|entry| entry.value.clone())
    }

    /// On whose behalf the block of a key is inside; nobody's if it is not, waits at the door, or would go
    /// next.
    pub(crate) fn wanted_by(&mut self, hash: u64, key: &CacheKey) -> Option<Admission> {
        let entry = self.policy.resident(hash, key)?;
        match (entry.value.is_used() || entry.chances > 0, entry.scanned) {
            (true, _) => Some(Admission::Point),
            (false, true) => Some(Admission::Scan),
            (false, false) => None,
        }
    }

    /// As [`Shard::find`], for the entry at the door; a lookup gives it the chance with which it enters.
    /// Shortcuts to it are made from now on: most go as they came, and spare the way to a shortcut and back.
    #[cold]
    fn find_waiting(&mut self, key: &CacheKey, admission: Admission) -> Option<V> {
        let entry = self.waiting.as_mut().filter(|entry| entry.key == *key)?;
        tell(entry);
        if admission == Admission::Point {
            entry.chances = entry.kind.initial_chances();
        }
        Some(entry.value.clone())
    }

    /// Whether a lookup's data block may enter although the cache is full; otherwise it may wait at the door.
    pub(crate) fn lets_in(&mut self, hash: u64) -> bool {
        let residents = self.len();
        // Into an empty shard everybody may: room is found in others.
        residents == 0 || self.door.as_mut().is_none_or(|door| door.knock(hash, residents))
    }

    /// Has the place at the door free: who waits there and was used meanwhile enters, others go. Answers the
    /// charge of who went.
    pub(crate) fn free_the_door(&mut self, evicted: &mut Vec<Entry<V>>) -> usize {
        let Some(mut entry) = self.waiting.take() else { return 0 };
        if entry.chances > 0 || entry.value.take_use() {
            entry.chances = entry.kind.initial_chances();
            tell(&mut entry);
            self.policy.insert(hash_of(&entry.key), entry);
            return 0;
        }
        self.turned_away += 1;
        self.went(&entry).evictions += 1;
        let charge = entry.charge as usize;
        evicted.push(entry);
        charge
    }

    /// Has an entry wait at the door, whose key is absent and whose charge is reserved. Answers the charge of
    /// who went for it.
    pub(crate) fn seat(&mut self, entry: Entry<V>, evicted: &mut Vec<Entry<V>>) -> usize {
        let freed_bytes = self.free_the_door(evicted);
        self.enters(&entry);
        self.waiting = Some(Entry { chances: 0, ..entry });
        freed_bytes
    }

    /// Adds an entry whose key is absent and whose charge is reserved.
    pub(crate) fn insert(&mut self, hash: u64, mut entry: Entry<V>) {
        self.enters(&entry);
        tell(&mut entry);
        self.policy.insert(hash, entry);
    }

    fn enters(&mut self, entry: &Entry<V>) {
        let counters = &mut self.kinds[entry.kind as usize];
        counters.inserts += 1;
        counters.resident_bytes += entry.charge as usize;
    }

    /// Evicts what the policy names and answers the charges: 0 only if the shard is empty.
    pub(crate) fn evict(&mut self, evicted: &mut Vec<Entry<V>>) -> usize {
        let before = evicted.len();
        match self.policy.len() {
            0 => evicted.extend(self.waiting.take()),
            _ => self.policy.evict(evicted),
        }
        evicted[before..].iter().for_each(|entry| self.went(entry).evictions += 1);
        charges(&evicted[before..])
    }

    /// Evicts a block that a scan brought in and nobody looked up since; `None` if there is none.
    pub(crate) fn evict_scanned(&mut self) -> Option<Entry<V>> {
        let entry = self.policy.evict_scanned()?;
        self.went(&entry).evictions += 1;
        Some(entry)
    }

    /// Removes some entries that are older than the kind's TTL, that of `key` among them if it is, and
    /// answers their charges.
    pub(crate) fn expire(&mut self, key: &CacheKey, expired: &mut Vec<Entry<V>>) -> usize {
        let before = expired.len();
        self.policy.expire(key, expired);
        expired[before..].iter().for_each(|entry| self.went(entry).expirations += 1);
        charges(&expired[before..])
    }

    /// Removes the entries of some tables, given in ascending order, and answers their charges.
    pub(crate) fn remove_tables(&mut self, tables: &[u32], removed: &mut Vec<Entry<V>>) -> usize {
        let before = removed.len();
        self.take_where(&mut |entry| tables.binary_search(&entry.key.table).is_ok(), removed);
        self.policy.forget_tables(tables);
        removed[before..].iter().for_each(|entry| self.went(entry).removals += 1);
        charges(&removed[before..])
    }

    /// Evicts the entries that are doomed, whatever the policy thinks of them, and answers their charges.
    pub(crate) fn evict_where(
        &mut self,
        is_doomed: &mut IsDoomed<'_, V>,
        evicted: &mut Vec<Entry<V>>,
    ) -> usize {
        let before = evicted.len();
        self.take_where(is_doomed, evicted);
        evicted[before..].iter().for_each(|entry| self.went(entry).evictions += 1);
        charges(&evicted[before..])
    }

    /// Looks at each entry.
    pub(crate) fn look(&mut self, mut see: impl FnMut(&Entry<V>)) {
        let mut none = |entry: &Entry<V>| {
            see(entry);
            false
        };
        self.take_where(&mut none, &mut Vec::new());
    }

    fn take_where(&mut self, is_doomed: &mut IsDoomed<'_, V>, taken: &mut Vec<Entry<V>>) {
        self.policy.remove_where(is_doomed, taken);
        taken.extend(self.waiting.take_if(|entry| is_doomed(entry)));
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
        self.policy.entries().into_iter().chain(self.waiting.clone()).collect()
    }
}

/// Tells the value, once, that it is in the cache.
fn tell<V: Charge>(entry: &mut Entry<V>) {
    if !entry.told {
        entry.told = true;
        entry.value.entered();
    }
}

fn charges<V>(entries: &[Entry<V>]) -> usize {
    entries.iter().map(|entry| entry.charge as usize).sum()
}
