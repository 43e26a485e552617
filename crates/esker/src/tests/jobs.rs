//! Subcompactions write the same as a single job, and cancelled jobs stop at once.

use crate::compaction_filter::{CompactionFilter, Decision};
use crate::options::PerLevel;
use crate::parts::StepBackground;
use crate::{Database, KeyspaceOptions, MergeOperator, Options};
use esker_base::{Error, Tag};
use esker_codec::Codec;
use esker_engine::background::compact;
use esker_engine::background::flush_group;
use esker_engine::background::picker::PickedCompaction;
use esker_engine::background::subcompactions::subcompaction_ranges;
use esker_engine::state::jobs::JobFacts;
use esker_engine::state::scheduler::WorkerPool;
use esker_engine::state::shape;
use esker_env::BackgroundRates;
use esker_env::Direction;
use esker_env::fault::{Fault, FaultFs, Operation, Rule, StrictFs, When};
use esker_env::{Env, ManualClock, SeededRandom, host};
use esker_iter::{Cursor, MergingCursor, RangeTombstones};
use esker_sst::{JobControl, ReadPurpose};
use esker_strategy::write_control::PressureCause;
use esker_strategy::{Class, CompactionPlan, PlanKind, SizeRatio, Strategy};
use esker_version::LevelIndex;
use esker_view::read::source::Source;
use esker_view::tree::Access;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Tables so small that a few thousand entries make many.
const TABLE_BYTES: u64 = 8 << 10;

fn keyspace_options() -> KeyspaceOptions {
    KeyspaceOptions::default()
        .table_size(TABLE_BYTES)
        .block_size(512)
        .merge_operator(MergeOperator::append(b","))
        .strategy(Strategy::Leveled { size_ratio: SizeRatio::from_permille(10_000).unwrap() })
}

fn stepped(pieces: usize, keyspace: KeyspaceOptions) -> Database {
    let options = Options::default().memory_budget(64 << 20).max_subcompactions(Some(pieces));
    let env = Env::simulated(Arc::new(StrictFs::new()), 1);
    Database::open_with("/db", options.keyspace_options(keyspace).env(env)).expect("a database")
}

/// A version of a key.
type Version = (Vec<u8>, Tag, Vec<u8>);

/// All versions in the tables, and all range tombstones, from whatever tables.
fn contents(db: &Database) -> (Vec<Version>, RangeTombstones) {
    let view = db.default_keyspace().state().view.load();
    let mut merge = MergingCursor::new(Source::all_of(&view, ReadPurpose::Scan));
    let mut versions = Vec::new();
    merge.seek_to_first().expect("a first entry");
    while merge.is_valid() {
        versions.push((merge.key().to_vec(), merge.tag(), merge.value().to_vec()));
        merge.next().expect("the next entry");
    }
    let sets: Vec<_> = view.tree.parts().map(|part| Arc::clone(part.file.range_deletes().unwrap())).collect();
    (versions, RangeTombstones::new(sets.iter().flat_map(|set| set.deletes())))
}

/// The plan that merges everything.
fn whole(db: &Database) -> CompactionPlan {
    let state = db.default_keyspace().state();
    let (store, view) = (db.store(), state.view.load());
    let (shape, options) = (shape::shape(store, &view.tree, &[]), state.options());
    let of_strategy = shape::strategy_options(store, &options);
    let mark = esker_strategy::ManualMark {
        seqno: esker_base::SeqNo::MAX,
        part: store.writing().unwrap().tables.counters().1,
    };
    let everything = esker_version::KeyRange::everything();
    match options.strategy.plan_manual(&shape, &state.jobs.busy.lock(), &of_strategy, &everything, mark) {
        esker_strategy::ManualStep::Plan(plan) => *plan,
        _ => panic!("nothing to merge"),
    }
}

