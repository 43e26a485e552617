//! Background work: worker pools, flush, the compaction picker, compaction, and the install of their results.

pub(crate) mod compact;
pub(crate) mod flush;
pub(crate) mod idle_wal;
pub(crate) mod install;
pub(crate) mod picker;
pub(crate) mod subcompactions;
pub(crate) mod table_eviction;
pub(crate) mod targets;
pub(crate) mod workers;
