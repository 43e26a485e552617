//! Targets with a clock that the tests move, on a strict file system, stepped.

use super::*;
use crate::options::BackgroundRates;
use crate::parts::StepBackground;
use crate::{Database, Expiry, KeyspaceOptions, Options};
use esker_env::fault::StrictFs;
use esker_env::{Clock, Env, FileSystem, ManualClock, OpenMode};
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const WITHIN: Duration = Duration::from_secs(800);

struct World {
    fs: StrictFs,
    clock: Arc<ManualClock>,
    options: Options,
    db: Database,
}

impl World {
    fn new(options: impl FnOnce(KeyspaceOptions) -> KeyspaceOptions) -> World {
        let (fs, clock) = (StrictFs::new(), Arc::new(ManualClock::new(1_600_000_000_000)));
        let env = Env { clock: clock.clone(), ..Env::simulated(Arc::new(fs.clone()), 7) };
        let keyspace = options(KeyspaceOptions::default().write_buffer_size(64 << 10).table_size(16 << 10));
        let options = Options::default().memory_budget(8 << 20).keyspace_options(keyspace).env(env);
        World { db: Database::open_with("/db", options.clone()).unwrap(), fs, clock, options }
    }

    /// Advances the time, with the workers' periodic checks.
    fn pass(&self, time: Duration) {
        self.pass_beside(time, || ());
    }

    /// The same, with another action before each check.
    fn pass_beside(&self, time: Duration, other: impl Fn()) {
        let step = Duration::from_secs(10);
        for _ in 0..time.as_secs() / step.as_secs() {
            other();
            self.clock.advance(step);
            self.db.store().scheduler.request(esker_engine::state::scheduler::WorkerPool::Compaction);
            while self.db.step_background() {}
        }
    }

    /// The files of the database that contain this text.
    fn files_with(&self, text: &[u8]) -> Vec<PathBuf> {
        let files = ["/db", "/db/tables", "/db/wal"].iter().flat_map(|dir| {
            let entries = self.fs.list(Path::new(dir)).unwrap().into_iter();
            let files = entries.filter(|entry| !entry.is_dir);
            files.map(|entry| Path::new(dir).join(entry.name)).collect::<Vec<_>>()
        });
        let contains = |path: &PathBuf| {
            let file = self.fs.open(path, OpenMode::Read).unwrap();
            let mut bytes = vec![0; file.len().unwrap() as usize];
            file.read_exact_at(&mut bytes, 0).unwrap();
            bytes.windows(text.len()).any(|window| window == text)
        };
        files.filter(contains).collect()
    }

    fn contains(&self, text: &[u8]) -> bool {
        !self.files_with(text).is_empty()
    }

    fn deletes(&self) -> DeleteTarget {
        self.db.targets().remove(0).deletes.unwrap()
    }
}

const SECRET: &[u8] = b"the-secret-value";

/// Uncompressed tables, so that the test can search for deleted data.
fn raw(options: KeyspaceOptions) -> KeyspaceOptions {
    options.compression(crate::options::PerLevel::all(esker_codec::Codec::None))
}

fn fill(db: &Database) {
    for at in 0..2000u64 {
        db.default_keyspace().put(at.to_be_bytes(), [at as u8; 64]).unwrap();
    }
}

/// DW1 to DW3, on the bytes of all files.
#[test]
fn deleted_data_is_in_no_file_after_the_target_time() {
    for strategy in ["partitioned", "leveled:10", "tiered:4", "lazy-leveled:4"] {
        let world =
            World::new(|options| raw(options).strategy(strategy.parse().unwrap()).delete_within(WITHIN));
        fill(&world.db);
        world.db.default_keyspace().put(500u64.to_be_bytes(), SECRET).unwrap();
        world.db.compact_all().unwrap();
        assert!(world.contains(SECRET), "{strategy}: it lies in the last level");
        world.db.default_keyspace().delete(500u64.to_be_bytes()).unwrap();
        world.pass(WITHIN / 2);
        assert_eq!(world.deletes().state, TargetState::Kept);
        world.pass(WITHIN / 2);
        assert_eq!(world.files_with(SECRET), [] as [PathBuf; 0], "{strategy}");
        assert_eq!(world.deletes().oldest, None, "{strategy}: {}", world.deletes());
        assert_eq!(world.db.default_keyspace().get(500u64.to_be_bytes()).unwrap(), None);
        assert_eq!(
            world.db.default_keyspace().get(501u64.to_be_bytes()).unwrap().as_deref(),
            Some(&[245u8; 64][..])
        );
        world.db.close().unwrap();
    }
}

