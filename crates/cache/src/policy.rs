//! Who stays and who goes within one shard: the policies behind one face, a closed set.
//!
//! A policy owns the entries of a shard and finds them by key; the [`crate::shard`] around it counts, the
//! [`crate::cache`] locks and keeps the budget. So that all kinds keep the cache's promises alike, a policy
//! *never evicts of its own accord*: it is told to, and hands out what goes. What it is asked for:
//!
//! * `get` is a lookup. One by a scan leaves a data block where it is; any other counts as a use, and makes a
//!   block that a scan brought in an ordinary one.
//! * `evict` names who goes by the policy's own order, with more patience for blocks that serve whole tables.
//! * `evict_scanned` names a block that a scan brought in and no lookup asked for since.
//! * `scanned_bytes` are the charges of those.
//!
//! The default is matched first and small; the others lie behind a pointer.

mod clock;
mod lfu;
mod lists;
mod lru;
mod s3_fifo;
pub(crate) mod table;
#[cfg(test)]
mod testing;

use crate::door;
use crate::entry::{Admission, BlockKind, CacheKey, Charge};
use crate::kind::CacheKind;
use clock::ClockPolicy;
use esker_env::Clock;
use lfu::LfuPolicy;
use lru::LruPolicy;
use s3_fifo::S3FifoPolicy;
use std::sync::Arc;

/// A resident block.
#[derive(Clone, Debug)]
pub(crate) struct Entry<V> {
    pub(crate) key: CacheKey,
    pub(crate) value: V,
    pub(crate) charge: u32,
    pub(crate) kind: BlockKind,
    /// Rounds of the clock's hand that the entry survives unused; other policies do not look at it.
    pub(crate) chances: u8,
    /// Brought in by a scan and not looked up since.
    pub(crate) scanned: bool,
    /// The value was told that it entered, so that shortcuts to it may exist.
    pub(crate) told: bool,
}

/// Says which entries are to be removed.
pub(crate) type IsDoomed<'a, V> = dyn FnMut(&Entry<V>) -> bool + 'a;

/// The hash that places a key: high bits choose the shard, low bits the place in it.
#[inline]
pub(crate) fn hash_of(key: &CacheKey) -> u64 {
    use std::hash::BuildHasher;
    foldhash::fast::FixedState::default().hash_one(key.packed())
}

/// The entries of a shard, and the order in which they go.
#[derive(Debug)]
pub(crate) enum Policy<V> {
    Clock(ClockPolicy<V>),
    Lru(Box<LruPolicy<V>>),
    Lfu(Box<LfuPolicy<V>>),
    S3Fifo(Box<S3FifoPolicy<V>>),
}

