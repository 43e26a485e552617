//! Sub-compactions: one merge in pieces, side by side.
//!
//! The keys of a merge are divided into ranges, and each range is merged like a job of its own: its inputs
//! are the parts of the plan as far as they lie in the range, and it shares with the others the boundaries
//! that were sampled, the tree that was looked at and the [`Job`](super::Job). The outputs, in order of the
//! ranges, are installed by one edit, so readers never see a part of it.
//!
//! # Why the result is the same
//! All versions of a user key lie in one range, and what becomes of an entry depends on its key's versions,
//! on range deletes over the key, on the boundaries and on what lies outside of the plan's inputs, never on
//! other keys. Range deletes are clipped to the range, like those of any sliced input. So pieces write the
//! same entries as one job; only the borders of tables differ, because one ends at each border of a range.
//!
//! # How many
//! As many as the option says, or, if it leaves the choice, one more than there are idle compaction threads;
//! but no piece smaller than two tables, and only one for jobs of the lowest classes (JB5). A piece takes
//! buffers of about 2 MiB. A merge that begins while the keyspace's writers are held back by what merges are
//! to take away has as many as there are processors, up to eight: those of writers who wait stand idle, and
//! each piece brings nearer the end of the wait.
//!
//! # Where
//! At keys that divide the inputs' bytes evenly, found in the block indexes: starts of parts alone would not
//! divide four runs of one table each. It takes a look at some keys of each index and no block.

use crate::keyspace::KeyspaceState;
use crate::store::Store;
use crate::tree::Access;
use esker_base::Result;
use esker_env::host;
use esker_strategy::{Anchor, Class, CompactionPlan};
use esker_version::{Key, KeyRange};

/// Keys that are looked at for each piece, in each input table: ranges are as even as that allows.
const ANCHORS_PER_PIECE: usize = 8;
/// Most keys that are looked at in one table.
const MAX_ANCHORS: usize = 128;
/// So many threads at most merge because writers wait: their buffers are memory beyond the budget, 16 MiB.
const MOST_RELIEVING_THREADS: usize = 8;
/// A piece has at least so many tables' bytes of input.
const MIN_TABLES_PER_PIECE: u64 = 2;

/// How many pieces a merge may have.
fn most_pieces(store: &Store, keyspace: &KeyspaceState, plan: &CompactionPlan) -> usize {
    let worthwhile = plan.est_in_bytes / plan.cut.table_bytes.saturating_mul(MIN_TABLES_PER_PIECE).max(1);
    if plan.class <= Class::Clean || worthwhile < 2 {
        return 1;
    }
    let allowed = store.max_subcompactions.unwrap_or_else(|| {
        let of_lane = store.compaction_threads;
        let threads = match keyspace.waits_for_merges() {
            true => relieving_threads(of_lane, host::processors()),
            false => of_lane,
        };
        // The job itself is one of those that merge.
        1 + threads.saturating_sub(store.jobs.merging())
    });
    allowed.min(usize::try_from(worthwhile).unwrap_or(usize::MAX)).max(1)
}

/// Threads that may merge at a time while writers wait for it: those of the lane, or as many as there are
/// processors.
fn relieving_threads(of_lane: usize, processors: usize) -> usize {
    of_lane.max(processors.min(MOST_RELIEVING_THREADS))
}

/// The ranges of keys in which a merge is done: one after the other they cover its hull.
pub(crate) fn pieces_of(
    store: &Store,
    keyspace: &KeyspaceState,
    plan: &CompactionPlan,
) -> Result<Vec<KeyRange>> {
    let most = most_pieces(store, keyspace, plan);
    if most < 2 {
        return Ok(vec![plan.hull.clone()]);
    }
    let per_table = (ANCHORS_PER_PIECE * most).div_ceil(plan.parts().count().max(1)).clamp(2, MAX_ANCHORS);
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
    use super::relieving_threads;

    #[test]
    fn as_many_threads_as_processors_eight_at_most_or_what_the_option_says() {
        let threads = [(1, 1), (1, 2), (1, 64), (4, 2), (16, 64)];
        assert_eq!(
            threads.map(|(of_lane, processors)| relieving_threads(of_lane, processors)),
            [1, 2, 8, 4, 16]
        );
    }
}
