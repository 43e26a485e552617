//! Lookup tracing: what lookups search, observed and expected.
//!
//! One lookup in [`SAMPLE`](esker_filter::watch::SAMPLE), by the key's hash, runs through a separate instance
//! of the code in which every step is counted ([`LookupTracer`]); all others run the instance compiled
//! without counting, so that the cost of a lookup is one comparison of the hash. Counters are shared and
//! carry no other data: relaxed additions suffice, and sums read during lookups may be off by those.

use crate::lookup_counts::{Counts, LOOKUP_READS, LevelCounts, LookupStats};
use crate::tree::{Tree, TreePart, TreeRun};
use esker_base::{Result, SeqNo, Tag};
use esker_filter::FilterPolicy;
use esker_sst::{PreparedLookup, Table, TableHit};
use esker_strategy::WorstCase;
use esker_version::LevelIndex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The work of point lookups.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ReadAmplification {
    /// Memtables at present.
    pub memtables: usize,
    /// Present runs of tables: a lookup searches at most one table of each.
    pub runs: usize,
    /// The worst case by the formulas of the strategy, the memtable included; empty if it has no bound.
    pub worst_case: Vec<WorstCase>,
    /// Tables that a lookup of an absent key is expected to search because of false positives of the present
    /// filters, if it lies within the keys of every run.
    pub expected_absent: f64,
    /// Tables that a lookup of a present key is expected to search: the one that has it and false positives
    /// above it, if all keys are equally likely.
    pub expected_present: f64,
    /// Traced lookups, one in 64.
    pub lookups: u64,
    /// Memtables that they searched.
    pub memtables_probed: u64,
    /// Runs in which a table spans their key: that table's filter was probed.
    pub tables_probed: u64,
    /// Tables that they searched: a block each, from the cache or from the file.
    pub tables_searched: u64,
    /// Lookups decided by tables, including deleted keys.
    pub found_in_tables: u64,
    /// Lookups decided by memtables, including deleted keys.
    pub found_in_memtables: u64,
}

impl ReadAmplification {
    /// Tables searched per traced lookup; `None` without any.
    pub fn searched(&self) -> Option<f64> {
        (self.lookups > 0).then(|| self.tables_searched as f64 / self.lookups as f64)
    }

    /// False-positive table searches per traced lookup; `None` without any.
    pub fn misses(&self) -> Option<f64> {
        let misses = self.tables_searched.saturating_sub(self.found_in_tables);
        (self.lookups > 0).then(|| misses as f64 / self.lookups as f64)
    }
}

/// In the place of the index of a run in the tree: ingested tables that are not in the tree yet.
pub const INGESTED_RUN: usize = usize::MAX;

/// Receives the steps of a lookup.
pub trait LookupTracer {
    /// A memtable is searched.
    #[inline(always)]
    fn memtable(&mut self) {}

    /// A memtable has the key, with this as its newest version.
    #[inline(always)]
    fn memtable_finds(&mut self, _newest: Tag) {}

    /// Ingested tables in the position of a memtable are asked; what follows about them names
    /// [`INGESTED_RUN`].
    #[inline(always)]
    fn ingested(&mut self) {}

    /// The run at this index of the tree has a table that spans the key.
    #[inline(always)]
    fn asks(&mut self, _run: usize) {}

    /// That table is searched.
    #[inline(always)]
    fn searches(&mut self, _run: usize) {}

    /// Searches that table for a lookup, which may have been prepared.
    ///
    /// # Errors
    /// Those of the search.
    #[inline(always)]
    fn search(
        &mut self,
        table: &Table,
        key: &[u8],
        hash: u64,
        seqno: SeqNo,
        prepared: Option<&PreparedLookup<'_>>,
    ) -> Result<Option<TableHit>> {
        match prepared {
            Some(prepared) => prepared.get(key, hash),
            None => table.get(key, hash, seqno),
        }
    }

    /// It has the key.
    #[inline(always)]
    fn finds(&mut self, _run: usize, _part: &TreePart) {}
}

/// No tracing.
impl LookupTracer for () {}

/// Traces one lookup through the runs of a tree.
pub struct CountingTracer<'a> {
    counts: &'a Counts,
    runs: &'a [Arc<TreeRun>],
}

impl LookupStats {
    /// A tracer for one more lookup.
    pub fn trace<'a>(&'a self, runs: &'a [Arc<TreeRun>]) -> CountingTracer<'a> {
        let counts = self.counts_for_update();
        counts.lookups.fetch_add(1, Relaxed);
        CountingTracer { counts, runs }
    }

