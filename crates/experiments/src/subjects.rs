//! The experiments, a module each.

pub(crate) mod codecs;
pub(crate) mod filters;
pub(crate) mod hashes;
pub(crate) mod memtables;
