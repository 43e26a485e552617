//! What background work does without being asked by a write: on the simulated file system, step by step.

use super::{IDLE_SEAL_BYTES, LOOK_INTERVAL, PAUSE_INTERVAL};
use crate::jobs::JobFacts;
use crate::paid::{LOOK_EVERY_SCANS, RUN_BYTES};
use crate::scheduler::Lane;
use crate::{Database, KeyspaceOptions, Options, PerLevel};
use esker_codec::Codec;
use esker_env::fault::StrictFs;
use esker_env::{Env, ManualClock, SeededRandom};
use esker_strategy::{Busy, IDLE_ALLOWANCE_BYTES, Reason, upper_bytes};
use esker_version::LevelIndex;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const KEYS: u64 = 4_000;

struct World {
    clock: Arc<ManualClock>,
    db: Database,
}

impl World {
    fn new() -> World {
        World::seeded(1)
    }

    /// The seed decides in which order lanes work.
    fn seeded(seed: u64) -> World {
        let clock = Arc::new(ManualClock::new(1_000_000));
        let env = Env::simulated(Arc::new(StrictFs::new()), seed);
        let env = Env { clock: Arc::<ManualClock>::clone(&clock), ..env };
        let keyspace = KeyspaceOptions::default().table_size(16 << 10).block_size(512);
        let options = Options::default().memory_budget(64 << 20).keyspace_options(keyspace).env(env);
        World { clock, db: options.open("/db").expect("a database") }
    }

    /// Fills the last level.
    fn fill(&self) {
        (0..KEYS).for_each(|number| self.db.put(key(number), [7; 40]).expect("a put"));
        self.db.compact_all().expect("a compaction");
        self.settle();
    }

    /// Lets the compaction lane look, and everything that follows from it happen.
    fn settle(&self) {
        self.db.store().scheduler.request(Lane::Compaction);
        while self.db.step_background() {}
    }

    /// Leaves nothing of what an idle database may rewrite without its being worth it.
    fn spend_leisure(&self) {
        self.spend_of_leisure(u64::MAX);
    }

    fn spend_of_leisure(&self, bytes: u64) {
        let store = self.db.store();
        store.leisure.lock().spend(bytes, store.monotonic_ns());
    }

    fn pass(&self, time: Duration) {
        self.clock.advance(time);
        self.settle();
    }

    fn tables(&self) -> usize {
        self.db.default_keyspace().state().view.load().tree.parts().count()
    }

    fn compacted_bytes(&self) -> u64 {
        self.db.default_keyspace().state().traffic.book().compactions().read_bytes
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
    (0..KEYS).for_each(|number| world.db.delete(key(number)).expect("a delete"));
    world.settle();
    assert_eq!(world.entries_in_memory(), KEYS, "while writes come, memtables fill");
    world.pass(LOOK_INTERVAL / 2);
    assert_eq!(world.entries_in_memory(), KEYS);
    world.pass(LOOK_INTERVAL / 2);
    assert_eq!((world.entries_in_memory(), world.tables()), (0, 0));
    // A memtable that is not worth a table stays.
    world.db.put("small", "value").expect("a put");
    world.settle();
    world.pass(LOOK_INTERVAL);
    assert_eq!((world.entries_in_memory(), world.tables()), (1, 0));
    world.db.put("large", vec![0; IDLE_SEAL_BYTES as usize]).expect("a put");
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
        numbers.for_each(|number| world.db.put(key(number), [8; 40]).expect("a put"));
        world.db.flush().expect("a flush");
        world.settle();
    };
    let runs = || world.db.default_keyspace().state().view.load().tree.runs.len();
    rewrite(0..KEYS);
    assert_eq!(runs(), 2, "a small garbage budget is not exceeded yet");
    world.pass(LOOK_INTERVAL);
    assert_eq!(runs(), 1);
    // Three keys are not worth a table of the last level, but there is an allowance, which is for that.
    rewrite(0..3);
    world.pass(LOOK_INTERVAL);
    assert_eq!(runs(), 1);
    world.spend_leisure();
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

/// A tree that is scanned, with a few small runs above its last level.
struct Scanned {
    world: World,
}

impl Scanned {
    fn new() -> Scanned {
        Scanned::seeded(1)
    }

