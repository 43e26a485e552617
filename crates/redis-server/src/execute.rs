//! Execution: requests become checked calls, calls become groups, groups become batches.

pub(crate) mod group;
mod paused;
pub(crate) mod requests;
mod stripes;
pub(crate) mod transaction;
mod woken;
