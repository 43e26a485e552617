//! Write control while background work is blocked at a gate. The clock stands still unless a test moves it,
//! so a throttled writer stays so until the pressure goes: no test depends on luck or time.

use crate::{Database, Keyspace, KeyspaceOptions, WriteOptions};
use esker_base::{Error, SeqNo};
use esker_engine::background::install;
use esker_engine::state::jobs::JobFacts;
use esker_engine::state::shape;
use esker_engine::write::write_control;
use esker_engine::write::write_control::blocking_work;
use esker_engine::write::write_control::*;
use esker_env::fault::{FaultFs, Operation, StrictFs};
use esker_env::{Background, Clock, Env, ManualClock};
use esker_options::{FileReason, Options};
use esker_strategy::write_control::{Capacity, Pressure, PressureCause, WriteState};
use esker_strategy::{
    Busy, Class, CompactionPlan, ManualMark, ManualStep, Reason, Strategy, StrategyOptions,
};
use esker_version::{Key, KeyEnd, KeyRange, LevelIndex, VersionEdit};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

const BUFFER_BYTES: u64 = 64 << 10;

/// A database with threads, and memtables of 64 KiB, four at most.
fn open(faults: &FaultFs) -> Database {
    open_in(Env { background: Background::Threads, ..Env::simulated(Arc::new(faults.clone()), 1) })
}

fn open_in(env: Env) -> Database {
    let keyspace = KeyspaceOptions::default().write_buffer_size(BUFFER_BYTES);
    let options = Options::default().memory_budget(8 << 20).keyspace_options(keyspace);
    Database::open_with("/db", options.env(env)).unwrap()
}

/// Blocks the next table that is begun until a message is sent, or the test has failed.
fn hold_flush(faults: &FaultFs) -> Sender<()> {
    let (open, opened) = channel::<()>();
    faults.interrupt(Operation::Create, "tables/", move || {
        let _ = opened.recv();
    });
    open
}

/// Puts this many bytes, in values of a KiB.
fn put(keyspace: &Keyspace, bytes: u64) {
    for at in 0..bytes >> 10 {
        keyspace.put(at.to_be_bytes(), [7; 1016]).unwrap();
    }
}

fn only(db: &Database) -> KeyspaceStall {
    db.stalls().keyspaces.remove(0)
}

#[test]
fn pressure_comes_with_sealed_memtables_and_goes_with_them() {
    let faults = FaultFs::new(Arc::new(StrictFs::new()));
    let db = open(&faults);
    let gate = hold_flush(&faults);
    put(db.default_keyspace(), BUFFER_BYTES);
    assert_eq!(only(&db).state, WriteState::Free, "one memtable is being flushed: nothing is amiss");
    // Two and a half of four.
    put(db.default_keyspace(), BUFFER_BYTES + BUFFER_BYTES / 2);
    let stall = only(&db);
    assert!(matches!(stall.state, WriteState::Slowed { .. }), "{stall:?}");
    let memory = stall.pressures[0];
    assert_eq!(memory.cause, PressureCause::Memory);
    let width = (4 * BUFFER_BYTES - 3 * BUFFER_BYTES / 2) as f64;
    let expected = 1000.0 * (memory.amount as f64 - 1.5 * BUFFER_BYTES as f64) / width;
    assert!((f64::from(memory.permille) - expected).abs() < 2.0, "{memory:?} instead of {expected}");
    assert!(stall.to_string().starts_with("default: writes are slowed to "), "{stall}");
    drop(gate);
    db.flush().unwrap();
    let stall = only(&db);
    assert_eq!(stall.state, WriteState::Free, "{stall:?}");
    let turns: Vec<bool> =
        stall.changes.iter().map(|change| change.admitted_bytes_per_second.is_some()).collect();
    assert_eq!(turns, [true, false]);
    db.close().unwrap();
}

