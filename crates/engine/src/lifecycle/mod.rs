//! Lifecycle: opening and recovery, and keyspaces that are created, changed and dropped.

pub mod close;
pub mod history_recovery;
pub mod keyspace;
mod new_keyspace;
pub mod open;
pub mod replay;
