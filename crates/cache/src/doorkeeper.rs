//! Doorkeeper: admission filter of a full cache. A data block is admitted when it is loaded a second time
//! within a short while (the doorkeeper of TinyLFU: Einziger, Friedman and Manes, 2017).
//!
//! When the working set exceeds the cache, most loaded blocks are evicted before they are used again. Each of
//! them costs an eviction: a walk of the clock's hand over values anywhere in memory, the release of one
//! block and fresh memory for another. That is a fifth of a lookup whose block comes from the page cache. So
//! a lookup's data block that finds the cache full only leaves a fingerprint here. It is admitted if it is
//! loaded again while the fingerprint is still present.
//!
//! * While the cache has room every block is admitted, so a cache fills as fast as blocks are loaded.
//! * A fingerprint stays until another one takes its place: on average for as many loads as there are places.
//!   There are one to four places for each resident entry; their number changes only when residents leave
//!   that range.
//! * Of uniformly used blocks the share that is admitted is about the share that fits. So the hit rate is
//!   that of the clock alone, and the evictions for all other loads are saved.
//! * The block rejected last is the *candidate*, one in each shard: resident and charged like other blocks,
//!   but outside of the policy. Lookups of neighbouring keys find it. If it was used when the next candidate
//!   arrives, it is admitted. [`crate::Charge::entered`] is called when it is first found, because most
//!   candidates are never found. The memory of a rejected candidate is reused at once, while it is in the
//!   processor's caches.
//! * When the working set changes, each block of the new set is loaded once more than without the doorkeeper.
//!
//! A fingerprint has 15 bits of a hash: one block in 32,768 is taken for another and admitted at once.

use esker_env::memory::prefetch;

const MIN_PLACES: usize = 64;

pub(crate) const BYTES_AN_ENTRY: usize = MOST_PLACES_AN_ENTRY * size_of::<u16>();

/// Most places for each resident entry, if they exceed [`MIN_PLACES`]. Twice what residents need, so that
/// fingerprints are not dropped each time the number of residents crosses a power of two, which happens all
/// the time where blocks differ in size.
const MOST_PLACES_AN_ENTRY: usize = 4;

/// The scans' doorkeeper remembers half as many blocks as that of lookups: scans may take less than half of
/// the cache ([`crate::DEFAULT_SCAN_PERCENT`]), so what they were refused longer ago would not stay anyway.
pub(crate) const SCAN_DIVISOR: usize = 2;

#[derive(Debug, Default)]
pub(crate) struct Doorkeeper {
    /// By hash; 0 for a free place.
    fingerprints: Box<[u16]>,
    /// State of a linear congruential generator.
    random_state: u32,
}

impl Doorkeeper {
    pub(crate) fn prefetch(&self, hash: u64) {
        if let Some(mask) = self.fingerprints.len().checked_sub(1) {
            prefetch((&raw const self.fingerprints[hash as usize & mask]).cast());
        }
    }

    /// Whether [`Doorkeeper::admit`] would admit the block with this hash now.
    pub(crate) fn would_admit(&self, hash: u64) -> bool {
        let mask = self.fingerprints.len().wrapping_sub(1);
        self.fingerprints.get(hash as usize & mask) == Some(&fingerprint_of(hash))
    }

    /// Whether the block was rejected lately and is admitted now; otherwise its fingerprint is recorded.
    pub(crate) fn admit(&mut self, hash: u64, residents: usize) -> bool {
        let fewest = residents.next_power_of_two().max(MIN_PLACES);
        let most = (MOST_PLACES_AN_ENTRY * residents).max(MIN_PLACES);
        if !(fewest..=most).contains(&self.fingerprints.len()) {
            // The fingerprints are worth few loads: each dropped one costs its block one more load.
            self.fingerprints = vec![0; fewest].into_boxed_slice();
        }
        let places = self.fingerprints.len();
        let fingerprint = fingerprint_of(hash);
        let place = &mut self.fingerprints[hash as usize & (places - 1)];
        if *place == fingerprint {
            *place = 0;
            return true;
        }
        // Keeps the older one half of the time: of two alternating blocks neither would be admitted
        // otherwise.
        self.random_state = self.random_state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if *place == 0 || self.random_state >> 31 == 0 {
            *place = fingerprint;
        }
        false
    }
}

/// The lowest bits choose the place, the middle ones the shard, the highest are the fingerprint.
fn fingerprint_of(hash: u64) -> u16 {
    (hash >> 48) as u16 | 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::CacheKey;
    use crate::policy::hash_of;

    fn hash(block: u32) -> u64 {
        hash_of(&CacheKey { table: 7, block })
    }

    #[test]
    fn a_block_loaded_twice_is_admitted_and_its_fingerprint_removed() {
        let mut doorkeeper = Doorkeeper::default();
        assert_eq!([1, 1, 1, 1].map(|block| doorkeeper.admit(hash(block), 1000)), [false, true, false, true]);
        // After sixteen others for each place hardly any is left.
        (0..100).for_each(|block| _ = doorkeeper.admit(hash(block), 1000));
        (100_000..100_000 + 16 * 1024).for_each(|block| _ = doorkeeper.admit(hash(block), 1000));
        let known = (0..100).filter(|&block| doorkeeper.admit(hash(block), 1000)).count();
        assert!(known < 5, "{known} of 100");
    }

    #[test]
    fn of_a_uniform_set_the_share_that_fits_is_admitted() {
        let mut doorkeeper = Doorkeeper::default();
        let mut state = 0x5eed_0031u64;
        let mut entered = 0;
        for _ in 0..200_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // A tenth of the set fits.
            entered += u32::from(doorkeeper.admit(hash((state >> 33) as u32 % 10_240), 1024));
        }
        assert!((12_000..24_000).contains(&entered), "{entered} of 200000");
    }

    /// However many blocks share a place, in any order, each is admitted sooner or later.
    #[test]
    fn fingerprints_that_share_a_place_do_not_starve_each_other() {
        let mut doorkeeper = Doorkeeper::default();
        let mut out: Vec<u32> = (0..100).collect();
        for _ in 0..200 {
            out.retain(|&block| !doorkeeper.admit(hash(block), 100));
            (0..100).for_each(|block| _ = doorkeeper.admit(hash(1000 + block), 100));
        }
        assert_eq!(out.len(), 0);
    }

    #[test]
    fn places_follow_the_residents() {
        let mut doorkeeper = Doorkeeper::default();
        let changes =
            [(0, 64), (64, 64), (65, 128), (64, 128), (1000, 1024), (256, 1024), (255, 256), (3, 64)];
        for (residents, places) in changes {
            doorkeeper.admit(1, residents);
            assert_eq!(doorkeeper.fingerprints.len(), places);
            assert!(places <= MIN_PLACES || places * 2 <= residents * BYTES_AN_ENTRY);
        }
    }

    /// As in a full cache whose blocks differ in size: one eviction for an insertion, then two.
    #[test]
    fn fingerprints_survive_residents_crossing_a_power_of_two() {
        let mut doorkeeper = Doorkeeper::default();
        let mut residents = [1024, 1025, 1023].into_iter().cycle();
        let mut known = |blocks: std::ops::Range<u32>| {
            blocks
                .filter(|&block| doorkeeper.admit(hash(block), residents.next().expect("it goes on")))
                .count()
        };
        assert_eq!(known(0..100), 0);
        let found = known(0..100);
        assert!(found >= 90, "{found} of 100 are known");
    }
}
