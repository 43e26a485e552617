//! Merges that hand on what of their inputs is in the cache.
//!
//! The blocks that take the place of those that are resident go into the cache when they are written, as [`esker_sst::Heir`] says. Here is
//! how the tables come to them: their file is known, with the home that they were given, before the tree has it, and it is opened and
//! its slots filled by the merge, so that the first lookup after the install finds everything as it was before.
//!
//! * HO9. What fails here costs time: the merge goes on, and readers open what they need, as without.
//! * HO10. A job that fails leaves nothing: its homes go with its outputs, and the log lane, which is asked for, removes what lies under their
//!   numbers. Until then it is charged, and goes like other blocks that nobody asks for.

use crate::output::Outputs;
use crate::scheduler::Lane;
use crate::store::Store;
use crate::tree::{Access, TableFile, TableFiles};
use esker_base::KeyspaceId;
use esker_sst::{Heir, Warmth};
use std::sync::Arc;

/// What the writers of a merge's tables need to hand blocks on.
pub(crate) struct Heirs<'a> {
    pub(crate) files: &'a TableFiles,
    pub(crate) warmth: Arc<Warmth>,
}

impl Heirs<'_> {
    /// Hands on the blocks of one table.
    pub(crate) fn heir(&self, keyspace: KeyspaceId) -> Heir {
        Heir::new(&self.files.tables, Some(self.files.watch_of(keyspace)), &self.warmth)
    }
}

impl Store {
    /// Opens the tables that have blocks in the cache, which are durable and about to be installed. Their files are to be held until they are.
    pub(crate) fn open_heirs(&self, keyspace: KeyspaceId, tables: &mut Outputs<'_>) -> Vec<Arc<TableFile>> {
        let inherit = |(part, inheritance): (&_, esker_sst::Inheritance)| {
            let file = self.files.file_of(keyspace, part);
            file.identity().inherit(inheritance.home());
            match file.table(Access::Use) {
                Ok(table) => table.take_over(&inheritance),
                Err(error) => tracing::debug!(%error, "a new table could not be opened yet"),
            }
            file
        };
        tables.take_inheritances().into_iter().map(inherit).collect()
    }

    /// Has removed what a job that failed has left in the cache, if there is anything.
    pub(crate) fn forget_heirs(&self) {
        if self.files.cache().has_departed() {
            self.scheduler.request(Lane::Log);
        }
    }
}
