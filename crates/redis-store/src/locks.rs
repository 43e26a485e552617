//! Stripes: locks of keys, a fixed number for all keys together.
//!
//! A key's stripe is chosen by a hash of its logical database and its bytes. A transaction that waits for
//! stripes holds none, and takes them in ascending order; one that holds some only tries further ones. So no
//! two transactions wait for each other (KR6). Commands on whole databases take all stripes.

use crate::random_seed::random_seed;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Number of stripes. Two writers of different keys meet with a probability of one in so many; taking all of
/// them takes some 20 microseconds.
pub const STRIPES: usize = 1024;

/// The stripe of a key.
pub type Stripe = u16;

/// The locks of all keys.
#[derive(Debug)]
pub struct Stripes {
    locks: Box<[RwLock<()>]>,
    seed: u64,
}

impl Default for Stripes {
    fn default() -> Self {
        Self {
            locks: (0..STRIPES).map(|_| RwLock::new(())).collect(),
            // Clients must not be able to choose keys that meet.
            seed: random_seed(),
        }
    }
}

impl Stripes {
    /// The stripe of a key of a logical database.
    pub fn of(&self, db: u16, key: &[u8]) -> Stripe {
        (xxh3_64_with_seed(key, self.seed.wrapping_add(u64::from(db))) % STRIPES as u64) as Stripe
    }
}

#[derive(Debug)]
#[expect(dead_code, reason = "guards are held, not read")]
enum Guard<'s> {
    Shared(RwLockReadGuard<'s, ()>),
    Exclusive(RwLockWriteGuard<'s, ()>),
}

/// Stripes as bits, for one look whether one of some hundred is held.
#[derive(Debug, Default)]
struct StripeSet([u64; STRIPES / u64::BITS as usize]);

impl StripeSet {
    fn place(stripe: Stripe) -> (usize, u64) {
        (usize::from(stripe) / u64::BITS as usize, 1 << (u32::from(stripe) % u64::BITS))
    }

    fn contains(&self, stripe: Stripe) -> bool {
        let (word, bit) = Self::place(stripe);
        self.0[word] & bit != 0
    }

    fn insert(&mut self, stripe: Stripe) {
        let (word, bit) = Self::place(stripe);
        self.0[word] |= bit;
    }

    fn remove(&mut self, stripe: Stripe) {
        let (word, bit) = Self::place(stripe);
        self.0[word] &= !bit;
    }
}

/// The stripes that a transaction holds, freed when it is dropped.
#[derive(Debug)]
pub struct Held<'s> {
    stripes: &'s Stripes,
    /// Ascending while taken by [`Held::wait_for`].
    guards: Vec<(Stripe, Guard<'s>)>,
    /// Those that are held with readers, and those that are held alone.
    shared: StripeSet,
    exclusive: StripeSet,
}

/// How stripes are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// With other readers.
    Shared,
    /// Alone.
    Exclusive,
}

impl<'s> Held<'s> {
    /// No stripe yet.
    pub fn new(stripes: &'s Stripes) -> Self {
        Self { stripes, guards: Vec::new(), shared: StripeSet::default(), exclusive: StripeSet::default() }
    }

    fn add(&mut self, stripe: Stripe, guard: Guard<'s>) {
        match guard {
            Guard::Shared(_) => self.shared.insert(stripe),
            Guard::Exclusive(_) => self.exclusive.insert(stripe),
        }
        self.guards.push((stripe, guard));
    }

    /// Frees all stripes but so many that were taken first.
    fn free_behind(&mut self, kept: usize) {
        for (stripe, _) in self.guards.drain(kept..) {
            self.shared.remove(stripe);
            self.exclusive.remove(stripe);
        }
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.guards.is_empty()
    }

    /// Takes stripes and waits for them. Sorts `wanted`.
    ///
    /// # Panics
    /// If stripes are held already: two such transactions could wait for each other.
    pub fn wait_for(&mut self, wanted: &mut Vec<Stripe>, access: Access) {
        assert!(self.is_empty(), "a transaction that holds stripes waits for more");
        wanted.sort_unstable();
        wanted.dedup();
        for stripe in wanted {
            let lock = &self.stripes.locks[usize::from(*stripe)];
            let guard = match access {
                Access::Shared => Guard::Shared(lock.read()),
                Access::Exclusive => Guard::Exclusive(lock.write()),
            };
            self.add(*stripe, guard);
        }
    }

