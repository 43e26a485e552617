//! The life cycle of segments, and what all threads share of the log.
//!
//! ```text
//! Absent -> Allocated | Zeroed and synced -> Ready -> Active -> Closed -> Released -> Ready | Deleted
//!           \_______ prepare_next _______/    rotate    rotate   release_below
//! ```
//!
//! A background job calls [`Log::prepare_next`] to keep one Ready segment ahead of the writer, so that a
//! rotation is a handful of stores. When there is none, the writer lets go of its lock and waits in
//! [`Log::wait_ready`]; if preparing failed, it gets that error (a full disk is [`Error::Full`], met by
//! nobody who holds a record).
//!
//! A segment that a durable manifest no longer needs (WL7) is *released*: it becomes Ready again as it is,
//! mapped, its pages still in memory, with a new salt for its next life. Nothing is renamed, rewritten or
//! synced until the next rotation stores a new header. At most `kept_segments` wait like that, the rest is
//! deleted. Segments are reused within one life of the database only: those found at open are read and
//! deleted, never written (WL1, WL4). What somebody wants to read as changes is not reused but kept; see
//! [`crate::history`].
//!
//! **Rest.** A log that nobody writes to needs no segments ahead of the writer and none for reuse.
//! [`LogWriter::shrink`] lets it have none, and [`Log::delete_surplus`] removes them; then no preparation is
//! wanted. The writer finds out without a test of its own: at rest it is told that half of the room that is
//! left in its segment is all there is, and whoever runs out of that goes the way of a rotation, where
//! [`LogWriter::grow`] gives back the other half and asks for segments again. So a few records now and then
//! make no files, and many find the next segment under way before the present one is full.
//!
//! **Locks.** The writers' lock of the engine comes first, then the pool's, then the sync_file's. None of the two
//! here is held over a system call.

use crate::file::{Fill, SegmentFile};
use crate::history::{History, HistorySegment, KeptHistory};
use crate::record::{LogPosition, record_len};
use crate::recover::RecoveryReport;
use crate::segment::{DATA_START, parse_slot_file_name};
use crate::sync::GroupSync;
use crate::writer::LogWriter;
use esker_base::limits::MAX_RECORD_LEN;
use esker_base::{Error, LogId, Result, SeqNo};
use esker_env::fs::{DirEntry, parent_dir};
use esker_env::{Env, File, FileSystem, Random};
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

mod retention;

/// Room that is always kept at the end of a segment: an end record with a mark takes 56 bytes.
pub(crate) const END_ROOM: u64 = 64;
/// Smallest segment: header page and one page of records.
const MIN_SEGMENT_BYTES: u64 = 8 << 10;
/// Largest segment that is not a private one.
const MAX_SEGMENT_BYTES: u64 = 1 << 30;
/// Sizes of segments are multiples of this.
const PAGE: u64 = 4096;
/// The first segment of a life is no larger, because whoever opens the database waits for it. Where extents
/// cannot be allocated it is filled with zeros, and 16 MiB of them take some 40 ms. The next ones are
/// prepared in the background. A log that rests has none larger.
pub(crate) const SMALL_SEGMENT_BYTES: u64 = 256 << 10;
/// How many prepared segments there may be ahead of the writer: one thread fills 16 MiB in 30 ms, which is
/// about what the preparation of the next takes when the device is busy. Who prepares is asked with each
/// rotation and makes one each time, so there is mostly one, and a second only where more was asked.
const READY_AHEAD: usize = 2;

/// What can be chosen about the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Bytes of a segment file: a multiple of 4096 from 8 KiB to 1 GiB.
    pub segment_bytes: u64,
    /// Whether segments are written through memory maps where the file system is known to allow it; else, and
    /// everywhere else, by positioned writes of the same bytes.
    pub mapped: bool,
    /// Most released segments that are kept for reuse.
    pub kept_segments: usize,
    /// Most bytes of released segments that are kept for readers of changes.
    pub history_limit_bytes: u64,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions { segment_bytes: 16 << 20, mapped: true, kept_segments: 8, history_limit_bytes: 1 << 30 }
    }
}

