//! Compaction filters: user code that sees the entries a compaction writes, and may keep, change or remove
//! them.
//!
//! # Which entries a filter sees
//! The newest version of a key among the inputs, if it has its value (or a large value that can be read) and
//! is newer than every registered snapshot, so that only readers of the present see it (CF1). Operands are
//! merged first; where they could not be merged, the filter does not see the key. Flushes, and moves of whole
//! tables, call no filter, so it is undefined when, how often, or whether an entry is passed to it.
//!
//! A removed entry acts like an expired put ([`crate::compaction_iter`], rule 5): it becomes a Delete, which
//! hides older versions, so none of them comes back.

use crate::operator::caught;

/// A filter's decision about an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It stays unchanged.
    Keep,
    /// It becomes a delete of the key.
    Remove,
    /// The key gets this value, with the expiry of the old one.
    Change(Vec<u8>),
}

/// Decides about the entries that compactions write.
///
/// It is called on background threads, possibly for several entries at once, and must not call the database.
/// A panic counts as [`Decision::Keep`].
///
/// ```
/// use esker_iter::{CompactionFilter, Decision};
///
/// /// Forgets sessions that were closed.
/// struct Closed;
///
/// impl CompactionFilter for Closed {
///     fn name(&self) -> &str {
///         "closed sessions"
///     }
///     fn filter(&self, _: &[u8], value: &[u8]) -> Decision {
///         if value.starts_with(b"closed") { Decision::Remove } else { Decision::Keep }
///     }
/// }
/// ```
#[doc(alias = "compaction_filter_factory")]
pub trait CompactionFilter: Send + Sync {
    /// Its name, for logs and reports.
    fn name(&self) -> &str;

    /// Decides about an entry.
    fn filter(&self, key: &[u8], value: &[u8]) -> Decision;
}

/// Calls a filter; `None` if it panics, or its value would be too long.
pub(crate) fn ask(filter: &dyn CompactionFilter, key: &[u8], value: &[u8]) -> Option<Decision> {
    let decision = caught(|| Ok(filter.filter(key, value))).ok()?;
    match &decision {
        Decision::Change(value) if value.len() > MAX_CHANGED_LEN => None,
        _ => Some(decision),
    }
}

/// The longest value that fits behind an expiry time.
const MAX_CHANGED_LEN: usize = esker_base::limits::MAX_VALUE_LEN - esker_base::expiry::EXPIRY_LEN;
