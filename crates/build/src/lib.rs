//! How a merge becomes tables.
//!
//! A flush or a compaction hands a merge of its sources, newest first, to [`table_sink::write_tables`], with
//! an [`table_sink::OutputSpec`] that says how the tables are made. What comes back are
//! [`pending_outputs::Outputs`]: files that no manifest names yet, and that are deleted on drop unless an
//! installed edit claims them.
//!
//! On the way an entry passes:
//!
//! 1. retention (`esker_iter::CompactionIter`): superseded versions are dropped unless a snapshot reads them,
//!    and tombstones where [`older_versions`] shows that nothing older exists outside of the job.
//!    [`range_del`] gathers the range tombstones of the inputs and cuts them at the borders of tables;
//! 2. key-value separation ([`blob_separation`]): large values go to blob files;
//! 3. the table writer, with a filter chosen by [`filters`] and a codec that [`compression_downgrade`] may
//!    replace while writers are about to wait.
//!
//! Beside the entries, [`overwrite_ratio`] samples how many of them replace something, and [`warmed_outputs`]
//! puts the blocks of hot inputs into the cache in their new form.
//!
//! Nothing here knows jobs, keyspaces or the manifest: a job is seen through [`table_sink::OutputControl`],
//! and what is written counts once the engine installs it.
#![forbid(unsafe_code)]

pub mod blob_separation;
pub mod compression_downgrade;
pub mod filters;
pub mod older_versions;
pub mod overwrite_ratio;
pub mod pending_outputs;
pub mod range_del;
pub mod table_factory;
pub mod table_sink;
pub mod warmed_outputs;
