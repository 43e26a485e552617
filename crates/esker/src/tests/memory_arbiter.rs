//! Which component has the memory at which moment: on the simulated file system, step by step.

use crate::parts::StepBackground;
use crate::{Database, KeyspaceOptions, Options};
use esker_engine::state::scheduler::{BackgroundWork, LOOK_INTERVAL, WorkerPool};
use esker_engine::state::store::{Store, Writing};
use esker_engine::write::memory_arbiter;
use esker_engine::write::memory_arbiter::QUIET_TIME;
use esker_env::fault::StrictFs;
use esker_env::{Env, ManualClock};
use std::sync::Arc;
use std::time::Duration;

const BUDGET: u64 = 64 << 20;

/// Periodic wake-ups of the worker in a quiet time.
const QUIET_LOOKS: u32 = (QUIET_TIME.as_secs() / LOOK_INTERVAL.as_secs()) as u32;

/// A budget that a few megabytes of values fill.
const SMALL_BUDGET: u64 = 16 << 20;

struct World {
    clock: Arc<ManualClock>,
    db: Database,
    next: u32,
}

impl World {
    fn new() -> World {
        World::with(Options::default().memory_budget(BUDGET))
    }

    /// With a budget that the values of a few hundred log segments exceed.
    fn small() -> World {
        World::with(Options::default().memory_budget(SMALL_BUDGET))
    }

    fn with(options: Options) -> World {
        let clock = Arc::new(ManualClock::new(1_000_000));
        let env =
            Env { clock: Arc::<ManualClock>::clone(&clock), ..Env::simulated(Arc::new(StrictFs::new()), 1) };
        let db = Database::open_with("/db", options.env(env)).expect("a database");
        let world = World { clock, db, next: 0 };
        world.settle();
        world
    }

    /// Reads all keys into the cache, until it is full if there is enough data.
    fn read_all(&self) {
        for number in 1..=self.next {
            assert!(self.db.default_keyspace().get(number.to_be_bytes()).expect("a get").is_some());
        }
        self.settle();
    }

    /// Gets of cached keys.
    fn read_some(&self) {
        (1..=100u32)
            .for_each(|number| _ = self.db.default_keyspace().get(number.to_be_bytes()).expect("a get"));
        self.settle();
    }

    fn idle_arena_bytes(&self) -> u64 {
        self.db.store().arenas.idle_bytes()
    }

    fn cache_capacity(&self) -> u64 {
        self.db.metrics().memory.cache_capacity_bytes
    }

    fn settle(&self) {
        self.db.store().scheduler.request(WorkerPool::Compaction);
        while self.step() {}
    }

    fn step(&self) -> bool {
        let goes_on = self.db.step_background();
        self.check();
        goes_on
    }

    /// Some wake-ups of the compaction worker.
    fn look(&self, times: u32) {
        for _ in 0..times {
            self.clock.advance(LOOK_INTERVAL);
            self.settle();
        }
    }

    fn put(&mut self, bytes: usize) {
        self.next += 1;
        self.db.default_keyspace().put(self.next.to_be_bytes(), vec![7; bytes]).expect("a put");
        self.check();
    }

    /// Fills some log segments.
    fn fill(&mut self, segments: u64) {
        let bytes = segments * self.db.store().memory.wal_segment_bytes;
        (0..bytes / 1000).for_each(|_| self.put(1000));
    }

    fn is_lent(&self) -> bool {
        self.db.store().memory_arbiter.is_lent()
    }

    fn memtables_bytes(&self) -> u64 {
        let store = self.db.store();
        let active_bytes = store.writing().expect("it takes writes").commit.lock().active_bytes;
        active_bytes + store.sealed_memory.bytes()
    }

    /// The cache's share if memtables keep `memtables_bytes`.
    fn cache_beside(&self, memtables_bytes: u64) -> u64 {
        let store = self.db.store();
        let log_bytes = store.writing().expect("it takes writes").log.mapped_bytes();
        store.memory.cache_bytes(memtables_bytes, log_bytes, store.files.open_amount().bytes)
    }

