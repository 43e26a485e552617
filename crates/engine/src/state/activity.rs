//! Since when a database is idle, as the compaction worker has seen it.

use esker_base::SeqNo;
use std::sync::atomic::AtomicBool;

/// The last sequence number that was seen, and since when it is the last.
#[derive(Clone, Copy, Debug, Default)]
pub struct Activity {
    /// The last sequence number then.
    pub seqno: SeqNo,
    /// Since when, on the monotonic clock.
    pub since_ns: u64,
}

/// The result of the last check. A hint: relaxed accesses suffice.
#[derive(Debug, Default)]
pub struct IdleState {
    pub(crate) is_idle: AtomicBool,
}
