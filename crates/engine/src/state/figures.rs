//! Figures: what was counted and observed, in the manifest and after the next open.
//!
//! Writes, background traffic, sampled lookups, scans and filters are counted in memory. An edit that is
//! written anyway takes the totals along once in [`INTERVAL_NS`], and the last edit before closing always
//! does. An open adds the recorded totals to its counters, which then tell of the database's life.
//!
//! # Invariants
//! * LF1. Figures decide nothing about the data: a keyspace without readable figures begins at zero, and no
//!   open fails because of them.
//! * LF2. A crash loses what was counted since the last record, and nothing is counted twice: operations in
//!   memtables are among those recorded, and those that replay brings back into memtables are taken off.
//! * LF3. What follows differences (the tuning of filters, merges that scans trigger, warming by flushes)
//!   begins at the restored totals.

use crate::state::counters::Counters;
use crate::state::keyspace::KeyspaceState;
use crate::state::store::{Installed, Store, Writing};
use esker_base::KeyspaceId;
use esker_filter::watch::{Observed, SAMPLE, millionths};
use esker_version::{
    DatabaseState, EditOp, KeyspaceFigures, LevelFigures, LevelIndex, ScanFigures, VersionEdit,
};
use esker_view::read::scan_tally::Scans;
use esker_view::tree::TableFiles;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Edits take figures along once a minute: some hundred bytes for each keyspace that was used, and a crash
/// loses no more than a minute of writing.
const INTERVAL_NS: u64 = 60_000_000_000;

/// The most that a stored total of the database counts as: sums stay far from overflow.
const MAX_TOTAL: u64 = 1 << 56;

/// Numbers of the database's totals in the manifest. Persisted: they never change.
mod number {
    pub(super) const COUNTED_SINCE_MS: u32 = 1;
    pub(super) const BATCHES: u32 = 2;
    pub(super) const ENTRIES: u32 = 3;
    pub(super) const STALLS: u32 = 4;
    pub(super) const STALL_NS: u32 = 5;
    pub(super) const DELAYS: u32 = 6;
    pub(super) const DELAY_NS: u32 = 7;
}

/// Adds the figures that have changed to an edit, if the last record is old enough. The caller holds the
/// manifest's lock and not that of commits.
pub(crate) fn record_if_due(
    store: &Store,
    writing: &Writing,
    installed: &mut Installed,
    edit: &mut VersionEdit,
) {
    if store.monotonic_ns().saturating_sub(installed.figures_ns) >= INTERVAL_NS {
        record(store, writing, installed, edit);
    }
}

/// Adds the figures that have changed to an edit. The caller holds the manifest's lock and not that of
/// commits.
pub fn record(store: &Store, writing: &Writing, installed: &mut Installed, edit: &mut VersionEdit) {
    installed.figures_ns = store.monotonic_ns();
    let (batches, entries, put_bytes) = committed(writing);
    let counters = &store.counters;
    let totals = [
        (number::COUNTED_SINCE_MS, counters.counted_since_ms),
        (number::BATCHES, counters.earlier_batches + batches),
        (number::ENTRIES, counters.earlier_entries + entries),
        (number::STALLS, counters.stalls.load(Relaxed)),
        (number::STALL_NS, counters.stall_ns.load(Relaxed)),
        (number::DELAYS, counters.delays.load(Relaxed)),
        (number::DELAY_NS, counters.delay_ns.load(Relaxed)),
    ];
    for (number, value) in totals {
        if value != installed.state.counters.get(&number).copied().unwrap_or(0) {
            edit.push(EditOp::Counter { number, value });
        }
    }
    for keyspace in store.all_keyspaces().iter() {
        let Some(stored) = installed.state.keyspace(keyspace.id) else { continue };
        let put_bytes = put_bytes.get(&keyspace.id).copied().unwrap_or(0);
        let figures = figures_of(keyspace, &store.files, put_bytes);
        let is_known = match &stored.figures {
            Some(known) => **known == figures,
            None => figures == KeyspaceFigures::default(),
        };
        if !is_known {
            edit.push(EditOp::Figures { keyspace: keyspace.id, figures: Arc::new(figures) });
        }
    }
}