/// Deleted data must be gone even if the key was written again, in the same memtable or later: then no
/// tombstone is left as evidence.
#[test]
fn deleted_data_of_rewritten_keys_is_gone_as_well() {
    for (strategy, flushes) in [("partitioned", 0), ("partitioned", 1), ("leveled:10", 1), ("tiered:4", 0)] {
        let world =
            World::new(|options| raw(options).strategy(strategy.parse().unwrap()).delete_within(WITHIN));
        fill(&world.db);
        let other = world.db.keyspace_with("other", KeyspaceOptions::default()).unwrap();
        world.db.default_keyspace().put(500u64.to_be_bytes(), SECRET).unwrap();
        world.db.compact_all().unwrap();
        world.db.default_keyspace().delete(500u64.to_be_bytes()).unwrap();
        (0..flushes).for_each(|_| world.db.flush().unwrap());
        world.db.default_keyspace().put(500u64.to_be_bytes(), b"newer").unwrap();
        world.db.flush().unwrap();
        world.pass_beside(WITHIN, || other.put(b"k", b"never idle").unwrap());
        assert_eq!(world.files_with(SECRET), [] as [PathBuf; 0], "{strategy} {flushes}");
        assert_eq!(world.deletes().state, TargetState::Kept, "{}", world.deletes());
        assert_eq!(
            world.db.default_keyspace().get(500u64.to_be_bytes()).unwrap().as_deref(),
            Some(&b"newer"[..])
        );
        world.db.close().unwrap();
    }
}

/// The same with a snapshot: once the snapshot is dropped the value goes, although the merge that dropped its
/// tombstone has ended long before.
#[test]
fn data_kept_by_a_snapshot_goes_after_it_though_the_key_was_rewritten() {
    let world = World::new(|options| raw(options).delete_within(WITHIN));
    fill(&world.db);
    let other = world.db.keyspace_with("other", KeyspaceOptions::default()).unwrap();
    let busy = || other.put(b"k", b"never idle").unwrap();
    world.db.default_keyspace().put(500u64.to_be_bytes(), SECRET).unwrap();
    world.db.compact_all().unwrap();
    let snapshot = world.db.snapshot();
    world.db.default_keyspace().delete(500u64.to_be_bytes()).unwrap();
    world.db.default_keyspace().put(500u64.to_be_bytes(), b"newer").unwrap();
    world.pass_beside(WITHIN + Duration::from_secs(100), busy);
    assert!(world.contains(SECRET));
    assert_eq!(world.deletes().state, TargetState::Missed, "{}", world.deletes());
    drop(snapshot);
    world.pass_beside(Duration::from_secs(100), busy);
    assert_eq!(world.files_with(SECRET), [] as [PathBuf; 0]);
    assert_eq!(world.deletes().state, TargetState::Kept, "{}", world.deletes());
    world.db.close().unwrap();
}

/// A merge takes a slice of a table with deleted data in it; the file has the data until the other slices are
/// rewritten.
#[test]
fn slices_leave_a_file_in_which_something_was_deleted() {
    let world = World::new(|options| raw(options).compaction_job_size(16 << 10).delete_within(WITHIN));
    fill(&world.db);
    world.db.compact_all().unwrap();
    let other = world.db.keyspace_with("other", KeyspaceOptions::default()).unwrap();
    // A table over all keys, and a narrow one above it that deletes some of them.
    (0..100u64).for_each(|at| world.db.default_keyspace().put((at * 20).to_be_bytes(), [9; 16]).unwrap());
    world.db.default_keyspace().put(500u64.to_be_bytes(), SECRET).unwrap();
    world.db.flush().unwrap();
    world.db.default_keyspace().delete(500u64.to_be_bytes()).unwrap();
    world.db.flush().unwrap();
    let tables = world.files_with(SECRET).into_iter().filter(|file| file.starts_with("/db/tables"));
    assert_eq!(tables.count(), 1);
    world.pass_beside(WITHIN, || other.put(b"k", b"never idle").unwrap());
    assert_eq!(world.files_with(SECRET), [] as [PathBuf; 0]);
    assert_eq!(world.deletes().state, TargetState::Kept, "{}", world.deletes());
    let runs = world.db.default_keyspace().state().view.load().tree.runs.len();
    assert!(runs > 1, "what nothing was deleted of stays where it is");
    assert_eq!(world.db.default_keyspace().get(500u64.to_be_bytes()).unwrap(), None);
    assert_eq!(
        world.db.default_keyspace().get(520u64.to_be_bytes()).unwrap().as_deref(),
        Some(&[9u8; 16][..])
    );
    assert!(world.db.verify().unwrap().is_clean());
    world.db.close().unwrap();
}

