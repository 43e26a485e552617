//! Large values: how a reader treats entries that only point to their value.

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
