//! Targets of a keyspace: space amplification, and the time until deleted data is gone (delete persistence).
//!
//! # Space (`max_space_amp`)
//! Tables, the output of running jobs, replaced tables that readers still hold, and blob files stay below a
//! multiple of the live data. The planner merges early enough for it and in small jobs
//! ([`esker_strategy::SpaceBudget`]); close to the limit writers are slowed as by any other pressure
//! ([`crate::write::write_control`]). Live data is estimated from below, so a target is reported as missed
//! too early rather than too late.
//!
//! # Deletes (`delete_within`)
//! Deleted or expired data is in no file of the database after that time: not the tombstone, not the data it
//! hides, not the log (D_th in Lethe). Six places hold it, one after the other:
//! * DW1: the active memtable: it is sealed an eighth of the time after its first entry, whatever its size.
//! * DW2: log segments: after an eighth of the time the oldest is left, all memtables of any keyspace that
//!   need it are sealed, and it is deleted with the last of them; none is kept for reuse.
//! * DW3: tables above the last level: each records when the oldest delete in it was made; merges keep the
//!   oldest of their inputs; an eighth of the time before the deadline the column is merged into the last
//!   level, before anything else but an urgent level 0. Where a newer entry replaces a tombstone while older
//!   tables still hold the deleted data, the newer table represents the tombstone and records its time. Where
//!   a merge takes a slice of a table, the file stays, with the deleted data in it, as long as another slice
//!   does: so the other slices record the time as well, and are rewritten in place.
//! * DW4: tables of the last level with entries that expire: rewritten when the first of them is due.
//! * DW5: replaced tables, until their last reader is dropped: a snapshot, cursor or range that is older than
//!   the delete keeps it, and then the target is missed for that reason; `DeleteTarget` reports it.
//! * DW6: the manifest, which has the first and last keys of tables, also of deleted ones: a new one is begun
//!   a sixteenth of the time after the first edit of the present one.
//!
//! A target that cannot be met for deletes in all tables is refused, and reported when it becomes infeasible:
//! [`DeleteShortfall`].
//!
//! Backups, checkpoints, and log that is kept for readers of changes are copies made on request; no target
//! covers them. Deleted files are returned to the file system, which does not overwrite them. While the
//! database is closed nothing is dropped.

pub mod deadline;
pub mod log_age;

pub use deadline::DeleteShortfall;

use crate::state::keyspace::KeyspaceState;
use crate::state::shape;
use crate::state::store::Store;
use esker_base::{Error, Result};
use esker_options::KeyspaceOptions;
use esker_strategy::{SpaceBudget, base_bytes};

/// DW1 and DW2: the share of the time after which memtables are sealed and log segments left: one in so many.
const SEAL_DIVISOR: u64 = 8;

/// DW6: the share of the time after which the manifest is begun anew: one in so many.
const MANIFEST_DIVISOR: u64 = 16;

/// The share of the measured compaction rate that a target may use, in percent: flushes and bursts need the
/// rest.
const USABLE_PERCENT: f64 = 70.0;

/// DW2: no segment is kept for reuse as long as some keyspace has a delete-persistence target.
pub(crate) fn settle_log_reuse(store: &Store) {
    if let Some(writing) = &store.writing {
        let has_delete_target =
            store.all_keyspaces().iter().any(|keyspace| keyspace.options().delete_within.is_some());
        if let Err(error) = writing.log.set_recycling(!has_delete_target) {
            tracing::warn!(%error, "log segments that were kept for reuse could not be deleted");
        }
    }
}

/// Checks whether a space target can be met at the keyspace's measured write rate, if both are known.
///
/// # Errors
/// `InvalidArgument` with the numbers if not.
pub(crate) fn check_feasible(
    store: &Store,
    keyspace: &KeyspaceState,
    options: &KeyspaceOptions,
) -> Result<()> {
    if options.max_space_amp_permille.is_none() {
        return Ok(());
    }
    let base_bytes = base_bytes(&keyspace.view.load().tree.version);
    let (written, writes) = {
        let control = keyspace.write_control.lock();
        (control.capacity.arrival_bytes_per_second(), control.capacity.job_bytes_per_second())
    };
    let (Some(written), Some(one_job)) = (written, writes) else { return Ok(()) };
    let usable = one_job * store.compaction_threads as f64 * USABLE_PERCENT / 100.0;
    let cost = |permille: u64| {
        let with_target = KeyspaceOptions { max_space_amp_permille: Some(permille), ..options.clone() };
        SpaceBudget::new(&shape::strategy_options(store, &with_target), base_bytes)
            .map_or(0.0, |allowance| allowance.amplification())
    };
    let asked = options.max_space_amp_permille.unwrap_or_default();
    if written * cost(asked) <= usable {
        return Ok(());
    }
    let least = (asked..10_000).step_by(10).find(|&permille| written * cost(permille) <= usable);
    let least = least
        .map_or("no value below 10 can".to_owned(), |permille| format!("{} can", permille as f64 / 1000.0));
    Err(Error::invalid(format!(
        "max_space_amp = {} cannot be kept in keyspace {:?}: it is written to at {:.1} MB/s, so little garbage costs {:.1} \
         bytes of compaction for each, {:.0} MB/s in all, and compactions have written {:.0} MB/s, of which {USABLE_PERCENT:.0} % \
         may be used; {least} be kept at this rate",
        asked as f64 / 1000.0,
        keyspace.name(),
        written / 1e6,
        cost(asked),
        written * cost(asked) / 1e6,
        one_job * store.compaction_threads as f64 / 1e6,
    )))
}
