//! Positions of runs: where inputs stand in reading order, and where output goes.

use esker_base::RunId;
use esker_version::{LevelIndex, Place, Version};
use std::cmp::Ordering;
use std::fmt;

/// A position in reading order: level 0 first, in a level the newest run (greatest order) first. Smaller is
/// newer.
///
/// It is comparable without a tree, so it stays valid for a running job while other jobs change the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunPosition {
    /// The level.
    pub level: LevelIndex,
    /// The run's order; `u64::MAX` is the position in front of all runs of the level.
    pub order: u64,
}

impl Ord for RunPosition {
    fn cmp(&self, other: &RunPosition) -> Ordering {
        self.level.cmp(&other.level).then(other.order.cmp(&self.order))
    }
}

impl PartialOrd for RunPosition {
    fn partial_cmp(&self, other: &RunPosition) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Where output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// A new run, newer than every run in the level when the job ends.
    Front(LevelIndex),
    /// An existing run.
    Into {
        /// Its level.
        level: LevelIndex,
        /// The run.
        run: RunId,
        /// Its order.
        order: u64,
    },
}

impl Position {
    /// The level.
    pub fn level(&self) -> LevelIndex {
        match self {
            Position::Front(level) | Position::Into { level, .. } => *level,
        }
    }

    /// The position in reading order.
    pub fn in_reading_order(&self) -> RunPosition {
        match *self {
            Position::Front(level) => RunPosition { level, order: u64::MAX },
            Position::Into { level, order, .. } => RunPosition { level, order },
        }
    }

    /// The run that output parts join at install. `new_run` is a fresh id, used only for [`Position::Front`].
    pub fn place(&self, version: &Version, new_run: RunId) -> Place {
        match *self {
            Position::Front(level) => version.front(level, new_run),
            Position::Into { level, run, order } => Place { level, run, order },
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Position::Front(level) => write!(f, "a new run of {level}"),
            Position::Into { level, run, .. } => write!(f, "run {run} of {level}"),
        }
    }
}
