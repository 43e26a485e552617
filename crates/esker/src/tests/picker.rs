//! Background work without a request by a write: on the simulated file system, step by step.

use crate::options::PerLevel;
use crate::parts::StepBackground;
use crate::{Database, KeyspaceOptions, Options};
use esker_codec::Codec;
use esker_engine::background::idle::IDLE_SEAL_BYTES;
use esker_engine::state::scheduler::{LOOK_INTERVAL, WorkerPool};
use esker_engine::state::shape;
use esker_env::fault::{StrictFs, StrictOptions};
use esker_env::{Clock, Env, ManualClock};
use esker_strategy::upper_bytes;
use esker_version::LevelIndex;
use esker_view::read::scan_tally::NOTIFY_EVERY;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const KEYS: u64 = 4_000;

struct World {
    clock: Arc<ManualClock>,
    db: Database,
}

impl World {
    fn new() -> World {
        let clock = Arc::new(ManualClock::new(1_000_000));
        let env = Env::simulated(Arc::new(StrictFs::new()), 1);
        let env = Env { clock: Arc::<ManualClock>::clone(&clock), ..env };
        let keyspace = KeyspaceOptions::default().table_size(16 << 10).block_size(512);
        let options = Options::default().memory_budget(64 << 20).keyspace_options(keyspace).env(env);
        World { clock, db: Database::open_with("/db", options).expect("a database") }
    }

    /// Fills the last level.
    fn fill(&self) {
        (0..KEYS).for_each(|number| self.db.default_keyspace().put(key(number), [7; 40]).expect("a put"));
        self.db.compact_all().expect("a compaction");
        self.settle();
    }

    /// Lets the compaction worker check, and runs everything that follows.
    fn settle(&self) {
        self.db.store().scheduler.request(WorkerPool::Compaction);
        while self.db.step_background() {}
    }

    /// Uses up the idle budget.
    fn spend_idle_budget(&self) {
        let store = self.db.store();
        store.idle_budget.lock().spend(u64::MAX, store.monotonic_ns());
    }

    fn pass(&self, time: Duration) {
        self.clock.advance(time);
        self.settle();
    }

    fn tables(&self) -> usize {
        self.db.default_keyspace().state().view.load().tree.parts().count()
    }

    fn compacted_bytes(&self) -> u64 {
        self.db.default_keyspace().state().jobs.traffic.book().compactions().read_bytes
    }

    fn entries_in_memory(&self) -> u64 {
        self.db.default_keyspace().state().view.load().memtables().map(|view| view.memtable.len()).sum()
    }
}

fn key(number: u64) -> String {
    format!("a key of some length {number:08}")
}

#[test]
fn tombstones_in_memory_go_when_nothing_is_written_any_more() {
    let world = World::new();
    world.fill();
    assert!(world.tables() > 4);
    (0..KEYS).for_each(|number| world.db.default_keyspace().delete(key(number)).expect("a delete"));
    world.settle();
    assert_eq!(world.entries_in_memory(), KEYS, "while writes come, memtables fill");
    world.pass(LOOK_INTERVAL / 2);
    assert_eq!(world.entries_in_memory(), KEYS);
    world.pass(LOOK_INTERVAL / 2);
    assert_eq!((world.entries_in_memory(), world.tables()), (0, 0));
    // A memtable that is not worth a table stays.
    world.db.default_keyspace().put("small", "value").expect("a put");
    world.settle();
    world.pass(LOOK_INTERVAL);
    assert_eq!((world.entries_in_memory(), world.tables()), (1, 0));
    world.db.default_keyspace().put("large", vec![0; IDLE_SEAL_BYTES as usize]).expect("a put");
    world.settle();
    world.pass(LOOK_INTERVAL);
    assert_eq!(world.entries_in_memory(), 0);
    assert!(world.tables() > 0);
}

#[test]
fn an_idle_tree_converges_where_it_is_worth_it() {
    let world = World::new();
    world.fill();
    let rewrite = |numbers: std::ops::Range<u64>| {
        numbers.for_each(|number| world.db.default_keyspace().put(key(number), [8; 40]).expect("a put"));
        world.db.flush().expect("a flush");
        world.settle();
    };
    let runs = || world.db.default_keyspace().state().view.load().tree.runs.len();
    rewrite(0..KEYS);
    assert_eq!(runs(), 2, "a small garbage budget is not exceeded yet");
    world.pass(LOOK_INTERVAL);
    assert_eq!(runs(), 1);
    // Three keys do not justify rewriting a table of the last level, but the idle budget allows it.
    rewrite(0..3);
    world.pass(LOOK_INTERVAL);
    assert_eq!(runs(), 1);
    world.spend_idle_budget();
    rewrite(0..3);
    world.pass(LOOK_INTERVAL);
    assert_eq!(runs(), 2, "the allowance is used up");
    rewrite(0..KEYS);
    world.pass(LOOK_INTERVAL);
    assert_eq!(runs(), 1, "what is worth it needs none");
    rewrite(0..3);
    world.pass(LOOK_INTERVAL);
    assert_eq!(runs(), 2);
    world.pass(Duration::from_secs(24 * 60 * 60));
    assert_eq!(runs(), 1, "the allowance of the next day");
}