/// The job in the report is the blocked flush; its end is reported as soon as the rate of flushes is known.
#[test]
fn a_stall_names_the_flush_that_is_waited_for() {
    let faults = FaultFs::new(Arc::new(StrictFs::new()));
    let db = open(&faults);
    assert_eq!(only(&db).blocking, None, "nothing is slowed");
    let gate = hold_flush(&faults);
    // The first is sealed when it has no room for the next write.
    put(db.default_keyspace(), 3 * BUFFER_BYTES / 2);
    let store = db.store();
    while store.jobs.progress(0).is_empty() {
        std::thread::yield_now();
    }
    put(db.default_keyspace(), BUFFER_BYTES);
    let stall = only(&db);
    let blocking = stall.blocking.clone().expect("a flush");
    let job = blocking.job.expect("it runs");
    assert_eq!((job.class.as_str(), job.keyspace.as_str(), job.payload_bytes), ("flush", "default", 0));
    assert!((BUFFER_BYTES / 2..2 * BUFFER_BYTES).contains(&job.total_bytes), "{job:?}");
    assert_eq!((blocking.ends_in, blocking.error), (None, None));
    assert!(stall.to_string().ends_with("its end is not known yet"), "{stall}");
    let state = store.find_keyspace("default").unwrap();
    state.write_control.lock().capacity.note_flush(job.total_bytes, 1, Duration::from_secs(3));
    let ends_in = only(&db).blocking.unwrap().ends_in.unwrap();
    assert!(ends_in.abs_diff(Duration::from_secs(3)) < Duration::from_millis(10), "{ends_in:?}");
    drop(gate);
    db.flush().unwrap();
    assert_eq!(only(&db).blocking, None);
    db.close().unwrap();
}

/// IN3: a flush takes long beside compactions; if it referenced the tree that it began with, all files that
/// these replace would stay until its end.
#[test]
fn a_flush_keeps_no_table_that_was_replaced() {
    let faults = FaultFs::new(Arc::new(StrictFs::new()));
    let db = open(&faults);
    put(db.default_keyspace(), BUFFER_BYTES / 4);
    db.flush().unwrap();
    let gate = hold_flush(&faults);
    put(db.default_keyspace(), 3 * BUFFER_BYTES / 2);
    let store = db.store();
    while store.jobs.progress(0).is_empty() {
        std::thread::yield_now();
    }
    let keyspace = store.find_keyspace("default").unwrap();
    let replaced = install::install(store, &keyspace, &[], FileReason::Flush, |version, _| {
        let mut edit = VersionEdit::new();
        for (level, run) in version.runs() {
            for part in run.parts() {
                edit.remove_part(keyspace.id, level, run.id, part);
            }
        }
        edit
    });
    replaced.unwrap();
    assert_eq!(store.files.held_bytes(keyspace.id), 0, "the flush is running, and there is no reader");
    drop(gate);
    db.flush().unwrap();
    db.close().unwrap();
}

