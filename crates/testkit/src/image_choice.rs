//! Divides a number of images among the places where a crash leaves one: a seeded choice of half as many
//! places as there are images, each with an equal share. The place itself takes one of its share; the others
//! are for crashes of the recovery from it.

use esker::parts::env::SeededRandom;

/// The choice of some of many places, in their order.
#[derive(Debug)]
pub struct ImageChoice {
    random: SeededRandom,
    /// To be divided among the places that are still to be chosen.
    images: u64,
    /// Places to be chosen yet.
    chosen: u64,
    /// Places that have not been offered.
    places: u64,
}

impl ImageChoice {
    /// Divides `images` among some of `places`; among as many as possible if nothing can crash inside of one.
    pub fn new(seed: u64, images: u64, places: u64, has_places_inside: bool) -> ImageChoice {
        let chosen = if has_places_inside { images.div_ceil(2) } else { images };
        ImageChoice { random: SeededRandom::new(seed), images, chosen: chosen.min(places), places }
    }

    /// How many images the next place may take, one of them its own; `None` if it was not chosen.
    pub fn next_share(&mut self) -> Option<u64> {
        // Of the places that are left each is chosen with the same probability; at the end none is missing.
        let is_chosen = self.random.below(self.places) < self.chosen;
        self.places = self.places.saturating_sub(1);
        if !is_chosen {
            return None;
        }
        let share = self.images / self.chosen;
        self.chosen -= 1;
        Some(share)
    }

    /// Takes off what the last place used of its share; the places behind it get the rest.
    pub fn spend(&mut self, images: u64) {
        self.images = self.images.saturating_sub(images);
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
    fn all_images_are_given_out_and_evenly() {
        for (images, places, inside) in
            [(1, 1, 9), (1, 70, 9), (40, 70, 9), (140, 70, 1), (333, 70, 9), (30, 70, 0)]
        {
            let shares = shares(3, images, places, inside);
            assert_eq!(shares.iter().sum::<u64>(), images, "{images} over {places}");
            let used: Vec<u64> = shares.iter().copied().filter(|&share| share > 0).collect();
            let (least, most) = (used.iter().min().unwrap(), used.iter().max().unwrap());
            assert!(most - least <= 1, "{images} over {places}: {shares:?}");
        }
    }

    #[test]
    fn what_a_place_cannot_use_goes_to_later_ones() {
        let mut choice = ImageChoice::new(1, 20, 4, true);
        let mut shares = Vec::new();
        for used in [1, 1, 9, 9] {
            shares.push(choice.next_share().unwrap());
            choice.spend(used);
        }
        assert_eq!(shares, [5, 6, 9, 9]);
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