    /// LN1 and LN2: what memtables hold was granted to them, and what was granted is not the cache's.
    fn check(&self) {
        let memory = self.db.metrics().memory;
        let granted_bytes = self.db.store().memory_arbiter.granted_bytes();
        let held_bytes = self.memtables_bytes();
        let is_whole = granted_bytes == self.db.store().memory.memtables_bytes;
        assert!(is_whole || held_bytes <= granted_bytes, "{held_bytes} held of {granted_bytes}");
        assert!(
            granted_bytes + memory.cache_capacity_bytes <= memory.budget_bytes,
            "{granted_bytes} {memory:?}"
        );
        assert!(memory.cache_bytes <= memory.cache_capacity_bytes);
    }
}

#[test]
fn readers_use_the_memory_that_writers_do_not_need() {
    let mut world = World::small();
    let plan = world.db.store().memory;
    let (kept, whole) = (plan.kept_bytes(), plan.memtables_bytes);
    assert!(world.is_lent(), "nothing was written yet");
    assert_eq!(world.cache_capacity(), world.cache_beside(kept));
    world.fill(80);
    assert!(!world.is_lent());
    world.settle();
    assert_eq!(world.db.store().memory_arbiter.granted_bytes(), whole);
    assert!(world.cache_capacity() <= world.cache_beside(whole));
    assert!(world.db.metrics().memory.memtable_bytes > kept);
    // Idle after a manual compaction, or after two checks without writes between.
    for round in 0..2 {
        match round {
            0 => world.db.compact_all().expect("a compaction"),
            _ => world.look(3),
        }
        world.settle();
        assert!(!world.is_lent(), "round {round}: it is not needed yet");
        world.read_all();
        assert!(world.is_lent(), "round {round}");
        // Newly opened tables and log files are accounted for at the next rebalance.
        memory_arbiter::rebalance_memory(world.db.store());
        let granted = world.db.store().memory_arbiter.granted_bytes();
        assert!((kept..=whole / 2).contains(&granted), "{granted} of {whole}");
        assert_eq!(world.idle_arena_bytes(), 0, "arenas have given their memory back");
        // Small entries take more memory than their payload.
        let held = world.db.metrics().memory.memtable_bytes;
        assert_eq!(world.cache_capacity(), world.cache_beside(granted.max(held)));
        world.fill(20);
        world.settle();
        assert!(!world.is_lent() && world.cache_capacity() <= world.cache_beside(whole));
    }
}

/// A cache of a fixed size: nothing is lent to it, and nothing is taken from it.
#[test]
fn a_cache_of_a_fixed_size_neither_borrows_nor_shrinks() {
    const CACHE: u64 = 4 << 20;
    let mut world = World::with(Options::default().memory_budget(SMALL_BUDGET).cache_size(CACHE));
    let is_as_it_was = |world: &World| {
        let memory = world.db.metrics().memory;
        assert_eq!(memory.cache_capacity_bytes, CACHE);
        assert!(memory.used_bytes() <= memory.budget_bytes, "{memory:?}");
        assert!(!world.is_lent());
    };
    is_as_it_was(&world);
    for _ in 0..3 {
        world.fill(40);
        world.settle();
        is_as_it_was(&world);
        world.read_all();
        world.look(2 * QUIET_LOOKS);
        world.read_all();
        is_as_it_was(&world);
    }
    let used = world.db.metrics().memory.cache_bytes;
    assert!((CACHE / 2..=CACHE).contains(&used), "{used}");
}

/// LN6: while the cache has free space, the next writes find their arenas as they left them.
#[test]
fn arenas_keep_their_memory_as_long_as_the_cache_has_room() {
    let mut world = World::new();
    world.fill(4);
    world.db.compact_all().expect("a compaction");
    world.read_all();
    world.look(2 * QUIET_LOOKS);
    world.read_all();
    let idle = world.idle_arena_bytes();
    assert!(idle > 1 << 20, "{idle}");
    assert!(!world.is_lent() && world.cache_capacity() <= world.cache_beside(idle));
    let memory = world.db.metrics().memory;
    assert!(
        memory.cache_bytes > 3 << 20 && memory.cache_bytes < memory.cache_capacity_bytes / 2,
        "{memory:?}"
    );

    // Also where it has been lent since the open, before arenas held anything.
    let mut world = World::new();
    world.put(1000);
    world.db.flush().expect("a flush");
    world.settle();
    let idle = world.idle_arena_bytes();
    world.read_some();
    assert!(world.is_lent() && idle > 0 && world.idle_arena_bytes() == idle);
}

