//! Counters of the cache.

use crate::entry::BlockKind;
use crate::kind::CacheKind;
use std::ops::{AddAssign, Index};

/// Counters of one kind of block, since the cache was created.
///
/// When no operation is under way, `inserts - evictions - removals - expirations` is the number of resident
/// blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindStats {
    /// Lookups that found the block.
    pub hits: u64,
    /// Lookups that did not find the block and had to load it.
    pub misses: u64,
    /// Blocks inserted.
    pub inserts: u64,
    /// Blocks evicted to make room.
    pub evictions: u64,
    /// Blocks removed with their table.
    pub removals: u64,
    /// Blocks removed because they were older than the kind's TTL.
    pub expirations: u64,
    /// Charges of the resident blocks.
    pub resident_bytes: usize,
}

impl KindStats {
    /// Share of lookups that found the block; `None` before the first lookup.
    pub fn hit_rate(&self) -> Option<f64> {
        let lookups = self.hits + self.misses;
        (lookups > 0).then(|| self.hits as f64 / lookups as f64)
    }
}

impl AddAssign for KindStats {
    fn add_assign(&mut self, other: KindStats) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.inserts += other.inserts;
        self.evictions += other.evictions;
        self.removals += other.removals;
        self.expirations += other.expirations;
        self.resident_bytes += other.resident_bytes;
    }
}

/// A snapshot of the counters; shards are read one after the other, so not quite of one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// The kind of the cache.
    pub kind: CacheKind,
    /// The budget.
    pub capacity_bytes: usize,
    /// Bytes in use.
    pub used_bytes: usize,
    /// Resident blocks.
    pub entries: usize,
    /// Bytes of data blocks that a scan inserted and no lookup used since.
    pub scanned_bytes: usize,
    /// Blocks loaded although another thread was just loading them.
    pub duplicate_loads: u64,
    /// Blocks not cached because they are larger than the budget, or than the scans' share.
    pub declined: u64,
    /// Data blocks that a full cache's doorkeepers rejected; those of lookups are also inserts and evictions.
    pub not_admitted: u64,
    /// Blocks inserted by cache warming in place of others that are about to leave; also inserts.
    pub warm_inserts: u64,
    pub(crate) kinds: [KindStats; BlockKind::ALL.len()],
}

impl CacheStats {
    /// The sum over all kinds.
    pub fn total(&self) -> KindStats {
        let mut total = KindStats::default();
        self.kinds.iter().for_each(|&kind| total += kind);
        total
    }
}

impl Index<BlockKind> for CacheStats {
    type Output = KindStats;

    fn index(&self, kind: BlockKind) -> &KindStats {
        &self.kinds[kind as usize]
    }
}
