//! Pressure: how full a queue before background work is, and what that does to writers.

use super::admission_rate::{FULL_PERMILLE, pressure_permille};
use std::fmt;

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

/// The state of a keyspace's writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteState {
    /// Not throttled.
    #[default]
    Free,
    /// Admitted at a rate.
    Slowed {
        /// Bytes of keys and values a second.
        bytes_per_second: u64,
    },
    /// A queue is full: the next write that needs a new memtable waits.
    Stopped,
}

impl PressureCause {
    /// All of them.
    pub const ALL: [PressureCause; 5] = [
        PressureCause::Memory,
        PressureCause::SharedMemory,
        PressureCause::Level0,
        PressureCause::Space,
        PressureCause::Garbage,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            PressureCause::Memory => "memory",
            PressureCause::SharedMemory => "shared memory",
            PressureCause::Level0 => "level 0",
            PressureCause::Space => "space",
            PressureCause::Garbage => "garbage",
        }
    }

    /// Whether flushes drain the queue; compactions drain the others.
    pub fn is_drained_by_flushes(self) -> bool {
        match self {
            PressureCause::Memory | PressureCause::SharedMemory => true,
            PressureCause::Level0 | PressureCause::Space | PressureCause::Garbage => false,
        }
    }
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

    /// The same pressure, whatever follows from `amount`: for an amount that no work could reduce.
    #[must_use]
    pub fn holding(self, amount: u64) -> Pressure {
        Pressure { amount, ..self }
    }

    /// The same amount and limits with this position between the limits, where that is not linear.
    #[must_use]
    pub fn at_permille(self, permille: u32) -> Pressure {
        Pressure { permille, ..self }
    }

    /// Whether the hard limit is reached.
    pub fn is_full(&self) -> bool {
        self.permille >= FULL_PERMILLE
    }
}

impl WriteState {
    /// The state of writers that are admitted at a rate, or without limit, under the pressure of the queue
    /// that is closest to its limit.
    pub fn of(worst: &Pressure, admitted_bytes_per_second: Option<u64>) -> WriteState {
        match admitted_bytes_per_second {
            _ if worst.is_full() => WriteState::Stopped,
            None => WriteState::Free,
            Some(bytes_per_second) => WriteState::Slowed { bytes_per_second },
        }
    }

    /// Whether the states differ in more than a rate.
    pub fn is_same_kind(self, other: WriteState) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
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
