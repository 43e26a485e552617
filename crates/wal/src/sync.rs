//! Durability `Power`: many writers, one flush.
//!
//! A writer that must survive a power cut waits until the log is durable up to its own sequence number. A
//! flush costs as much for a thousand records as for one, so writers share it: whoever finds no flush under
//! way becomes the *leader* and flushes for everybody who is visible by then; the others are *followers* and
//! wait.
//!
//! **The group_sync.** There is one flush at a time. The leader claims the group_sync first and captures afterwards,
//! under the writers' lock, the pair (last sequence number given out, end of the log); so what it flushes is
//! as new as can be, and a follower waits for the flush under way when it came and at most one more: whoever
//! leads next captures after that follower's record was complete. The group_sync's own lock is never held over the
//! capture (the writers' lock comes before it in the lock order) nor over a system call.
//!
//! **Groups.** Callers queue up until somebody claims the group_sync; then they are the *group* of that flush, all
//! of whom it covers, because each had published its record before it came. Those who come later are the next
//! group, but for the few whom the capture happens to cover. A flush is put off for a bounded moment while
//! those of the last round are about to come again ([`commit_delay`] says why, GA1 to GA3). Nobody leads
//! meanwhile: whoever completes the group finds that there is nothing to wait for and leads itself, which
//! needs no hand-over, and the first of the group watches the time.
//!
//! **GA4.** While callers are queued, a flush is under way, or one of them is awake, or one watches the time.
//! The end of each flush and poison wake everybody; a watch ends in a claim or an error. Who sleeps is
//! counted under the group_sync's lock, so a lone writer rings for nobody: that would be a system call for each of
//! its flushes.
//!
//! **CP7.** `durable <= S` where every byte of the log up to the position of S was complete *before* the
//! flush that succeeded began. Under the writers' lock no record is half copied, so the captured pair has
//! that property, and the flush begins after the capture.
//!
//! **CP3** (acknowledged implies that every earlier record is complete) is what makes a flush of a prefix
//! worth something: a `Power` acknowledgement at S covers all of the log below it, not this writer's record
//! only.
//!
//! **Failure.** Linux reports an error of writeback once per open file description and marks the pages clean:
//! a second `fdatasync` would return success for data that never reached the disk. So nothing is ever
//! retried: the first failure poisons the log. All waiters and all later callers get [`Error::ReadOnly`] with
//! the cause, `durable` stays where it was, and only reopening, which trusts nothing but what it can read,
//! clears the state. For the same reason the group_sync syncs on descriptions of its own, opened when a segment is
//! created and before the first store: sharing one with somebody else who syncs could let the other one see
//! the only report.
//!
//! **Poison.** A flag that is read with Acquire on every write, and a cause behind the group_sync's lock. It is set
//! once. Every wait in here tests it, and whoever sets it notifies.
//!
//! Rejected: a queue of waiters with one condition variable each (wakes fewer threads, but a flush costs a
//! hundred times what waking does); a timer that flushes periodically (adds latency to a lone writer); a
//! leader that yields its processor until the others have come (on a busy machine it gets it back after
//! somebody else's time slice). A second group_sync, one flush on the wire while the next one gathers, can come
//! behind the same calls once it is shown to gain 5 % with eight writers.

use crate::record::LogPosition;
use commit_delay::CommitDelay;
use esker_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use esker_base::sync::{CachePadded, Condvar, Mutex, MutexGuard};
use esker_base::{Error, Result};
use esker_env::Clock;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

mod commit_delay;

/// The shared flush; see the head of this file.
#[derive(Debug)]
pub(crate) struct GroupSync {
    /// Every sequence number up to here survives a power cut.
    durable_seqno: CachePadded<AtomicU64>,
    /// Counts how often the durable position was raised, so that the log's writer sees cheaply whether there
    /// is a mark to write.
    durable_raises: CachePadded<AtomicU64>,
    poisoned: CachePadded<AtomicBool>,
    state: Mutex<SyncState>,
    changed: Condvar,
    clock: Arc<dyn Clock>,
}

