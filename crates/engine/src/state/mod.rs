//! State: what an open database has, and the locks that guard it.
//!
//! Nothing here starts work: the floors above read and change this state.

pub(crate) mod activity;
pub(crate) mod adaptive_state;
pub(crate) mod commit_lock;
pub(crate) mod commit_notifier;
pub(crate) mod commit_state;
pub(crate) mod consumers;
pub(crate) mod counters;
pub(crate) mod idle_budget;
pub(crate) mod installed;
pub(crate) mod jobs;
pub(crate) mod keyspace;
pub(crate) mod log_ages;
pub(crate) mod memory_shares;
pub(crate) mod no_plan_cache;
pub(crate) mod post_commit;
pub(crate) mod read_heat;
pub(crate) mod scheduler;
pub(crate) mod store;
pub(crate) mod throttle;
pub(crate) mod traffic;
pub(crate) mod write_control;
