//! Explanation of a lookup: the sources that were asked and passed over, and why.

use super::model::Work;
use super::read_figures::{about_files, add_blocks, name_of};
use super::text::{bytes, counted, time};
use super::{Explanation, Figure, Step};
use crate::handle::{Keyspace, View};
use crate::{Result, Value};
use esker_base::ValueKind;
use esker_engine::amplification;
use esker_engine::state::keyspace::KeyspaceState;
use esker_engine::state::store::Store;
use esker_sst::BlocksRead;
use esker_view::read::{KeyOutcome, LookupSource, ObservedLookup, Pinned, SourceOutcome};

/// Filters from which on a lookup is told that its tree has many runs.
const MANY_RUNS: u64 = 8;

impl Keyspace {
    /// The value of a key, and how it was found: memtables and tables that were asked or passed over and by
    /// what, blocks and where they were, and times, beside what the model expects.
    ///
    /// Takes some microseconds more than [`Keyspace::get`], and is not counted among lookups.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    #[doc(alias = "PerfContext")]
    pub fn explain_get(&self, key: impl AsRef<[u8]>) -> Result<(Option<Value>, Explanation)> {
        explain(self, self.pin()?, key.as_ref())
    }
}

impl View<'_> {
    /// As [`Keyspace::explain_get`], at the moment of the snapshot.
    ///
    /// # Errors
    /// As [`View::get`].
    pub fn explain_get(&self, key: impl AsRef<[u8]>) -> Result<(Option<Value>, Explanation)> {
        explain(self.keyspace, self.pin()?, key.as_ref())
    }
}

fn explain(keyspace: &Keyspace, pinned: Pinned, key: &[u8]) -> Result<(Option<Value>, Explanation)> {
    let (store, state) = (keyspace.store(), keyspace.state());
    let pinned = pinned.kept();
    let observed = pinned.get_observed(key, &*store.env.clock)?;
    let totals = LookupTotals::of(&observed);
    let mut root = Step::new(
        format!("get \"{}\" in keyspace {}", key.escape_ascii(), state.name().escape_debug()),
        told(&observed),
    );
    add_totals(&mut root, store, state, &pinned, &observed, &totals);
    root.steps = observed.sources.iter().map(step_of).collect();
    root.steps.extend(value_step(&observed));
    let conclusion = conclusion(store, &observed, &totals);
    Ok((observed.value, Explanation { root, conclusion }))
}

/// The sums over all sources.
struct LookupTotals {
    memtables: u64,
    filters: u64,
    searched: u64,
    in_vain: u64,
    read: BlocksRead,
}

impl LookupTotals {
    fn of(observed: &ObservedLookup) -> LookupTotals {
        let mut read = observed.value_read;
        let (mut memtables, mut filters, mut searched, mut in_vain) = (0, 0, 0, 0);
        for source in &observed.sources {
            read += source.read;
            let was_reached = !matches!(
                source.outcome,
                SourceOutcome::NotReached | SourceOutcome::OutOfRange | SourceOutcome::Hidden
            );
            if !was_reached {
                continue;
            }
            if source.file.is_none() {
                memtables += 1;
                continue;
            }
            filters += 1;
            searched += u64::from(source.outcome != SourceOutcome::Rejected);
            in_vain += u64::from(source.outcome == SourceOutcome::Absent);
        }
        LookupTotals { memtables, filters, searched, in_vain, read }
    }
}

fn told(observed: &ObservedLookup) -> String {
    match (observed.outcome, &observed.value) {
        (_, Some(value)) => format!("a value of {}", bytes(value.len() as u64)),
        (KeyOutcome::Deleted, _) => "no value, its newest version is a tombstone".to_owned(),
        (KeyOutcome::RangeDeleted, _) => "no value, a range tombstone deletes it".to_owned(),
        (KeyOutcome::Expired, _) => "no value, the newest version has expired".to_owned(),
        (KeyOutcome::Absent | KeyOutcome::Present, _) => "no value, no source has a version of it".to_owned(),
    }
}

fn add_totals(
    root: &mut Step,
    store: &Store,
    state: &KeyspaceState,
    pinned: &Pinned,
    observed: &ObservedLookup,
    totals: &LookupTotals,
) {
    let reads = amplification::amplification(store, state, &pinned.view, 0).reads;
    let is_in_memtable =
        |source: &LookupSource| source.file.is_none() && matches!(source.outcome, SourceOutcome::Found(_));
    let expected = match observed.outcome {
        _ if observed.sources.iter().any(is_in_memtable) => 0.0,
        KeyOutcome::Absent => reads.expected_absent,
        _ => reads.expected_present,
    };
    root.add(Figure::MemtablesSearched, totals.memtables);
    root.add(Figure::FiltersProbed, totals.filters);
    root.add_beside(Figure::TablesSearched, totals.searched as f64, Some(expected));
    root.add_some(Figure::SearchedInVain, totals.in_vain);
    add_blocks(root, &totals.read, Some(expected));
    let costs = super::model::costs_of(store, state, &pinned.view.tree.version);
    root.add_beside(Figure::Runs, pinned.view.tree.runs.len() as f64, costs.map(|costs| costs.runs));
    let read = &totals.read;
    let work = Work {
        filters: totals.filters,
        blocks: read.data_blocks() + read.other_from_cache + read.other_from_files + totals.memtables,
        file_reads: read.from_files + read.other_from_files + read.large_values,
        file_bytes: read.large_bytes,
        entries: read.versions,
    };
    root.add_beside(Figure::Time, observed.took_ns as f64, Some(work.expected_ns()));
}

