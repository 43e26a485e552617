//! Seeded random numbers and strings.

use std::collections::BTreeSet;

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// From `ESKER_SEED`, or from a seed of the test's own. It prints the seed, which repeats a failure.
    #[expect(clippy::print_stdout, reason = "a failure is repeated by the seed that the test prints")]
    pub fn new(seed: u64) -> Self {
        let given = std::env::var("ESKER_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or(seed);
        println!("ESKER_SEED={seed}");
        Self(seed)
    }

    /// From this seed, whatever `ESKER_SEED` is.
    pub fn of(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; zero if `bound` is.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next_u64() % bound.max(1) as u64) as usize
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of some.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// One of some that are references.
    pub fn choose<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    /// A number of any magnitude.
    pub fn integer(&mut self) -> i64 {
        let shift = self.below(64);
        (self.next_u64() as i64) >> shift
    }

    /// A number from zero to one.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Up to `longest` of the given bytes.
    pub fn bytes(&mut self, alphabet: &[u8], longest: usize) -> Vec<u8> {
        (0..self.below(longest + 1)).map(|_| *self.pick(alphabet)).collect()
    }

    /// Text, an integer, noise or repetition, of up to `longest` bytes.
    pub fn string(&mut self, longest: usize) -> Vec<u8> {
        let len = match self.below(8) {
            0 => self.below(longest + 1),
            _ => self.below(longest.min(40) + 1),
        };
        match self.below(4) {
            0 => self.integer().to_string().into_bytes(),
            1 => (0..len).map(|_| self.next_u64() as u8).collect(),
            2 => {
                let period = 1 + self.below(5);
                (0..len).map(|at| b'a' + (at % period) as u8).collect()
            }
            _ => (0..len).map(|_| b'a' + self.below(3) as u8).collect(),
        }
    }

    /// Strings that are all different.
    pub fn distinct(&mut self, count: usize, longest: usize) -> Vec<Vec<u8>> {
        let mut seen = BTreeSet::new();
        while seen.len() < count {
            let mut string = self.string(longest);
            if seen.contains(&string) {
                string.extend_from_slice(seen.len().to_string().as_bytes());
            }
            seen.insert(string);
        }
        let mut strings: Vec<Vec<u8>> = seen.into_iter().collect();
        self.shuffle(&mut strings);
        strings
    }

    /// Brings all into a random order.
    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        for at in (1..all.len()).rev() {
            let other = self.below(at + 1);
            all.swap(at, other);
        }
    }

    /// How many elements a collection has: often few, sometimes more than Redis packs.
    pub fn size(&mut self) -> usize {
        match self.below(6) {
            0 => 1 + self.below(700),
            _ => 1 + self.below(20),
        }
    }

    /// Flips, removes, inserts or repeats some bytes.
    pub fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len() + 1);
            let until = (at + self.below(8)).min(bytes.len());
            match self.below(5) {
                0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                1 => drop(bytes.drain(at..until)),
                2 => bytes.insert(at, *self.pick(b"\r\n\09$*-\xff")),
                3 => {
                    let copy = bytes[at..until].to_vec();
                    bytes.splice(at..at, copy);
                }
                _ => bytes.truncate(at),
            }
        }
    }
}
