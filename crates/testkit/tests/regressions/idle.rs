//! Background work ends, and takes no idle rounds on the way.

use crate::simulated_env::{DIR, SimulatedEnv, settle};
use esker::metrics::Metrics;
use esker::parts::env::SeededRandom;
use esker::{Database, KeyspaceOptions};

/// Jobs done so far that changed something.
fn work_done(metrics: &Metrics) -> u64 {
    let of_keyspaces = metrics.keyspaces.iter();
    let jobs: u64 =
        of_keyspaces.map(|keyspace| keyspace.flushes + keyspace.compactions + keyspace.trivial_moves).sum();
    jobs + metrics.log.segments_prepared
}

/// Counts the steps of `calls` and compares them with the work done.
fn expect_no_idle_rounds(db: &Database, what: &str, calls: impl FnOnce() -> usize) {
    let before = work_done(&db.metrics());
    let steps = calls() as u64;
    let done = work_done(&db.metrics()) - before;
    // Beside the steps with work, each pool may check once for an earlier request and once more at the end; a
    // job may make files obsolete, which are deleted in one step.
    let most = 2 * done + 6;
    assert!(steps <= most, "{what}: {steps} steps for {done} pieces of work");
}

/// Guards that a pool which finds nothing to do is not requested again until something has changed.
#[test]
fn background_work_takes_no_more_steps_than_there_are_things_to_do() {
    let strategies = [
        "partitioned",
        "leveled:10",
        "leveled:1.5",
        "tiered:4",
        "lazy-leveled:4",
        "fluid:3,2,2",
        "none",
        "partial:2,hottest",
        "golden-ratio",
        "fifo:20KiB",
    ];
    for (seed, name) in strategies.into_iter().enumerate() {
        let simulated = SimulatedEnv::new(seed as u64);
        let keyspace = KeyspaceOptions::default()
            .strategy(name.parse().unwrap())
            .level0_stop_runs(6)
            .write_buffer_size(4 << 10)
            .table_size(8 << 10);
        let db = Database::open_with(DIR, simulated.options().keyspace_options(keyspace)).unwrap();
        let other = db.keyspace("other").unwrap();
        let random = SeededRandom::new(seed as u64);
        for round in 0..20 {
            for _ in 0..8 {
                // Batches, because a step may run after every write, and only the steps that are left count.
                let mut batch = db.batch();
                for _ in 0..50 {
                    let target = if random.below(3) == 0 { &other } else { db.default_keyspace() };
                    batch.put(target, random.below(1000).to_be_bytes(), [7; 60]);
                }
                db.write(&batch).unwrap();
            }
            expect_no_idle_rounds(&db, &format!("{name}, round {round}"), || settle(&db));
            assert_eq!(settle(&db), 0, "{name}: settled work begins again by itself");
        }
        db.drain().unwrap();
        settle(&db);
        // With nothing to do, a wait returns at once.
        expect_no_idle_rounds(&db, name, || {
            db.drain().unwrap();
            db.flush().unwrap();
            settle(&db)
        });
        assert_eq!(
            db.metrics().keyspaces.iter().map(|keyspace| keyspace.compaction_debt_bytes).sum::<u64>(),
            0
        );
    }
}
