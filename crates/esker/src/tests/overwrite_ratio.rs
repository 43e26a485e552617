//! Overwrite ratios of real flushes and merges, step by step, and their effect on space.

use crate::options::PerLevel;
use crate::parts::StepBackground;
use crate::{Database, KeyspaceOptions, Options};
use esker_base::PartId;
use esker_build::overwrite_ratio::overwrite_ratios_of;
use esker_codec::Codec;
use esker_engine::state::scheduler::WorkerPool;
use esker_env::Env;
use esker_env::fault::{Fault, FaultFs, Operation, Rule, StrictFs, When};
use esker_filter::FilterPolicy;
use esker_strategy::{base_bytes, upper_bytes};
use esker_view::tree::TableHandle;
use std::ops::Range;
use std::sync::Arc;

const KEYS: u64 = 4_000;

struct World {
    fs: Arc<FaultFs>,
    options: Options,
    db: Database,
}

impl World {
    fn new(keyspace: KeyspaceOptions) -> World {
        World::with(keyspace, |options| options)
    }

    fn with(keyspace: KeyspaceOptions, change: impl Fn(Options) -> Options) -> World {
        let fs = Arc::new(FaultFs::over_strict(StrictFs::new()));
        let keyspace = keyspace.table_size(16 << 10).block_size(512).compression(PerLevel::all(Codec::None));
        let options = change(Options::default().memory_budget(64 << 20).keyspace_options(keyspace));
        let env = Env::simulated(Arc::<FaultFs>::clone(&fs), 1);
        let db = Database::open_with("/db", options.clone().env(env)).expect("a database");
        World { fs, options, db }
    }

    /// Closed and reopened: no table is open.
    fn reopened(self) -> World {
        let World { fs, options, db } = self;
        db.close().expect("a clean close");
        let env = Env::simulated(Arc::<FaultFs>::clone(&fs), 2);
        let db = Database::open_with("/db", options.clone().env(env)).expect("a database");
        World { fs, options, db }
    }

    /// With a base of [`KEYS`] keys.
    fn filled(keyspace: KeyspaceOptions) -> World {
        World::new(keyspace).fill()
    }

    fn fill(self) -> World {
        self.put(old, 0..KEYS);
        self.db.compact_all().expect("a compaction");
        self.settle();
        self
    }

    fn settle(&self) {
        self.db.store().scheduler.request(WorkerPool::Compaction);
        while self.db.step_background() {}
    }

    fn put(&self, key: impl Fn(u64) -> String, numbers: Range<u64>) {
        numbers.for_each(|number| self.db.default_keyspace().put(key(number), [7; 40]).expect("a put"));
    }

    /// The tables that this flush makes.
    fn flush(&self) -> Vec<Seen> {
        let before = self.level(0).len();
        self.db.flush().expect("a flush");
        let mut tables = self.level(0);
        tables.truncate(tables.len() - before);
        tables
    }

    /// The tables of a level in reading order.
    fn level(&self, level: u8) -> Vec<Seen> {
        let keyspace = self.db.default_keyspace();
        let state = keyspace.state();
        let tree = Arc::clone(&state.view.load().tree);
        let known = overwrite_ratios_of(&state.tuning.overwrite_ratios, &state.options(), &tree.version);
        let share = |part: PartId| known.iter().find(|(id, _)| *id == part).map(|(_, share)| *share);
        let runs = tree.runs.iter().filter(|run| run.level.get() == level);
        let metas = runs.flat_map(|run| run.parts.iter()).map(|part| &part.meta);
        metas
            .map(|meta| Seen {
                smallest: String::from_utf8_lossy(meta.smallest()).into_owned(),
                bytes: meta.bytes,
                share: share(meta.id),
            })
            .collect()
    }

    /// The files of all tables in reading order.
    fn files(&self) -> Vec<Arc<TableHandle>> {
        let tree = Arc::clone(&self.db.default_keyspace().state().view.load().tree);
        let parts = tree.runs.iter().flat_map(|run| run.parts.iter());
        parts.map(|part| Arc::clone(&part.file)).collect()
    }

    /// Bytes above the last level, and in it.
    fn bytes(&self) -> (u64, u64) {
        let version = Arc::clone(&self.db.default_keyspace().state().view.load().tree.version);
        (upper_bytes(&version), base_bytes(&version))
    }
}

