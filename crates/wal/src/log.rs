//! Log segments: their life cycle, and the state of the log that threads share.
//!
//! ```text
//! Absent -> Allocated | Zeroed and synced -> Ready -> Active -> Closed -> Released -> Ready | Deleted
//!           \_______ prepare_next _______/    rotate    rotate   release_below
//! ```
//!
//! A background job calls [`Log::prepare_next`] to keep one Ready segment ahead of the writer, so that a
//! rotation is a handful of stores. If there is none, the writer releases its lock and waits in
//! [`Log::wait_ready`]. If preparing failed, the wait returns that error: a full disk
//! ([`Full`](esker_base::Error::Full)) is reported before a record exists.
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
//!
//! | file | holds |
//! |---|---|
//! | `options` | options and limits; where a life of the log starts |
//! | `live_segments` | the segments that hold records, oldest first |
//! | `pool` | all segments by their state, slot numbers and directory entries: the state behind the lock |
//! | `prepare` | preparing segments, and waiting for one |
//! | `release` | recycling and deleting segments that are no longer needed |
//! | `flush` | making records durable; the durable position; the poisoned state |
//! | `retention` | keeping segments for change-stream readers |

use crate::file::{Fill, SegmentFile};
use crate::history::History;
use crate::record::LogPosition;
use crate::segment::parse_slot_file_name;
use crate::sync::GroupSync;
use esker_base::{DurationCounts, LogId, Result, SeqNo};
use esker_env::fs::{DirEntry, parent_dir};
use esker_env::{Env, FileSystem, Random};
use parking_lot::{Condvar, Mutex};
use pool::Pool;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

mod flush;
mod live_segments;
mod options;
mod pool;
mod prepare;
mod release;
mod retention;

pub(crate) use options::END_ROOM_BYTES;
pub use options::{LogOptions, LogStart, SMALL_SEGMENT_BYTES};
pub use prepare::PrivateSegment;

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
            pool: Mutex::new(Pool::new(slots, history)),
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

    /// Ends every wait for a segment with [`Closed`](esker_base::Error::Closed), and waits for flushes;
    /// nothing is prepared any more. Records can still be appended and synced, for the final mark.
    pub fn close(&self) {
        self.end_durable_waits();
        self.pool.lock().close();
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
        pool.live.size_bytes() + pool.ready_bytes()
    }

    /// Bytes of all segments that hold records, the active one included.
    pub fn live_bytes(&self) -> u64 {
        self.pool.lock().live.size_bytes()
    }

    /// The oldest segment that is not released.
    pub fn oldest_log_id(&self) -> Option<LogId> {
        self.pool.lock().live.oldest()
    }

    /// A copy of the counters.
    pub fn counters(&self) -> LogCounters {
        *self.counters.lock()
    }

    /// Registers a new active segment; `closed` is the one before it.
    pub(crate) fn activated(
        &self,
        log_id: LogId,
        segment: &SegmentFile,
        closed: Option<SegmentFile>,
        first_seqno: SeqNo,
    ) {
        self.pool.lock().live.activate(log_id, segment, closed, first_seqno);
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
