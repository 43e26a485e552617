//! Transactions: reads over the store and over their own changes, written as one batch (KR5).
//!
//! This file has the transaction and its commit; `access` reads and writes entries, `look_ahead` reads the
//! records of following commands together, `cached_parts` holds parts of large values that stay in memory
//! between transactions, `notify` collects what observers are told.
//!
//! The caller holds the stripes of all keys that it reads or changes; see [`locks`](crate::locks). Nothing
//! is validated at the end.

mod access;
mod cached_parts;
mod look_ahead;
mod notify;

use crate::ahead::Ahead;
use crate::changes::Changes;
use crate::kept_ends::KeptEnds;
use crate::layout::{PhysicalDb, Space};
use crate::list_ends::ListEnds;
use crate::notifications::{Interest, Told};
use crate::order_ends::OrderEnds;
use crate::rank_nodes::Families;
use crate::store::{CountKind, Store, count_key};
use esker::{Resident, Result, SeqNo, Snapshot, WriteBatch, WriteOptions};
use std::sync::atomic::Ordering;
use std::time::UNIX_EPOCH;

#[derive(Debug)]
pub(crate) struct CountChange {
    db: PhysicalDb,
    keys: i64,
    expiring: i64,
}

/// Bytes of a batch whose memory is kept for the next one; as for the changes themselves.
const KEPT_BATCH_BYTES: usize = 2 << 20;

/// A transaction.
#[derive(Debug)]
pub struct Txn<'s> {
    store: &'s Store,
    changes: Changes,
    /// Empty between commits; its memory is used again.
    batch: WriteBatch,
    /// Records that were looked up together, in the order in which they will be asked for.
    ahead: Ahead,
    /// The same of elements.
    elements_ahead: Ahead,
    /// Nodes of rank indexes that this transaction changed.
    rank_nodes: Families,
    /// Ends of sorted sets whose order this transaction changed.
    order_ends: KeptEnds<OrderEnds>,
    /// Ends of lists from which this transaction popped.
    list_ends: KeptEnds<ListEnds>,
    snapshot: Option<Snapshot>,
    now_ms: u64,
    interest: Interest,
    told: Told,
    counts: Vec<CountChange>,
    /// Where the logical databases lie, if the transaction exchanges some.
    swapped: Option<Vec<PhysicalDb>>,
    /// Objects that the batch puts into the garbage list.
    pub(crate) new_garbage: Vec<u64>,
    /// Ranges of objects whose databases were flushed.
    pub(crate) flushed_objects: Vec<(u64, u64)>,
    /// The earliest expiry that the batch sets.
    pub(crate) earliest_expiry_ms: u64,
}

/// How a commit behaves when writes are held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stalls {
    /// It fails with `WouldStall`; nothing is written.
    Fail,
    /// It waits.
    Wait,
}

impl<'s> Txn<'s> {
    /// A transaction at the present time.
    pub fn new(store: &'s Store, interest: Interest) -> Self {
        let now_ms = now_ms(store);
        Self {
            store,
            changes: Changes::new(store),
            batch: store.database().batch(),
            ahead: Ahead::default(),
            elements_ahead: Ahead::default(),
            rank_nodes: Families::default(),
            order_ends: KeptEnds::default(),
            list_ends: KeptEnds::default(),
            snapshot: None,
            now_ms,
            interest,
            told: Told::default(),
            counts: Vec::new(),
            swapped: None,
            new_garbage: Vec::new(),
            flushed_objects: Vec::new(),
            earliest_expiry_ms: u64::MAX,
        }
    }

