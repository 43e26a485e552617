//! Entries that are large beside a shard's share of the cache.

use super::*;

const SHARDS: usize = 16;
const BLOCK_BYTES: usize = 4096;

fn bytes_by_shard(cache: &BlockCache<Arc<Block>>) -> Vec<usize> {
    let of = |shard: &CachePadded<Mutex<Shard<Arc<Block>>>>| {
        shard.lock().entries().iter().map(|entry| entry.charge as usize).sum()
    };
    cache.shards.iter().map(of).collect()
}

/// An entry as large as a shard's even share evicts as much from each shard, not everything from its own.
#[test]
fn room_for_a_large_entry_is_made_in_all_shards_alike() {
    for_each_kind(|kind| {
        let cache = cache_of(kind, 8 << 20, SHARDS);
        for number in 0..4_000 {
            let key = key(1, number);
            cache.insert(key, block(key, BLOCK_BYTES), BlockKind::Data, Admission::Point);
        }
        let share = cache.capacity_bytes() / SHARDS;
        for number in 0..10 {
            let before = bytes_by_shard(&cache);
            let key = key(2, number);
            cache.insert(key, block(key, share), BlockKind::Filter, Admission::Point);
            assert!(audit(&cache).contains_key(&key), "{kind}");
            let home = cache.shard_of(hash_of(&key));
            for (at, (before, after)) in before.into_iter().zip(bytes_by_shard(&cache)).enumerate() {
                // A filter of an earlier round that is evicted for this one is the most that a shard frees.
                let own = if at == home { share + cache.entry_overhead_bytes() } else { 0 };
                let lost = (before + own).saturating_sub(after);
                let most = share / SHARDS + 4 * BLOCK_BYTES;
                assert!(number > 0 || lost <= most, "{kind}: shard {at} of home {home} lost {lost} bytes");
                assert!(after > share / 4, "{kind}: shard {at} has {after} bytes left");
            }
        }
    });
}

#[test]
fn threads_agree_on_one_large_entry() {
    for_each_kind(|kind| {
        let cache = cache_of(kind, 1 << 20, SHARDS);
        for round in 0..50 {
            for number in 0..300 {
                let key = key(round, number);
                cache.insert(key, block(key, BLOCK_BYTES), BlockKind::Data, Admission::Point);
            }
            let large = key(round, 1_000);
            let insert = || {
                cache.insert(large, block(large, 60_000), BlockKind::Filter, Admission::Point);
            };
            std::thread::scope(|scope| {
                scope.spawn(insert);
                scope.spawn(insert);
            });
            assert!(audit(&cache).contains_key(&large), "{kind}");
        }
    });
}

#[test]
fn a_peek_counts_neither_use_nor_lookup() {
    for_each_kind(|kind| {
        let cache = cache_of(kind, 1 << 20, SHARDS);
        let (there, absent) = (key(1, 1), key(1, 2));
        let inserted = cache.insert(there, block(there, 100), BlockKind::Data, Admission::Point);
        assert!(cache.peek(&there).is_some_and(|found| Arc::ptr_eq(&found, &inserted)));
        assert!(cache.peek(&absent).is_none());
        let data = cache.stats()[BlockKind::Data];
        assert_eq!((data.hits, data.misses), (0, 0));
    });
}
