//! Settings of a run: scale, seed, scratch directory.

use std::fmt;
use std::path::PathBuf;
use std::process::Command;

/// How large an experiment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scale {
    /// For tests of the experiments: ends in seconds in an unoptimised build, and its numbers mean nothing.
    Tiny,
    /// Some seconds: whether the pages hold. Claims about times and large sizes need more.
    Quick,
    /// Some minutes; documents cite these numbers.
    Full,
}

impl Scale {
    /// The value for this scale.
    pub fn pick<T>(self, tiny: T, quick: T, full: T) -> T {
        match self {
            Scale::Tiny => tiny,
            Scale::Quick => quick,
            Scale::Full => full,
        }
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.pick("tiny", "quick", "full"))
    }
}

/// Starts this program once more, with these arguments of `esker experiment`.
pub type StartChild = fn(arguments: &[&str]) -> std::io::Result<Command>;

/// Settings of a run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How large it is.
    pub scale: Scale,
    /// Seed of all random choices.
    pub seed: u64,
    /// Directory for scratch files.
    pub scratch: PathBuf,
    /// Starts another process of this program, for measurements that need one; without it, they are left out.
    pub start_child: Option<StartChild>,
}
