//! The error type of the library: variants by what the caller can do, messages with the facts.

use crate::SeqNo;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Result of a fallible operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation failed, sorted by what the caller can do about it.
///
/// Errors are cheap to clone, because one background failure may be returned to many callers.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Stored bytes are not the bytes that were written. Reading the same location again will fail again;
    /// other locations may be intact. `esker verify` lists all damage.
    #[error("{0}")]
    Corruption(Box<Corruption>),

    /// The answer may be in a file that is quarantined: damaged, missing or another file's. Keys outside of
    /// the named range are not affected. Replacing the file from a backup or checkpoint makes the range
    /// readable.
    #[error("{0}")]
    Quarantined(Box<QuarantinedRange>),

    /// A call to the operating system failed.
    #[error("{0}")]
    Io(Box<IoFailure>),

    /// No space, on the disk or in the memory budget. Nothing was written; free space and try again.
    #[error("no space: {0}")]
    Full(Arc<str>),

    /// Another transaction committed a change to a key or range that this one read or wrote. Retry it.
    #[error("{0}")]
    Conflict(Box<Conflict>),

    /// The merge operator failed on the operands of a key. They stay as they are; putting or deleting the key
    /// ends their history, and other keys are not affected.
    #[error("{0}")]
    Merge(Box<MergeFailure>),

    /// The call itself is wrong; nothing was changed.
    #[error("{0}")]
    InvalidArgument(Arc<str>),

    /// What was named does not exist.
    #[error("{0}")]
    NotFound(Arc<str>),

    /// The database takes no writes: it was opened read-only, or a failed flush of the log made it so. For
    /// the write that met the failure the outcome is unknown: it may or may not survive. Reopening clears the
    /// state.
    #[error("the database is read-only: {cause}")]
    ReadOnly {
        /// The cause.
        cause: Arc<str>,
    },

    /// The database directory is in use.
    #[error("{} is in use by {owner}", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// The owner of the lock, as far as the lock file names it.
        owner: Arc<str>,
    },

    /// Writes are stalled, and the caller chose not to wait or reached its time limit.
    #[error("writes are stalled for about {} ms: {cause}", retry_after.as_millis())]
    WouldStall {
        /// When a retry is worthwhile.
        retry_after: Duration,
        /// The cause of the stall.
        cause: Arc<str>,
    },

    /// The log no longer holds the requested changes. Start over from a copy of the data, and continue from
    /// the copy's sequence number.
    #[error("{0}")]
    HistoryGone(Box<HistoryGone>),

    /// The file was written by a newer version, or uses a feature that this build does not have.
    #[error("unsupported: {0}")]
    Unsupported(Arc<str>),

    /// The database was closed.
    #[error("the database is closed")]
    Closed,

    /// A defect of Esker itself was noticed before it could do harm.
    #[error("internal error, please report it: {0}")]
    Internal(Arc<str>),
}

/// Location and description of damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corruption {
    /// The damaged file.
    pub file: PathBuf,
    /// Byte offset of the damage, if it has one.
    pub offset: Option<u64>,
    /// The affected keyspace, if known.
    pub keyspace: Option<Arc<str>>,
    /// What was expected and what was found.
    pub detail: String,
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "corruption in {}", self.file.display())?;
        if let Some(offset) = self.offset {
            write!(f, " at byte {offset}")?;
        }
        if let Some(keyspace) = &self.keyspace {
            write!(f, " (keyspace {keyspace:?})")?;
        }
        write!(f, ": {}", self.detail)
    }
}

/// Keys that cannot be read, because they are in a quarantined file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuarantinedRange {
    /// The quarantined file.
    pub file: PathBuf,
    /// The keyspace of the keys.
    pub keyspace: Arc<str>,
    /// The keys, printed: from the first to the last.
    pub keys: Arc<str>,
    /// Why the file is quarantined.
    pub cause: Arc<str>,
}

impl fmt::Display for QuarantinedRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let QuarantinedRange { file, keyspace, keys, cause } = self;
        write!(
            f,
            "the keys {keys} of keyspace {keyspace:?} cannot be read: {} is quarantined ({cause}); replace it from \
             a backup or checkpoint",
            file.display()
        )
    }
}

/// A change by another commit under a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The keyspace of the key.
    pub keyspace: Arc<str>,
    /// The key that changed.
    pub key: Arc<[u8]>,
    /// Sequence number of a change that the transaction has not seen.
    pub seqno: SeqNo,
    /// The sequence number up to which the transaction sees everything.
    pub snapshot: SeqNo,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Conflict { keyspace, key, seqno, snapshot } = self;
        let key = key.escape_ascii();
        write!(
            f,
            "conflict on key \"{key}\" in keyspace {keyspace:?}: it was changed at sequence number {seqno}, and the transaction sees what was there at {snapshot}"
        )
    }
}

/// The changes that are gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryGone {
    /// Changes after this sequence number were requested.
    pub requested: SeqNo,
    /// The smallest sequence number after which all changes are available.
    pub oldest: SeqNo,
    /// Most bytes of log that are retained for consumers.
    pub limit_bytes: u64,
    /// The requesting consumer, if it has a name.
    pub consumer: Option<Arc<str>>,
}

