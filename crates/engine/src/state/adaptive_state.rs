//! The state of adaptive tuning in each keyspace, and the hook by which the compaction worker runs it.

use esker_model::advice::{Decision, Design, History, Operations};
use parking_lot::Mutex;

/// The tuning state of a keyspace. Its lock is taken before all others of the store, and no worker waits for
/// it.
#[derive(Debug, Default)]
pub struct Adapting(pub Mutex<AdaptiveState>);

/// What is known of a keyspace since the last change.
#[derive(Debug, Default)]
pub struct AdaptiveState {
    /// When the window began, the operations counted until then, and the design at that time.
    pub window: Option<(u64, Operations, Design)>,
    /// The windows so far.
    pub history: History,
    /// The outcome of the last window.
    pub last: Option<Decision>,
    /// Changes since the open.
    pub changes: u64,
}
