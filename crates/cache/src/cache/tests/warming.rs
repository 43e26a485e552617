//! Cache warming: inserts in place of other blocks.

use super::*;

/// A warm insert enters a full cache, in the scans' share if it replaces a scan's block.
#[test]
fn a_warm_insert_enters_a_full_cache_with_the_admission_of_the_old_block() {
    for_each_kind(|kind| {
        let cache = cache_of(kind, 100 * (1000 + overhead_bytes(kind)), 1);
        let insert = |table: u64, number: u64, admission: Admission| {
            let key = key(table, number);
            cache.insert(key, block(key, 1000), BlockKind::Data, admission);
        };
        (0..80).for_each(|number| insert(1, number, Admission::Point));
        (0..20).for_each(|number| insert(2, number, Admission::Scan));
        assert_eq!(cache.admission_of(&key(1, 7)), Some(Admission::Point));
        assert_eq!(cache.admission_of(&key(2, 7)), Some(Admission::Scan));
        assert_eq!(cache.admission_of(&key(3, 7)), None);
        let (scanned, before) = (cache.stats().scanned_bytes, cache.stats());
        for number in 0..5 {
            for (table, admission) in [(1, Admission::Point), (2, Admission::Scan)] {
                let key = key(table + 10, number);
                cache.insert_warm(key, block(key, 1000), BlockKind::Data, admission);
                assert!(audit(&cache).contains_key(&key));
                assert_eq!(cache.admission_of(&key), Some(admission), "as what it stands for");
            }
        }
        let after = cache.stats();
        assert!(after.scanned_bytes <= scanned + 5 * (1000 + overhead_bytes(kind)));
        assert_eq!((after.warm_inserts, after.not_admitted), (10, 0));
        let (before, after) = (before[BlockKind::Data], after[BlockKind::Data]);
        assert_eq!((after.hits, after.misses), (before.hits, before.misses));
        assert_eq!(after.inserts, before.inserts + 10);
    });
}

/// An entry that was not used since the hand passed would be evicted next, and is not warmed.
#[test]
fn an_entry_without_chances_has_no_admission() {
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
        notified: false,
    };
    for (chances, admission_of) in [(1, Some(Admission::Point)), (0, None)] {
        shard.insert(hash, entry(chances));
        assert_eq!(shard.admission_of(hash, &key(1, 1)), admission_of);
        assert!(shard.evict(&mut Vec::new()) > 0);
    }
}

/// ND1: an eviction for a warm insert does not fire the full notification.
#[test]
fn a_warm_insert_does_not_fire_the_full_notification() {
    let cache = cache_of(CacheKind::Slots, 10_000, 1);
    cache.arm_full_notification();
    let put = |number: u64| {
        let key = key(1, number);
        cache.insert_warm(key, block(key, 1000), BlockKind::Data, Admission::Point);
    };
    (0..20).for_each(put);
    assert!(!cache.was_full());
    let key = key(2, 1);
    cache.insert(key, block(key, 1000), BlockKind::Data, Admission::Point);
    assert!(cache.was_full());
}
