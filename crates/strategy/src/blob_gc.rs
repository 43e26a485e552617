//! Blob garbage collection: when blob files hold too much garbage, which of them are rewritten, and by which
//! merge.
//!
//! # Accounting
//! A value is alive if a table points to it and no newer entry hides it. A newer entry may not have been
//! merged with the pointer yet: an overwritten value is known to be garbage only after that merge. So the
//! bytes that the largest run points to are taken as alive, because a run has each key about once; less where
//! tombstones lie above it. While a store grows this underestimates, and the small tables of pointers are
//! merged sooner than needed; after that merge the account is exact.
//!
//! # Choice of files
//! Files with the smallest live share first, as many as it takes to come down by one step. The step bounds
//! the cost: each round rewrites the tables that point to the files, about a hundredth of the values, so a
//! round must free enough. Under uniform overwrites with room for 1.5 times the live bytes, the chosen files
//! have less than half alive (files age differently, and relocated values have files of their own), so each
//! value is written 1.8 times.
//!
//! Only known garbage counts for the choice. If it is not enough, the round merges without choosing files,
//! and the next round has a better account.
//!
//! # The merge
//! Window by window of the last level, as in [`crate::manual`]: a column where something lies above, a
//! rewrite in place where only the base points to the chosen files. The chosen files remain the ones with the
//! smallest live share while their values move away, so all windows of a round choose the same files without
//! stored state.
//!
//! # Termination
//! A merged window has nothing above it. Where nothing lies above any window the account is exact; as long as
//! it exceeds the target some file has enough garbage to be chosen, and its garbage is dropped in that round.

use crate::options::StrategyOptions;
use crate::partition_window::PartitionWindows;
use crate::plan::{Class, CompactionPlan, Reason};
use crate::plan_builder::{Context, PlanDraft, input_from};
use crate::running_jobs::Busy;
use crate::shape::Shape;
use esker_base::FileNumber;
use esker_version::{LevelIndex, PartMeta, Run, Version};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A round begins this much before the target is reached, in 1/1000 of what the target allows beyond the live
/// bytes: about the bytes in memory or being flushed when writers begin to wait.
const RESERVE_PERMILLE: u64 = 50;
/// A round reduces the total by this share of what the target allows beyond the live bytes, in 1/1000.
const STEP_PERMILLE: u64 = 160;
/// The values copied in one round exist twice until the round ends: at most one in so many of the live bytes.
const LARGEST_ROUND: u64 = 8;

/// A blob garbage collection job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobGc {
    /// The merge to execute.
    pub plan: CompactionPlan,
    /// The blob files whose values the merge rewrites where it meets a pointer to them; may be empty.
    pub victims: BTreeSet<FileNumber>,
}

/// The bytes of the blob files of a version, and the estimate of live bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlobSpace {
    /// Bytes of all records.
    pub total_bytes: u64,
    /// Live bytes; a lower bound if no deleted range overlaps.
    pub live_bytes: u64,
}

impl BlobSpace {
    /// The account of a version. O(parts).
    pub fn of(version: &Version) -> BlobSpace {
        let blobs = version.blob_files();
        if blobs.is_empty() {
            return BlobSpace::default();
        }
        let sums = |run: &Arc<Run>| {
            let references = run.parts().iter().flat_map(|part| part.blobs.iter());
            references.fold((0u64, 0u64), |(bytes, count), reference| {
                (bytes.saturating_add(reference.bytes), count.saturating_add(reference.count))
            })
        };
        let tombstones = |run: &Arc<Run>| run.parts().iter().map(|part| part.tombstones).sum::<u64>();
        let runs = || version.runs().map(|(_, run)| (sums(run), tombstones(run)));
        let ((bytes, count), own) = runs().max().unwrap_or_default();
        let above = runs().map(|(_, tombstones)| tombstones).sum::<u64>().saturating_sub(own);
        let deleted = above.saturating_mul(bytes / count.max(1));
        let total_bytes = blobs.iter().fold(0u64, |sum, blob| sum.saturating_add(blob.meta.record_bytes));
        BlobSpace { total_bytes, live_bytes: bytes.saturating_sub(deleted) }
    }

    /// Whether all records exceed this many thousandths of the live bytes.
    pub fn is_over(&self, permille: u64) -> bool {
        u128::from(self.total_bytes) * 1000 > u128::from(self.live_bytes) * u128::from(permille)
    }