/// DW6: the manifest contains the first and last keys of tables.
#[test]
fn a_deleted_key_is_not_in_the_manifest_either() {
    let world = World::new(|options| raw(options).delete_within(WITHIN));
    fill(&world.db);
    world.db.default_keyspace().put(SECRET, b"the greatest key").unwrap();
    world.db.compact_all().unwrap();
    let names = |files: Vec<PathBuf>| files.iter().any(|file| file.to_str().unwrap().contains("MANIFEST"));
    assert!(names(world.files_with(SECRET)));
    world.db.default_keyspace().delete(SECRET).unwrap();
    world.pass(WITHIN);
    assert_eq!(world.files_with(SECRET), [] as [PathBuf; 0]);
    let edits = || world.db.store().writing().unwrap().manifest.lock().manifest.number();
    let number = edits();
    world.pass(WITHIN);
    assert_eq!(edits(), number, "nothing was written to it");
    world.db.close().unwrap();
}

/// Ingested tables queued among the memtables are no memtables: no time is known before which nothing was
/// written.
#[test]
fn queued_ingested_tables_miss_no_target() {
    let world = World::new(|options| raw(options).delete_within(WITHIN));
    let keyspace = world.db.default_keyspace();
    let mut loader = keyspace.bulk_load().unwrap();
    (0..100u64).for_each(|at| loader.add(at.to_be_bytes(), b"v").unwrap());
    loader.finish().unwrap();
    assert!(keyspace.state().view.has_sealed(), "they wait");
    assert_eq!((world.deletes().state, world.deletes().oldest), (TargetState::Kept, None));
    world.db.close().unwrap();
}

/// Opening a database, or lowering its rate limits, logs targets that cannot be met from then on.
#[test]
fn targets_that_became_infeasible_are_logged() {
    let world = World::new(|options| raw(options).delete_within(Duration::from_secs(120)));
    (0..6000u64).for_each(|at| world.db.default_keyspace().put(at.to_be_bytes(), [at as u8; 1000]).unwrap());
    world.db.compact_all().unwrap();
    let slow = BackgroundRates { write_bytes_per_second: Some(64 << 10), ..BackgroundRates::default() };
    let expected =
        ["delete_within = 120 s cannot be kept in keyspace \"default\"", "background_write_bytes_per_second"];
    let is_warning = |told: &[String]| match told {
        [] => false,
        [one] => expected.iter().all(|part| one.contains(part)),
        more => panic!("one warning says it: {more:?}"),
    };
    assert!(!is_warning(&warnings(|| world.db.set_background_rates(BackgroundRates::default()).unwrap())));
    assert!(is_warning(&warnings(|| world.db.set_background_rates(slow).unwrap())));
    world.db.close().unwrap();
    let reopened =
        |options: Options| warnings(|| Database::open_with("/db", options).unwrap().close().unwrap());
    assert!(!is_warning(&reopened(world.options.clone())));
    assert!(is_warning(&reopened(world.options.background_rates(slow))));
}

/// The warnings logged by an action on this thread.
fn warnings(act: impl FnOnce()) -> Vec<String> {
    let told = Told::default();
    let lines = Arc::clone(&told.0);
    tracing::subscriber::with_default(told, act);
    lines.lock().clone()
}

/// Records warnings, each as its fields.
#[derive(Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Told {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::Id {
        tracing::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::Id, _: &tracing::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        self.0.lock().push(fields.0);
    }

    fn enter(&self, _: &tracing::Id) {}

    fn exit(&self, _: &tracing::Id) {}
}

struct Fields(String);

impl tracing::field::Visit for Fields {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0.push_str(&format!("{}: {value:?} ", field.name()));
    }
}