/// The same expression for the policy that there is.
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
    /// No entries yet. The time is asked for only where a TTL makes it matter.
    pub(crate) fn new(kind: CacheKind, clock: &Arc<dyn Clock>) -> Policy<V> {
        match kind.within_limits() {
            CacheKind::Slots | CacheKind::Clock => Policy::Clock(ClockPolicy::new()),
            CacheKind::Lru { ttl } => Policy::Lru(Box::new(LruPolicy::new(ttl, clock))),
            CacheKind::Lfu => Policy::Lfu(Box::new(LfuPolicy::new())),
            CacheKind::S3Fifo => Policy::S3Fifo(Box::new(S3FifoPolicy::new())),
        }
    }

    /// Entries.
    pub(crate) fn len(&self) -> usize {
        with_policy!(self, policy => policy.len())
    }

    /// Charges of entries that are marked `scanned`.
    pub(crate) fn scanned_bytes(&self) -> usize {
        with_policy!(self, policy => policy.scanned_bytes())
    }

    /// A lookup.
    #[inline]
    pub(crate) fn get(
        &mut self,
        hash: u64,
        key: &CacheKey,
        kind: BlockKind,
        admission: Admission,
    ) -> Option<V> {
        // Whether the lookup says that the block is worth keeping.
        let is_use = admission == Admission::Point || kind != BlockKind::Data;
        match self {
            Policy::Clock(policy) => policy.get(hash, key, is_use),
            other => other.get_elsewhere(hash, key, is_use),
        }
    }

    #[inline(never)]
    fn get_elsewhere(&mut self, hash: u64, key: &CacheKey, is_use: bool) -> Option<V> {
        with_policy!(self, policy => policy.get(hash, key, is_use))
    }

    /// Asks for what a lookup with this hash looks at first, and for what says which values would go first.
    pub(crate) fn prefetch(&self, hash: u64) {
        if let Policy::Clock(policy) = self {
            policy.prefetch(hash);
        }
    }

    /// Asks for the values that would go first.
    pub(crate) fn prefetch_victims(&self) {
        if let Policy::Clock(policy) = self {
            policy.prefetch_victims();
        }
    }

    /// The entry of a key, which is not a use.
    pub(crate) fn resident(&mut self, hash: u64, key: &CacheKey) -> Option<&Entry<V>> {
        with_policy!(self, policy => policy.resident(hash, key))
    }

    /// Adds an entry whose key is absent.
    pub(crate) fn insert(&mut self, hash: u64, entry: Entry<V>) {
        with_policy!(self, policy => policy.insert(hash, entry));
    }

    /// Removes the entry whose turn it is, or a few at once; none only if there is none.
    pub(crate) fn evict(&mut self, evicted: &mut Vec<Entry<V>>) {
        match self {
            Policy::Clock(policy) => evicted.extend(policy.evict()),
            Policy::Lru(policy) => evicted.extend(policy.evict()),
            Policy::Lfu(policy) => evicted.extend(policy.evict()),
            Policy::S3Fifo(policy) => policy.evict(evicted),
        }
    }

    /// Removes a block that a scan brought in and nobody looked up since; `None` if there is none.
    pub(crate) fn evict_scanned(&mut self) -> Option<Entry<V>> {
        with_policy!(self, policy => policy.evict_scanned())
    }

    /// Removes some entries that are too old, that of `key` among them if it is.
    pub(crate) fn expire(&mut self, key: &CacheKey, expired: &mut Vec<Entry<V>>) {
        if let Policy::Lru(policy) = self {
            policy.expire(key, expired);
        }
    }

    /// Looks at each entry, and removes those that are doomed.
    pub(crate) fn remove_where(&mut self, is_doomed: &mut IsDoomed<'_, V>, removed: &mut Vec<Entry<V>>) {
        with_policy!(self, policy => policy.remove_where(is_doomed, removed));
    }

    /// Forgets what it remembers of entries of some tables, given in ascending order, that went before.
    pub(crate) fn forget_tables(&mut self, tables: &[u32]) {
        if let Policy::S3Fifo(policy) = self {
            policy.forget_tables(tables);
        }
    }

    /// Gives memory back after many removals.
    pub(crate) fn shrink_to_fit(&mut self) {
        with_policy!(self, policy => policy.shrink_to_fit());
    }

    /// All entries, for checks.
    #[cfg(test)]
    pub(crate) fn entries(&self) -> Vec<Entry<V>> {
        with_policy!(self, policy => policy.entries().cloned().collect())
    }
}

/// What a cache of a kind charges each entry beyond its value: its share of what the policy keeps to find and
/// order it, at the emptiest that tables and arrays which double can be, and the two counters of an `Arc`.
pub(crate) const fn overhead_bytes(kind: CacheKind) -> usize {
    const COUNTERS: usize = 16;
    COUNTERS
        + match kind {
            // The table is 3/8 to 3/4 full.
            CacheKind::Slots => 2 * table::BUCKET_BYTES + door::BYTES_AN_ENTRY,
            CacheKind::Clock => 2 * table::BUCKET_BYTES,
            CacheKind::Lru { .. } => lru::OVERHEAD_BYTES,
            CacheKind::Lfu => lfu::OVERHEAD_BYTES,
            CacheKind::S3Fifo => s3_fifo::OVERHEAD_BYTES,
        }
}
