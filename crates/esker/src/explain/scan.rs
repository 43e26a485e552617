//! Explanation of a scan: what every source contributed, and what was stepped over.

use super::model::Work;
use super::read_figures::{about_files, add_blocks, name_of};
use super::text::{count, counted, time};
use super::{Explanation, Figure, Step};
use crate::handle::{Keyspace, View};
use crate::report::readers::list_open_readers;
use crate::{KeyRange, Result};
use esker_engine::state::keyspace::KeyspaceState;
use esker_engine::state::store::Store;
use esker_iter::Bounds;
use esker_model::advice::Prices;
use esker_sst::BlocksRead;
use esker_view::read::{ObservedScan, Pinned, ScanLimits, ScanSource};
use std::ops::Bound;

/// A scan to explain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScanOptions {
    /// The most entries. Without a limit the whole range is walked.
    pub limit: u64,
    /// Whether from the last key to the first.
    pub is_reverse: bool,
}

impl Default for ScanOptions {
    fn default() -> ScanOptions {
        ScanOptions { limit: u64::MAX, is_reverse: false }
    }
}

impl ScanOptions {
    /// Sets the most entries.
    #[must_use]
    pub fn limit(mut self, entries: u64) -> ScanOptions {
        self.limit = entries;
        self
    }

    /// Walks from the last key to the first.
    #[must_use]
    pub fn reverse(mut self, is_reverse: bool) -> ScanOptions {
        self.is_reverse = is_reverse;
        self
    }
}

