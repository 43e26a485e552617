//! Randomness, injected.

use std::fmt::Debug;

/// Where random numbers come from.
pub trait Random: Send + Sync + Debug {
    /// The next 64 random bits.
    fn next_u64(&self) -> u64;
}
