//! Report of the open readers: snapshots, transactions, cursors, ranges and change streams, with their age
//! and what they pin.

use crate::Database;
use esker_base::SeqNo;
use esker_engine::state::keyspace::KeyspaceState;
use esker_engine::state::store::Store;
use esker_view::SuperVersion;
use esker_view::read::open_readers::{ReaderKind, RegisteredReader};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Database {
    /// The open readers of the past: snapshots, transactions, cursors and ranges, streams and consumers of
    /// changes, oldest first, each with its age and what it pins. Of the handles of this process only. Takes
    /// time linear in their number and in the tables that their views name.
    ///
    /// ```no_run
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Database::open("data")?;
    /// for reader in db.open_readers() {
    ///     println!("{} since {} s", reader.kind, reader.age.as_secs());
    /// }
    /// # Ok(()) }
    /// ```
    #[doc(alias = "holders")]
    #[doc(alias = "GetNumSnapshots")]
    #[doc(alias = "oldest snapshot")]
    #[doc(alias = "rocksdb.oldest-snapshot-time")]
    pub fn open_readers(&self) -> Vec<OpenReader> {
        list_open_readers(&self.handle().store)
    }
}

/// An open reader of the database's past, see [`crate::Database::open_readers`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenReader {
    /// Its kind.
    pub kind: ReaderKind,
    /// The name of a consumer; `None` for all others.
    pub name: Option<String>,
    /// The keyspace of a cursor or range; `None` for readers of the whole database, and if the keyspace was
    /// dropped.
    pub keyspace: Option<String>,
    /// Its age; of a consumer since the database was opened.
    pub age: Duration,
    /// The sequence number it reads at; of a stream or consumer, up to which it has read everything.
    pub seqno: SeqNo,
    /// Operations written since that sequence number. A snapshot or transaction keeps compactions from
    /// dropping the entries that these overwrote: at most this many.
    pub newer_operations: u64,
    /// Bytes of memtables that its view keeps in memory although they have been flushed. Several readers of
    /// one view report the same bytes; 0 for snapshots and transactions, which have no view.
    pub memtable_bytes: u64,
    /// Bytes of such memtables that were moved to files, because readers held more of them than a sixteenth
    /// of the memory budget; counted like `memtable_bytes`. The files have no names; their room is freed with
    /// the reader.
    pub spilled_bytes: u64,
    /// Bytes of tables that its view keeps on disk although compactions have replaced them; counted like
    /// `memtable_bytes`. If the view needs a slice of a table, the slice's share.
    pub table_bytes: u64,
    /// Bytes of log kept for a stream or a consumer beyond what recovery needs. Several report the same
    /// bytes.
    pub log_bytes: u64,
}

/// The open readers and what they pin, oldest first.
pub(crate) fn list_open_readers(store: &Store) -> Vec<OpenReader> {
    let visible = store.visible.load(Ordering::Acquire);
    let describe = |held: RegisteredReader| {
        let id = held.view.as_ref().map(|(id, _)| *id);
        let keyspace = id.and_then(|id| store.keyspace_with_id(id));
        let view = held.view.as_ref().and_then(|(_, view)| view.upgrade());
        let pinned = view.map_or(Pins::default(), |view| pinned_bytes(&view, keyspace.as_deref()));
        OpenReader {
            kind: held.kind,
            name: None,
            keyspace: keyspace.map(|keyspace| keyspace.name().to_string()),
            age: store.open_readers.age_of(&held),
            seqno: held.seqno,
            newer_operations: visible.saturating_sub(held.seqno.get()),
            memtable_bytes: pinned.memtable_bytes,
            spilled_bytes: pinned.spilled_bytes,
            table_bytes: pinned.table_bytes,
            log_bytes: 0,
        }
    };
    let mut open_readers: Vec<OpenReader> = store.open_readers.list().into_iter().map(describe).collect();
    open_readers.extend(history_readers(store, visible));
    open_readers.sort_by_key(|holder| std::cmp::Reverse(holder.age));
    open_readers
}

/// Streams and consumers that keep log; those that are cut off keep none.
fn history_readers(store: &Store, visible: u64) -> impl Iterator<Item = OpenReader> {
    let now_ns = store.env.clock.monotonic_ns();
    let holds = store.writing.as_ref().map(|writing| writing.log.holds()).unwrap_or_default();
    holds.into_iter().filter(|hold| !hold.is_cut_off).map(move |hold| OpenReader {
        kind: if hold.name.is_some() { ReaderKind::Consumer } else { ReaderKind::Changes },
        name: hold.name.map(|name| name.to_string()),
        keyspace: None,
        age: Duration::from_nanos(now_ns.saturating_sub(hold.since_ns)),
        seqno: hold.position,
        newer_operations: visible.saturating_sub(hold.position.get()),
        memtable_bytes: 0,
        spilled_bytes: 0,
        table_bytes: 0,
        log_bytes: hold.kept_bytes,
    })
}

/// What a view has and the keyspace's present view does not.
#[derive(Clone, Copy, Debug, Default)]
struct Pins {
    memtable_bytes: u64,
    spilled_bytes: u64,
    table_bytes: u64,
}

fn pinned_bytes(view: &SuperVersion, keyspace: Option<&KeyspaceState>) -> Pins {
    let current = keyspace.map(|keyspace| keyspace.view.load());
    let is_current = |memtable| {
        let mut current = current.iter().flat_map(|current| current.memtables());
        current.any(|other| Arc::ptr_eq(other, memtable))
    };
    let memtables = || view.memtables().filter(|memtable| !is_current(*memtable)).map(|view| &view.memtable);
    let current_files: HashSet<_, foldhash::fast::FixedState> =
        current.iter().flat_map(|current| current.tree.parts()).map(|part| part.meta.file).collect();
    let parts = view.tree.parts().filter(|part| !current_files.contains(&part.meta.file));
    Pins {
        memtable_bytes: memtables().map(|memtable| memtable.allocated_bytes()).sum(),
        spilled_bytes: memtables().map(|memtable| memtable.spilled_bytes()).sum(),
        table_bytes: parts.map(|part| part.meta.bytes).sum(),
    }
}
