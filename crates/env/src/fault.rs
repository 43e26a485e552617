//! File systems for tests.
//!
//! * [`StrictFs`] lives in memory and promises exactly what the contract of [`crate::FileSystem`] does and
//!   not a bit more: data are durable after a sync of the file, names after a sync of their directory. It
//!   records what happened, and makes from any moment of that record a file system as it could be found after
//!   a crash there.
//! * [`FaultFs`] wraps any file system and makes calls fail by rule: the third sync of a log, one read in a
//!   hundred, every write from now on. It also lets a test in between: in the middle of a call it does what
//!   another thread might do there.
//!
//! They are part of the crate and not of its tests, because every floor above is tested with them, and
//! because users who build on the engine's parts need them as well.

mod faulty;
mod rules;
mod strict;

pub use faulty::FaultFs;
pub use rules::{Fault, Operation, Rule, When};
pub use strict::{Crash, Event, Replayer, StrictFs, StrictOptions};
