//! The state of adaptive tuning in each keyspace, and the hook by which the compaction worker runs it.

use esker_model::advice::{Decision, Design, History, Operations};
use parking_lot::Mutex;

/// The tuning state of a keyspace. Its lock is taken before all others of the store, and no worker waits for
/// it.
#[derive(Debug, Default)]
pub(crate) struct Adapting(pub(crate) Mutex<AdaptiveState>);

/// What is known of a keyspace since the last change.
#[derive(Debug, Default)]
pub(crate) struct AdaptiveState {
    /// When the window began, the operations counted until then, and the design at that time.
    pub(crate) window: Option<(u64, Operations, Design)>,
    pub(crate) history: History,
    pub(crate) last: Option<Decision>,
    pub(crate) changes: u64,
}
