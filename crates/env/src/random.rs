//! Random numbers: the source of randomness, replaceable in tests.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

/// A source of random numbers.
pub trait Random: Send + Sync + Debug {
    /// The next 64 random bits.
    fn next_u64(&self) -> u64;
}

/// The increment of SplitMix64 (Steele, Lea and Flood, 2014): 2^64 divided by the golden ratio, made odd.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// SplitMix64's output function: a bijection that hides the counter.
#[inline]
fn mix(counter: u64) -> u64 {
    let mut word = counter;
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// The operating system's randomness.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    #[expect(clippy::disallowed_methods, reason = "this is the replacement that the ban names")]
    fn next_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        match getrandom::fill(&mut bytes) {
            Ok(()) => u64::from_le_bytes(bytes),
            // Only a sandbox that forbids the call gets here. Esker needs randomness so that two lives of a
            // log differ (salts) and that keys do not choose their hash shard, not for secrecy; time, process
            // and a counter distinguish lives.
            Err(_) => without_the_system(),
        }
    }
}

fn without_the_system() -> u64 {
    use crate::Clock;
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let calls = CALLS.fetch_add(1, Ordering::Relaxed);
    let clock = crate::SystemClock::new();
    let address = std::ptr::from_ref(&clock).addr() as u64;
    let process = u64::from(std::process::id());
    mix(mix(clock.wall_ms() ^ address.rotate_left(32)) ^ mix(process ^ calls.wrapping_mul(GOLDEN)))
}

/// A reproducible sequence from a seed: SplitMix64. Between threads, the scheduler decides the order.
#[derive(Debug)]
pub struct SeededRandom {
    counter: AtomicU64,
}

impl SeededRandom {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> SeededRandom {
        SeededRandom { counter: AtomicU64::new(seed) }
    }

    /// A number below `bound`; 0 if `bound` is 0. The bias is at most `bound` in 2^64.
    pub fn below(&self, bound: u64) -> u64 {
        // The high half of a 128-bit product scales without a division.
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

impl Random for SeededRandom {
    #[inline]
    fn next_u64(&self) -> u64 {
        mix(self.counter.fetch_add(GOLDEN, Ordering::Relaxed).wrapping_add(GOLDEN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_sequence() {
        // The first outputs of the published SplitMix64 for seed 1234567.
        let random = SeededRandom::new(1_234_567);
        let numbers: Vec<u64> = (0..3).map(|_| random.next_u64()).collect();
        assert_eq!(
            numbers,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn numbers_below_a_bound_cover_it_and_stay_below() {
        let random = SeededRandom::new(7);
        let mut seen = [0u32; 6];
        for _ in 0..600 {
            seen[random.below(6) as usize] += 1;
        }
        assert!(seen.iter().all(|&count| count > 50), "{seen:?}");
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn system_randomness_does_not_repeat() {
        assert_ne!(SystemRandom.next_u64(), SystemRandom.next_u64());
        assert_ne!(without_the_system(), without_the_system());
    }
}