impl LogOptions {
    fn check(&self) -> Result<()> {
        let size = self.segment_bytes;
        if (MIN_SEGMENT_BYTES..=MAX_SEGMENT_BYTES).contains(&size) && size.is_multiple_of(PAGE) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "log segments of {size} bytes: the size must be a multiple of {PAGE} \
             from {MIN_SEGMENT_BYTES} to {MAX_SEGMENT_BYTES}"
        )))
    }
}

/// Where a new life of the log starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogStart {
    /// The database that the log belongs to.
    pub db_uuid: [u8; 16],
    /// The id of the first segment: greater than every id seen so far (RC3).
    pub log_id: LogId,
    /// The last sequence number given out so far, discarded ones included (RC3).
    pub last_seqno: SeqNo,
    /// The last durable edit of the manifest.
    pub manifest_edit: u64,
    /// Wall clock, in milliseconds since 1970.
    pub wall_ms: u64,
    /// What is kept of earlier lives.
    pub history: KeptHistory,
}

/// What the log has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCounters {
    /// Flushes that reached the disk.
    pub flushes: u64,
    /// Files synced by those flushes.
    pub files_synced: u64,
    /// Segments made anew.
    pub prepared: u64,
    /// Preparations that failed.
    pub preparations_failed: u64,
    /// Segments used again.
    pub recycled: u64,
    /// Segments deleted.
    pub deleted: u64,
}

/// The shared part of the log. What only the holder of the writers' lock may touch is in [`LogWriter`].
#[derive(Debug)]
pub struct Log {
    fs: Arc<dyn FileSystem>,
    random: Arc<dyn Random>,
    dir: PathBuf,
    options: LogOptions,
    pub(crate) db_uuid: [u8; 16],
    pub(crate) boot_id: [u8; 16],
    map: bool,
    pool: Mutex<Pool>,
    segment_ready: Condvar,
    pub(crate) group_sync: GroupSync,
    manifest_edit: AtomicU64,
    counters: Mutex<LogCounters>,
    /// Flushes that had been done when the last segment was prepared.
    raises_at_preparation: AtomicU64,
}

#[derive(Debug)]
struct Pool {
    ready: Vec<SegmentFile>,
    /// Segments that hold records, oldest first; the last one is the active one.
    live: VecDeque<LiveSegment>,
    /// Slot numbers that have a file.
    slots: BTreeSet<u32>,
    preparing: bool,
    /// Whether the log has no use for Ready segments; see [`LogWriter::shrink`].
    is_shrunk: bool,
    /// See [`Log::set_recycling`].
    recycles: bool,
    /// Segments that were made without making their names durable, and how many of them are by now.
    names_made: u64,
    names_durable: u64,
    /// Why the last preparation failed.
    failure: Option<Error>,
    closed: bool,
    history: History,
}

#[derive(Debug)]
struct LiveSegment {
    log_id: LogId,
    /// No batch in it has a smaller sequence number.
    first_seqno: SeqNo,
    size_bytes: u64,
    sync_file: Arc<dyn File>,
    /// The file itself once it is closed; while it is active the writer has it.
    closed: Option<SegmentFile>,
    /// Whether a flush that began after it was closed has succeeded.
    synced: bool,
}

impl Pool {
    /// Whether one more segment should be prepared.
    fn needs_segment(&self) -> bool {
        !self.closed && !self.is_shrunk && !self.preparing && self.ready.len() < READY_AHEAD
    }
}