/// Batches and entries since the open, and the bytes put into each keyspace.
fn committed(writing: &Writing) -> (u64, u64, HashMap<KeyspaceId, u64, foldhash::fast::FixedState>) {
    let state = writing.commit.lock();
    let written = state.keyspaces.iter().flatten().filter(|active| active.user_bytes > 0);
    let put_bytes = written.map(|active| (active.keyspace.id, active.user_bytes)).collect();
    (state.batches, state.entries, put_bytes)
}

/// The figures of a keyspace with `put_bytes` put since the open.
fn figures_of(keyspace: &KeyspaceState, files: &TableFiles, put_bytes: u64) -> KeyspaceFigures {
    let view = keyspace.view.load();
    let in_memtables = view.memtables().map(|view| view.memtable.len()).sum();
    let book = keyspace.jobs.traffic.book();
    let (lookups, filters) = (files.lookup_stats_of(keyspace.id), files.known_watch_of(keyspace.id));
    let Scans { short, short_entries, long, long_entries } = keyspace.tuning.scans.seen();
    let level = |level: LevelIndex| {
        let (moved, read) = (book.level(level), lookups.level(level));
        let filters = filters.as_ref().map(|watch| watch.observed(level.get())).unwrap_or_default();
        LevelFigures {
            level,
            written_bytes: moved.written_bytes,
            read_bytes: moved.read_bytes,
            probed: read.probed,
            searched: read.searched,
            found: read.found,
            filter_probes: filters.probes,
            false_positives: filters.false_positives,
            expected_millionths: millionths(filters.expected_false_positives),
        }
    };
    let levels = (0..=LevelIndex::LAST.get()).filter_map(LevelIndex::new).map(level);
    KeyspaceFigures {
        writes: book.write_figures(put_bytes, in_memtables),
        lookups: lookups.figures(),
        scans: ScanFigures { short, short_entries, long, long_entries },
        jobs: book.job_figures(),
        levels: levels.filter(|figures| *figures != LevelFigures::new(figures.level)).collect(),
    }
}

/// The counters of a database, which begin at the recorded totals.
pub(crate) fn restored_counters(state: &DatabaseState, now_ms: u64) -> Counters {
    let total = |number| state.counters.get(&number).map_or(0, |&value| value.min(MAX_TOTAL));
    let mut counters = Counters::default();
    counters.counted_since_ms = state.counters.get(&number::COUNTED_SINCE_MS).map_or(now_ms, |&ms| ms);
    (counters.earlier_batches, counters.earlier_entries) = (total(number::BATCHES), total(number::ENTRIES));
    for (counter, number) in [
        (&counters.stalls, number::STALLS),
        (&counters.stall_ns, number::STALL_NS),
        (&counters.delays, number::DELAYS),
        (&counters.delay_ns, number::DELAY_NS),
    ] {
        counter.store(total(number), Relaxed);
    }
    counters
}

/// Lets the counters of a keyspace begin at its recorded figures, before it is used.
pub fn restore(keyspace: &KeyspaceState, files: &TableFiles, figures: &KeyspaceFigures) {
    let view = keyspace.view.load();
    let replayed = view.memtables().map(|view| view.memtable.len()).sum();
    keyspace.jobs.traffic.restore(figures, replayed);
    let lookups = files.lookup_stats_of(keyspace.id);
    lookups.restore(figures);
    let ScanFigures { short, short_entries, long, long_entries } = figures.scans;
    let tuning = &keyspace.tuning;
    tuning.scans.restore(&Scans { short, short_entries, long, long_entries });
    for level in figures.levels.iter().filter(|level| level.filter_probes > 0) {
        let seen = Observed {
            probes: level.filter_probes,
            false_positives: level.false_positives,
            expected_false_positives: level.expected_millionths as f64 / 1e6,
        };
        files.watch_of(keyspace.id).restore(level.level.get(), &seen);
        tuning.filters.begin_at(level.level, seen);
    }
    tuning.read_trigger.begin_at(tuning.scans.total());
    tuning.reads_at_flush.begin_at(lookups.seen_lookups().present * SAMPLE + tuning.scans.total());
}