/// An offer ends when writers resume: the share is theirs until the next idle time.
#[test]
fn an_offer_ends_with_the_next_log_segment() {
    let mut world = World::small();
    world.fill(80);
    world.db.compact_all().expect("a compaction");
    world.fill(2);
    assert!(!world.is_lent());
    world.read_all();
    assert!(!world.is_lent(), "the offer was of a time of rest");
    world.db.compact_all().expect("a compaction");
    world.read_all();
    assert!(world.is_lent());
}

/// Leaving a segment because of its age writes nothing.
#[test]
fn a_delete_target_does_not_recall_the_share() {
    const WITHIN: Duration = Duration::from_secs(800);
    let keyspaces = KeyspaceOptions::default().delete_within(WITHIN);
    let mut world = World::with(Options::default().memory_budget(BUDGET).keyspace_options(keyspaces));
    let log_id = |world: &World| {
        let writing = world.db.store().writing().expect("it takes writes");
        writing.commit.lock().log.position().log_id
    };
    let first = log_id(&world);
    for _ in 0..3 {
        world.put(10);
        world.look(20);
        assert!(world.is_lent());
    }
    assert!(log_id(&world) > first, "segments were left");
}

/// A large demand of memtables is met at once, in one batch or in several, within the budget.
#[test]
fn a_large_batch_gets_its_memory_first() {
    for bytes in [1 << 20, 9 << 20, 20 << 20] {
        let mut world = World::new();
        world.put(bytes);
        world.settle();
        assert_eq!(
            world.db.default_keyspace().get(1u32.to_be_bytes()).expect("a get").map(|value| value.len()),
            Some(bytes)
        );
    }
}

/// A few writes now and then do not withhold the share from readers; filling segment after segment does.
#[test]
fn the_share_does_not_oscillate() {
    let mut world = World::small();
    world.fill(80);
    let mut times_lent = 0;
    for _ in 0..5 * QUIET_LOOKS {
        let was_lent = world.is_lent();
        world.fill(1);
        assert!(!world.is_lent() || was_lent);
        world.look(1);
        world.read_all();
        times_lent += u32::from(world.is_lent() && !was_lent);
    }
    assert_eq!((times_lent, world.is_lent()), (0, false), "segments are filled all the time");
    for _ in 0..2 * QUIET_LOOKS {
        world.put(10);
        world.look(1);
        world.read_all();
    }
    assert!(world.is_lent(), "a put each ten seconds");
    let capacity = world.db.metrics().memory.cache_capacity_bytes;
    for _ in 0..2 * QUIET_LOOKS {
        world.put(10);
        world.look(1);
        assert_eq!(world.db.metrics().memory.cache_capacity_bytes, capacity);
    }
}

/// The quiet time is measured in time: ended jobs wake the worker any number of times.
#[test]
fn checks_alone_do_not_make_it_quiet() {
    let mut world = World::small();
    world.fill(80);
    for second in 0..100 {
        world.fill(1);
        (0..2 * QUIET_LOOKS).for_each(|_| world.settle());
        world.read_all();
        assert!(!world.is_lent(), "segments are filled all the time, {second}");
        world.clock.advance(Duration::from_secs(1));
    }
}

/// A writer that recalled the share may be waiting for it, and nothing else wakes the worker.
#[test]
fn a_recalled_share_arrives() {
    let world = World::new();
    let store = world.db.store();
    let writing = store.writing().expect("it takes writes");
    assert!(!memory_arbiter::recall_share(store, 0, store.memory.memtables_bytes), "it is not there yet");
    offer_and_lend(store, writing);
    assert!(!world.is_lent(), "a writer waits for it");
    world.settle();
    assert_eq!(store.memory_arbiter.granted_bytes(), store.memory.memtables_bytes);

    // Also when the log has all the segments that it needs.
    offer_and_lend(store, writing);
    memory_arbiter::rebalance_memory(store);
    assert!(world.is_lent() && !writing.log.needs_preparation());
    assert!(!memory_arbiter::recall_share(store, 0, store.memory.memtables_bytes));
    let before = store.scheduler.generation();
    store.work(WorkerPool::Log).expect("a look of the pool");
    assert_eq!(store.memory_arbiter.granted_bytes(), store.memory.memtables_bytes);
    assert!(store.scheduler.generation() > before, "waiters are notified");
}

