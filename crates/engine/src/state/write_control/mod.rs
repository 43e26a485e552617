//! Write control state of one keyspace: measured rates, the queues that slow its writers, and whether they
//! are slowed.
//!
//! [`crate::write::write_control`] computes and applies it; [`pace`] is the schedule that a slowed writer
//! keeps.

pub mod pace;

use esker_strategy::write_control::{Capacity, Pressure, PressureCause, WriteState};
use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// The number of recorded state changes.
const MAX_CHANGES: usize = 64;

/// A change of the state or of the limiting queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StallChange {
    /// When.
    pub at: SystemTime,
    /// The queue closest to its limit.
    pub pressure: Pressure,
    /// The rate from then on; `None` for no limit.
    pub admitted_bytes_per_second: Option<u64>,
}

/// Writes that wait for a kind of background work.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitingWrites {
    /// The number of writes.
    pub writes: u64,
    /// The work they wait for.
    pub cause: &'static str,
}

/// The write control of one keyspace.
#[derive(Debug, Default)]
pub struct WriteControl {
    /// Taken before `busy` and `commit`.
    state: Mutex<ControlState>,
    /// The admission rate of writers in bytes a second, 0 for no limit, as of the last update of the
    /// pressure.
    admitted_bytes_per_second: AtomicU64,
}

impl WriteControl {
    /// Measurements and state.
    pub fn lock(&self) -> MutexGuard<'_, ControlState> {
        self.state.lock()
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, ControlState>> {
        self.state.try_lock()
    }

    /// The admission rate as of the last update, in bytes a second; `None` for no limit.
    pub fn admitted_bytes_per_second(&self) -> Option<u64> {
        Some(self.admitted_bytes_per_second.load(Ordering::Relaxed)).filter(|rate| *rate != 0)
    }

    /// Publishes an admission rate.
    pub fn admit(&self, bytes_per_second: Option<u64>) {
        self.admitted_bytes_per_second.store(bytes_per_second.unwrap_or(0), Ordering::Relaxed);
    }

    /// Whether writers are throttled by a queue that merges drain.
    pub(crate) fn waits_for_merges(&self) -> bool {
        let cause = self.lock().state;
        cause.is_some_and(|cause| !cause.is_drained_by_flushes())
    }
}

/// Measurements, state, and recent changes.
#[derive(Debug, Default)]
pub struct ControlState {
    /// The measured rates of flushes and compactions.
    pub capacity: Capacity,
    /// Bytes a second at which writers are admitted, if they are throttled.
    pub rate: Option<u64>,
    pub(crate) looked_ns: u64,
    /// When the last flush ended; 0 before the first.
    pub flushed_ns: u64,
    /// Why they are, or wait.
    pub state: Option<PressureCause>,
    /// The last changes of that.
    pub changes: VecDeque<StallChange>,
    /// The state that listeners were told last, and its cause.
    told: (WriteState, Option<PressureCause>),
}

/// A change of the state of writes.
#[derive(Clone, Copy, Debug)]
pub struct WriteStateChange {
    /// The state before.
    pub from: WriteState,
    /// The state from now on.
    pub to: WriteState,
    /// The queue closest to its limit.
    pub worst: Pressure,
}

/// The limits and fill of a keyspace's queues.
#[derive(Clone, Copy, Debug)]
pub struct Queues {
    /// Memory of memtables.
    pub memory: Pressure,
    /// Runs in level 0.
    pub level0: Pressure,
    /// Space against the target.
    pub space: Pressure,
    /// Garbage in blob files.
    pub garbage: Pressure,
}

impl ControlState {
    /// Records a flush of `payload_bytes` of user data, written as `table_bytes`; the times are those of the
    /// monotonic clock.
    pub fn note_flush(&mut self, payload_bytes: u64, table_bytes: u64, began_ns: u64, ended_ns: u64) {
        let took = Duration::from_nanos(ended_ns.saturating_sub(began_ns));
        self.capacity.note_flush(payload_bytes, table_bytes, took);
        if self.flushed_ns != 0 {
            let since = Duration::from_nanos(ended_ns.saturating_sub(self.flushed_ns));
            self.capacity.note_arrival(payload_bytes, since);
        }
        self.flushed_ns = ended_ns;
    }

    #[doc(hidden)]
    pub fn set_state(&mut self, state: Option<PressureCause>) {
        self.state = state;
    }

    /// Records a change of state. Returns what listeners are told: the state before, the new one, and the
    /// queue closest to its limit; `None` if at most a rate has changed.
    pub fn note(&mut self, queues: &Queues, rate: Option<u64>, now_ms: u64) -> Option<WriteStateChange> {
        let worst = queues.worst();
        let state = WriteState::of(&worst, rate);
        let told = (state, (state != WriteState::Free).then_some(worst.cause));
        let before = std::mem::replace(&mut self.told, told);
        let has_changed = !before.0.is_same_kind(told.0) || before.1 != told.1;
        self.note_cause(worst, rate, now_ms);
        has_changed.then_some(WriteStateChange { from: before.0, to: told.0, worst })
    }

    fn note_cause(&mut self, worst: Pressure, rate: Option<u64>, now_ms: u64) {
        let state = rate.map(|_| worst.cause);
        if state == self.state {
            return;
        }
        self.state = state;
        if self.changes.len() == MAX_CHANGES {
            self.changes.pop_front();
        }
        self.changes.push_back(StallChange {
            at: esker_view::time::from_ms(now_ms),
            pressure: worst,
            admitted_bytes_per_second: rate,
        });
    }
}

impl Queues {
    /// The queue closest to its limit.
    fn worst(&self) -> Pressure {
        let mut worst = self.garbage;
        for pressure in [self.space, self.memory, self.level0] {
            if pressure.permille >= worst.permille {
                worst = pressure;
            }
        }
        worst
    }
}
