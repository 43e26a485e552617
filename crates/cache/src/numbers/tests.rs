//! Table numbers: none is shared, none leads to blocks of an earlier owner, none is lost when they are
//! reused.

use super::*;
use crate::number_allocator::TableNumbers;
use crate::{Admission, BlockKind, CacheKey, CacheKind};
use esker_env::{Clock, SystemClock};

struct OwnedBlock(u64);

impl Charge for OwnedBlock {
    fn charge_bytes(&self) -> usize {
        4000
    }
}

fn caches() -> impl Iterator<Item = Arc<BlockCache<Arc<OwnedBlock>>>> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    CacheKind::ALL.into_iter().map(move |kind| Arc::new(BlockCache::of_kind(kind, 1 << 20, &clock)))
}

/// Inserts a block of the table, which must not be resident.
fn fill(cache: &Arc<BlockCache<Arc<OwnedBlock>>>, number: u32, owner: u64) {
    let key = CacheKey { table: number, block: 0 };
    let resident = cache.insert(key, Arc::new(OwnedBlock(owner)), BlockKind::Data, Admission::Point);
    assert_eq!(resident.0, owner, "table {number} met a block of an earlier owner");
}

#[test]
fn a_number_is_reused_only_after_its_blocks_are_removed() {
    for cache in caches() {
        let (first, second) = (cache.number_table().unwrap(), cache.number_table().unwrap());
        assert_ne!(first.get(), second.get());
        fill(&cache, first.get(), 1);
        fill(&cache, second.get(), 2);
        let old = first.get();
        drop(first);
        assert!(cache.has_dropped_tables());
        let third = cache.number_table().unwrap();
        assert!(third.get() != old && third.get() != second.get(), "blocks of {old} are still there");
        fill(&cache, third.get(), 3);
        assert_eq!(cache.remove_dropped_tables(), 1);
        assert!(!cache.has_dropped_tables());
        assert_eq!(cache.remove_dropped_tables(), 0);
        let fourth = cache.number_table().unwrap();
        assert_eq!(fourth.get(), old);
        fill(&cache, fourth.get(), 4);
        assert_eq!(cache.stats().entries, 3, "the others' blocks stay");
    }
}

/// Dropped tables' blocks stay until they may be a sixteenth, and their numbers are not reused before.
#[test]
fn removal_waits_until_a_sixteenth_is_dropped() {
    for cache in caches() {
        let stays: Vec<_> = (0..64).map(|_| cache.number_table().unwrap()).collect();
        stays.iter().for_each(|table| fill(&cache, table.get(), 1));
        let each_bytes = cache.used_bytes() as u64 / 64;
        let mut gone = Vec::new();
        for before in 0..4 {
            assert!(!cache.should_remove_dropped(), "{before} of {} are gone", 64 + before);
            let table = cache.number_table().unwrap();
            fill(&cache, table.get(), 2);
            table.expect_bytes(each_bytes + each_bytes / 4);
            table.expect_bytes(1);
            assert!(!gone.contains(&table.get()), "blocks of {} are still there", table.get());
            gone.push(table.get());
        }
        assert!(cache.should_remove_dropped());
        assert_eq!(cache.remove_dropped_tables(), 4);
        assert!(!cache.should_remove_dropped() && !cache.has_dropped_tables());
        assert!(gone.contains(&cache.number_table().unwrap().get()));
    }
}

/// A table without cached blocks frees its number at once in an empty cache, otherwise with many others.
#[test]
fn numbers_without_blocks_are_reused() {
    for cache in caches() {
        drop(cache.number_table().unwrap());
        assert!(cache.should_remove_dropped(), "there is nothing to walk over");
        assert_eq!(cache.remove_dropped_tables(), 0);
        assert!(!cache.should_remove_dropped());
        let tables: Vec<_> = (0..32).map(|_| cache.number_table().unwrap()).collect();
        tables.iter().for_each(|table| fill(&cache, table.get(), 1));
        let gone = (0..100).take_while(|_| {
            drop(cache.number_table().unwrap());
            !cache.should_remove_dropped()
        });
        assert!((6..20).contains(&gone.count()), "a sixteenth of 130 KB, in units of a KiB");
        assert_eq!(
            (cache.remove_dropped_tables(), cache.stats().entries),
            (0, 32),
            "the others' blocks stay"
        );
    }
}

#[test]
fn exhausted_numbers_are_refused_until_one_is_freed() {
    for cache in caches() {
        *cache.numbers.lock() = TableNumbers::starting_at(u32::MAX - 2);
        let (first, second) = (cache.number_table().unwrap(), cache.number_table().unwrap());
        assert_eq!((first.get(), second.get()), (u32::MAX - 2, u32::MAX - 1));
        assert!(cache.number_table().is_none() && cache.number_table().is_none());
        fill(&cache, first.get(), 1);
        drop(first);
        assert!(cache.number_table().is_none());
        cache.remove_dropped_tables();
        let again = cache.number_table().unwrap();
        fill(&cache, again.get(), 2);
        assert!(cache.number_table().is_none());
    }
}

/// Many generations of a few tables on several threads: the owner of a number finds no block but its own.
#[test]
fn threads_allocate_and_drop_numbers() {
    for cache in caches() {
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let cache = &cache;
                scope.spawn(move || {
                    for life in 0..3_000u64 {
                        let number = cache.number_table().unwrap();
                        fill(cache, number.get(), thread << 32 | life);
                        drop(number);
                        if (life + thread).is_multiple_of(7) {
                            cache.remove_dropped_tables();
                        }
                    }
                });
            }
        });
        cache.remove_dropped_tables();
        assert_eq!(cache.stats().entries, 0);
        let mut numbers = cache.numbers.lock();
        assert_eq!(numbers.free.len() as u32, numbers.next, "every number is free again");
        numbers.free.sort_unstable();
        assert!(numbers.free.iter().zip(0..).all(|(&number, at)| number == at), "and free once");
    }
}
