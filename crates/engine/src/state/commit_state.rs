//! The commit lock and what it guards: sequence numbers, the active log segment, the writable side of each
//! keyspace, and what the next writer does after its commit.
//!
//! Every writer waits for the lock, so its holder must not do slow work. One such operation hides behind
//! reads of a memtable: kinds that append entries unsorted sort them at the next read
//! ([`esker_memtable::Tail`]). The guard forbids that to its thread, so that builds with debug assertions
//! panic where it happens, in whatever test (OD6). In other builds it is the mutex and nothing else.

use crate::state::keyspace::{KeyspaceState, RecentDrops};
use crate::state::write_control::pace::Pace;
use esker_base::sync::CachePadded;
use esker_base::{KeyspaceId, Result, SeqNo};
use esker_memtable::{Inserter, NoSorting};
use esker_options::{KeyspaceOptions, MemoryPlan};
use esker_view::MemtableView;
use esker_view::tombstone_span_cache::TombstoneSpanCache;
use esker_wal::LogWriter;
use parking_lot::{Mutex, MutexGuard};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A [`CommitState`] behind the lock of the write path.
pub struct CommitLock(Mutex<CommitState>);

impl CommitLock {
    /// A lock over this state.
    pub fn new(state: CommitState) -> CommitLock {
        CommitLock(Mutex::new(state))
    }

    /// The state, once no other writer has it.
    #[inline(always)]
    pub fn lock(&self) -> CommitGuard<'_> {
        CommitGuard { state: self.0.lock(), _no_sorting: NoSorting::new() }
    }
}

/// The guard of the commit lock.
pub struct CommitGuard<'a> {
    state: MutexGuard<'a, CommitState>,
    _no_sorting: NoSorting,
}

impl Deref for CommitGuard<'_> {
    type Target = CommitState;

    #[inline(always)]
    fn deref(&self) -> &CommitState {
        &self.state
    }
}

impl DerefMut for CommitGuard<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut CommitState {
        &mut self.state
    }
}

/// The state guarded by the commit lock.
pub struct CommitState {
    /// The next sequence number to assign.
    pub next_seqno: SeqNo,
    /// Appends to the active segment.
    pub log: LogWriter,
    /// By keyspace id; `None` for ids without a keyspace. Boxed, because ids are never reused: a dropped
    /// keyspace leaves one word. Cache-line padded and rarely written, so that every core can hold it.
    pub keyspaces: CachePadded<Vec<Option<Box<ActiveKeyspace>>>>,
    pub(crate) recent_drops: RecentDrops,
    /// Payload bytes in all active memtables.
    pub active_bytes: u64,
    /// Bytes of batches that skipped the log, since room was last made for them.
    pub unlogged_bytes: u64,
    /// Keyspaces whose writers are paced.
    paced: usize,
    /// Whether the database is closed to writers.
    pub closed: bool,
    /// Work of the next writer after its commit: notify threads that wait for a batch (CS1 in
    /// `changes`), wait off the throttle debt, update the pressure.
    pub post_commit: PostCommit,
    /// Batches and operations since the open. Counted here because the lock is held anyway.
    pub batches: u64,
    /// Entries committed since the open.
    pub entries: u64,
}

/// The writable side of a keyspace; on cache lines of its own, because writers modify it constantly.
#[repr(align(128))]
pub struct ActiveKeyspace {
    /// The keyspace.
    pub keyspace: Arc<KeyspaceState>,
    /// Its active memtable.
    pub memtable: Arc<MemtableView>,
    pub(crate) inserter: Inserter,
    /// Told of puts (GP3).
    pub tombstone_spans: Arc<TombstoneSpanCache>,
    /// When the memtable is sealed; follows from the keyspace's options.
    pub limits: MemtableLimits,
    /// The admission rate of writers.
    pub pace: Pace,
    /// Payload bytes written to the active memtable.
    pub bytes: u64,
    /// Entries in that memtable.
    pub entries: u64,
    /// Key and value bytes since the open.
    pub user_bytes: u64,
}

/// Post-commit work of the next writer, one bit each (PC1 in [`crate::write::write_control`]).
#[derive(Clone, Copy, Debug, Default)]
pub struct PostCommit(u8);

impl PostCommit {
    /// A thread waits for the next batch.
    pub const NOTIFY: PostCommit = PostCommit(1);
    /// Writers of some keyspace are throttled.
    pub const THROTTLE: PostCommit = PostCommit(2);
    /// A memtable was sealed: the pressure is to be updated.
    pub const UPDATE_PRESSURE: PostCommit = PostCommit(4);

