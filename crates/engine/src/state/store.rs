//! The state of an open database, shared by handles and background workers.
//!
//! Lock order, outermost first: `closing` > `activity` > a keyspace's `jobs.flushing` > `manifest` >
//! a keyspace's `write_control` > its `jobs.busy` > the lock of the memory arbiter > `commit` >
//! the log's flush > `snapshots` > a keyspace's `publication` > a keyspace's view > table files >
//! a cache shard > the event queue (EV3). From `commit` on there is no I/O under any of them but `manifest`,
//! with three exceptions: a store into the mapped log, which may fault, the `write(2)` path of the log, and
//! a table file that is opened under its own lock.

use crate::state::activity::{Activity, IdleState};
use crate::state::commit_notifier::CommitNotifier;
use crate::state::commit_state::{CommitLock, PostCommit};
use crate::state::consumers::Consumers;
use crate::state::counters::Counters;
use crate::state::events::Events;
use crate::state::idle_budget::IdleBudget;
use crate::state::jobs::Jobs;
use crate::state::keyspace::{KeyspaceState, Registry};
use crate::state::log_ages::LogAges;
use crate::state::memory_shares::MemoryArbiter;
use crate::state::pinned_memtables::PinnedMemtables;
use crate::state::quarantine::Quarantine;
use crate::state::scheduler::Scheduler;
use crate::state::sealed_memory::SealedMemory;
use esker_base::sync::CachePadded;
use esker_base::{Error, FileNumber, InsideJob, JobSection, KeyspaceId, ResidentOnly, Result};
use esker_build::table_factory::TableFactory;
use esker_env::{Env, FileLock, ProcessMark};
use esker_memtable::ArenaPool;
use esker_options::{ClockState, Durability};
use esker_options::{KeyspaceOptions, MemoryPlan, NamedKeyspaces};
use esker_version::{DatabaseState, FileKind, Manifest};
use esker_view::read::open_readers::OpenReaders;
use esker_view::snapshot::Snapshots;
use esker_view::time::Time;
use esker_view::tree::TableFiles;
use esker_wal::{KeptHistory, Log, RecoveryReport};
use parking_lot::{Mutex, RwLock};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Evaluates windows that have ended and applies changes: what the layer above passes to the open.
pub type AdaptKeyspaces = fn(&Store, &[Arc<KeyspaceState>]);

/// The complete state of an open database.
pub struct Store {
    /// The process that opened it.
    pub process: ProcessMark,
    /// Files, clock, randomness and threads.
    pub env: Env,
    /// The directory of the database.
    pub dir: PathBuf,
    /// How the memory budget is divided.
    pub memory: MemoryPlan,
    /// Durability of writes that do not name one.
    pub durability: Durability,
    /// The longest wait of a write for room.
    pub stall_limit: Duration,
    /// Whether closing flushes the memtables.
    pub flush_on_close: bool,
    /// Options of keyspaces created without options of their own.
    pub default_options: KeyspaceOptions,
    /// The options of single keyspaces among the options of the database.
    pub named: NamedKeyspaces,

    /// The visible sequence number: everything up to it is complete and may be read.
    pub visible: CachePadded<AtomicU64>,
    /// Sealed memtables of all keyspaces.
    pub sealed_memory: SealedMemory,
    /// The state of the memory arbiter.
    pub memory_arbiter: MemoryArbiter,
    /// The writable part; `None` if the database was opened read-only.
    pub writing: Option<Writing>,

