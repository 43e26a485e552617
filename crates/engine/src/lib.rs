//! The database engine: commit, read path, flush, compaction, recovery.
