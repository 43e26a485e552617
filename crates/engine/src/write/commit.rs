//! Commit pipeline: makes a batch ordered, visible and durable.
//!
//! # The design
//! One lock, `commit`, orders everything. A batch is encoded and checksummed before the lock is taken: its
//! bytes are the log record's payload and the source of the memtable's entries, never encoded again. Under
//! the lock a write takes four steps:
//!
//! 1. *Room*: space in the log segment, else rotate; space in each memtable, else seal. If there is none the
//!    lock is released, nothing is consumed, and the writer waits for the worker that makes room.
//! 2. *Order*: the batch takes the next sequence numbers. From here on nothing may fail (CP5): the log's
//!    range is reserved, the arenas have room. (The `write(2)` path of the log can still fail here; it
//!    reverts everything.)
//! 3. *Copy*: the record into the mapped log, the entries and the index into the memtables.
//! 4. *Publish*: one release store of `visible`. The lock is released.
//!
//! Measured on two cores this beats reservation under the lock with parallel insertion and ordered
//! publication by 1.4 to 3.3 times: the shared cache lines of reservation and publication would move between
//! cores at every put.
//!
//! # Prefetch of contended cache lines
//! When a thread takes the lock, the guarded state is in the cache of the core that held it before. A line
//! takes 45 ns from there if the two cores share a last-level cache and 200 ns if not (Zen 5 in a virtual
//! machine, half of a round trip). So the writer prefetches the lines that it will write beyond the state,
//! the log's end, the arena's end and the counters, before it searches for the key's position
//! ([`CommitState::begin_insert`]); the room check uses the inserter's own counters, and the append hint
//! stores its key's first bytes. A prefetch before taking the lock would steal the lines from the current
//! holder. Rejected: prefetching the state and the keyspace with the lock just taken; two threads gained
//! nothing.
//!
//! # Invariants
//! * CP1: sequence numbers, log offsets and arena ranges are assigned in one order, under one lock.
//! * CP2: `visible` moves over complete records only: the store is the last step under the lock.
//! * CP3: acknowledged implies visible, hence every earlier record is complete in the page cache; a process
//!   killed at any instruction loses no acknowledged write.
//! * CP4: a reader that loads `visible` with Acquire sees the memtable stores of everything at or below it.
//! * CP5: between taking sequence numbers and publishing them nothing fails. A panic there would leave a
//!   hole, so a guard poisons the database.
//! * RV2: a view with a new active memtable is published before any sequence number is assigned for it,
//!   because both happen under the lock in that order.
//!
//! [Durability](durability) beyond the process is awaited after the lock is released; see [`esker_wal::Log`].
//!
//! # Batches that are not logged
//! A batch at [`Durability::None`] skips the log: it takes sequence numbers and goes into its memtable alone.
//! So it costs no checksum and no copy, and a crash loses it unless a flush has put the memtable into a
//! table.
//! * UL1: An unlogged batch belongs to one keyspace, so that a flush has all of it or nothing: batches over
//!   several keyspaces are logged.
//! * UL2: Memtables of a keyspace are flushed in their order, so what survives of its unlogged batches is a
//!   prefix of them. Logged batches survive by their own durability, also behind a lost unlogged one.
//!   Rejected: a logged batch that first flushes unlogged entries of its keyspace, which would make every
//!   `Power` write behind a `None` one wait for a table.
//! * UL3: While there are consumers or readers of the change stream every batch is logged. They register
//!   under the commit lock, and unlogged entries are flushed before a consumer counts as created.
//! * UL4: Closing and syncing the database flush memtables with unlogged entries.
//! * UL5: Unlogged bytes count as if they filled log segments ([`crate::write::make_room`]), because filled
//!   segments are what keeps memtables within their share.

use crate::state::commit_state::{CommitGuard, CommitState};
use crate::state::store::{Store, Writing};
use crate::write::batch::EncodedBatch;
use crate::write::make_room;
use crate::write::make_room::RoomCheck;
use crate::write::write_control;
use crate::write::write_options::WriteOptions;
use crate::write::write_stall;
use crate::write::write_stall::{StallPolicy, Wait};
use esker_base::planted;
use esker_base::{Error, Result, SeqNo, Unwinding, checksum};
use esker_options::Durability;
use esker_view::super_version::UNLOGGED;
use std::sync::atomic::Ordering;
use std::time::Duration;

