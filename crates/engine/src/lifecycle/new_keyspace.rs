//! A keyspace that joins an open database: from the manifest at open, or created later.

use crate::state::commit_state::{ActiveKeyspace, MemtableLimits};
use crate::state::keyspace::KeyspaceState;
use crate::state::scheduler::{Scheduler, WorkerPool};
use crate::state::write_control::pace::Pace;
use crate::write::switch_memtable::stub_memtable;
use esker_base::{KeyspaceId, Result};
use esker_memtable::ArenaPool;
use esker_options::{KeyspaceOptions, MemoryPlan};
use esker_view::semantics::Semantics;
use esker_view::tree::Tree;
use esker_view::{MemtableView, SuperVersion, ViewCell};
use std::sync::Arc;

/// Identity and content of a keyspace.
pub(super) struct NewKeyspace {
    pub(super) id: KeyspaceId,
    pub(super) name: Arc<str>,
    pub(super) options: KeyspaceOptions,
    pub(super) tree: Arc<Tree>,
    /// Newest first.
    pub(super) sealed: Vec<Arc<MemtableView>>,
    pub(super) semantics: Semantics,
}

impl NewKeyspace {
    /// The keyspace with an empty active memtable, and its writable side.
    ///
    /// # Errors
    /// Those of making a memtable.
    pub(super) fn activate(
        self,
        memory: &MemoryPlan,
        arenas: &ArenaPool,
        scheduler: &Arc<Scheduler>,
    ) -> Result<(Arc<KeyspaceState>, ActiveKeyspace)> {
        let limits = MemtableLimits::new(&self.options, memory);
        let (memtable, inserter) = stub_memtable(self.options.memtable, arenas)?;
        let tombstone_spans = Arc::clone(&self.semantics.tombstone_spans);
        let view = ViewCell::new(SuperVersion {
            active: Arc::clone(&memtable),
            sealed: self.sealed,
            tree: self.tree,
            semantics: Arc::new(self.semantics),
        });
        let keyspace = Arc::new(KeyspaceState::new(self.id, self.name, self.options, view));
        let scheduler = Arc::clone(scheduler);
        keyspace.tuning.scans.set_notify(move || scheduler.request(WorkerPool::Compaction));
        let active = ActiveKeyspace {
            keyspace: Arc::clone(&keyspace),
            memtable,
            inserter,
            tombstone_spans,
            limits,
            pace: Pace::default(),
            bytes: 0,
            entries: 0,
            user_bytes: 0,
        };
        Ok((keyspace, active))
    }
}