    /// The store.
    pub fn store(&self) -> &'s Store {
        self.store
    }

    /// The time at which the transaction judges expiries, in milliseconds since 1970. It stands still.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Sets what the transaction tells.
    pub fn set_interest(&mut self, interest: Interest) {
        self.interest = interest;
    }

    /// Lets the time go on, between two commands of one pipeline.
    pub fn refresh_time(&mut self) {
        self.now_ms = now_ms(self.store);
    }

    /// From now on reads the store as it is now, so that the stripes may be freed while it goes on reading.
    pub fn freeze(&mut self) {
        self.snapshot = Some(self.store.database().snapshot());
    }

    pub(crate) fn count(&mut self, db: PhysicalDb, keys: i64, expiring: i64) {
        if keys == 0 && expiring == 0 {
            return;
        }
        match self.counts.iter_mut().find(|change| change.db == db) {
            Some(change) => {
                change.keys += keys;
                change.expiring += expiring;
            }
            None => self.counts.push(CountChange { db, keys, expiring }),
        }
    }

    /// Keys of a logical database as this transaction leaves it.
    pub fn keys(&self, db: u16) -> i64 {
        self.keys_and_expiring(self.physical(db)).0
    }

    pub(crate) fn keys_and_expiring(&self, db: PhysicalDb) -> (i64, i64) {
        let own = self.counts.iter().find(|change| change.db == db);
        let (keys, expiring) = own.map_or((0, 0), |change| (change.keys, change.expiring));
        let stored = self.store.counts(db);
        (stored.keys.load(Ordering::Relaxed) + keys, stored.expiring.load(Ordering::Relaxed) + expiring)
    }

    /// Where a logical database lies, as this transaction leaves it.
    ///
    /// # Panics
    /// As [`Store::physical`].
    pub fn physical(&self, db: u16) -> PhysicalDb {
        match &self.swapped {
            None => self.store.physical(db),
            Some(databases) => databases[usize::from(db)],
        }
    }

    pub(crate) fn physical_mut(&mut self) -> &mut [PhysicalDb] {
        self.swapped.get_or_insert_with(|| self.store.databases.read().clone())
    }

    /// Whether nothing is to be written.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Bytes of memory that the changes take.
    pub fn memory_bytes(&self) -> u64 {
        self.changes.memory_bytes()
    }

    /// Forgets all changes.
    pub fn roll_back(&mut self) {
        self.changes.clear();
        self.forget_ahead();
        self.rank_nodes.clear();
        self.order_ends.clear();
        self.list_ends.clear();
        self.counts.clear();
        self.swapped = None;
        self.told = Told::default();
        self.new_garbage.clear();
        self.flushed_objects.clear();
        self.earliest_expiry_ms = u64::MAX;
    }

    /// Writes the changes as one batch, after which the transaction is empty and can go on. `None` if there
    /// were none. The stripes may be freed afterwards, not before.
    ///
    /// # Errors
    /// Those of the engine, and then nothing was written and the changes are still here; `WouldStall` with
    /// [`Stalls::Fail`].
    pub fn commit(&mut self, stalls: Stalls) -> Result<Option<SeqNo>> {
        self.forget_ahead();
        if self.changes.is_empty() && self.counts.is_empty() {
            self.changes.clear();
            self.give_memory_back();
            return Ok(None);
        }
        let batch = &mut self.batch;
        batch.clear();
        self.changes.add_to(self.store, batch)?;
        let counts = self.store.space(Space::Counts);
        for change in &self.counts {
            for (kind, by) in [(CountKind::Keys, change.keys), (CountKind::Expiring, change.expiring)] {
                if by != 0 {
                    batch.merge(counts, count_key(kind, change.db), by.to_string());
                }
            }
        }
        let options = match stalls {
            Stalls::Fail => WriteOptions::new().no_stall(),
            Stalls::Wait => WriteOptions::new(),
        };
        let written = self.store.database().write_with(batch, options);
        if batch.encoded_bytes() > KEPT_BATCH_BYTES {
            *batch = self.store.database().batch();
        }
        let seqno = written?;
        self.store.note_written(seqno);
        if let Some(swapped) = self.swapped.take() {
            *self.store.databases.write() = swapped;
            // A sweep that is under way may have passed the place at which a database is now.
            self.earliest_expiry_ms = 0;
        }
        for change in self.counts.drain(..) {
            let counts = self.store.counts(change.db);
            counts.keys.fetch_add(change.keys, Ordering::Relaxed);
            counts.expiring.fetch_add(change.expiring, Ordering::Relaxed);
        }
        self.give_memory_back();
        self.queue_garbage();
        self.store.next_expiry_ms.fetch_min(self.earliest_expiry_ms, Ordering::AcqRel);
        self.changes.clear();
        self.earliest_expiry_ms = u64::MAX;
        Ok(Some(seqno))
    }

    /// Tells the collection of garbage what this transaction has put into its list (GQ1).
    fn queue_garbage(&mut self) {
        for (first, end) in self.flushed_objects.drain(..) {
            self.store.garbage.forget(first..end);
        }
        if !self.new_garbage.is_empty() {
            self.store.garbage_objects.fetch_add(self.new_garbage.len() as u64, Ordering::Relaxed);
            self.store.garbage.add(&self.new_garbage);
            self.new_garbage.clear();
        }
    }
}

/// Reads in `read` use memory alone, or `None` is the answer; see [`esker::resident_only`].
///
/// # Errors
/// Those of `read`.
pub fn resident_only<R>(read: impl FnOnce() -> Result<R>) -> Result<Option<R>> {
    Ok(match esker::resident_only(read)? {
        Resident::Answer(answer) => Some(answer),
        Resident::NotResident => None,
    })
}

fn now_ms(store: &Store) -> u64 {
    let since = store.database().now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as u64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "a directory of the test's own")]

    use super::*;

    #[test]
    fn the_batch_of_a_large_write_is_freed_when_it_is_written() -> Result<()> {
        let name = format!("esker-large-batch-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let store = Store::open(esker::Database::open(&directory)?, 1)?;
        let mut txn = Txn::new(&store, Interest::default());
        for value_bytes in [KEPT_BATCH_BYTES / 2, KEPT_BATCH_BYTES + 1] {
            txn.changes.set(&store, Space::Elements, b"key", Some(&vec![b'v'; value_bytes]))?;
            txn.commit(Stalls::Wait)?;
            let is_kept = txn.batch.encoded_bytes() > value_bytes;
            assert_eq!(is_kept, value_bytes < KEPT_BATCH_BYTES, "{value_bytes} bytes");
        }
        drop(txn);
        drop(store);
        std::fs::remove_dir_all(&directory).ok();
        Ok(())
    }
}
