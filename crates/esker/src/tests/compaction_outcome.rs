//! Writers that wait for merges, with other work in the compaction pool.

use crate::compaction_filter::{CompactionFilter, Decision};
use crate::options::BackgroundRates;
use crate::{Database, Keyspace, KeyspaceOptions, Options};
use esker_base::{Error, Result};
use esker_engine::state::scheduler::WorkerPool;
use esker_env::Env;
use esker_env::fault::{Fault, FaultFs, Operation, Rule, StrictFs, When};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Runs of level 0 at which writers wait.
const STOP_RUNS: u32 = 4;

/// Merges two runs at once; each write after the first needs a memtable of its own.
fn keyspace_options() -> KeyspaceOptions {
    let leveled = KeyspaceOptions::default().strategy("leveled:10".parse().expect("a strategy"));
    leveled.level0_trigger_runs(2).level0_stop_runs(STOP_RUNS).write_buffer_entries(1)
}

/// One compaction thread.
fn open(options: Options, faults: &FaultFs) -> Database {
    let env = Env { fs: Arc::new(faults.clone()), ..Env::real() };
    let options = options.memory_budget(64 << 20).mapped_log(false).compaction_threads(1);
    Database::open_with("/db", options.env(env)).expect("a database")
}

/// The first goes to the last level, and the others, which overlap it, to level 0.
fn add_run(keyspace: &Keyspace) {
    keyspace.put("key", [7; 100]).expect("a put");
    keyspace.flush().expect("a flush");
}

fn level0_runs(keyspace: &Keyspace) -> usize {
    let tree = Arc::clone(&keyspace.state().view.load().tree);
    tree.runs.iter().filter(|run| run.level == esker_version::LevelIndex::FLUSH).count()
}

/// A thread that writes twice; the second write finds level 0 full.
struct Writer {
    thread: JoinHandle<()>,
    told: Receiver<Result<()>>,
}

impl Writer {
    fn of(keyspace: &Keyspace) -> Writer {
        let (keyspace, (tells, told)) = (keyspace.clone(), channel());
        let writes = move || {
            let written = keyspace.put("a", "value").and_then(|()| keyspace.put("b", "value"));
            tells.send(written).expect("the test waits for it");
        };
        Writer { thread: Env::real().spawn("writer", writes).expect("a thread"), told }
    }

    fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    fn told(self) -> Result<()> {
        let told = self.told.recv().expect("an answer");
        self.thread.join().expect("no panic");
        told
    }
}

fn wait_until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        std::thread::yield_now();
    }
}

/// Blocks merges until it is opened.
#[derive(Default)]
struct Gate(Mutex<(bool, bool)>, Condvar);

impl Gate {
    fn is_reached(&self) -> bool {
        self.0.lock().0
    }

    fn open(&self) {
        self.0.lock().1 = true;
        self.1.notify_all();
    }
}

impl CompactionFilter for Gate {
    fn name(&self) -> &str {
        "gate"
    }

    fn filter(&self, _: &[u8], _: &[u8]) -> Decision {
        let mut state = self.0.lock();
        state.0 = true;
        self.1.wait_while(&mut state, |(_, is_open)| !*is_open);
        Decision::Keep
    }
}

/// WM1: a failure in one keyspace is not returned to a writer of another, for which a job runs.
#[test]
fn failures_in_one_keyspace_are_not_returned_to_writers_of_another() {
    let faults = FaultFs::new(Arc::new(StrictFs::new()));
    let db = open(Options::default(), &faults);
    let broken = db.keyspace_with("broken", keyspace_options()).expect("a keyspace");
    add_run(&broken);
    let file = broken.state().view.load().tree.parts().next().expect("a table").meta.file;
    let path = esker_view::paths::table(std::path::Path::new("/db"), file);
    let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
    faults.add(Rule::new(Fault::Io, When::From(1)).on(Operation::Read).path(name));
    (0..2).for_each(|_| add_run(&broken));
    let store = db.store();
    wait_until(|| store.scheduler.error(WorkerPool::Compaction).is_some());
    // Another one is merged meanwhile, for a long time.
    let gate = Arc::new(Gate::default());
    let filter = Arc::clone(&gate) as Arc<dyn CompactionFilter>;
    let other = db.keyspace_with("other", keyspace_options().compaction_filter(filter)).expect("a keyspace");
    (0..3).for_each(|_| add_run(&other));
    wait_until(|| gate.is_reached());
    while level0_runs(&other) < STOP_RUNS as usize {
        add_run(&other);
    }
    assert!(store.scheduler.error(WorkerPool::Compaction).is_some(), "the pool has not forgotten it");
    let writer = Writer::of(&other);
    wait_until(|| writer.is_finished() || store.counters.is_waited_for(WorkerPool::Compaction));
    for _ in 0..1_000 {
        std::thread::yield_now();
    }
    let was_told = writer.is_finished();
    gate.open();
    let written = writer.told();
    assert!(!was_told && written.is_ok(), "room, once the tables are merged: {written:?}");
    // The writer of the broken keyspace gets the error once that has failed again, whatever else succeeds.
    wait_until(|| broken.state().jobs.compaction_outcome.last_failure().is_some());
    while level0_runs(&broken) < STOP_RUNS as usize {
        add_run(&broken);
    }
    let told = Writer::of(&broken).told();
    assert!(matches!(told, Err(Error::Io(_))), "{told:?}");
    let stalls = db.stalls();
    let errors: Vec<bool> = ["broken", "other"]
        .iter()
        .map(|name| {
            let stall = stalls.keyspaces.iter().find(|stall| stall.name == *name).expect("a keyspace");
            stall.blocking.as_ref().is_some_and(|blocking| blocking.error.is_some())
        })
        .collect();
    assert_eq!(errors, [true, false], "{stalls}");
    faults.heal();
    db.close().expect("the end");
}

/// WM2: a job of low priority is rate-limited until a writer waits for it. At the rate it would take twice as
/// long as the writer's time limit.
#[test]
fn a_job_that_writers_wait_for_is_not_held_to_a_rate() {
    const RATE: u64 = 64 << 10;
    const VALUE_BYTES: usize = 10 * RATE as usize;
    let faults = FaultFs::new(Arc::new(StrictFs::new()));
    let slow = BackgroundRates { write_bytes_per_second: Some(RATE), ..BackgroundRates::default() };
    let options = Options::default().background_rates(slow).stall_limit(Duration::from_secs(10));
    let plain = esker_codec::Codec::None;
    let keyspace = keyspace_options().compression(crate::options::PerLevel::all(plain)).table_size(64 << 10);
    let db = open(options.keyspace_options(keyspace), &faults);
    let keyspace = db.default_keyspace();
    // A batch may exceed the usual memtable size.
    for _ in 0..3 {
        let mut batch = db.batch();
        ["b", "c"].iter().for_each(|key| batch.put(keyspace, key, vec![7; VALUE_BYTES]));
        db.write(&batch).expect("a batch");
        keyspace.flush().expect("a flush");
    }
    let store = db.store();
    wait_until(|| matches!(&store.jobs.progress(0)[..], [job] if job.written_bytes > 0));
    let job = store.jobs.progress(0)[0].number;
    while level0_runs(keyspace) < STOP_RUNS as usize {
        keyspace.put("c", "small").expect("a put");
        keyspace.flush().expect("a flush");
    }
    assert!(store.jobs.progress(0).iter().any(|running| running.number == job), "it waits for its turn");
    Writer::of(keyspace).told().expect("room, for the job goes on");
    db.close().expect("the end");
}
