//! Benchmark workloads, histograms and reports, measured through the public facade.
//!
//! # What makes the numbers honest
//! * Keys are made before the clock starts, and values are slices of a pool: the timed loop only calls the
//!   database, compares answers and counts.
//! * Every answer is checked while it is measured. A run with a wrong value or a wrong number of them is an
//!   error and reports no number.
//! * The clock is read for every 64th operation only: it costs about as much as a cached read.
//! * A fill has two ends: the last acknowledged write, and the end of flushes and compactions. Both are
//!   reported, because either alone can be improved at the cost of the other.
//! * Openings are measured after a real process was killed with a full memtable, and each opened database is
//!   read to the end.
//! * Every generator starts from the seed in the report.
//!
//! # The data
//! Record `i` has a key of [`Settings::key_size`] bytes (default 16), whose first eight scatter `i` over all
//! 64-bit numbers by a bijection, and a value (default 100 bytes) that compresses to about a half. So writing
//! records in the order of `i` writes random keys, keys are distinct, and an absent key lies between present
//! ones.
//!
//! # Map
//! [`settings`] what can be chosen; `data` keys and values; [`distribution`] which records are
//! chosen; `sample` clocks and histograms; `store`
//! the database and its description; [`dsl_workload`] files of commands for the text protocol; `workloads`
//! the timed loops; `deletes` reads among deleted keys; `rest` reads after an idle time; `keyspaces` many
//! keyspaces; `reopen` opening after a clean close and after a kill; `blob` large values; `overwrite`
//! sustained overwriting; `memory_bound` anonymous memory against its bound; `compact` the merge loop;
//! [`report`] rows and the table; [`run()`] the whole; `host` operating system services.

#![forbid(unsafe_code)]

mod blob;
mod compact;
mod data;
mod deletes;
pub mod distribution;
pub mod dsl_workload;
pub mod error;
mod host;
mod keyspaces;
mod memory_bound;
mod overwrite;
mod reopen;
pub mod report;
mod rest;
pub mod run;
mod sample;
pub mod settings;
mod store;
mod workloads;

pub use distribution::{Choices, Distribution};
pub use error::BenchError;
pub use reopen::fill_until_killed;
pub use report::{
    AmplificationRow, MemoryBoundRow, MemoryRow, MergeRow, OverwriteRow, Report, Row, SecondRow,
};
pub use run::run;
pub use settings::{Group, Settings, StartVictim, Victim, Workload};
