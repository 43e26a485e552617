//! Tests of the engine, and of what lies below it, that need a whole database.

mod amplification;
mod compact;
mod compaction_outcome;
#[cfg(all(feature = "zstd", feature = "lzma"))]
mod compression_downgrade;
mod idle_wal;
mod jobs;
mod last_run_predictor;
mod memory_arbiter;
mod overwrite_ratio;
mod picker;
mod table_files;
mod tombstone_span_cache;
mod workers;
mod write_control;