    /// The observed and expected values; the caller fills in what depends on the tree.
    pub fn seen(&self, rates: &FilterRates) -> ReadAmplification {
        let expected = ReadAmplification {
            expected_absent: rates.absent(),
            expected_present: rates.present(),
            ..ReadAmplification::default()
        };
        let Some(counts) = self.counts() else { return expected };
        let sum = |of: fn(&LevelCounts) -> &AtomicU64| {
            counts.levels.iter().map(|level| of(level).load(Relaxed)).sum::<u64>()
        };
        ReadAmplification {
            lookups: counts.lookups.load(Relaxed),
            memtables_probed: counts.memtables.load(Relaxed),
            tables_probed: sum(|level| &level.probed),
            tables_searched: sum(|level| &level.searched),
            found_in_tables: sum(|level| &level.found),
            found_in_memtables: counts.found_in_memtables.load(Relaxed),
            ..expected
        }
    }
}

impl CountingTracer<'_> {
    fn level(&self, run: usize) -> Option<&LevelCounts> {
        self.counts.levels.get(usize::from(self.runs.get(run)?.level.get()))
    }
}

impl LookupTracer for CountingTracer<'_> {
    fn memtable(&mut self) {
        self.counts.memtables.fetch_add(1, Relaxed);
    }

    fn memtable_finds(&mut self, _newest: Tag) {
        self.counts.found_in_memtables.fetch_add(1, Relaxed);
    }

    fn asks(&mut self, run: usize) {
        if let Some(level) = self.level(run) {
            level.probed.fetch_add(1, Relaxed);
        }
    }

    fn searches(&mut self, run: usize) {
        if let Some(level) = self.level(run) {
            level.searched.fetch_add(1, Relaxed);
        }
    }

    fn finds(&mut self, run: usize, part: &TreePart) {
        if let Some(level) = self.level(run) {
            // Sampled lookups also determine the read heat of a table.
            part.file.note_reads(LOOKUP_READS);
            level.found.fetch_add(1, Relaxed);
        }
    }
}

/// The false-positive rates of the filters of a tree's tables.
#[derive(Debug)]
pub struct FilterRates {
    /// Of each run, newest first: its level, its entries, and the rate for a key within its range.
    runs: Vec<(LevelIndex, f64, f64)>,
}

/// Positive zero for an empty sum: the standard library returns -0, which would be displayed.
fn sum<'a>(runs: impl Iterator<Item = &'a (LevelIndex, f64, f64)>) -> f64 {
    runs.fold(0.0, |sum, (_, _, rate)| sum + rate)
}

impl FilterRates {
    /// The rates of a tree's tables. A table that is not open is assumed to have the filter of the options.
    pub fn of(tree: &Tree, policy: FilterPolicy) -> FilterRates {
        let mut of_options = None;
        let mut rate_of = |part: &TreePart| match part.file.opened() {
            Some(table) => table.expected_false_positive_rate(),
            None => *of_options.get_or_insert_with(|| policy.false_positive_rate()),
        };
        let runs = tree.runs.iter().map(|run| {
            let (mut entries, mut misses) = (0.0, 0.0);
            for part in run.parts.iter() {
                entries += part.meta.entries as f64;
                misses += part.meta.entries as f64 * rate_of(part);
            }
            (run.level, entries, if entries > 0.0 { misses / entries } else { 0.0 })
        });
        FilterRates { runs: runs.collect() }
    }

    /// Tables of a level that a lookup of an absent key is expected to search.
    pub fn of_level(&self, level: LevelIndex) -> f64 {
        sum(self.runs.iter().filter(|(of, ..)| *of == level))
    }

    fn absent(&self) -> f64 {
        sum(self.runs.iter())
    }

    /// The mean over entries of one search, and one more for each false positive in a newer run.
    fn present(&self) -> f64 {
        let (mut above, mut searches, mut all) = (0.0, 0.0, 0.0);
        for (_, entries, rate) in &self.runs {
            searches += entries * (1.0 + above);
            all += entries;
            above += rate;
        }
        if all > 0.0 { searches / all } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn present_keys_cost_the_false_positives_above_them() {
        let level = LevelIndex::FLUSH;
        let rates = FilterRates {
            runs: vec![(level, 100.0, 0.5), (level, 100.0, 0.25), (LevelIndex::LAST, 200.0, 1.0)],
        };
        assert_eq!(rates.absent(), 1.75);
        assert_eq!(rates.of_level(level), 0.75);
        // 100 entries at 1, 100 at 1.5, 200 at 1.75.
        assert_eq!(rates.present(), (100.0 + 150.0 + 350.0) / 400.0);
        assert_eq!(FilterRates { runs: Vec::new() }.present(), 0.0);
    }
}
