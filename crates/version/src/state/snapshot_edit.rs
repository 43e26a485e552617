//! Snapshot edit: the whole state as the first record of a new manifest.

use super::DatabaseState;
use crate::edit::{EditOp, VersionEdit};
use crate::keyspaces::KeyspaceState;
use crate::version::Place;
use std::sync::Arc;

impl DatabaseState {
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
}
