//! Blocks that take the place of others.

use super::*;

/// Whoever is handed over to a full cache is inside, within the scans' share if it stands for a scan's block,
/// and is counted as nothing but that.
#[test]
fn what_is_handed_over_enters_a_full_cache_as_what_it_stands_for() {
    for_each_kind(|kind| {
        let cache = cache_of(kind, 100 * (1000 + overhead_bytes(kind)), 1);
        let insert = |table: u64, number: u64, admission: Admission| {
            let key = key(table, number);
            cache.insert(key, block(key, 1000), BlockKind::Data, admission);
        };
        (0..80).for_each(|number| insert(1, number, Admission::Point));
        (0..20).for_each(|number| insert(2, number, Admission::Scan));
        assert_eq!(cache.wanted_by(&key(1, 7)), Some(Admission::Point));
        assert_eq!(cache.wanted_by(&key(2, 7)), Some(Admission::Scan));
        assert_eq!(cache.wanted_by(&key(3, 7)), None);
        let (scanned, before) = (cache.stats().scanned_bytes, cache.stats());
        for number in 0..5 {
            for (table, admission) in [(1, Admission::Point), (2, Admission::Scan)] {
                let key = key(table + 10, number);
                cache.hand_over(key, block(key, 1000), BlockKind::Data, admission);
                assert!(audit(&cache).contains_key(&key));
                assert_eq!(cache.wanted_by(&key), Some(admission), "as what it stands for");
            }
        }
        let after = cache.stats();
        assert!(after.scanned_bytes <= scanned + 5 * (1000 + overhead_bytes(kind)));
        assert_eq!((after.handed_over, after.turned_away), (10, 0));
        let (before, after) = (before[BlockKind::Data], after[BlockKind::Data]);
        assert_eq!((after.hits, after.misses), (before.hits, before.misses));
        assert_eq!(after.inserts, before.inserts + 10);
    });
}

/// What has not been used since the hand came by would go next, and is not carried on.
#[test]
fn what_would_go_next_is_wanted_by_nobody() {
    let kind = CacheKind::Slots;
    let cache = cache_of(kind, 100 * (1000 + overhead_bytes(kind)), 1);
    let (mut shard, hash) = (cache.shards[0].lock(), hash_of(&key(1, 1)));
    let entry = |chances| Entry {
        key: key(1, 1),
        value: block(key(1, 1), 1000),
        charge: 1000,
        kind: BlockKind::Data,
        chances,
        scanned: false,
        told: false,
    };
    for (chances, wanted_by) in [(1, Some(Admission::Point)), (0, None)] {
        shard.insert(hash, entry(chances));
        assert_eq!(shard.wanted_by(hash, &key(1, 1)), wanted_by);
        assert!(shard.evict(&mut Vec::new()) > 0);
    }
}

/// ND1: that others have to make room for what is handed over is no need.
#[test]
fn handing_over_is_no_need() {
    let cache = cache_of(CacheKind::Slots, 10_000, 1);
    cache.await_need();
    let put = |number: u64| {
        let key = key(1, number);
        cache.hand_over(key, block(key, 1000), BlockKind::Data, Admission::Point);
    };
    (0..20).for_each(put);
    assert!(!cache.needs_more());
    let key = key(2, 1);
    cache.insert(key, block(key, 1000), BlockKind::Data, Admission::Point);
    assert!(cache.needs_more());
}
