//! Background jobs of one keyspace: which run, how the last ones went, what they moved, and whether the
//! compaction picker found nothing to do.

use super::compaction_outcome::CompactionOutcome;
use crate::state::traffic::Traffic;
use esker_options::KeyspaceOptions;
use esker_strategy::{Busy, SetAside};
use esker_version::Version;
use esker_view::snapshot::Moment;
use parking_lot::Mutex;
use std::sync::Arc;

/// The state of a keyspace's flushes and compactions.
#[derive(Debug, Default)]
pub struct JobState {
    /// Held by the flush of this keyspace: flushes install oldest first (IN4) because there is one at a time.
    pub flushing: Mutex<()>,
    /// Plans that are being executed.
    pub busy: Mutex<Busy>,
    /// The files of `busy` that are set aside, for callers that cannot take that lock.
    set_aside: Mutex<SetAside>,
    /// The cached last call of the strategy without a plan.
    pub no_plan_cache: Mutex<NoPlanCache>,
    /// How compactions went, for writers that wait for them.
    pub compaction_outcome: CompactionOutcome,
    /// Bytes that flushes and compactions moved.
    pub traffic: Traffic,
}

impl JobState {
    /// The files that no merge reads (SA1).
    pub fn set_aside(&self) -> SetAside {
        Arc::clone(&self.set_aside.lock())
    }

    /// Sets the files that no merge reads.
    pub(crate) fn change_set_aside(&self, files: SetAside) {
        *self.set_aside.lock() = Arc::clone(&files);
        self.busy.lock().set_aside(files);
        self.no_plan_cache.lock().clear();
    }
}

/// The inputs of a call of the strategy that returned no plan while no job ran.
#[derive(Debug)]
pub struct NoPlan {
    /// The version that was planned for.
    pub version: Arc<Version>,
    /// The options then.
    pub options: Arc<KeyspaceOptions>,
    /// The oldest snapshot then.
    pub oldest: Option<Moment>,
    pub(crate) is_idle: bool,
    /// Whether the idle budget was available.
    pub has_idle_budget: bool,
    /// Whether scans triggered a compaction.
    pub is_scanned: bool,
    /// On the monotonic clock.
    pub until_ns: u64,
}

/// The last call of a keyspace's strategy without a plan, if it is cached.
#[derive(Debug, Default)]
pub struct NoPlanCache {
    /// The last answer that there is nothing to do.
    pub last: Option<NoPlan>,
    /// Incremented whenever the cache is cleared, so that the result of a concurrent call is not stored.
    pub epoch: u64,
}

impl NoPlanCache {
    /// Clears the cache.
    pub fn clear(&mut self) {
        self.epoch += 1;
        self.last = None;
    }

    /// Whether the strategy was called with the same inputs and returned no plan.
    pub fn has(&self, asked: &NoPlan) -> bool {
        self.last.as_ref().is_some_and(|last| {
            Arc::ptr_eq(&last.version, &asked.version)
                && Arc::ptr_eq(&last.options, &asked.options)
                && last.oldest == asked.oldest
                && last.is_idle == asked.is_idle
                && last.has_idle_budget == asked.has_idle_budget
                && last.is_scanned == asked.is_scanned
                && asked.until_ns < last.until_ns
        })
    }
}
