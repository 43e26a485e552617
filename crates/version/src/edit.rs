//! Version edits: the content of one manifest record.

use crate::blob::BlobFileMeta;
use crate::figures::KeyspaceFigures;
use crate::part::PartMeta;
use crate::range::Key;
use crate::version::{LevelIndex, Place};
use esker_base::{FileNumber, KeyspaceId, LogId, PartId, RunId, SeqNo};
use std::fmt;
use std::sync::Arc;

/// One change of the database's metadata.
///
/// Values that only grow (`Next...`, `LastSeqno`, `DurablePosition`, `TimeFloor`) may be repeated or late:
/// the greatest counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditOp {
    /// Resets the state: the first operation of a manifest's first record, nowhere else.
    Snapshot,
    /// A new keyspace. Its id must not be below the next keyspace id, which rises past it (WL5).
    CreateKeyspace {
        /// Its id.
        id: KeyspaceId,
        /// Its name, unique among existing keyspaces.
        name: Arc<str>,
        /// Its options as the engine encodes them.
        options: Arc<[u8]>,
    },
    /// Drops a keyspace with all its parts.
    DropKeyspace {
        /// Which.
        id: KeyspaceId,
    },
    /// Renames a keyspace.
    RenameKeyspace {
        /// Which.
        id: KeyspaceId,
        /// The new name, unique among existing keyspaces.
        name: Arc<str>,
    },
    /// Replaces the options of a keyspace.
    SetKeyspaceOptions {
        /// Which.
        id: KeyspaceId,
        /// All its options as the engine encodes them.
        options: Arc<[u8]>,
    },
    /// Adds a part to a run.
    AddPart {
        /// The keyspace of the run.
        keyspace: KeyspaceId,
        /// The run.
        place: Place,
        /// The part.
        part: Arc<PartMeta>,
    },
    /// Removes a part from its run.
    RemovePart {
        /// The keyspace of the run.
        keyspace: KeyspaceId,
        /// The level of the run.
        level: LevelIndex,
        /// The run.
        run: RunId,
        /// The part.
        part: PartId,
        /// The start of the part's range, so that it is found without a search through the run.
        start: Key,
    },
    /// Adds a blob file, with the parts that point to it; otherwise it is removed at once.
    AddBlobFile {
        /// The keyspace of its values.
        keyspace: KeyspaceId,
        /// The file.
        file: BlobFileMeta,
    },
    /// All entries of a keyspace up to a sequence number are in parts. Never decreases.
    FlushedSeqno {
        /// Which keyspace.
        keyspace: KeyspaceId,
        /// The newest sequence number that replay may skip.
        seqno: SeqNo,
    },
    /// Where compaction of a keyspace stopped in a level (round-robin picks).
    Cursor {
        /// Which keyspace.
        keyspace: KeyspaceId,
        /// Which level.
        level: LevelIndex,
        /// The key behind the last pick.
        key: Key,
    },
    /// Log segments with smaller ids are not needed any more. Never decreases.
    MinLogId(LogId),
    /// No file has this number or a greater one.
    NextFile(FileNumber),
    /// No entry in any part or in a flushed log has a greater sequence number.
    LastSeqno(SeqNo),
    /// No keyspace has, or ever had, this id or a greater one.
    NextKeyspace(KeyspaceId),
    /// No part and no run has this id or a greater one; both are numbered by this counter.
    NextPart(PartId),
    /// The log before this segment and offset is known to be durable.
    DurablePosition(LogId, u64),
    /// The latest returned time, in milliseconds since 1970: the clock never runs backwards past it.
    TimeFloor(u64),
    /// A consumer of changes has all of them up to a sequence number; the log keeps what is newer. A new
    /// consumer starts there.
    Consumer {
        /// Its name.
        name: Arc<str>,
        /// What it has acknowledged.
        seqno: SeqNo,
    },
    /// Removes a consumer of changes; nothing is kept for it any more.
    DropConsumer {
        /// Which.
        name: Arc<str>,
    },
    /// Kept log segments that an earlier open wrote; in order of time.
    LogLife(LogLife),
    /// A lifetime counter of the engine, which numbers them.
    Counter {
        /// Which.
        number: u32,
        /// The total, not the increment.
        value: u64,
    },
    /// The figures of a keyspace: totals, not increments. Without effect if there is no such keyspace.
    Figures {
        /// Which keyspace.
        keyspace: KeyspaceId,
        /// All of them.
        figures: Arc<KeyspaceFigures>,
    },
}

