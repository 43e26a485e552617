//! Flush into an unpublished state: that of a database that is being opened or copied.

use super::ingested::place_ingested;
use super::merge_memtables::{flush_spec, hull_of, merge_memtables};
use super::sealed::oldest_group;
use crate::state::shape::planner_options;
use esker_base::{KeyspaceId, Result, SeqNo};
use esker_build::pending_outputs::UnclaimedFiles;
use esker_build::table_factory::TableFactory;
use esker_iter::Boundaries;
use esker_options::KeyspaceOptions;
use esker_strategy::Busy;
use esker_version::{DatabaseState, PartMeta, VersionEdit};
use esker_view::MemtableView;
use std::sync::Arc;

/// Adds sealed memtables and ingested tables, given newest first, to an unpublished state; see
/// [`add_flushed`].
pub fn add_sealed<'a>(
    factory: &'a TableFactory,
    state: &mut DatabaseState,
    id: KeyspaceId,
    options: &KeyspaceOptions,
    write_buffer_bytes: u64,
    sealed: &[Arc<MemtableView>],
) -> Result<UnclaimedFiles<'a>> {
    let mut files = UnclaimedFiles::new(factory);
    let mut left = sealed;
    while let Some((newer, group)) = oldest_group(left) {
        match &group[0].ingested {
            Some(run) => {
                let parts = run.parts.iter().map(|part| Arc::clone(&part.meta)).collect();
                add_ingested(factory, state, id, options, parts)?;
            }
            None => files.append(add_flushed(factory, state, id, options, write_buffer_bytes, group)?),
        }
        left = newer;
    }
    Ok(files)
}

/// Adds ingested tables, which share no key, to an unpublished state.
pub(crate) fn add_ingested(
    factory: &TableFactory,
    state: &mut DatabaseState,
    id: KeyspaceId,
    options: &KeyspaceOptions,
    parts: Vec<Arc<PartMeta>>,
) -> Result<()> {
    let version = state.keyspace(id).map_or_else(Arc::default, |keyspace| Arc::clone(&keyspace.version));
    let mut edit = VersionEdit::new();
    place_ingested(options, &version, &Busy::default(), factory, parts.into_iter(), |place, part| {
        edit.add_part(id, place, part);
    });
    state.apply(&edit)?;
    Ok(())
}

/// Writes sealed memtables of a keyspace, given newest first, to tables and adds those to an unpublished
/// state: that of a database being opened or copied. No snapshot is older than such a state, so only the
/// newest version of each key is kept. The state's last sequence number must cover the memtables.
///
/// The tables' files are deleted when the result is dropped, unless they are claimed.
pub(crate) fn add_flushed<'a>(
    factory: &'a TableFactory,
    state: &mut DatabaseState,
    id: KeyspaceId,
    options: &KeyspaceOptions,
    write_buffer_bytes: u64,
    memtables: &[Arc<MemtableView>],
) -> Result<UnclaimedFiles<'a>> {
    let Some(hull) = hull_of(memtables) else { return Ok(UnclaimedFiles::new(factory)) };
    let version = state.keyspace(id).map_or_else(Arc::default, |keyspace| Arc::clone(&keyspace.version));
    let to = options.strategy.flush_placement(&version, &hull, &Busy::default());
    let place = to.place(&version, factory.take_run_id());
    let strategy_options = planner_options(options, write_buffer_bytes);
    let mut spec = flush_spec(id, options, &version, to, memtables, &strategy_options, None);
    spec.retention.operand_merger =
        state.keyspace(id).and_then(|keyspace| options.operand_merger(&keyspace.name)).map(Arc::new);
    let boundaries = Boundaries::new([], SeqNo::MAX);
    let tables = merge_memtables(factory, &spec, &version, &hull, memtables, boundaries)?;
    let mut edit = VersionEdit::new();
    let files = tables.add_to(&mut edit, id, place);
    state.apply(&edit)?;
    Ok(files)
}
