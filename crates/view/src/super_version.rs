//! SuperVersion: what a read pins, memtables and tree of one keyspace together.
//!
//! A [`SuperVersion`] is immutable except for entries that writers add to its active memtable. A keyspace
//! publishes the current one in a [`ViewCell`]; every change (a seal, a flush, a compaction) publishes a new
//! one.
//!
//! # Why a plain read is correct
//! A reader loads the view first and the visible sequence number second (RV1), never the reverse. Say the
//! view comes from installs whose jobs sampled `visible` as V1 <= V2 <= ...; the load of the view orders the
//! later load of `visible` after all of them, so each key's newest version at or below every Vi was kept
//! (RV4), and nothing newer than Vi was merged. If the view is old and `visible` new, the reader sees the
//! prefix up to the seal border of its memtable: a state that existed after the read began. In the other
//! order a compaction could already have dropped the version that the older sequence number requires.
//!
//! # Several keyspaces at one moment
//! An old view with a new number shows an earlier state of its keyspace. A reader of several keyspaces, whose
//! batches must be seen whole, therefore finds out that no view is old:
//!
//! * RV8: *views are read together at a number loaded after all of them were pinned and before each was found
//!   to be the current one still.* What the number covers was written into views that were published before
//!   it (RV2), and a newer view would have been noticed, so each of the views has all of it; and nothing that
//!   it needs was dropped (RV1). If a view has changed meanwhile, which is as rare as flushes, the reader
//!   registers a snapshot and pins the views anew.

use crate::semantics::Semantics;
use crate::tree::{Tree, TreeRun};
use esker_base::SeqNo;
use esker_env::{Published, ReadGuard};
use esker_iter::LargePolicy;
use esker_memtable::Memtable;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// In the place of a log id: the write is in no log. Greater than every id, so that the first logged write
/// replaces it.
pub const UNLOGGED: u64 = u64::MAX - 1;

/// A memtable and its position in the order of writes; or ingested tables in the position of one.
#[derive(Debug)]
pub struct MemtableView {
    /// Empty if there are ingested tables.
    pub memtable: Arc<Memtable>,
    /// Tables that the manifest does not have yet.
    pub ingested: Option<Arc<TreeRun>>,
    /// No entry was written before, in milliseconds since 1970: a memtable is created by its first write.
    since_ms: u64,
    /// Oldest log id that holds an entry of this memtable; [`UNLOGGED`] if it has entries and the log has
    /// none of them, `u64::MAX` while it is empty.
    first_log_id: AtomicU64,
    /// Sequence number of the first entry; `u64::MAX` while it is empty.
    first_seqno: AtomicU64,
    /// Whether it has entries that are not in the log.
    has_unlogged: AtomicBool,
    /// Last sequence number assigned before the seal; `u64::MAX` while the memtable is active. A seal is a
    /// border: every entry of an older memtable is older than every entry of a newer one.
    seal_seqno: AtomicU64,
    /// Payload bytes, known at the seal.
    bytes: AtomicU64,
}

impl MemtableView {
    /// A memtable that was made at `since_ms`.
    pub fn new(memtable: Arc<Memtable>, since_ms: u64) -> MemtableView {
        MemtableView {
            memtable,
            ingested: None,
            since_ms,
            first_log_id: AtomicU64::new(u64::MAX),
            first_seqno: AtomicU64::new(u64::MAX),
            has_unlogged: AtomicBool::new(false),
            seal_seqno: AtomicU64::new(u64::MAX),
            bytes: AtomicU64::new(0),
        }
    }

    /// Ingested tables in the position of a sealed memtable; `stub` is an empty one.
    pub fn of_ingested(stub: Arc<Memtable>, run: Arc<TreeRun>, log_id: u64, seqno: SeqNo) -> MemtableView {
        let view = MemtableView { ingested: Some(run), ..MemtableView::new(stub, 0) };
        view.note_write(log_id, seqno.get());
        view.seal(seqno);
        view
    }

    /// Whether it has no entries.
    pub fn is_empty(&self) -> bool {
        self.memtable.is_empty() && self.ingested.is_none()
    }

    /// A time not after the first write; `None` if the memtable is empty.
    pub fn since_ms(&self) -> Option<u64> {
        (self.first_log_id.load(Ordering::Acquire) != u64::MAX).then_some(self.since_ms)
    }

