//! Open readers: snapshots, transactions, cursors and ranges that keep old data, with their age and what they
//! pin.
//!
//! A forgotten snapshot makes every scan slower and every compaction drop less, and nothing fails; so open
//! readers are listed, and each one that grows old is reported once in the log.
//!
//! # Cost
//! A get is not registered and costs nothing. A cursor, range, snapshot or transaction takes a slot when it
//! is created and returns it when it is dropped: each time one short lock, at creation also a clock reading
//! and a weak reference to the view. Slots are reused, so memory is allocated only for the greatest number of
//! simultaneous readers.
//!
//! # When the age is checked
//! By the log worker, after its other work: it runs after every flush and compaction, and only they make an
//! old reader expensive. No thread wakes up for this alone.

use crate::read::pinned::Pinned;
use crate::super_version::SuperVersion;
use esker_base::{KeyspaceId, SeqNo};
use esker_env::{Clock, ProcessMark};
use parking_lot::Mutex;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The kind of an open reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReaderKind {
    /// A `Snapshot`.
    Snapshot,
    /// A `Transaction`.
    Transaction,
    /// A `Cursor`.
    Cursor,
    /// A `Range`.
    Range,
    /// A running stream of `Changes`.
    Changes,
    /// A named `Consumer` of changes.
    Consumer,
}

impl fmt::Display for ReaderKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReaderKind::Snapshot => "snapshot",
            ReaderKind::Transaction => "transaction",
            ReaderKind::Cursor => "cursor",
            ReaderKind::Range => "range",
            ReaderKind::Changes => "changes",
            ReaderKind::Consumer => "consumer",
        })
    }
}

/// The open readers of a database.
#[derive(Debug)]
pub struct OpenReaders {
    clock: Arc<dyn Clock>,
    warn_age: Duration,
    process: ProcessMark,
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    held: Vec<Option<RegisteredReader>>,
    free: Vec<usize>,
}

/// An open reader.
#[derive(Clone, Debug)]
pub struct RegisteredReader {
    /// What it is.
    pub kind: ReaderKind,
    /// The sequence number it reads at.
    pub seqno: SeqNo,
    since_ns: u64,
    has_warned: bool,
    /// The view of a cursor or range. Weak: the list must not keep it alive.
    pub view: Option<(KeyspaceId, Weak<SuperVersion>)>,
}

/// A slot in the list, returned on drop.
#[derive(Debug)]
pub struct ReaderSlot {
    open_readers: Arc<OpenReaders>,
    slot: usize,
}

impl ReaderSlot {
    /// A slot for a copy of the reader.
    pub fn again(&self) -> ReaderSlot {
        self.open_readers.hold_again(self.slot)
    }
}

impl Drop for ReaderSlot {
    fn drop(&mut self) {
        if self.open_readers.process.is_inherited() {
            // Another thread may have held the lock when this process was forked.
            return;
        }
        let mut slots = self.open_readers.slots.lock();
        slots.held[self.slot] = None;
        slots.free.push(self.slot);
    }
}

impl OpenReaders {
    /// An empty registry that warns of readers older than `warn_age`.
    pub fn new(clock: Arc<dyn Clock>, warn_age: Duration) -> Arc<OpenReaders> {
        Arc::new(OpenReaders { clock, warn_age, process: ProcessMark::here(), slots: Mutex::default() })
    }

    /// One more slot like `slot`, held from now on.
    fn hold_again(self: &Arc<Self>, slot: usize) -> ReaderSlot {
        let since_ns = self.clock.monotonic_ns();
        let held = self.slots.lock().held[slot].clone();
        self.add(RegisteredReader { since_ns, has_warned: false, ..held.expect("the caller holds the slot") })
    }

    /// A reader of the whole database.
    pub fn hold(self: &Arc<Self>, kind: ReaderKind, seqno: SeqNo) -> ReaderSlot {
        self.add(RegisteredReader {
            kind,
            seqno,
            since_ns: self.clock.monotonic_ns(),
            has_warned: false,
            view: None,
        })
    }

