//! Commit of an ingest: the moment at which tables become part of a keyspace; see [`super`].

use crate::state::commit_state::{CommitState, PostCommit};
use crate::state::keyspace::KeyspaceState;
use crate::state::scheduler::WorkerPool;
use crate::state::shape;
use crate::state::store::Store;
use crate::write::batch::{EncodedBatch, Share};
use crate::write::commit;
use crate::write::commit::PoisonOnPanic;
use crate::write::make_room::RoomCheck;
use crate::write::switch_memtable;
use crate::write::switch_memtable::stub_memtable;
use crate::write::write_stall;
use crate::write::write_stall::{StallPolicy, Wait, WaitFor};
use esker_base::planted;
use esker_base::{Error, Result, SeqNo};
use esker_strategy::write_control::MAX_SEALED;
use esker_version::{LevelIndex, PartMeta};
use esker_view::tree::{TreePart, TreeRun};
use esker_view::{MemtableView, SuperVersion};
use esker_wal::{Ingest, IngestedFile};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The most tables one ingest may add: the record that names them stays below 2 MiB.
pub const MAX_TABLES: usize = 1 << 16;

/// Adds tables to a keyspace, given in key order and without common keys. Their files are durable, names
/// included. Durable when it returns; an error leaves nothing, unless it says that the log could not be
/// synced.
pub fn commit_ingest(
    store: &Store,
    keyspace: &Arc<KeyspaceState>,
    parts: Vec<PartMeta>,
    claim: impl FnOnce(),
) -> Result<SeqNo> {
    if parts.len() > MAX_TABLES {
        let count = parts.len();
        return Err(Error::invalid(format!("one ingest takes at most {MAX_TABLES} tables, not {count}")));
    }
    let writing = store.writing()?;
    let payload = record_of(keyspace, &parts);
    // Stands for a batch: it needs room in the log, none in memtables.
    let batch = EncodedBatch { payload: &payload, count: 1, shares: &[], single: None };
    let (stub, _) = stub_memtable(keyspace.options().memtable, &store.arenas)?;
    let mut wait = Wait::at_most(store.stall_limit);
    let mut state = loop {
        let room = commit::lock_with_room(store, writing, &batch, false, StallPolicy::Stall, &mut wait)?;
        let mut state = room.state;
        let seen = store.scheduler.generation();
        match room_for_ingest(store, &mut state, keyspace)? {
            RoomCheck::Ready => break state,
            RoomCheck::Wait(wait_for) => {
                drop(state);
                write_stall::wait_for_room(store, &wait_for, seen, StallPolicy::Stall, &mut wait)?;
            }
        }
    };
    let seqno = state.next_seqno;
    let entries: u64 = parts.iter().map(|part| part.entries).sum();
    let with_file = |part: PartMeta| {
        let meta = Arc::new(part.ingested_at(seqno));
        TreePart { file: store.files.file_of(keyspace.id, &meta), meta }
    };
    let run = Arc::new(TreeRun::new(LevelIndex::FLUSH, parts.into_iter().map(with_file).collect()));
    // Even if the record cannot be written: bytes of it may be in the file (BL4).
    claim();
    let log_id = state.log.append_ingest(seqno, &payload)?.log_id;
    {
        let _guard = PoisonOnPanic::new(store);
        state.next_seqno = seqno.plus(1);
        // Before it is visible (GP3).
        keyspace.view.load().semantics.tombstone_spans.invalidate_all();
        state.batches += 1;
        state.entries += entries;
        let stub = Arc::clone(&stub.memtable);
        let ingested = Arc::new(MemtableView::of_ingested(stub, run, log_id.get(), seqno));
        keyspace.view.update(|view| {
            let sealed = std::iter::once(&ingested).chain(&view.sealed).cloned().collect();
            SuperVersion { sealed, ..view.clone() }
        });
        store.visible.store(seqno.get(), Ordering::Release);
    }
    let has_listeners = state.post_commit.take(PostCommit::NOTIFY);
    drop(state);
    if has_listeners {
        writing.commit_notifier.notify();
    }
    store.scheduler.request(WorkerPool::Flush);
    writing.sync_up_to(seqno)?;
    store.scheduler.step_sometimes(store);
    Ok(seqno)
}

/// Seals older entries (BL3), or returns what to wait for: an ingest adds to the queue of sealed
/// memtables and, later, perhaps to level 0, so it waits where a writer would.
fn room_for_ingest(
    store: &Store,
    state: &mut CommitState,
    keyspace: &Arc<KeyspaceState>,
) -> Result<RoomCheck> {
    let is_filled = state.active(keyspace.id)?.entries > 0;
    if keyspace.is_level0_full() && shape::can_compact(store, keyspace) {
        return Ok(RoomCheck::Wait(WaitFor::Compaction(Arc::clone(keyspace))));
    }
    if keyspace.view.load().sealed.len() >= MAX_SEALED {
        return Ok(RoomCheck::Wait(WaitFor::Pool(WorkerPool::Flush)));
    }
    if is_filled && !planted!(IngestBelowOlderWrites) {
        switch_memtable::seal(store, state, keyspace.id, &Share::nothing(keyspace.id))?;
    }
    Ok(RoomCheck::Ready)
}

/// The payload of the record that names the files.
fn record_of(keyspace: &KeyspaceState, parts: &[PartMeta]) -> Vec<u8> {
    let file = |part: &PartMeta| IngestedFile {
        number: part.file,
        size_bytes: part.file_bytes,
        uid: part.table_uid,
    };
    let mut payload = Vec::new();
    Ingest { keyspace: keyspace.id, files: parts.iter().map(file).collect() }.encode(&mut payload);
    payload
}