fn key(number: u64) -> String {
    format!("a key of some length {number:08}")
}

/// A key of the base.
fn old(number: u64) -> String {
    key(4 * number)
}

/// A key right behind it that does not exist.
fn new(number: u64) -> String {
    key(4 * number + 1)
}

/// Another one.
fn other(number: u64) -> String {
    key(4 * number + 2)
}

/// A table and its ratio, if known.
#[derive(Debug)]
struct Seen {
    smallest: String,
    bytes: u64,
    share: Option<u32>,
}

/// The ratio of some tables together: one that is cut after two entries says little by itself. `None` if one
/// is unknown, or there is none.
fn mean(tables: &[Seen]) -> Option<u64> {
    let bytes: u64 = tables.iter().map(|table| table.bytes).sum();
    let shares = tables.iter().map(|table| Some(table.bytes * u64::from(table.share?)));
    shares.sum::<Option<u64>>()?.checked_div(bytes)
}

/// Whether the ratio of some tables lies in a range.
fn is_about(tables: &[Seen], range: Range<u64>) -> bool {
    mean(tables).is_some_and(|mean| range.contains(&mean))
}

#[test]
fn flushes_distinguish_new_keys_from_overwritten_ones() {
    let world = World::filled(KeyspaceOptions::default());
    world.put(new, 0..KEYS);
    let shares = world.flush();
    assert!(is_about(&shares, 0..100), "new ones: {shares:?}");
    world.put(old, 0..KEYS);
    let shares = world.flush();
    assert!(is_about(&shares, 990..1001), "those of the last level: {shares:?}");
    world.put(new, 0..KEYS);
    let shares = world.flush();
    assert!(is_about(&shares, 990..1001), "those above it: {shares:?}");
    for number in 0..KEYS {
        world.put(if number % 2 == 0 { old } else { other }, number..number + 1);
    }
    let shares = world.flush();
    assert!(is_about(&shares, 350..650), "half of them: {shares:?}");
}

/// By bytes, and however entries of different sizes follow each other: a large new value behind each small
/// overwritten one, and the other way round.
#[test]
fn ratios_are_by_bytes() {
    for (of_new, of_old, expected) in [(400, 4, 0..350), (4, 400, 800..1001)] {
        let world = World::filled(KeyspaceOptions::default());
        for number in 0..KEYS / 2 {
            world.db.default_keyspace().put(old(number), vec![8; of_old]).expect("a put");
            world.db.default_keyspace().put(new(number), vec![8; of_new]).expect("a put");
        }
        let shares = world.flush();
        assert!(is_about(&shares, expected), "{of_new}: {shares:?}");
    }
}

#[test]
fn deletes_and_other_entries_than_puts_count_as_overwriting() {
    let world = World::filled(KeyspaceOptions::default());
    (0..KEYS)
        .step_by(2)
        .for_each(|number| world.db.default_keyspace().delete(new(number)).expect("a delete"));
    (1..KEYS).step_by(2).for_each(|number| world.put(new, number..number + 1));
    let shares = world.flush();
    assert!(shares.iter().all(|table| table.share.is_none()), "tombstones of what never was: {shares:?}");
    world.put(other, 0..100);
    world.db.default_keyspace().delete_range(other(50)..other(51)).expect("a range delete");
    assert_eq!(mean(&world.flush()), None, "a range delete");
    world.put(other, 100..200);
    let snapshot = world.db.snapshot();
    world.put(other, 100..200);
    assert_eq!(mean(&world.flush()), None, "two versions of each");
    drop(snapshot);
}

/// In a merge above the last level each table has its own ratio.
#[test]
fn merges_pass_ratios_on() {
    let world = World::filled(KeyspaceOptions::default());
    let half = KEYS / 2;
    for at in 0..8 {
        // Overwritten and new keys, in ranges of their own.
        (at..half).step_by(8).for_each(|number| world.put(old, number..number + 1));
        (half + at..KEYS).step_by(8).for_each(|number| world.put(new, number..number + 1));
        let shares = world.flush();
        assert!(is_about(&shares, 350..700), "{at}: {shares:?}");
    }
    world.settle();
    assert!(world.level(0).is_empty(), "a tier");
    let merged = world.level(1);
    let border = merged.partition_point(|table| table.smallest < old(half));
    let (overwritten, new) = merged.split_at(border);
    assert!(is_about(new, 0..200) && new.len() > 3, "{new:?}");
    // The last one may have some of both.
    assert!(is_about(&overwritten[..border - 1], 900..1001) && border > 3, "{overwritten:?}");
}

