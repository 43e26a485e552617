//! Workloads, histograms and reports: how fast is the database, measured through the public facade.
//!
//! # What makes the numbers honest
//! * Keys are made before the clock starts; values are slices of a pool, so that the timed loop does nothing
//!   but call the database, compare answers and count.
//! * Every answer is checked while it is measured. A run that returned a wrong value or the wrong number of
//!   them is an error and prints no number.
//! * The clock is read for every 64th operation only: it costs about as much as a cached read.
//! * A fill has two ends: when the last write was acknowledged, and when flushes and compactions have caught
//!   up. Both are reported, because either alone can be bought with the other.
//! * What an opening is measured after is a real process that was killed with a full memtable, and what is
//!   opened is read to the end before the next.
//! * Every generator starts from the seed that the report names.
//!
//! # The data
//! Record `i` has a key of [`Settings::key_size`] bytes, 16 unless told, whose first eight scatter `i` over
//! all 64-bit numbers by a bijection, and a value, 100 bytes unless told, that compresses to about a half.
//! Hence writing records in the order of `i` is writing random keys, keys are distinct, and an absent key
//! lies between present ones.
//!
//! # Map
//! [`settings`] what can be chosen; `data` keys, values and patterns; `sample` clocks and histograms; `store`
//! the database and what is known of its contents; `workloads` the timed loops; `deletes` reading where much
//! was deleted; `rest` after an idle time; `reopen` opening, after a clean close and after a kill; `blob`
//! large values; `overwrite` writing without a break; `compact` the merge loop; [`report`] rows and the
//! table; [`run()`] the whole; `host` the little it asks of the operating system.

#![forbid(unsafe_code)]

mod blob;
mod compact;
mod data;
mod deletes;
pub mod error;
mod host;
mod overwrite;
mod reopen;
pub mod report;
mod rest;
pub mod run;
mod sample;
pub mod settings;
mod store;
mod workloads;

pub use error::BenchError;
pub use reopen::fill_until_killed;
pub use report::{AmplificationRow, MemoryRow, MergeRow, OverwriteRow, Report, Row, SecondRow};
pub use run::run;
pub use settings::{Group, Settings, StartVictim, Victim, Workload};
