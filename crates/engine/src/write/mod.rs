//! Write path: batches, the commit, room in log and memtables, and write control.

pub mod batch;
pub mod commit;
pub mod ingest_commit;
pub mod ingested_part;
pub mod make_room;
pub mod memory_arbiter;
pub mod switch_memtable;
pub mod write_control;
pub mod write_options;
pub mod write_stall;
