//! The memtables' share of the memory budget: whether the block cache may use it
//! ([`crate::write::memory_arbiter`]).

use esker_options::MemoryPlan;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The state of the memtables' share.
#[derive(Debug)]
pub struct MemoryArbiter {
    /// The cache may use it. Set and cleared under the writers' lock.
    pub is_lent: AtomicBool,
    /// Payload that memtables may hold at present (LN1).
    pub granted_bytes: AtomicU64,
    /// The cache may use it as soon as it is full. Set and cleared as `is_lent` is.
    pub is_offered: AtomicBool,
    /// When the log last rotated, on the monotonic clock.
    pub quiet_since_ns: AtomicU64,
    /// Held while shares are moved (LN5).
    pub moving: Mutex<()>,
}

impl MemoryArbiter {
    /// The initial state: the share is lent, and memtables may hold the kept part; a cache of a fixed size is
    /// never lent anything.
    pub fn new(memory: &MemoryPlan) -> MemoryArbiter {
        let is_lent = memory.fixed_cache_bytes.is_none();
        let granted_bytes = if is_lent { memory.kept_bytes() } else { memory.memtables_bytes };
        MemoryArbiter {
            is_lent: AtomicBool::new(is_lent),
            granted_bytes: AtomicU64::new(granted_bytes),
            is_offered: AtomicBool::new(false),
            quiet_since_ns: AtomicU64::new(0),
            moving: Mutex::new(()),
        }
    }

    /// Whether the cache may use the share.
    pub fn is_lent(&self) -> bool {
        self.is_lent.load(Ordering::Acquire)
    }

    /// Payload that memtables may hold at present.
    pub fn granted_bytes(&self) -> u64 {
        self.granted_bytes.load(Ordering::Acquire)
    }
}
