//! What a reader is beside its sequence number.

use crate::full_merge::OperandMerger;
use crate::meaning::unsupported;
use esker_base::{Result, Tag};
use std::fmt::Debug;
use std::sync::Arc;

/// Where large values are, for entries that only point to them.
pub trait LargeValues: Debug + Send + Sync {
    /// Puts the value of `key` that `pointer` leads to into `value`, in place of what that held.
    ///
    /// # Errors
    /// Whatever reading meets; damage names file and offset.
    fn fetch(&self, key: &[u8], pointer: &[u8], value: &mut Vec<u8>) -> Result<()>;
}

/// What a reader does when an entry points to a large value.
#[derive(Clone, Debug, Default)]
pub enum LargePolicy {
    /// Nothing: there is none. An entry that points to one is an error.
    #[default]
    Unexpected,
    /// Passes it by: who looks at keys alone sees an empty value.
    Skipped,
    /// Fetches it.
    Fetched(Arc<dyn LargeValues>),
}

impl LargePolicy {
    /// Puts the value that a pointer leads to into `value`, in place of what that held; nothing if the reader
    /// passes it by.
    ///
    /// # Errors
    /// Those of [`LargeValues::fetch`]; [`esker_base::Error::Unsupported`] if there should be none.
    pub fn fetch(&self, tag: Tag, key: &[u8], pointer: &[u8], value: &mut Vec<u8>) -> Result<()> {
        value.clear();
        match self {
            LargePolicy::Fetched(values) => values.fetch(key, pointer, value),
            LargePolicy::Skipped => Ok(()),
            LargePolicy::Unexpected => Err(unsupported(tag, key)),
        }
    }
}

/// What decides, beside the sequence number, what a reader sees of an entry. It is fixed for as long as the
/// reader lives.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    /// The moment at which the reader judges expiry times, in milliseconds since 1970. At 0 nothing has
    /// expired.
    pub read_time_ms: u64,
    /// What operands are folded by, where there may be any.
    pub operand_merger: Option<Arc<OperandMerger>>,
    /// What becomes of large values.
    pub large: LargePolicy,
}

impl Reader {
    /// A reader at this moment.
    pub fn at(read_time_ms: u64) -> Reader {
        Reader { read_time_ms, operand_merger: None, large: LargePolicy::default() }
    }

    /// This reader, folding operands so.
    #[must_use]
    pub fn operand_merger(self, operand_merger: Option<Arc<OperandMerger>>) -> Reader {
        Reader { operand_merger, ..self }
    }

    /// This reader, with this for large values.
    #[must_use]
    pub fn with_large(self, large: LargePolicy) -> Reader {
        Reader { large, ..self }
    }

    /// Whether an entry with this expiry time is gone.
    #[inline]
    pub fn is_expired(&self, expiry_ms: u64) -> bool {
        esker_base::expiry::is_over(expiry_ms, self.read_time_ms)
    }
}
