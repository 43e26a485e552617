//! Flush: writes the sealed memtables of a keyspace to tables.
//!
//! [`crate::background::flush_group`] chooses what is flushed together; this file does it. One flush of a
//! keyspace at a time, of all memtables that are sealed when it starts, merged: versions that no reader can
//! see are dropped, so overwrites within memtables never reach a compaction; on several threads if so many
//! are allowed ([`crate::background::flush_pieces`]). Ingested tables are queued among the sealed memtables,
//! in the order of writes, and divide them into groups, which are installed oldest first (IN4).
//!
//! The steps of protocol 4.1: F0 take the memtables (all of them are behind `visible`, CP6: the seal happened
//! under the commit lock, and so did every write before it), sample the boundaries. F1 write and sync the
//! tables. F2 sync their directory. F3 sync the log if another keyspace depends on it (WL6). F4 to F6
//! install. Tables of several keyspaces take each step together.

use crate::background::install;
use crate::state::keyspace::KeyspaceState;
use crate::state::store::{Store, Writing};
use esker_base::planted;
use esker_base::{Result, SeqNo};
use esker_build::pending_outputs::Outputs;
use esker_build::table_factory::TableFactory;
use esker_build::warmed_outputs::{open_outputs, remove_leftovers};
use esker_env::{DeferredSyncs, FileSystem};
use esker_options::{Event, FileReason, FlushJob, JobOutput};
use esker_version::{EditOp, KeyRange, VersionEdit};
use esker_view::{MemtableView, paths};
use ingested::install_ingested;
use merge_memtables::{hull_of, write_memtables};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

mod ingested;
mod merge_memtables;
mod sealed;
mod unpublished;

pub(super) use sealed::oldest_group;
pub use sealed::seal_if_filled;
pub use unpublished::add_sealed;
pub(crate) use unpublished::{add_flushed, add_ingested};

/// Writes all sealed memtables of a keyspace to tables; nothing if it is dropped.
pub fn flush_sealed(store: &Store, keyspace: &Arc<KeyspaceState>) -> Result<()> {
    match try_flush_sealed(store, keyspace) {
        Err(_) if keyspace.is_dropped() => Ok(()),
        flushed => flushed,
    }
}

fn try_flush_sealed(store: &Store, keyspace: &Arc<KeyspaceState>) -> Result<()> {
    let writing = store.writing()?;
    let _one_at_a_time = keyspace.jobs.flushing.lock();
    // Not the view: it would keep files that compactions replace meanwhile from being deleted.
    let sealed = keyspace.view.load().sealed.clone();
    let mut left = &sealed[..];
    while let Some((newer, group)) = oldest_group(left) {
        match &group[0].ingested {
            Some(run) => install_ingested(store, writing, keyspace, group, run)?,
            None => flush_memtables(store, writing, &[FlushShare { keyspace, memtables: group }])?,
        }
        left = newer;
    }
    Ok(())
}

/// What a flush takes from one keyspace: some sealed memtables, the oldest there are, given newest first.
pub(super) struct FlushShare<'a> {
    pub(super) keyspace: &'a Arc<KeyspaceState>,
    pub(super) memtables: &'a [Arc<MemtableView>],
}

impl FlushShare<'_> {
    /// The last sequence number before the newest of the memtables was sealed.
    fn sealed_at(&self) -> SeqNo {
        self.memtables.first().and_then(|newest| newest.seal_seqno()).unwrap_or(SeqNo::ZERO)
    }

    fn of_install(&self) -> install::InstallShare<'_> {
        install::InstallShare { keyspace: self.keyspace, flushed: self.memtables }
    }
}

/// A share's tables that are written and not installed; deleted when dropped.
struct WrittenShare<'a> {
    hull: Option<KeyRange>,
    tables: Outputs<'a>,
}

/// Flushes memtables of some keyspaces, given by id, together: the tables become durable by one sync of all,
/// and one edit installs them. Reports the begin and the end of each keyspace's flush.
pub(super) fn flush_memtables(store: &Store, writing: &Writing, shares: &[FlushShare<'_>]) -> Result<()> {
    let deferred = match shares {
        [_] => None,
        _ => Some(Arc::new(DeferredSyncs::new(&store.env.fs, &paths::tables(&store.dir))?)),
    };
    let deferring = deferred
        .as_ref()
        .map(|syncs| writing.tables.writing_to(Arc::<DeferredSyncs>::clone(syncs) as Arc<dyn FileSystem>));
    let factory = deferring.as_ref().unwrap_or(&writing.tables);
    let mut begun = Vec::with_capacity(shares.len());
    let done = write_shares(store, factory, shares, &mut begun).and_then(|written| {
        deferred.as_ref().map_or(Ok(()), |syncs| syncs.sync())?;
        install_shares(store, writing, shares, written)
    });
    if done.is_err() {
        remove_leftovers(&store.files);
    }
    for (at, (job, began_ns)) in begun.into_iter().enumerate() {
        let duration = Duration::from_nanos(store.monotonic_ns().saturating_sub(began_ns));
        if done.is_ok() {
            store.counters.flush_times.lock().add(duration.as_nanos() as u64);
        }
        let result = done.as_ref().map(|outputs| outputs[at].clone()).map_err(Clone::clone);
        store.events.emit(|| Event::FlushEnded { job, result, duration });
    }
    done.map(drop)
}

/// F1 and F2 for each share. Notes in `begun` what was reported as begun.
fn write_shares<'f>(
    store: &Store,
    factory: &'f TableFactory,
    shares: &[FlushShare<'_>],
    begun: &mut Vec<(FlushJob, u64)>,
) -> Result<Vec<WrittenShare<'f>>> {
    let write = |share: &FlushShare<'_>| {
        let FlushShare { keyspace, memtables } = share;
        debug_assert!(store.visible.load(Ordering::Acquire) >= share.sealed_at().get(), "CP6");
        let payload_bytes = memtables.iter().map(|memtable| memtable.bytes()).sum();
        let job = FlushJob::new(keyspace.event_ref(), memtables.len(), payload_bytes);
        store.events.emit(|| Event::FlushBegun(job.clone()));
        let began_ns = store.monotonic_ns();
        begun.push((job, began_ns));
        let hull = hull_of(memtables);
        let tables = match &hull {
            Some(hull) => write_memtables(store, factory, keyspace, memtables, hull)?,
            None => Outputs::none(factory),
        };
        note_flush(store, keyspace, memtables, tables.bytes(), began_ns);
        Ok(WrittenShare { hull, tables })
    };
    shares.iter().map(write).collect()
}

