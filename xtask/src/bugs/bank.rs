//! The bank: each planted bug, and the tests that must notice it.
//!
//! A row is the class of bug that it stands for: 1 to 30 are classes that public reports of other stores
//! name, `user` are those that users of this one met. Of a bug's suites the first is the one that ought to
//! notice it, the others are the next best.

use std::fmt;
use std::time::Duration;

/// A bug, and where it must be noticed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hunt {
    /// Its name in `crates/base/src/planted.rs`.
    pub(super) bug: &'static str,
    /// Its class.
    pub(super) row: &'static str,
    pub(super) suites: &'static [Suite],
    /// Among the ten that are found first.
    pub(super) is_fast: bool,
}

/// Some tests of one test program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Suite {
    pub(super) package: &'static str,
    /// `lib` for the tests of the library itself.
    pub(super) target: &'static str,
    /// Parts of names; all tests without any.
    pub(super) filters: &'static [&'static str],
    pub(super) env: &'static [(&'static str, &'static str)],
    /// After that it counts as hanging.
    pub(super) limit: Duration,
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.package, self.target)?;
        self.filters.iter().try_for_each(|filter| write!(f, " {filter}"))
    }
}

const fn suite(package: &'static str, target: &'static str, filters: &'static [&'static str]) -> Suite {
    Suite { package, target, filters, env: &[], limit: Duration::from_secs(900) }
}

/// Random plans against the oracle; a failing plan is told and not shrunk.
const MODEL: Suite = Suite {
    env: &[("ESKER_PLANS", "100"), ("ESKER_SHRINK", "0")],
    ..suite("esker-testkit", "model", &["the_database_agrees"])
};
const CRASH: Suite = suite("esker-testkit", "crash", &[]);
const ERRORS: Suite = suite("esker-testkit", "errors", &[]);
const DAMAGE: Suite = suite("esker-testkit", "damage", &[]);
const DECODERS: Suite = suite("esker-testkit", "decoders", &[]);
const WALKS: Suite = suite("esker-testkit", "walks", &[]);
const SCHEDULER: Suite = suite("esker-engine", "lib", &["scheduler"]);
const OPEN_TABLES: Suite = suite("esker-testkit", "open_tables", &[]);
const WAL_CRASH: Suite = suite("esker-wal", "log", &["crash::"]);
const WAL_DAMAGE: Suite = suite("esker-wal", "log", &["damage::"]);
const WAL_FAULTS: Suite = suite("esker-wal", "log", &["faults::"]);
const WAL_LIFE: Suite = suite("esker-wal", "log", &["lifecycle::"]);
const MANIFEST: Suite = suite("esker-version", "manifest", &[]);
const TABLES: Suite = suite("esker-sst", "lib", &["damage", "faults"]);
const CACHE: Suite = suite("esker-cache", "lib", &["numbers"]);
const MERGE: Suite = suite("esker-iter", "lib", &["merge"]);
const CODEC: Suite = suite("esker-codec", "lib", &["adaptive"]);
const BLOBS: Suite = suite("esker-blob", "lib", &[]);
const TIME: Suite = suite("esker-view", "lib", &["time"]);
const ENV: Suite = suite("esker-env", "lib", &["std_fs"]);
const OWN: Suite = suite("esker", "lib", &["workers"]);
const CALLS: Suite = suite("esker", "calls_from_anywhere", &[]);
const HELD: Suite = suite("esker", "held_directory", &[]);
const COPIES: Suite = suite("esker", "copy_verification", &[]);
const LOG_CLAIMS: Suite = suite("esker", "log_claims", &[]);
const TRANSACTIONS: Suite = suite("esker", "transactions", &[]);

const fn hunt(row: &'static str, bug: &'static str, suites: &'static [Suite]) -> Hunt {
    Hunt { bug, row, suites, is_fast: false }
}

const fn fast(row: &'static str, bug: &'static str, suites: &'static [Suite]) -> Hunt {
    Hunt { is_fast: true, ..hunt(row, bug, suites) }
}

pub(super) const BANK: &[Hunt] = &[
    hunt("1", "SyncsNewestSegmentOnly", &[CRASH, WAL_CRASH]),
    hunt("2", "AcceptsShortLog", &[DAMAGE, WAL_DAMAGE]),
    hunt("2", "AcceptsCutSegment", &[LOG_CLAIMS, WAL_DAMAGE]),
    hunt("3", "ReplaysStaleRecords", &[CRASH, WAL_LIFE, WAL_DAMAGE]),
    hunt("4", "AppliesTornBatch", &[CRASH, WAL_CRASH]),
    hunt("5", "DecoderTrustsLength", &[DECODERS]),
    fast("6", "TableNamesNotSynced", &[CRASH]),
    hunt("7", "FooterAfterSync", &[CRASH]),
    hunt("8", "IgnoresFailedSync", &[ERRORS, WAL_FAULTS]),
    hunt("9", "GapAfterFailedWrite", &[ERRORS, WAL_FAULTS]),
    hunt("10", "TornRecordInManifest", &[ERRORS, MANIFEST]),
    fast("11", "CurrentNotSynced", &[CRASH, MANIFEST]),
    hunt("12", "DeletesLogTooEarly", &[CRASH]),
    hunt("13", "ReleasesNeededLog", &[CRASH, MODEL]),
    hunt("14", "LosesWakeup", &[SCHEDULER]),
    fast("15", "SplitsVersionsOfKey", &[MODEL]),
    fast("16", "DropsTombstoneEarly", &[MODEL]),
    fast("17", "ForgetsOldestSnapshot", &[MODEL]),
    fast("18", "LosesCutTombstone", &[MODEL]),
    fast("19", "ReadErrorIsEnd", &[WALKS, ERRORS, MERGE]),
    fast("20", "BackwardIgnoresRangeDeletes", &[MODEL]),
    hunt("21", "ReusesSequenceNumbers", &[CRASH]),
    hunt("21", "StaleReadOnlyOpen", &[MODEL]),
    hunt("22", "DeletesHeldTable", &[OPEN_TABLES, MODEL]),
    hunt("23", "ReusesCacheNumber", &[MODEL, CACHE]),
    hunt("24", "IngestBelowOlderWrites", &[MODEL]),
    hunt("25", "TearsBatchOverKeyspaces", &[CRASH]),
    hunt("26", "TimeRunsBack", &[MODEL, TIME]),
    fast("27", "WrongCodecInBlob", &[MODEL, BLOBS]),
    hunt("28", "BlocksNotVerified", &[DAMAGE, TABLES]),
    hunt("29", "BackgroundPanicGoesOn", &[OWN]),
    fast("30", "LockIsIgnored", &[ENV]),
    hunt("user", "UpdateDropsExpiry", &[MODEL]),
    hunt("user", "UnrelatedPanicPoisons", &[CALLS]),
    hunt("user", "FollowsPathAfterRename", &[HELD]),
    hunt("user", "CopiesUnverified", &[COPIES]),
    hunt("user", "CompareAndSetReversed", &[TRANSACTIONS]),
    hunt("27", "KeepsNameOfEarlierTrial", &[CODEC]),
];
