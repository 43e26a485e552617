//! Fault rules: which calls of a [`super::FaultFs`] fail, and how.

use std::path::Path;

/// A kind of call, for rules and counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// [`crate::FileSystem::open`] of an existing file.
    Open,
    /// [`crate::FileSystem::open`] with a mode that may create the file.
    Create,
    /// [`crate::FileSystem::create_dir_all`].
    CreateDir,
    /// [`crate::FileSystem::list`].
    List,
    /// [`crate::FileSystem::file_len`] and [`crate::File::len`].
    Len,
    /// [`crate::FileSystem::rename`]; its path is the source.
    Rename,
    /// [`crate::FileSystem::remove_file`].
    Remove,
    /// [`crate::FileSystem::remove_dir_all`].
    RemoveDir,
    /// [`crate::FileSystem::hard_link`]; its path is the source.
    Link,
    /// [`crate::FileSystem::sync_dir`].
    SyncDir,
    /// [`crate::SharedSync::sync`]; its path is the directory.
    SyncShared,
    /// [`crate::FileSystem::lock`].
    Lock,
    /// [`crate::FileSystem::free_bytes`].
    FreeBytes,
    /// [`crate::File::read_at`].
    Read,
    /// [`crate::File::write_at`].
    Write,
    /// [`crate::File::set_len`].
    SetLen,
    /// [`crate::File::allocate`].
    Allocate,
    /// [`crate::File::sync_data`].
    SyncData,
    /// [`crate::File::sync_all`].
    SyncAll,
    /// [`crate::File::map_writable`].
    Map,
}

impl Operation {
    /// All kinds.
    pub const ALL: [Operation; 20] = [
        Operation::Open,
        Operation::Create,
        Operation::CreateDir,
        Operation::List,
        Operation::Len,
        Operation::Rename,
        Operation::Remove,
        Operation::RemoveDir,
        Operation::Link,
        Operation::SyncDir,
        Operation::SyncShared,
        Operation::Lock,
        Operation::FreeBytes,
        Operation::Read,
        Operation::Write,
        Operation::SetLen,
        Operation::Allocate,
        Operation::SyncData,
        Operation::SyncAll,
        Operation::Map,
    ];

    /// Whether a call of this kind changes something, or makes a change durable.
    pub fn is_change(self) -> bool {
        !matches!(
            self,
            Operation::Open
                | Operation::List
                | Operation::Len
                | Operation::Lock
                | Operation::FreeBytes
                | Operation::Read
        )
    }

    /// Whether a call of this kind makes something durable.
    pub fn is_sync(self) -> bool {
        matches!(self, Operation::SyncDir | Operation::SyncShared | Operation::SyncData | Operation::SyncAll)
    }
}

/// The kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The device reports an error; nothing was done. A failed sync leaves everything to be synced again.
    Io,
    /// No space; nothing was done.
    Full,
    /// A write stores its first `keep_bytes`, then fails. Like [`Fault::Io`] for other calls.
    ShortWrite {
        /// Bytes that are written.
        keep_bytes: usize,
    },
    /// A write stores its first `keep_bytes`, then finds no space. Like [`Fault::Full`] for other calls.
    ShortFull {
        /// Bytes that are written.
        keep_bytes: usize,
    },
    /// A sync of a file fails and its pages are marked clean though they were not written, as on Linux: they
    /// stay readable until the machine crashes, no later sync writes them, and a later sync reports success.
    /// Marking them needs a [`super::FaultFs::over_strict`]; like [`Fault::Io`] elsewhere and for other
    /// calls.
    LostSync,
    /// A read returns one wrong bit, the `bit`th, counted around. Nothing for other calls.
    FlippedBit {
        /// Which bit.
        bit: u64,
    },
    /// A read returns its first `keep_bytes` only, as at the end of a file. Nothing for other calls.
    ShortRead {
        /// Bytes that are read.
        keep_bytes: usize,
    },
    /// A read returns 512 bytes of zeros, the `sector`th, counted around. Nothing for other calls.
    ZeroedSector {
        /// Which sector.
        sector: u64,
    },
}

/// Which of the calls that match a rule fail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    /// The `n`th call since the rule was added, counted from 1, and no other.
    Nth(u64),
    /// The `n`th call, counted from 1, and all after it.
    From(u64),
    /// Each call with this probability.
    Chance {
        /// Between 0 and 1.
        probability: f64,
        /// Decides for each call.
        seed: u64,
    },
}

/// Makes some calls fail. Every part narrows the match.
///
/// ```
/// use esker_env::fault::{Fault, Operation, Rule, When};
/// let second_log_sync = Rule::new(Fault::Io, When::Nth(2)).on(Operation::SyncData).path("wal/");
/// # let _ = second_log_sync;
/// ```
#[derive(Clone, Debug)]
pub struct Rule {
    pub(super) fault: Fault,
    pub(super) when: When,
    pub(super) operations: Vec<Operation>,
    pub(super) path_contains: String,
}

impl Rule {
    /// A rule that matches every call on every path.
    pub fn new(fault: Fault, when: When) -> Rule {
        Rule { fault, when, operations: Vec::new(), path_contains: String::new() }
    }

    /// Only calls of this kind; several of them add up.
    #[must_use]
    pub fn on(mut self, operation: Operation) -> Rule {
        self.operations.push(operation);
        self
    }

    /// Only paths that contain this text.
    #[must_use]
    pub fn path(mut self, contains: &str) -> Rule {
        self.path_contains = contains.to_owned();
        self
    }

    pub(super) fn is_about(&self, operation: Operation, path: &Path) -> bool {
        let about_operation = self.operations.is_empty() || self.operations.contains(&operation);
        about_operation && path.to_string_lossy().contains(&self.path_contains)
    }
}