    fn seeded(seed: u64) -> Scanned {
        let world = World::seeded(seed);
        world.fill();
        Scanned { world }
    }

    fn runs(&self) -> usize {
        self.world.db.default_keyspace().state().view.load().tree.runs.len()
    }

    fn upper_bytes(&self) -> u64 {
        upper_bytes(&self.world.db.default_keyspace().state().view.load().tree.version)
    }

    /// So many scans, and what they ask for.
    fn scan(&self, count: u64) {
        for number in 0..count {
            let mut cursor = self.world.db.default_keyspace().cursor().expect("a cursor");
            cursor.seek(key(number % KEYS)).expect("a seek");
            assert!(cursor.entry().is_some());
        }
        while self.world.db.step_background() {}
    }

    /// Bytes of all tables.
    fn bytes(&self) -> u64 {
        let view = self.world.db.default_keyspace().state().view.load();
        view.tree.parts().map(|part| part.meta.bytes).sum()
    }

    /// A look that finds that nobody wrote since the last.
    fn pause(&self) {
        self.world.pass(PAUSE_INTERVAL);
    }

    /// A look that finds that somebody wrote.
    fn write_one(&self) {
        self.world.db.put(key(0), [8; 40]).expect("a put");
        self.world.settle();
    }

    fn put_half(&self) {
        (0..KEYS).step_by(2).for_each(|number| self.world.db.put(key(number), [8; 40]).expect("a put"));
    }

    fn flush(&self) {
        self.put_half();
        self.world.db.flush().expect("a flush");
        self.world.settle();
    }

