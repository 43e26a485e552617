//! The experiments, a module each.

pub(crate) mod byron;
pub(crate) mod caches;
pub(crate) mod codecs;
pub(crate) mod csc443;
pub(crate) mod filters;
pub(crate) mod fractio;
pub(crate) mod hashes;
pub(crate) mod indexes;
pub(crate) mod memtables;
pub(crate) mod strategies;