    /// Bytes above this many thousandths of the live bytes.
    fn excess(&self, permille: u64) -> u64 {
        let allowed = u128::from(self.live_bytes) * u128::from(permille) / 1000;
        self.total_bytes.saturating_sub(u64::try_from(allowed).unwrap_or(u64::MAX))
    }
}

/// Thousandths of the live bytes at which a round is due, and at which faster writers stall.
pub fn due_permille(target_permille: u32) -> u64 {
    let target = u64::from(target_permille);
    target - target.saturating_sub(1000) * RESERVE_PERMILLE / 1000
}

/// The next garbage collection job, if the account requires one and running jobs do not conflict.
pub fn plan_blob_gc(shape: &Shape<'_>, busy: &Busy, options: &StrategyOptions) -> Option<BlobGc> {
    let account = BlobSpace::of(shape.version);
    let target = u64::from(options.blob_space_amp_permille);
    let beyond = target.saturating_sub(1000);
    let high = due_permille(options.blob_space_amp_permille);
    if !account.is_over(high) {
        return None;
    }
    let low = high - beyond * STEP_PERMILLE / 1000;
    let victims = choose(shape.version, &account, target, low);
    let cx = Context::new(shape, busy, options);
    let plan = merge(&cx, &victims)?;
    Some(BlobGc { plan, victims })
}

fn choose(version: &Version, account: &BlobSpace, target: u64, low: u64) -> BTreeSet<FileNumber> {
    // At least half the garbage that the average file has when the target is reached.
    let has_enough = |garbage: u64, bytes: u64| {
        u128::from(garbage) * 2 * u128::from(target) >= u128::from(bytes) * u128::from(target - 1000)
    };
    let mut files: Vec<_> = version
        .blob_files()
        .iter()
        .filter(|blob| blob.garbage_bytes() > 0 && has_enough(blob.garbage_bytes(), blob.meta.record_bytes))
        .collect();
    // By the live share of the whole file; compared crosswise, without division.
    files.sort_by(|a, b| {
        let share = |blob: &esker_version::LiveBlob, other: &esker_version::LiveBlob| {
            u128::from(blob.referenced_bytes) * u128::from(other.meta.record_bytes)
        };
        share(a, b).cmp(&share(b, a)).then(a.meta.number.cmp(&b.meta.number))
    });
    let wanted = account.excess(low);
    let (mut freed, mut copied) = (0u64, 0u64);
    let mut victims = BTreeSet::new();
    for blob in files {
        if freed >= wanted || (copied > account.live_bytes / LARGEST_ROUND && !victims.is_empty()) {
            break;
        }
        freed = freed.saturating_add(blob.garbage_bytes());
        copied = copied.saturating_add(blob.referenced_bytes);
        victims.insert(blob.meta.number);
    }
    victims
}

/// The first window with work.
fn merge(cx: &Context<'_>, victims: &BTreeSet<FileNumber>) -> Option<CompactionPlan> {
    let columns = PartitionWindows::new(cx);
    let (class, reason) = (Class::Shape, Reason::BlobGarbage);
    if columns.base().is_empty() {
        return columns.merge(columns.everything(), class, reason);
    }
    let last = columns.base().len() - 1;
    let mut above = vec![false; columns.base().len()];
    for part in columns.upper().iter().flat_map(|(_, run)| run.parts()) {
        let window = columns.window_of(&part.range);
        above[window.first..=window.last].fill(true);
    }
    let points_to_victim = |part: &PartMeta| part.blobs.iter().any(|blob| victims.contains(&blob.file));
    let is_due = |at: usize| above[at] || points_to_victim(&columns.base()[at]);
    for at in (0..=last).filter(|&at| is_due(at)) {
        let plan = if above[at] {
            columns.merge(columns.window_from(at, last, is_due), class, reason)
        } else {
            rewrite(cx, &columns, at)
        };
        if plan.is_some() {
            return plan;
        }
    }
    None
}

/// Rewrites a part of the last level in place.
fn rewrite(cx: &Context<'_>, columns: &PartitionWindows<'_>, at: usize) -> Option<CompactionPlan> {
    let run = cx.shape.base()?;
    let inputs = input_from(LevelIndex::LAST, run, Some(&columns.base()[at].range)).into_iter().collect();
    cx.finish(PlanDraft { inputs, to: columns.target(), class: Class::Shape, reason: Reason::BlobGarbage })
}

#[cfg(test)]
mod tests;
