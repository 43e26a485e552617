//! Group commit: writers with durability `Power` share one `fdatasync` of the log.
//!
//! A writer that must survive a power cut waits until the log is durable up to its own sequence number. A
//! flush costs as much for a thousand records as for one, so writers share it: a caller that finds no flush
//! in flight becomes the *leader* and flushes everything visible by then; the others are *followers* and
//! wait.
//!
//! **One flush at a time.** The leader claims the flush first and afterwards captures, under the writers'
//! lock, the pair (last sequence number assigned, end of the log). So the flush covers as much as possible,
//! and a follower waits for the flush in flight when it arrived and for at most one more: the next leader
//! captures after that follower's record was complete. The lock of this module is never held over the capture
//! (the writers' lock precedes it in the lock order) nor over a system call.
//!
//! **Groups.** Callers queue until one claims the flush; they are then the *group* of that flush, which
//! covers all of them, because each published its record before it queued. Later callers form the next group,
//! except for those that the capture happens to cover. A flush is delayed for a bounded moment while callers
//! of the last round are likely to return ([`commit_delay`] gives the reason, GA1 to GA3). During the delay
//! there is no leader: the caller that completes the group finds no reason to wait and leads, which needs no
//! hand-over; the first caller of the group watches the timer.
//!
//! * **GA4** While callers are queued, a flush is in flight, or one of them is awake, or one watches the
//!   timer. The end of each flush and poisoning wake all sleepers; a timer ends in a claim or an error.
//!   Sleepers are counted under the lock, so a lone writer skips the notification, which would be a system
//!   call for each flush.
//!
//! **CP7.** `durable <= S` where every byte of the log up to the position of S was complete *before* the
//! successful flush began. Under the writers' lock no record is half copied, so the captured pair has that
//! property, and the flush begins after the capture.
//!
//! **CP3** (acknowledged implies that every earlier record is complete) makes the flush of a prefix useful: a
//! `Power` acknowledgement at S covers the whole log below it, not only this writer's record.
//!
//! **Failure.** Linux reports a writeback error once per open file description and marks the pages clean: a
//! second `fdatasync` would return success for data that never reached the disk. So a flush is never retried:
//! the first failure poisons the log. All waiters and all later callers get [`Error::ReadOnly`] with the
//! cause, `durable` stays, and only reopening, which trusts only what it can read, clears the state. For the
//! same reason group sync has its own file descriptions, opened when a segment is created and before the
//! first store: another user of the same description could consume the only error report.
//!
//! **Poison.** A flag that every write reads with Acquire, and a cause under the lock. It is set once. Every
//! wait in this module tests it, and setting it notifies all sleepers.
//!
//! **Waiting without leading.** [`GroupSync::wait_durable`] returns when the flushes of others have covered a
//! sequence number. Such waiters join no group, delay no flush and are woken with the followers.
//!
//! * **GA5** A wait without leading ends at the latest with the log: by poison, or when it is
//!   [closed](GroupSync::end_waits). Both are noted under the lock before the sleepers are woken.
//!
//! Rejected: a queue of waiters with one condition variable each (wakes fewer threads, but a flush costs a
//! hundred times a wake-up); a timer that flushes periodically (adds latency to a lone writer); a leader that
//! yields its processor until the others arrive (on a busy machine it resumes only after another thread's
//! time slice). A second flush in flight while the next group gathers can be added behind the same calls once
//! it is shown to gain 5 % with eight writers.

use crate::record::LogPosition;
use commit_delay::CommitDelay;
use esker_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use esker_base::sync::{CachePadded, Condvar, Mutex, MutexGuard};
use esker_base::{Error, Result};
use esker_env::Clock;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

mod commit_delay;

/// The longest single wait; longer ones are made of several, because the platform's may have a limit.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

