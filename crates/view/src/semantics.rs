//! Entry semantics of a keyspace beyond the bytes: the time by which entries expire, and the merge operator.
//!
//! It is attached to the view that a reader pins, so that a plain read carries nothing for it: a reader that
//! finds an entry other than a plain put takes it from here.

use crate::time::Time;
use crate::tombstone_span_cache::TombstoneSpanCache;
use esker_iter::OperandMerger;
use std::sync::{Arc, OnceLock};

/// How entries of one keyspace are read.
#[derive(Debug)]
pub struct Semantics {
    /// The time at which entries expire.
    pub time: Arc<Time>,
    /// Cached spans of keys without values.
    pub tombstone_spans: Arc<TombstoneSpanCache>,
    /// Set once, durably before any operand is written, and never changed. So one word shared by all views
    /// suffices, and a reader that finds an operand finds its merge operator.
    operand_merger: OnceLock<Arc<OperandMerger>>,
    /// The memory budget, which bounds merges of operands.
    budget_bytes: u64,
}

impl Semantics {
    /// The semantics of a keyspace with this merge operator, if it has one.
    pub fn new(time: &Arc<Time>, budget_bytes: u64, operand_merger: Option<OperandMerger>) -> Semantics {
        let semantics = Semantics {
            time: Arc::clone(time),
            tombstone_spans: Arc::default(),
            operand_merger: OnceLock::new(),
            budget_bytes,
        };
        semantics.set_folding(operand_merger);
        semantics
    }

    /// Takes over the merge operator of the options, if there was none yet.
    pub fn set_folding(&self, operand_merger: Option<OperandMerger>) {
        if let Some(operand_merger) = operand_merger {
            let _ = self.operand_merger.set(Arc::new(operand_merger.within(self.budget_bytes)));
        }
    }

    /// The merge operator; `None` in a keyspace without one.
    #[inline]
    pub fn operand_merger(&self) -> Option<&Arc<OperandMerger>> {
        self.operand_merger.get()
    }
}

/// The time at which a read judges expiry: fixed for snapshots and iterators; other reads take it at the
/// first entry that needs it, which is after the view was loaded (TM3), and then keep it.
#[derive(Clone, Copy, Debug)]
pub struct ReadTime {
    /// `UNKNOWN` until it is needed.
    ms: u64,
}

/// No entry has this expiry time: it is the first millisecond of 1970.
const UNKNOWN: u64 = 0;

impl ReadTime {
    /// The present, not determined yet.
    pub const PRESENT: ReadTime = ReadTime { ms: UNKNOWN };

    /// This moment.
    pub fn at(ms: u64) -> ReadTime {
        ReadTime { ms }
    }

    /// The time, in milliseconds since 1970; the same from the first call on.
    #[inline]
    pub fn fix(&mut self, semantics: &Semantics) -> u64 {
        if self.ms == UNKNOWN {
            self.ms = semantics.time.now_ms();
        }
        self.ms
    }
}
