//! Background work: worker pools, flush, the compaction picker, compaction, and the install of their results.

pub mod clock_state;
pub mod compact;
pub mod flush;
pub mod flush_group;
mod flush_pieces;
pub mod idle;
pub mod idle_wal;
pub mod install;
pub mod install_options;
pub mod kept_tables;
pub mod migration;
pub mod picker;
pub mod quarantine;
pub mod spill_memtables;
pub mod subcompactions;
pub mod table_eviction;
pub mod targets;
pub mod workers;
