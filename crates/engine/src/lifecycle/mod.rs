//! Lifecycle: opening and recovery, and keyspaces that are created, changed and dropped.

pub(crate) mod history_recovery;
pub(crate) mod keyspace;
pub(crate) mod open;
pub(crate) mod replay;
