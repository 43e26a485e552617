//! LRU, for comparison: evicts the entry that was used longest ago, exactly.
//!
//! A hit moves its entry to the newest end of a list, which writes to three entries; that, and the memory of
//! list and index, is the price of exactness over [`crate::policy::clock`].
//!
//! Three lists, each in the order of use: ordinary data blocks, blocks that serve whole tables, and data
//! blocks of scans. An entry stores the turn of its last use, counted in insertions, and the least turn of
//! the three ends is evicted. Blocks that serve whole tables count as used [`KEPT_ROUNDS`] fillings of the
//! shard later than they were: what the clock's hand grants them. A scan's block has the turn of its
//! insertion.
//!
//! # TTL
//! Counted from the insertion on, used or not. A lookup does not find an expired entry; the load that follows
//! takes its place ([`LruPolicy::expire`]). Other expired entries drift to the end of their list and are
//! removed there, at the latest by eviction; until then they take room. A lookup reads the clock only if
//! there is a TTL.

use crate::entry::{BlockKind, CacheKey};
use crate::policy::lists::{self, Lists};
use crate::policy::{Entry, ShouldRemove};
use esker_env::Clock;
use std::sync::Arc;
use std::time::Duration;

pub(in crate::policy) const OVERHEAD_BYTES: usize = lists::overhead_bytes::<Use>();

/// Fillings of the shard that a whole table's block outlives a data block.
const KEPT_ROUNDS: u64 = (BlockKind::Index.initial_chances() - BlockKind::Data.initial_chances()) as u64;

/// Expired entries that an insertion removes from each list's end at most, so that it stays short.
const MAX_EXPIRED: usize = 4;

const DATA: usize = 0;
const KEPT: usize = 1;
const SCANNED: usize = 2;
const LISTS: usize = 3;

#[derive(Clone, Copy, Debug)]
struct Use {
    /// The turn of the last use.
    turn: u64,
    /// When the entry expires, by the monotonic clock.
    expires_ns: u64,
}

#[derive(Debug)]
struct TimeToLive {
    clock: Arc<dyn Clock>,
    ns: u64,
}

#[derive(Debug)]
pub(crate) struct LruPolicy<V> {
    lists: Lists<V, Use>,
    /// Insertions so far.
    turn: u64,
    ttl: Option<TimeToLive>,
}

fn list_of<V>(entry: &Entry<V>) -> usize {
    match entry.kind {
        _ if entry.scanned => SCANNED,
        BlockKind::Data => DATA,
        BlockKind::Index | BlockKind::Filter | BlockKind::Meta => KEPT,
    }
}

impl<V: Clone> LruPolicy<V> {
    pub(in crate::policy) fn new(ttl: Option<Duration>, clock: &Arc<dyn Clock>) -> LruPolicy<V> {
        let whole = |ttl: Duration| u64::try_from(ttl.as_nanos()).unwrap_or(u64::MAX);
        let ttl = ttl.map(|ttl| TimeToLive { clock: Arc::clone(clock), ns: whole(ttl) });
        LruPolicy { lists: Lists::new(LISTS), turn: 0, ttl }
    }

    pub(in crate::policy) fn len(&self) -> usize {
        self.lists.len()
    }

    pub(in crate::policy) fn scanned_bytes(&self) -> usize {
        self.lists.scanned_bytes()
    }

    pub(in crate::policy) fn get(&mut self, _hash: u64, key: &CacheKey, is_use: bool) -> Option<V> {
        let place = self.lists.find(key)?;
        let last = self.lists.state(place);
        if self.ttl.as_ref().is_some_and(|ttl| ttl.clock.monotonic_ns() >= last.expires_ns) {
            return None;
        }
        if is_use {
            let from = list_of(self.lists.entry(place));
            self.lists.make_ordinary(place);
            let to = list_of(self.lists.entry(place));
            self.lists.renew(from, to, place);
            self.lists.set_state(place, Use { turn: self.turn, ..last });
        }
        Some(self.lists.entry(place).value.clone())
    }

