//! Random numbers: seeds of hashes, so that clients cannot choose keys that meet, and what is picked at
//! random.

use std::sync::atomic::{AtomicU64, Ordering};

/// A seed that clients cannot guess; less random where the system has no randomness, never an error.
pub fn random_seed() -> u64 {
    getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// A number for passwords, which cannot be guessed; `None` where the system has no randomness.
pub fn secret_number() -> Option<u64> {
    getrandom::u64().ok()
}

/// The next number of a sequence that all threads share (SplitMix64).
pub(crate) fn next(state: &AtomicU64) -> u64 {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut mixed = state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
