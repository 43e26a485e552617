//! A keyspace inside the engine: its name, options, current view and running jobs.

use crate::open::new_keyspace;
use crate::options::KeyspaceOptions;
use crate::store::Store;
use crate::tree::Tree;
use crate::view::ViewCell;
use esker_base::limits::MAX_KEYSPACE_NAME_LEN;
use esker_base::{Error, KeyspaceId, Result, SeqNo};
use esker_strategy::Busy;
use esker_version::{EditOp, LevelIndex, VersionEdit};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One keyspace of an open database.
#[derive(Debug)]
pub(crate) struct KeyspaceState {
    pub(crate) id: KeyspaceId,
    pub(crate) name: String,
    pub(crate) options: KeyspaceOptions,
    pub(crate) view: ViewCell,
    /// Held by the flush of this keyspace: flushes install oldest first (IN4) because there is one at a time.
    pub(crate) flushing: Mutex<()>,
    /// Plans that are being carried out.
    pub(crate) busy: Mutex<Busy>,
    /// Runs in level 0, kept beside the view so that a writer sees them without loading it.
    level0_runs: AtomicU64,
    pub(crate) traffic: Traffic,
}

/// Bytes that moved, for amplification figures. Counted since the database was opened.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    /// Bytes of tables written by flushes.
    pub(crate) flushed_bytes: AtomicU64,
    /// Bytes of tables read by compactions.
    pub(crate) compacted_in_bytes: AtomicU64,
    /// Bytes of tables written by compactions.
    pub(crate) compacted_out_bytes: AtomicU64,
    pub(crate) flushes: AtomicU64,
    pub(crate) compactions: AtomicU64,
    pub(crate) moves: AtomicU64,
}

impl KeyspaceState {
    pub(crate) fn new(
        id: KeyspaceId,
        name: String,
        options: KeyspaceOptions,
        view: ViewCell,
    ) -> KeyspaceState {
        let state = KeyspaceState {
            id,
            name,
            options,
            view,
            flushing: Mutex::new(()),
            busy: Mutex::default(),
            level0_runs: AtomicU64::new(0),
            traffic: Traffic::default(),
        };
        state.note_shape();
        state
    }

    /// Recomputes what is kept beside the view; called after each published change of the tree.
    pub(crate) fn note_shape(&self) {
        let runs = self.view.load().tree.runs.iter().filter(|run| run.level == LevelIndex::FLUSH).count();
        self.level0_runs.store(runs as u64, Ordering::Relaxed);
    }

    /// Whether writers must wait for compaction before they seal one more memtable.
    pub(crate) fn is_level0_full(&self) -> bool {
        self.level0_runs.load(Ordering::Relaxed) >= u64::from(self.options.level0_stop_runs)
    }

    /// First sequence number that is only in memtables; `None` if all are empty.
    pub(crate) fn first_unflushed(&self) -> Option<SeqNo> {
        self.view.load().memtables().filter_map(|memtable| memtable.first_seqno()).min()
    }
}

impl Store {
    /// Creates a keyspace. It is durable before its first use (WL5): a record that names it can always be replayed.
    pub(crate) fn create_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Arc<KeyspaceState>> {
        options.validate()?;
        if name.is_empty() || name.len() > MAX_KEYSPACE_NAME_LEN {
            let len = name.len();
            return Err(Error::invalid(format!(
                "a keyspace name has 1 to {MAX_KEYSPACE_NAME_LEN} bytes, not {len}"
            )));
        }
        let _activity = self.activity.read_recursive();
        self.check_open()?;
        let writing = self.writing()?;
        let mut installed = writing.manifest.lock();
        if let Some(existing) = self.find_keyspace(name) {
            return Ok(existing);
        }
        let id = installed.state.next_keyspace;
        let mut edit = VersionEdit::new();
        edit.push(EditOp::CreateKeyspace { id, name: name.into(), options: options.encode().into() });
        let tree = Arc::new(Tree::new(id, Arc::default(), &self.files));
        let parts = (tree, Vec::new());
        let (keyspace, active) =
            new_keyspace(id, name.to_owned(), options, parts, &self.memory, &self.arenas)?;
        self.make_durable(writing, &mut installed, &edit)?;
        writing.commit.lock().add_keyspace(active);
        self.keyspaces.write().push(Arc::clone(&keyspace));
        Ok(keyspace)
    }
}