#[derive(Debug)]
pub(crate) struct GroupSync {
    /// Every sequence number up to here survives a power cut.
    durable_seqno: CachePadded<AtomicU64>,
    /// Rises of the durable position: one load tells the log's writer whether there is a mark to write.
    durable_raises: CachePadded<AtomicU64>,
    poisoned: CachePadded<AtomicBool>,
    state: Mutex<SyncState>,
    changed: Condvar,
    clock: Arc<dyn Clock>,
}

/// A durable position that no record of the log carries yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingMark {
    /// The count of rises at that position.
    pub(crate) durable_raises: u64,
    pub(crate) position: LogPosition,
}

#[derive(Debug)]
struct SyncState {
    in_flight: bool,
    /// How often a flush was claimed: the number of the queued group.
    claims: u64,
    queued: u32,
    /// Callers in the group of the flush in flight.
    group: u32,
    /// Callers that sleep until the state changes.
    sleeping: u32,
    commit_delay: CommitDelay,
    /// Everything before this place is durable.
    durable: LogPosition,
    cause: Option<Arc<str>>,
    /// No flush will follow that waiters could wait for.
    has_ended: bool,
}

/// How a wait for the flushes of others ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DurableWait {
    /// Everything up to the sequence number survives a power cut.
    Durable,
    /// The time is over.
    TimedOut,
    /// The log was closed, or takes no more records.
    Ended,
}

impl SyncState {
    /// Joins the queued group; returns its number.
    fn join(&mut self, now_ns: u64) -> u64 {
        if self.queued == 0 {
            self.commit_delay.round_begins(now_ns);
        }
        self.queued += 1;
        self.claims
    }

    /// Leaves a group, unless its flush has been claimed.
    fn leave(&mut self, group: u64) {
        if self.claims == group {
            self.queued -= 1;
        }
    }

    fn claim(&mut self) {
        self.in_flight = true;
        self.claims += 1;
        self.group = std::mem::take(&mut self.queued);
        self.commit_delay.claimed();
    }

    /// The result for a caller, once it is known.
    fn outcome(&self, is_durable: bool) -> Option<Result<()>> {
        if is_durable {
            return Some(Ok(()));
        }
        self.cause.as_ref().map(|cause| Err(Error::ReadOnly { cause: cause.clone() }))
    }

    fn poison(&mut self, cause: Arc<str>, flag: &AtomicBool) {
        if self.cause.is_none() {
            self.cause = Some(cause);
            flag.store(true, Ordering::Release);
        }
    }
}

impl GroupSync {
    pub(crate) fn new(seqno: u64, position: LogPosition, clock: Arc<dyn Clock>) -> GroupSync {
        let state = SyncState {
            in_flight: false,
            claims: 0,
            queued: 0,
            group: 0,
            sleeping: 0,
            commit_delay: CommitDelay::new(),
            durable: position,
            cause: None,
            has_ended: false,
        };
        GroupSync {
            durable_seqno: CachePadded(AtomicU64::new(seqno)),
            durable_raises: CachePadded(AtomicU64::new(0)),
            poisoned: CachePadded(AtomicBool::new(false)),
            state: Mutex::new(state),
            changed: Condvar::new(),
            clock,
        }
    }