impl Log {
    /// Begins a new life of the log in `dir`, which is made if missing: the first segment is prepared and
    /// active. A directory that is there must have a durable name.
    ///
    /// Files that stand there already are left alone until [`Log::delete_old`].
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for options out of range, [`Error::Full`] and [`Error::Io`] from the file
    /// system.
    pub fn create(
        env: &Env,
        dir: &Path,
        start: &LogStart,
        options: LogOptions,
    ) -> Result<(Arc<Log>, LogWriter)> {
        options.check()?;
        let names = list_or_make(&*env.fs, dir)?;
        let slots = names.iter().filter_map(|entry| parse_slot_file_name(&entry.name)).collect();
        let history = History::new(start.history.clone(), options.history_limit_bytes);
        let log = Arc::new(Log {
            fs: env.fs.clone(),
            random: env.random.clone(),
            dir: dir.to_path_buf(),
            db_uuid: start.db_uuid,
            boot_id: env.fs.boot_id(),
            map: options.mapped && env.fs.can_map_writable(dir),
            options,
            pool: Mutex::new(Pool {
                ready: Vec::new(),
                live: VecDeque::new(),
                slots,
                preparing: false,
                is_shrunk: false,
                recycles: true,
                names_made: 0,
                names_durable: 0,
                failure: None,
                closed: false,
                history,
            }),
            segment_ready: Condvar::new(),
            // Nothing of this life is durable yet, not even the first header; what earlier lives wrote is in
            // tables by the time that somebody asks.
            group_sync: GroupSync::new(
                start.last_seqno.get(),
                LogPosition::new(start.log_id, 0),
                Arc::clone(&env.clock),
            ),
            manifest_edit: AtomicU64::new(start.manifest_edit),
            counters: Mutex::new(LogCounters::default()),
            raises_at_preparation: AtomicU64::new(0),
        });
        let first = log.prepare(log.small_segment_bytes(), Fill::Allocated)?;
        let writer = LogWriter::begin(log.clone(), first, start)?;
        Ok((log, writer))
    }

    /// The directory of the segments.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether a record with this payload fits into an ordinary segment. If not, it needs
    /// [`Log::prepare_private`].
    #[inline]
    pub fn fits_segment(&self, payload_len: usize) -> bool {
        DATA_START + record_len(payload_len, true) + END_ROOM <= self.options.segment_bytes
    }

    /// Whether the writer would find no Ready segment, or soon will not: time for [`Log::prepare_next`].
    pub fn needs_preparation(&self) -> bool {
        let pool = self.pool.lock();
        pool.needs_segment()
    }

    /// Makes one more segment Ready unless enough are; `true` if it did. May take as long as writing and
    /// syncing a segment. Of several concurrent callers one works, the others return at once.
    ///
    /// # Errors
    /// [`Error::Full`] or [`Error::Io`]; also told to those who wait for a segment. Worth another try when
    /// space was freed or time has passed.
    pub fn prepare_next(&self) -> Result<bool> {
        {
            let mut pool = self.pool.lock();
            if !pool.needs_segment() {
                return Ok(false);
            }
            pool.preparing = true;
        }
        // Populated pages are dirty, and the flush of one record would write the whole segment (1.5);
        // flushing a page of an extent that was never written costs a change of metadata. So a log that is
        // being flushed gets written zeros and no populated pages, and one that is not gets neither the
        // writes nor the page faults, and waits for no device.
        let durable_raises = self.group_sync.durable_raises();
        let is_flushed = self.raises_at_preparation.swap(durable_raises, Ordering::Relaxed) != durable_raises;
        let prepared = if is_flushed {
            self.prepare(self.options.segment_bytes, Fill::Written)
        } else {
            self.prepare(self.options.segment_bytes, Fill::Allocated).inspect(SegmentFile::populate)
        };
        let mut pool = self.pool.lock();
        pool.preparing = false;
        let outcome = match prepared {
            Ok(segment) => {
                pool.failure = None;
                pool.ready.push(segment);
                Ok(true)
            }
            Err(error) => {
                pool.failure = Some(error.clone());
                Err(error)
            }
        };
        drop(pool);
        self.segment_ready.notify_all();
        outcome
    }

