//! Eviction policies of one shard, a closed set behind one interface.
//!
//! A policy owns the entries of a shard and finds them by key. The [`crate::shard`] around it counts; the
//! [`crate::cache`] locks and keeps the budget. So that all kinds have the same guarantees, a policy *never
//! evicts of its own accord*: the cache requests an eviction and the policy chooses the entry.
//!
//! * `get` is a lookup. One by a scan leaves the order of data blocks alone; any other counts as a use, and
//!   makes a block that a scan brought in an ordinary one.
//! * `evict` removes the entry that is first in the policy's order; blocks that serve whole tables stay
//!   longer.
//! * `evict_scanned` removes a block that a scan brought in and no lookup used since.
//! * `scanned_bytes` are the charges of those.
//!
//! The default is matched first and inlined; the others lie behind a pointer.

mod clock;
mod lists;
mod reference;
mod s3_fifo;
pub(crate) mod table;
#[cfg(test)]
mod testing;

use crate::doorkeeper;
use crate::entry::{Admission, BlockKind, CacheKey, Charge};
use crate::kind::CacheKind;
use clock::ClockPolicy;
use esker_env::Clock;
use reference::lfu::LfuPolicy;
use reference::lru::LruPolicy;
use s3_fifo::S3FifoPolicy;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(crate) struct Entry<V> {
    pub(crate) key: CacheKey,
    pub(crate) value: V,
    pub(crate) charge: u32,
    pub(crate) kind: BlockKind,
    /// Rounds of the clock's hand that the entry survives unused; other policies ignore it.
    pub(crate) chances: u8,
    /// Inserted by a scan and not looked up since.
    pub(crate) scanned: bool,
    /// [`Charge::entered`] was called, so shortcuts to the value may exist.
    pub(crate) notified: bool,
}

pub(crate) type ShouldRemove<'a, V> = dyn FnMut(&Entry<V>) -> bool + 'a;

/// The hash of a key: high bits choose the shard, low bits the place in it.
#[inline]
pub(crate) fn hash_of(key: &CacheKey) -> u64 {
    use std::hash::BuildHasher;
    foldhash::fast::FixedState::default().hash_one(key.packed())
}

/// The entries of a shard, and the order in which they are evicted.
#[derive(Debug)]
pub(crate) enum Policy<V> {
    Clock(ClockPolicy<V>),
    Lru(Box<LruPolicy<V>>),
    Lfu(Box<LfuPolicy<V>>),
    S3Fifo(Box<S3FifoPolicy<V>>),
}

/// Evaluates the expression for whichever policy it is.
macro_rules! with_policy {
    ($of:expr, $policy:ident => $expression:expr) => {
        match $of {
            Policy::Clock($policy) => $expression,
            Policy::Lru($policy) => $expression,
            Policy::Lfu($policy) => $expression,
            Policy::S3Fifo($policy) => $expression,
        }
    };
}

impl<V: Charge + Clone> Policy<V> {
    /// An empty policy. The clock is read only by kinds with a TTL.
    pub(crate) fn new(kind: CacheKind, clock: &Arc<dyn Clock>) -> Policy<V> {
        match kind.within_limits() {
            CacheKind::Slots | CacheKind::Clock => Policy::Clock(ClockPolicy::new()),
            CacheKind::Lru { ttl } => Policy::Lru(Box::new(LruPolicy::new(ttl, clock))),
            CacheKind::Lfu => Policy::Lfu(Box::new(LfuPolicy::new())),
            CacheKind::S3Fifo => Policy::S3Fifo(Box::new(S3FifoPolicy::new())),
        }
    }

    pub(crate) fn len(&self) -> usize {
        with_policy!(self, policy => policy.len())
    }

    pub(crate) fn scanned_bytes(&self) -> usize {
        with_policy!(self, policy => policy.scanned_bytes())
    }

    #[inline]
    pub(crate) fn get(
        &mut self,
        hash: u64,
        key: &CacheKey,
        kind: BlockKind,
        admission: Admission,
    ) -> Option<V> {
        // Whether the lookup counts as a use.
        let is_use = admission == Admission::Point || kind != BlockKind::Data;
        match self {
            Policy::Clock(policy) => policy.get(hash, key, is_use),
            other => other.get_otherwise(hash, key, is_use),
        }
    }