/// Random changes of all kinds, with snapshots between them that are kept.
fn change(db: &Database, random: &SeededRandom) -> Vec<crate::Snapshot> {
    let mut snapshots = Vec::new();
    let key = |random: &SeededRandom| format!("key {:05}", random.below(3000));
    for step in 0..6000u64 {
        match random.below(40) {
            0..20 => db.default_keyspace().put(key(random), vec![b'v'; random.below(60) as usize]).unwrap(),
            20..30 => db.default_keyspace().delete(key(random)).unwrap(),
            30..38 => db.default_keyspace().merge(key(random), step.to_string()).unwrap(),
            38 if random.below(4) == 0 => {
                let (a, b) = (key(random), key(random));
                db.default_keyspace().delete_range(a.clone().min(b.clone())..a.max(b)).unwrap();
            }
            39 if random.below(8) == 0 => snapshots.push(db.snapshot()),
            _ => {}
        }
        if step % 1500 == 1499 {
            db.default_keyspace().flush().unwrap();
        }
    }
    snapshots
}

/// No decision about an entry depends on other keys, and range tombstones are cut at the bounds.
#[test]
fn subcompactions_write_the_same_as_one_job() {
    for seed in 0..6 {
        let results = [1, 2, 5, 64].map(|pieces| {
            let db = stepped(pieces, keyspace_options());
            let snapshots = change(&db, &SeededRandom::new(seed));
            let state = db.default_keyspace().state();
            let ranges = subcompaction_ranges(db.store(), state, &whole(&db)).unwrap();
            assert!(pieces == 1 && ranges.len() == 1 || ranges.len() > 1, "{} pieces", ranges.len());
            assert!(ranges.len() <= pieces);
            db.compact_all().unwrap();
            let left = contents(&db);
            drop(snapshots);
            left
        });
        for other in &results[1..] {
            assert_eq!(results[0].0, other.0, "seed {seed}");
            assert_eq!(results[0].1, other.1, "seed {seed}");
        }
        assert!(results[0].0.len() > 1000);
    }
}

/// A merge that writers wait for uses the processors that they leave idle.
#[test]
fn a_merge_that_writers_wait_for_has_more_pieces() {
    let options = Options::default().memory_budget(64 << 20).keyspace_options(keyspace_options());
    let db = Database::open_with("/db", options.env(Env::simulated(Arc::new(StrictFs::new()), 1))).unwrap();
    for run in 0..4u64 {
        (0..2000u64)
            .for_each(|key| db.default_keyspace().put(format!("key {:05}", 4 * key + run), [7; 50]).unwrap());
        db.default_keyspace().flush().unwrap();
    }
    let (plan, state) = (whole(&db), db.default_keyspace().state());
    let pieces = |cause: Option<PressureCause>| {
        state.write_control.lock().set_state(cause);
        subcompaction_ranges(db.store(), state, &plan).unwrap().len()
    };
    // One more than the idle ones, because no running job is among them.
    let processors = host::processors().min(8);
    assert_eq!([None, Some(PressureCause::Memory), Some(PressureCause::SharedMemory)].map(pieces), [2; 3]);
    let of_merges = [PressureCause::Level0, PressureCause::Space, PressureCause::Garbage];
    assert_eq!(of_merges.map(|cause| pieces(Some(cause))), [1 + processors; 3]);
}

#[test]
fn ranges_of_pieces_cover_the_hull_evenly() {
    let db = stepped(4, keyspace_options());
    for run in 0..4u64 {
        (0..2000u64)
            .for_each(|key| db.default_keyspace().put(format!("key {:05}", 4 * key + run), [7; 50]).unwrap());
        db.default_keyspace().flush().unwrap();
    }
    let plan = whole(&db);
    let ranges = subcompaction_ranges(db.store(), db.default_keyspace().state(), &plan).unwrap();
    assert_eq!(ranges.len(), 4);
    assert_eq!(ranges[0].start, plan.hull.start);
    assert_eq!(ranges[3].end, plan.hull.end);
    for pair in ranges.windows(2) {
        assert_eq!(pair[0].end.exclusive_bound().as_deref(), Some(&*pair[1].start));
    }
    let bytes: Vec<u64> = ranges
        .iter()
        .map(|range| {
            plan.inputs.iter().flat_map(|input| input.within(range).parts).map(|part| part.bytes()).sum()
        })
        .collect();
    let mean = plan.est_in_bytes / 4;
    assert!(bytes.iter().all(|&bytes| bytes > mean / 2 && bytes < mean * 2), "{bytes:?}");
}

/// Counts its calls, and runs an action once at a given entry.
struct Hook {
    shown: AtomicU64,
    at: u64,
    act: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Hook {
    fn new(at: u64) -> Arc<Hook> {
        Arc::new(Hook { shown: AtomicU64::new(0), at, act: OnceLock::new() })
    }

    fn shown(&self) -> u64 {
        self.shown.load(Ordering::SeqCst)
    }
}

impl CompactionFilter for Hook {
    fn name(&self) -> &str {
        "hook"
    }

