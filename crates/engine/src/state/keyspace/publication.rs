//! Publication of a keyspace's trees: one at a time, with facts of the published one that writers read
//! without loading it.

use esker_options::KeyspaceOptions;
use esker_strategy::{BlobSpace, due_permille};
use esker_version::LevelIndex;
use esker_view::tree::{Tree, TreeRun};
use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The lock under which trees are published, and facts of the published one.
#[derive(Debug, Default)]
pub struct Publication {
    /// See [`Publication::lock`].
    lock: Mutex<()>,
    /// Runs in level 0.
    level0_runs: AtomicU64,
    /// Whether blob garbage collection is due.
    is_blob_gc_due: AtomicBool,
}

impl Publication {
    /// Held while a tree is built and published (OT5): by installs, by table cache eviction, and by a drop.
    /// No I/O happens under it.
    pub fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock()
    }

    /// Recomputes the facts; called after each published change of the tree.
    pub(crate) fn note_tree(&self, tree: &Tree, options: &KeyspaceOptions) {
        let migration = options.migration();
        // Runs from before a change of strategy must not make writers wait: they were in form then.
        let counts = |run: &TreeRun| {
            run.level == LevelIndex::FLUSH
                && migration
                    .is_none_or(|migration| run.parts.iter().any(|part| !migration.is_old(&part.meta)))
        };
        let runs = tree.runs.iter().filter(|run| counts(run)).count();
        self.level0_runs.store(runs as u64, Ordering::Relaxed);
        // Without merges there is no garbage collection either, and no writer waits for it.
        let is_due = options.strategy.merges()
            && BlobSpace::of(&tree.version).is_over(due_permille(options.blob_space_amp_permille));
        self.is_blob_gc_due.store(is_due, Ordering::Relaxed);
    }

    pub(crate) fn is_blob_gc_due(&self) -> bool {
        self.is_blob_gc_due.load(Ordering::Relaxed)
    }

    pub(crate) fn has_level0_runs(&self, runs: u32) -> bool {
        self.level0_runs.load(Ordering::Relaxed) >= u64::from(runs)
    }
}
