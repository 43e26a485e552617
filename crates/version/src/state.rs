//! Database state: the metadata that results from all edits of a manifest.

use crate::edit::{EditOp, LogLife, VersionEdit};
use crate::figures::KeyspaceFigures;
use crate::keyspaces::{KeyspaceState, Keyspaces};
use crate::part::PartMeta;
use crate::version::Place;
use esker_base::limits::MAX_KEYSPACE_NAME_LEN;
use esker_base::{Error, FileNumber, KeyspaceId, LogId, PartId, RunId, SeqNo};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

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

/// An edit that does not fit the state it was applied to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditError(pub String);

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<EditError> for Error {
    /// An edit of this process that does not fit is a bug; the manifest's reader reports damage instead.
    fn from(error: EditError) -> Error {
        Error::internal(format!("an edit does not fit the tree: {error}"))
    }
}

/// Effects of an edit beyond the state itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Files that lost their last part: to be deleted once the edit is durable and no reader has them (IN3).
    pub obsolete_files: Vec<FileNumber>,
    /// Blob files that no part points to any more: to be deleted likewise.
    pub obsolete_blobs: Vec<FileNumber>,
    /// Keyspaces whose version changed, without the dropped ones.
    pub changed: Vec<KeyspaceId>,
    /// Dropped keyspaces.
    pub dropped: Vec<KeyspaceId>,
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

    /// Files of parts, blob files included, with length and number of parts. O(parts).
    pub fn live_files(&self) -> BTreeMap<FileNumber, LiveFile> {
        let mut files = BTreeMap::new();
        for keyspace in self.keyspaces.values() {
            for (_, _, part) in keyspace.version.parts() {
                let file = files.entry(part.file).or_insert(LiveFile {
                    kind: FileKind::Table,
                    keyspace: keyspace.id,
                    bytes: part.file_bytes,
                    table_uid: part.table_uid,
                    global_seqno: part.global_seqno,
                    parts: 0,
                });
                file.parts += 1;
            }
            for blob in keyspace.version.blob_files().iter() {
                let file = LiveFile {
                    kind: FileKind::Blob,
                    global_seqno: None,
                    keyspace: keyspace.id,
                    bytes: blob.meta.file_bytes,
                    table_uid: blob.meta.uid,
                    parts: u32::try_from(blob.parts).unwrap_or(u32::MAX),
                };
                files.insert(blob.meta.number, file);
            }
        }
        files
    }

    /// Applies an edit.
    ///
    /// # Errors
    /// If the edit violates an invariant (IN5: a removed part is missing, a run would not be disjoint) or
    /// names a keyspace that does not exist. The state is then half changed and must be discarded;
    /// [`DatabaseState::prepare`] leaves it as it was.
    pub fn apply(&mut self, edit: &VersionEdit) -> Result<Applied, EditError> {
        let mut applied = AppliedBuilder::default();
        for (at, op) in edit.ops.iter().enumerate() {
            match op {
                EditOp::Snapshot if at == 0 => {
                    *self = DatabaseState { uuid: self.uuid, ..DatabaseState::default() };
                }
                EditOp::Snapshot => return Err(EditError("a snapshot in the middle of an edit".into())),
                _ => self.apply_keyspace_op(op, &mut applied)?,
            }
        }
        // Removals precede additions: moved and replacing parts would overlap themselves otherwise.
        for op in &edit.ops {
            if let EditOp::RemovePart { keyspace, level, run, part, start } = op {
                let version = Arc::make_mut(&mut self.living(*keyspace)?.version);
                let Some(removed) = version.remove(*level, *run, *part, start) else {
                    return Err(EditError(format!("the part to remove is not there: {op}")));
                };
                applied.changed.insert(*keyspace);
                *applied.removed_files.entry(removed.file).or_default() |= removed.sliced;
            }
        }
        for op in &edit.ops {
            if let EditOp::AddPart { keyspace, place, part } = op {
                self.add_part(*keyspace, *place, part, &mut applied)?;
            }
        }
        self.check_seqnos(edit)?;
        Ok(self.finish(applied))
    }

    fn living(&mut self, id: KeyspaceId) -> Result<&mut KeyspaceState, EditError> {
        self.keyspaces.get_mut(id).ok_or_else(|| EditError(format!("there is no keyspace {id}")))
    }

    fn check_name(&self, name: &str) -> Result<(), EditError> {
        if name.is_empty() || name.len() > MAX_KEYSPACE_NAME_LEN {
            let len = name.len();
            return Err(EditError(format!(
                "a keyspace name of {len} bytes, 1 to {MAX_KEYSPACE_NAME_LEN} allowed"
            )));
        }
        match self.keyspace_named(name) {
            Some(other) => Err(EditError(format!("the name {name:?} belongs to keyspace {}", other.id))),
            None => Ok(()),
        }
    }

    /// Applies everything that is not about parts.
    fn apply_keyspace_op(&mut self, op: &EditOp, applied: &mut AppliedBuilder) -> Result<(), EditError> {
        match op {
            EditOp::CreateKeyspace { id, name, options } => {
                self.create_keyspace(*id, name, options)?;
                applied.changed.insert(*id);
            }
            EditOp::DropKeyspace { id } => {
                self.living(*id)?;
                if let Some(keyspace) = self.keyspaces.remove(*id) {
                    let files = keyspace.version.parts().map(|(_, _, part)| (part.file, false));
                    applied.removed_files.extend(files);
                    applied
                        .removed_blobs
                        .extend(keyspace.version.blob_files().iter().map(|blob| blob.meta.number));
                    applied.dropped.push(*id);
                }
            }
            EditOp::RenameKeyspace { id, name } => self.rename_keyspace(*id, name)?,
            EditOp::SetKeyspaceOptions { id, options } => self.living(*id)?.options = options.clone(),
            EditOp::FlushedSeqno { keyspace, seqno } => {
                let keyspace = self.living(*keyspace)?;
                if *seqno < keyspace.flushed_seqno {
                    let (id, before) = (keyspace.id, keyspace.flushed_seqno);
                    return Err(EditError(format!(
                        "keyspace {id} was flushed up to {before}, which is beyond {seqno}"
                    )));
                }
                keyspace.flushed_seqno = *seqno;
            }
            EditOp::AddBlobFile { keyspace, file } => {
                let version = Arc::make_mut(&mut self.living(*keyspace)?.version);
                if !version.add_blob_file(*file) {
                    return Err(EditError(format!("there is a blob file {} already", file.number)));
                }
                self.next_file = self.next_file.max(FileNumber(file.number.get().saturating_add(1)));
                applied.changed.insert(*keyspace);
            }
            EditOp::Cursor { keyspace, level, key } => {
                self.living(*keyspace)?.cursors.insert(*level, key.clone());
            }
            EditOp::MinLogId(log) if *log < self.min_log_id => {
                let before = self.min_log_id;
                return Err(EditError(format!("logs before {before} were released, {log} cannot be needed")));
            }
            EditOp::MinLogId(log) => self.min_log_id = *log,
            EditOp::NextFile(number) => self.next_file = self.next_file.max(*number),
            EditOp::LastSeqno(seqno) => self.last_seqno = self.last_seqno.max(*seqno),
            EditOp::NextKeyspace(id) => self.next_keyspace = self.next_keyspace.max(*id),
            EditOp::NextPart(id) => self.next_part = self.next_part.max(*id),
            EditOp::DurablePosition(log, offset) => {
                self.durable_position = self.durable_position.max(Some((*log, *offset)));
            }
            EditOp::TimeFloor(ms) => self.time_floor_ms = self.time_floor_ms.max(*ms),
            EditOp::Counter { number, value } => {
                self.counters.insert(*number, *value);
            }
            EditOp::Figures { keyspace, figures } => self.set_figures(*keyspace, figures),
            EditOp::Consumer { name, seqno } => self.move_consumer(name, *seqno)?,
            EditOp::DropConsumer { name } => {
                if self.consumers.remove(name).is_none() {
                    return Err(EditError(format!("there is no consumer {name:?} to drop")));
                }
            }
            EditOp::LogLife(life) => self.add_log_life(*life)?,
            EditOp::Snapshot | EditOp::AddPart { .. } | EditOp::RemovePart { .. } => {}
        }
        Ok(())
    }

    /// Sets the figures of a keyspace; the same edit may have dropped it.
    fn set_figures(&mut self, keyspace: KeyspaceId, figures: &Arc<KeyspaceFigures>) {
        if let Some(keyspace) = self.keyspaces.get_mut(keyspace) {
            keyspace.figures = Some(Arc::clone(figures));
        }
    }

    fn rename_keyspace(&mut self, id: KeyspaceId, name: &Arc<str>) -> Result<(), EditError> {
        self.check_name(name)?;
        let renamed = KeyspaceState { name: name.clone(), ..self.living(id)?.clone() };
        self.keyspaces.remove(id);
        self.keyspaces.insert(renamed);
        Ok(())
    }

    fn move_consumer(&mut self, name: &Arc<str>, seqno: SeqNo) -> Result<(), EditError> {
        if name.is_empty() || name.len() > MAX_KEYSPACE_NAME_LEN {
            let len = name.len();
            return Err(EditError(format!(
                "a consumer's name of {len} bytes, 1 to {MAX_KEYSPACE_NAME_LEN} allowed"
            )));
        }
        let position = self.consumers.entry(name.clone()).or_insert(seqno);
        if seqno < *position {
            return Err(EditError(format!("consumer {name:?} had {position} and cannot go back to {seqno}")));
        }
        *position = seqno;
        Ok(())
    }

    fn add_log_life(&mut self, life: LogLife) -> Result<(), EditError> {
        if let Some(before) = self.log_lives.last()
            && (before.last_log_id >= life.last_log_id || before.last_seqno > life.last_seqno)
        {
            let LogLife { last_log_id, last_seqno } = life;
            return Err(EditError(format!(
                "a life of the log that ends in {last_log_id} at {last_seqno}, after one that ends in {} at {}",
                before.last_log_id, before.last_seqno
            )));
        }
        self.log_lives.push(life);
        Ok(())
    }

    fn create_keyspace(
        &mut self,
        id: KeyspaceId,
        name: &Arc<str>,
        options: &Arc<[u8]>,
    ) -> Result<(), EditError> {
        self.check_name(name)?;
        if id < self.next_keyspace || id.get() == u32::MAX {
            let next = self.next_keyspace;
            return Err(EditError(format!("keyspace id {id} was used before, ids from {next} on are free")));
        }
        self.next_keyspace = id.next();
        let keyspace = KeyspaceState {
            id,
            name: name.clone(),
            options: options.clone(),
            version: Arc::default(),
            flushed_seqno: SeqNo::ZERO,
            cursors: BTreeMap::new(),
            figures: None,
        };
        self.keyspaces.insert(keyspace);
        Ok(())
    }

    fn add_part(
        &mut self,
        keyspace: KeyspaceId,
        place: Place,
        part: &Arc<PartMeta>,
        applied: &mut AppliedBuilder,
    ) -> Result<(), EditError> {
        if let Some(problem) = crate::check::part_problem(part) {
            return Err(EditError(problem));
        }
        let version = Arc::make_mut(&mut self.living(keyspace)?.version);
        version.insert(place, part.clone()).map_err(|error| EditError(error.to_string()))?;
        let above = part.id.max(PartId(place.run.get())).get().saturating_add(1);
        self.next_part = self.next_part.max(PartId(above));
        self.next_file = self.next_file.max(FileNumber(part.file.get().saturating_add(1)));
        // The part moved, or a slice of the file stays.
        applied.removed_files.remove(&part.file);
        applied.changed.insert(keyspace);
        Ok(())
    }

    /// No part may be newer than the last sequence number.
    fn check_seqnos(&self, edit: &VersionEdit) -> Result<(), EditError> {
        for op in &edit.ops {
            if let EditOp::AddPart { part, .. } = op
                && part.max_seqno > self.last_seqno
            {
                return Err(EditError(format!("{part} is newer than the last seqno, {}", self.last_seqno)));
            }
        }
        Ok(())
    }

    fn finish(&mut self, applied: AppliedBuilder) -> Applied {
        let AppliedBuilder { mut removed_files, mut removed_blobs, mut changed, dropped } = applied;
        for id in &changed {
            if let Some(keyspace) = self.keyspaces.get_mut(*id)
                && keyspace.version.blob_files().iter().any(|blob| blob.parts == 0)
            {
                removed_blobs.extend(Arc::make_mut(&mut keyspace.version).take_unreferenced_blobs());
            }
        }
        if removed_files.values().any(|&sliced| sliced) {
            // Another slice of the file may remain, in the same keyspace: only changed ones are checked.
            for keyspace in changed.iter().filter_map(|id| self.keyspaces.get(id)) {
                for (_, _, part) in keyspace.version.parts() {
                    removed_files.remove(&part.file);
                }
            }
        }
        changed.retain(|id| self.keyspaces.contains_key(id));
        Applied {
            obsolete_files: removed_files.into_keys().collect(),
            obsolete_blobs: removed_blobs,
            changed: changed.into_iter().collect(),
            dropped,
        }
    }

    /// The edit that makes this state out of nothing: the first record of a new manifest.
    pub fn to_snapshot_edit(&self) -> VersionEdit {
        let mut edit = VersionEdit::new();
        edit.push(EditOp::Snapshot)
            .push(EditOp::MinLogId(self.min_log_id))
            .push(EditOp::NextFile(self.next_file))
            .push(EditOp::LastSeqno(self.last_seqno))
            .push(EditOp::NextPart(self.next_part))
            .push(EditOp::TimeFloor(self.time_floor_ms));
        if let Some((log, offset)) = self.durable_position {
            edit.push(EditOp::DurablePosition(log, offset));
        }
        for (&number, &value) in &self.counters {
            edit.push(EditOp::Counter { number, value });
        }
        for (name, &seqno) in &self.consumers {
            edit.push(EditOp::Consumer { name: name.clone(), seqno });
        }
        edit.ops.extend(self.log_lives.iter().map(|&life| EditOp::LogLife(life)));
        for keyspace in self.keyspaces.values() {
            let KeyspaceState { id, name, options, flushed_seqno: seqno, .. } = keyspace;
            let (name, options) = (name.clone(), options.clone());
            edit.push(EditOp::CreateKeyspace { id: *id, name, options })
                .push(EditOp::FlushedSeqno { keyspace: *id, seqno: *seqno });
            for (&level, key) in &keyspace.cursors {
                edit.push(EditOp::Cursor { keyspace: *id, level, key: key.clone() });
            }
            if let Some(figures) = &keyspace.figures {
                edit.push(EditOp::Figures { keyspace: *id, figures: Arc::clone(figures) });
            }
            for blob in keyspace.version.blob_files().iter() {
                edit.add_blob_file(*id, blob.meta);
            }
            for (level, run, part) in keyspace.version.parts() {
                let place = Place { level, run: run.id, order: run.order };
                edit.add_part(*id, place, part.clone());
            }
        }
        // Last, because a keyspace is created with an id that is not below it.
        edit.push(EditOp::NextKeyspace(self.next_keyspace));
        edit
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

/// The content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// Entries: a table file.
    Table,
    /// Large values: a blob file.
    Blob,
}

/// A file that parts refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveFile {
    /// What it holds.
    pub kind: FileKind,
    /// The keyspace of its parts.
    pub keyspace: KeyspaceId,
    /// Its length in bytes.
    pub bytes: u64,
    /// Its identity.
    pub table_uid: esker_base::TableUid,
    /// The sequence number it was ingested with, if it was.
    pub global_seqno: Option<SeqNo>,
    /// Number of parts that refer to it.
    pub parts: u32,
}

#[derive(Debug, Default)]
struct AppliedBuilder {
    /// Files that lost a part, and whether that part was a slice.
    removed_files: BTreeMap<FileNumber, bool>,
    /// Blob files that nothing points to.
    removed_blobs: Vec<FileNumber>,
    changed: BTreeSet<KeyspaceId>,
    dropped: Vec<KeyspaceId>,
}

#[cfg(test)]
mod tests;
