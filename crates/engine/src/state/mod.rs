//! State: what an open database has, and the locks that guard it.
//!
//! Nothing here starts work: the floors above read and change this state.

pub mod activity;
pub mod adaptive_state;
pub mod commit_notifier;
pub mod commit_state;
pub mod consumers;
pub mod counters;
pub mod events;
pub mod figures;
pub mod idle_budget;
pub mod jobs;
pub mod keyspace;
pub mod log_ages;
pub mod memory_shares;
pub mod pinned_memtables;
pub mod quarantine;
pub mod read_heat;
pub mod read_triggered;
pub mod scheduler;
pub mod sealed_memory;
pub mod shape;
pub mod space_use;
pub mod store;
pub mod traffic;
pub mod write_control;
