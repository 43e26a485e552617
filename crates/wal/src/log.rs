//! The life cycle of log segments, and the state of the log that threads share.
//!
//! ```text
//! Absent -> Allocated | Zeroed and synced -> Ready -> Active -> Closed -> Released -> Ready | Deleted
//!           \_______ prepare_next _______/    rotate    rotate   release_below
//! ```
//!
//! A background job calls [`Log::prepare_next`] to keep one Ready segment ahead of the writer, so that a
//! rotation is a handful of stores. If there is none, the writer releases its lock and waits in
//! [`Log::wait_ready`]. If preparing failed, the wait returns that error: a full disk ([`Error::Full`]) is
//! reported before a record exists.
//!
//! A segment that a durable manifest no longer needs (WL7) is *released*: it becomes Ready again as it is,
//! mapped, with its pages in memory, and a new salt for its next life. Nothing is renamed, rewritten or
//! synced until the next rotation stores a new header. At most `kept_segments` stay for reuse, the rest is
//! deleted. Segments are recycled within one open of the database only: those found at open are read and
//! deleted, never written (WL1, WL4). Segments that a change-stream reader needs are retained instead of
//! recycled; see [`crate::history`].
//!
//! **Idle shrinking.** An idle log needs no segments ahead of the writer and none for reuse. After
//! [`shrink`](crate::LogWriter::shrink) no segment is prepared, and [`Log::delete_surplus`] deletes the Ready
//! ones. The write path has no extra test for this state: a shrunk log halves the writer's limit in the
//! active segment, and a writer that reaches that limit takes the path of a rotation, where
//! [`grow`](crate::LogWriter::grow) restores the limit and requests segments again. So a few occasional
//! records create no files, and under load the next segment is being prepared before the active one is full.
//!
//! **Lock order.** The writers' lock of the engine, then the pool's lock, then the lock of the group sync.
//! Neither of the latter two is held over a system call.

use crate::file::{Fill, SegmentFile};
use crate::history::{History, HistorySegment, KeptHistory};
use crate::record::{LogPosition, record_len};
use crate::recover::RecoveryReport;
use crate::segment::{DATA_START, parse_slot_file_name};
use crate::sync::{DurableWait, GroupSync};
use esker_base::limits::MAX_RECORD_LEN;
use esker_base::planted;
use esker_base::{DurationCounts, Error, LogId, Result, SeqNo};
use esker_env::fs::{DirEntry, parent_dir};
use esker_env::{Env, File, FileSystem, Random};
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

mod retention;

/// Bytes that are always free at the end of a segment: an end record with a mark takes 56 bytes.
pub(crate) const END_ROOM: u64 = 64;
/// Smallest segment: header page and one page of records.
const MIN_SEGMENT_BYTES: u64 = 8 << 10;
/// Largest segment that is not a private one.
const MAX_SEGMENT_BYTES: u64 = 1 << 30;
/// Segment sizes are multiples of this.
const PAGE: u64 = 4096;
/// Limit for the first segment of a life and for the segments of a shrunk log. Opening a database waits for
/// the first segment: where extents cannot be allocated it is filled with zeros, and 16 MiB of them take some
/// 40 ms. Later segments are prepared in the background.
pub const SMALL_SEGMENT_BYTES: u64 = 256 << 10;
/// Most prepared segments ahead of the writer. One thread fills 16 MiB in 30 ms, about what preparing the
/// next takes when the device is busy. Each rotation requests one preparation, so there is mostly one Ready
/// segment; the second covers bursts.
const READY_AHEAD: usize = 2;

/// Options of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Bytes of a segment file: a multiple of 4096 from 8 KiB to 1 GiB.
    pub segment_bytes: u64,
    /// Write segments through memory maps if the file system is known to allow it, else by positioned writes.
    pub mapped: bool,
    /// Most released segments that are kept for reuse.
    pub kept_segments: usize,
    /// Most bytes of released segments that are retained for change-stream readers.
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

/// Where a new life of the log starts: one open of the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogStart {
    /// The database that the log belongs to.
    pub db_uuid: [u8; 16],
    /// The id of the first segment: greater than every id seen so far (RC3).
    pub log_id: LogId,
    /// The last sequence number assigned so far, discarded ones included (RC3).
    pub last_seqno: SeqNo,
    /// The last durable edit of the manifest.
    pub manifest_edit: u64,
    /// Wall clock, in milliseconds since 1970.
    pub wall_ms: u64,
    /// Retained segments of earlier lives.
    pub history: KeptHistory,
}

/// Counters of the log since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCounters {
    /// Successful flushes (`fdatasync` rounds).
    pub flushes: u64,
    /// How long each of them took.
    pub flush_times: DurationCounts,
    /// Files synced by those flushes.
    pub files_synced: u64,
    /// Segments newly created.
    pub prepared: u64,
    /// Preparations that failed.
    pub preparations_failed: u64,
    /// Segments recycled.
    pub recycled: u64,
    /// Segments deleted.
    pub deleted: u64,
}

