//! File systems for tests.
//!
//! * [`StrictFs`] is in memory and guarantees exactly the contract of [`crate::FileSystem`], nothing more:
//!   data are durable after a sync of the file, names after a sync of their directory. It records all
//!   changes, and builds from any point of that record a file system as it could be found after a crash
//!   there.
//! * [`FaultFs`] wraps any file system and makes calls fail by rule: the third sync of a log, one read in a
//!   hundred, every write from now on. It can also run an action in the middle of a call, as another thread
//!   might.
//!
//! They are part of the crate and not of its tests, because every floor above is tested with them, and
//! because users of the engine parts need them as well.

mod faulty;
mod rules;
mod strict;

pub use faulty::FaultFs;
pub use rules::{Fault, Operation, Rule, When};
pub use strict::{Crash, Event, Replayer, StrictFs, StrictOptions};
