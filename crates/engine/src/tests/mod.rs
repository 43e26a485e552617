//! Tests of lower floors that need a whole database.

mod last_run_predictor;
mod table_files;
mod tombstone_span_cache;
