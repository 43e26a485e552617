//! Cache warming: blocks of new tables enter the cache in place of the blocks that they replace.
//!
//! A merge replaces its inputs by tables of the same entries. Without warming, the output would be cold
//! although the input was cached. So the writer of a table reads whether the replaced blocks are resident
//! ([`BlockCache::admission_of`]), and inserts the blocks that replace them ([`BlockCache::insert_warm`]).
//!
//! * HO1. A warm block is charged from its insertion on (BS4), and is evicted by the same rules as others.
//! * HO2. It enters with the admission of the block that it replaces: within the scans' share if only scans
//!   used that one. It bypasses the doorkeeper, since the replaced block has proved its use.
//! * HO3. A warm insert that does not fit does not fire the full notification (ND1): the replaced blocks are
//!   about to leave.
//! * HO4. It counts as a warm insert, and neither as a hit nor as a miss.

use crate::cache::BlockCache;
use crate::entry::{Admission, BlockKind, CacheKey, Charge};
use crate::policy::hash_of;

impl<V: Charge + Clone> BlockCache<V> {
    /// The admission under which the block is resident: [`Admission::Scan`] if only scans used it. `None` if
    /// it is absent, is the doorkeeper's candidate, or has no chance left in a full cache, so that it would
    /// be evicted next. Does not count as a use.
    pub fn admission_of(&self, key: &CacheKey) -> Option<Admission> {
        let hash = hash_of(key);
        self.shards[self.shard_of(hash)].lock().admission_of(hash, key)
    }

    /// Caches a verified block that replaces others, which are still resident and will leave soon.
    pub fn insert_warm(&self, key: CacheKey, value: V, kind: BlockKind, admission: Admission) {
        self.enter(key, value, kind, admission, true);
    }

    /// Whether `bytes` more fit without an eviction.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        self.used_bytes().saturating_add(bytes) <= self.capacity_bytes()
    }
}