    fn filter(&self, _: &[u8], _: &[u8]) -> Decision {
        if self.shown.fetch_add(1, Ordering::SeqCst) + 1 == self.at
            && let Some(act) = self.act.get()
        {
            act();
        }
        // Dropped entries are work, too.
        Decision::Remove
    }
}

const VALUE_BYTES: u64 = 100;

fn fill(db: &Database) {
    for run in 0..4u64 {
        (0..5000u64).for_each(|key| {
            db.default_keyspace()
                .put(format!("key {:05}", 4 * key + run), [7; VALUE_BYTES as usize])
                .unwrap();
        });
        db.default_keyspace().flush().unwrap();
    }
}

/// After the stop each subcompaction reads at most one window of each input, or writes at most so much (JB1):
/// counted in entries, not in time. Everything is dropped here, so that a job that checked only when it
/// writes would run to its end.
#[test]
fn a_job_ends_soon_after_the_stop() {
    for pieces in [1, 3] {
        let hook = Hook::new(6000);
        let options = keyspace_options().strategy(Strategy::None);
        let filter = Arc::clone(&hook) as Arc<dyn CompactionFilter>;
        let db = stepped(pieces, options.compaction_filter(filter));
        fill(&db);
        let store = Arc::clone(db.store());
        let tables = db.default_keyspace().state().view.load().tree.parts().count();
        hook.act.set(Box::new(move || store.scheduler.stop())).ok().unwrap();
        let told = db.compact_all();
        assert!(matches!(told, Err(Error::Closed)), "{told:?}");
        // Each input continues to the end of its window, which a table ends, too; subcompactions that have
        // not begun do not.
        let most = 6000 + 4 * 2 * TABLE_BYTES / VALUE_BYTES;
        assert!(hook.shown() < most, "{} entries were looked at", hook.shown());
        assert_eq!(db.default_keyspace().state().view.load().tree.parts().count(), tables);
        assert!(db.store().jobs.progress(0).is_empty(), "JB4");
    }
}

/// A failing subcompaction ends the others (JB3), whatever the failure; and the returned error is its own.
#[test]
fn a_dropped_keyspace_ends_all_pieces() {
    let hook = Hook::new(100);
    let db = stepped(3, KeyspaceOptions::default());
    let filter = Arc::clone(&hook) as Arc<dyn CompactionFilter>;
    let options = keyspace_options().strategy(Strategy::None).compaction_filter(filter);
    let keyspace = db.keyspace_with("other", options).unwrap();
    for run in 0..4u64 {
        (0..5000u64).for_each(|key| keyspace.put(format!("key {:05}", 4 * key + run), [7; 100]).unwrap());
        keyspace.flush().unwrap();
    }
    hook.act.set(Box::new(move || db.drop_keyspace("other").unwrap())).ok().unwrap();
    let told = keyspace.compact(..);
    assert!(matches!(told, Err(Error::NotFound(_))), "{told:?}");
    assert!(hook.shown() < 20_000, "{} entries were looked at", hook.shown());
}

/// IN3 and BF4: a merge takes long beside others; if it referenced the tree that it began with, all files
/// that these replace would stay until its end, tables and blob files alike. Here another merge runs from
/// begin to end in the middle of one.
#[test]
fn a_job_keeps_nothing_but_its_inputs() {
    let hook = Hook::new(10);
    let options = keyspace_options().strategy(Strategy::None).blob_threshold(200).blob_file_size(16 << 10);
    let db = stepped(1, options.compaction_filter(Arc::clone(&hook) as Arc<dyn CompactionFilter>));
    for prefix in ["a", "b"] {
        (0..100u64)
            .for_each(|key| db.default_keyspace().put(format!("{prefix}{key:03}"), vec![7; 1000]).unwrap());
        db.default_keyspace().flush().unwrap();
    }
    let (store, id) = (Arc::clone(db.store()), db.default_keyspace().state().id);
    let of_tree = |db: &Database| -> Vec<_> {
        let view = db.default_keyspace().state().view.load();
        view.tree.large.iter().map(|file| file.path().to_path_buf()).collect()
    };
    let (other, files) = (db.clone(), of_tree(&db));
    let seen = Arc::new(OnceLock::new());
    let told = Arc::clone(&seen);
    let act = move || {
        other.default_keyspace().compact("b".."c").unwrap();
        store.files.delete_obsolete();
        let exists = |path: &PathBuf| store.env.fs.file_len(path).unwrap().is_some();
        let left = files.iter().filter(|path| exists(path)).count();
        told.set((store.files.held_bytes(id), left, of_tree(&other).len())).unwrap();
    };
    hook.act.set(Box::new(act)).ok().unwrap();
    let before = of_tree(&db).len();
    db.default_keyspace().compact("a".."b").unwrap();
    let &(held_bytes, left, named) = seen.get().expect("one ran inside of the other");
    assert_eq!(held_bytes, 0, "unreferenced tables");
    assert_eq!((left, named), (before / 2, before / 2), "blob files of {before}");
    assert_eq!(hook.shown(), 200);
}

fn facts(class: Class) -> JobFacts {
    JobFacts {
        class,
        reason: None,
        from: Vec::new(),
        level: LevelIndex::LAST,
        hull: None,
        total_bytes: 1000,
        is_cancellable: true,
    }
}

#[test]
fn one_job_of_the_lowest_classes_runs_at_a_time() {
    let db = stepped(1, keyspace_options());
    let (store, keyspace) = (db.store(), db.default_keyspace());
    let begin = |class| store.jobs.begin(keyspace.state(), facts(class), None);
    let idle = begin(Class::Idle).expect("nothing else runs");
    assert!(begin(Class::Clean).is_none() && begin(Class::Idle).is_none(), "JB5");
    let shape = begin(Class::Shape).expect("classes above do not count");
    assert_eq!((store.jobs.merging(), store.jobs.has_preemptible()), (2, true));
    assert!(idle.check_cancelled().is_ok() && idle.before_read(300).is_ok());
    let progress = store.jobs.progress(2_000_000_000);
    assert_eq!((progress.len(), progress[0].read_bytes, progress[0].class.as_str()), (2, 300, "idle"));
    store.jobs.preemptible().expect("the idle one").yield_now();
    assert!(matches!(idle.check_cancelled(), Err(Error::Closed)) && shape.check_cancelled().is_ok());
    assert!(store.jobs.preemptible().is_none(), "no job is preempted twice");
    drop(idle);
    assert!(begin(Class::Clean).is_some());
}

/// A job of the lowest classes yields when something more urgent needs its thread, and not before.
#[test]
fn preemptible_jobs_make_room() {
    let leveled = Strategy::Leveled { size_ratio: SizeRatio::from_permille(10_000).unwrap() };
    let db = stepped(1, keyspace_options().strategy(leveled).level0_trigger_runs(100));
    let (store, keyspace) = (db.store(), db.default_keyspace());
    let idle = store.jobs.begin(keyspace.state(), facts(Class::Idle), None).expect("nothing else runs");
    for run in 0..6u64 {
        (0..500u64)
            .for_each(|key| db.default_keyspace().put(format!("key {:05}", 6 * key + run), [7; 50]).unwrap());
        flush_group::flush_keyspaces(store, &[Arc::clone(keyspace.state())]).unwrap();
    }
    assert!(!compact::preempt(store).unwrap() && !idle.has_yielded(), "nothing is wanted");
    keyspace.update_options(|options| options.level0_trigger_runs(4)).unwrap();
    assert!(!compact::preempt(store).unwrap(), "nothing is urgent enough for a thread of its own");
    assert!(idle.has_yielded());
    drop(idle);
    store.scheduler.request(WorkerPool::Compaction);
    while db.step_background() {}
    assert!(keyspace.state().view.load().tree.runs.len() < 6);
}

/// Overlapping runs, one of which has tables that a newer one deletes completely; nothing is merged before an
/// option says so.
fn with_deleted_tables() -> Database {
    let leveled = Strategy::Leveled { size_ratio: SizeRatio::from_permille(10_000).unwrap() };
    let db = stepped(1, keyspace_options().strategy(leveled).level0_trigger_runs(100));
    for run in 0..7u64 {
        (0..400).for_each(|key| db.default_keyspace().put(format!("run {run} {key:05}"), [7; 50]).unwrap());
        // Common keys; otherwise they would lie beside each other in one run.
        db.default_keyspace()
            .put("run 0", "first")
            .and_then(|()| db.default_keyspace().put("run 7", "last"))
            .unwrap();
        if run == 6 {
            db.default_keyspace().delete_range("run 3 ".."run 4").unwrap();
        }
        flush_group::flush_keyspaces(db.store(), &[Arc::clone(db.default_keyspace().state())]).unwrap();
    }
    assert_eq!(db.default_keyspace().state().view.load().tree.runs.len(), 7);
    db
}

/// Writers will soon wait for level 0.
fn make_urgent(db: &Database) {
    let keyspace = db.default_keyspace();
    keyspace.update_options(|options| options.level0_trigger_runs(3).level0_stop_runs(4)).unwrap();
}

/// Parts deleted for every reader are dropped by an edit. They do not wait for a thread, and do not delay the
/// strategy's next plans.
#[test]
fn unread_drops_delay_no_other_plan() {
    let db = with_deleted_tables();
    let (store, state) = (db.store(), db.default_keyspace().state());
    let idle = store.jobs.begin(state, facts(Class::Idle), None).expect("nothing else runs");
    let tree = || Arc::clone(&state.view.load().tree);
    let (runs, parts) = (tree().runs.len(), tree().parts().count());
    make_urgent(&db);
    assert!(compact::preempt(store).unwrap(), "tables that are deleted go first");
    assert!(tree().runs.len() == runs && tree().parts().count() < parts);
    assert!(compact::preempt(store).unwrap() && tree().runs.len() < 4, "then what writers wait for");
    assert!(!idle.has_yielded(), "no job was preempted");
}

/// Nor do they hide other plans where a job of the lowest classes occupies all of them: without that job the
/// next plan is not only about them.
#[test]
fn unread_drops_hide_no_plan_behind_a_preemptible_job() {
    let db = with_deleted_tables();
    let (store, state) = (db.store(), db.default_keyspace().state());
    let plan = whole(&db);
    let mark = state.jobs.busy.lock().add(&plan);
    let idle = store.jobs.begin(state, facts(Class::Idle), Some(mark)).expect("nothing else runs");
    assert!(!compact::preempt(store).unwrap() && !idle.has_yielded(), "nothing but tables that are deleted");
    make_urgent(&db);
    assert!(!compact::preempt(store).unwrap() && idle.has_yielded());
}

/// With threads and a clock that only the test moves: whatever the threads do, no more is read than the rate
/// allows up to any moment. Jobs wait where they read, and stop waiting when they are cancelled.
#[test]
fn a_job_keeps_to_its_rate() {
    const RATE: u64 = 1 << 20;
    let clock = Arc::new(ManualClock::new(1_000_000));
    let env = Env { clock: Arc::<ManualClock>::clone(&clock), fs: Arc::new(StrictFs::new()), ..Env::real() };
    let rates = BackgroundRates { read_bytes_per_second: Some(RATE), ..BackgroundRates::default() };
    let keyspace = keyspace_options().strategy(Strategy::None);
    let options = Options::default().memory_budget(64 << 20).mapped_log(false).keyspace_options(keyspace);
    let db = Database::open_with("/db", options.background_rates(rates).env(env)).expect("a database");
    fill(&db);
    let store = Arc::clone(db.store());
    let other = db.clone();
    let compacting = Env::real().spawn("compacting", move || other.compact_all().unwrap()).unwrap();
    let mut waited_ms = 0;
    while !compacting.is_finished() {
        if let [job] = &store.jobs.progress(0)[..] {
            let allowed = RATE * waited_ms / 1000 + RATE / 10 + 2 * TABLE_BYTES;
            assert!(job.read_bytes <= allowed, "{} bytes after {waited_ms} ms", job.read_bytes);
        }
        waited_ms += 1;
        clock.advance(Duration::from_millis(1));
        std::thread::yield_now();
    }
    compacting.join().unwrap();
    // The job waited where the clock did not advance: the four runs have more than twice the bytes allowed in
    // a second.
    assert!(waited_ms >= 1000, "{waited_ms} ms");
    // A job that waits for its rate ends with the database.
    db.set_background_rates(BackgroundRates { read_bytes_per_second: Some(64 << 10), ..rates }).unwrap();
    fill(&db);
    let other = db.clone();
    let compact = move || assert!(matches!(other.compact_all(), Err(Error::Closed)));
    let waiting = Env::real().spawn("waiting", compact).unwrap();
    // The clock stands still, so it does not get beyond its first windows.
    while store.jobs.progress(0).is_empty() {
        std::thread::yield_now();
    }
    db.close().unwrap();
    waiting.join().unwrap();
}

/// A job that waits for a limit continues when it is lifted: the clock stands still, so by the old limit it
/// would wait for ever.
#[test]
fn jobs_go_on_at_once_when_limits_are_lifted() {
    let clock = Arc::new(ManualClock::new(1_000_000));
    clock.advance(Duration::from_secs(1));
    let env = Env { clock, fs: Arc::new(StrictFs::new()), ..Env::real() };
    // The first window, of a table, is a burst; the second waits.
    let slow =
        BackgroundRates { read_bytes_per_second: Some(16 * TABLE_BYTES), ..BackgroundRates::default() };
    let keyspace = keyspace_options().strategy(Strategy::None);
    let options = Options::default().memory_budget(64 << 20).mapped_log(false).keyspace_options(keyspace);
    let db = Database::open_with("/db", options.background_rates(slow).env(env)).expect("a database");
    fill(&db);
    let (store, other) = (Arc::clone(db.store()), db.clone());
    let compacting = Env::real().spawn("compacting", move || other.compact_all().unwrap()).unwrap();
    let now_ns = store.env.clock.monotonic_ns();
    while store.files.rates.charge(Direction::Read, 0, true, || now_ns).is_none() {
        std::thread::yield_now();
    }
    db.set_background_rates(BackgroundRates::default()).unwrap();
    compacting.join().unwrap();
    db.close().unwrap();
}

/// A failed read ends the merge with an error and is not taken for the end of an input: each read of a merge
/// fails once, then the merge succeeds. None of the inputs is cached, or half of each.
#[test]
fn a_read_that_fails_ends_a_merge_and_loses_nothing() {
    // A window includes the blocks between those that it is read for, so there are as many reads.
    for failed in [failing_reads_of_a_merge(|_| false), failing_reads_of_a_merge(|key| key % 100 < 50)] {
        assert!(failed > 40, "{failed} reads");
    }
}

/// The number of reads of a merge whose inputs are cached at the keys selected by `is_read`.
fn failing_reads_of_a_merge(is_read: impl Fn(u64) -> bool) -> usize {
    let faults = FaultFs::new(Arc::new(StrictFs::new()));
    let options = Options::default().memory_budget(64 << 20).max_subcompactions(Some(2));
    let options = options.keyspace_options(keyspace_options().strategy(Strategy::None));
    let db = Database::open_with("/db", options.env(Env::simulated(Arc::new(faults.clone()), 1)))
        .expect("a database");
    for run in 0..4u64 {
        (0..200u64).for_each(|key| {
            db.default_keyspace().put(format!("key {:05}", 3 * key + run), [run as u8; 300]).unwrap();
        });
        db.default_keyspace().flush().unwrap();
    }
    let values = || -> Vec<(Vec<u8>, Vec<u8>)> {
        let pairs = db.default_keyspace().iter().map(Result::unwrap);
        pairs.map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
    };
    let (before, store) = (values(), db.store());
    let cache = store.files.cache();
    let (cache_bytes, mut failed) = (cache.capacity_bytes(), 0);
    for nth in 1.. {
        // A merge takes from the cache what readers loaded.
        cache.set_capacity_bytes(0);
        cache.set_capacity_bytes(cache_bytes);
        (0..600u64)
            .filter(|&key| is_read(key))
            .for_each(|key| drop(db.default_keyspace().get(format!("key {key:05}")).unwrap()));
        let injected = faults.injected();
        faults.add(Rule::new(Fault::Io, When::Nth(nth)).on(Operation::Read).path("tables/"));
        let merged = db.compact_all();
        faults.heal();
        assert_eq!(values(), before, "after read {nth}");
        store.files.delete_obsolete();
        let live = db.default_keyspace().state().view.load().tree.parts().count();
        assert_eq!(store.env.fs.list(Path::new("/db/tables")).unwrap().len(), live, "after read {nth}");
        if faults.injected() == injected || merged.is_ok() {
            // All inputs were read; at most opening the outputs has failed, which readers repeat (HO9).
            merged.unwrap();
            break;
        }
        assert!(matches!(merged, Err(Error::Io(_))), "{merged:?}");
        failed += 1;
    }
    assert_eq!(db.default_keyspace().state().view.load().tree.runs.len(), 1);
    assert!(db.verify().unwrap().is_clean());
    db.close().unwrap();
    failed
}

/// A plan's moves and filter settings are followed: many tables move in one edit without rewriting a byte,
/// and output that is merged again at once gets no filter.
#[test]
fn plans_are_carried_out_to_the_letter() {
    let db = stepped(1, keyspace_options().strategy(Strategy::None));
    fill(&db);
    let (store, state) = (db.store(), db.default_keyspace().state());
    let files = |level| -> Vec<_> {
        let tree = Arc::clone(&state.view.load().tree);
        let runs = tree.runs.iter().filter(|run| run.level == level);
        runs.flat_map(|run| run.parts.iter().map(|part| part.meta.file)).collect()
    };
    let edits = || store.writing().unwrap().last_edit.load(Ordering::Relaxed);
    let carry_out = |plan: &CompactionPlan| {
        let job = store.jobs.begin(state, JobFacts::of_plan(plan), None).unwrap();
        compact::carry_out(store, &job, &PickedCompaction::from(plan.clone())).unwrap();
    };
    let mut plan = whole(&db);
    plan.kind = PlanKind::Move;
    plan.inputs.drain(..3);
    let (moved, before) = (plan.parts().map(|(_, input)| input.part.file).collect::<Vec<_>>(), edits());
    assert!(moved.len() > 20);
    carry_out(&plan);
    assert_eq!((files(LevelIndex::LAST), edits()), (moved, before + 1));
    for filter in [false, true] {
        let mut plan = whole(&db);
        plan.filter = filter;
        let first_new = store.writing().unwrap().tables.counters().0;
        carry_out(&plan);
        let tree = Arc::clone(&state.view.load().tree);
        let mut written = tree.parts().filter(|part| part.meta.file >= first_new).peekable();
        assert!(written.peek().is_some());
        assert!(written.all(|part| part.file.table(Access::Once).unwrap().filter().is_some() == filter));
        db.default_keyspace().put("key 00000", "again").unwrap();
        db.default_keyspace().flush().unwrap();
    }
}

/// I2: a table that has reached its size continues while the versions of its last key do, and ends behind
/// them, in flushes and subcompactions.
#[test]
fn versions_of_one_key_lie_in_one_table() {
    let plain = PerLevel::all(Codec::None);
    let db = stepped(4, keyspace_options().compression(plain).write_buffer_size(1 << 20));
    let (mut snapshots, state) = (Vec::new(), db.default_keyspace().state());
    let tables = || -> Vec<(u64, bool)> {
        let tree = Arc::clone(&state.view.load().tree);
        tree.parts().map(|part| (part.meta.bytes, part.meta.contains(b"key 00250"))).collect()
    };
    for round in 0..2u8 {
        for version in 0..50u8 {
            db.default_keyspace().put("key 00250", [version; 1000]).unwrap();
            snapshots.push(db.snapshot());
        }
        (0..500).for_each(|key| db.default_keyspace().put(format!("key {key:05}"), [round; 60]).unwrap());
        db.flush().unwrap();
        if round == 1 {
            db.compact_all().unwrap();
        }
        let with_it: Vec<u64> =
            tables().iter().filter(|(_, has_it)| *has_it).map(|(bytes, _)| *bytes).collect();
        let versions = snapshots.len() as u64;
        assert_eq!(with_it.len(), 1, "{:?}", tables());
        assert!(
            with_it[0] > versions * 1000 && with_it[0] < versions * 1000 + 2 * TABLE_BYTES,
            "{with_it:?}"
        );
        assert!(
            tables().len() > 4 && tables().iter().filter(|(bytes, _)| *bytes > 2 * TABLE_BYTES).count() == 1
        );
    }
    for (number, snapshot) in snapshots.iter().enumerate() {
        let value = db.default_keyspace().at(snapshot).get("key 00250").unwrap().unwrap();
        assert_eq!(&value[..], [number as u8 % 50; 1000]);
    }
}
