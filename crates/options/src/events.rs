//! Event listener: what an open database reports to code of its user.

use super::Options;
use esker_base::{Error, FileNumber, KeyspaceId, SeqNo};
use esker_strategy::write_control::{Pressure, WriteState};
use esker_strategy::{CompactionPlan, PlanKind, Reason};
use esker_version::FileKind;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Code that is called for each event of an open database; set by [`Options::listener`]. A closure is one.
///
/// There is one method for all events, so a listener that only logs, counts or forwards them is one line, and
/// an event that a later release adds changes no listener.
pub trait EventListener: Send + Sync + 'static {
    /// Called for each event, one at a time and in order, on a thread of the database that does nothing else.
    ///
    /// It may take its time: no write, flush or compaction waits for it. It may call the database, also for
    /// what waits for background work. A panic is caught, logged and counted, and the next event follows.
    fn on_event(&self, event: &Event);
}

impl<F: Fn(&Event) + Send + Sync + 'static> EventListener for F {
    fn on_event(&self, event: &Event) {
        self(event);
    }
}

/// Something that happened in an open database.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A flush begins. A keyspace has one at a time.
    #[doc(alias = "OnFlushBegin")]
    FlushBegun(FlushJob),
    /// The flush has ended.
    #[doc(alias = "OnFlushCompleted")]
    FlushEnded {
        /// The flush that began.
        job: FlushJob,
        /// The tables it has made; or why there are none, and then it is tried again.
        result: Result<JobOutput, Error>,
        /// How long it took, the install included.
        duration: Duration,
    },
    /// A compaction begins. A keyspace may have several, which differ by number.
    #[doc(alias = "OnCompactionBegin")]
    CompactionBegun(CompactionJob),
    /// The compaction has ended.
    #[doc(alias = "OnCompactionCompleted")]
    CompactionEnded {
        /// The compaction that began.
        job: CompactionJob,
        /// The tables it has made; or why there are none. `Closed` says that it was cancelled: because the
        /// database closes, or to let more urgent work run.
        result: Result<JobOutput, Error>,
        /// How long it took, the install included.
        duration: Duration,
    },
    /// Files have become part of a keyspace, or have left it, as one durable change.
    #[doc(alias = "OnTableFileCreated")]
    #[doc(alias = "OnTableFileDeleted")]
    #[doc(alias = "OnBlobFileCreated")]
    #[doc(alias = "OnBlobFileDeleted")]
    FilesChanged {
        /// Their keyspace.
        keyspace: KeyspaceRef,
        /// What changed them.
        reason: FileReason,
        /// New files.
        created: Vec<FileInfo>,
        /// Files that no new reader finds. Each is removed from the disk when the last reader that has it is
        /// dropped.
        deleted: Vec<FileInfo>,
    },
    /// Writes of a keyspace are slowed, stopped or free again, or another queue slows them. A change of the
    /// rate alone is no event.
    #[doc(alias = "OnStallConditionsChanged")]
    StallChanged {
        /// The keyspace.
        keyspace: KeyspaceRef,
        /// The state before.
        from: WriteState,
        /// The state from now on.
        to: WriteState,
        /// The queue closest to its limit.
        pressure: Pressure,
    },
    /// A kind of background work fails. It is tried again, at least each second; only another kind of error
    /// is another event.
    #[doc(alias = "OnBackgroundError")]
    BackgroundError {
        /// The work.
        work: WorkKind,
        /// The error.
        error: Error,
    },
    /// A kind of background work that failed succeeds again.
    #[doc(alias = "OnErrorRecoveryCompleted")]
    BackgroundRecovered {
        /// The work.
        work: WorkKind,
    },
    /// The database takes no more writes until it is opened again.
    TurnedReadOnly {
        /// Why.
        cause: Arc<str>,
    },
    /// The wall clock is far from the database time, by which entries expire, or no longer. Told at the open
    /// if it is so then.
    ClockState {
        /// What the database time does.
        state: ClockState,
        /// The wall clock.
        wall: SystemTime,
        /// The database time.
        time: SystemTime,
    },
    /// A keyspace was created.
    KeyspaceCreated(KeyspaceRef),
    /// A keyspace was renamed.
    KeyspaceRenamed {
        /// The keyspace, with its new name.
        keyspace: KeyspaceRef,
        /// Its name before.
        from: Arc<str>,
    },
    /// A keyspace was dropped. What runs for it ends with an error afterwards.
    #[doc(alias = "OnColumnFamilyHandleDeletionStarted")]
    KeyspaceDropped(KeyspaceRef),
    /// A table or blob file was found damaged and is quarantined from now on ([`Options::recovery_mode`]).
    FileQuarantined {
        /// Its keyspace.
        keyspace: KeyspaceRef,
        /// Its number.
        file: FileNumber,
        /// What it holds.
        kind: FileKind,
        /// What was found.
        cause: Error,
    },
    /// A quarantined file was replaced by an undamaged copy.
    FileReplaced {
        /// Its keyspace.
        keyspace: KeyspaceRef,
        /// Its number.
        file: FileNumber,
        /// What it holds.
        kind: FileKind,
    },
    /// A checkpoint or a backup was made, or has failed.
    CopyEnded {
        /// Which of them.
        kind: CopyKind,
        /// The directory of the checkpoint, or that of all backups.
        directory: PathBuf,
        /// The last sequence number in the copy.
        result: Result<SeqNo, Error>,
        /// How long it took.
        duration: Duration,
    },
    /// The listeners are so slow that events were dropped here: read the present state from the database.
    EventsLost {
        /// The number of events.
        count: u64,
    },
}