/// Of the running jobs the one is reported that drains the queue; else one that occupies the keyspace's
/// tables; else one that occupies the thread.
#[test]
fn the_job_that_is_named_is_the_nearest_to_the_queue() {
    let env = Env::simulated(Arc::new(StrictFs::new()), 1);
    let db = Database::open_with("/db", Options::default().memory_budget(8 << 20).env(env)).unwrap();
    let other = db.keyspace("other").unwrap();
    let (store, own) = (db.store(), db.default_keyspace().state());
    let facts = |class, from: &[LevelIndex], total_bytes| JobFacts {
        class,
        reason: (class != Class::Flush).then_some(Reason::Tier),
        from: from.to_vec(),
        level: LevelIndex::LAST,
        hull: None,
        total_bytes,
        is_cancellable: true,
    };
    let total_waited_for = |cause| {
        let told = blocking_work::blocking_work(store, own, &Pressure::new(cause, 9, 1, 10), None, None);
        told.job.map(|job| job.total_bytes)
    };
    let level1 = LevelIndex::new(1).unwrap();
    let (level0, above) = ([LevelIndex::FLUSH, LevelIndex::LAST], [level1, LevelIndex::LAST]);
    let all =
        [PressureCause::Memory, PressureCause::SharedMemory, PressureCause::Level0, PressureCause::Space];
    let begin = |keyspace, facts| store.jobs.begin(keyspace, facts, None).unwrap();
    let mut running = Vec::new();
    let steps = [
        (own, facts(Class::Flush, &[], 0), [Some(0), Some(0), None, None]),
        (other.state(), facts(Class::Shape, &level0, 1), [Some(0), Some(0), Some(1), Some(1)]),
        (other.state(), facts(Class::Flush, &[], 2), [Some(0), Some(0), Some(1), Some(1)]),
        (own, facts(Class::Shape, &above, 3), [Some(0), Some(0), Some(3), Some(3)]),
        (own, facts(Class::Shape, &level0, 4), [Some(0), Some(0), Some(4), Some(3)]),
        (own, facts(Class::L0Urgent, &level0, 5), [Some(0), Some(0), Some(4), Some(3)]),
    ];
    assert_eq!(all.map(total_waited_for), [None; 4]);
    for (keyspace, facts, expected) in steps {
        let total = facts.total_bytes;
        running.push(begin(keyspace, facts));
        assert_eq!(all.map(total_waited_for), expected, "after job {total}");
    }
    running.remove(0);
    assert_eq!(total_waited_for(PressureCause::Memory), Some(2), "the other keyspace's flush has the thread");
    let told = blocking_work::blocking_work(
        store,
        own,
        &Pressure::new(PressureCause::Level0, 9, 1, 10),
        None,
        Some(1),
    );
    let text = told.to_string();
    assert!(text.starts_with("waiting for job 5 (shape) from L0, Llast to Llast: "), "{text}");
    drop(running);
    db.close().unwrap();
}

/// PC2 and PC4: a throttled writer holds nothing that others need, is delayed after its write, and continues
/// when the pressure is gone.
#[test]
fn a_throttled_writer_blocks_no_other_thread() {
    let faults = FaultFs::new(Arc::new(StrictFs::new()));
    let db = open(&faults);
    let other = db.keyspace("other").unwrap();
    let gate = hold_flush(&faults);
    put(db.default_keyspace(), 2 * BUFFER_BYTES);
    let store = db.store();
    let state = store.find_keyspace("default").unwrap();
    // As if flushes took a second for a KiB: from now on every delay is longer than the test.
    state.write_control.lock().capacity.note_flush(1 << 10, 1 << 10, Duration::from_secs(1000));
    write_control::update_pressure(store, &state);
    let (sent, done) = channel();
    let (writer, env) = (db.clone(), store.env.clone());
    let thread = env.spawn("writer", move || {
        writer.default_keyspace().put(b"slow", [1; 1016]).unwrap();
        sent.send(()).unwrap();
    });
    while store.counters.delays.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    assert!(db.default_keyspace().get(b"slow").unwrap().is_some(), "the write is done before its delay");
    other.put(b"k", b"v").unwrap();
    let mut batch = db.batch();
    batch.put(db.default_keyspace(), b"k", b"v");
    let refused = db.write_with(&batch, WriteOptions::new().no_stall()).unwrap_err();
    assert!(
        matches!(&refused, Error::WouldStall { retry_after, .. } if *retry_after > Duration::from_millis(1)),
        "{refused}"
    );
    assert!(done.try_recv().is_err(), "the clock stands still");
    drop(gate);
    db.flush().unwrap();
    done.recv().unwrap();
    thread.unwrap().join().unwrap();
    assert_eq!(db.metrics().delays, 1);
    db.write_with(&batch, WriteOptions::new().no_stall()).unwrap();
    db.close().unwrap();
}

