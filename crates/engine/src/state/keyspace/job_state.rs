//! Background jobs of one keyspace: which run, how the last ones went, what they moved.

use super::compaction_outcome::CompactionOutcome;
use crate::state::no_plan_cache::NoPlanCache;
use crate::state::traffic::Traffic;
use esker_strategy::Busy;
use parking_lot::Mutex;

/// The state of a keyspace's flushes and compactions.
#[derive(Debug, Default)]
pub struct JobState {
    /// Held by the flush of this keyspace: flushes install oldest first (IN4) because there is one at a time.
    pub flushing: Mutex<()>,
    /// Plans that are being executed.
    pub busy: Mutex<Busy>,
    /// The cached last call of the strategy without a plan.
    pub no_plan_cache: Mutex<NoPlanCache>,
    /// How compactions went, for writers that wait for them.
    pub compaction_outcome: CompactionOutcome,
    /// Bytes that flushes and compactions moved.
    pub traffic: Traffic,
}