/// The shared part of the log. State guarded by the engine's writers' lock is in
/// [`LogWriter`](crate::LogWriter).
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
    /// Number of holds on the history.
    hold_count: Arc<AtomicUsize>,
    /// Number of flushes at the time of the last preparation.
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
    /// Whether no Ready segments are needed; see [`shrink`](crate::LogWriter::shrink).
    is_shrunk: bool,
    /// See [`Log::set_recycling`].
    recycles: bool,
    /// Segments created without a synced directory entry, and how many of these entries are durable.
    names_made: u64,
    names_durable: u64,
    /// Error of the last preparation, if it failed.
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
    /// The file once it is closed; the writer owns it while it is active.
    closed: Option<SegmentFile>,
    /// Whether a flush that began after it was closed has succeeded.
    synced: bool,
}

impl Pool {
    fn needs_segment(&self) -> bool {
        !self.closed && !self.is_shrunk && !self.preparing && self.ready.len() < READY_AHEAD
    }
}

impl Log {
    /// The shared part of a new log, and its first segment; see [`Log::create`].
    pub(crate) fn create_shared(
        env: &Env,
        dir: &Path,
        start: &LogStart,
        options: LogOptions,
    ) -> Result<(Arc<Log>, SegmentFile)> {
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
            // Nothing of this life is durable yet, not even the first header. The records of earlier lives
            // are in tables before the first call to `sync_up_to`.
            group_sync: GroupSync::new(
                start.last_seqno.get(),
                LogPosition::new(start.log_id, 0),
                Arc::clone(&env.clock),
            ),
            manifest_edit: AtomicU64::new(start.manifest_edit),
            counters: Mutex::new(LogCounters::default()),
            hold_count: Arc::default(),
            raises_at_preparation: AtomicU64::new(0),
        });
        let first = log.prepare(log.small_segment_bytes(), Fill::Allocated)?;
        Ok((log, first))
    }

    /// The directory of the segments.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether such a record fits an ordinary segment. If not, it needs [`Log::prepare_private`].
    #[inline]
    pub fn fits_segment(&self, payload_len: usize) -> bool {
        DATA_START + record_len(payload_len, true) + END_ROOM <= self.options.segment_bytes
    }

    /// Whether a rotation finds no Ready segment now or soon: time for [`Log::prepare_next`].
    pub fn needs_preparation(&self) -> bool {
        let pool = self.pool.lock();
        pool.needs_segment()
    }

    /// Prepares one more segment unless enough are Ready; `true` if it did. May take as long as writing and
    /// syncing a segment. Of several concurrent callers one works, the others return at once.
    ///
    /// # Errors
    /// [`Error::Full`] or [`Error::Io`]; also returned by [`Log::wait_ready`]. Worth a retry when space was
    /// freed or time has passed.
    pub fn prepare_next(&self) -> Result<bool> {
        {
            let mut pool = self.pool.lock();
            if !pool.needs_segment() {
                return Ok(false);
            }
            pool.preparing = true;
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

    /// Whether released segments are recycled. If not, Ready ones are deleted, so that no record outlives the
    /// last need for it.
    ///
    /// # Errors
    /// [`Error::Io`] for the first that could not be deleted; the next open deletes it.
    pub fn set_recycling(&self, recycles: bool) -> Result<()> {
        let waiting = {
            let mut pool = self.pool.lock();
            let begins = pool.recycles && !recycles;
            pool.recycles = recycles;
            if begins { std::mem::take(&mut pool.ready) } else { Vec::new() }
        };
        self.delete_all(waiting)
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

    /// Whether a rotation would find a Ready segment right now.
    pub fn has_ready(&self) -> bool {
        !self.pool.lock().ready.is_empty()
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
        let size = (DATA_START + record_len(payload_len, true) + END_ROOM).next_multiple_of(PAGE);
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

    /// Deletes the Ready segments of a shrunk log; returns their number. Does nothing if the log has grown
    /// meanwhile.
    ///
    /// # Errors
    /// [`Error::Io`] for the first that could not be deleted; the next open deletes it.
    pub fn delete_surplus(&self) -> Result<usize> {
        let surplus = {
            let mut pool = self.pool.lock();
            // After the close another process may own the directory.
            if pool.is_shrunk && !pool.closed { std::mem::take(&mut pool.ready) } else { Vec::new() }
        };
        let count = surplus.len();
        self.delete_all(surplus).map(|()| count)
    }

    /// Deletes segments. One that fails does not keep the others.
    fn delete_all(&self, segments: Vec<SegmentFile>) -> Result<()> {
        let mut outcome = Ok(());
        for segment in segments {
            let deleted = self.delete(segment);
            outcome = outcome.and(deleted);
        }
        outcome
    }

    /// Sets whether the log is shrunk; returns the previous state.
    pub(crate) fn set_shrunk(&self, is_shrunk: bool) -> bool {
        std::mem::replace(&mut self.pool.lock().is_shrunk, is_shrunk)
    }

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

    /// Releases all closed segments with an id below `min_log_id`. Call it after a *durable* manifest says so
    /// (WL7). Returns the number of segments released.
    ///
    /// # Errors
    /// [`Error::Io`] if a surplus file could not be removed; all segments are released nevertheless.
    pub fn release_below(&self, min_log_id: LogId) -> Result<usize> {
        let mut closed = Vec::new();
        // Dropped without the lock, because that unmaps them.
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
        // Each life of a file has its own salt; see [`crate::record`].
        for segment in &mut closed {
            segment.salt = self.random.next_u64();
        }
        let surplus = self.keep(closed);
        self.segment_ready.notify_all();
        let outcome = self.delete_all(surplus);
        outcome.and(self.delete_history(surplus_history)).map(|()| released)
    }

    /// Makes segments Ready again as far as they are needed; returns the others.
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
    /// Returns the number of files removed.
    ///
    /// # Errors
    /// [`Error::Io`] for the first file that could not be removed; the next open finds it again.
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
    /// `capture` takes the writers' lock for a moment and returns the last sequence number assigned together
    /// with [`position`](crate::LogWriter::position); every record up to there must be complete.
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
        let began_ns = self.group_sync.now_ns();
        let files: Vec<_> = {
            let pool = self.pool.lock();
            let unsynced = pool.live.iter().filter(|live| live.log_id <= position.log_id && !live.synced);
            unsynced.map(|live| (live.log_id, live.closed.is_some(), live.sync_file.clone())).collect()
        };
        for (log_id, closed, file) in &files {
            if planted!(SyncsNewestSegmentOnly) && *closed {
                continue;
            }
            let synced = file.sync_data();
            if !planted!(IgnoresFailedSync) {
                synced?;
            }
            if *closed {
                self.pool.lock().mark_synced(*log_id);
            }
        }
        self.sync_names()?;
        let took_ns = self.group_sync.now_ns().saturating_sub(began_ns);
        let mut counters = self.counters.lock();
        counters.flushes += 1;
        counters.flush_times.add(took_ns);
        counters.files_synced += files.len() as u64;
        Ok(())
    }

    /// Makes the directory entries of all segments created so far durable (WL4).
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

    /// The durable sequence number: everything up to it survives a power cut.
    #[inline]
    pub fn durable_seqno(&self) -> SeqNo {
        SeqNo::new(self.group_sync.durable_seqno())
    }

    /// Waits until everything up to `seqno` survives a power cut, at most `limit`. Flushes nothing itself.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] if a flush failed, now or earlier.
    pub fn wait_durable(&self, seqno: SeqNo, limit: Duration) -> Result<DurableWait> {
        self.group_sync.wait_durable(seqno.get(), limit)
    }

    /// Ends all calls of [`Log::wait_durable`]: for a database that takes no more writes.
    pub fn end_durable_waits(&self) {
        self.group_sync.end_waits();
    }

    /// The durable position, which manifest edits record: everything before it survives a power cut.
    pub fn durable_position(&self) -> LogPosition {
        self.group_sync.durable_position()
    }

    /// Whether the log is poisoned and accepts no more writes. One load; see [`Log::poisoned`] for the cause.
    #[inline]
    pub fn is_poisoned(&self) -> bool {
        self.group_sync.is_poisoned()
    }

    /// Why the log is poisoned, if it is.
    pub fn poisoned(&self) -> Option<Arc<str>> {
        self.group_sync.cause()
    }

    /// Poisons the log for an outside reason, such as a panic under the writers' lock. The first cause stays.
    pub fn poison(&self, cause: impl Into<Arc<str>>) {
        self.group_sync.poison(cause.into());
        self.wake_waiters();
    }

    /// Ends every wait for a segment with [`Error::Closed`], and waits for flushes; nothing is prepared any
    /// more. Records can still be appended and synced, for the final mark.
    pub fn close(&self) {
        self.end_durable_waits();
        self.pool.lock().closed = true;
        self.segment_ready.notify_all();
    }

    /// Records a durable manifest edit. New segments store it, so that recovery notices a manifest without
    /// it.
    pub fn note_manifest_edit(&self, edit: u64) {
        self.manifest_edit.fetch_max(edit, Ordering::Relaxed);
    }

    pub(crate) fn manifest_edit(&self) -> u64 {
        self.manifest_edit.load(Ordering::Relaxed)
    }

    /// Bytes of segment files that are mapped: live, Ready and retained for reuse. 0 without maps.
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

    /// A copy of the counters.
    pub fn counters(&self) -> LogCounters {
        *self.counters.lock()
    }

    /// The lock makes sure that a waiter that has just tested the poison sleeps before it is notified.
    fn wake_waiters(&self) {
        drop(self.pool.lock());
        self.segment_ready.notify_all();
    }

    pub(crate) fn take_ready(&self) -> Option<SegmentFile> {
        self.pool.lock().ready.pop()
    }

    /// Returns a segment to the Ready ones after a failed rotation.
    pub(crate) fn give_back(&self, segment: SegmentFile) {
        self.pool.lock().ready.push(segment);
        self.segment_ready.notify_all();
    }

    /// Registers a new active segment; `closed` is the one before it.
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

/// Lists a directory, which is created if it is missing.
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
        // The active segment is not closed, so a closed segment has a follower.
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
            // The next open removes a file that stays: its header identifies no segment.
            let _ = self.log.delete(segment);
        }
    }
}
