//! Database state: the metadata that results from all edits of a manifest.

use crate::edit::LogLife;
use crate::keyspaces::{KeyspaceState, Keyspaces};
use esker_base::{FileNumber, KeyspaceId, LogId, PartId, RunId, SeqNo};
use std::collections::BTreeMap;
use std::sync::Arc;

mod apply;
mod live_files;
mod snapshot_edit;

pub use apply::{Applied, EditError};
pub use live_files::{FileKind, LiveFile};

/// Random identity of a database, in each of its files.
pub type DatabaseUuid = [u8; 16];

/// The database's metadata. Edits of an open database are prepared, appended to the manifest, and then
/// committed ([`crate::prepared`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatabaseState {
    /// Identity of the database.
    pub uuid: DatabaseUuid,
    /// Existing keyspaces.
    pub keyspaces: Keyspaces,
    /// Log segments with smaller ids are not needed.
    pub min_log_id: LogId,
    /// Above the number of every file.
    pub next_file: FileNumber,
    /// No part holds a newer sequence number.
    pub last_seqno: SeqNo,
    /// Above every keyspace id that ever existed: an unknown id below it was dropped.
    pub next_keyspace: KeyspaceId,
    /// Above the id of every part and every run.
    pub next_part: PartId,
    /// The log before this segment and offset is known to be durable.
    pub durable_position: Option<(LogId, u64)>,
    /// The latest time that was returned, in milliseconds since 1970.
    pub time_floor_ms: u64,
    /// Lifetime totals, numbered by the engine.
    pub counters: BTreeMap<u32, u64>,
    /// Consumers of changes, and the sequence number up to which each has them.
    pub consumers: BTreeMap<Arc<str>, SeqNo>,
    /// Earlier opens of which log segments are kept for consumers, oldest first.
    pub log_lives: Vec<LogLife>,
}

impl DatabaseState {
    /// The state of a new database: no keyspace yet, all counters at one.
    pub fn new(uuid: DatabaseUuid) -> DatabaseState {
        DatabaseState {
            uuid,
            min_log_id: LogId(1),
            next_file: FileNumber(1),
            next_part: PartId(1),
            ..DatabaseState::default()
        }
    }

    /// A keyspace by id.
    pub fn keyspace(&self, id: KeyspaceId) -> Option<&KeyspaceState> {
        self.keyspaces.get(&id)
    }

    /// A keyspace by name.
    pub fn keyspace_named(&self, name: &str) -> Option<&KeyspaceState> {
        self.keyspaces.named(name)
    }

    /// Takes the next part id.
    pub fn take_part_id(&mut self) -> PartId {
        let id = self.next_part;
        self.next_part = id.next();
        id
    }

    /// Takes the next run id; runs are numbered by the counter of the parts.
    pub fn take_run_id(&mut self) -> RunId {
        RunId(self.take_part_id().get())
    }

    /// Takes the next file number.
    pub fn take_file_number(&mut self) -> FileNumber {
        let number = self.next_file;
        self.next_file = number.next();
        number
    }

    /// Contradictions in the state, as sentences; empty if there are none. O(parts log parts).
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut owners: BTreeMap<FileNumber, KeyspaceId> = BTreeMap::new();
        for keyspace in self.keyspaces.values() {
            let name = &keyspace.name;
            problems.extend(keyspace.version.problems().into_iter().map(|p| format!("{name:?}: {p}")));
            if keyspace.id >= self.next_keyspace {
                problems.push(format!("{name:?}: its id is not below {}", self.next_keyspace));
            }
            for (_, run, part) in keyspace.version.parts() {
                if part.id >= self.next_part || run.id.get() >= self.next_part.get() {
                    problems.push(format!("{name:?}: {part} is not below id {}", self.next_part));
                }
                if part.file >= self.next_file {
                    problems.push(format!("{name:?}: {part} is not below file {}", self.next_file));
                }
                if part.max_seqno > self.last_seqno {
                    problems.push(format!("{name:?}: {part} is newer than {}", self.last_seqno));
                }
                if *owners.entry(part.file).or_insert(keyspace.id) != keyspace.id {
                    problems.push(format!("{name:?}: file {} belongs to another keyspace", part.file));
                }
            }
        }
        problems
    }
}

#[cfg(test)]
mod tests;
