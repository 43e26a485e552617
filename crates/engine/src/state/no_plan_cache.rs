//! The cache of compaction picks without a plan: the inputs of the last call of a strategy that returned
//! none.

use esker_options::KeyspaceOptions;
use esker_version::Version;
use esker_view::snapshot::Moment;
use std::sync::Arc;

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
