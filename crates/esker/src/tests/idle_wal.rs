//! The log's files after shrinking, and that no data is lost: on the simulated file system, step by step.

use crate::parts::StepBackground;
use crate::{Database, KeyspaceOptions, Options};
use esker_base::SeqNo;
use esker_engine::background::idle_wal;
use esker_engine::state::scheduler::{LOOK_INTERVAL, WorkerPool};
use esker_env::fault::{Crash, Fault, FaultFs, Operation, Rule, StrictFs, When};
use esker_env::{Env, FileSystem, ManualClock};
use esker_strategy::Strategy;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::Duration;

const SMALL: u64 = 256 << 10;
const WAL: &str = "/db/wal";

struct World {
    fs: StrictFs,
    faults: FaultFs,
    clock: Arc<ManualClock>,
    db: Database,
}

impl World {
    fn new() -> World {
        let fs = StrictFs::new();
        let faults = FaultFs::over_strict(fs.clone());
        let clock = Arc::new(ManualClock::new(1_000_000));
        let env =
            Env { clock: Arc::<ManualClock>::clone(&clock), ..Env::simulated(Arc::new(faults.clone()), 1) };
        let db = Database::open_with("/db", Options::default().memory_budget(64 << 20).env(env))
            .expect("a database");
        let world = World { fs, faults, clock, db };
        world.settle();
        world
    }

    fn settle(&self) {
        self.db.store().scheduler.request(WorkerPool::Compaction);
        while self.db.step_background() {}
    }

    /// Two checks between which nothing is written.
    fn idle(&self) {
        for _ in 0..2 {
            self.clock.advance(LOOK_INTERVAL);
            self.settle();
        }
    }

    fn fill(&self, round: u8) {
        (0..40_000).for_each(|number| self.put(number, round));
        self.settle();
    }

    fn put(&self, number: u32, round: u8) {
        self.db.default_keyspace().put(number.to_be_bytes(), [round; 40]).expect("a put");
    }

    fn log_bytes(&self) -> Vec<u64> {
        let files = self.fs.list(Path::new(WAL)).expect("a directory");
        let bytes = |name: &str| self.fs.file_len(&Path::new(WAL).join(name)).expect("a length");
        files.iter().filter_map(|file| bytes(&file.name)).collect()
    }

    /// Checks the value found after this process is killed and the database reopened.
    fn expect_after_kill(&self, number: u32, round: u8) {
        let env = Env::simulated(Arc::new(self.fs.crash(Crash::Process)), 2);
        let db = Database::open_with("/db", Options::default().env(env)).expect("a database");
        assert_eq!(
            db.default_keyspace().get(number.to_be_bytes()).expect("a get").as_deref(),
            Some(&[round; 40][..])
        );
    }
}

#[test]
fn an_idle_database_has_one_small_log_file() {
    let world = World::new();
    world.db.compact_all().expect("a compaction of nothing");
    assert_eq!(world.log_bytes(), [SMALL], "nothing to keep");
    world.put(1, 1);
    world.settle();
    assert_eq!(world.log_bytes(), [SMALL], "one record needs no other file");
    world.fill(2);
    assert!(world.log_bytes().len() > 3, "{:?}", world.log_bytes());
    world.db.compact_all().expect("a compaction");
    world.settle();
    assert_eq!(world.log_bytes(), [SMALL], "after a compaction that was asked for");
    world.fill(3);
    assert!(world.log_bytes().len() > 3, "{:?}", world.log_bytes());
    world.idle();
    world.idle();
    assert_eq!(world.log_bytes(), [SMALL], "idle");
    world.expect_after_kill(7, 3);
    // RS3: a small segment is not replaced again.
    let edits = world.db.metrics().log.segments_prepared;
    world.idle();
    assert_eq!(world.db.metrics().log.segments_prepared, edits);
    world.fill(4);
    world.put(7, 5);
    world.expect_after_kill(7, 5);
}

/// RS1: a record that exists only in the log keeps its segment.
#[test]
fn records_needed_by_memtables_stay() {
    let world = World::new();
    world.fill(1);
    world.db.flush().expect("a flush");
    world.put(7, 9);
    world.settle();
    let before = world.log_bytes();
    world.idle();
    let after = world.log_bytes();
    assert!(after.len() < before.len() && after.iter().any(|bytes| *bytes > SMALL), "{before:?} {after:?}");
    world.expect_after_kill(7, 9);
}

/// RS4: the compaction itself succeeds.
#[test]
fn no_compaction_fails_because_of_log_shrinking() {
    let world = World::new();
    world.fill(1);
    world.faults.add(Rule::new(Fault::Full, When::From(1)).on(Operation::Create).path("wal/"));
    world.db.compact_all().expect("a compaction, if no rest");
    assert!(world.log_bytes().len() > 3, "on a full disk the files at hand are kept");
    assert!(world.faults.injected() > 0);
    world.faults.heal();
    world.idle();
    assert_eq!(world.log_bytes(), [SMALL]);
}

/// RS6: shrinking while a writer waits for a segment, before the log worker prepares it, does not leave the
/// writer waiting. The worker finds the disk full, and is blocked where it waits for the deletion of a table,
/// before it checks the log again.
#[test]
fn shrinking_the_log_does_not_forget_a_waiting_writer() {
    let faults = FaultFs::over_strict(StrictFs::new());
    let env = Env { fs: Arc::new(faults.clone()), ..Env::real() };
    let options = Options::default().memory_budget(64 << 20).mapped_log(false);
    let options = options.stall_limit(Duration::from_secs(5)).env(env);
    let db = Database::open_with(
        "/db",
        options.keyspace_options(KeyspaceOptions::default().strategy(Strategy::None)),
    )
    .expect("a database");
    let fill = |db: &Database| {
        (0..10_000u32).for_each(|number| {
            db.default_keyspace().put(number.to_be_bytes(), [1; 40]).expect("room in the log");
        });
    };
    for _ in 0..2 {
        // Enough for another segment, so that the memtables' share has been recalled, which the writer below
        // must not be notified of.
        fill(&db);
        db.default_keyspace().flush().expect("a flush");
    }
    let (arrived, arrives) = channel();
    let (gate, opened) = channel::<()>();
    faults.interrupt(Operation::Remove, ".sst", move || {
        arrived.send(()).expect("the test waits for it");
        let _ = opened.recv();
    });
    db.compact_all().expect("a compaction, after which the log rests");
    arrives.recv().expect("the deletion worker deletes what was merged");
    faults.add(Rule::new(Fault::Full, When::Nth(1)).on(Operation::Create).path(".seg"));
    let writing = db.clone();
    let writer = Env::real().spawn("writing", move || fill(&writing)).expect("a thread");
    let store = db.store();
    while store.counters.waiting_writes().is_empty() {
        std::thread::yield_now();
    }
    idle_wal::shrink_log_if_still_at(store, SeqNo::new(store.visible.load(Ordering::Acquire)));
    gate.send(()).expect("the pool waits for it");
    writer.join().expect("all puts done");
}