fn step_of(source: &LookupSource) -> Step {
    let mut what = name_of(&source.place);
    if let Some(file) = source.file {
        what.push_str(&format!(", table {file}"));
    }
    let filter = || match source.false_positive_rate {
        Some(rate) if rate < 1.0 => format!("the filter, wrong for {:.2} % of absent keys, ", rate * 100.0),
        _ => "the filter ".to_owned(),
    };
    let has_filter = source.false_positive_rate.is_some_and(|rate| rate < 1.0);
    let outcome = match source.outcome {
        SourceOutcome::NotReached => "not asked: a newer source has the key".to_owned(),
        SourceOutcome::OutOfRange => "not asked: no table of the run spans the key".to_owned(),
        SourceOutcome::Hidden => "not asked: a range tombstone deletes all of it".to_owned(),
        SourceOutcome::Rejected => format!("{}excludes the key", filter()),
        SourceOutcome::TooNew => "not searched: its sequence number is above the reader's".to_owned(),
        SourceOutcome::Absent if source.file.is_none() => "does not have the key".to_owned(),
        SourceOutcome::Absent if has_filter => {
            format!("{}let the key pass, and the table does not have it", filter())
        }
        SourceOutcome::Absent => "has no filter, and does not have the key".to_owned(),
        SourceOutcome::Found(kind) => format!("has {}", kind_name(kind)),
    };
    let mut step = Step::new(what, outcome);
    if source.file.is_some() && !source.was_open && source.took_ns > 0 {
        step.outcome.push_str("; the table was opened for it");
    }
    add_blocks(&mut step, &source.read, None);
    step.add_some(Figure::Time, source.took_ns);
    step
}

fn kind_name(kind: ValueKind) -> &'static str {
    match kind {
        ValueKind::Put => "the newest version, a put",
        ValueKind::Delete | ValueKind::SingleDelete => "the newest version, a tombstone",
        ValueKind::Merge => "the newest version, an operand",
        ValueKind::RangeDelete => "a range tombstone",
    }
}

/// The read of a large value.
fn value_step(observed: &ObservedLookup) -> Option<Step> {
    if observed.value_read == BlocksRead::default() {
        return None;
    }
    let mut step = Step::new("value", "in a blob file");
    add_blocks(&mut step, &observed.value_read, None);
    step.add(Figure::Time, observed.value_ns);
    Some(step)
}

fn conclusion(store: &Store, observed: &ObservedLookup, totals: &LookupTotals) -> String {
    let slowest = observed.sources.iter().max_by_key(|source| source.took_ns);
    let slowest_ns = slowest.map_or(0, |source| source.took_ns);
    let (all_ns, read) = (observed.took_ns, &totals.read);
    if observed.value_read.large_values > 0 && observed.value_ns >= slowest_ns {
        return format!(
            "Reading the value from its blob file dominates: {} of {}. Values shorter than the option blob_threshold lie in tables, whose blocks are cached.",
            time(observed.value_ns as f64),
            time(all_ns as f64)
        );
    }
    if let Some(slowest) = slowest.filter(|source| source.file.is_some()) {
        let name = slowest.file.map(|file| file.to_string()).unwrap_or_default();
        if !slowest.was_open && slowest.took_ns * 2 > all_ns {
            return format!(
                "Opening table {name} dominates: {} of {}. It stays open now, unless more tables than max_open_tables are in use.",
                time(slowest.took_ns as f64),
                time(all_ns as f64)
            );
        }
        if slowest.read.from_files + slowest.read.other_from_files > 0 {
            let what = format!("Reading blocks of table {name} from its file dominates");
            return about_files(store, &what, slowest.took_ns, all_ns);
        }
    }
    if read.versions > 1 {
        return format!(
            "Merging {} dominates. A put in their place, or a compaction of the key's range, leaves one.",
            counted(read.versions, "version")
        );
    }
    if totals.in_vain > 0 {
        return format!(
            "{} searched in vain, because the filter let the key pass or there is none. More bits a key (option filter) make that rarer.",
            counted(totals.in_vain, "table")
        );
    }
    let from_files = read.from_files + read.other_from_files + read.large_values;
    if from_files > 0 {
        return format!(
            "The slowest source took {} of {}. {} came from files; the same read finds in memory what the cache keeps.",
            time(slowest_ns as f64),
            time(all_ns as f64),
            counted(from_files, "block")
        );
    }
    if totals.filters > MANY_RUNS {
        return format!(
            "Everything was in memory, and {} were asked. A compaction leaves fewer runs.",
            counted(totals.filters, "table")
        );
    }
    format!("Everything was in memory: {}. Nothing would make it much faster.", time(all_ns as f64))
}