/// A tree with a few small runs above its last level, which is scanned.
struct Scanned {
    world: World,
}

impl Scanned {
    fn new() -> Scanned {
        let world = World::new();
        world.fill();
        Scanned { world }
    }

    fn runs(&self) -> usize {
        self.world.db.default_keyspace().state().view.load().tree.runs.len()
    }

    fn upper_bytes(&self) -> u64 {
        upper_bytes(&self.world.db.default_keyspace().state().view.load().tree.version)
    }

    /// `count` scans, and the background work that they request.
    fn scan(&self, count: u64) {
        for number in 0..count {
            let mut cursor = self.world.db.default_keyspace().cursor().expect("a cursor");
            cursor.seek(key(number % KEYS)).expect("a seek");
            assert!(cursor.entry().is_some());
        }
        while self.world.db.step_background() {}
    }

    fn flush(&self) {
        (0..KEYS)
            .step_by(2)
            .for_each(|number| self.world.db.default_keyspace().put(key(number), [8; 40]).expect("a put"));
        self.world.db.flush().expect("a flush");
        self.world.settle();
    }

    fn check(&self) {
        let keyspace = self.world.db.default_keyspace();
        let entries = keyspace.iter().map(|entry| entry.expect("an entry").1.into_vec());
        assert!(entries.enumerate().all(|(at, value)| value == [if at % 2 == 0 { 8 } else { 7 }; 40]));
    }
}

/// RG1 and RG2: scans that seek in several small runs have these merged, once, and the last level left alone.
#[test]
fn scans_trigger_a_merge_of_small_runs() {
    let tree = Scanned::new();
    (0..3).for_each(|_| tree.flush());
    assert_eq!(tree.runs(), 4);
    let (merged, upper) = (tree.world.compacted_bytes(), tree.upper_bytes());
    tree.scan(100);
    tree.world.settle();
    assert_eq!(tree.runs(), 4, "too few scans");
    // The scans themselves request the compaction worker.
    tree.scan(NOTIFY_EVERY);
    assert_eq!(tree.runs(), 2);
    let triggered = tree.world.compacted_bytes() - merged;
    assert!(triggered > 0 && triggered <= upper, "{triggered} of {upper} bytes");
    tree.scan(NOTIFY_EVERY * 4);
    tree.world.settle();
    assert_eq!((tree.runs(), tree.world.compacted_bytes()), (2, merged + triggered), "one run is the end");
    tree.check();
}

/// Earlier scans have later small runs merged, half a tier of them, before the next scan; without scans
/// nothing is merged.
#[test]
fn earlier_scans_trigger_a_merge_before_the_next_scan() {
    let tree = Scanned::new();
    tree.scan(NOTIFY_EVERY);
    let merged = tree.world.compacted_bytes();
    (0..3).for_each(|_| tree.flush());
    assert_eq!((tree.runs(), tree.world.compacted_bytes()), (4, merged), "three runs wait for a scan");
    tree.flush();
    assert_eq!(tree.runs(), 2, "four do not");
    tree.check();
    let tree = Scanned::new();
    let merged = tree.world.compacted_bytes();
    (0..4).for_each(|_| tree.flush());
    assert_eq!((tree.runs(), tree.world.compacted_bytes()), (5, merged), "there were no scans");
}