    /// The keyspaces by id and by name.
    pub keyspaces: RwLock<Registry>,
    /// The registered snapshots.
    pub snapshots: Snapshots,
    /// The open readers.
    pub open_readers: Arc<OpenReaders>,
    /// The database's time.
    pub time: Arc<Time>,
    /// Table files in use.
    pub files: Arc<TableFiles>,
    /// The files that were found damaged.
    pub quarantine: Quarantine,
    /// Flushed memtables that readers hold.
    pub pinned_memtables: PinnedMemtables,
    /// Memory of memtables.
    pub arenas: ArenaPool,
    /// Background work.
    pub scheduler: Arc<Scheduler>,
    /// Consumers of the change stream.
    pub consumers: Consumers,
    /// The log history on disk, for a database without writes.
    pub history: KeptHistory,
    /// The most bytes of log kept for readers of changes.
    pub history_limit_bytes: u64,
    /// Counters of rare events, and of the database's life before the open.
    pub counters: Counters,
    /// The events for listeners.
    pub events: Events,
    /// The running jobs.
    pub jobs: Jobs,
    /// The most threads of one flush.
    pub flush_threads: usize,
    /// The number of compaction threads.
    pub compaction_threads: usize,
    /// The most subcompactions of a merge; if `None`, [`crate::state::jobs`] decides.
    pub max_subcompactions: Option<usize>,
    /// The keyspace whose compaction began last; equally urgent ones take turns.
    pub last_compacted: AtomicU32,
    /// The time of the last write, as seen by the compaction worker.
    pub last_activity: Mutex<Activity>,
    /// Idle and pause flags derived from it.
    pub quiet: IdleState,
    /// What listeners know of the wall clock.
    pub clock_state: Mutex<ClockState>,
    /// The remaining budget of idle compaction.
    pub idle_budget: Mutex<IdleBudget>,
    /// Runs adaptive tuning of keyspaces.
    pub adapt_keyspaces: AdaptKeyspaces,
    /// The ages of log segments, for delete-persistence targets.
    pub log_ages: Mutex<LogAges>,

    /// Set once, when writing is no longer safe.
    pub failure: OnceLock<Arc<str>>,
    /// Whether it was closed.
    pub closed: AtomicBool,
    /// Read-locked by foreground operations that access files outside of a write; closing takes it
    /// exclusively before it releases the directory lock.
    pub activity: RwLock<()>,
    /// Held while closing, so that a second call of close returns only when the first is done.
    pub closing: Mutex<()>,
    /// The lock on the directory, until it is closed.
    pub lock: Mutex<Option<Box<dyn FileLock>>>,
}

/// The part of the state that only a writable database has.
pub struct Writing {
    /// The one lock of the write path; see [`crate::write::commit`].
    pub commit: CachePadded<CommitLock>,
    /// The write-ahead log.
    pub log: Arc<Log>,
    /// Wakes threads that wait for the next batch.
    pub commit_notifier: CommitNotifier,
    /// The manifest, under the lock of installs.
    pub manifest: Mutex<Installed>,
    /// The number of the last durable edit.
    pub last_edit: AtomicU64,
    /// Numbers new tables.
    pub tables: TableFactory,
    /// Segments of earlier opens that are no longer needed. The deletion worker deletes them, because each
    /// deletion takes milliseconds, and opening must not wait for it.
    pub old_segments: Mutex<Option<RecoveryReport>>,
}

impl Writing {
    /// Whether there are segments of earlier opens that no thread deletes yet.
    pub fn has_old_segments(&self) -> bool {
        // Locked while they are deleted.
        self.old_segments.try_lock().is_some_and(|report| report.is_some())
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Store {
    /// The monotonic clock.
    pub fn monotonic_ns(&self) -> u64 {
        self.env.clock.monotonic_ns()
    }

    /// The keyspace with this name.
    pub fn find_keyspace(&self, name: &str) -> Option<Arc<KeyspaceState>> {
        self.keyspaces.read().named(name).cloned()
    }

    /// The keyspace with this id.
    pub fn keyspace_with_id(&self, id: KeyspaceId) -> Option<Arc<KeyspaceState>> {
        self.keyspaces.read().with_id(id).cloned()
    }

    /// All keyspaces that are not dropped, by id.
    pub fn all_keyspaces(&self) -> Arc<Vec<Arc<KeyspaceState>>> {
        self.keyspaces.read().all()
    }

    /// The writable part, or an error if the database takes no writes.
    #[inline]
    pub fn writing(&self) -> Result<&Writing> {
        match &self.writing {
            Some(writing)
                if self.failure.get().is_none()
                    && !writing.log.is_poisoned()
                    && !self.process.is_inherited() =>
            {
                Ok(writing)
            }
            _ => Err(self.why_not_writable()),
        }
    }

    #[cold]
    fn why_not_writable(&self) -> Error {
        if self.process.is_inherited() {
            return inherited();
        }
        let Some(writing) = &self.writing else {
            return Error::ReadOnly { cause: "it was opened for reading only".into() };
        };
        let cause = self.failure.get().cloned().or_else(|| writing.log.poisoned());
        let cause = cause.unwrap_or_else(|| "an earlier failure".into());
        // A log whose sync failed is noticed here.
        self.events.emit_read_only(&cause);
        Error::ReadOnly { cause }
    }

    /// An error if the database was closed.
    #[inline]
    pub fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) || self.process.is_inherited() {
            return Err(self.why_not_open());
        }
        Ok(())
    }