/// The keyspace of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyspaceRef {
    /// Its id, never reused.
    pub id: KeyspaceId,
    /// Its name at that time.
    pub name: Arc<str>,
}

/// A flush.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlushJob {
    /// Its keyspace.
    pub keyspace: KeyspaceRef,
    /// Memtables that it writes.
    pub memtables: usize,
    /// Bytes of keys and values in them.
    pub payload_bytes: u64,
}

/// A compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactionJob {
    /// Its keyspace.
    pub keyspace: KeyspaceRef,
    /// Its number among the flushes and compactions since the open.
    pub number: u64,
    /// What is done with the inputs.
    pub kind: PlanKind,
    /// Why it was planned.
    pub reason: Reason,
    /// The levels of its inputs, newest data first. The last level is always 63.
    pub from: Vec<u8>,
    /// The level of its output.
    pub to: u8,
    /// The tables it takes, or slices of them.
    pub inputs: Vec<FileNumber>,
    /// Bytes of the inputs; an estimate for slices.
    pub input_bytes: u64,
}

/// What a flush or compaction has written. A move or a drop of tables writes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobOutput {
    /// The new tables, in the order of their keys.
    pub tables: Vec<FileNumber>,
    /// Their bytes.
    pub table_bytes: u64,
    /// Bytes of new blob files.
    pub blob_bytes: u64,
    /// Entries of the tables.
    pub entries: u64,
}

/// A table or blob file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileInfo {
    /// Its number: `tables/NNNNNN.sst` or `tables/NNNNNN.blob`. Never reused.
    pub number: FileNumber,
    /// What it holds.
    pub kind: FileKind,
    /// The level of a table; the last is always 63. `None` for a blob file.
    pub level: Option<u8>,
    /// Its length in bytes.
    pub bytes: u64,
}

/// What changed files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileReason {
    /// A flush.
    Flush,
    /// An ingest or a bulk load.
    Ingest,
    /// A compaction, with its reason.
    Compaction(Reason),
    /// Their keyspace was dropped.
    KeyspaceDropped,
}

/// A kind of background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WorkKind {
    /// Preparing log segments, closing tables.
    Log,
    /// Deleting files. Failures of single files are logged and tried again at the next open.
    Deletion,
    /// Flushes.
    Flush,
    /// Compactions.
    Compaction,
    /// Compactions that cannot wait for a compaction thread.
    UrgentCompaction,
}

/// A kind of copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CopyKind {
    /// A checkpoint.
    Checkpoint,
    /// A backup.
    Backup,
}

/// The listeners of a database.
#[derive(Clone, Default)]
pub struct ListenerList(pub Vec<Arc<dyn EventListener>>);

impl fmt::Debug for ListenerList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} listeners", self.0.len())
    }
}

