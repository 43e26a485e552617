//! Spare slabs: memory of released slabs, for any class that needs one next (SB7).

use super::slab::Released;
use crate::memory::Region;

/// Memory of released slabs, and the number of slabs in use.
pub(super) struct Spare {
    regions: Vec<Region>,
    in_use: usize,
}

impl Spare {
    pub(super) const fn new() -> Spare {
        Spare { regions: Vec::new(), in_use: 0 }
    }

    /// The number of spare slabs.
    pub(super) fn len(&self) -> usize {
        self.regions.len()
    }

    /// Most spare slabs.
    fn limit(&self) -> usize {
        1 + self.in_use / 8
    }

    /// Memory for a slab: a spare one, or `None` for the system's, as for all thin ones. Either way one more
    /// is in use.
    pub(super) fn take(&mut self, is_thin: bool) -> Option<Region> {
        self.in_use += 1;
        if is_thin { None } else { self.regions.pop() }
    }

    /// Counts one less in use, which had no memory.
    pub(super) fn failed(&mut self) {
        self.in_use -= 1;
    }

    /// Counts one less in use; returns the regions that return to the system.
    pub(super) fn give_up(&mut self, released: Released) -> Vec<Region> {
        self.in_use -= 1;
        let mut back = Vec::new();
        if released.is_thin {
            // The next owner would have small pages.
            back.push(released.region);
        } else {
            self.regions.push(released.region);
        }
        // The ones released first are returned first: the others may still be in the processor's caches.
        let beyond = self.regions.len().saturating_sub(self.limit());
        back.extend(self.regions.drain(..beyond));
        back
    }
}

#[cfg(test)]
mod tests {
    use super::super::sizes::SLAB_BYTES;
    use super::*;

    fn whole(region: Region) -> Released {
        Released { region, is_thin: false }
    }

    /// SB7.
    #[test]
    fn an_eighth_of_the_slabs_in_use_may_be_spare() {
        let region = || Region::reserve(SLAB_BYTES).unwrap();
        let mut spare = Spare::new();
        let mut used: Vec<Region> = (0..32).map(|_| spare.take(false).unwrap_or_else(region)).collect();
        assert_eq!((spare.in_use, spare.len()), (32, 0));
        let mut returned = 0;
        for _ in 0..8 {
            returned += spare.give_up(whole(used.pop().unwrap())).len();
        }
        assert_eq!((spare.in_use, spare.len(), returned), (24, 4, 4));
        let last = spare.regions.last().unwrap().as_ptr();
        assert_eq!(spare.take(false).map(|region| region.as_ptr()), Some(last), "the latest serves first");
        assert_eq!((spare.in_use, spare.len()), (25, 3));
        // Spare slabs are returned as slabs in use become fewer.
        while let Some(region) = used.pop() {
            drop(spare.give_up(whole(region)));
        }
        assert_eq!((spare.in_use, spare.len()), (1, 1));
    }

    #[test]
    fn a_slab_of_small_pages_does_not_become_spare() {
        let mut spare = Spare::new();
        assert!(spare.take(false).is_none());
        let released = Released { region: Region::reserve(SLAB_BYTES).unwrap(), is_thin: true };
        assert_eq!((spare.give_up(released).len(), spare.len(), spare.in_use), (1, 0, 0));
    }
}