#[test]
fn tables_under_a_range_delete_are_dropped_unread() {
    let world = World::new();
    world.fill();
    let (tables, compacted) = (world.tables(), world.compacted_bytes());
    let keyspace = world.db.default_keyspace();
    let snapshot = world.db.snapshot();
    keyspace.delete_range(key(10)..key(KEYS - 10)).expect("a range delete");
    // Newer than the range delete, in the middle of it.
    world.db.default_keyspace().put(key(KEYS / 2), "new").expect("a put");
    world.db.flush().expect("a flush");
    world.settle();
    assert_eq!(world.tables(), tables + 1, "the snapshot sees what is in them");
    assert_eq!(keyspace.at(&snapshot).iter().count() as u64, KEYS);
    drop(snapshot);
    // The rest is not merged either.
    world.spend_idle_budget();
    // Dropping a snapshot makes no request; the worker checks by itself.
    world.pass(LOOK_INTERVAL);
    assert!(world.tables() <= 3, "{} of {tables} tables are left", world.tables());
    assert_eq!(world.compacted_bytes(), compacted, "nothing was read");
    let left: Vec<_> = keyspace.iter().map(|entry| entry.expect("an entry").0.into_vec()).collect();
    let expected = (0..10).chain([KEYS / 2]).chain(KEYS - 10..KEYS).map(|number| key(number).into_bytes());
    assert_eq!(left, expected.collect::<Vec<_>>());
}

#[test]
fn an_empty_answer_of_a_strategy_is_cached_until_something_changes() {
    let world = World::new();
    world.fill();
    let state = world.db.default_keyspace().state();
    let since = || state.jobs.no_plan_cache.lock().last.as_ref().map(|asked| asked.until_ns);
    world.settle();
    let first = since();
    assert!(first.is_some());
    let is_asked_again = |change: &dyn Fn()| {
        let before = since();
        world.clock.advance(Duration::from_nanos(1));
        change();
        world.settle();
        since() != before
    };
    assert!(!is_asked_again(&|| {}));
    assert!(
        !is_asked_again(&|| world.db.default_keyspace().put("k", "v").expect("a put")),
        "memory is not its business"
    );
    assert!(is_asked_again(&|| world.db.flush().expect("a flush")));
    let change = |options: KeyspaceOptions| options.block_size(1024);
    assert!(is_asked_again(&|| drop(world.db.default_keyspace().update_options(change).expect("options"))));
    let snapshot = world.db.snapshot();
    assert!(is_asked_again(&|| {}), "a snapshot is open");
    drop(snapshot);
    assert!(is_asked_again(&|| {}), "and has stopped");
    assert!(!is_asked_again(&|| {}));
    assert!(is_asked_again(&|| world.clock.advance(LOOK_INTERVAL)));
}

#[test]
fn tables_that_are_read_gain_heat() {
    let world = World::new();
    world.fill();
    let keyspace = world.db.default_keyspace();
    // The heat of each table, in key order.
    let heat = || -> Vec<u64> {
        let tree = Arc::clone(&keyspace.state().view.load().tree);
        let heat = keyspace.state().tuning.heat.lock().of_tree(&tree, world.db.store().monotonic_ns());
        let of_part = |id| heat.iter().find(|(part, _)| *part == id).map_or(0, |(_, heat)| *heat);
        tree.parts().map(|part| of_part(part.meta.id)).collect()
    };
    assert!(heat().iter().all(|&heat| heat == 0), "compactions do not count");
    let tables = heat().len();
    assert!(tables > 4);
    (0..KEYS / 2).for_each(|number| {
        assert!(world.db.default_keyspace().get(key(number)).expect("a lookup").is_some());
    });
    let warm = heat();
    assert!(warm[..tables / 2 - 1].iter().sum::<u64>() > 0, "{warm:?}");
    assert!(warm[tables / 2 + 1..].iter().all(|&heat| heat == 0), "{warm:?}");
    let others: Vec<String> = (KEYS / 2..KEYS).map(key).collect();
    assert!(keyspace.multi_get(&others).expect("lookups").iter().all(Option::is_some));
    let by_many = heat();
    assert!(by_many[tables / 2 + 1..].iter().sum::<u64>() > 0, "{by_many:?}");
    keyspace.range(key(100)..).next().expect("an entry").expect("which is read");
    assert_eq!(
        heat().iter().sum::<u64>(),
        by_many.iter().sum::<u64>() + 64,
        "a cursor counts where it begins"
    );
}

