//! Overwrite ratio: estimates how much of a table overwrites older data, so that new keys may stay above the
//! last level for longer ([`esker_strategy::Shape::overwrite_ratios`]).
//!
//! # Sampling
//! While a job writes tables above the last level, for a strategy that uses the ratio, one entry per N bytes
//! written is probed in the older runs: in their filters, as far as these are in memory. An entry that one
//! may hold counts as overwriting, and so does every entry other than a plain put. So entries are chosen in
//! proportion to their bytes. The result for a table is in 1/1000 of its bytes.
//!
//! A flush probes all existing tables: everything older than its memtables was flushed before them, and
//! overwrites among them are dropped on the way. A merge probes anew, against tables older than its output:
//! what it overwrote in its own inputs is gone, and where its output tables cover different keys, they have
//! ratios of their own.
//!
//! # Invariants
//! * RP1. A ratio is not too small, except for sampling error: a filter passes every key it has, one that is
//!   not in memory counts as if it passed, one entry more than found counts as overwriting, and a slice is
//!   assumed to hold all overwrites of its file.
//! * RP2. A ratio stays valid for as long as its table is above the last level: newer runs change nothing,
//!   and older data only moves down, because a column is taken from its oldest run on.
//! * RP3. In a merge, an entry that no filter in memory can decide counts as its inputs did, by the mean of
//!   their ratios. For uniform keys that is not too small either: a dropped entry was overwritten by a later
//!   one, which counts.
//! * RP4. Tables that were not sampled count in full: tables from before the open, ingested ones, those with
//!   deletes, with several versions of a key, or with values in blob files, whose bytes are elsewhere.
//! * RP5. No older table is read for this. The tables of such a strategy are opened once they are written,
//!   while their bytes are in the page cache; beyond the limit of open tables they are closed again before
//!   they are probed, so that everything counts as overwriting. With filters in the cache, only those loaded
//!   by readers can be probed.
//!
//! # Rejected
//! * The ratio found by merges into the last level, which is known anyway (`amplification`): it
//!   describes data that arrived minutes ago, and a writer that begins to overwrite a filled store would
//!   leave three times the garbage before it shows.
//! * Only passing on the ratios of the inputs in merges: half of a flush's keys may be new and in one range,
//!   the other half overwritten in another. Then the new ones may be merged on, and the rest counts half of
//!   what it should.

use esker_base::checksum::key_hash;
use esker_base::{FileNumber, PartId, Tag};
use esker_options::KeyspaceOptions;
use esker_strategy::{CompactionPlan, Position};
use esker_version::{LevelIndex, PartFlags, PartMeta, Version};
use esker_view::ViewCell;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// The whole.
const WHOLE_PERMILLE: u32 = 1000;

/// The approximate number of entries sampled in a job.
const SAMPLES: u64 = 384;
/// The least and the greatest sampling interval in bytes: a small flush has fewer samples, and each table of
/// a large merge some dozens.
const STEP_BYTES: (u64, u64) = (1 << 10, 256 << 10);

/// The known overwrite ratios of a keyspace's files. Those of a job are recorded when it installs its tables,
/// under the lock of `busy`, so that the planner has them.
#[derive(Debug, Default)]
pub struct OverwriteRatios {
    /// The share of each file of which it is known, in 1/1000 of its bytes.
    pub files: BTreeMap<FileNumber, u32>,
}

impl OverwriteRatios {
    /// Records the ratios of files that are about to join a version, and forgets removed files.
    pub fn note(&mut self, version: &Version, shares: &[(FileNumber, u32)]) {
        let kept = version.parts().filter_map(|(_, _, part)| self.files.remove_entry(&part.file));
        self.files = kept.collect();
        self.files.extend(shares.iter().copied());
    }

    /// The ratio of this many bytes of a part. All overwrites of its file may be among them.
    fn share(&self, part: &PartMeta, bytes: u64) -> u32 {
        let Some(&permille) = self.files.get(&part.file) else { return WHOLE_PERMILLE };
        let replaced = u128::from(permille) * u128::from(part.file_bytes);
        let share = replaced.div_ceil(u128::from(bytes.max(1)));
        u32::try_from(share).unwrap_or(WHOLE_PERMILLE).min(WHOLE_PERMILLE)
    }

    /// The mean ratio of a plan's inputs.
    fn of_inputs(&self, plan: &CompactionPlan) -> u32 {
        let inputs = plan.parts().map(|(_, input)| (input.bytes(), self.share(&input.part, input.bytes())));
        let (bytes, replaced) = inputs.fold((0u128, 0u128), |(all, replaced), (bytes, share)| {
            (all + u128::from(bytes), replaced + u128::from(bytes) * u128::from(share))
        });
        u32::try_from(replaced.div_ceil(bytes.max(1))).unwrap_or(WHOLE_PERMILLE)
    }
}

/// The older tables that a job probes.
#[derive(Clone, Copy, Debug)]
pub struct OlderTables<'a> {
    view: &'a ViewCell,
    /// The uppermost level in which everything is older.
    from: LevelIndex,
    /// How much an undecided entry counts, in 1/1000.
    unknown_permille: u32,
}