    /// Records the first write, and the first one in the log, at `log_id` or [`UNLOGGED`]; later ones change
    /// nothing, because log ids rise. Called under the commit lock.
    #[inline]
    pub fn note_write(&self, log_id: u64, seqno: u64) {
        if log_id < self.first_log_id.load(Ordering::Relaxed) {
            self.note_first(log_id, seqno);
        }
    }

    #[cold]
    fn note_first(&self, log_id: u64, seqno: u64) {
        self.first_seqno.fetch_min(seqno, Ordering::Relaxed);
        self.first_log_id.store(log_id, Ordering::Release);
    }

    /// Records that a write is not in the log.
    pub fn note_unlogged(&self) {
        self.has_unlogged.store(true, Ordering::Release);
    }

    /// Whether it has entries that are not in the log.
    pub fn has_unlogged(&self) -> bool {
        self.has_unlogged.load(Ordering::Acquire)
    }

    /// Oldest log id that this memtable needs; `None` if the log has none of its entries.
    pub fn first_log_id(&self) -> Option<u64> {
        Some(self.first_log_id.load(Ordering::Acquire)).filter(|&id| id < UNLOGGED)
    }

    /// Sequence number of the first entry; `None` if the log has none of its entries.
    pub fn first_seqno(&self) -> Option<SeqNo> {
        self.first_log_id()?;
        Some(SeqNo::new(self.first_seqno.load(Ordering::Relaxed)))
    }

    /// Ends it at the last sequence number it holds.
    pub fn seal(&self, last: SeqNo) {
        self.seal_seqno.store(last.get(), Ordering::Release);
    }

    /// Records its size when it was sealed.
    pub fn note_bytes(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Payload bytes of a sealed memtable.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The border at which the memtable was sealed.
    pub fn seal_seqno(&self) -> Option<SeqNo> {
        Some(self.seal_seqno.load(Ordering::Acquire)).filter(|&seqno| seqno != u64::MAX).map(SeqNo::new)
    }
}

/// Memtables and tree of a keyspace at one moment.
#[derive(Clone, Debug)]
pub struct SuperVersion {
    /// The memtable that writers fill.
    pub active: Arc<MemtableView>,
    /// Newest first.
    pub sealed: Vec<Arc<MemtableView>>,
    /// The tables.
    pub tree: Arc<Tree>,
    /// What its entries mean.
    pub semantics: Arc<Semantics>,
}

impl SuperVersion {
    /// Whether range tombstones may hide anything in this view, for a reader that loaded its sequence number
    /// before.
    #[inline]
    pub fn has_range_deletes(&self) -> bool {
        self.tree.has_range_deletes
            || self.active.memtable.has_range_deletes()
            || self.sealed.iter().any(|view| view.memtable.has_range_deletes())
    }

    /// The blob files that entries of this view point to.
    pub fn large(&self) -> LargePolicy {
        let large = &self.tree.large;
        if large.is_empty() { LargePolicy::Unexpected } else { LargePolicy::Fetched(Arc::clone(large) as _) }
    }

    /// All memtables, newest first.
    #[inline]
    pub fn memtables(&self) -> impl Iterator<Item = &Arc<MemtableView>> {
        std::iter::once(&self.active).chain(&self.sealed)
    }
}

/// A view that was current when it was pinned, for one read; longer use requires a [`kept`](ReadGuard::kept)
/// one.
pub type PinnedView = ReadGuard<SuperVersion>;

/// Publishes the current view of a keyspace.
#[derive(Debug)]
pub struct ViewCell(Published<SuperVersion>);

impl ViewCell {
    /// A cell that publishes `view`.
    pub fn new(view: SuperVersion) -> ViewCell {
        ViewCell(Published::new(view))
    }

    /// The current view, for one read.
    #[inline]
    pub fn pin(&self) -> PinnedView {
        self.0.pin()
    }

    /// Whether `view` is still the current view.
    #[inline]
    pub fn is_current(&self, view: &PinnedView) -> bool {
        self.0.is_current(view)
    }

    /// The current view, to keep.
    pub fn load(&self) -> Arc<SuperVersion> {
        self.0.load()
    }

    /// Whether the current view has sealed memtables.
    pub fn has_sealed(&self) -> bool {
        !self.pin().sealed.is_empty()
    }

    /// Publishes a view derived from the current one: a seal may have changed it since a job began (F5).
    pub fn update(&self, derive: impl FnOnce(&SuperVersion) -> SuperVersion) {
        self.0.update(derive);
    }
}