/// Work may become possible by time alone, without a request: a writer that waits for room in level 0
/// requests a check. Otherwise it would wait until the periodic check; here, where checks happen only on
/// request, for ever.
#[test]
fn a_writer_without_room_requests_work_that_time_has_made_possible() {
    const STOP_RUNS: u32 = 4;
    let lives = Duration::from_secs(100);
    let clock = Arc::new(ManualClock::new(1_000_000));
    let env =
        Env { clock: Arc::<ManualClock>::clone(&clock), ..Env::simulated(Arc::new(StrictFs::new()), 1) };
    let leveled = KeyspaceOptions::default().strategy("leveled:10".parse().unwrap());
    // Nothing is planned before it has expired.
    let keyspace = leveled.level0_trigger_runs(100).level0_stop_runs(STOP_RUNS).default_ttl(lives);
    let options =
        Options::default().memory_budget(64 << 20).keyspace_options(keyspace.write_buffer_entries(1));
    let db = Database::open_with("/db", options.env(env)).expect("a database");
    let level0 = || db.default_keyspace().state().view.load().tree.version.runs_of(LevelIndex::FLUSH).len();
    while level0() < STOP_RUNS as usize {
        db.default_keyspace().put("a", "value").expect("a put");
        db.flush().expect("a flush");
        while db.step_background() {}
    }
    let state = db.default_keyspace().state();
    assert!(state.must_compact_first() && !shape::can_compact(db.store(), state), "waiting would be useless");
    // The strategy was called shortly before, and its answer would be cached for longer than it is valid.
    clock.advance(lives - Duration::from_secs(2));
    db.default_keyspace().put("b", "value").expect("a put");
    db.store().scheduler.request(WorkerPool::Compaction);
    while db.step_background() {}
    assert!(
        state.jobs.no_plan_cache.lock().last.is_some() && !shape::can_compact(db.store(), state),
        "nothing has expired"
    );
    clock.advance(Duration::from_secs(3));
    assert!(!db.step_background() && shape::can_compact(db.store(), state), "the pool has no request");
    db.default_keyspace()
        .put("c", "a value that needs a new memtable")
        .expect("room, once the expired tables are gone");
    assert!(level0() < STOP_RUNS as usize);
    db.close().expect("the end");
}

/// The memory of a merge for a table until its end fits the share of merges in a small budget.
#[test]
fn tables_of_a_small_budget_are_small() {
    for (budget, most, least) in [(16u64 << 20, 6u64 << 20, 2), (64 << 20, 16 << 20, 1)] {
        let keyspace = KeyspaceOptions::default().compression(PerLevel::all(Codec::None));
        let env = Env::simulated(Arc::new(StrictFs::new()), 1);
        let options = Options::default().memory_budget(budget).keyspace_options(keyspace).env(env);
        let db = Database::open_with("/db", options).expect("a database");
        (0..12_000).for_each(|number| db.default_keyspace().put(key(number), [7; 1000]).expect("a put"));
        db.compact_all().expect("a compaction");
        let view = db.default_keyspace().state().view.load();
        let bytes: Vec<u64> = view.tree.version.parts().map(|(_, _, part)| part.bytes).collect();
        assert!(bytes.len() >= least && bytes.iter().all(|&bytes| bytes <= most), "{budget}: {bytes:?}");
    }
}

/// Each reading takes a microsecond, so that what is measured takes time though nothing sleeps.
#[derive(Debug, Default)]
struct TickingClock(AtomicU64);

impl Clock for TickingClock {
    fn wall_ms(&self) -> u64 {
        1_600_000_000_000
    }

    fn monotonic_ns(&self) -> u64 {
        self.0.fetch_add(1_000, Ordering::Relaxed)
    }
}

/// The calls of strategies until so many keyspaces have merged two runs each.
fn strategy_calls(keyspaces: usize) -> u64 {
    let strict = StrictFs::with_options(StrictOptions { record_trace: false, ..StrictOptions::default() });
    let mut env = Env::simulated(Arc::new(strict), 3);
    env.clock = Arc::new(TickingClock::default());
    let leveled = KeyspaceOptions::default().strategy("leveled:10".parse().expect("a strategy"));
    let options = Options::default().env(env).keyspace_options(leveled.level0_trigger_runs(2));
    let db = Database::open_with("/db", options).expect("opening");
    let keyspaces: Vec<_> =
        (0..keyspaces).map(|number| db.keyspace(&number.to_string()).expect("creating")).collect();
    for round in 0..4 {
        keyspaces.iter().for_each(|keyspace| keyspace.put("key", [round; 10]).expect("a put"));
        db.flush().expect("a flush");
    }
    let before = db.store().counters.strategy_calls.load(Ordering::Relaxed);
    db.drain().expect("draining");
    let merges: u64 = db.metrics().keyspaces.iter().map(|keyspace| keyspace.compactions).sum();
    assert!(merges >= keyspaces.len() as u64 / 2, "{merges} merges");
    db.store().counters.strategy_calls.load(Ordering::Relaxed) - before
}

/// The answers of all strategies are worked off for a while before all are asked again.
#[test]
fn merges_in_many_keyspaces_cost_a_number_of_questions_in_proportion() {
    let (few, many) = (strategy_calls(50), strategy_calls(400));
    assert!(many <= 16 * few, "{few} questions for 50 keyspaces, {many} for 400");
}
