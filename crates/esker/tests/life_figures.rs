//! Figures of the database's life: closing, opening and crashes, and what the last record says afterwards.

mod common;

use common::{key, tiny, value};
use esker::metrics::{KeyspaceMetrics, LevelInfo, Metrics};
use esker::{Database, KeyspaceOptions, Options, Result};
use esker_env::fault::{Crash, StrictFs};
use esker_env::{Env, ManualClock};
use std::sync::Arc;
use std::time::Duration;

const ENTRIES: u64 = 3000;

/// A file system, and a clock that goes on over all opens.
struct World {
    fs: Arc<StrictFs>,
    clock: Arc<ManualClock>,
}

impl World {
    fn new() -> World {
        World { fs: Arc::new(StrictFs::new()), clock: Arc::new(ManualClock::new(1_800_000_000_000)) }
    }

    /// The same time, and the files that a crash of the process leaves.
    fn after_crash(&self) -> World {
        World { fs: Arc::new(self.fs.crash(Crash::Process)), clock: Arc::clone(&self.clock) }
    }

    fn options(&self) -> Options {
        let env = Env { clock: Arc::clone(&self.clock) as _, ..Env::simulated(Arc::clone(&self.fs) as _, 5) };
        Options::default().env(env).keyspace_options(tiny())
    }

    fn open(&self) -> Result<Database> {
        Database::open_with("/db", self.options())
    }

    fn open_read_only(&self) -> Result<Database> {
        Database::open_with("/db", self.options().read_only(true))
    }
}

/// Writes, deletes, merges, and then lookups of present and absent keys and scans of both lengths.
fn work(db: &Database, round: u64) -> Result<()> {
    let keyspace = db.default_keyspace();
    for number in 0..ENTRIES {
        keyspace.put(key(number), value(number, round))?;
        if number % 9 == 0 {
            keyspace.delete(key(number + 1))?;
        }
    }
    db.flush()?;
    db.compact_all()?;
    for number in 0..ENTRIES {
        keyspace.get(key(number))?;
        keyspace.get([key(number), b"x".to_vec()].concat())?;
    }
    for length in [1, 2, 2000] {
        assert_eq!(keyspace.range(key(0)..).take(length).count(), length);
    }
    Ok(())
}

/// What is counted of a keyspace's life.
fn life(metrics: &KeyspaceMetrics) -> impl PartialEq + std::fmt::Debug + use<> {
    let seen = metrics.amplification.clone();
    let jobs = (metrics.flushes, metrics.compactions, metrics.trivial_moves);
    let bytes = (metrics.flushed_bytes, metrics.compacted_in_bytes, metrics.compacted_out_bytes);
    let reads = (seen.reads.lookups, seen.reads.tables_searched, seen.reads.found_in_tables);
    let levels: Vec<_> =
        seen.levels.iter().map(|of| (of.number, of.written_bytes, of.read_bytes, of.found)).collect();
    // Microseconds of jobs are kept, not nanoseconds.
    let causes: Vec<_> = seen.causes.iter().map(|of| (of.cause, of.jobs, of.busy.as_micros())).collect();
    (metrics.user_bytes, seen.ingested_bytes, jobs, bytes, reads, levels, causes)
}

fn totals(metrics: &Metrics) -> [u64; 7] {
    let Metrics { batches, entries, user_bytes, stalls, delays, counted_since_ms, .. } = *metrics;
    [batches, entries, user_bytes, stalls, delays, counted_since_ms, metrics.delay_time.as_nanos() as u64]
}

fn filters(db: &Database) -> Vec<(u8, u64, u64)> {
    let of = |level: &LevelInfo| (level.number, level.filters.probes, level.filters.false_positives);
    db.levels()[0].levels.iter().map(of).collect()
}

