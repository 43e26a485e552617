//! Blocks that take the place of others.
//!
//! Blocks are immutable, but what is in them moves: a merge replaces its inputs by tables of the same
//! entries, and nobody would find in the cache what was there before. So whoever replaces blocks may ask
//! whether they are there and for whom ([`BlockCache::wanted_by`]), and put in what takes their place
//! ([`BlockCache::hand_over`]).
//!
//! * HO1. What is handed over is charged from when it enters (BS4), and goes by the same rules as others.
//! * HO2. It enters as what it stands for did: within the scans' share if scans alone asked for that. It does
//!   not wait at the door, where others prove that somebody asks for them: that has been proved.
//! * HO3. That it finds no room is no need of more memory (ND1): there will be room when those go whose place
//!   it takes.
//! * HO4. It is counted as handed over, and as neither hit nor miss: nobody has asked for it.

use crate::cache::BlockCache;
use crate::entry::{Admission, BlockKind, CacheKey, Charge};
use crate::policy::hash_of;

impl<V: Charge + Clone> BlockCache<V> {
    /// On whose behalf the block is there: a scan's if scans alone have asked for it; nobody's if it is not
    /// there, waits at the door, or has used up its chances in a full cache and would go next. To ask is no
    /// use of it.
    pub fn wanted_by(&self, key: &CacheKey) -> Option<Admission> {
        let hash = hash_of(key);
        self.shards[self.shard_of(hash)].lock().wanted_by(hash, key)
    }

    /// Caches a verified block that takes the place of others, which are still there and will go soon.
    pub fn hand_over(&self, key: CacheKey, value: V, kind: BlockKind, admission: Admission) {
        self.enter(key, value, kind, admission, true);
    }

    /// Whether nobody would have to go for `bytes` more.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        self.used_bytes().saturating_add(bytes) <= self.capacity_bytes()
    }
}
