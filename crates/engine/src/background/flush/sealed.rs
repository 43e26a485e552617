//! Sealed memtables: sealing one for a flush, and which of them are flushed together.

use crate::state::keyspace::KeyspaceState;
use crate::state::store::Store;
use crate::write::switch_memtable;
use esker_base::Result;
use esker_view::MemtableView;
use std::sync::Arc;

/// Sealed memtables, newest first.
type Sealed = [Arc<MemtableView>];

/// Splits the oldest group off from sealed memtables, given newest first: an ingest alone, or all memtables
/// that are older than any ingest.
pub(in crate::background) fn oldest_group(sealed: &Sealed) -> Option<(&Sealed, &Sealed)> {
    let oldest = sealed.last()?;
    let ingest_before = || sealed.iter().rposition(|view| view.ingested.is_some());
    let from = match &oldest.ingested {
        Some(_) => sealed.len() - 1,
        None => ingest_before().map_or(0, |at| at + 1),
    };
    Some(sealed.split_at(from))
}

/// Seals the active memtable of a keyspace unless it is empty, or the keyspace dropped.
pub fn seal_if_filled(store: &Store, keyspace: &KeyspaceState) -> Result<()> {
    loop {
        let writing = store.writing()?;
        {
            let mut state = writing.commit.lock();
            if let Ok(active) = state.active(keyspace.id) {
                let is_empty = active.entries == 0;
                let nothing_next = crate::write::batch::Share::nothing(keyspace.id);
                return if is_empty {
                    Ok(())
                } else {
                    switch_memtable::seal(store, &mut state, keyspace.id, &nothing_next)
                };
            }
        }
        // Being dropped: the dropping thread holds the manifest until the outcome is decided, and may
        // still fail.
        drop(writing.manifest.lock());
        if keyspace.is_dropped() {
            return Ok(());
        }
    }
}
