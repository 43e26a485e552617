//! Tail check: whether the stop of a log is a torn tail, as a crash leaves it, or corruption.
//!
//! The stop is at offset h of its segment; n valid records were found behind it, and everything before D is
//! known to have been durable.
//!
//! | finding, the first that applies | result |
//! |---|---|
//! | D > (segment, h) | corruption: data known durable is gone |
//! | a file is shorter than its header says: same boot, or D is in or behind it (4) | corruption |
//! | a segment is missing, and a file that is not blank has both header copies damaged (1) | corruption |
//! | same boot, and a record behind the stop counted fewer in flight than are between (2) | corruption |
//! | same boot, and an end record names a segment without a header (3) | corruption |
//! | same boot, no such record | a process crash while h was written: cut, h was not acknowledged |
//! | other or unknown boot | a power cut took any subset of unsynced pages: cut, n as a warning |
//!
//! (1) Neither a crash nor a power cut alone damages two sectors. Both together may, in a file whose header
//! is being stored for the first time, and then no record is behind it. (2) So h was complete, and no power
//! was lost since. (3) Headers are stored before end records. (4) Files are allocated before their header is
//! stored; only a power cut before the first flush loses the length.
//!
//! In this version no record is ever in flight (see [`crate::writer`]), so within one boot *any* valid record
//! behind the stop proves damage; the general rule is the format's and costs nothing.
//! [`WalRecovery::PowerCut`] keeps only the first and the last row of the table.

use super::WalRecovery;
use super::chain::{Chain, Stop};
use crate::record::LogPosition;
use esker_base::{Error, Result, planted};

impl Chain<'_> {
    /// Applies the table at the head of this file.
    pub(super) fn check_tail(&self, stop: &Stop) -> Result<()> {
        let damage = |why: String| Err(Error::corruption(&stop.file, stop.file_offset, why));
        if self.durable > stop.position && !planted!(AcceptsShortLog) {
            let why = format!(
                "{}; everything before {} is known to have been durable, so data is lost and this is not the \
                 end of the log",
                stop.what, self.durable
            );
            // A missing segment is likely the one whose header cannot be read.
            let unreadable = self.catalog.cut.first().or(self.catalog.damaged.first());
            return match unreadable.filter(|_| stop.reason.is_none()) {
                Some(file) => Err(Error::corruption(file, 0, format!("no valid header; {why}"))),
                None => damage(why),
            };
        }
        self.check_lengths()?;
        if self.input.mode == WalRecovery::PowerCut {
            return Ok(());
        }
        if let Some(damaged) = self.catalog.damaged.first()
            && stop.reason.is_none()
        {
            let why = format!("{}, and both copies of the header of this file are damaged", stop.what);
            return Err(Error::corruption(damaged, 0, why));
        }
        let boot = self.input.fs.boot_id();
        if boot != stop.boot_id || boot == [0; 16] {
            return Ok(());
        }
        const ADVICE: &str = "if this is a copy of a running host's disk, or the device was lost and mounted \
                              again, open it with the option WalRecovery::PowerCut";
        if stop.header_lost {
            return damage(format!("{}, and no power was lost since it was written; {ADVICE}", stop.what));
        }
        if let Some(later) = self.written_after {
            return damage(format!(
                "{}; the record at {later} was written after it and no power was lost since, so this was \
                 complete once; {ADVICE}",
                stop.what
            ));
        }
        Ok(())
    }

    /// A segment shorter than its header says was cut after it was written, unless a power cut lost the
    /// length of a file that was never flushed.
    fn check_lengths(&self) -> Result<()> {
        let boot = self.input.fs.boot_id();
        for segment in self.catalog.live.values() {
            let (Some(found), header) = (segment.short_bytes, &segment.header) else { continue };
            let is_of_this_boot = header.boot_id == boot && boot != [0; 16];
            let may_be_power_cut = !is_of_this_boot || self.input.mode == WalRecovery::PowerCut;
            let was_flushed = self.durable > LogPosition::new(header.log_id, 0);
            if (was_flushed || !may_be_power_cut) && !planted!(AcceptsCutSegment) {
                let detail = format!(
                    "the segment has {} bytes by its header, and the file only {found}: its end is gone, and \
                     records may be with it",
                    header.size_bytes
                );
                return Err(Error::corruption(segment.file.path(), found, detail));
            }
        }
        Ok(())
    }
}