    /// Whether segments that are not needed any more are written to again. If not, those that wait for it are
    /// deleted, so that no record outlives the last need for it.
    ///
    /// # Errors
    /// [`Error::Io`] for the first that could not be deleted; the next open will.
    pub fn set_recycling(&self, recycles: bool) -> Result<()> {
        let waiting = {
            let mut pool = self.pool.lock();
            let begins = pool.recycles && !recycles;
            pool.recycles = recycles;
            if begins { std::mem::take(&mut pool.ready) } else { Vec::new() }
        };
        self.delete_all(waiting)
    }

    /// Waits until a Ready segment exists. To be called without the writers' lock, before anything was
    /// consumed.
    ///
    /// # Errors
    /// Why the last attempt to prepare one failed; [`Error::ReadOnly`] if the log is poisoned meanwhile,
    /// [`Error::Closed`] after [`Log::close`].
    pub fn wait_ready(&self) -> Result<()> {
        let mut pool = self.pool.lock();
        loop {
            if let Some(cause) = self.group_sync.cause() {
                return Err(Error::ReadOnly { cause });
            }
            if pool.closed {
                return Err(Error::Closed);
            }
            if !pool.ready.is_empty() {
                return Ok(());
            }
            if let Some(error) = &pool.failure
                && !pool.preparing
            {
                return Err(error.clone());
            }
            self.segment_ready.wait(&mut pool);
        }
    }

    /// Whether a rotation would find a segment right now.
    pub fn has_ready(&self) -> bool {
        !self.pool.lock().ready.is_empty()
    }

    /// Prepares a segment for one record that is larger than ordinary segments. To be called before the
    /// writers' lock is taken; an unused one deletes itself when dropped.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] past the limit of a record, [`Error::Full`] or [`Error::Io`]; nothing is
    /// left behind.
    pub fn prepare_private(self: &Arc<Log>, payload_len: usize) -> Result<PrivateSegment> {
        if payload_len > MAX_RECORD_LEN {
            let what = format!("a record of {payload_len} bytes; the largest has {MAX_RECORD_LEN}");
            return Err(Error::invalid(what));
        }
        let size = (DATA_START + record_len(payload_len, true) + END_ROOM).next_multiple_of(PAGE);
        let segment = self.prepare(size.max(self.options.segment_bytes), Fill::Allocated)?;
        Ok(PrivateSegment { log: self.clone(), segment: Some(segment) })
    }

    /// Prepares a segment for a log that is about to rest, to be gone on in by
    /// [`LogWriter::rotate_to_private`]. To be called before the writers' lock is taken; an unused one
    /// deletes itself when dropped.
    ///
    /// # Errors
    /// [`Error::Full`] or [`Error::Io`]; nothing is left behind.
    pub fn prepare_small(self: &Arc<Log>) -> Result<PrivateSegment> {
        let segment = self.prepare(self.small_segment_bytes(), Fill::Allocated)?;
        Ok(PrivateSegment { log: self.clone(), segment: Some(segment) })
    }

    /// Bytes of the smallest segments: the first one, and those of a log that rests.
    pub fn small_segment_bytes(&self) -> u64 {
        self.options.segment_bytes.min(SMALL_SEGMENT_BYTES)
    }

    /// Deletes the segments that a is_shrunk log has no use for; gives their number. Does nothing if it has
    /// been woken meanwhile.
    ///
    /// # Errors
    /// [`Error::Io`] for the first that could not be deleted; the next open will.
    pub fn delete_surplus(&self) -> Result<usize> {
        let surplus = {
            let mut pool = self.pool.lock();
            // After the close the directory may be somebody else's.
            if pool.is_shrunk && !pool.closed { std::mem::take(&mut pool.ready) } else { Vec::new() }
        };
        let count = surplus.len();
        self.delete_all(surplus).map(|()| count)
    }

