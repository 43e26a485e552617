//! Prepared edits: an edit checked against a state before it is durable, and applied to it afterwards.
//!
//! Under the manifest's lock an edit is prepared, appended to the manifest, and then committed. So an edit
//! that violates an invariant never reaches the disk (IN5), and memory is never ahead of the manifest (IN2).
//! Preparing copies the keyspaces that the edit names and nothing else: its cost does not depend on how many
//! others there are.

use crate::edit::{EditOp, VersionEdit};
use crate::keyspaces::Keyspaces;
use crate::state::{Applied, DatabaseState, EditError};
use esker_base::KeyspaceId;
use std::collections::BTreeSet;

/// An edit that fits a [`DatabaseState`], with its result.
#[derive(Debug)]
pub struct PreparedEdit {
    /// The keyspaces that the edit names, and those whose names it gives to others.
    named: BTreeSet<KeyspaceId>,
    /// The state after the edit, with these keyspaces only.
    next: DatabaseState,
    /// Effects beyond the state.
    pub applied: Applied,
}

impl DatabaseState {
    /// Checks an edit and computes its result; the state stays as it is until [`DatabaseState::commit`].
    /// O(the edit, and the parts of the keyspaces that it names).
    ///
    /// # Errors
    /// As [`DatabaseState::apply`]; and for a snapshot, which begins a manifest and is never appended.
    pub fn prepare(&self, edit: &VersionEdit) -> Result<PreparedEdit, EditError> {
        if edit.ops.iter().any(|op| matches!(op, EditOp::Snapshot)) {
            return Err(EditError("a snapshot begins a manifest and cannot be appended to one".into()));
        }
        let named = self.named_by(edit);
        let mut keyspaces = Keyspaces::default();
        named.iter().filter_map(|id| self.keyspaces.get(id)).for_each(|of| keyspaces.insert(of.clone()));
        let mut next = DatabaseState {
            uuid: self.uuid,
            keyspaces,
            min_log_id: self.min_log_id,
            next_file: self.next_file,
            last_seqno: self.last_seqno,
            next_keyspace: self.next_keyspace,
            next_part: self.next_part,
            durable_position: self.durable_position,
            time_floor_ms: self.time_floor_ms,
            counters: self.counters.clone(),
            consumers: self.consumers.clone(),
            log_lives: self.log_lives.clone(),
        };
        let applied = next.apply(edit)?;
        Ok(PreparedEdit { named, next, applied })
    }

    /// Makes a prepared edit part of the state. No other edit was committed since it was prepared.
    pub fn commit(&mut self, prepared: PreparedEdit) -> Applied {
        let PreparedEdit { named, mut next, applied } = prepared;
        let mut keyspaces = std::mem::take(&mut self.keyspaces);
        // All are removed first: one may have the name that another had.
        named.iter().for_each(|id| drop(keyspaces.remove(*id)));
        named.iter().filter_map(|id| next.keyspaces.remove(*id)).for_each(|of| keyspaces.insert(of));
        *self = DatabaseState { keyspaces, ..next };
        applied
    }

    fn named_by(&self, edit: &VersionEdit) -> BTreeSet<KeyspaceId> {
        let mut named = BTreeSet::new();
        for op in &edit.ops {
            match op {
                EditOp::CreateKeyspace { id, name, .. } | EditOp::RenameKeyspace { id, name } => {
                    named.insert(*id);
                    named.extend(self.keyspace_named(name).map(|owner| owner.id));
                }
                EditOp::DropKeyspace { id } | EditOp::SetKeyspaceOptions { id, .. } => {
                    named.insert(*id);
                }
                EditOp::FlushedSeqno { keyspace, .. }
                | EditOp::AddBlobFile { keyspace, .. }
                | EditOp::Cursor { keyspace, .. }
                | EditOp::Figures { keyspace, .. }
                | EditOp::AddPart { keyspace, .. }
                | EditOp::RemovePart { keyspace, .. } => {
                    named.insert(*keyspace);
                }
                EditOp::Snapshot
                | EditOp::MinLogId(_)
                | EditOp::NextFile(_)
                | EditOp::LastSeqno(_)
                | EditOp::NextKeyspace(_)
                | EditOp::NextPart(_)
                | EditOp::DurablePosition(..)
                | EditOp::TimeFloor(_)
                | EditOp::Counter { .. }
                | EditOp::Consumer { .. }
                | EditOp::DropConsumer { .. }
                | EditOp::LogLife(_) => {}
            }
        }
        named
    }
}