/// The log of one open of the database: the segments after the previous open's, up to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLife {
    /// Its last segment.
    pub last_log_id: LogId,
    /// The last sequence number that recovery found there. What follows it in the log was never committed.
    pub last_seqno: SeqNo,
}

/// Changes that become durable and visible together: one manifest record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionEdit {
    /// The changes; parts are removed before any is added, whatever their order here.
    pub ops: Vec<EditOp>,
}

impl VersionEdit {
    /// An edit that changes nothing.
    pub fn new() -> VersionEdit {
        VersionEdit::default()
    }

    /// Adds a change.
    pub fn push(&mut self, op: EditOp) -> &mut VersionEdit {
        self.ops.push(op);
        self
    }

    /// Adds a part to a run.
    pub fn add_part(&mut self, keyspace: KeyspaceId, place: Place, part: Arc<PartMeta>) -> &mut VersionEdit {
        self.push(EditOp::AddPart { keyspace, place, part })
    }

    /// Adds a blob file.
    pub fn add_blob_file(&mut self, keyspace: KeyspaceId, file: BlobFileMeta) -> &mut VersionEdit {
        self.push(EditOp::AddBlobFile { keyspace, file })
    }

    /// Removes a part from its run.
    pub fn remove_part(
        &mut self,
        keyspace: KeyspaceId,
        level: LevelIndex,
        run: RunId,
        part: &PartMeta,
    ) -> &mut VersionEdit {
        let start = part.range.start.clone();
        self.push(EditOp::RemovePart { keyspace, level, run, part: part.id, start })
    }

    /// Whether the edit changes nothing.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Whether this is the first record of a manifest.
    pub fn is_snapshot(&self) -> bool {
        self.ops.first() == Some(&EditOp::Snapshot)
    }
}

impl fmt::Display for VersionEdit {
    /// One line for each change.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, op) in self.ops.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{op}")?;
        }
        Ok(())
    }
}

impl fmt::Display for EditOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EditOp::Snapshot => f.write_str("snapshot of everything"),
            EditOp::CreateKeyspace { id, name, options } => {
                write!(f, "create keyspace {id} {name:?}, {} bytes of options", options.len())
            }
            EditOp::DropKeyspace { id } => write!(f, "drop keyspace {id}"),
            EditOp::RenameKeyspace { id, name } => write!(f, "rename keyspace {id} to {name:?}"),
            EditOp::SetKeyspaceOptions { id, options } => {
                write!(f, "set options of keyspace {id}, {} bytes", options.len())
            }
            EditOp::AddPart { keyspace, place: Place { level, run, order }, part } => {
                write!(f, "add to keyspace {keyspace} {level} run {run} (order {order}): {part}")
            }
            EditOp::RemovePart { keyspace, level, run, part, start } => {
                let start = start.escape_ascii();
                write!(f, "remove from keyspace {keyspace} {level} run {run}: part {part} at {start}")
            }
            EditOp::AddBlobFile { keyspace, file } => write!(f, "add to keyspace {keyspace} {file}"),
            EditOp::FlushedSeqno { keyspace, seqno } => {
                write!(f, "keyspace {keyspace} is flushed up to seqno {seqno}")
            }
            EditOp::Cursor { keyspace, level, key } => {
                write!(f, "cursor of keyspace {keyspace} {level} at {}", key.escape_ascii())
            }
            EditOp::MinLogId(log) => write!(f, "logs from {log} on are needed"),
            EditOp::NextFile(file) => write!(f, "next file {file}"),
            EditOp::LastSeqno(seqno) => write!(f, "last seqno {seqno}"),
            EditOp::NextKeyspace(id) => write!(f, "next keyspace {id}"),
            EditOp::NextPart(id) => write!(f, "next part {id}"),
            EditOp::DurablePosition(log, offset) => write!(f, "log {log} is durable before byte {offset}"),
            EditOp::TimeFloor(ms) => write!(f, "time floor {ms} ms"),
            EditOp::Consumer { name, seqno } => {
                write!(f, "consumer {name:?} has the changes up to seqno {seqno}")
            }
            EditOp::DropConsumer { name } => write!(f, "drop consumer {name:?}"),
            EditOp::LogLife(LogLife { last_log_id, last_seqno }) => {
                write!(f, "an earlier life of the log ends in {last_log_id} at seqno {last_seqno}")
            }
            EditOp::Counter { number, value } => write!(f, "counter {number} is {value}"),
            EditOp::Figures { keyspace, figures } => write!(f, "figures of keyspace {keyspace}: {figures}"),
        }
    }
}
