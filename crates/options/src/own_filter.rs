//! A user's compaction filter as an option: code, so it is attached and not stored.

use esker_iter::CompactionFilter;
use std::fmt;
use std::sync::Arc;

/// A user's compaction filter. Equal names mean equal filters.
#[derive(Clone)]
pub struct OwnFilter(pub Arc<dyn CompactionFilter>);

impl OwnFilter {
    /// The name that its user gave it.
    pub fn name(&self) -> &str {
        self.0.name()
    }
}

impl PartialEq for OwnFilter {
    fn eq(&self, other: &OwnFilter) -> bool {
        self.name() == other.name()
    }
}

impl fmt::Debug for OwnFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name().fmt(f)
    }
}
