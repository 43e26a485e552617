//! Mutation testing by hand: bugs that stores of this kind really had, planted in the code to test the tests.
//!
//! A build with `--cfg esker_planted_bugs` has all of them, switched off; the environment variable
//! `ESKER_PLANTED` names the one that is on. In every other build [`planted!`](macro@crate::planted) is the
//! constant `false`, and the compiler removes what it guards. `cargo xtask bugs` runs, for each bug, the
//! tests that must notice it (`xtask/src/bugs/bank.rs`), and fails if one of them stays unnoticed.
//!
//! A plant is one line at the place where the mistake was made, and reads as the mistake. A new bug is a
//! variant here with its story in one sentence, its line in the code, and its row in the bank.

/// `true` if the named [`Bug`] is planted and switched on: a constant `false` in every
/// build without `--cfg esker_planted_bugs`.
#[macro_export]
macro_rules! planted {
    ($bug:ident) => {
        $crate::planted::is_on($crate::planted::Bug::$bug, stringify!($bug))
    };
}

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A sync of the log syncs the newest segment only, so a power cut leaves a hole before durable records.
    SyncsNewestSegmentOnly,
    /// Recovery takes a log that ends before its known durable position for a log that ends there.
    AcceptsShortLog,
    /// A segment file that is shorter than its header says is taken for one whose free end was cut.
    AcceptsCutSegment,
    /// Records carry neither salt nor segment id, so a recycled segment replays records of its last life.
    ReplaysStaleRecords,
    /// The payload's checksum is ignored, and a batch that was torn is applied up to the tear.
    AppliesTornBatch,
    /// The decoder of batches takes a key of the stored length without checking that it is there.
    DecoderTrustsLength,
    /// A flush or compaction does not sync the directory of its new tables.
    TableNamesNotSynced,
    /// The end of a table is written after its sync, so its length is not durable.
    FooterAfterSync,
    /// A failed sync of the log counts as a successful one.
    IgnoresFailedSync,
    /// A failed write of a record moves the end of the log, and later records follow a gap.
    GapAfterFailedWrite,
    /// A failed append leaves its torn record in the middle of the manifest.
    TornRecordInManifest,
    /// The new `CURRENT` is renamed into place before its bytes are synced.
    CurrentNotSynced,
    /// Recovery deletes the log before the manifest that makes it unnecessary is current.
    DeletesLogTooEarly,
    /// Log segments are released although a sealed memtable still needs them.
    ReleasesNeededLog,
    /// Background work that makes room does not wake the writers that wait for it.
    LosesWakeup,
    /// A table ends between two versions of one key, so a lookup sees only the newer half.
    SplitsVersionsOfKey,
    /// A compaction drops a tombstone although older versions of its key lie outside of the job.
    DropsTombstoneEarly,
    /// A flush or compaction does not know the oldest snapshot.
    ForgetsOldestSnapshot,
    /// A range tombstone that reaches past the end of a table is cut there, and the rest is lost.
    LosesCutTombstone,
    /// A merge takes a failed read of one source for its end.
    ReadErrorIsEnd,
    /// A cursor that walks backwards ignores range tombstones.
    BackwardIgnoresRangeDeletes,
    /// Sequence numbers of records that recovery has dropped are assigned again.
    ReusesSequenceNumbers,
    /// A read-only open does not see the entries that it replayed.
    StaleReadOnlyOpen,
    /// A replaced table is deleted while readers still hold it.
    DeletesHeldTable,
    /// A table's number in the block cache is reused while blocks of the old table are cached.
    ReusesCacheNumber,
    /// An ingest does not seal the older writes, which then hide the ingested entries.
    IngestBelowOlderWrites,
    /// A flush does not sync the log on which another keyspace's half of a batch depends.
    TearsBatchOverKeyspaces,
    /// Time runs back with the clock, and expired entries are shown again.
    TimeRunsBack,
    /// A blob record that did not shrink is stored plain and named compressed.
    WrongCodecInBlob,
    /// Blocks are not verified when they are read.
    BlocksNotVerified,
    /// A panic of a background thread leaves a database that accepts writes and does no work.
    BackgroundPanicGoesOn,
    /// A second process may open a database that is open.
    LockIsIgnored,
    /// An update of a key drops the expiry of its value.
    UpdateDropsExpiry,
    /// A write in a destructor that runs during an unrelated panic poisons the database.
    UnrelatedPanicPoisons,
    /// Files are reached by path, so a renamed directory leads to another database's files.
    FollowsPathAfterRename,
    /// A copy counts before its checksums are verified, so damage of the original goes into it.
    CopiesUnverified,
    /// A compare-and-set writes when the value differs, and not when it is the expected one.
    CompareAndSetReversed,
    /// A block keeps the codec of an earlier trial, though a later one that failed overwrote its bytes.
    KeepsNameOfEarlierTrial,
}

/// Whether this bug, of this name, is on.
#[cfg(not(esker_planted_bugs))]
#[inline(always)]
pub const fn is_on(_: Bug, _: &str) -> bool {
    false
}

/// Whether this bug, of this name, is on: the one that `ESKER_PLANTED` names.
#[cfg(esker_planted_bugs)]
pub fn is_on(_: Bug, name: &str) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var("ESKER_PLANTED").ok()).as_deref() == Some(name)
}
