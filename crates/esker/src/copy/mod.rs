//! Copies of a database: checkpoints beside it, backups elsewhere.
//!
//! # One capture for both
//! A copy shows one moment S of the whole database, though it takes a while to make. [`capture`] takes that
//! moment under the two locks that every change of the state needs: `manifest` (no table is added or removed)
//! and `commit` (no sequence number is assigned). Under them all non-empty memtables are sealed and the state
//! and the views are cloned; this takes microseconds. From then on the captured data cannot change: tables
//! are immutable and the views keep their files from being deleted, sealed memtables take no writes.
//!
//! [`image`] turns a capture into a database directory of its own: the captured memtables are written as
//! tables, and a manifest lists them with the captured tables. No log is copied. Segments are recycled in
//! place, so they could not be linked; and the entries of the log beyond the tables are exactly those of the
//! captured memtables, which are in memory anyway.
//!
//! * **TS3** A copy opens to exactly the prefix S: each entry at or below S is in a captured table or a
//!   captured memtable; captured tables hold nothing newer (RV3: flushed entries are visible, and S is
//!   `visible` at the capture), and captured memtables neither, because they were sealed under the lock.
//! * A copy is made under another name and renamed after all of it is durable. Whatever is found under the
//!   final name is complete. One maker at a time works at a target ([`staging`]).
//! * Each file that is copied is verified by the checksums inside of it before it counts
//!   ([`esker_engine::file_transfer::Transfer::copy_verified`]). A linked file is not read: it is the
//!   original.
//!
//! Rejected: copying the log up to S with re-headed segments (protocol 8.3). It saves writing the memtables
//! once, at the price of a second writer of the log's format that only copies would exercise.
//!
//! | file | holds |
//! |---|---|
//! | [`capture`] | the moment |
//! | [`image`] | a capture as files |
//! | [`staging`] | the directory in which a copy is made, and the lock of its maker |
//! | [`esker_engine::file_transfer`] | linking, copying and verifying files, progress |
//! | [`checkpoint`] | a copy on the same disk, by links |
//! | [`backup`] | many copies in one directory, sharing tables |
//! | [`backup_dir`] | that directory: locks, catalogs, the shared tables and their damage |
//! | [`catalog`] | the file that lists the contents of a backup |
//! | [`restore`] | from a backup to a database, and verification of a backup |
//! | [`retention`] | which backups are removed |
//! | [`portable`] | export and import: the visible data, in a separate format |

pub(crate) mod backup;
mod backup_dir;
pub(crate) mod capture;
pub(crate) mod catalog;
pub(crate) mod checkpoint;
pub(crate) mod image;
pub(crate) mod portable;
pub(crate) mod replacement;
pub(crate) mod restore;
pub(crate) mod retention;
pub(crate) mod staging;

pub use backup::{BackupId, BackupInfo, BackupReport, Backups};
pub use checkpoint::CheckpointReport;
pub use portable::{ExportReport, ImportReport, check_export};
pub use replacement::ReplaceReport;
pub use restore::{BackupVerification, RestoreReport};
pub use retention::Retention;

use esker_base::{Result, SeqNo};
use esker_engine::state::store::Store;
use esker_options::{CopyKind, Event};
use std::path::Path;
use std::time::Duration;

/// Tells listeners that a copy, begun at that time of the monotonic clock, was made or has failed.
fn report_end<T>(
    store: &Store,
    kind: CopyKind,
    directory: &Path,
    began_ns: u64,
    copied: Result<T>,
    seqno: impl FnOnce(&T) -> SeqNo,
) -> Result<T> {
    store.events.emit(|| Event::CopyEnded {
        kind,
        directory: directory.to_path_buf(),
        result: copied.as_ref().map(seqno).map_err(Clone::clone),
        duration: Duration::from_nanos(store.monotonic_ns().saturating_sub(began_ns)),
    });
    copied
}
