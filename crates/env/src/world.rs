//! The [`Env`]: file system, clock, randomness and threads in one value.

use crate::{Clock, FileSystem, Random};
use std::sync::Arc;

/// How background work runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Background {
    /// On threads of its own.
    Threads,
    /// Inside the calls of the one thread that uses the database, at moments chosen by a seed: what a
    /// deterministic test wants.
    Stepped {
        /// Decides which background step runs when.
        seed: u64,
    },
}

/// Everything the engine knows of the outside world.
#[derive(Clone, Debug)]
pub struct Env {
    /// Where files live.
    pub fs: Arc<dyn FileSystem>,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// Where random numbers come from.
    pub random: Arc<dyn Random>,
    /// How background work runs.
    pub background: Background,
}