    /// Deletes segments. Each is tried, whatever became of those before.
    fn delete_all(&self, segments: Vec<SegmentFile>) -> Result<()> {
        let mut outcome = Ok(());
        for segment in segments {
            let deleted = self.delete(segment);
            outcome = outcome.and(deleted);
        }
        outcome
    }

    /// Whether the log rests now; gives whether it did so before.
    pub(crate) fn set_shrunk(&self, is_shrunk: bool) -> bool {
        std::mem::replace(&mut self.pool.lock().is_shrunk, is_shrunk)
    }

    /// Makes a new file Ready, whichever its size.
    fn prepare(&self, size_bytes: u64, fill: Fill) -> Result<SegmentFile> {
        let slot = {
            let mut pool = self.pool.lock();
            let slot = (1..=u32::MAX).find(|slot| !pool.slots.contains(slot));
            let slot = slot.ok_or_else(|| Error::internal("no slot number is free for a log segment"))?;
            pool.slots.insert(slot);
            slot
        };
        let salt = self.random.next_u64();
        let prepared = SegmentFile::prepare(&*self.fs, &self.dir, slot, size_bytes, self.map, salt, fill);
        match &prepared {
            Ok(_) => {
                self.pool.lock().names_made += u64::from(fill == Fill::Allocated);
                self.counters.lock().prepared += 1;
            }
            Err(_) => {
                self.pool.lock().slots.remove(&slot);
                self.counters.lock().preparations_failed += 1;
            }
        }
        prepared
    }

    /// Lets go of all closed segments with an id below `min_log_id`. To be called after a *durable* manifest
    /// says so (WL7). Gives the number of segments released.
    ///
    /// # Errors
    /// [`Error::Io`] if a surplus file could not be removed; all segments are released nevertheless.
    pub fn release_below(&self, min_log_id: LogId) -> Result<usize> {
        let mut closed = Vec::new();
        // Dropped without the lock: that unmaps them.
        let mut kept = Vec::new();
        let surplus_history = {
            let mut pool = self.pool.lock();
            while let Some((segment, history)) = pool.pop_closed_below(min_log_id) {
                if pool.history.must_keep(history.last_seqno) {
                    pool.history.keep(history);
                    kept.push(segment);
                } else {
                    closed.push(segment);
                }
            }
            pool.history.trim()
        };
        let released = closed.len() + kept.len();
        drop(kept);
        // Each life of a file has a salt of its own; see [`crate::record`].
        for segment in &mut closed {
            segment.salt = self.random.next_u64();
        }
        let surplus = self.keep(closed);
        self.segment_ready.notify_all();
        let outcome = self.delete_all(surplus);
        outcome.and(self.delete_history(surplus_history)).map(|()| released)
    }

    /// Makes segments Ready again as far as they are wanted; gives back the others.
    fn keep(&self, mut released: Vec<SegmentFile>) -> Vec<SegmentFile> {
        let count = released.len();
        let mut pool = self.pool.lock();
        let free = self.options.kept_segments.saturating_sub(pool.ready.len());
        let mut left = if pool.closed || pool.is_shrunk || !pool.recycles { 0 } else { free };
        let wanted = |segment: &mut SegmentFile| {
            let wanted = left > 0 && segment.size_bytes == self.options.segment_bytes;
            left -= usize::from(wanted);
            wanted
        };
        pool.ready.extend(released.extract_if(.., wanted));
        drop(pool);
        self.counters.lock().recycled += (count - released.len()) as u64;
        released
    }

    fn delete(&self, segment: SegmentFile) -> Result<()> {
        let (slot, path) = (segment.slot, segment.path.clone());
        drop(segment);
        self.fs.remove_file(&path)?;
        self.pool.lock().slots.remove(&slot);
        self.counters.lock().deleted += 1;
        Ok(())
    }