    /// The state is changed by single assignments, so a panic elsewhere never leaves it half changed.
    fn lock(&self) -> MutexGuard<'_, SyncState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The monotonic time, by which flushes are measured.
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.monotonic_ns()
    }

    #[inline]
    pub(crate) fn durable_seqno(&self) -> u64 {
        self.durable_seqno.load(Ordering::Acquire)
    }

    pub(crate) fn durable_position(&self) -> LogPosition {
        self.lock().durable
    }

    #[inline]
    pub(crate) fn durable_raises(&self) -> u64 {
        self.durable_raises.load(Ordering::Relaxed)
    }

    /// Durable position and its count of rises; `None` if locked: the writer retries with the next record.
    pub(crate) fn try_pending_mark(&self) -> Option<PendingMark> {
        let state = self.state.try_lock().ok()?;
        Some(PendingMark {
            durable_raises: self.durable_raises.load(Ordering::Relaxed),
            position: state.durable,
        })
    }

    #[inline]
    pub(crate) fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::Acquire)
    }

    pub(crate) fn cause(&self) -> Option<Arc<str>> {
        if !self.is_poisoned() {
            return None;
        }
        self.lock().cause.clone()
    }

    /// Poisons the log; the first cause stays.
    pub(crate) fn poison(&self, cause: Arc<str>) {
        let mut state = self.lock();
        state.poison(cause, &self.poisoned);
        self.unlock_and_notify(state);
    }

    fn unlock_and_notify(&self, state: MutexGuard<'_, SyncState>) {
        let sleeping = state.sleeping;
        drop(state);
        if sleeping > 0 {
            self.changed.notify_all();
        }
    }

    /// Ends a failed flush and poisons in one step: in between, a follower could lead a flush that succeeds.
    fn end_with_poison(&self, cause: Arc<str>) {
        let mut state = self.lock();
        state.in_flight = false;
        state.poison(cause, &self.poisoned);
        self.unlock_and_notify(state);
    }

    /// Returns once everything up to `seqno` is durable, leading a flush if none is in flight.
    ///
    /// `capture` takes the writers' lock for a moment and returns the last sequence number assigned and the
    /// end of the log, both complete; `flush` syncs everything before that position.
    pub(crate) fn sync_up_to(
        &self,
        seqno: u64,
        capture: impl Fn() -> (u64, LogPosition),
        flush: impl Fn(LogPosition) -> Result<()>,
    ) -> Result<()> {
        if self.durable_seqno() >= seqno {
            return Ok(());
        }
        let mut state = self.lock();
        let mut group = state.join(self.clock.monotonic_ns());
        loop {
            if let Some(outcome) = state.outcome(self.durable_seqno() >= seqno) {
                state.leave(group);
                return outcome;
            }
            if state.in_flight {
                state = self.wait(state);
                continue;
            }
            if state.claims != group {
                // The flush of its group covered less: only a number not yet assigned is beyond it.
                group = state.join(self.clock.monotonic_ns());
            }
            let Some(limit) = state.commit_delay.limit(state.queued) else { break };
            if state.commit_delay.is_timed() {
                state = self.wait(state);
                continue;
            }
            state = self.wait_for_group(state, limit);
            if state.claims == group && state.cause.is_none() {
                break;
            }
        }
        state.claim();
        drop(state);
        self.lead(seqno, capture, flush)
    }

    /// Waits until everything up to `seqno` is durable, at most `limit`. Leads no flush.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] if the log is poisoned.
    pub(crate) fn wait_durable(&self, seqno: u64, limit: Duration) -> Result<DurableWait> {
        if self.durable_seqno() >= seqno {
            return Ok(DurableWait::Durable);
        }
        let began_ns = self.clock.monotonic_ns();
        let mut state = self.lock();
        let mut is_over = limit.is_zero();
        loop {
            if let Some(outcome) = state.outcome(self.durable_seqno() >= seqno) {
                return outcome.map(|()| DurableWait::Durable);
            }
            if state.has_ended {
                return Ok(DurableWait::Ended);
            }
            let waited = Duration::from_nanos(self.clock.monotonic_ns().saturating_sub(began_ns));
            let left = limit.saturating_sub(waited);
            if is_over || left.is_zero() {
                return Ok(DurableWait::TimedOut);
            }
            let piece = left.min(LONGEST_WAIT);
            (state, is_over) = self.wait_at_most(state, piece);
            is_over &= piece == left;
        }
    }

    /// Ends all waits for the flushes of others, present and future ones.
    pub(crate) fn end_waits(&self) {
        let mut state = self.lock();
        state.has_ended = true;
        self.unlock_and_notify(state);
    }

    /// Waits until another caller claims the flush, the log is poisoned, or the delay is over.
    fn wait_for_group<'a>(
        &'a self,
        mut state: MutexGuard<'a, SyncState>,
        limit: Duration,
    ) -> MutexGuard<'a, SyncState> {
        let claims = state.claims;
        state.commit_delay.start_timer();
        let mut is_over = false;
        // A wake-up without a change: the leader of the last flush may notify only now.
        while !is_over && state.claims == claims && state.cause.is_none() {
            (state, is_over) = self.wait_at_most(state, limit);
        }
        state
    }

    fn wait<'a>(&self, mut state: MutexGuard<'a, SyncState>) -> MutexGuard<'a, SyncState> {
        state.sleeping += 1;
        let mut state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.sleeping -= 1;
        state
    }

    /// Waits for a change; returns whether the time was over before one.
    #[cfg(not(loom))]
    fn wait_at_most<'a>(
        &self,
        mut state: MutexGuard<'a, SyncState>,
        limit: Duration,
    ) -> (MutexGuard<'a, SyncState>, bool) {
        state.sleeping += 1;
        let waited = self.changed.wait_timeout(state, limit);
        let (mut state, outcome) = waited.unwrap_or_else(PoisonError::into_inner);
        state.sleeping -= 1;
        (state, outcome.timed_out())
    }

    /// Loom has no time: other threads run for as long as the model chooses, and then the time is over.
    #[cfg(loom)]
    fn wait_at_most<'a>(
        &'a self,
        state: MutexGuard<'a, SyncState>,
        _: Duration,
    ) -> (MutexGuard<'a, SyncState>, bool) {
        drop(state);
        esker_base::sync::thread::yield_now();
        (self.lock(), true)
    }

    fn lead(
        &self,
        seqno: u64,
        capture: impl Fn() -> (u64, LogPosition),
        flush: impl Fn(LogPosition) -> Result<()>,
    ) -> Result<()> {
        let leader = SyncLeader { group_sync: self };
        let (captured, position) = capture();
        let began_ns = self.clock.monotonic_ns();
        match flush(position) {
            Ok(()) => leader.succeeded(captured, position, began_ns),
            Err(error) => return Err(leader.failed(&error)),
        }
        if captured < seqno {
            let what =
                format!("the log ends at sequence number {captured}, a sync up to {seqno} was requested");
            return Err(Error::internal(what));
        }
        Ok(())
    }
}

