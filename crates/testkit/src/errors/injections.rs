//! Injections: the faults of a sweep, and the calls that each is tried on.

use esker::parts::env::fault::{Fault, Operation};

/// A fault, and the calls that it is tried on.
#[derive(Clone, Copy, Debug)]
pub struct Injection {
    /// What goes wrong.
    pub fault: Fault,
    /// In which calls.
    pub operations: &'static [Operation],
    /// On which paths: those that contain this text.
    pub path: &'static str,
}

/// How often a fault happens in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasting {
    /// In one call.
    Once,
    /// In a call and in all after it, until the disk is repaired.
    FromNowOn,
}

const CHANGES: &[Operation] = &[
    Operation::Create,
    Operation::CreateDir,
    Operation::Rename,
    Operation::Remove,
    Operation::SyncDir,
    Operation::SyncShared,
    Operation::Write,
    Operation::SetLen,
    Operation::Allocate,
    Operation::SyncData,
    Operation::SyncAll,
    Operation::Map,
];
const GROWTH: &[Operation] =
    &[Operation::Create, Operation::CreateDir, Operation::Write, Operation::SetLen, Operation::Allocate];
const SYNCS: &[Operation] = &[Operation::SyncShared, Operation::SyncData, Operation::SyncAll];
const READS: &[Operation] = &[Operation::Read];

/// Faults of calls that change the file system.
pub const FAULTS: [Injection; 5] = [
    Injection { fault: Fault::Io, operations: CHANGES, path: "" },
    Injection { fault: Fault::Full, operations: GROWTH, path: "" },
    Injection { fault: Fault::ShortWrite { keep_bytes: 9 }, operations: &[Operation::Write], path: "" },
    Injection { fault: Fault::ShortFull { keep_bytes: 700 }, operations: &[Operation::Write], path: "" },
    Injection { fault: Fault::LostSync, operations: SYNCS, path: "" },
];

/// Faults of reads. Wrong bytes of the log and the manifest are not among them: where a record does not
/// verify at the end of the log, it ends there.
pub const READ_FAULTS: [Injection; 4] = [
    Injection { fault: Fault::Io, operations: READS, path: "" },
    Injection { fault: Fault::FlippedBit { bit: 4_001 }, operations: READS, path: "tables/" },
    Injection { fault: Fault::ZeroedSector { sector: 3 }, operations: READS, path: "tables/" },
    Injection { fault: Fault::ShortRead { keep_bytes: 40 }, operations: READS, path: "tables/" },
];
