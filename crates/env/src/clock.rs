//! Time, injected.

use std::fmt::Debug;

/// Where time comes from.
pub trait Clock: Send + Sync + Debug {
    /// Milliseconds since 1970 by the wall clock. May jump, also backwards.
    fn wall_ms(&self) -> u64;

    /// Nanoseconds since some fixed moment; never runs backwards.
    fn monotonic_ns(&self) -> u64;
}
