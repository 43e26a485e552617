//! Read context: what determines, beside the sequence number, what a reader sees.

use crate::full_merge::OperandMerger;
use crate::meaning::unsupported;
use esker_base::{Result, Tag};
use std::fmt::Debug;
use std::sync::Arc;

/// Fetches large values, to which entries only point.
pub trait LargeValues: Debug + Send + Sync {
    /// Replaces the contents of `value` by the value of `key` at `pointer`.
    ///
    /// # Errors
    /// Read errors; damage names file and offset.
    fn fetch(&self, key: &[u8], pointer: &[u8], value: &mut Vec<u8>) -> Result<()>;
}

/// How a reader treats pointers to large values.
#[derive(Clone, Debug, Default)]
pub enum LargePolicy {
    /// As an error: the source should have none.
    #[default]
    Unexpected,
    /// Skips them: a keys-only reader returns an empty value.
    Skipped,
    /// Fetches them.
    Fetched(Arc<dyn LargeValues>),
}

impl LargePolicy {
    /// Replaces the contents of `value` by the value at `pointer`; leaves it empty if large values are
    /// skipped.
    ///
    /// # Errors
    /// Those of [`LargeValues::fetch`]; [`esker_base::Error::Unsupported`] if large values are unexpected.
    pub fn fetch(&self, tag: Tag, key: &[u8], pointer: &[u8], value: &mut Vec<u8>) -> Result<()> {
        value.clear();
        match self {
            LargePolicy::Fetched(values) => values.fetch(key, pointer, value),
            LargePolicy::Skipped => Ok(()),
            LargePolicy::Unexpected => Err(unsupported(tag, key)),
        }
    }
}

/// What determines, beside the sequence number, what a reader sees of an entry. Constant for the life of the
/// reader.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    /// The time at which the reader evaluates expiry times, in milliseconds since 1970. At 0 nothing has
    /// expired.
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
    pub fn is_expired(&self, expiry_ms: u64) -> bool {
        esker_base::expiry::is_over(expiry_ms, self.read_time_ms)
    }
}
