//! Read context: what determines, beside the sequence number, what a reader sees.

use crate::full_merge::OperandMerger;
use crate::large_values::LargePolicy;
use std::fmt::Debug;
use std::sync::Arc;

/// What, beside the sequence number, determines what a reader sees of an entry; constant.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    /// Read time for expiry, in milliseconds since 1970. At 0 nothing has expired.
    pub read_time_ms: u64,
    /// Merges operands, if the keyspace has a merge operator.
    pub operand_merger: Option<Arc<OperandMerger>>,
    /// Treatment of large values.
    pub large: LargePolicy,
}

impl Reader {
    /// A reader at this time.
    pub fn at(read_time_ms: u64) -> Reader {
        Reader { read_time_ms, operand_merger: None, large: LargePolicy::default() }
    }

    /// Sets the operand merger.
    #[must_use]
    pub fn operand_merger(self, operand_merger: Option<Arc<OperandMerger>>) -> Reader {
        Reader { operand_merger, ..self }
    }

    /// Sets the treatment of large values.
    #[must_use]
    pub fn with_large(self, large: LargePolicy) -> Reader {
        Reader { large, ..self }
    }

    /// Whether an entry with this expiry time has expired for this reader.
    #[inline]
    pub(crate) fn is_expired(&self, expiry_ms: u64) -> bool {
        esker_base::expiry::is_over(expiry_ms, self.read_time_ms)
    }
}
