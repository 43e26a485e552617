//! Write path: batches, the commit, room in log and memtables, and backpressure on writers.

pub mod batch;
pub mod commit;
pub mod ingest_commit;
pub mod ingested_part;
pub mod memory_arbiter;
pub mod pressure;
pub mod room;
pub mod write_options;
