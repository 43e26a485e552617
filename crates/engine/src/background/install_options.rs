//! Install of changed keyspace options: checked, durable, then in force.

use crate::background::install;
use crate::background::kept_tables::KeptTables;
use crate::background::targets;
use crate::background::targets::deadline;
use crate::state::commit_state::MemtableLimits;
use crate::state::keyspace::KeyspaceState;
use crate::state::scheduler::WorkerPool;
use crate::state::store::{Store, Writing};
use esker_base::Result;
use esker_options::KeyspaceOptions;
use esker_version::{EditOp, VersionEdit};
use std::sync::Arc;

/// Changes the options of a keyspace from `before` to those that `after` returns under the manifest's lock,
/// which are valid. Returns the tables that keep what was changed; `None` if the options are not `before` any
/// more.
pub fn change_options(
    store: &Store,
    keyspace: &KeyspaceState,
    before: &Arc<KeyspaceOptions>,
    after: impl FnOnce(&Writing) -> KeyspaceOptions,
) -> Result<Option<KeptTables>> {
    let _activity = store.activity.read_recursive();
    store.check_open()?;
    let writing = store.writing()?;
    let mut installed = writing.manifest.lock();
    keyspace.check_living()?;
    if !Arc::ptr_eq(before, &keyspace.options()) {
        return Ok(None);
    }
    let after = after(writing);
    if before.max_space_amp_permille != after.max_space_amp_permille {
        targets::check_feasible(store, keyspace, &after)?;
    }
    if before.delete_within != after.delete_within {
        deadline::check_deadline(store, keyspace, after.delete_within)?;
    }
    let mut edit = VersionEdit::new();
    edit.push(EditOp::SetKeyspaceOptions { id: keyspace.id, options: after.encode().into() });
    install::make_durable(store, writing, &mut installed, &edit)?;
    let kept = KeptTables::of(keyspace, before, &after);
    let limits = MemtableLimits::new(&after, &store.memory);
    store.files.set_reading(keyspace.id, after.table_reading());
    keyspace.definition.set_options(after);
    keyspace.note_tree();
    writing.commit.lock().active(keyspace.id)?.limits = limits;
    targets::settle_log_reuse(store);
    // There may be room now for waiting writers, and another strategy may have a plan.
    store.scheduler.request(WorkerPool::Compaction);
    store.scheduler.announce_progress();
    if !kept.is_empty() {
        tracing::info!(keyspace = %keyspace.name(), %kept, "options changed for new tables");
    }
    Ok(Some(kept))
}