/// F3 to F6 for all shares at once.
fn install_shares(
    store: &Store,
    writing: &Writing,
    shares: &[FlushShare<'_>],
    mut written: Vec<WrittenShare<'_>>,
) -> Result<Vec<JobOutput>> {
    let changes: Vec<_> = shares.iter().map(FlushShare::of_install).collect();
    order_behind_others(store, writing, &changes)?;
    let mut handed_over = Vec::with_capacity(shares.len());
    let mut outputs = Vec::with_capacity(shares.len());
    for (share, written) in shares.iter().zip(&mut written) {
        let uses_ratios = share.keyspace.options().strategy.uses_overwrite_ratios();
        handed_over.push(open_outputs(&store.files, share.keyspace.id, uses_ratios, &mut written.tables));
        outputs.push(written.tables.job_output());
    }
    let mut written: Vec<_> = written.into_iter().map(Some).collect();
    install::install_together(store, &changes, FileReason::Flush, |at, version, busy| {
        let keyspace = shares[at].keyspace;
        let new_run = writing.tables.take_run_id();
        let mut edit = VersionEdit::new();
        if let Some(WrittenShare { hull: Some(hull), tables }) = written[at].take() {
            // Chosen anew: a compaction may have invalidated the placement chosen at the beginning.
            let to = keyspace.options().strategy.flush_placement(version, &hull, busy);
            let place = to.place(version, new_run);
            keyspace.tuning.overwrite_ratios.lock().note(version, &tables.overwrite_ratios);
            tables.add_to(&mut edit, keyspace.id, place).claim();
        }
        edit.push(EditOp::FlushedSeqno { keyspace: keyspace.id, seqno: shares[at].sealed_at() });
        edit
    })?;
    Ok(outputs)
}

/// Reports the rate of a flush to the write control.
fn note_flush(
    store: &Store,
    keyspace: &KeyspaceState,
    memtables: &[Arc<MemtableView>],
    table_bytes: u64,
    began_ns: u64,
) {
    let payload_bytes = memtables.iter().map(|memtable| memtable.bytes()).sum();
    let ended_ns = store.env.clock.monotonic_ns();
    keyspace.write_control.lock().note_flush(payload_bytes, table_bytes, began_ns, ended_ns);
}

/// F3: what is flushed must not become durable before older entries that stay in the log alone.
fn order_behind_others(
    store: &Store,
    writing: &Writing,
    changes: &[install::InstallShare<'_>],
) -> Result<()> {
    if planted!(TearsBatchOverKeyspaces) {
        return Ok(());
    }
    let memtables = || changes.iter().flat_map(|change| change.flushed);
    let Some(sealed_at) = memtables().filter_map(|memtable| memtable.seal_seqno()).max() else {
        return Ok(());
    };
    if install::must_sync_log_before(store, &install::FlushedMemtables::of(changes), sealed_at) {
        writing.sync_up_to(sealed_at)?;
        seal_laggard(store, memtables().filter_map(|memtable| memtable.first_seqno()).min())?;
    } else if store.consumers.are_there() {
        // HS6: data that survives in tables must survive in the history, too.
        writing.sync_up_to(sealed_at)?;
    }
    Ok(())
}

/// Seals the keyspace whose unflushed entries are the oldest, if they are older than all that is flushed. An
/// idle keyspace with a few entries would otherwise force every flush of a busy one to sync the log
/// first, which costs several times as much as flushing those few entries. One at a time: of a thousand
/// keyspaces with occasional writes, each flush takes one along.
fn seal_laggard(store: &Store, first_flushed: Option<SeqNo>) -> Result<()> {
    let Some(first_flushed) = first_flushed else { return Ok(()) };
    let keyspaces = store.all_keyspaces();
    let first_active = |keyspace: &Arc<KeyspaceState>| {
        let view = keyspace.view.load();
        view.active.first_seqno().filter(|first| view.sealed.is_empty() && *first < first_flushed)
    };
    let laggard = keyspaces.iter().filter_map(|keyspace| Some((first_active(keyspace)?, keyspace)));
    match laggard.min_by_key(|(first, _)| *first) {
        Some((_, laggard)) => seal_if_filled(store, laggard),
        None => Ok(()),
    }
}