    /// Takes stripes and waits for each of them so long; holds none if that is not long enough. Sorts
    /// `wanted`.
    ///
    /// # Panics
    /// As [`Held::wait_for`].
    pub fn wait_at_most(&mut self, wanted: &mut Vec<Stripe>, access: Access, time: Duration) -> bool {
        assert!(self.is_empty(), "a transaction that holds stripes waits for more");
        wanted.sort_unstable();
        wanted.dedup();
        for stripe in wanted {
            let lock = &self.stripes.locks[usize::from(*stripe)];
            let guard = match access {
                Access::Shared => lock.try_read_for(time).map(Guard::Shared),
                Access::Exclusive => lock.try_write_for(time).map(Guard::Exclusive),
            };
            let Some(guard) = guard else {
                self.free();
                return false;
            };
            self.add(*stripe, guard);
        }
        true
    }

    /// Takes further stripes if that is possible at once; otherwise holds what it held before. What is held
    /// exclusively serves readers too.
    pub fn try_for(&mut self, wanted: &[Stripe], access: Access) -> bool {
        let before = self.guards.len();
        for stripe in wanted {
            if self.exclusive.contains(*stripe) {
                continue;
            }
            if self.shared.contains(*stripe) {
                if access == Access::Shared {
                    continue;
                }
                self.free_behind(before);
                return false;
            }
            let lock = &self.stripes.locks[usize::from(*stripe)];
            let guard = match access {
                Access::Shared => lock.try_read().map(Guard::Shared),
                Access::Exclusive => lock.try_write().map(Guard::Exclusive),
            };
            let Some(guard) = guard else {
                self.free_behind(before);
                return false;
            };
            self.add(*stripe, guard);
        }
        true
    }

    /// Takes all stripes alone, and waits for them.
    ///
    /// # Panics
    /// As [`Held::wait_for`].
    pub fn wait_for_all(&mut self) {
        let mut all: Vec<Stripe> = (0..STRIPES as Stripe).collect();
        self.wait_for(&mut all, Access::Exclusive);
    }

    /// Frees all stripes.
    pub fn free(&mut self) {
        self.free_behind(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_exclude_writers_and_share_readers() {
        let stripes = Stripes::default();
        let (mut first, mut second) = (Held::new(&stripes), Held::new(&stripes));
        first.wait_for(&mut vec![7, 3, 7], Access::Exclusive);
        assert!(!second.try_for(&[3], Access::Shared));
        assert!(first.try_for(&[3, 7], Access::Shared) && first.try_for(&[9], Access::Exclusive));
        // A failure frees what it took on the way.
        assert!(!second.try_for(&[1, 2, 9], Access::Exclusive));
        assert!(second.is_empty() && first.try_for(&[1, 2], Access::Exclusive));
        first.free();
        // What was freed is not taken for held.
        second.wait_for(&mut (0..STRIPES as Stripe).collect(), Access::Exclusive);
        assert!((0..STRIPES as Stripe).all(|stripe| !first.try_for(&[stripe], Access::Shared)));
        second.free();
        first.wait_for(&mut vec![3], Access::Shared);
        assert!(second.try_for(&[3], Access::Shared) && !second.try_for(&[3], Access::Exclusive));
        second.free();
        first.free();
        first.wait_for_all();
        assert!((0..STRIPES as Stripe).all(|stripe| !second.try_for(&[stripe], Access::Shared)));
    }

    #[test]
    fn a_wait_that_ends_without_stripes_holds_none() {
        let stripes = Stripes::default();
        let (mut first, mut second) = (Held::new(&stripes), Held::new(&stripes));
        first.wait_for(&mut vec![7], Access::Shared);
        let time = Duration::from_millis(1);
        assert!(!second.wait_at_most(&mut vec![9, 7, 3], Access::Exclusive, time) && second.is_empty());
        assert!(second.wait_at_most(&mut vec![7, 3, 7], Access::Shared, time));
        first.free();
        second.free();
        assert!(second.wait_at_most(&mut vec![7], Access::Exclusive, time));
    }
}
