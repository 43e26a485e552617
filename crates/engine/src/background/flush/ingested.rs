//! Ingested tables: placed in the tree as deep as they overlap nothing.

use super::{FlushShare, order_behind_others};
use crate::background::install;
use crate::state::keyspace::KeyspaceState;
use crate::state::store::{Store, Writing};
use esker_base::Result;
use esker_build::table_factory::TableFactory;
use esker_options::{FileReason, KeyspaceOptions};
use esker_strategy::{Busy, Position};
use esker_version::{EditOp, PartMeta, Place, Version, VersionEdit};
use esker_view::MemtableView;
use esker_view::tree::TreeRun;
use std::sync::Arc;

/// Installs ingested tables: their "flush" is an edit alone. All older data is in the tree by now, so
/// each table may go as deep as it overlaps nothing.
pub(super) fn install_ingested(
    store: &Store,
    writing: &Writing,
    keyspace: &Arc<KeyspaceState>,
    group: &[Arc<MemtableView>],
    run: &TreeRun,
) -> Result<()> {
    let share = FlushShare { keyspace, memtables: group };
    let seqno = share.sealed_at();
    order_behind_others(store, writing, &[share.of_install()])?;
    let mut placed = Vec::with_capacity(run.parts.len());
    install::install(store, keyspace, group, FileReason::Ingest, |version, busy| {
        let mut edit = VersionEdit::new();
        let parts = run.parts.iter().map(|part| Arc::clone(&part.meta));
        place_ingested(&keyspace.options(), version, busy, &writing.tables, parts, |place, part| {
            placed.push((place.level, part.bytes));
            edit.add_part(keyspace.id, place, part);
        });
        edit.push(EditOp::FlushedSeqno { keyspace: keyspace.id, seqno });
        edit
    })?;
    let raw_bytes = run.parts.iter().map(|part| part.meta.raw_bytes).sum();
    keyspace.jobs.traffic.note_ingest(raw_bytes, placed.into_iter());
    Ok(())
}

/// Chooses a position for each of some ingested parts, which share no key: the deepest possible.
pub(super) fn place_ingested(
    options: &KeyspaceOptions,
    version: &Version,
    busy: &Busy,
    factory: &TableFactory,
    parts: impl Iterator<Item = Arc<PartMeta>>,
    mut add: impl FnMut(Place, Arc<PartMeta>),
) {
    // Only the front of level 0 and that of the last level begin new runs, whatever the number of parts.
    let mut chosen: Vec<(Position, Place)> = Vec::new();
    for part in parts {
        let to = options.strategy.flush_placement(version, &part.range, busy);
        let place = chosen.iter().find(|(position, _)| *position == to).map(|(_, place)| *place);
        let place = place.unwrap_or_else(|| {
            let place = to.place(version, factory.take_run_id());
            chosen.push((to, place));
            place
        });
        add(place, part);
    }
}
