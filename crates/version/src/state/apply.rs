//! Application of an edit to the state.

use super::DatabaseState;
use crate::edit::{EditOp, LogLife, VersionEdit};
use crate::figures::KeyspaceFigures;
use crate::keyspaces::KeyspaceState;
use crate::part::PartMeta;
use crate::version::Place;
use esker_base::limits::MAX_KEYSPACE_NAME_LEN;
use esker_base::{Error, FileNumber, KeyspaceId, PartId, SeqNo};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

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

/// [`Applied`] while the operations of the edit are applied.
#[derive(Debug, Default)]
struct AppliedBuilder {
    /// Files that lost a part, and whether that part was a slice.
    removed_files: BTreeMap<FileNumber, bool>,
    /// Blob files that nothing points to.
    removed_blobs: Vec<FileNumber>,
    changed: BTreeSet<KeyspaceId>,
    dropped: Vec<KeyspaceId>,
}

impl DatabaseState {
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

    /// Finds what became obsolete.
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
}
