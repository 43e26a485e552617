//! Failures that were met once, each by a test under a name of its own: growth without bound, waiting for
//! ever, one keyspace in the way of others, space that did not come back.
//!
//! The world of every test is simulated: files in memory, background work step by step in the one thread,
//! moments chosen by seeds. Each test says what it guards, and was seen to fail without it.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

mod disk_full;
mod fairness;
mod idle;
mod opening;
mod poison;
mod room;
mod switching;
mod world;
