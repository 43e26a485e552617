//! Capture: the moment that a copy shows; see [`super`].

use esker_base::{FileNumber, KeyspaceId, Result, SeqNo};
use esker_engine::state::store::Store;
use esker_engine::write::batch::Share;
use esker_engine::write::switch_memtable;
use esker_version::DatabaseState;
use esker_view::SuperVersion;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A database at one moment. It keeps its files and memtables.
#[derive(Debug)]
pub(crate) struct Capture {
    /// Everything up to here is in it, and nothing newer.
    pub(crate) seqno: SeqNo,
    /// The state of the manifest.
    pub(crate) state: DatabaseState,
    pub(crate) views: BTreeMap<KeyspaceId, Arc<SuperVersion>>,
}

impl Capture {
    /// Ingested tables that are not in the manifest yet.
    pub(crate) fn waiting_files(&self) -> impl Iterator<Item = FileNumber> {
        let sealed = self.views.values().flat_map(|view| &view.sealed);
        let ingested = sealed.filter_map(|memtable| memtable.ingested.as_ref());
        ingested.flat_map(|run| run.parts.iter()).map(|part| part.file.number())
    }
}

/// Captures the present (TS3). Seals non-empty memtables, which the flush worker then flushes.
pub(crate) fn capture(store: &Store) -> Result<Capture> {
    store.check_open()?;
    let writing = store.writing()?;
    let installed = writing.manifest.lock();
    refuse_quarantined(store, &installed.state)?;
    let mut commit = writing.commit.lock();
    let filled: Vec<KeyspaceId> = commit
        .keyspaces
        .iter()
        .flatten()
        .filter(|active| active.entries > 0)
        .map(|active| active.keyspace.id)
        .collect();
    for keyspace in filled {
        switch_memtable::seal(store, &mut commit, keyspace, &Share::nothing(keyspace))?;
    }
    // Complete up to here: while the lock is held, no thread is between taking a number and publishing
    // it.
    let seqno = SeqNo::new(store.visible.load(Ordering::Acquire));
    let views = store.all_keyspaces().iter().map(|keyspace| (keyspace.id, keyspace.view.load())).collect();
    // Entries that were seen as expired must not reappear in the copy, whatever its clock says (TM2).
    let mut state = installed.state.clone();
    state.time_floor_ms = state.time_floor_ms.max(store.time.last_ms());
    // The copy is a separate database, without the log that consumers would read.
    state.consumers.clear();
    state.log_lives.clear();
    // Above the numbers of ingested tables that the manifest does not have yet.
    let (next_file, next_part) = writing.tables.counters();
    state.next_file = state.next_file.max(next_file);
    state.next_part = state.next_part.max(next_part);
    Ok(Capture { seqno, state, views })
}

/// A copy of a damaged file would be no copy.
fn refuse_quarantined(store: &Store, state: &DatabaseState) -> Result<()> {
    if store.quarantine.is_empty() {
        return Ok(());
    }
    let live = state.live_files();
    let files = store.quarantine.files();
    let Some(file) = files.into_iter().find(|file| live.contains_key(&file.number)) else { return Ok(()) };
    let name = state.keyspace(file.keyspace).map_or("", |keyspace| &*keyspace.name);
    Err(file.cause.in_keyspace(name))
}