    #[cold]
    fn why_not_open(&self) -> Error {
        if self.process.is_inherited() { inherited() } else { Error::Closed }
    }

    /// An error inside of a flush or compaction: the caller is about to wait for the end of all.
    pub(crate) fn check_may_wait_for_jobs(&self) -> Result<()> {
        check_may_read()?;
        InsideJob::here().map_or(Ok(()), |section| Err(waits_for_itself(section)))
    }

    /// An error inside of a flush: the caller is about to flush. A compaction does not keep flushes from
    /// ending.
    pub(crate) fn check_may_flush(&self) -> Result<()> {
        check_may_read()?;
        match InsideJob::here() {
            Some(JobSection::Flush) => Err(waits_for_itself(JobSection::Flush)),
            _ => Ok(()),
        }
    }

    /// Stops all writing until the database is reopened: the files may no longer be extended safely.
    pub fn fail(&self, cause: impl Into<Arc<str>>) {
        let cause = cause.into();
        if self.failure.set(Arc::clone(&cause)).is_ok() {
            tracing::error!(%cause, "the database turns read-only");
            self.events.emit_read_only(&cause);
        }
        self.scheduler.announce_progress();
        if let Some(writing) = &self.writing {
            writing.commit_notifier.notify();
            writing.log.end_durable_waits();
        }
    }

    /// Memory that memtables hold or keep for reuse, those that only readers hold included.
    pub fn memtable_memory_bytes(&self) -> u64 {
        self.held_memtable_bytes() + self.arenas.idle_bytes()
    }

    /// Memory that memtables hold, those that only readers hold included.
    pub(crate) fn held_memtable_bytes(&self) -> u64 {
        let keyspaces = self.all_keyspaces();
        let held = keyspaces.iter().map(|keyspace| {
            keyspace.view.load().memtables().map(|view| view.memtable.allocated_bytes()).sum::<u64>()
        });
        held.sum::<u64>() + self.pinned_memtables.bytes().memory_bytes
    }
}

/// The error of every call in a child of the process that opened the database.
#[cold]
fn inherited() -> Error {
    Error::invalid(
        "the database was opened before this process was forked: its files, lock and threads belong to the parent; \
         use it there, or open it here after the parent has closed it",
    )
}

/// An error where files are not read: the caller is about to flush or to merge.
fn check_may_read() -> Result<()> {
    if ResidentOnly::is_on() {
        return Err(Error::invalid("flushes and compactions are refused where only memory is read"));
    }
    Ok(())
}

#[cold]
fn waits_for_itself(section: JobSection) -> Error {
    let job = match section {
        JobSection::Flush => "flush",
        JobSection::Compaction => "compaction",
    };
    Error::invalid(format!(
        "the call was made by a merge operator or compaction filter of a {job}, and waits for that {job} itself"
    ))
}

impl Writing {
    /// Requests a notification by the next writer, unless something after `seqno` is visible already; `false`
    /// then, and if the database is closed.
    pub fn listen(&self, seqno: u64) -> bool {
        let mut state = self.commit.lock();
        let is_up_to_date = state.next_seqno.get() <= seqno + 1 && !state.closed;
        if is_up_to_date {
            state.post_commit.set(PostCommit::NOTIFY, true);
        }
        is_up_to_date
    }
}

/// A file that an edit names.
pub type DataFile = (FileKind, FileNumber);

/// The state guarded by the manifest's lock.
#[derive(Debug)]
pub struct Installed {
    /// The file that edits are appended to.
    pub manifest: Manifest,
    /// The sum of all durable edits.
    pub state: DatabaseState,
    /// Tables of edits whose append may or may not have happened, until a new manifest is current that
    /// certainly lacks them.
    pub doubtful: Vec<DataFile>,
    /// When an edit had the figures last, on the monotonic clock, or since when they count.
    pub figures_ns: u64,
}

impl Installed {
    /// The manifest and the state it describes.
    pub fn new(manifest: Manifest, state: DatabaseState, now_ns: u64) -> Installed {
        Installed { manifest, state, doubtful: Vec::new(), figures_ns: now_ns }
    }
}