    fn check(&self) {
        let keyspace = self.world.db.default_keyspace();
        let entries = keyspace.iter().map(|entry| entry.expect("an entry").1.into_vec());
        assert!(entries.enumerate().all(|(at, value)| value == [if at % 2 == 0 { 8 } else { 7 }; 40]));
    }
}

/// Scans that meet several small runs pay until these are worth a merge, and not for another one then.
#[test]
fn scans_pay_for_a_merge_of_small_runs() {
    let tree = Scanned::new();
    (0..3).for_each(|_| tree.flush());
    assert_eq!(tree.runs(), 4);
    let (merged, upper) = (tree.world.compacted_bytes(), tree.upper_bytes());
    let needed = upper / (2 * RUN_BYTES);
    assert!(needed < LOOK_EVERY_SCANS, "one look is enough: {needed} scans");
    tree.scan(needed / 2);
    tree.world.settle();
    assert_eq!(tree.runs(), 4, "half is not enough");
    // Nobody asks the lane but the scans themselves.
    tree.scan(LOOK_EVERY_SCANS);
    assert_eq!(tree.runs(), 2);
    let paid = tree.world.compacted_bytes();
    assert!(paid > merged && paid - merged <= upper, "{} of {upper} bytes", paid - merged);
    tree.scan(LOOK_EVERY_SCANS * 4);
    tree.world.settle();
    assert_eq!((tree.runs(), tree.world.compacted_bytes()), (2, paid), "one run is the end of it");
    tree.check();
}

/// Scans that met nothing to merge have small runs merged that come later, half a tier of them, before
/// anybody scans again; and where nobody scans, writes have nothing merged.
#[test]
fn scans_give_credit_for_merges_before_the_next() {
    let tree = Scanned::new();
    tree.scan(LOOK_EVERY_SCANS);
    let merged = tree.world.compacted_bytes();
    (0..3).for_each(|_| tree.flush());
    assert_eq!((tree.runs(), tree.world.compacted_bytes()), (4, merged), "three runs wait for somebody");
    tree.flush();
    assert_eq!(tree.runs(), 2, "four do not");
    let merged = tree.world.compacted_bytes() - merged;
    assert!(merged > 0 && merged <= LOOK_EVERY_SCANS * RUN_BYTES, "{merged} bytes");
    tree.check();
    let tree = Scanned::new();
    let merged = tree.world.compacted_bytes();
    (0..4).for_each(|_| tree.flush());
    assert_eq!((tree.runs(), tree.world.compacted_bytes()), (5, merged), "nobody has scanned");
}

/// When writers pause, the memtable is flushed and merged with the runs above the last level, if scans have
/// paid for it all, and never else.
#[test]
fn credit_is_spent_in_a_pause_of_the_writers() {
    for (seed, scans) in [(1, 0), (1, 4), (2, 4), (3, 4), (4, 4), (5, 4)] {
        let scans = scans * LOOK_EVERY_SCANS;
        let tree = Scanned::seeded(seed);
        let write = || {
            (0..8).for_each(|_| tree.put_half());
            tree.world.settle();
        };
        let pass = |time| tree.world.pass(time);
        let awaits_pause = || tree.world.db.store().quiet.awaits_pause.load(Ordering::Relaxed);
        let entries = || tree.world.entries_in_memory();
        // The last level is left alone.
        tree.world.spend_of_leisure(IDLE_ALLOWANCE_BYTES / 2);
        tree.scan(scans);
        (0..2).for_each(|_| tree.flush());
        write();
        let (in_memory, upper, merged) = (entries(), tree.upper_bytes(), tree.world.compacted_bytes());
        assert_eq!((tree.runs(), awaits_pause()), (3, scans > 0));
        pass(PAUSE_INTERVAL / 2);
        write();
        pass(PAUSE_INTERVAL / 2);
        assert!(entries() > in_memory && tree.runs() == 3, "a look is not a pause if somebody wrote");
        let in_memory = entries();
        pass(PAUSE_INTERVAL);
        if scans == 0 {
            assert_eq!((tree.runs(), entries()), (3, in_memory), "nobody has paid");
            continue;
        }
        assert_eq!((tree.runs(), entries()), (2, 0), "all that was above the last level is one run");
        let spent = tree.world.compacted_bytes() - merged;
        let once = upper + upper / 2;
        assert!(spent.abs_diff(once) < upper / 4, "{spent} bytes: two runs of {upper}, and a third");
        tree.check();
        // What is left of the credit does not flush as much again.
        (0..3).for_each(|_| write());
        let in_memory = entries();
        pass(PAUSE_INTERVAL);
        assert_eq!(entries(), in_memory);
        // A next burst may be too small to tell the lane anything.
        assert!(awaits_pause());
        pass(LOOK_INTERVAL);
        assert!(!awaits_pause(), "the database is idle");
    }
}

/// SA5: in a pause the tree converges if scans have paid for what lies above the last level, window by window
/// and until somebody writes.
#[test]
fn scans_pay_for_convergence_in_a_pause_of_the_writers() {
    for seed in 1..=4 {
        let tree = Scanned::seeded(seed);
        let compacted = || tree.world.compacted_bytes();
        (0..2).for_each(|_| tree.flush());
        tree.pause();
        assert_eq!(tree.runs(), 3, "nobody has scanned");
        tree.scan(tree.upper_bytes() / RUN_BYTES / 8);
        tree.pause();
        assert_eq!(tree.runs(), 3, "that is not enough");
        tree.write_one();
        let (merged, upper) = (compacted(), tree.upper_bytes());
        // The scans themselves have the runs above the last level merged, and no more.
        tree.scan(4 * LOOK_EVERY_SCANS);
        tree.world.settle();
        assert_eq!(tree.runs(), 2, "writers do not pause");
        assert_eq!(compacted() - merged, upper);
        let (merged, bytes) = (compacted(), tree.bytes());
        tree.pause();
        assert_eq!((tree.runs(), tree.upper_bytes()), (1, 0), "all of it is");
        assert!((compacted() - merged).abs_diff(bytes) < bytes / 8, "{bytes} bytes");
        // What is paid for as a whole is merged once.
        (0..2).for_each(|_| tree.flush());
        let (merged, bytes) = (compacted(), tree.bytes());
        tree.pause();
        assert_eq!(tree.runs(), 1);
        assert!((compacted() - merged).abs_diff(bytes) < bytes / 8, "{bytes} bytes");
        tree.check();
        // Three keys are not worth it, but paid for.
        (0..3).for_each(|number| tree.world.db.put(key(2 * number), [8; 40]).expect("a put"));
        tree.world.db.flush().expect("a flush");
        tree.world.settle();
        assert_eq!(tree.runs(), 2);
        tree.pause();
        assert_eq!(tree.runs(), 1);
        tree.check();
    }
}

/// What waits to be flushed for scans becomes a run before the last level is merged, which is read once then.
#[test]
fn a_pause_merges_the_last_level_once() {
    for seed in 1..=8 {
        let tree = Scanned::seeded(seed);
        tree.scan(16 * LOOK_EVERY_SCANS);
        tree.flush();
        (0..8).for_each(|_| tree.put_half());
        tree.world.settle();
        let (merged, bytes) = (tree.world.compacted_bytes(), tree.bytes());
        assert!(tree.world.entries_in_memory() > 0);
        tree.pause();
        assert_eq!((tree.runs(), tree.world.entries_in_memory()), (1, 0), "all is one run");
        let spent = tree.world.compacted_bytes() - merged;
        assert!(spent < bytes * 7 / 4, "{spent} of {bytes} bytes, and a memtable of half the last level's");
        tree.check();
    }
}

/// The account and the allowance pay for what was merged, each; what they do not suffice for does not begin.
#[test]
fn convergence_for_scans_is_paid_by_scans_and_by_half_of_the_allowance() {
    for leisure_is_short in [false, true] {
        let tree = Scanned::new();
        tree.flush();
        // So much for one and a half of them.
        if leisure_is_short {
            tree.world.spend_of_leisure(IDLE_ALLOWANCE_BYTES / 2 - tree.bytes() * 3 / 2);
            tree.scan(4 * LOOK_EVERY_SCANS);
        } else {
            tree.scan(tree.upper_bytes() / RUN_BYTES * 3 / 2);
        }
        tree.pause();
        assert_eq!(tree.runs(), 1);
        tree.flush();
        let merged = tree.world.compacted_bytes();
        tree.pause();
        assert_eq!((tree.runs(), tree.world.compacted_bytes()), (2, merged), "one was paid for");
        tree.world.pass(LOOK_INTERVAL);
        assert_eq!(tree.runs(), 1, "idle databases need neither");
        tree.check();
    }
}

/// Credit that is worth waiting for a pause does not pay for everything yet. Guards against asking for the
/// one where the other is meant.
#[test]
fn credit_does_not_pay_for_more_than_it_is() {
    let tree = Scanned::new();
    tree.scan(LOOK_EVERY_SCANS);
    let random = SeededRandom::new(7);
    for number in 0..1000 {
        let value: Vec<u8> = (0..4000).map(|_| random.below(256) as u8).collect();
        tree.world.db.put(key(2 * number), value).expect("a put");
    }
    tree.world.db.flush().expect("a flush");
    tree.world.settle();
    assert!(tree.upper_bytes() > 3 << 20);
    tree.pause();
    assert_eq!(tree.runs(), 2, "two mebibytes are there, not four");
    // Scans that come while nobody writes pay for the rest, and nobody asks the lane but they themselves.
    tree.scan(5 * LOOK_EVERY_SCANS);
    assert_eq!(tree.runs(), 1);
}

/// A job that is not begun, because another that may wait runs already, costs nobody anything.
#[test]
fn only_jobs_that_begin_are_paid_for() {
    let tree = Scanned::new();
    tree.scan(4 * LOOK_EVERY_SCANS);
    tree.flush();
    tree.world.spend_of_leisure(IDLE_ALLOWANCE_BYTES / 2 - tree.bytes() * 3 / 2);
    tree.world.clock.advance(PAUSE_INTERVAL);
    let store = tree.world.db.store();
    store.note_activity().expect("a look");
    let state = tree.world.db.default_keyspace().state();
    let wanted = store.next_plan(state, &Busy::default()).expect("convergence");
    let other = store.begin_job(state, JobFacts::of_plan(&wanted.plan), None).expect("the only job");
    (0..10).for_each(|_| tree.world.settle());
    assert_eq!(tree.runs(), 2);
    drop(other);
    tree.world.settle();
    assert_eq!(tree.runs(), 1);
}

/// A job that was begun in a pause goes on when somebody writes, and no further one begins.
#[test]
fn a_write_ends_convergence_for_scans() {
    let tree = Scanned::new();
    tree.scan(4 * LOOK_EVERY_SCANS);
    tree.flush();
    tree.world.clock.advance(PAUSE_INTERVAL);
    let store = tree.world.db.store();
    let keyspace = tree.world.db.default_keyspace();
    store.note_activity().expect("a look");
    let wanted = || store.next_plan(keyspace.state(), &Busy::default()).map(|wanted| wanted.plan.reason);
    assert_eq!(wanted(), Some(Reason::Scans));
    keyspace.put(key(0), [8; 40]).expect("a put");
    store.note_activity().expect("a look");
    assert_eq!(wanted(), None);
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
    world.db.put(key(KEYS / 2), "new").expect("a put");
    world.db.flush().expect("a flush");
    world.settle();
    assert_eq!(world.tables(), tables + 1, "the snapshot sees what is in them");
    assert_eq!(keyspace.at(&snapshot).iter().count() as u64, KEYS);
    drop(snapshot);
    // What is left is not merged either.
    world.spend_leisure();
    // Nobody says that a snapshot has gone; the lane looks by itself.
    world.pass(LOOK_INTERVAL);
    assert!(world.tables() <= 3, "{} of {tables} tables are left", world.tables());
    assert_eq!(world.compacted_bytes(), compacted, "nothing was read");
    let left: Vec<_> = keyspace.iter().map(|entry| entry.expect("an entry").0.into_vec()).collect();
    let expected = (0..10).chain([KEYS / 2]).chain(KEYS - 10..KEYS).map(|number| key(number).into_bytes());
    assert_eq!(left, expected.collect::<Vec<_>>());
}

#[test]
fn a_strategy_that_wants_nothing_is_not_asked_again_until_something_changes() {
    let world = World::new();
    world.fill();
    let state = world.db.default_keyspace().state();
    let since = || state.asked.lock().last.as_ref().map(|asked| asked.until_ns);
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
    assert!(!is_asked_again(&|| world.db.put("k", "v").expect("a put")), "memory is not its business");
    assert!(is_asked_again(&|| world.db.flush().expect("a flush")));
    let change = |options: KeyspaceOptions| options.block_size(1024);
    assert!(is_asked_again(&|| world.db.default_keyspace().set_options(change).expect("options")));
    let snapshot = world.db.snapshot();
    assert!(is_asked_again(&|| {}), "somebody reads the past");
    drop(snapshot);
    assert!(is_asked_again(&|| {}), "and has stopped");
    assert!(!is_asked_again(&|| {}));
    assert!(is_asked_again(&|| world.clock.advance(LOOK_INTERVAL)));
}

#[test]
fn tables_that_are_read_get_warm() {
    let world = World::new();
    world.fill();
    let keyspace = world.db.default_keyspace();
    // Of each table, in the order of the keys.
    let heat = || -> Vec<u64> {
        let tree = Arc::clone(&keyspace.state().view.load().tree);
        let heat = world.db.store().heat(keyspace.state(), &tree);
        let of_part = |id| heat.iter().find(|(part, _)| *part == id).map_or(0, |(_, heat)| *heat);
        tree.parts().map(|part| of_part(part.meta.id)).collect()
    };
    assert!(heat().iter().all(|&heat| heat == 0), "compactions do not count");
    let tables = heat().len();
    assert!(tables > 4);
    (0..KEYS / 2).for_each(|number| assert!(world.db.get(key(number)).expect("a lookup").is_some()));
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

/// Time alone makes something possible, which tells nobody: whoever waits for room in level 0 asks the lane
/// for it. Guards against waiting until the lane looks by itself; here, where it does so only when it is
/// asked, for ever.
#[test]
fn a_writer_without_room_asks_for_what_time_has_made_possible() {
    const STOP_RUNS: u32 = 4;
    let lives = Duration::from_secs(100);
    let clock = Arc::new(ManualClock::new(1_000_000));
    let env =
        Env { clock: Arc::<ManualClock>::clone(&clock), ..Env::simulated(Arc::new(StrictFs::new()), 1) };
    let leveled = KeyspaceOptions::default().strategy("leveled:10".parse().unwrap());
    // Nothing is wanted before it has expired.
    let keyspace = leveled.level0_trigger_runs(100).level0_stop_runs(STOP_RUNS).default_ttl(lives);
    let options =
        Options::default().memory_budget(64 << 20).keyspace_options(keyspace.write_buffer_entries(1));
    let db = options.env(env).open("/db").expect("a database");
    let level0 = || db.default_keyspace().state().view.load().tree.version.runs_of(LevelIndex::FLUSH).len();
    while level0() < STOP_RUNS as usize {
        db.put("a", "value").expect("a put");
        db.flush().expect("a flush");
        while db.step_background() {}
    }
    let state = db.default_keyspace().state();
    assert!(state.must_compact_first() && !db.store().can_compact(state), "waiting would help nobody");
    // Asked shortly before, and what it said then would be remembered for longer than it is true.
    clock.advance(lives - Duration::from_secs(2));
    db.put("b", "value").expect("a put");
    db.store().scheduler.request(Lane::Compaction);
    while db.step_background() {}
    assert!(state.asked.lock().last.is_some() && !db.store().can_compact(state), "nothing has expired");
    clock.advance(Duration::from_secs(3));
    assert!(!db.step_background() && db.store().can_compact(state), "nobody has told the lane");
    db.put("c", "a value that needs a new memtable").expect("room, once the expired tables are gone");
    assert!(level0() < STOP_RUNS as usize);
    db.close().expect("the end");
}

/// What a merge has of a table in memory until its end fits what a small budget has for merges.
#[test]
fn tables_of_a_small_budget_are_small() {
    for (budget, most, least) in [(16u64 << 20, 6u64 << 20, 2), (64 << 20, 16 << 20, 1)] {
        let keyspace = KeyspaceOptions::default().compression(PerLevel::all(Codec::None));
        let env = Env::simulated(Arc::new(StrictFs::new()), 1);
        let options = Options::default().memory_budget(budget).keyspace_options(keyspace).env(env);
        let db = options.open("/db").expect("a database");
        (0..12_000).for_each(|number| db.put(key(number), [7; 1000]).expect("a put"));
        db.compact_all().expect("a compaction");
        let view = db.default_keyspace().state().view.load();
        let bytes: Vec<u64> = view.tree.version.parts().map(|(_, _, part)| part.bytes).collect();
        assert!(bytes.len() >= least && bytes.iter().all(|&bytes| bytes <= most), "{budget}: {bytes:?}");
    }
}