/// A durable position that the log may not tell yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingMark {
    /// How often the position had been raised by then.
    pub(crate) durable_raises: u64,
    pub(crate) position: LogPosition,
}

#[derive(Debug)]
struct SyncState {
    /// Whether somebody leads a flush at the moment.
    in_flight: bool,
    /// How often the group_sync was claimed: the number of the group that is queued.
    claims: u64,
    /// Callers in the group that is queued.
    queued: u32,
    /// Callers in the group of the flush under way.
    group: u32,
    /// Callers that sleep until something changes.
    sleeping: u32,
    commit_delay: CommitDelay,
    /// Everything before this place is durable.
    durable: LogPosition,
    /// Why the log takes no more writes.
    cause: Option<Arc<str>>,
}

impl SyncState {
    /// Joins the group that is queued; gives its number.
    fn join(&mut self, now_ns: u64) -> u64 {
        if self.queued == 0 {
            self.commit_delay.round_begins(now_ns);
        }
        self.queued += 1;
        self.claims
    }

    /// Leaves a group again, unless its flush took it along.
    fn leave(&mut self, group: u64) {
        if self.claims == group {
            self.queued -= 1;
        }
    }

    /// The group that is queued becomes that of a flush.
    fn claim(&mut self) {
        self.in_flight = true;
        self.claims += 1;
        self.group = std::mem::take(&mut self.queued);
        self.commit_delay.claimed();
    }

    /// What a caller is told, if there is something to tell.
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
    /// A group_sync for a log that is durable up to here.
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

    /// The state is changed in single assignments, so a panic elsewhere never leaves it half changed.
    fn lock(&self) -> MutexGuard<'_, SyncState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub(crate) fn durable_seqno(&self) -> u64 {
        self.durable_seqno.load(Ordering::Acquire)
    }

    pub(crate) fn durable_position(&self) -> LogPosition {
        self.lock().durable
    }

    /// How often the durable position was raised.
    #[inline]
    pub(crate) fn durable_raises(&self) -> u64 {
        self.durable_raises.load(Ordering::Relaxed)
    }

    /// The durable position and its count of durable_raises; `None` if somebody holds the lock at this moment,
    /// because the log's writer, who asks, may as well ask again at the next record.
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

    /// The cause of the poison, if the log is poisoned.
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

    /// Lets the lock go and wakes everybody who sleeps.
    fn unlock_and_notify(&self, state: MutexGuard<'_, SyncState>) {
        let sleeping = state.sleeping;
        drop(state);
        if sleeping > 0 {
            self.changed.notify_all();
        }
    }

    /// Ends a flush that did not succeed. Letting the group_sync go and poisoning are one step: in between, a
    /// follower would lead a second flush, which may succeed although the data is lost.
    fn end_with_poison(&self, cause: Arc<str>) {
        let mut state = self.lock();
        state.in_flight = false;
        state.poison(cause, &self.poisoned);
        self.unlock_and_notify(state);
    }

    /// Returns once everything up to `seqno` is durable, leading a flush if nobody else does.
    ///
    /// `capture` takes the writers' lock for a moment and gives the last sequence number handed out and the
    /// end of the log, both complete; `flush` syncs everything before that place.
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
                // The flush that took it along covered less: only a number that nobody has given out yet is
                // beyond it.
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

    /// Waits until the group_sync is claimed by somebody else, or poisoned, or the time is over.
    fn wait_for_group<'a>(
        &'a self,
        mut state: MutexGuard<'a, SyncState>,
        limit: Duration,
    ) -> MutexGuard<'a, SyncState> {
        let claims = state.claims;
        state.commit_delay.start_timer();
        let mut is_over = false;
        // Woken without a reason: whoever ended the last flush may ring only now.
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

    /// Waits for a change, and says whether the time was over before one.
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

    /// Models have no time: others run for as long as it pleases the model, and then the time is over.
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
                format!("the log ends at sequence number {captured}, a sync up to {seqno} was asked for");
            return Err(Error::internal(what));
        }
        Ok(())
    }
}

/// Whoever leads the flush under way. Dropped without an outcome, that is by a panic, it poisons.
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
