//! Subcompactions: one merge divided into key ranges that run in parallel.
//!
//! The keys of a merge are divided into ranges, and each range is merged like a job of its own: its inputs
//! are the plan's parts within the range, and it shares with the others the sampled boundaries, the tree and
//! the [`Job`](crate::state::jobs::Job). The outputs, in order of the ranges, are installed by one edit, so
//! readers never see a part of it.
//!
//! # Why the result is the same
//! All versions of a user key lie in one range, and the fate of an entry depends on its key's versions, on
//! range tombstones over the key, on the boundaries and on data outside of the plan's inputs, never on other
//! keys. Range tombstones are clipped to the range, like those of any sliced input. So subcompactions write
//! the same entries as one job; only the bounds of tables differ, because a table ends at each end of a
//! range.
//!
//! # How many
//! As many as the option says, or, by default, one more than there are idle compaction threads; but none
//! smaller than two tables, and only one for jobs of the lowest classes (JB5). A subcompaction takes buffers
//! of about 2 MiB. A merge that begins while the keyspace's writers are throttled by pending merges has as
//! many as there are processors, up to eight: the processors of blocked writers are idle, and each
//! subcompaction shortens the wait.
//!
//! # Where
//! At keys that divide the inputs' bytes evenly, found in the block indexes: starts of parts alone would not
//! divide four runs of one table each. This reads some keys of each index and no block.

use crate::state::keyspace::KeyspaceState;
use crate::state::store::Store;
use esker_base::Result;
use esker_env::host;
use esker_strategy::{Anchor, Class, CompactionPlan};
use esker_version::{Key, KeyRange};
use esker_view::tree::Access;

/// Keys sampled for each subcompaction in each input table; they determine how even the ranges are.
const ANCHORS_PER_SUBCOMPACTION: usize = 8;
/// The most keys sampled in one table.
const MAX_ANCHORS: usize = 128;
/// The most threads that merge because writers wait: their buffers are memory beyond the budget, 16 MiB.
const MOST_THREADS_FOR_WRITERS: usize = 8;
/// A subcompaction has at least this many tables' bytes of input.
const MIN_TABLES_PER_SUBCOMPACTION: u64 = 2;

/// The most subcompactions a merge may have.
fn most_subcompactions(store: &Store, keyspace: &KeyspaceState, plan: &CompactionPlan) -> usize {
    let worthwhile =
        plan.est_in_bytes / plan.cut.table_bytes.saturating_mul(MIN_TABLES_PER_SUBCOMPACTION).max(1);
    if plan.class <= Class::Clean || worthwhile < 2 {
        return 1;
    }
    let allowed = store.max_subcompactions.unwrap_or_else(|| {
        let of_lane = store.compaction_threads;
        let threads = match keyspace.write_control.waits_for_merges() {
            true => threads_for_writers(of_lane, host::processors()),
            false => of_lane,
        };
        // The job itself counts as merging.
        1 + threads.saturating_sub(store.jobs.merging())
    });
    allowed.min(usize::try_from(worthwhile).unwrap_or(usize::MAX)).max(1)
}

/// Threads that may merge at a time while writers wait for it: those of the pool, or as many as there are
/// processors.
fn threads_for_writers(of_lane: usize, processors: usize) -> usize {
    of_lane.max(processors.min(MOST_THREADS_FOR_WRITERS))
}

/// The key ranges of the subcompactions of a merge: consecutive ranges that cover its hull.
pub fn subcompaction_ranges(
    store: &Store,
    keyspace: &KeyspaceState,
    plan: &CompactionPlan,
) -> Result<Vec<KeyRange>> {
    let most = most_subcompactions(store, keyspace, plan);
    if most < 2 {
        return Ok(vec![plan.hull.clone()]);
    }
    let per_table =
        (ANCHORS_PER_SUBCOMPACTION * most).div_ceil(plan.parts().count().max(1)).clamp(2, MAX_ANCHORS);
    let mut anchors = Vec::new();
    for (_, input) in plan.parts() {
        let file = store.files.file_of(keyspace.id, &input.part);
        for (key, bytes) in file.table(Access::Once)?.anchors(per_table)? {
            let key: Key = key.into();
            if input.range().contains(&key) {
                anchors.push(Anchor { key, bytes });
            }
        }
    }
    Ok(plan.split(most, anchors))
}

#[cfg(test)]
mod tests {
    use super::threads_for_writers;

    #[test]
    fn as_many_threads_as_processors_eight_at_most_or_as_configured() {
        let threads = [(1, 1), (1, 2), (1, 64), (4, 2), (16, 64)];
        assert_eq!(
            threads.map(|(of_lane, processors)| threads_for_writers(of_lane, processors)),
            [1, 2, 8, 4, 16]
        );
    }
}