/// Without the target it stays: the test above could fail.
#[test]
fn without_a_target_it_stays() {
    let world = World::new(raw);
    fill(&world.db);
    world.db.default_keyspace().put(500u64.to_be_bytes(), SECRET).unwrap();
    world.db.compact_all().unwrap();
    world.db.default_keyspace().delete(500u64.to_be_bytes()).unwrap();
    world.db.default_keyspace().put(1u64.to_be_bytes(), b"newer").unwrap();
    world.pass(WITHIN);
    assert!(world.contains(SECRET));
    assert!(world.db.targets().is_empty());
    world.db.close().unwrap();
}

/// DW4.
#[test]
fn expired_data_is_gone_within_the_target_time() {
    let world = World::new(|options| raw(options).delete_within(WITHIN));
    fill(&world.db);
    let lives = Duration::from_secs(100);
    world.db.default_keyspace().put_with(500u64.to_be_bytes(), SECRET, Expiry::After(lives)).unwrap();
    world.db.compact_all().unwrap();
    world.pass(lives);
    assert!(world.contains(SECRET));
    world.pass(WITHIN);
    assert_eq!(world.files_with(SECRET), [] as [PathBuf; 0]);
    world.db.close().unwrap();
}

/// DW5.
#[test]
fn a_snapshot_that_keeps_deleted_data_is_reported() {
    let world = World::new(|options| raw(options).delete_within(WITHIN));
    fill(&world.db);
    world.db.default_keyspace().put(500u64.to_be_bytes(), SECRET).unwrap();
    world.db.compact_all().unwrap();
    let snapshot = world.db.snapshot();
    world.db.default_keyspace().delete(500u64.to_be_bytes()).unwrap();
    world.pass(WITHIN + Duration::from_secs(100));
    let told = world.deletes();
    assert_eq!(told.state, TargetState::Missed, "{told}");
    assert!(told.held_by_snapshot.is_some_and(|age| age >= WITHIN), "{told}");
    assert!(world.contains(SECRET));
    drop(snapshot);
    world.pass(Duration::from_secs(100));
    assert!(!world.contains(SECRET), "{}", world.deletes());
    assert_eq!(world.deletes().state, TargetState::Kept);
    world.db.close().unwrap();
}

#[test]
fn a_space_target_is_met_by_every_strategy() {
    for strategy in ["partitioned", "leveled:10", "leveled:2", "tiered:4", "lazy-leveled:4"] {
        let world = World::new(|options| options.strategy(strategy.parse().unwrap()).max_space_amp(1.5));
        let random = esker_env::SeededRandom::new(3);
        for at in 0..20_000u64 {
            world.db.default_keyspace().put(random.below(6000).to_be_bytes(), [at as u8; 100]).unwrap();
            if at % 500 == 0 {
                while world.db.step_background() {}
                let space = world.db.targets()[0].space.unwrap();
                let is_kept = matches!(space.state, TargetState::Kept | TargetState::AtRisk);
                assert!(is_kept, "{strategy}, {at}: {space}, {space:?}");
            }
        }
        world.db.close().unwrap();
    }
}

/// While a database is filled, everything above the oldest data may be alive: no target is reported as missed
/// before a merge has measured it.
#[test]
fn a_young_database_has_missed_nothing() {
    let state = |table_bytes: u64, is_measured: bool| {
        let room = SpaceUse {
            live_bytes: 1000,
            is_measured,
            table_bytes,
            blob_bytes: 100,
            running_bytes: 10,
            held_bytes: 1,
        };
        SpaceTarget::new(1500, room).state
    };
    let told = [1300, 1389, 1390, 12_000].map(|table_bytes| state(table_bytes, true));
    assert_eq!(told, [TargetState::Kept, TargetState::AtRisk, TargetState::Missed, TargetState::Missed]);
    let told = [1300, 1389, 1390, 12_000].map(|table_bytes| state(table_bytes, false));
    assert_eq!(told, [TargetState::Kept, TargetState::AtRisk, TargetState::Unknown, TargetState::Unknown]);
}

