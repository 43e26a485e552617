//! What a database reports about itself, each report in a file of its own.

pub(crate) mod levels;
pub(crate) mod metrics;
pub(crate) mod quarantine;
pub(crate) mod readers;
pub(crate) mod targets;
pub(crate) mod verify;
