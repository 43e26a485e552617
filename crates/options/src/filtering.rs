//! The compaction filter option: the code that a keyspace's compactions call.

use super::KeyspaceOptions;
use crate::own_filter::OwnFilter;
use esker_iter::CompactionFilter;
use std::sync::Arc;

impl KeyspaceOptions {
    /// Sets a filter that is called for the output of the keyspace's compactions, and may keep, change or
    /// remove entries. Default: none.
    ///
    /// It gets only values that no older reader can see: nothing that a `Snapshot` or a transaction
    /// still needs. Large values are read from their blob files for it, so a filter in such a keyspace makes
    /// compactions cost as much as the values; and where a compaction rewrites blob files, values may be
    /// removed, but not changed before the next compaction. It is code, so it is not stored: attach it after
    /// each open, by `Database::keyspace_with`, `Keyspace::update_options`, or, for the
    /// keyspace "default", [`crate::Options::keyspace_options`]. Compactions before that run without it.
    ///
    /// A change by a filter is no write: it has no sequence number, notifies no stream, conflicts with no
    /// transaction, and is not in the stream of changes. Open cursors and ranges may still see entries that
    /// it removed.
    ///
    /// ```
    /// # fn main() -> esker_base::Result<()> {
    /// use esker_iter::{CompactionFilter, Decision};
    /// use esker_options::KeyspaceOptions;
    /// use std::sync::Arc;
    ///
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
    ///
    /// let sessions = KeyspaceOptions::default().compaction_filter(Arc::new(Closed));
    /// # Ok(()) }
    /// ```
    pub fn compaction_filter(mut self, filter: Arc<dyn CompactionFilter>) -> KeyspaceOptions {
        self.compaction_filter = Some(OwnFilter(filter));
        self
    }

    /// The compaction filter's name, if there is one.
    pub fn compaction_filter_name(&self) -> Option<&str> {
        self.compaction_filter.as_ref().map(OwnFilter::name)
    }
}