mod durability;
mod insert;

pub use durability::{sync, wait_durable};

/// How one write is acknowledged.
#[derive(Clone, Copy, Debug)]
pub struct WriteMode {
    /// What the write survives once it is acknowledged.
    pub durability: Durability,
    /// Whether it may wait.
    pub stall_policy: StallPolicy,
}

/// Decides under the commit lock whether a batch may be written.
pub trait Admission {
    /// Whether the batch may be written now. It does no I/O and returns quickly, because every writer waits.
    /// `false` requests [`Admission::prepare`]; an error refuses the batch, of which nothing was written.
    fn admit(&mut self, state: &CommitState) -> Result<bool>;

    /// Does slower work without the lock, so that the next [`Admission::admit`] can decide.
    fn prepare(&mut self, store: &Store) -> Result<()>;
}

/// Admits every batch: a plain write has no condition, and the check compiles to nothing.
struct Always;

impl Admission for Always {
    #[inline(always)]
    fn admit(&mut self, _: &CommitState) -> Result<bool> {
        Ok(true)
    }

    fn prepare(&mut self, _: &Store) -> Result<()> {
        Ok(())
    }
}

/// How a write without options is acknowledged.
#[inline]
pub fn default_write_mode(store: &Store) -> WriteMode {
    WriteMode { durability: store.durability, stall_policy: StallPolicy::Stall }
}

/// How a write with these options is acknowledged.
#[inline]
pub fn write_mode(store: &Store, options: &WriteOptions) -> WriteMode {
    let stall_policy = if options.no_stall { StallPolicy::Refuse } else { StallPolicy::Stall };
    WriteMode { durability: options.durability.unwrap_or(store.durability), stall_policy }
}

/// Writes a batch; returns its last sequence number.
pub fn commit(
    store: &Store,
    batch: &EncodedBatch<'_>,
    durability: Durability,
    stall_policy: StallPolicy,
) -> Result<SeqNo> {
    commit_if(store, batch, durability, stall_policy, &mut Always)
}

/// Writes a batch if `admission` admits it; returns its last sequence number.
#[inline]
pub fn commit_if<A: Admission>(
    store: &Store,
    batch: &EncodedBatch<'_>,
    durability: Durability,
    stall_policy: StallPolicy,
    admission: &mut A,
) -> Result<SeqNo> {
    if batch.count == 0 {
        // Nothing to write, but `Power` covers everything before it as well.
        let last = SeqNo::new(store.visible.load(Ordering::Acquire));
        if durability == Durability::Power {
            store.writing()?.sync_up_to(last)?;
        }
        return Ok(last);
    }
    let may_skip_log = durability == Durability::None && batch.shares.len() == 1;
    let payload_crc = if may_skip_log { 0 } else { checksum::crc32c(batch.payload) };
    let writing = store.writing()?;
    // The last check before the order is fixed: its result still holds when the batch becomes visible,
    // because no other thread commits meanwhile.
    let mut wait = Wait::at_most(store.stall_limit);
    let Room { mut state, is_logged } = loop {
        let room = lock_with_room(store, writing, batch, may_skip_log, stall_policy, &mut wait)?;
        if admission.admit(&room.state)? {
            break room;
        }
        drop(room);
        admission.prepare(store)?;
    };
    let first = state.next_seqno;
    let last = SeqNo::new(first.get() + u64::from(batch.count) - 1);
    // The memtable's memory is prefetched while the record is copied into the log.
    let prepared = state.begin_insert(batch);
    let log_id = if is_logged {
        let payload_crc = if may_skip_log { checksum::crc32c(batch.payload) } else { payload_crc };
        state.log.append(first, batch.count, batch.payload, payload_crc)?.log_id.get()
    } else {
        state.skip_log(batch, first)
    };
    {
        let _guard = PoisonOnPanic::new(store);
        state.next_seqno = last.plus(1);
        state.insert(batch, prepared, first, log_id);
        store.visible.store(last.get(), Ordering::Release);
    }
    let after = if state.post_commit.is_empty() {
        None
    } else {
        Some(write_control::after_commit(store, &mut state, batch))
    };
    drop(state);
    if let Some(after) = after {
        let max_delay = if stall_policy == StallPolicy::Stall { wait.left() } else { Duration::ZERO };
        write_control::finish_commit(store, writing, &after, max_delay);
    }
    if durability == Durability::Power {
        writing.sync_up_to(last)?;
    }
    store.scheduler.step_sometimes(store);
    Ok(last)
}

