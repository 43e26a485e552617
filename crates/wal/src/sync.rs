//! Durability `Power`: many writers, one flush.
//!
//! A writer that must survive a power cut waits until the log is durable up to its own sequence number. A flush
//! costs as much for a thousand records as for one, so writers share it: whoever finds no flush under way becomes
//! the *leader* and flushes for everybody who is visible by then; the others are *followers* and wait.
//!
//! **The lane.** There is one flush at a time. The leader claims the lane first and captures afterwards, under
//! the writers' lock, the pair (last sequence number given out, end of the log); so what it flushes is as new as
//! can be, and a follower waits for the flush under way when it came and at most one more: whoever leads next
//! captures after that follower's record was complete. The lane's own lock is never held over the capture (the
//! writers' lock comes before it in the lock order) nor over a system call.
//!
//! **CP7.** `durable <= S` where every byte of the log up to the position of S was complete *before* the flush
//! that succeeded began. Under the writers' lock no record is half copied, so the captured pair has that
//! property, and the flush begins after the capture.
//!
//! **CP3** (acknowledged implies that every earlier record is complete) is what makes a flush of a prefix worth
//! something: a `Power` acknowledgement at S covers all of the log below it, not this writer's record only.
//!
//! **Failure.** Linux reports an error of writeback once per open file description and marks the pages clean: a
//! second `fdatasync` would return success for data that never reached the disk. So nothing is ever retried: the
//! first failure poisons the log. All waiters and all later callers get [`Error::ReadOnly`] with the cause,
//! `durable` stays where it was, and only reopening, which trusts nothing but what it can read, clears the state.
//! For the same reason the lane syncs on descriptions of its own, opened when a segment is created and before
//! the first store: sharing one with somebody else who syncs could let the other one see the only report.
//!
//! **Poison.** A flag that is read with Acquire on every write, and a cause behind the lane's lock. It is set
//! once. Every wait in here tests it, and whoever sets it notifies.
//!
//! Rejected: a queue of waiters with one condition variable each (wakes fewer threads, but a flush costs a
//! hundred times what waking does); a timer that flushes periodically (adds latency to a lone writer). A second
//! lane, one flush on the wire while the next one gathers, can come behind the same calls once it is shown to
//! gain 5 % with eight writers.

use crate::record::LogPosition;
use esker_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use esker_base::sync::{CachePadded, Condvar, Mutex, MutexGuard};
use esker_base::{Error, Result};
use std::sync::{Arc, PoisonError};

/// The shared flush; see the head of this file.
#[derive(Debug)]
pub(crate) struct FlushLane {
    /// Every sequence number up to here survives a power cut.
    durable_seqno: CachePadded<AtomicU64>,
    /// Counts how often the durable position was raised, so that the log's writer sees cheaply whether there
    /// is a mark to write.
    raises: CachePadded<AtomicU64>,
    poisoned: CachePadded<AtomicBool>,
    state: Mutex<LaneState>,
    changed: Condvar,
}

/// A durable position that the log may not tell yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingMark {
    /// How often the position had been raised by then.
    pub(crate) raises: u64,
    pub(crate) position: LogPosition,
}

#[derive(Debug)]
struct LaneState {
    /// Whether somebody leads a flush at the moment.
    in_flight: bool,
    /// Everything before this place is durable.
    durable: LogPosition,
    /// Why the log takes no more writes.
    cause: Option<Arc<str>>,
}

impl LaneState {
    fn poison(&mut self, cause: Arc<str>, flag: &AtomicBool) {
        if self.cause.is_none() {
            self.cause = Some(cause);
            flag.store(true, Ordering::Release);
        }
    }
}

impl FlushLane {
    /// A lane for a log that is durable up to here.
    pub(crate) fn new(seqno: u64, position: LogPosition) -> FlushLane {
        FlushLane {
            durable_seqno: CachePadded(AtomicU64::new(seqno)),
            raises: CachePadded(AtomicU64::new(0)),
            poisoned: CachePadded(AtomicBool::new(false)),
            state: Mutex::new(LaneState { in_flight: false, durable: position, cause: None }),
            changed: Condvar::new(),
        }
    }

    /// The state is changed in single assignments, so a panic elsewhere never leaves it half changed.
    fn lock(&self) -> MutexGuard<'_, LaneState> {
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
    pub(crate) fn raises(&self) -> u64 {
        self.raises.load(Ordering::Relaxed)
    }

    /// The durable position and its count of raises; `None` if somebody holds the lock at this moment, because
    /// the log's writer, who asks, may as well ask again at the next record.
    pub(crate) fn try_pending_mark(&self) -> Option<PendingMark> {
        let state = self.state.try_lock().ok()?;
        Some(PendingMark { raises: self.raises.load(Ordering::Relaxed), position: state.durable })
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
        self.lock().poison(cause, &self.poisoned);
        self.changed.notify_all();
    }

    /// Ends a flush that did not succeed. Letting the lane go and poisoning are one step: in between, a
    /// follower would lead a second flush, which may succeed although the data is lost.
    fn end_with_poison(&self, cause: Arc<str>) {
        let mut state = self.lock();
        state.in_flight = false;
        state.poison(cause, &self.poisoned);
        drop(state);
        self.changed.notify_all();
    }

    /// Returns once everything up to `seqno` is durable, leading a flush if nobody else does.
    ///
    /// `capture` takes the writers' lock for a moment and gives the last sequence number handed out and the end
    /// of the log, both complete; `flush` syncs everything before that place.
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
        loop {
            if self.durable_seqno() >= seqno {
                return Ok(());
            }
            if let Some(cause) = &state.cause {
                return Err(Error::ReadOnly { cause: cause.clone() });
            }
            if !state.in_flight {
                break;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.in_flight = true;
        drop(state);
        self.lead(seqno, capture, flush)
    }

    fn lead(
        &self,
        seqno: u64,
        capture: impl Fn() -> (u64, LogPosition),
        flush: impl Fn(LogPosition) -> Result<()>,
    ) -> Result<()> {
        let leader = Leader { lane: self };
        let (captured, position) = capture();
        match flush(position) {
            Ok(()) => leader.succeeded(captured, position),
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
struct Leader<'a> {
    lane: &'a FlushLane,
}

impl Leader<'_> {
    fn succeeded(self, seqno: u64, position: LogPosition) {
        let lane = self.lane;
        std::mem::forget(self);
        let mut state = lane.lock();
        state.in_flight = false;
        if position > state.durable {
            state.durable = position;
            lane.raises.fetch_add(1, Ordering::Relaxed);
        }
        lane.durable_seqno.fetch_max(seqno, Ordering::Release);
        drop(state);
        lane.changed.notify_all();
    }

    fn failed(self, error: &Error) -> Error {
        let lane = self.lane;
        std::mem::forget(self);
        lane.end_with_poison(
            format!("a flush of the log failed and cannot be repeated safely: {error}").into(),
        );
        Error::ReadOnly { cause: lane.cause().unwrap_or_else(|| error.to_string().into()) }
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        self.lane.end_with_poison("a flush of the log panicked".into());
    }
}

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;