impl<'a> OlderTables<'a> {
    /// For a flush, if the strategy uses the ratio.
    pub fn than_flush(view: &'a ViewCell, options: &KeyspaceOptions) -> Option<OlderTables<'a>> {
        let older = OlderTables { view, from: LevelIndex::FLUSH, unknown_permille: WHOLE_PERMILLE };
        options.strategy.uses_overwrite_ratios().then_some(older)
    }

    /// For a merge, if the strategy uses the ratio. What is merged into the last level or into a run is not
    /// counted.
    pub fn than_output(
        view: &'a ViewCell,
        book: &Mutex<OverwriteRatios>,
        options: &KeyspaceOptions,
        plan: &CompactionPlan,
    ) -> Option<OlderTables<'a>> {
        let Position::Front(from) = plan.to else { return None };
        // Then what lies in the levels from this one on is older: inputs are the oldest of the levels above.
        let are_above = plan.inputs.iter().all(|input| input.level < from);
        let counts = options.strategy.uses_overwrite_ratios() && are_above && !from.is_last();
        counts.then(|| OlderTables { view, from, unknown_permille: book.lock().of_inputs(plan) })
    }

    /// The probability in 1/1000 that an older table has this key.
    fn permille(&self, key: &[u8], hash: u64) -> u32 {
        let view = self.view.load();
        let mut is_known = true;
        // Overwritten keys are mostly in the oldest run, which is the largest.
        for run in view.tree.runs.iter().rev().take_while(|run| run.level >= self.from) {
            let Some(part) = run.part_for(key) else { continue };
            match part.file.opened().and_then(|table| table.may_contain_by_memory(hash)) {
                Some(true) => return WHOLE_PERMILLE,
                Some(false) => {}
                None => is_known = false,
            }
        }
        if is_known { 0 } else { self.unknown_permille }
    }
}

/// Samples the entries that a job writes.
#[derive(Debug)]
pub struct OverwriteSampler<'a> {
    older: Option<OlderTables<'a>>,
    step_bytes: u64,
    /// The position of the next sample, in bytes of keys and values from the job's beginning.
    pub next_bytes: u64,
    /// Samples of the present table, and the sum of their probabilities.
    looked_for: u64,
    found_permille: u64,
}

impl<'a> OverwriteSampler<'a> {
    /// For a job of `job_bytes`. It samples nothing without older tables.
    pub fn new(older: Option<OlderTables<'a>>, job_bytes: u64) -> OverwriteSampler<'a> {
        let step_bytes = (job_bytes / SAMPLES).clamp(STEP_BYTES.0, STEP_BYTES.1);
        let next_bytes = if older.is_some() { step_bytes / 2 } else { u64::MAX };
        OverwriteSampler { older, step_bytes, next_bytes, looked_for: 0, found_permille: 0 }
    }

    /// Samples the entry that ends at `end_bytes` of the job. An entry larger than a step counts as often as
    /// it has steps.
    pub fn sample(&mut self, key: &[u8], tag: Tag, end_bytes: u64) {
        let Some(older) = self.older.filter(|_| end_bytes >= self.next_bytes) else { return };
        let hash = key_hash(key);
        // With jitter, to avoid resonance with an order in the keys.
        let step_bytes = self.step_bytes / 2 + hash % self.step_bytes;
        let times = 1 + (end_bytes - self.next_bytes) / step_bytes;
        self.next_bytes += times * step_bytes;
        self.looked_for += times;
        let permille = if tag.is_plain_put() { older.permille(key, hash) } else { WHOLE_PERMILLE };
        self.found_permille += times * u64::from(permille);
    }

    /// The ratio of a table that has ended; the next samples belong to the next table. `None` without older
    /// tables.
    pub(crate) fn end_table(&mut self, part: &PartMeta) -> Option<(FileNumber, u32)> {
        self.older?;
        let (looked_for, found) =
            (std::mem::take(&mut self.looked_for), std::mem::take(&mut self.found_permille));
        let are_plain =
            !part.has_tombstones() && part.blobs.is_empty() && part.flags.has(PartFlags::SINGLE_VERSION);
        if !are_plain {
            return None;
        }
        // One more than was found, as if it had been sampled, too.
        let share = (found + u64::from(WHOLE_PERMILLE)).div_ceil(looked_for + 1);
        Some((part.file, u32::try_from(share).unwrap_or(WHOLE_PERMILLE).min(WHOLE_PERMILLE)))
    }
}

/// How much of the parts of a version replaces something, as [`esker_strategy::Shape::overwrite_ratios`]
/// takes it; nothing if the strategy does not use it.
pub fn overwrite_ratios_of(
    book: &Mutex<OverwriteRatios>,
    options: &KeyspaceOptions,
    version: &Version,
) -> Vec<(PartId, u32)> {
    if !options.strategy.uses_overwrite_ratios() {
        return Vec::new();
    }
    let book = book.lock();
    let known = version.parts().filter(|(_, _, part)| book.files.contains_key(&part.file));
    let mut shares: Vec<(PartId, u32)> =
        known.map(|(_, _, part)| (part.id, book.share(part, part.bytes))).collect();
    shares.sort_unstable();
    shares
}

#[cfg(test)]
mod tests;