impl Keyspace {
    /// Walks the entries of a range, passes them to `visit`, and explains the walk: entries, tombstones and
    /// older versions that were met in every source, blocks and where they were, and times, beside what the
    /// model expects.
    ///
    /// Takes about twice as long as a cursor, and is not counted among scans.
    ///
    /// # Errors
    /// As those of [`Keyspace::range`].
    pub fn explain_scan(
        &self,
        range: impl KeyRange,
        options: ScanOptions,
        visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Explanation> {
        explain(self, self.pin()?, range.into_bounds(), options, visit)
    }
}

impl View<'_> {
    /// As [`Keyspace::explain_scan`], at the moment of the snapshot.
    ///
    /// # Errors
    /// As those of [`View::range`].
    pub fn explain_scan(
        &self,
        range: impl KeyRange,
        options: ScanOptions,
        visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Explanation> {
        explain(self.keyspace, self.pin()?, range.into_bounds(), options, visit)
    }
}

fn explain(
    keyspace: &Keyspace,
    pinned: Pinned,
    bounds: Bounds,
    options: ScanOptions,
    visit: impl FnMut(&[u8], &[u8]),
) -> Result<Explanation> {
    let (store, state) = (keyspace.store(), keyspace.state());
    let pinned = pinned.kept();
    let again = pinned.again();
    let range = told(&bounds);
    let limits = ScanLimits { bounds, entries: options.limit, is_reverse: options.is_reverse };
    let observed = again.scan_observed(&limits, &*store.env.clock, visit)?;
    let totals = ScanTotals::of(&observed, options.is_reverse);
    let end = if observed.is_complete { "to the end of the range" } else { "to the limit" };
    let direction = if options.is_reverse { "reverse scan" } else { "scan" };
    let mut root = Step::new(
        format!("{direction} in keyspace {}, {range}", state.name().escape_debug()),
        format!("{}, {end}", entries(observed.returned)),
    );
    add_totals(&mut root, store, state, &pinned, &observed, &totals);
    root.steps = observed.sources.iter().map(step_of).collect();
    let conclusion = conclusion(store, &observed, &totals);
    Ok(Explanation { root, conclusion })
}

fn told(bounds: &Bounds) -> String {
    let of = |bound: Bound<&[u8]>, word: [&str; 2]| match bound {
        Bound::Unbounded => None,
        Bound::Included(key) => Some(format!("{} \"{}\"", word[0], key.escape_ascii())),
        Bound::Excluded(key) => Some(format!("{} \"{}\"", word[1], key.escape_ascii())),
    };
    let lower = of(bounds.lower(), ["from", "after"]);
    let upper = of(bounds.upper(), ["up to and with", "up to"]);
    let both: Vec<String> = lower.into_iter().chain(upper).collect();
    if both.is_empty() { "all keys".to_owned() } else { both.join(" ") }
}

fn entries(count_of: u64) -> String {
    if count_of == 1 { "1 entry".to_owned() } else { format!("{} entries", count(count_of)) }
}

/// The sums over all sources.
struct ScanTotals {
    seeks: u64,
    met: u64,
    tombstones: u64,
    /// Entries met and not returned, but for those that the sources stand on at the end.
    stepped_over: u64,
    met_bytes: u64,
    read: BlocksRead,
}

impl ScanTotals {
    fn of(observed: &ObservedScan, is_reverse: bool) -> ScanTotals {
        let mut read = observed.values_read;
        observed.sources.iter().for_each(|source| read += source.read);
        let sum = |of: fn(&ScanSource) -> u64| observed.sources.iter().map(of).sum::<u64>();
        let (met, ahead) = (sum(|source| source.met), sum(|source| u64::from(source.is_ahead)));
        // At its limit a scan forwards stands on the last entry that it returned; backwards it has passed it.
        let stands = !observed.is_complete && !is_reverse;
        let used = if stands { observed.returned.saturating_sub(1) } else { observed.returned };
        ScanTotals {
            seeks: sum(|source| source.seeks),
            met,
            tombstones: sum(|source| source.tombstones),
            stepped_over: met.saturating_sub(ahead).saturating_sub(used),
            met_bytes: sum(|source| source.met_bytes),
            read,
        }
    }
}

fn add_totals(
    root: &mut Step,
    store: &Store,
    state: &KeyspaceState,
    pinned: &Pinned,
    observed: &ObservedScan,
    totals: &ScanTotals,
) {
    let costs = super::model::costs_of(store, state, &pinned.view.tree.version);
    // Of every run the block in which the range begins, and what its entries fill.
    let block_bytes = state.options().block_size_bytes as f64;
    let runs = pinned.view.tree.runs.len() as f64;
    let space = costs.as_ref().map(|costs| costs.space);
    let from_tables = if pinned.view.tree.runs.is_empty() { 0.0 } else { observed.returned_bytes as f64 };
    let blocks = space.map(|space| runs + from_tables * space / block_bytes);
    root.add(Figure::Returned, observed.returned);
    root.add(Figure::ReturnedBytes, observed.returned_bytes);
    let met = space.filter(|_| observed.returned > 0).map(|space| observed.returned as f64 * space);
    root.add_beside(Figure::Met, totals.met as f64, met);
    root.add(Figure::MetBytes, totals.met_bytes);
    root.add(Figure::SteppedOver, totals.stepped_over);
    root.add(Figure::Tombstones, totals.tombstones);
    root.add(Figure::Seeks, totals.seeks);
    add_blocks(root, &totals.read, blocks);
    root.add_beside(Figure::Runs, runs, costs.map(|costs| costs.runs));
    let read = &totals.read;
    let work = Work {
        filters: 0,
        blocks: totals.seeks + read.other_from_cache,
        file_reads: read.from_files + read.other_from_files + read.large_values,
        file_bytes: read.large_bytes,
        entries: totals.met + read.versions,
    };
    root.add_beside(Figure::Time, observed.took_ns as f64, Some(work.expected_ns()));
}

fn step_of(source: &ScanSource) -> Step {
    let mut step = Step::new(name_of(&source.place), String::new());
    step.add(Figure::Met, source.met);
    step.add(Figure::MetBytes, source.met_bytes);
    step.add_some(Figure::Tombstones, source.tombstones);
    step.add(Figure::Seeks, source.seeks);
    step.add(Figure::SeekTime, source.seek_ns);
    add_blocks(&mut step, &source.read, None);
    step
}

/// What costs most at the usual prices.
fn conclusion(store: &Store, observed: &ObservedScan, totals: &ScanTotals) -> String {
    let prices = Prices::default();
    let read = &totals.read;
    let files_ns = (read.from_files + read.other_from_files) as f64 * prices.block_read_ns;
    let values_ns =
        read.large_values as f64 * prices.block_read_ns + read.large_bytes as f64 * prices.byte_read_ns;
    let seeks_ns = totals.seeks as f64 * prices.block_search_ns;
    let over_ns = (totals.stepped_over + read.versions) as f64 * prices.comparison_ns;
    let returned_ns = observed.returned as f64 * prices.comparison_ns;
    let most = [files_ns, values_ns, seeks_ns, over_ns, returned_ns].into_iter().fold(0.0, f64::max);
    let took = time(observed.took_ns as f64);
    if most == 0.0 || (most == returned_ns && most > 0.0) {
        return format!("Returning the entries dominates: {took} in all. Nothing would make it much faster.");
    }
    if most == files_ns {
        let what = format!("Reading {} from files dominates", counted(read.from_files, "block"));
        let files_ns =
            (observed.took_ns as f64 * files_ns / (files_ns + values_ns + seeks_ns + over_ns)) as u64;
        return about_files(store, &format!("{what}, about"), files_ns, observed.took_ns);
    }
    if most == values_ns {
        return format!(
            "Reading {} from blob files dominates: {took} in all. A scan of keys alone does not read them.",
            counted(read.large_values, "large value")
        );
    }
    if most == over_ns {
        return stepped_over(store, totals, observed.returned);
    }
    format!(
        "{} dominate, {took} in all: of every memtable and run one, and one where the scan leaps over tombstones. A compaction leaves fewer runs.",
        counted(totals.seeks, "seek")
    )
}

fn stepped_over(store: &Store, totals: &ScanTotals, returned: u64) -> String {
    let mut text = format!(
        "Stepping over {} for {} returned dominates, {} of them tombstones.",
        entries(totals.stepped_over),
        count(returned),
        count(totals.tombstones)
    );
    let oldest = list_open_readers(store).into_iter().find(|reader| reader.newer_operations > 0);
    match oldest {
        Some(reader) => text.push_str(&format!(
            " A compaction drops those that no reader needs; the oldest is a {}, {:.0} s old, {} behind.",
            reader.kind,
            reader.age.as_secs_f64(),
            counted(reader.newer_operations, "operation")
        )),
        None => text.push_str(" A compaction of the range drops them."),
    }
    text
}