/// LF2.
#[test]
fn figures_outlast_closing_and_opening_and_are_counted_once() -> Result<()> {
    let world = World::new();
    let mut last = None;
    for round in 0..3 {
        let db = world.open()?;
        if let Some((entries, jobs)) = last {
            assert_eq!((db.metrics().entries, db.metrics().keyspaces[0].compactions), (entries, jobs));
        }
        work(&db, round)?;
        let (before, operations) = (db.metrics(), db.default_keyspace().operations());
        let filters_before = filters(&db);
        let grown = before.entries * 3 / (ENTRIES + ENTRIES.div_ceil(9)) / 3;
        assert_eq!(grown, round + 1, "each round has counted as much");
        assert!(before.keyspaces[0].amplification.reads.lookups > 0 && operations.absent_reads > 0.0);
        assert!(operations.long_scans > 0.0 && operations.short_scans > 0.0, "{operations:?}");
        assert!(filters_before.iter().any(|(_, probes, _)| *probes > 0), "{filters_before:?}");
        db.close()?;
        drop(db);
        world.clock.advance(Duration::from_secs(5));

        for read_only in [true, false] {
            let reopened = if read_only { world.open_read_only()? } else { world.open()? };
            let after = reopened.metrics();
            assert_eq!(totals(&after), totals(&before));
            assert_eq!(life(&after.keyspaces[0]), life(&before.keyspaces[0]));
            assert_eq!(reopened.default_keyspace().operations(), operations);
            assert_eq!(filters(&reopened), filters_before);
            assert_eq!(after.log.flushes, 0, "the log's counters are those of the open");
            let advice = reopened.default_keyspace().advise(&Default::default())?;
            assert_eq!(advice.usage.operations.puts, operations.puts);
            reopened.close()?;
        }
        last = Some((before.entries, before.keyspaces[0].compactions));
    }
    Ok(())
}

/// LF2, where memtables are not flushed: their operations come back with the log.
#[test]
fn operations_that_only_the_log_has_are_counted_once() -> Result<()> {
    let world = World::new();
    let options = || world.options().flush_on_close(false).keyspace_options(KeyspaceOptions::default());
    let db = Database::open_with("/db", options())?;
    (0..500).try_for_each(|number| db.default_keyspace().put(key(number), value(number, 0)))?;
    db.close()?;
    for read_only in [true, false, true, false] {
        let db = Database::open_with("/db", options().read_only(read_only))?;
        let (metrics, operations) = (db.metrics(), db.default_keyspace().operations());
        assert_eq!((metrics.entries, operations.puts), (500, 500.0), "read-only: {read_only}");
        db.close()?;
    }
    Ok(())
}

/// LF2: what a crash loses was counted since the last record, and that is a minute old while edits are
/// written.
#[test]
fn a_crash_loses_what_was_counted_since_the_last_record() -> Result<()> {
    let world = World::new();
    let db = world.open()?;
    work(&db, 0)?;
    let crashed = world.after_crash().open()?;
    assert_eq!(crashed.metrics().entries, 0, "edits of the first minute take no figures along");
    crashed.close()?;

    world.clock.advance(Duration::from_secs(61));
    db.default_keyspace().put(key(1), value(1, 1))?;
    let recorded = db.metrics();
    db.flush()?;
    work(&db, 1)?;
    assert!(db.metrics().entries > recorded.entries + ENTRIES);
    let crashed = world.after_crash();
    let reopened = crashed.open()?;
    assert_eq!(reopened.metrics().entries, recorded.entries);
    let keyspace = &reopened.metrics().keyspaces[0];
    assert_eq!(keyspace.compactions, recorded.keyspaces[0].compactions);
    assert_eq!(
        reopened.default_keyspace().get(key(5))?.as_deref(),
        Some(&value(5, 1)[..]),
        "data is not lost"
    );
    reopened.close()?;
    assert_eq!(crashed.open_read_only()?.metrics().entries, recorded.entries);
    db.close()
}

/// LF3.
#[test]
fn restored_scans_trigger_no_merge() -> Result<()> {
    let world = World::new();
    let db = world.open()?;
    work(&db, 0)?;
    for number in 0..20_000 {
        db.default_keyspace().range(key(number % ENTRIES)..).next().transpose()?;
    }
    db.close()?;
    let db = world.open()?;
    // Four small runs: with the scans of the last open they would be merged at once.
    for round in 0..4 {
        db.default_keyspace().put(key(round), value(round, 9))?;
        db.flush()?;
    }
    db.drain()?;
    let caused = db.metrics().keyspaces[0].amplification.causes.clone();
    assert!(caused.iter().all(|info| info.cause.name() != "scans"), "{caused:?}");
    db.close()
}