/// PC6: a write that may not wait adds its debt, and does not wait it off.
#[test]
fn a_write_that_may_not_stall_leaves_its_debt_to_the_next_one() {
    let faults = FaultFs::new(Arc::new(StrictFs::new()));
    let db = open(&faults);
    let gate = hold_flush(&faults);
    put(db.default_keyspace(), 2 * BUFFER_BYTES);
    let store = db.store();
    let state = store.find_keyspace("default").unwrap();
    // As if flushes took a second for a KiB: a wait for the pace would be longer than the test.
    state.write_control.lock().capacity.note_flush(1 << 10, 1 << 10, Duration::from_secs(1000));
    write_control::update_pressure(store, &state);
    let (sent, done) = channel();
    let writer = db.clone();
    let thread = store.env.spawn("writer", move || {
        let write = |key: &[u8]| {
            let mut batch = writer.batch();
            batch.put(writer.default_keyspace(), key, [1; 1016]);
            writer.write_with(&batch, WriteOptions::new().no_stall())
        };
        sent.send((write(b"first"), write(b"second"))).unwrap();
    });
    let (first, second) = loop {
        if let Ok(results) = done.try_recv() {
            break results;
        }
        assert_eq!(store.counters.delays.load(Ordering::Relaxed), 0, "it waits");
        std::thread::yield_now();
    };
    first.unwrap();
    assert!(matches!(&second, Err(Error::WouldStall { .. })), "{second:?}");
    assert!(db.default_keyspace().get(b"first").unwrap().is_some());
    assert!(db.default_keyspace().get(b"second").unwrap().is_none());
    assert_eq!(db.metrics().delays, 0);
    drop(gate);
    thread.unwrap().join().unwrap();
    db.close().unwrap();
}

/// A device that stops for a second does not stop writers: the rate falls with the time that a flush hangs,
/// so that the room before it lasts.
#[test]
fn the_rate_falls_while_a_flush_hangs() {
    let faults = FaultFs::new(Arc::new(StrictFs::new()));
    let clock = Arc::new(ManualClock::new(1_600_000_000_000));
    let env = Env { background: Background::Threads, ..Env::simulated(Arc::new(faults.clone()), 1) };
    let env = Env { clock: Arc::<ManualClock>::clone(&clock), ..env };
    let db = open_in(env);
    let gate = hold_flush(&faults);
    put(db.default_keyspace(), 5 * BUFFER_BYTES / 2);
    let (store, state) = (db.store(), db.store().find_keyspace("default").unwrap());
    let millisecond = Duration::from_millis(1);
    state.write_control.lock().capacity.note_flush(BUFFER_BYTES, BUFFER_BYTES, millisecond);
    let rate_after = |passed: Duration| {
        clock.advance(passed);
        write_control::update_pressure(store, &state);
        state.write_control.admitted_bytes_per_second().expect("writers are slowed")
    };
    let usual = rate_after(Duration::ZERO);
    assert_eq!(rate_after(millisecond), usual, "a flush takes its time");
    let after_100_ms = rate_after(99 * millisecond);
    let after_200_ms = rate_after(100 * millisecond);
    assert!(after_100_ms < usual / 10, "{after_100_ms} of {usual}");
    assert!(after_100_ms.abs_diff(2 * after_200_ms) <= 2, "{after_100_ms} and {after_200_ms}");
    drop(gate);
    db.flush().unwrap();
    assert_eq!(only(&db).state, WriteState::Free);
    db.close().unwrap();
}

/// A clock that advances by a millisecond whenever it is read.
#[derive(Debug, Default)]
struct Ticking(AtomicU64);

impl Clock for Ticking {
    fn wall_ms(&self) -> u64 {
        1_600_000_000_000
    }

    fn monotonic_ns(&self) -> u64 {
        self.0.fetch_add(1_000_000, Ordering::Relaxed)
    }
}

