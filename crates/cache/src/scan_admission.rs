//! Scan admission: whether the cache would keep a data block that a scan has read, asked before the block is
//! given memory of its own.
//!
//! A scan over more than the cache holds evicts a block for each block that it reads, and none of them is
//! used again: an eviction, memory of the cache that is written once, and a slot, a third of what such a
//! block takes when it comes from the page cache. So a scan asks first, and decodes what is refused into a
//! buffer of its cursor, which stays in the processor's caches.
//!
//! * SD1. While there is room in the cache and in the scans' share every block of a scan is kept: a cache
//!   fills as fast as blocks are read.
//! * SD2. Otherwise a block is kept if a scan was refused it lately (the [`doorkeeper`](crate::doorkeeper)),
//!   so a range that is scanned again and again enters with its second scan.
//! * SD3. Scans have a doorkeeper of their own: a long one would make that of lookups forget everything.
//! * SD4. A refused block counts as not admitted and fires the full notification (ND1), as an insertion
//!   would.

use crate::cache::BlockCache;
use crate::entry::{CacheKey, Charge};
use crate::policy::hash_of;

impl<V: Charge + Clone> BlockCache<V> {
    /// Whether a data block of a scan that takes `bytes` should be [inserted](BlockCache::insert). Kinds
    /// without a doorkeeper take all.
    pub fn admits_scanned(&self, key: &CacheKey, bytes: usize) -> bool {
        if !self.kind().has_doorkeeper() {
            return true;
        }
        let bytes = bytes.saturating_add(self.entry_overhead_bytes());
        let is_full = self.is_full_for(bytes);
        let hash = hash_of(key);
        let mut shard = self.shards[self.shard_of(hash)].lock();
        let has_room =
            !is_full && shard.scanned_bytes().saturating_add(bytes) <= self.scan_share_of_a_shard();
        let is_admitted = has_room || shard.admits_scanned(hash);
        drop(shard);
        if is_full {
            self.notify_full();
        }
        is_admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Admission, BlockKind, CacheKind};
    use esker_env::ManualClock;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const BLOCK_BYTES: usize = 1000;
    const BLOCKS: u32 = 1000;

    #[derive(Debug)]
    struct Block;

    impl Charge for Block {
        fn charge_bytes(&self) -> usize {
            BLOCK_BYTES
        }
    }

    /// A cache for so many blocks; with all of its kinds, so that those without a doorkeeper are asked, too.
    fn cache_of(kind: CacheKind) -> BlockCache<Arc<Block>> {
        let overhead = BlockCache::<Arc<Block>>::of_kind(kind, 1, &clock()).entry_overhead_bytes();
        BlockCache::of_kind(kind, BLOCKS as usize * (BLOCK_BYTES + overhead), &clock())
    }

    fn clock() -> Arc<dyn esker_env::Clock> {
        Arc::new(ManualClock::new(0))
    }

    /// Scans blocks of a table as a cursor does; returns how many were found in the cache, and how many kept.
    fn scan(cache: &BlockCache<Arc<Block>>, table: u32, blocks: u32) -> (u32, u32) {
        let (mut hits, mut kept) = (0, 0);
        for block in 0..blocks {
            let key = CacheKey { table, block };
            if cache.get(&key, BlockKind::Data, Admission::Scan).is_some() {
                hits += 1;
            } else if cache.admits_scanned(&key, BLOCK_BYTES) {
                cache.insert(key, Arc::new(Block), BlockKind::Data, Admission::Scan);
                kept += 1;
            }
        }
        (hits, kept)
    }

    fn fill(cache: &BlockCache<Arc<Block>>) {
        for block in 0..2 * BLOCKS {
            let key = CacheKey { table: 1, block };
            cache.insert(key, Arc::new(Block), BlockKind::Data, Admission::Point);
        }
    }

    #[test]
    fn a_cache_with_room_keeps_all_up_to_the_scans_share() {
        let cache = cache_of(CacheKind::Slots);
        assert_eq!(scan(&cache, 1, BLOCKS / 4), (0, BLOCKS / 4));
        assert_eq!(cache.stats().not_admitted, 0);
        let (_, kept) = scan(&cache, 2, BLOCKS);
        let share = BLOCKS * u32::from(crate::DEFAULT_SCAN_PERCENT) / 100;
        assert!((share / 2..=share).contains(&(kept + BLOCKS / 4)), "{kept} kept");
    }

    #[test]
    fn what_is_scanned_once_evicts_nothing() {
        let cache = cache_of(CacheKind::Slots);
        fill(&cache);
        let before = cache.stats();
        for table in 2..12 {
            let (hits, kept) = scan(&cache, table, 2 * BLOCKS);
            assert!(hits == 0 && kept < BLOCKS / 100, "{hits} hits, {kept} kept");
        }
        let after = cache.stats();
        assert!(after.total().evictions - before.total().evictions < u64::from(BLOCKS / 10));
        assert!(after.not_admitted - before.not_admitted > u64::from(19 * BLOCKS));
    }

    #[test]
    fn a_range_that_is_scanned_again_and_again_is_kept() {
        let cache = cache_of(CacheKind::Slots);
        fill(&cache);
        let range = BLOCKS / 8;
        for _ in 0..4 {
            scan(&cache, 2, range);
        }
        let (hits, _) = scan(&cache, 2, range);
        assert!(hits > range * 9 / 10, "{hits} of {range}");
    }

    /// SD3: what lookups were refused is admitted when it comes back, however much was scanned meanwhile.
    #[test]
    fn scans_do_not_make_lookups_be_forgotten() {
        let cache = cache_of(CacheKind::Slots);
        fill(&cache);
        let lookup = |block| {
            let key = CacheKey { table: 2, block };
            cache.get(&key, BlockKind::Data, Admission::Point).is_some() || {
                cache.insert(key, Arc::new(Block), BlockKind::Data, Admission::Point);
                false
            }
        };
        for _ in 0..2 {
            (0..100).for_each(|block| _ = lookup(block));
            scan(&cache, 3, 20 * BLOCKS);
        }
        let hits = (0..100).filter(|&block| lookup(block)).count();
        // Half of those that find another's fingerprint in their place leave none.
        assert!(hits > 40, "{hits} of 100");
    }

    #[test]
    fn a_refusal_fires_the_full_notification_once() {
        let cache = cache_of(CacheKind::Slots);
        fill(&cache);
        let fired = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&fired);
        cache.on_full(move || _ = count.fetch_add(1, Ordering::Relaxed));
        cache.arm_full_notification();
        scan(&cache, 2, 100);
        assert_eq!(fired.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn kinds_without_a_doorkeeper_take_all() {
        for kind in CacheKind::ALL.into_iter().filter(|kind| !kind.has_doorkeeper()) {
            let cache = cache_of(kind);
            fill(&cache);
            assert_eq!(scan(&cache, 2, BLOCKS), (0, BLOCKS), "{kind}");
        }
    }
}