    /// Removes the segments of earlier lives that a recovery listed, once its result is committed (RC1).
    /// Gives the number of files removed.
    ///
    /// # Errors
    /// [`Error::Io`] for the first file that could not be removed; the next open will find it again.
    pub fn delete_old(&self, report: &RecoveryReport) -> Result<usize> {
        let mut outcome = Ok(0);
        for (slot, path) in &report.removable {
            match self.fs.remove_file(path) {
                Ok(()) => {
                    self.pool.lock().slots.remove(slot);
                    outcome = outcome.map(|removed| removed + 1);
                }
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        outcome
    }

    /// Returns once everything up to `seqno` survives a power cut; see [`crate::sync`].
    ///
    /// `capture` takes the writers' lock for a moment and gives the last sequence number handed out together
    /// with [`LogWriter::position`]; every record up to there must be complete.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] if a flush failed, now or earlier: the log is poisoned. The caller then wakes its
    /// own waiters too.
    pub fn sync_up_to(&self, seqno: SeqNo, capture: impl Fn() -> (SeqNo, LogPosition)) -> Result<()> {
        let raw_capture = || {
            let (seqno, position) = capture();
            (seqno.get(), position)
        };
        let outcome = self.group_sync.sync_up_to(seqno.get(), raw_capture, |position| self.flush(position));
        if self.group_sync.is_poisoned() {
            self.wake_waiters();
        }
        outcome
    }

    /// Syncs every segment with unsynced bytes before `position`, oldest first.
    fn flush(&self, position: LogPosition) -> Result<()> {
        let files: Vec<_> = {
            let pool = self.pool.lock();
            let unsynced = pool.live.iter().filter(|live| live.log_id <= position.log_id && !live.synced);
            unsynced.map(|live| (live.log_id, live.closed.is_some(), live.sync_file.clone())).collect()
        };
        for (log_id, closed, file) in &files {
            file.sync_data()?;
            if *closed {
                self.pool.lock().mark_synced(*log_id);
            }
        }
        self.sync_names()?;
        let mut counters = self.counters.lock();
        counters.flushes += 1;
        counters.files_synced += files.len() as u64;
        Ok(())
    }

    /// Makes the names of all segments durable that were made before (WL4).
    fn sync_names(&self) -> Result<()> {
        let made = {
            let pool = self.pool.lock();
            if pool.names_durable == pool.names_made {
                return Ok(());
            }
            pool.names_made
        };
        self.fs.sync_dir(&self.dir)?;
        let mut pool = self.pool.lock();
        pool.names_durable = pool.names_durable.max(made);
        Ok(())
    }

    /// Everything up to here survives a power cut.
    #[inline]
    pub fn durable_seqno(&self) -> SeqNo {
        SeqNo::new(self.group_sync.durable_seqno())
    }

    /// Everything before this place survives a power cut; for the manifest's edits.
    pub fn durable_position(&self) -> LogPosition {
        self.group_sync.durable_position()
    }

    /// Whether the log takes no more writes. One load; see [`Log::poisoned`] for the cause.
    #[inline]
    pub fn is_poisoned(&self) -> bool {
        self.group_sync.is_poisoned()
    }

    /// Why the log takes no more writes, if so.
    pub fn poisoned(&self) -> Option<Arc<str>> {
        self.group_sync.cause()
    }

    /// Poisons the log for a reason that it cannot see itself, such as a panic under the writers' lock. The
    /// first cause stays.
    pub fn poison(&self, cause: impl Into<Arc<str>>) {
        self.group_sync.poison(cause.into());
        self.wake_waiters();
    }

    /// Ends every wait for a segment with [`Error::Closed`]; nothing is prepared any more. Records can still
    /// be appended and synced, for the final mark.
    pub fn close(&self) {
        self.pool.lock().closed = true;
        self.segment_ready.notify_all();
    }

    /// Tells the log the number of a manifest edit that has become durable; segments begun from now on name
    /// it, so that a manifest that lost it is noticed.
    pub fn note_manifest_edit(&self, edit: u64) {
        self.manifest_edit.fetch_max(edit, Ordering::Relaxed);
    }

    pub(crate) fn manifest_edit(&self) -> u64 {
        self.manifest_edit.load(Ordering::Relaxed)
    }

    /// Bytes of segment files that are mapped: live ones, and those prepared or kept for reuse. 0 without
    /// maps.
    pub fn mapped_bytes(&self) -> u64 {
        if !self.map {
            return 0;
        }
        let pool = self.pool.lock();
        let live: u64 = pool.live.iter().map(|live| live.size_bytes).sum();
        live + pool.ready.iter().map(|ready| ready.size_bytes).sum::<u64>()
    }

    /// Bytes of all segments that hold records, the active one included.
    pub fn live_bytes(&self) -> u64 {
        self.pool.lock().live.iter().map(|live| live.size_bytes).sum()
    }

    /// The oldest segment that is not released.
    pub fn oldest_log_id(&self) -> Option<LogId> {
        self.pool.lock().live.front().map(|live| live.log_id)
    }

    /// What happened so far.
    pub fn counters(&self) -> LogCounters {
        *self.counters.lock()
    }

    /// Somebody who waits for a segment and has just tested the poison sleeps by the time this has the lock.
    fn wake_waiters(&self) {
        drop(self.pool.lock());
        self.segment_ready.notify_all();
    }

    /// Takes a Ready segment for the writer.
    pub(crate) fn take_ready(&self) -> Option<SegmentFile> {
        self.pool.lock().ready.pop()
    }

    /// Gives a segment back whose first use failed.
    pub(crate) fn give_back(&self, segment: SegmentFile) {
        self.pool.lock().ready.push(segment);
        self.segment_ready.notify_all();
    }

    /// Enters a new active segment; `closed` is the one before it.
    pub(crate) fn activated(
        &self,
        log_id: LogId,
        segment: &SegmentFile,
        closed: Option<SegmentFile>,
        first_seqno: SeqNo,
    ) {
        let (size_bytes, sync_file) = (segment.size_bytes, segment.sync_file.clone());
        let mut pool = self.pool.lock();
        if let Some(last) = pool.live.back_mut() {
            last.closed = closed;
        }
        pool.live.push_back(LiveSegment {
            log_id,
            first_seqno,
            size_bytes,
            sync_file,
            closed: None,
            synced: false,
        });
    }
}

/// What is in a directory, which is made if it is missing.
fn list_or_make(fs: &dyn FileSystem, dir: &Path) -> Result<Vec<DirEntry>> {
    match fs.list(dir) {
        Err(error) if error.is_not_found() => {
            fs.create_dir_all(dir)?;
            fs.sync_dir(&parent_dir(dir))?;
            Ok(Vec::new())
        }
        listed => listed,
    }
}

impl Pool {
    fn pop_closed_below(&mut self, min_log_id: LogId) -> Option<(SegmentFile, HistorySegment)> {
        // The active segment is never closed, so one that is has a follower.
        let follower_first = self.live.get(1)?.first_seqno;
        let oldest = self.live.front_mut()?;
        if oldest.log_id >= min_log_id {
            return None;
        }
        let segment = oldest.closed.take()?;
        let history = HistorySegment {
            slot: segment.slot,
            path: segment.path.clone(),
            log_id: oldest.log_id,
            size_bytes: segment.size_bytes,
            first_seqno: oldest.first_seqno,
            last_seqno: SeqNo::new(follower_first.get().saturating_sub(1)),
        };
        self.live.pop_front();
        Some((segment, history))
    }

    fn mark_synced(&mut self, log_id: LogId) {
        if let Some(live) = self.live.iter_mut().find(|live| live.log_id == log_id) {
            live.synced = true;
        }
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
            // The next open finds a file that stays and removes it: its header names no part of the log.
            let _ = self.log.delete(segment);
        }
    }
}