/// PC2: the delay grows when the rate falls while a writer waits; its time limit does not, and includes the
/// time spent waiting for room.
#[test]
fn no_writer_waits_for_the_pace_beyond_the_stall_limit() {
    let faults = FaultFs::new(Arc::new(StrictFs::new()));
    let clock = Arc::new(Ticking::default());
    let env = Env { background: Background::Threads, ..Env::simulated(Arc::new(faults.clone()), 1) };
    let env = Env { clock: Arc::<Ticking>::clone(&clock), ..env };
    let keyspace = KeyspaceOptions::default().write_buffer_size(BUFFER_BYTES);
    let options = Options::default().memory_budget(8 << 20).keyspace_options(keyspace);
    let limit = Duration::from_millis(100);
    let db = Database::open_with("/db", options.stall_limit(limit).env(env)).unwrap();
    let gate = hold_flush(&faults);
    put(db.default_keyspace(), 2 * BUFFER_BYTES);
    let (store, state) = (db.store(), db.store().find_keyspace("default").unwrap());
    for max_delay in [limit, limit / 4] {
        // Admitted at a rate that delays by 20 ms, and at a hundredth of it from the next update on.
        state.write_control.lock().capacity.note_flush(1 << 10, 1 << 10, Duration::from_secs(1000));
        state.write_control.admit(Some(100));
        state.write_control.lock().rate = Some(100);
        let began_ns = clock.0.load(Ordering::Relaxed);
        write_control::wait_for_pace(store, &state, 1_000, Duration::from_millis(20), max_delay);
        let waited = Duration::from_nanos(clock.0.load(Ordering::Relaxed) - began_ns);
        assert!(waited >= max_delay && waited < max_delay + limit / 4, "{waited:?} of {max_delay:?}");
    }
    // PC7: five milliseconds for the bytes of others, at whatever rate.
    state.write_control.admit(Some(100));
    state.write_control.lock().rate = Some(100);
    let began_ns = clock.0.load(Ordering::Relaxed);
    write_control::wait_for_pace(store, &state, 0, Duration::from_millis(5), limit);
    let waited = Duration::from_nanos(clock.0.load(Ordering::Relaxed) - began_ns);
    assert!(waited < limit / 4, "{waited:?}");
    drop(gate);
    db.flush().unwrap();
    db.close().unwrap();
}

/// Closing a database releases its throttled writers.
#[test]
fn closing_releases_a_writer_that_is_held_back() {
    let faults = FaultFs::new(Arc::new(StrictFs::new()));
    let db = open(&faults);
    let gate = hold_flush(&faults);
    put(db.default_keyspace(), 2 * BUFFER_BYTES);
    let store = db.store();
    let state = store.find_keyspace("default").unwrap();
    state.write_control.lock().capacity.note_flush(1 << 10, 1 << 10, Duration::from_secs(1000));
    write_control::update_pressure(store, &state);
    let writer = db.clone();
    let thread = store.env.spawn("writer", move || drop(writer.default_keyspace().put(b"slow", [1; 1016])));
    while store.counters.delays.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    drop(gate);
    db.close().unwrap();
    thread.unwrap().join().unwrap();
}

#[test]
fn runs_of_level_0_are_pressure_where_compaction_can_make_them_fewer() {
    let mut most = 0;
    for seed in 0..20 {
        let keyspace = KeyspaceOptions::default().strategy("leveled:4".parse().unwrap());
        let keyspace = keyspace.level0_slowdown_runs(6).level0_stop_runs(10);
        let env = Env::simulated(Arc::new(StrictFs::new()), seed);
        let options = Options::default().memory_budget(8 << 20).keyspace_options(keyspace);
        let db = Database::open_with("/db", options.env(env)).unwrap();
        let state = db.store().find_keyspace("default").unwrap();
        for round in 0..30u64 {
            db.default_keyspace().put(b"a", round.to_be_bytes()).unwrap();
            db.default_keyspace().put(b"z", round.to_be_bytes()).unwrap();
            db.flush().unwrap();
            let seen = write_control::level0_pressure(db.store(), &state);
            assert_eq!((seen.soft, seen.hard), (6, 10));
            let expected = pressure_of(seen.amount);
            assert_eq!(seen.permille, expected, "{seen:?}");
            most = most.max(seen.permille);
        }
        db.close().unwrap();
    }
    assert!(most >= 250, "no seed let level 0 grow: {most}");
    fn pressure_of(runs: u64) -> u32 {
        (runs.saturating_sub(6) * 250) as u32
    }
}

/// PC5.
#[test]
fn unmerged_runs_are_no_pressure() {
    let keyspace = KeyspaceOptions::default().strategy("none".parse().unwrap());
    let env = Env::simulated(Arc::new(StrictFs::new()), 1);
    let options = Options::default().memory_budget(8 << 20).keyspace_options(keyspace.level0_stop_runs(4));
    let db = Database::open_with("/db", options.env(env)).unwrap();
    for round in 0..8u64 {
        db.default_keyspace().put(b"a", round.to_be_bytes()).unwrap();
        db.flush().unwrap();
    }
    let stall = only(&db);
    let level0 = stall.pressures.iter().find(|pressure| pressure.cause == PressureCause::Level0).unwrap();
    assert_eq!((level0.amount, level0.permille, stall.state), (8, 0, WriteState::Free));
    db.close().unwrap();
}

