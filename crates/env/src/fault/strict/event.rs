//! Event trace: the changes of the file system, in order, from which crash images are made.

use super::disk::InodeId;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A change of one file's bytes or of its length.
#[derive(Clone, Debug)]
pub(super) enum DataChange {
    Write { offset: u64, bytes: Arc<[u8]>, mapped: bool },
    SetLen { len: u64 },
    Allocate { offset: u64, len: u64, keep_len: bool },
}

/// A change of the file system, by inode, so that it can be applied again without a path lookup.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Create { dir: InodeId, name: Arc<str>, inode: InodeId, is_dir: bool },
    Data { inode: InodeId, change: DataChange },
    SyncFile { inode: InodeId },
    LoseUnsynced { inode: InodeId },
    SyncDir { dir: InodeId },
    Rename { from: (InodeId, Arc<str>), to: (InodeId, Arc<str>), inode: InodeId, to_path: PathBuf },
    Link { dir: InodeId, name: Arc<str>, inode: InodeId },
    Unlink { dir: InodeId, name: Arc<str>, inode: InodeId },
    Mark(u64),
}

/// One entry of a trace. Its text names the operation and the path.
#[derive(Clone, Debug)]
pub struct Event {
    pub(super) change: Change,
    pub(super) path: PathBuf,
}

impl Event {
    /// The path by which the changed file or directory was opened or named; empty for marks.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number, if this is a mark that the test set.
    pub fn mark(&self) -> Option<u64> {
        match self.change {
            Change::Mark(number) => Some(number),
            _ => None,
        }
    }

    /// How many bytes were written, if this is a write or a store into a mapping: the event can be torn
    /// anywhere below, see [`super::Crash::ProcessTorn`].
    pub fn written_bytes(&self) -> Option<usize> {
        match &self.change {
            Change::Data { change: DataChange::Write { bytes, .. }, .. } => Some(bytes.len()),
            _ => None,
        }
    }

    /// Whether this is a store into a mapping.
    pub fn is_mapped_store(&self) -> bool {
        matches!(&self.change, Change::Data { change: DataChange::Write { mapped: true, .. }, .. })
    }

    /// Whether this makes something durable.
    pub fn is_sync(&self) -> bool {
        matches!(self.change, Change::SyncFile { .. } | Change::SyncDir { .. })
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.change {
            Change::Create { is_dir: true, .. } => write!(f, "create the directory {path}"),
            Change::Create { .. } => write!(f, "create {path}"),
            Change::Data { change, .. } => match change {
                DataChange::Write { offset, bytes, mapped } => {
                    let verb = if *mapped { "store" } else { "write" };
                    write!(f, "{verb} {} bytes at {offset} of {path}", bytes.len())
                }
                DataChange::SetLen { len } => write!(f, "set the length of {path} to {len}"),
                DataChange::Allocate { offset, len, keep_len } => {
                    let kept = if *keep_len { ", keeping the length" } else { "" };
                    write!(f, "allocate {len} bytes at {offset} of {path}{kept}")
                }
            },
            Change::SyncFile { .. } => write!(f, "sync {path}"),
            Change::LoseUnsynced { .. } => write!(f, "fail to sync {path}, whose pages are clean now"),
            Change::SyncDir { .. } => write!(f, "sync the directory {path}"),
            Change::Rename { to_path, .. } => write!(f, "rename {path} to {}", to_path.display()),
            Change::Link { .. } => write!(f, "link {path}"),
            Change::Unlink { .. } => write!(f, "remove {path}"),
            Change::Mark(number) => write!(f, "mark {number}"),
        }
    }
}