    #[inline(never)]
    fn get_otherwise(&mut self, hash: u64, key: &CacheKey, is_use: bool) -> Option<V> {
        with_policy!(self, policy => policy.get(hash, key, is_use))
    }

    /// Prefetches what a lookup with this hash reads first, and the entries that would be evicted first.
    pub(crate) fn prefetch(&self, hash: u64) {
        if let Policy::Clock(policy) = self {
            policy.prefetch(hash);
        }
    }

    pub(crate) fn prefetch_victims(&self) {
        if let Policy::Clock(policy) = self {
            policy.prefetch_victims();
        }
    }

    /// The entry of a key, without counting a use.
    pub(crate) fn resident(&mut self, hash: u64, key: &CacheKey) -> Option<&Entry<V>> {
        with_policy!(self, policy => policy.resident(hash, key))
    }

    /// Adds an entry whose key is absent.
    pub(crate) fn insert(&mut self, hash: u64, entry: Entry<V>) {
        with_policy!(self, policy => policy.insert(hash, entry));
    }

    /// Removes the entry that is first in the order, or a few at once; none only if there is none.
    pub(crate) fn evict(&mut self, evicted: &mut Vec<Entry<V>>) {
        match self {
            Policy::Clock(policy) => evicted.extend(policy.evict()),
            Policy::Lru(policy) => evicted.extend(policy.evict()),
            Policy::Lfu(policy) => evicted.extend(policy.evict()),
            Policy::S3Fifo(policy) => policy.evict(evicted),
        }
    }

    /// Removes a block that a scan brought in and no lookup used since; `None` if there is none.
    pub(crate) fn evict_scanned(&mut self) -> Option<Entry<V>> {
        with_policy!(self, policy => policy.evict_scanned())
    }

    /// Removes some expired entries, that of `key` among them if it is.
    pub(crate) fn expire(&mut self, key: &CacheKey, expired: &mut Vec<Entry<V>>) {
        if let Policy::Lru(policy) = self {
            policy.expire(key, expired);
        }
    }

    /// Visits every entry, and removes those that `should_remove` chooses.
    pub(crate) fn remove_where(
        &mut self,
        should_remove: &mut ShouldRemove<'_, V>,
        removed: &mut Vec<Entry<V>>,
    ) {
        with_policy!(self, policy => policy.remove_where(should_remove, removed));
    }

    /// Drops ghost entries of some tables, given in ascending order.
    pub(crate) fn forget_tables(&mut self, tables: &[u32]) {
        if let Policy::S3Fifo(policy) = self {
            policy.forget_tables(tables);
        }
    }

    pub(crate) fn shrink_to_fit(&mut self) {
        with_policy!(self, policy => policy.shrink_to_fit());
    }

    #[cfg(test)]
    pub(crate) fn entries(&self) -> Vec<Entry<V>> {
        with_policy!(self, policy => policy.entries().cloned().collect())
    }
}

/// What a cache of a kind charges each entry beyond its value: its share of the policy's tables at their
/// emptiest (they double when they are full), and the two counters of an `Arc`.
pub(crate) const fn overhead_bytes(kind: CacheKind) -> usize {
    const COUNTERS: usize = 16;
    COUNTERS
        + match kind {
            // The table is 3/8 to 3/4 full.
            CacheKind::Slots => {
                2 * table::BUCKET_BYTES
                    + doorkeeper::BYTES_AN_ENTRY
                    + doorkeeper::BYTES_AN_ENTRY / doorkeeper::SCAN_DIVISOR
            }
            CacheKind::Clock => 2 * table::BUCKET_BYTES,
            CacheKind::Lru { .. } => reference::lru::OVERHEAD_BYTES,
            CacheKind::Lfu => reference::lfu::OVERHEAD_BYTES,
            CacheKind::S3Fifo => s3_fifo::OVERHEAD_BYTES,
        }
}