    pub(in crate::policy) fn resident(&mut self, _hash: u64, key: &CacheKey) -> Option<&Entry<V>> {
        self.lists.find(key).map(|place| self.lists.entry(place))
    }

    pub(in crate::policy) fn insert(&mut self, _hash: u64, entry: Entry<V>) {
        self.turn += 1;
        let expires_ns =
            self.ttl.as_ref().map_or(u64::MAX, |ttl| ttl.clock.monotonic_ns().saturating_add(ttl.ns));
        self.lists.insert(list_of(&entry), entry, Use { turn: self.turn, expires_ns });
    }

    pub(in crate::policy) fn evict(&mut self) -> Option<Entry<V>> {
        let patience = KEPT_ROUNDS * self.lists.len() as u64;
        let turn_of = |list: usize| {
            let turn = self.lists.state(self.lists.oldest(list)?).turn;
            Some((if list == KEPT { turn + patience } else { turn }, list))
        };
        // Of equal turns a scan's block is evicted first.
        let (_, list) =
            [SCANNED, DATA, KEPT].into_iter().filter_map(turn_of).min_by_key(|&(turn, _)| turn)?;
        self.evict_from(list)
    }

    pub(in crate::policy) fn evict_scanned(&mut self) -> Option<Entry<V>> {
        self.evict_from(SCANNED)
    }

    fn evict_from(&mut self, list: usize) -> Option<Entry<V>> {
        let place = self.lists.oldest(list)?;
        Some(self.lists.remove(list, place))
    }

    /// Removes the entry of `key` if it is expired, and a few others from the lists' ends.
    pub(in crate::policy) fn expire(&mut self, key: &CacheKey, expired: &mut Vec<Entry<V>>) {
        let Some(now_ns) = self.ttl.as_ref().map(|ttl| ttl.clock.monotonic_ns()) else { return };
        let is_old = |lists: &Lists<V, Use>, place| lists.state(place).expires_ns <= now_ns;
        if let Some(place) = self.lists.find(key).filter(|&place| is_old(&self.lists, place)) {
            let list = list_of(self.lists.entry(place));
            expired.push(self.lists.remove(list, place));
        }
        for list in 0..LISTS {
            for _ in 0..MAX_EXPIRED {
                let Some(place) = self.lists.oldest(list).filter(|&place| is_old(&self.lists, place)) else {
                    break;
                };
                expired.push(self.lists.remove(list, place));
            }
        }
    }

    pub(in crate::policy) fn remove_where(
        &mut self,
        should_remove: &mut ShouldRemove<'_, V>,
        removed: &mut Vec<Entry<V>>,
    ) {
        self.lists.remove_where(should_remove, |entry, _| list_of(entry), removed);
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
    use crate::entry::Admission;
    use crate::policy::testing::{entry, random_uses};
    use esker_env::ManualClock;

    /// Against a plain list, oldest first: every eviction names the block that was used longest ago.
    #[test]
    fn the_order_is_exact() {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(0));
        let mut policy: LruPolicy<u64> = LruPolicy::new(None, &clock);
        let mut model: Vec<CacheKey> = Vec::new();
        let mut evictions = 0;
        random_uses(0x5eed_0101, 20_000, |key, admission| {
            let is_use = admission == Admission::Point;
            match model.iter().position(|other| *other == key) {
                Some(at) => {
                    assert!(policy.get(0, &key, is_use).is_some());
                    if is_use {
                        model.remove(at);
                        model.push(key);
                    }
                }
                None => {
                    assert!(policy.get(0, &key, is_use).is_none());
                    if model.len() == 100 {
                        assert_eq!(policy.evict().map(|entry| entry.key), Some(model.remove(0)));
                        evictions += 1;
                    }
                    policy.insert(0, entry(key, BlockKind::Data));
                    model.push(key);
                }
            }
        });
        assert!(evictions > 1_000);
        policy.shrink_to_fit();
        let rest: Vec<CacheKey> = std::iter::from_fn(|| policy.evict()).map(|entry| entry.key).collect();
        assert_eq!(rest, model);
    }
}