    /// Whether there is no such work.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether this work is due.
    pub fn has(self, duty: PostCommit) -> bool {
        self.0 & duty.0 != 0
    }

    /// Marks this work as due, or as done.
    pub fn set(&mut self, duty: PostCommit, is_set: bool) {
        self.0 = if is_set { self.0 | duty.0 } else { self.0 & !duty.0 };
    }

    /// Clears a flag; whether it was set.
    pub fn take(&mut self, duty: PostCommit) -> bool {
        let had = self.has(duty);
        self.set(duty, false);
        had
    }
}

/// When a memtable of a keyspace is sealed.
#[derive(Clone, Copy, Debug)]
pub struct MemtableLimits {
    /// Payload bytes.
    pub bytes: u64,
    /// Entries.
    pub entries: u64,
}

impl MemtableLimits {
    /// The limits that these options set.
    pub fn new(options: &KeyspaceOptions, memory: &MemoryPlan) -> MemtableLimits {
        MemtableLimits {
            bytes: options.write_buffer_bytes.unwrap_or(memory.write_buffer_bytes),
            entries: options.write_buffer_entries.unwrap_or(u64::MAX),
        }
    }
}

impl CommitState {
    /// The state in which `next_seqno` is assigned next.
    pub fn new(next_seqno: SeqNo, log: LogWriter) -> CommitState {
        CommitState {
            next_seqno,
            log,
            keyspaces: CachePadded(Vec::new()),
            recent_drops: RecentDrops::default(),
            active_bytes: 0,
            unlogged_bytes: 0,
            paced: 0,
            closed: false,
            post_commit: PostCommit::default(),
            batches: 0,
            entries: 0,
        }
    }

    /// Adds the writable side of a keyspace.
    pub(crate) fn add_keyspace(&mut self, active: ActiveKeyspace) {
        let at = active.keyspace.id.get() as usize;
        if self.keyspaces.len() <= at {
            self.keyspaces.resize_with(at + 1, || None);
        }
        self.keyspaces[at] = Some(Box::new(active));
    }

    /// Removes the writable side of a keyspace: from here on no thread writes to it or seals its memtable.
    pub(crate) fn withdraw(&mut self, keyspace: &KeyspaceState) -> Result<Box<ActiveKeyspace>> {
        let slot = self.keyspaces.get_mut(keyspace.id.get() as usize).and_then(Option::take);
        let active = slot.ok_or_else(|| self.recent_drops.why_missing(keyspace.id))?;
        self.active_bytes = self.active_bytes.saturating_sub(active.bytes);
        self.paced -= usize::from(active.pace.is_limited());
        self.note_paced();
        self.recent_drops.note(keyspace);
        Ok(active)
    }

    /// Reverts [`CommitState::withdraw`].
    pub fn put_back(&mut self, active: Box<ActiveKeyspace>) {
        let id = active.keyspace.id;
        self.recent_drops.forget(id);
        self.active_bytes += active.bytes;
        self.paced += usize::from(active.pace.is_limited());
        self.note_paced();
        self.keyspaces[id.get() as usize] = Some(active);
    }

    /// Sets the rate at which writers of a keyspace are admitted; `None` for no limit.
    pub(crate) fn set_pace(&mut self, id: KeyspaceId, rate: Option<u64>, now_ns: u64) {
        let Ok(active) = self.active(id) else { return };
        let was_limited = active.pace.is_limited();
        active.pace.set_rate(rate, now_ns);
        let is_limited = active.pace.is_limited();
        self.paced = self.paced + usize::from(is_limited) - usize::from(was_limited);
        self.note_paced();
    }

    fn note_paced(&mut self) {
        self.post_commit.set(PostCommit::THROTTLE, self.paced > 0);
    }

    /// An error unless the keyspace can be written to.
    pub fn check_keyspace(&self, id: KeyspaceId) -> Result<()> {
        match self.keyspaces.get(id.get() as usize) {
            Some(Some(_)) => Ok(()),
            _ => Err(self.recent_drops.why_missing(id)),
        }
    }

    /// The writable side of a keyspace.
    pub fn active(&mut self, id: KeyspaceId) -> Result<&mut ActiveKeyspace> {
        let slot = usize::try_from(id.get()).ok().and_then(|at| self.keyspaces.get_mut(at));
        match slot {
            Some(Some(active)) => Ok(active),
            _ => Err(self.recent_drops.why_missing(id)),
        }
    }

    /// The last assigned sequence number, and the log position behind it.
    pub fn end(&self) -> (SeqNo, esker_wal::LogPosition) {
        (SeqNo::new(self.next_seqno.get() - 1), self.log.position())
    }
}
