//! Segment preparation: keeps segments ready ahead of the writer, and makes files for single large records.
//!
//! All that can fail or wait for a device happens here, before a record exists (WL4).

use super::Log;
use super::options::{END_ROOM_BYTES, PAGE_BYTES, SMALL_SEGMENT_BYTES};
use crate::file::{Fill, SegmentFile};
use crate::record::record_len;
use crate::segment::DATA_START;
use esker_base::limits::MAX_RECORD_LEN;
use esker_base::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Log {
    /// Whether such a record fits an ordinary segment. If not, it needs [`Log::prepare_private`].
    #[inline]
    pub fn fits_segment(&self, payload_len: usize) -> bool {
        DATA_START + record_len(payload_len, true) + END_ROOM_BYTES <= self.options.segment_bytes
    }

    /// Whether a rotation finds no Ready segment now or soon: time for [`Log::prepare_next`].
    pub fn needs_preparation(&self) -> bool {
        self.pool.lock().needs_segment()
    }

    /// Prepares one more segment unless enough are Ready; `true` if it did. May take as long as writing and
    /// syncing a segment. Of several concurrent callers one works, the others return at once.
    ///
    /// # Errors
    /// [`Error::Full`] or [`Error::Io`]; also returned by [`Log::wait_ready`]. Worth a retry when space was
    /// freed or time has passed.
    pub fn prepare_next(&self) -> Result<bool> {
        if !self.pool.lock().begin_preparation() {
            return Ok(false);
        }
        // Populated pages are dirty, and the flush of one record would write the whole segment (1.5).
        // Flushing a page of an extent that was never written changes metadata. So the segments of a log that
        // is being flushed are filled with zeros and not populated; other segments need neither the writes
        // nor the page faults, and their preparation waits for no device.
        let durable_raises = self.group_sync.durable_raises();
        let is_flushed = self.raises_at_preparation.swap(durable_raises, Ordering::Relaxed) != durable_raises;
        let prepared = if is_flushed {
            self.prepare(self.options.segment_bytes, Fill::Written)
        } else {
            self.prepare(self.options.segment_bytes, Fill::Allocated).inspect(SegmentFile::populate)
        };
        let outcome = self.pool.lock().end_preparation(prepared);
        self.segment_ready.notify_all();
        outcome.map(|()| true)
    }

    /// Waits until a Ready segment exists. Call it without the writers' lock, before anything was consumed.
    ///
    /// # Errors
    /// The error of the last preparation; [`Error::ReadOnly`] if the log is poisoned meanwhile,
    /// [`Error::Closed`] after [`Log::close`].
    pub fn wait_ready(&self) -> Result<()> {
        let mut pool = self.pool.lock();
        loop {
            if let Some(cause) = self.group_sync.cause() {
                return Err(Error::ReadOnly { cause });
            }
            if pool.check_ready()? {
                return Ok(());
            }
            self.segment_ready.wait(&mut pool);
        }
    }

    /// Whether a rotation would find a Ready segment right now.
    pub fn has_ready(&self) -> bool {
        self.pool.lock().has_ready()
    }

    /// Prepares a segment for one record that is larger than ordinary segments. Call it before the writers'
    /// lock is taken; an unused one deletes itself when dropped.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] past the limit of a record, [`Error::Full`] or [`Error::Io`]; no file is
    /// left behind.
    pub fn prepare_private(self: &Arc<Log>, payload_len: usize) -> Result<PrivateSegment> {
        if payload_len > MAX_RECORD_LEN {
            let what = format!("a record of {payload_len} bytes; the largest has {MAX_RECORD_LEN}");
            return Err(Error::invalid(what));
        }
        let size = (DATA_START + record_len(payload_len, true) + END_ROOM_BYTES).next_multiple_of(PAGE_BYTES);
        let segment = self.prepare(size.max(self.options.segment_bytes), Fill::Allocated)?;
        Ok(PrivateSegment { log: self.clone(), segment: Some(segment) })
    }

    /// Prepares a small segment for a log that is about to shrink;
    /// [`rotate_to_private`](crate::LogWriter::rotate_to_private) continues in it. Call it before the
    /// writers' lock is taken; an unused one deletes itself when dropped.
    ///
    /// # Errors
    /// [`Error::Full`] or [`Error::Io`]; no file is left behind.
    pub fn prepare_small(self: &Arc<Log>) -> Result<PrivateSegment> {
        let segment = self.prepare(self.small_segment_bytes(), Fill::Allocated)?;
        Ok(PrivateSegment { log: self.clone(), segment: Some(segment) })
    }

    /// Bytes of the smallest segments: the first one, and those of a shrunk log.
    pub fn small_segment_bytes(&self) -> u64 {
        self.options.segment_bytes.min(SMALL_SEGMENT_BYTES)
    }

    /// Creates a segment file with a slot number of its own.
    pub(super) fn prepare(&self, size_bytes: u64, fill: Fill) -> Result<SegmentFile> {
        let slot = self.pool.lock().claim_slot()?;
        let salt = self.random.next_u64();
        let prepared = SegmentFile::prepare(&*self.fs, &self.dir, slot, size_bytes, self.map, salt, fill);
        match &prepared {
            Ok(_) => {
                if fill == Fill::Allocated {
                    self.pool.lock().note_unsynced_name();
                }
                self.counters.lock().prepared += 1;
            }
            Err(_) => {
                self.pool.lock().free_slot(slot);
                self.counters.lock().preparations_failed += 1;
            }
        }
        prepared
    }

    /// Takes a Ready segment for a rotation.
    pub(crate) fn take_ready(&self) -> Option<SegmentFile> {
        self.pool.lock().take_ready()
    }

    /// Returns a segment to the Ready ones after a failed rotation.
    pub(crate) fn give_back(&self, segment: SegmentFile) {
        self.pool.lock().put_back(segment);
        self.segment_ready.notify_all();
    }
}

/// A prepared segment for one large record. Dropped unused, it removes its file.
#[derive(Debug)]
pub struct PrivateSegment {
    log: Arc<Log>,
    segment: Option<SegmentFile>,
}

impl PrivateSegment {
    /// Length of its file.
    pub fn size_bytes(&self) -> u64 {
        self.segment.as_ref().map_or(0, |segment| segment.size_bytes)
    }

    pub(crate) fn take(&mut self) -> Option<SegmentFile> {
        self.segment.take()
    }

    pub(crate) fn restore(&mut self, segment: SegmentFile) {
        self.segment = Some(segment);
    }
}

impl Drop for PrivateSegment {
    fn drop(&mut self) {
        if let Some(segment) = self.segment.take() {
            // The next open removes a file that stays: its header identifies no segment.
            let _ = self.log.delete_segment(segment);
        }
    }
}
