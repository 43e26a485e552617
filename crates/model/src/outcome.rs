//! What a simulation gives.

use esker_strategy::{Reason, Strategy};

/// Something over time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Amplification {
    /// On average.
    pub mean: f64,
    /// At worst.
    pub max: f64,
}

/// Time in which writers could not write as they wanted. Zero if time does not matter
/// ([`crate::Pace::Settled`]).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stalls {
    /// Seconds in which they were slowed.
    pub slowed_s: f64,
    /// Seconds in which they stood still.
    pub stopped_s: f64,
    /// The longest standstill.
    pub longest_stop_s: f64,
    /// How often they stood still.
    pub stops: u64,
}

/// How a tree that takes too many flushes was made affordable: its small levels were left out and a formula
/// put in their place.
///
/// A level between the first and the last costs the same whatever its size, so a tree with a memtable as
/// large as one of its levels does everything that the whole tree does but for the levels above that.
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

/// What a strategy cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The strategy.
    pub strategy: Strategy,
    /// Bytes of keys and values that were written while it was counted.
    pub user_bytes: f64,
    /// Bytes that flushes wrote.
    pub flushed_bytes: u64,
    /// Bytes that merges read.
    pub read_bytes: u64,
    /// Bytes that merges wrote.
    pub merged_bytes: u64,
    /// Bytes that merges wrote, by why; the largest first.
    pub causes: Vec<(Reason, u64)>,
    /// Bytes written to tables, the log not among them, over bytes of keys and values.
    pub write_amplification: f64,
    /// The same with everything that is to be done when writing ends, the work of an idle database included.
    pub drained_write_amplification: f64,
    /// Bytes of tables over those of tables that hold only what is alive.
    pub space: Amplification,
    /// At most when all is done that a flush made necessary.
    pub space_at_rest: f64,
    /// At worst with everything else on the disk: outputs in the making and dead parts of files.
    pub transient_space: f64,
    /// After all is done, idle work included.
    pub drained_space: f64,
    /// Runs that may hold a key.
    pub runs: Amplification,
    /// Blocks that a lookup of an absent key reads in vain, on average.
    pub reads_in_vain: f64,
    /// Blocks that a lookup of a key reads, on average, if caches are cold.
    pub reads_found: f64,
    /// Bytes of filters, on average.
    pub filter_bytes: f64,
    /// Merges.
    pub jobs: u64,
    /// Moves and drops: plans that write nothing.
    pub free_jobs: u64,
    /// Most bytes that a merge wrote.
    pub largest_job_bytes: u64,
    /// Time without full speed.
    pub stalls: Stalls,
    /// Seconds that the counted writes took; 0 if time does not matter.
    pub elapsed_s: f64,
    /// Levels with tables in the end, and their runs.
    pub levels: Vec<(String, usize, u64)>,
    /// Set if the tree was too large to be simulated flush by flush.
    pub scaling: Option<Scaling>,
}
