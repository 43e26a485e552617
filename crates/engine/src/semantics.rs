//! What the entries of a keyspace mean beyond their bytes: by which time they expire.
//!
//! It hangs on the view that a reader pins, so that the plain path carries nothing for it: who meets an entry that is not
//! a plain put finds here what it needs.

use crate::gaps::Gaps;
use crate::time::Time;
use std::sync::Arc;

/// How entries of one keyspace are to be read.
#[derive(Debug)]
pub(crate) struct Semantics {
    pub(crate) time: Arc<Time>,
    /// Where it has no values.
    pub(crate) gaps: Arc<Gaps>,
}

/// The moment at which a read judges expiry times: fixed for snapshots and iterators, for other reads asked for at the
/// first entry that needs it, which is after the view was loaded (TM3), and then kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadTime {
    /// `UNKNOWN` until it is asked for.
    ms: u64,
}

/// No entry is written with this time in mind: it is the first millisecond of 1970.
const UNKNOWN: u64 = 0;

impl ReadTime {
    /// The present, not asked for yet.
    pub(crate) const PRESENT: ReadTime = ReadTime { ms: UNKNOWN };

    /// This moment.
    pub(crate) fn at(ms: u64) -> ReadTime {
        ReadTime { ms }
    }

    /// The moment, in milliseconds since 1970; the same from the first call on.
    #[inline]
    pub(crate) fn fix(&mut self, semantics: &Semantics) -> u64 {
        if self.ms == UNKNOWN {
            self.ms = semantics.time.now_ms();
        }
        self.ms
    }
}