/// The commit lock, with room for a batch.
pub struct Room<'w> {
    /// What the lock guards.
    pub state: CommitGuard<'w>,
    /// Whether the batch must go into the log, where there is room for it; see UL3.
    pub is_logged: bool,
}

/// Takes the commit lock once there is room for the batch, which may skip the log (UL1). Waiting time is
/// subtracted from `wait`.
#[inline]
pub(crate) fn lock_with_room<'w>(
    store: &Store,
    writing: &'w Writing,
    batch: &EncodedBatch<'_>,
    may_skip_log: bool,
    stall_policy: StallPolicy,
    wait: &mut Wait,
) -> Result<Room<'w>> {
    let needs_private = !writing.log.fits_segment(batch.payload.len());
    // A private segment is a file of its own: closing waits while one is being created or deleted, and
    // after closing none is, because another process may own the directory by then.
    let _activity = needs_private.then(|| store.activity.read_recursive());
    if needs_private {
        store.check_open()?;
    }
    let mut private = None;
    let mut has_waited = false;
    loop {
        if needs_private && private.is_none() {
            // Created before the lock is taken: filling a large file under it would block every writer.
            // Created again if an earlier pass used one up and then had to wait for room elsewhere.
            private = Some(writing.log.prepare_private(batch.payload.len())?);
        }
        let mut state = writing.commit.lock();
        // Under the lock: the previous holder may have poisoned the database, and publishing anything
        // after that would publish its incomplete work (CP5).
        store.writing()?;
        if state.closed {
            return Err(Error::Closed);
        }
        let seen = store.scheduler.generation();
        let is_logged = !may_skip_log || needs_private || must_log(store, &state);
        match make_room::make_room(store, writing, &mut state, batch, is_logged, &mut private)? {
            RoomCheck::Ready if stall_policy == StallPolicy::Refuse => {
                write_control::refuse_early(store, &mut state, batch)?;
                return Ok(Room { state, is_logged });
            }
            RoomCheck::Ready => return Ok(Room { state, is_logged }),
            RoomCheck::Wait(wait_for) => {
                drop(state);
                if !has_waited {
                    has_waited = true;
                    store.counters.stalls.fetch_add(1, Ordering::Relaxed);
                }
                write_stall::wait_for_room(store, &wait_for, seen, stall_policy, wait)?;
            }
        }
    }
}

/// UL3.
#[cold]
fn must_log(store: &Store, state: &CommitState) -> bool {
    store.consumers.are_there() || state.log.is_followed()
}

impl CommitState {
    /// Passes over the batch's sequence numbers in the log; returns what stands for a log id.
    #[cold]
    fn skip_log(&mut self, batch: &EncodedBatch<'_>, first: SeqNo) -> u64 {
        self.log.skip(first, batch.count);
        self.unlogged_bytes += batch.payload.len() as u64;
        for share in batch.shares {
            let active = self.keyspaces[share.keyspace.get() as usize].as_ref().expect("room was made in it");
            active.memtable.note_unlogged();
        }
        UNLOGGED
    }
}

/// Turns a panic between "sequence numbers taken" and "published" into poison (CP5): waiters and later
/// writers get an error instead of a database with a hole.
pub struct PoisonOnPanic<'a>(&'a Store, Unwinding);

impl<'a> PoisonOnPanic<'a> {
    /// Around a section that has taken, or takes, sequence numbers.
    #[inline]
    pub fn new(store: &'a Store) -> PoisonOnPanic<'a> {
        PoisonOnPanic(store, Unwinding::watch())
    }
}

impl Drop for PoisonOnPanic<'_> {
    fn drop(&mut self) {
        if self.1.began_since() || planted!(UnrelatedPanicPoisons) && std::thread::panicking() {
            self.0.fail("a panic interrupted a write after it had taken its sequence numbers");
        }
    }
}
