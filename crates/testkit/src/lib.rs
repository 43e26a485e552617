//! Test oracle, workload generators, and crash, damage and error sweeps for the whole database.
//!
//! | module | holds |
//! |---|---|
//! | [`domain`] | the keys, values and keyspaces that scripts use |
//! | [`script`], [`options`] | an operation, a plan (options and script), and every option that is varied |
//! | [`operators`] | the merge operators of keyspaces under test |
//! | [`generator`] | random plans |
//! | [`oracle`] | what a database must contain, at each commit and at each snapshot |
//! | [`runner`] | a database under test, with its oracle; a file for each kind of operation |
//! | `one_key` | operations that write one key, with an expiry |
//! | `transactions` | transactions of a script, and which of them must meet a conflict |
//! | [`model`], [`shrink`] | the model test, and shrinking of its failing plans |
//! | [`crash`] | the crash sweep: every cut of a workload's trace, and of recovery's |
//! | [`image_choice`] | which images a sweep of a given length checks |
//! | [`damage`] | the damage sweep: every place of every file |
//! | [`events`] | the audit of events, which the model and the error sweep run with |
//! | [`errors`] | the error sweep: every call fails once |
//! | `log_scan` | the sequence numbers in a log, before it is opened |
//! | [`kill`] | the writes of the process that is killed, and the check of what it left |
//! | [`soak`] | every kind of work at once on real files, for hours |
//! | [`directory_image`] | a fuzz target for verification and repair: a small database, damaged |
//! | [`decoders`] | a fuzz target for every decoder of bytes from outside |
//!
//! Every failure names what reproduces it: a seed, a cut, an image. Only the tests on real threads depend on
//! anything else.
#![forbid(unsafe_code)]

pub mod crash;
mod cursor_walks;
pub mod damage;
pub mod decoders;
mod dir;
pub mod directory_image;
pub mod domain;
pub mod errors;
pub mod events;
mod failure;
mod follower;
pub mod generator;
pub mod image_choice;
pub mod ingest;
pub mod kill;
mod log_scan;
pub mod model;
mod one_key;
mod open_transaction;
pub mod operators;
pub mod options;
pub mod oracle;
pub mod runner;
pub mod script;
pub mod shrink;
pub mod soak;
mod transactions;
mod watch;

pub use dir::TestDir;
pub use domain::{Filler, KEYS, Key, PREFIXES, SPACES};
pub use failure::{Failure, Outcome};
pub use generator::Generator;
pub use oracle::{Content, Moment, Oracle};
pub use runner::{DIR, Runner};
pub use watch::WatchFs;

use std::time::{Duration, SystemTime};

/// Milliseconds since 1970, the oracle's form of a time.
pub fn unix_ms(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// The time so many milliseconds after 1970 began.
pub fn from_unix_ms(ms: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(ms)
}