#[test]
fn limits_of_level_0_are_above_its_normal_runs() {
    let limits =
        |strategy: &str| KeyspaceOptions::default().strategy(strategy.parse().unwrap()).level0_limits();
    assert_eq!(limits("partitioned"), (12, 24));
    assert_eq!(limits("leveled:10"), (12, 24));
    assert_eq!(limits("tiered:16"), (18, 24));
    assert_eq!(limits("tiered:32"), (34, 36));
    let low = KeyspaceOptions::default().level0_slowdown_runs(50).level0_stop_runs(20);
    assert_eq!(low.level0_limits(), (19, 20));
}

/// Overwritten data is pressure beyond its budget, as long as merges cannot follow; new data is none, however
/// much arrives.
#[test]
fn garbage_is_pressure_and_growth_is_not() {
    const KEYS: u64 = 6000;
    let keyspace = KeyspaceOptions::default().write_buffer_size(BUFFER_BYTES).level0_stop_runs(1000);
    let env = Env::simulated(Arc::new(StrictFs::new()), 1);
    let options = Options::default().memory_budget(8 << 20).keyspace_options(keyspace);
    let db = Database::open_with("/db", options.env(env)).unwrap();
    let (store, state) = (db.store(), db.default_keyspace().state());
    // A prime stride visits all keys in a scattered order.
    let pass = |first: u64, round: u8| {
        let mut seen = Vec::new();
        for at in 0..KEYS {
            let key = (first + at * 3571 % KEYS).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            db.default_keyspace().put(key.to_be_bytes(), [round; 1016]).unwrap();
            seen.push(write_control::garbage_pressure(store, state, &Capacity::default()));
        }
        seen
    };
    let most = |seen: &[Pressure]| seen.iter().map(|pressure| pressure.permille).max();
    assert_eq!(most(&pass(0, 0)), Some(0), "all keys are new");
    db.compact_all().unwrap();
    assert_eq!(most(&pass(KEYS, 0)), Some(0), "all keys are new, and something rests below them");
    db.compact_all().unwrap();
    assert!(most(&pass(0, 1)) < Some(500), "merges keep up, and writers are slowed below their pace");
    db.drain().unwrap();
    // As if a job occupied all of the last level: nothing can be merged into it.
    let whole = manual_plan(&db);
    let mark = state.jobs.busy.lock().add(&whole);
    let seen = pass(0, 2);
    assert_eq!((seen[0].permille, most(&seen)), (0, Some(750)), "{:?}", seen.last());
    let last = seen.last().unwrap();
    let over = 1000 * (last.amount - last.soft) / (last.hard - last.soft);
    assert_eq!(u64::from(last.permille), over.min(750), "{last:?}");
    state.jobs.busy.lock().remove(mark);
    db.drain().unwrap();
    assert_eq!(
        write_control::garbage_pressure(store, state, &Capacity::default()).permille,
        0,
        "garbage is gone"
    );
    db.close().unwrap();
}

/// A merge of everything.
fn manual_plan(db: &Database) -> CompactionPlan {
    let state = db.default_keyspace().state();
    let (store, view, options) = (db.store(), state.view.load(), state.options());
    let everything = KeyRange { start: Key::default(), end: KeyEnd::Unbounded };
    let mark = ManualMark { seqno: SeqNo::MAX, part: store.writing().unwrap().tables.counters().1 };
    let shape = shape::shape(store, &view.tree, &[]);
    let of_strategy =
        StrategyOptions { max_job_bytes: Some(u64::MAX), ..shape::strategy_options(store, &options) };
    let step = Strategy::default().plan_manual(&shape, &Busy::default(), &of_strategy, &everything, mark);
    match step {
        ManualStep::Plan(plan) => *plan,
        other => panic!("{other:?}"),
    }
}
