//! State: what an open database has, and the locks that guard it.
//!
//! Nothing here starts work: the floors above read and change this state.

pub(crate) mod adaptive_state;
pub(crate) mod commit_notifier;
pub(crate) mod consumers;
pub(crate) mod counters;
pub(crate) mod idle_budget;
pub(crate) mod jobs;
pub(crate) mod keyspace;
pub(crate) mod read_heat;
pub(crate) mod scheduler;
pub(crate) mod store;
