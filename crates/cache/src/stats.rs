//! What the cache tells about itself.

use crate::entry::BlockKind;
use crate::kind::CacheKind;
use std::ops::{AddAssign, Index};

/// Counters of one kind of block, since the cache was made.
///
/// When nothing is under way, `inserts - evictions - removals - expirations` is the number of resident
/// blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindStats {
    /// Lookups that found the block.
    pub hits: u64,
    /// Lookups that did not, and had to load it.
    pub misses: u64,
    /// Blocks that entered.
    pub inserts: u64,
    /// Blocks that had to make room.
    pub evictions: u64,
    /// Blocks that went because their table did.
    pub removals: u64,
    /// Blocks that went because they were older than the kind's TTL.
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

/// A look at the cache. The shards are read one after the other, so under load the numbers are of slightly
/// different moments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// How the cache chooses what goes.
    pub kind: CacheKind,
    /// The budget.
    pub capacity_bytes: usize,
    /// What is in use of it.
    pub used_bytes: usize,
    /// Resident blocks.
    pub entries: usize,
    /// What scans brought in and no lookup asked for since, in bytes.
    pub scanned_bytes: usize,
    /// Blocks loaded although another thread was just loading them.
    pub duplicate_loads: u64,
    /// Blocks not cached because they are larger than the budget, or the scans' share.
    pub declined: u64,
    /// Data blocks of lookups that went from the door of a full cache: counted among the inserts and
    /// evictions, too.
    pub turned_away: u64,
    /// Blocks that somebody put there in place of others which are about to go, as merges do: counted among
    /// the inserts, too.
    pub handed_over: u64,
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
