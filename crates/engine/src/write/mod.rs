//! Write path: batches, the commit, room in log and memtables, and backpressure on writers.

pub(crate) mod batch;
pub(crate) mod commit;
pub(crate) mod ingest_commit;
pub(crate) mod ingested_part;
pub(crate) mod memory_arbiter;
pub(crate) mod pressure;
pub(crate) mod room;
pub(crate) mod write_options;
