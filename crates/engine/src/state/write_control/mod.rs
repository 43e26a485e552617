//! Write control state of one keyspace: measured rates, the queues that slow its writers, and whether they
//! are slowed.
//!
//! [`crate::write::write_control`] computes and applies it; [`pace`] is the schedule that a slowed writer
//! keeps.

pub mod pace;

use esker_strategy::write_control::{Capacity, FULL_PERMILLE, pressure_permille};
use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, SystemTime};

/// The number of recorded state changes.
const MAX_CHANGES: usize = 64;

/// A queue that slows writers when it grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pressure {
    /// Which queue.
    pub cause: PressureCause,
    /// Its content: bytes, or runs.
    pub amount: u64,
    /// The amount from which on writers are slowed.
    pub soft: u64,
    /// The amount at which writers stop.
    pub hard: u64,
    /// The position between the two, in 1/1000; 0 if compaction could not reduce it.
    pub permille: u32,
}

/// The kind of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PressureCause {
    /// Bytes of the keyspace's memtables, before the flush.
    Memory,
    /// Bytes of all keyspaces' memtables, before the flush.
    SharedMemory,
    /// Runs of level 0, before compaction.
    Level0,
    /// Bytes of tables and unfinished outputs, under a space target.
    Space,
    /// Bytes above the last level and in memtables that overwrite older ones, where merges keep them within a
    /// budget.
    Garbage,
}

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

/// A keyspace's write control: measurements, state, and recent changes.
#[derive(Debug, Default)]
pub struct Control {
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

impl Pressure {
    /// The pressure of an amount between a soft and a hard limit.
    pub fn new(cause: PressureCause, amount: u64, soft: u64, hard: u64) -> Pressure {
        Pressure { cause, amount, soft, hard, permille: pressure_permille(amount, soft, hard) }
    }

    /// No pressure.
    pub fn none(cause: PressureCause) -> Pressure {
        Pressure { cause, amount: 0, soft: 0, hard: 0, permille: 0 }
    }

    /// Whether the hard limit is reached.
    pub fn is_full(&self) -> bool {
        self.permille >= FULL_PERMILLE
    }
}

impl Control {
    /// Records a flush of `payload_bytes` of user data, written as `table_bytes`.
    pub fn note_flush(&mut self, payload_bytes: u64, table_bytes: u64, (began_ns, ended_ns): (u64, u64)) {
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

    /// Records a change of state.
    pub fn note(&mut self, queues: &Queues, rate: Option<u64>, now_ms: u64) {
        let all = [queues.garbage, queues.space, queues.memory, queues.level0];
        let worst = all.into_iter().max_by_key(|pressure| pressure.permille).unwrap_or(queues.level0);
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

impl fmt::Display for Pressure {
    /// `level 0 has 19 runs (slower from 12, stop at 24)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (amount, soft, hard) = (self.amount, self.soft, self.hard);
        match self.cause {
            PressureCause::Level0 => {
                write!(f, "level 0 has {amount} runs (slower from {soft}, stop at {hard})")
            }
            PressureCause::Garbage => {
                let (amount, soft, hard) = (Mebibytes(amount), Mebibytes(soft), Mebibytes(hard));
                write!(
                    f,
                    "{amount} overwritten by newer data wait for compaction (slower from {soft}, slowest from {hard})"
                )
            }
            PressureCause::Memory | PressureCause::SharedMemory | PressureCause::Space => {
                let whose = match self.cause {
                    PressureCause::Memory => "its memtables",
                    PressureCause::SharedMemory => "all keyspaces' memtables",
                    _ => "tables and running compactions",
                };
                let (amount, soft, hard) = (Mebibytes(amount), Mebibytes(soft), Mebibytes(hard));
                write!(f, "{whose} hold {amount} (slower from {soft}, stop at {hard})")
            }
        }
    }
}

struct Mebibytes(u64);

impl fmt::Display for Mebibytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} MiB", self.0 as f64 / f64::from(1 << 20))
    }
}