/// LN3: the memory of half-filled memtables would be missing when they fill up.
#[test]
fn half_filled_memtables_lend_nothing() {
    let keyspaces = KeyspaceOptions::default().write_buffer_size(3 << 20);
    let mut world = World::with(Options::default().memory_budget(SMALL_BUDGET).keyspace_options(keyspaces));
    world.fill(80);
    world.db.flush().expect("a flush");
    world.settle();
    let (store, whole) = (world.db.store(), world.db.store().memory.memtables_bytes);
    let writing = store.writing().expect("it takes writes");
    for (segments, lends) in [(7, false), (0, true)] {
        (0..segments * store.memory.wal_segment_bytes / 1000).for_each(|number| {
            world.db.default_keyspace().put(number.to_be_bytes(), [7; 1000]).expect("a put");
        });
        assert!(world.memtables_bytes() < whole / 2);
        offer_and_lend(store, writing);
        assert_eq!(world.is_lent(), lends, "{segments} segments");
        world.db.flush().expect("a flush");
        world.settle();
    }
}

/// Open tables have their part of what is lent. They give it back when it is recalled, also what a reader of
/// an old view has seen open.
#[test]
fn open_tables_use_lent_memory_and_give_it_back() {
    // Long keys that differ at their ends, in small blocks: half of the data is index.
    let long_key = |number: u32| format!("{:0300} {number:06}", 0).into_bytes();
    let keyspace = KeyspaceOptions::default().table_size(64 << 10).block_size(512);
    let mut world = World::with(Options::default().memory_budget(SMALL_BUDGET).keyspace_options(keyspace));
    for number in 0..20_000 {
        world.db.default_keyspace().put(long_key(number), [7; 100]).expect("a put");
        world.check();
    }
    world.db.compact_all().expect("a compaction");
    world.settle();
    let limit_bytes = world.db.store().memory.table_metadata_bytes();
    let metadata_bytes = |world: &World| world.db.metrics().memory.table_metadata_bytes;
    let read_all = |world: &World| {
        for number in (0..20_000).step_by(7) {
            assert!(world.db.default_keyspace().get(long_key(number)).expect("a get").is_some());
            world.step();
        }
    };
    let store = world.db.store();
    offer_and_lend(store, store.writing().expect("it takes writes"));
    assert!(world.is_lent());
    read_all(&world);
    let closed = world.db.metrics().open_tables.closed;
    read_all(&world);
    assert_eq!(world.db.metrics().open_tables.closed, closed, "all of them stay open");
    let lent_bytes = metadata_bytes(&world);
    assert!(lent_bytes > limit_bytes + limit_bytes / 2, "{lent_bytes} of {limit_bytes}");
    let cursor = world.db.default_keyspace().cursor().expect("a cursor");
    world.fill(20);
    world.settle();
    assert!(!world.is_lent());
    let memory = world.db.metrics().memory;
    assert!(memory.table_metadata_bytes <= limit_bytes, "{memory:?}");
    assert!(memory.used_bytes() <= memory.budget_bytes, "{memory:?}");
    drop(cursor);
}

/// As when the cache is full.
fn offer_and_lend(store: &Store, writing: &Writing) {
    memory_arbiter::offer_share(store, writing);
    memory_arbiter::lend(store, writing);
}

/// A read-only database gives the whole share to the cache.
#[test]
fn a_read_only_database_gives_everything_to_the_cache() {
    let fs: Arc<StrictFs> = Arc::new(StrictFs::new());
    let open = |read_only: bool| {
        let options =
            Options::default().memory_budget(BUDGET).env(Env::simulated(Arc::<StrictFs>::clone(&fs), 1));
        Database::open_with("/db", options.read_only(read_only)).expect("a database")
    };
    open(false).close().expect("a close");
    let db = open(true);
    let plan = db.store().memory;
    assert_eq!(db.metrics().memory.cache_capacity_bytes, plan.cache_bytes(plan.kept_bytes(), 0, 0));
}
