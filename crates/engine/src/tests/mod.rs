//! Tests of lower floors that need a whole database.

mod compression_downgrade;
mod last_run_predictor;
mod overwrite_ratio;
mod table_files;
mod tombstone_span_cache;