/// How the database time relates to the wall clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClockState {
    /// It follows the wall clock.
    #[default]
    Followed,
    /// The wall clock is more than five years ahead, and is not believed: time goes on by the monotonic
    /// clock.
    Ahead,
    /// The wall clock is more than an hour behind: time stands still, and so entries do not expire.
    Behind,
}

impl fmt::Display for ClockState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ClockState::Followed => "the database time follows the wall clock",
            ClockState::Ahead => {
                "the wall clock is years ahead of the database time and is not believed; if it is right, open the \
                 database once with believe_clock"
            }
            ClockState::Behind => {
                "the wall clock is behind the database time, which stands still, so that entries do not expire; if \
                 the clock is right, open the database once with believe_clock"
            }
        })
    }
}

impl Event {
    /// The keyspace of the event, if it has one.
    pub fn keyspace(&self) -> Option<&KeyspaceRef> {
        match self {
            Event::FlushBegun(job) | Event::FlushEnded { job, .. } => Some(&job.keyspace),
            Event::CompactionBegun(job) | Event::CompactionEnded { job, .. } => Some(&job.keyspace),
            Event::FilesChanged { keyspace, .. }
            | Event::StallChanged { keyspace, .. }
            | Event::FileQuarantined { keyspace, .. }
            | Event::FileReplaced { keyspace, .. }
            | Event::KeyspaceCreated(keyspace)
            | Event::KeyspaceRenamed { keyspace, .. }
            | Event::KeyspaceDropped(keyspace) => Some(keyspace),
            Event::BackgroundError { .. }
            | Event::BackgroundRecovered { .. }
            | Event::TurnedReadOnly { .. }
            | Event::ClockState { .. }
            | Event::CopyEnded { .. }
            | Event::EventsLost { .. } => None,
        }
    }
}

impl FlushJob {
    /// A flush of so many memtables.
    #[doc(hidden)]
    pub fn new(keyspace: KeyspaceRef, memtables: usize, payload_bytes: u64) -> FlushJob {
        FlushJob { keyspace, memtables, payload_bytes }
    }
}

impl CompactionJob {
    /// The job that executes a plan.
    #[doc(hidden)]
    pub fn of_plan(keyspace: KeyspaceRef, number: u64, plan: &CompactionPlan) -> CompactionJob {
        let mut from: Vec<u8> = plan.inputs.iter().map(|input| input.level.get()).collect();
        from.dedup();
        CompactionJob {
            keyspace,
            number,
            kind: plan.kind,
            reason: plan.reason,
            from,
            to: plan.to.level().get(),
            inputs: plan.parts().map(|(_, input)| input.part.file).collect(),
            input_bytes: plan.est_in_bytes,
        }
    }
}

impl JobOutput {
    /// An output of these tables.
    #[doc(hidden)]
    pub fn new(tables: Vec<FileNumber>, table_bytes: u64, blob_bytes: u64, entries: u64) -> JobOutput {
        JobOutput { tables, table_bytes, blob_bytes, entries }
    }
}

impl FileInfo {
    /// A table of a level.
    #[doc(hidden)]
    pub fn table(number: FileNumber, level: u8, bytes: u64) -> FileInfo {
        FileInfo { number, kind: FileKind::Table, level: Some(level), bytes }
    }

    /// A blob file.
    #[doc(hidden)]
    pub fn blob(number: FileNumber, bytes: u64) -> FileInfo {
        FileInfo { number, kind: FileKind::Blob, level: None, bytes }
    }
}

impl Options {
    /// Adds a listener, which is called for each event of the database: flushes, compactions, files,
    /// stalls, errors, keyspaces, copies. Several are called in the order in which they were added. It is
    /// code, so it is not stored. Default: none.
    ///
    /// ```
    /// use esker_options::{Event, Options};
    /// use std::sync::Arc;
    ///
    /// let options = Options::default().listener(Arc::new(|event: &Event| println!("{event:?}")));
    /// # let _ = options;
    /// ```
    #[doc(alias = "listeners")]
    #[doc(alias = "AddEventListener")]
    pub fn listener(mut self, listener: Arc<dyn EventListener>) -> Options {
        self.listeners.0.push(listener);
        self
    }
}
