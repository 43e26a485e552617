//! Who may enter a full cache: what was asked for twice, lately.
//!
//! Where more is asked for than fits, most blocks that are loaded go again before anybody wants them. Each of
//! them costs an eviction: a walk of the clock's hand over values that lie anywhere in memory, the end of one
//! block and fresh memory for another. That is a fifth of what a lookup takes whose block comes from the page
//! cache. So a lookup's data block that finds the cache full leaves its name at the door, and enters when it
//! comes back while the name is still there. (Einziger, Friedman and Manes, 2017, call this a doorkeeper.)
//!
//! * As long as there is room everybody enters, so a cache fills as fast as blocks are loaded.
//! * A name stays until another one takes its place: on average for as many loads as there are places, which
//!   are one to four for each resident entry, and as many as before while they are. Whatever comes back
//!   within that time is worth more than what a clock would have kept for as long.
//! * Of blocks that are all asked for alike, the share that enters is about the share that fits. So the hit
//!   rate stays as it is, and the evictions of all other loads are saved.
//! * Who came last waits at the door, one in each shard: resident and charged like all others, but outside of
//!   the policy. Lookups of neighbouring keys find it there, and whoever was used when the next one comes
//!   enters. It hears of the cache, so that shortcuts to it are made, when it is first found: most go without
//!   having been found. The memory of those who go is used again at once, while it is in the processor's
//!   caches.
//! * It costs one more load of each block when the set in use changes.
//!
//! A name is 15 bits of a hash: one block in 32,768 is taken for another, and enters at once.

use esker_env::memory::prefetch;

/// Fewest places.
const MIN_PLACES: usize = 64;

/// Bytes that the door takes for each resident entry, at most.
pub(crate) const BYTES_AN_ENTRY: usize = MOST_PLACES_AN_ENTRY * size_of::<u16>();

/// Most places for each resident entry, if they are more than the fewest. Twice what residents need, so that
/// all names are not forgotten each time that residents come to a power of two or fall below it, as they do
/// all the time where blocks of different sizes take each other's room.
const MOST_PLACES_AN_ENTRY: usize = 4;

/// The names of those who were turned away.
#[derive(Debug, Default)]
pub(crate) struct Door {
    /// By hash; 0 where nobody was.
    names: Box<[u16]>,
    /// Where chance is taken from.
    coin: u32,
}

impl Door {
    /// Asks for the memory of the place where a block with this hash leaves its name.
    pub(crate) fn prefetch(&self, hash: u64) {
        if let Some(mask) = self.names.len().checked_sub(1) {
            prefetch((&raw const self.names[hash as usize & mask]).cast());
        }
    }

    /// Whether the block with this hash may enter if it knocks next.
    pub(crate) fn knows(&self, hash: u64) -> bool {
        let mask = self.names.len().wrapping_sub(1);
        self.names.get(hash as usize & mask) == Some(&name_of(hash))
    }

    /// Whether the block with this hash was turned away lately, and may enter. `residents` are the entries
    /// inside.
    pub(crate) fn knock(&mut self, hash: u64, residents: usize) -> bool {
        let fewest = residents.next_power_of_two().max(MIN_PLACES);
        let most = (MOST_PLACES_AN_ENTRY * residents).max(MIN_PLACES);
        if !(fewest..=most).contains(&self.names.len()) {
            // Names are few loads' worth: whoever is forgotten comes back twice.
            self.names = vec![0; fewest].into_boxed_slice();
        }
        let places = self.names.len();
        let name = name_of(hash);
        let place = &mut self.names[hash as usize & (places - 1)];
        if *place == name {
            *place = 0;
            return true;
        }
        // By chance the older name stays: of two that always come in turn neither would ever be known.
        self.coin = self.coin.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if *place == 0 || self.coin >> 31 == 0 {
            *place = name;
        }
        false
    }
}

/// The lowest bits of a hash say where a name lies, those in the middle in which shard, and the highest are
/// the name.
fn name_of(hash: u64) -> u16 {
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
    fn who_comes_back_soon_may_enter_and_then_is_forgotten() {
        let mut door = Door::default();
        assert_eq!([1, 1, 1, 1].map(|block| door.knock(hash(block), 1000)), [false, true, false, true]);
        // After sixteen others for each place hardly any is left.
        (0..100).for_each(|block| _ = door.knock(hash(block), 1000));
        (100_000..100_000 + 16 * 1024).for_each(|block| _ = door.knock(hash(block), 1000));
        let known = (0..100).filter(|&block| door.knock(hash(block), 1000)).count();
        assert!(known < 5, "{known} of 100");
    }

    #[test]
    fn of_a_set_that_is_larger_the_share_that_fits_may_enter() {
        let mut door = Door::default();
        let mut state = 0x5eed_0031u64;
        let mut entered = 0;
        for _ in 0..200_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // A tenth of the set fits.
            entered += u32::from(door.knock(hash((state >> 33) as u32 % 10_240), 1024));
        }
        assert!((12_000..24_000).contains(&entered), "{entered} of 200000");
    }

    /// However many share a place and in whatever order they come, each is known sooner or later.
    #[test]
    fn nobody_is_kept_out_by_others_that_always_come_before() {
        let mut door = Door::default();
        let mut out: Vec<u32> = (0..100).collect();
        for _ in 0..200 {
            out.retain(|&block| !door.knock(hash(block), 100));
            (0..100).for_each(|block| _ = door.knock(hash(1000 + block), 100));
        }
        assert_eq!(out.len(), 0);
    }

    #[test]
    fn places_follow_the_residents() {
        let mut door = Door::default();
        let changes =
            [(0, 64), (64, 64), (65, 128), (64, 128), (1000, 1024), (256, 1024), (255, 256), (3, 64)];
        for (residents, places) in changes {
            door.knock(1, residents);
            assert_eq!(door.names.len(), places);
            assert!(places <= MIN_PLACES || places * 2 <= residents * BYTES_AN_ENTRY);
        }
    }

    /// As in a full cache whose blocks are not of one size: now one goes for one that comes, now two.
    #[test]
    fn names_stay_where_residents_go_over_a_power_of_two_and_back() {
        let mut door = Door::default();
        let mut residents = [1024, 1025, 1023].into_iter().cycle();
        let mut known = |blocks: std::ops::Range<u32>| {
            blocks.filter(|&block| door.knock(hash(block), residents.next().expect("it goes on"))).count()
        };
        assert_eq!(known(0..100), 0);
        let found = known(0..100);
        assert!(found >= 90, "{found} of 100 are known");
    }
}