/// Where no filter can decide, tables have the ratio of their inputs.
#[test]
fn without_filters_shares_are_those_of_the_inputs() {
    let world = World::filled(KeyspaceOptions::default().filter(FilterPolicy::None));
    for at in 0..8 {
        (at..KEYS).step_by(8).for_each(|number| world.put(new, number..number + 1));
        assert!(is_about(&world.flush(), 900..1001), "the ratio is unknown");
    }
    let keyspace = world.db.default_keyspace();
    keyspace.state().tuning.overwrite_ratios.lock().files.values_mut().for_each(|share| *share = 300);
    world.settle();
    let merged = world.level(1);
    assert!(is_about(&merged, 250..400), "{merged:?}");
}

#[test]
fn after_a_reopen_ratios_are_unknown() {
    let world = World::filled(KeyspaceOptions::default());
    world.put(new, 0..KEYS);
    assert!(is_about(&world.flush(), 0..100));
    let world = world.reopened();
    let upper = world.level(0);
    assert!(!upper.is_empty() && upper.iter().all(|table| table.share.is_none()), "{upper:?}");
}

/// RP5: closed tables, and those whose filters are not in memory, are not read for the ratio.
#[test]
fn no_older_table_is_read_for_the_ratio() {
    for is_open in [false, true] {
        let world = World::with(KeyspaceOptions::default(), |options| options.cache_filters(is_open));
        let world = world.fill().reopened();
        if is_open {
            // A scan opens tables and probes no filter.
            assert_eq!(world.db.default_keyspace().iter().count() as u64, KEYS);
        }
        let older = world.files();
        assert!(older.len() > 3 && older.iter().all(|file| file.opened().is_some() == is_open));
        for file in &older {
            let path = file.path().to_string_lossy();
            let rule = Rule::new(Fault::Io, When::From(1)).on(Operation::Open).on(Operation::Read);
            world.fs.add(rule.path(&path));
        }
        world.put(new, 0..KEYS);
        let shares = world.flush();
        assert_eq!(world.fs.injected(), 0, "an older table was opened or read");
        assert!(is_about(&shares, 990..1001), "the ratio is unknown: {shares:?}");
        let new_files = world.files().into_iter().take(shares.len());
        assert!(new_files.into_iter().all(|file| file.opened().is_some()), "the next reader needs it");
    }
}

/// A filled store has much more above its last level than the garbage budget, and still takes no more space
/// than usual when it is overwritten then.
#[test]
fn overwrites_after_a_fill_leave_no_more_garbage_than_ever() {
    let keyspace = KeyspaceOptions::default().write_buffer_size(64 << 10).compaction_job_size(256 << 10);
    let world = World::new(keyspace);
    let keys = 60_000u64;
    // A scattered order: the factor is coprime to the number of keys.
    let nth = |at: u64| key(at * 7_919 % keys);
    let mut most_above = 0.0f64;
    for at in 0..keys {
        world.db.default_keyspace().put(nth(at), [7; 40]).expect("a put");
        if at % 500 == 0 {
            world.settle();
            let (upper, base) = world.bytes();
            if base > 2 << 20 {
                most_above = most_above.max(upper as f64 / base as f64);
            }
        }
    }
    world.db.flush().expect("a flush");
    world.settle();
    assert!((0.3..0.66).contains(&most_above), "new keys above the last level: {most_above}");
    let live_bytes = world.bytes().0 + world.bytes().1;
    let mut most = 0.0f64;
    for at in 0..2 * keys {
        world.db.default_keyspace().put(nth(at), [8; 40]).expect("a put");
        if at % 500 == 0 {
            world.settle();
            let (upper, base) = world.bytes();
            most = most.max((upper + base) as f64 / live_bytes as f64);
        }
    }
    assert!((1.05..1.2).contains(&most), "room over what is alive: {most}");
}
