//! The log as a whole, on file systems that lose data, damage it and fail.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod crash;
mod damage;
mod faults;
mod group_sync;
mod harness;
mod history;
mod inspect;
mod lifecycle;
