//! Regression tests, each under a name of its own: unbounded growth, endless waits, one keyspace blocking
//! others, space that is not released.
//!
//! Every test is simulated: files in memory, background work step by step in one thread, moments chosen by
//! seeds. Each test says what it guards, and was seen to fail without it.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

mod disk_full;
mod fairness;
mod full_disk_open;
mod idle;
mod memtable_limits;
mod opening;
mod poison;
mod simulated_env;
mod switching;
