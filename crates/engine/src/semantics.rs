//! What the entries of a keyspace mean beyond their bytes: by which time they expire, and what operands are
//! folded by.
//!
//! It hangs on the view that a reader pins, so that the plain path carries nothing for it: who meets an entry
//! that is not a plain put finds here what it needs.

use crate::gaps::Gaps;
use crate::options::KeyspaceOptions;
use crate::time::Time;
use esker_iter::Folding;
use std::sync::{Arc, OnceLock};

/// How entries of one keyspace are to be read.
#[derive(Debug)]
pub(crate) struct Semantics {
    pub(crate) time: Arc<Time>,
    /// Where it has no values.
    pub(crate) gaps: Arc<Gaps>,
    /// Set once, durably before, and for good: there may be operands of it from then on. So one word shared
    /// by all views does, and a reader that finds an operand finds what to fold it by.
    folding: OnceLock<Arc<Folding>>,
}

impl Semantics {
    /// The semantics of the keyspace of this name with these options.
    pub(crate) fn new(time: &Arc<Time>, options: &KeyspaceOptions, name: &Arc<str>) -> Semantics {
        let semantics = Semantics { time: Arc::clone(time), gaps: Arc::default(), folding: OnceLock::new() };
        semantics.follow(options, name);
        semantics
    }

    /// Takes over the merge operator of the options, if there was none yet.
    pub(crate) fn follow(&self, options: &KeyspaceOptions, name: &Arc<str>) {
        if let Some(folding) = options.folding(name) {
            let _ = self.folding.set(folding);
        }
    }

    /// What operands are folded by; `None` in a keyspace that takes none.
    #[inline]
    pub(crate) fn folding(&self) -> Option<&Arc<Folding>> {
        self.folding.get()
    }
}

/// The moment at which a read judges expiry times: fixed for snapshots and iterators, for other reads asked
/// for at the first entry that needs it, which is after the view was loaded (TM3), and then kept.
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