/// The leader of the flush in flight. Dropped without an outcome, that is by a panic, it poisons the log.
struct SyncLeader<'a> {
    group_sync: &'a GroupSync,
}

impl SyncLeader<'_> {
    fn succeeded(self, seqno: u64, position: LogPosition, began_ns: u64) {
        let group_sync = self.group_sync;
        let now_ns = group_sync.clock.monotonic_ns();
        std::mem::forget(self);
        let mut state = group_sync.lock();
        state.in_flight = false;
        let (group, queued) = (state.group, state.queued);
        state.commit_delay.ended(group, queued, now_ns.saturating_sub(began_ns), now_ns);
        if position > state.durable {
            state.durable = position;
            group_sync.durable_raises.fetch_add(1, Ordering::Relaxed);
        }
        group_sync.durable_seqno.fetch_max(seqno, Ordering::Release);
        group_sync.unlock_and_notify(state);
    }

    fn failed(self, error: &Error) -> Error {
        let group_sync = self.group_sync;
        std::mem::forget(self);
        group_sync.end_with_poison(
            format!("a flush of the log failed and cannot be repeated safely: {error}").into(),
        );
        Error::ReadOnly { cause: group_sync.cause().unwrap_or_else(|| error.to_string().into()) }
    }
}

impl Drop for SyncLeader<'_> {
    fn drop(&mut self) {
        self.group_sync.end_with_poison("a flush of the log panicked".into());
    }
}

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;
