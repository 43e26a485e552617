//! What a reader is beside its sequence number.

use crate::folding::Folding;
use std::sync::Arc;

/// What decides, beside the sequence number, what a reader sees of an entry. It is fixed for as long as the reader lives.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    /// The moment at which the reader judges expiry times, in milliseconds since 1970. At 0 nothing has expired.
    pub read_time_ms: u64,
    /// What operands are folded by, where there may be any.
    pub folding: Option<Arc<Folding>>,
}

impl Reader {
    /// A reader at this moment.
    pub fn at(read_time_ms: u64) -> Reader {
        Reader { read_time_ms, folding: None }
    }

    /// This reader, folding operands so.
    #[must_use]
    pub fn folding(self, folding: Option<Arc<Folding>>) -> Reader {
        Reader { folding, ..self }
    }

    /// Whether an entry with this expiry time is gone.
    #[inline]
    pub fn is_expired(&self, expiry_ms: u64) -> bool {
        esker_base::expiry::is_over(expiry_ms, self.read_time_ms)
    }
}