impl fmt::Display for HistoryGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HistoryGone { requested, oldest, limit_bytes, consumer } = self;
        write!(f, "the changes after sequence number {requested}")?;
        if let Some(consumer) = consumer {
            write!(f, ", which consumer {consumer:?} needs next,")?;
        }
        write!(
            f,
            " are gone: the log goes back to {oldest}; for named consumers up to {limit_bytes} bytes more than needed are kept"
        )
    }
}

/// A failed merge of operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeFailure {
    /// The keyspace of the key.
    pub keyspace: Arc<str>,
    /// The key.
    pub key: Arc<[u8]>,
    /// The keyspace's merge operator.
    pub operator: Arc<str>,
    /// The operator's error.
    pub cause: Arc<str>,
}

impl fmt::Display for MergeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MergeFailure { keyspace, key, operator, cause } = self;
        let key = key.escape_ascii();
        write!(
            f,
            "the operands of key \"{key}\" in keyspace {keyspace:?} cannot be merged by its merge operator {operator:?}: {cause}"
        )
    }
}

/// A failed call to the operating system.
#[derive(Clone, Debug)]
pub struct IoFailure {
    /// What was attempted, as a verb: "open", "read", "sync".
    pub operation: &'static str,
    /// The file or directory.
    pub path: PathBuf,
    /// The operating system's error.
    pub source: Arc<std::io::Error>,
}

impl fmt::Display for IoFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: {}", self.operation, self.path.display(), self.source)
    }
}

impl Error {
    /// Damage in `file` at `offset`.
    pub fn corruption(
        file: impl Into<PathBuf>,
        offset: impl Into<Option<u64>>,
        detail: impl Into<String>,
    ) -> Error {
        let detail = detail.into();
        Error::Corruption(Box::new(Corruption {
            file: file.into(),
            offset: offset.into(),
            keyspace: None,
            detail,
        }))
    }

    /// A failed call to the operating system; a full disk or an exceeded quota becomes [`Error::Full`].
    pub fn io(operation: &'static str, path: impl AsRef<Path>, source: std::io::Error) -> Error {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        let path = path.as_ref().to_path_buf();
        let failure = IoFailure { operation, path, source: Arc::new(source) };
        if matches!(failure.source.kind(), StorageFull | QuotaExceeded) {
            return Error::Full(failure.to_string().into());
        }
        Error::Io(Box::new(failure))
    }

    /// An [`Error::InvalidArgument`] with this message.
    pub fn invalid(message: impl Into<String>) -> Error {
        Error::InvalidArgument(message.into().into())
    }

    /// An [`Error::Internal`] with this message.
    pub fn internal(message: impl Into<String>) -> Error {
        Error::Internal(message.into().into())
    }

    /// Adds the keyspace to an error about damage that does not name one yet; other errors stay.
    #[must_use]
    pub fn in_keyspace(self, name: &str) -> Error {
        match self {
            Error::Corruption(mut corruption) => {
                corruption.keyspace.get_or_insert_with(|| name.into());
                Error::Corruption(corruption)
            }
            other => other,
        }
    }

    /// Whether another transaction committed first: a retry from the start may succeed.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Error::Conflict(_))
    }

    /// Whether this is damage of stored data, quarantined or not.
    pub fn is_corruption(&self) -> bool {
        matches!(self, Error::Corruption(_) | Error::Quarantined(_))
    }

    /// Whether the operating system reported that the file or directory does not exist.
    pub fn is_not_found(&self) -> bool {
        match self {
            Error::NotFound(_) => true,
            Error::Io(failure) => failure.source.kind() == std::io::ErrorKind::NotFound,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_facts() {
        let error = Error::corruption("/d/7.sst", 4096, "checksum 1 expected, 2 found").in_keyspace("users");
        let text = error.to_string();
        assert_eq!(
            text,
            "corruption in /d/7.sst at byte 4096 (keyspace \"users\"): checksum 1 expected, 2 found"
        );
        assert!(error.is_corruption());
    }

    #[test]
    fn a_conflict_names_the_key() {
        let conflict = Conflict {
            keyspace: "users".into(),
            key: b"a\n\xff".as_slice().into(),
            seqno: SeqNo::new(9),
            snapshot: SeqNo::new(7),
        };
        let error = Error::Conflict(Box::new(conflict));
        assert!(error.is_conflict());
        assert_eq!(
            error.to_string(),
            "conflict on key \"a\\n\\xff\" in keyspace \"users\": it was changed at sequence number 9, and the transaction sees what was there at 7"
        );
    }

    #[test]
    fn gone_history_names_the_available_range() {
        let gone = HistoryGone {
            requested: SeqNo::new(7),
            oldest: SeqNo::new(90),
            limit_bytes: 4096,
            consumer: None,
        };
        let text = Error::HistoryGone(Box::new(gone.clone())).to_string();
        assert!(text.starts_with("the changes after sequence number 7 are gone: the log goes back to 90"));
        let named = HistoryGone { consumer: Some("audit".into()), ..gone };
        assert!(named.to_string().contains("7, which consumer \"audit\" needs next, are gone"));
    }

    #[test]
    fn a_full_disk_has_its_own_error() {
        let error = Error::io("write", "/d/7.sst", std::io::Error::from(std::io::ErrorKind::StorageFull));
        assert!(matches!(error, Error::Full(_)));
        assert!(std::mem::size_of::<Error>() <= 40);
    }
}