    /// A reader of a view.
    pub fn hold_view(
        self: &Arc<Self>,
        kind: ReaderKind,
        keyspace: KeyspaceId,
        pinned: &Pinned,
    ) -> ReaderSlot {
        let view = Some((keyspace, Arc::downgrade(&pinned.view.to_arc())));
        let since_ns = self.clock.monotonic_ns();
        self.add(RegisteredReader { kind, seqno: pinned.seqno, since_ns, has_warned: false, view })
    }

    fn add(self: &Arc<Self>, held: RegisteredReader) -> ReaderSlot {
        let mut slots = self.slots.lock();
        let slot = match slots.free.pop() {
            Some(slot) => slot,
            None => {
                slots.held.push(None);
                slots.held.len() - 1
            }
        };
        slots.held[slot] = Some(held);
        ReaderSlot { open_readers: Arc::clone(self), slot }
    }

    /// How long it has been open.
    pub fn age_of(&self, held: &RegisteredReader) -> Duration {
        Duration::from_nanos(self.clock.monotonic_ns().saturating_sub(held.since_ns))
    }

    /// All slots in use, oldest first.
    pub fn list(&self) -> Vec<RegisteredReader> {
        let mut all: Vec<RegisteredReader> = self.slots.lock().held.iter().flatten().cloned().collect();
        all.sort_by_key(|held| held.since_ns);
        all
    }

    /// Those that have grown old since the last call.
    fn take_old(&self) -> Vec<RegisteredReader> {
        let mut slots = self.slots.lock();
        let is_old = |held: &&mut RegisteredReader| !held.has_warned && self.age_of(held) >= self.warn_age;
        let old = slots.held.iter_mut().flatten().filter(is_old);
        old.map(|held| {
            held.has_warned = true;
            held.clone()
        })
        .collect()
    }

    /// Logs a warning once for each reader that has grown old.
    pub fn warn_of_old(&self) {
        for held in self.take_old() {
            let (kind, seqno, age_s) = (held.kind, held.seqno, self.age_of(&held).as_secs());
            let keyspace = held.view.map(|(keyspace, _)| keyspace.get());
            tracing::warn!(
                %kind, %seqno, keyspace, age_s,
                "this holder has grown old; it keeps superseded data from being dropped"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_env::ManualClock;

    #[test]
    fn old_readers_are_reported_once_and_slots_are_reused() {
        let clock = Arc::new(ManualClock::new(0));
        let open_readers = OpenReaders::new(Arc::clone(&clock) as Arc<dyn Clock>, Duration::from_secs(60));
        let first = open_readers.hold(ReaderKind::Snapshot, SeqNo::new(1));
        clock.advance(Duration::from_secs(59));
        let second = open_readers.hold(ReaderKind::Transaction, SeqNo::new(2));
        assert!(open_readers.take_old().is_empty());
        clock.advance(Duration::from_secs(1));
        let kinds = |held: Vec<RegisteredReader>| held.iter().map(|held| held.kind).collect::<Vec<_>>();
        assert_eq!(kinds(open_readers.take_old()), [ReaderKind::Snapshot]);
        assert!(open_readers.take_old().is_empty(), "once is enough");
        drop(first);
        let _third = open_readers.hold(ReaderKind::Cursor, SeqNo::new(3));
        assert_eq!(open_readers.slots.lock().held.len(), 2, "the slot is used again");
        clock.advance(Duration::from_secs(60));
        assert_eq!(kinds(open_readers.list()), [ReaderKind::Transaction, ReaderKind::Cursor], "oldest first");
        assert_eq!(open_readers.take_old().len(), 2, "a slot's next holder is warned of too");
        drop(second);
        assert_eq!(open_readers.list().len(), 1);
    }
}