#[test]
fn infeasible_targets_are_refused() {
    let refused = |options: KeyspaceOptions| options.validate().unwrap_err().to_string();
    let none = KeyspaceOptions::default().strategy("none".parse().unwrap());
    assert!(refused(none.clone().max_space_amp(2.0)).contains("strategy none"));
    let fifo = KeyspaceOptions::default().strategy("fifo:1GiB".parse().unwrap());
    assert!(refused(fifo.max_space_amp(2.0)).contains("strategy fifo"));
    assert!(refused(none.delete_within(WITHIN)).contains("delete_within cannot be met"));
    let blobs = KeyspaceOptions::default().blob_threshold(100).delete_within(WITHIN);
    assert!(refused(blobs).contains("blob_threshold"));
    assert!(refused(KeyspaceOptions::default().max_space_amp(1.01)).contains("1.05"));
    assert!(refused(KeyspaceOptions::default().delete_within(Duration::from_secs(5))).contains("2"));
}

/// Measurements decide: 100 MB/s of writes and 200 MB/s of compactions leave no capacity for 20 bytes for
/// each.
#[test]
fn targets_ruled_out_by_measurements_are_refused_with_the_numbers() {
    let world = World::new(|options| options);
    let state = world.db.store().find_keyspace("default").unwrap();
    world.db.default_keyspace().update_options(|options| options.max_space_amp(1.05)).unwrap();
    world.db.default_keyspace().update_options(|options| options.max_space_amp(2.0)).unwrap();
    {
        let mut control = state.write_control.lock();
        control.capacity.note_arrival(100_000_000, Duration::from_secs(1));
        control.capacity.note_compaction(200_000_000, 0, Duration::from_secs(1));
    }
    let refused =
        world.db.default_keyspace().update_options(|options| options.max_space_amp(1.05)).unwrap_err();
    let told = refused.to_string();
    for part in ["max_space_amp = 1.05", "\"default\"", "100.0 MB/s", "can be kept at this rate"] {
        assert!(told.contains(part), "{told}");
    }
    world.db.default_keyspace().update_options(|options| options.max_space_amp(2.5)).unwrap();
    world.db.close().unwrap();
}

/// The same for deletes: the tables cannot be rewritten in time. Reported where options are set, and later
/// when the rate has become too low.
#[test]
fn a_deadline_that_measurements_rule_out_is_refused_with_the_numbers() {
    let world = World::new(raw);
    fill(&world.db);
    world.db.compact_all().unwrap();
    let state = world.db.store().find_keyspace("default").unwrap();
    let keyspace = world.db.default_keyspace();
    let measure = |bytes_per_second| {
        for _ in 0..100 {
            // Deleted data is read and not written: that does not reduce the rate.
            let (mut control, second) = (state.write_control.lock(), Duration::from_secs(1));
            control.capacity.note_compaction(0, 0, second);
            control.capacity.note_merged(bytes_per_second, second);
        }
    };
    let set_target =
        |seconds| keyspace.update_options(|options| options.delete_within(Duration::from_secs(seconds)));
    measure(100);
    let told = set_target(120).unwrap_err().to_string();
    for part in ["delete_within = 120 s", "\"default\"", "in 90 s", "the measured rate", "can be met"] {
        assert!(told.contains(part), "{told}");
    }
    assert!(world.db.targets().is_empty(), "nothing was changed");
    set_target(100_000).unwrap();
    assert_eq!(world.deletes().shortfall, None);
    measure(1 << 20);
    set_target(120).unwrap();
    assert_eq!(world.deletes().shortfall, None);
    measure(100);
    let told = world.deletes().to_string();
    assert!(told.contains("cannot be met") && told.contains("MB of tables"), "{told}");
    world.db.close().unwrap();
}

/// A merge must not make deletes younger: the time of a delete starts once.
#[test]
fn merges_keep_the_time_of_the_oldest_delete() {
    let world = World::new(|options| options.strategy("tiered:4".parse().unwrap()));
    fill(&world.db);
    world.db.compact_all().unwrap();
    let deleted_ms = world.clock.wall_ms();
    for round in 0..4u64 {
        world.db.default_keyspace().delete(round.to_be_bytes()).unwrap();
        world.db.default_keyspace().put((1000 + round).to_be_bytes(), b"v").unwrap();
        world.db.flush().unwrap();
        world.clock.advance(Duration::from_secs(5));
        while world.db.step_background() {}
    }
    let state = world.db.store().find_keyspace("default").unwrap();
    let view = state.view.load();
    let oldest = view.tree.version.parts().filter_map(|(_, _, part)| part.oldest_delete_ms).min();
    assert_eq!(oldest, Some(deleted_ms));
    world.db.close().unwrap();
}
