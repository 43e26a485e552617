//! The results of a simulation.

use esker_strategy::{Reason, Strategy};

/// A quantity over time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Amplification {
    /// On average.
    pub mean: f64,
    /// The maximum.
    pub max: f64,
}

/// Write stalls. Zero without a clock ([`crate::Pace::Settled`]).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stalls {
    /// Seconds in which writers were slowed.
    pub slowed_s: f64,
    /// Seconds in which writers were stopped.
    pub stopped_s: f64,
    /// The longest stop.
    pub longest_stop_s: f64,
    /// The number of stops.
    pub stops: u64,
}

/// How a tree with too many flushes was made affordable: its small levels were left out and replaced by a
/// formula.
///
/// A level between the first and the last costs the same whatever its size, so a tree with a memtable as
/// large as one of its levels behaves as the whole tree except for the levels above that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scaling {
    /// The memtable of the simulation over that of the scenario.
    pub memtable_factor: f64,
    /// Levels that were left out.
    pub levels: u32,
    /// Write amplification that was added for each.
    pub writes_of_a_level: f64,
    /// Runs that were added for each, on average.
    pub runs_of_a_level: f64,
}

/// The cost of a strategy.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The strategy.
    pub strategy: Strategy,
    /// Bytes of keys and values written in the measured phase.
    pub user_bytes: f64,
    /// Bytes that flushes wrote.
    pub flushed_bytes: u64,
    /// Bytes that merges read.
    pub read_bytes: u64,
    /// Bytes that merges wrote.
    pub merged_bytes: u64,
    /// Bytes that merges wrote, by reason; the largest first.
    pub causes: Vec<(Reason, u64)>,
    /// Bytes written to tables, without the log, over bytes of keys and values.
    pub write_amplification: f64,
    /// The same including the work that remains when writing ends, and idle work.
    pub drained_write_amplification: f64,
    /// Bytes of tables over those of tables that hold only live data.
    pub space: Amplification,
    /// The maximum when all work due to a flush is done.
    pub space_at_rest: f64,
    /// The maximum of everything on disk, with unfinished outputs and dead parts of files.
    pub transient_space: f64,
    /// After all work, idle work included.
    pub drained_space: f64,
    /// Runs that may hold a key.
    pub runs: Amplification,
    /// False-positive block reads of a lookup of an absent key, on average.
    pub reads_in_vain: f64,
    /// Blocks that a lookup of a present key reads, on average, with cold caches.
    pub reads_found: f64,
    /// Bytes of filters, on average.
    pub filter_bytes: f64,
    /// Merges.
    pub jobs: u64,
    /// Moves and drops: plans without output.
    pub free_jobs: u64,
    /// The most bytes one merge wrote.
    pub largest_job_bytes: u64,
    /// Write stalls.
    pub stalls: Stalls,
    /// Seconds that the measured writes took; 0 without a clock.
    pub elapsed_s: f64,
    /// Levels with tables in the end: name, runs and bytes.
    pub levels: Vec<(String, usize, u64)>,
    /// Set if the tree was too large to be simulated flush by flush.
    pub scaling: Option<Scaling>,
}
