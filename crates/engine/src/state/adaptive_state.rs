//! The state of adaptive tuning in each keyspace, and the hook by which the compaction worker runs it.

use crate::state::keyspace::KeyspaceState;
use crate::state::store::Store;
use esker_model::advice::{Decision, Design, History, Operations};
use parking_lot::Mutex;
use std::sync::Arc;

/// Evaluates windows that have ended and applies changes: what the layer above passes to the open.
pub(crate) type AdaptKeyspaces = fn(&Store, &[Arc<KeyspaceState>]);

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
