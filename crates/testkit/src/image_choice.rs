//! Divides a number of images among the places where a crash leaves one: a seeded choice of half as many
//! places as there are images. Each place takes one; the others are for crashes of the recovery from it. Of
//! every few places one has those of all of them, so that recoveries from recoveries crash as well.

use esker::parts::env::SeededRandom;

/// Of so many chosen places one has crashes of its recovery, on average.
const POOLED_PLACES: u64 = 4;

/// The choice of some of many places, in their order.
#[derive(Debug)]
pub struct ImageChoice {
    random: SeededRandom,
    /// To be divided among the places that are still to be chosen.
    images: u64,
    /// What the places since the last one with a larger share did not get of theirs.
    pooled: u64,
    /// What the last place may take; 0 once it has.
    share: u64,
    /// Places to be chosen yet.
    chosen: u64,
    /// Places that have not been offered.
    places: u64,
}

impl ImageChoice {
    /// Divides `images` among some of `places`; among as many as possible if nothing can crash inside of one.
    pub fn new(seed: u64, images: u64, places: u64, has_places_inside: bool) -> ImageChoice {
        let chosen = if has_places_inside { images.div_ceil(2) } else { images };
        ImageChoice {
            random: SeededRandom::new(seed),
            images,
            pooled: 0,
            share: 0,
            chosen: chosen.min(places),
            places,
        }
    }

    /// How many images the next place may take, one of them its own; `None` if it was not chosen.
    pub fn next_share(&mut self) -> Option<u64> {
        // Of the places that are left each is chosen with the same probability; at the end none is missing.
        let is_chosen = self.random.below(self.places) < self.chosen;
        self.places = self.places.saturating_sub(1);
        if !is_chosen {
            return None;
        }
        let fair = self.images / self.chosen;
        self.images -= fair;
        self.pooled += fair - 1;
        self.chosen -= 1;
        self.share = 1;
        if self.chosen == 0 || self.random.below(POOLED_PLACES) == 0 {
            self.share += std::mem::take(&mut self.pooled);
        }
        Some(self.share)
    }

    /// Tells what the last place used of its share; the places behind it get the rest.
    pub fn spend(&mut self, images: u64) {
        self.images += std::mem::take(&mut self.share).saturating_sub(images);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shares of the places, if each uses at most `inside` besides its own image.
    fn shares(seed: u64, images: u64, places: u64, inside: u64) -> Vec<u64> {
        let mut choice = ImageChoice::new(seed, images, places, inside > 0);
        let mut share = || {
            let used = choice.next_share().map_or(0, |share| share.min(1 + inside));
            choice.spend(used);
            used
        };
        (0..places).map(|_| share()).collect()
    }

    #[test]
    fn all_images_are_given_out_to_as_many_places_as_there_may_be() {
        for (images, places, inside) in [(1, 1, 99), (1, 70, 99), (40, 70, 99), (140, 70, 99), (30, 70, 0)] {
            let shares = shares(3, images, places, inside);
            assert_eq!(shares.iter().sum::<u64>(), images, "{images} over {places}");
            let chosen = shares.iter().filter(|&&share| share > 0).count() as u64;
            let expected = if inside == 0 { images } else { images.div_ceil(2) };
            assert_eq!(chosen, expected, "{images} over {places}");
        }
    }

    #[test]
    fn some_places_have_enough_for_recoveries_from_recoveries() {
        let shares = shares(5, 200, 100, 99);
        assert_eq!(shares.iter().filter(|&&share| share == 0).count(), 0);
        assert!(shares.iter().filter(|&&share| share >= 4).count() > 10, "{shares:?}");
        assert!(shares.iter().filter(|&&share| share == 1).count() > 50, "{shares:?}");
    }

    #[test]
    fn what_a_place_cannot_use_goes_to_later_ones() {
        let mut choice = ImageChoice::new(1, 200, 50, true);
        for _ in 0..49 {
            choice.next_share().unwrap();
            choice.spend(1);
        }
        assert_eq!(choice.next_share(), Some(151));
    }

    #[test]
    fn other_seeds_choose_other_places_all_over() {
        let choices: Vec<Vec<u64>> = (0..40).map(|seed| shares(seed, 20, 100, 9)).collect();
        assert_ne!(choices[0], choices[1]);
        let times = |place: usize| choices.iter().filter(|shares| shares[place] > 0).count();
        // Ten of a hundred places in each of forty choices: four times each, on average.
        assert!((0..100).filter(|&place| times(place) == 0).count() < 10);
        assert!((0..100).all(|place| times(place) < 15));
    }
}
