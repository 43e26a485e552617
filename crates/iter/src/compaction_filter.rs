//! Compaction filters: somebody's own code that looks at what a compaction writes, and may keep, change or
//! remove it.
//!
//! # What a filter is shown
//! The newest version of a key among the inputs, if it has a value that lies with it and is newer than every
//! registered snapshot: whoever reads the present is the only one who can see it (CF1). Operands are folded
//! first; where they could not be folded, the key is not shown. Flushes, and moves of whole tables, show
//! nothing, so it is not known when, how often, or whether an entry is shown.
//!
//! What is removed acts like a put that has expired ([`crate::retained`], rule 5): it becomes a Delete, which
//! hides what is older, so no older version comes back.

use crate::operator::caught;

/// What becomes of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It stays as it is.
    Keep,
    /// The key is gone, as if it had been deleted.
    Remove,
    /// The key has this value, for as long as it would have had the old one.
    Change(Vec<u8>),
}

/// Looks at the entries that compactions write.
///
/// It is called on background threads, for several entries at once if there are several, and must not call
/// the database. A panic counts as [`Decision::Keep`].
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
pub trait CompactionFilter: Send + Sync {
    /// Its name, for people.
    fn name(&self) -> &str;

    /// What becomes of an entry.
    fn filter(&self, key: &[u8], value: &[u8]) -> Decision;
}

/// What a filter says of an entry; `None` if it panics, or its value would be too long.
pub(crate) fn ask(filter: &dyn CompactionFilter, key: &[u8], value: &[u8]) -> Option<Decision> {
    let decision = caught(|| Ok(filter.filter(key, value))).ok()?;
    match &decision {
        Decision::Change(value) if value.len() > MAX_CHANGED_LEN => None,
        _ => Some(decision),
    }
}

/// The longest value that fits behind an expiry time.
const MAX_CHANGED_LEN: usize = esker_base::limits::MAX_VALUE_LEN - esker_base::expiry::EXPIRY_LEN;
