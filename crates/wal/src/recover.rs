//! Log recovery: replays the records of earlier lives of the database up to the end of the log, and decides
//! whether that end is a crash or damage.
//!
//! **Guarantee.** The records returned are a prefix of the order of writing, each one whole (WL3), and the
//! prefix holds everything that was acknowledged at its level of durability. Otherwise the open fails with
//! the file and the offset.
//!
//! **Procedure.** Scanning starts at the segment that the manifest names and follows the end records. The
//! first offset without a valid record is the *stop*, at h. Every log has one, because a crash writes no end
//! marker. What it means depends on the bytes behind the stop and on what is known to have been durable. So
//! the rest of the segment and all later segments are searched for valid records: n of them, and D is the
//! greatest of the marks in any valid record and of the manifest's durable positions.
//!
//! The [tail check](tail) has the table of findings. A segment begun after a manifest edit that the manifest
//! does not have is corruption in any case.
//!
//! Undetected: damage to the very last records if they were never synced and nothing valid follows. It cannot
//! be told from a torn tail.
//!
//! **WL1.** A cut never truncates or overwrites: bytes that recovery has read may exist only in the page
//! cache, and a failed flush may have marked them clean. So nothing is ever appended to a segment that was
//! read; the caller puts what was replayed into tables, begins a new log, commits that, and deletes the old
//! files ([`crate::Log::delete_old`]). Until then recovery writes nothing (RC1), and the same files give the
//! same result however often recovery is interrupted (RC2).
//!
//! **RC3.** Ids and sequence numbers never go back, not even past the cut: the report counts all of them. CP7
//! and the marks give D its meaning: a mark is written only after its flush succeeded.

use crate::catalog::Catalog;
use crate::record::LogPosition;
use chain::Chain;
use esker_base::{Error, LogId, Result};
use esker_env::FileSystem;
use std::path::Path;

mod chain;
mod record_view;
mod report;
mod tail;

pub use record_view::{RecordEntries, RecordView};
pub use report::RecoveryReport;

/// How the tail of the log is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "WALRecoveryMode")]
pub enum WalRecovery {
    /// By the boot in which the segment was written.
    #[default]
    Strict,
    /// As after a power cut: for an image of a running host, or a device remounted within one boot.
    PowerCut,
}

/// Input of recovery.
#[derive(Clone, Copy, Debug)]
pub struct RecoverInput<'a> {
    /// The file system.
    pub fs: &'a dyn FileSystem,
    /// The directory of the segments; missing means that there are none.
    pub dir: &'a Path,
    /// The database.
    pub db_uuid: [u8; 16],
    /// The first segment that is needed, from the manifest.
    pub min_log_id: LogId,
    /// The greatest durable position in the manifest.
    pub durable: LogPosition,
    /// The number of the last edit in the manifest.
    pub last_manifest_edit: u64,
    /// How to check the tail.
    pub mode: WalRecovery,
}

/// Reads the log and passes every batch, Carry and Ingest record to `on_record`, in order, up to the stop.
///
/// Reads each live segment once, through a buffer of about 1 MiB or the largest record; changes nothing. The
/// tail is checked last: the records count only if this returns a report.
///
/// # Errors
/// [`Error::Corruption`] by the tail check, [`Error::Unsupported`] for what a newer version wrote,
/// [`Error::Io`] from the device, and the errors of `on_record`.
pub fn recover(
    input: &RecoverInput<'_>,
    on_record: &mut dyn FnMut(&RecordView<'_>) -> Result<()>,
) -> Result<RecoveryReport> {
    let catalog = Catalog::read(input.fs, input.dir, &input.db_uuid, input.min_log_id)?;
    for segment in catalog.live.values() {
        if segment.header.manifest_edit > input.last_manifest_edit {
            let detail = format!(
                "the log segment was begun after edit {} of the manifest, which ends with edit {}: \
                 the manifest has lost durable edits",
                segment.header.manifest_edit, input.last_manifest_edit
            );
            return Err(Error::corruption(segment.file.path(), 0, detail));
        }
    }
    let mut chain = Chain::new(input, &catalog);
    let stop = chain.follow(on_record)?;
    chain.search_behind(&stop)?;
    chain.check_tail(&stop)?;
    Ok(chain.report(&stop))
}
