//! Who has the memory at which moment: on the simulated file system, step by step.

use super::QUIET_LOOKS;
use crate::scheduler::{LOOK_INTERVAL, Lane};
use crate::{Database, Options};
use esker_env::fault::StrictFs;
use esker_env::{Env, ManualClock};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const BUDGET: u64 = 64 << 20;

struct World {
    clock: Arc<ManualClock>,
    db: Database,
    next: u32,
}

impl World {
    fn new() -> World {
        let clock = Arc::new(ManualClock::new(1_000_000));
        let env =
            Env { clock: Arc::<ManualClock>::clone(&clock), ..Env::simulated(Arc::new(StrictFs::new()), 1) };
        let db = Options::default().memory_budget(BUDGET).env(env).open("/db").expect("a database");
        let world = World { clock, db, next: 0 };
        world.settle();
        world
    }

    fn settle(&self) {
        self.db.store().scheduler.request(Lane::Compaction);
        while self.step() {}
    }

    fn step(&self) -> bool {
        let goes_on = self.db.step_background();
        self.check();
        goes_on
    }

    /// Some looks of the compaction lane.
    fn look(&self, times: u32) {
        for _ in 0..times {
            self.clock.advance(LOOK_INTERVAL);
            self.settle();
        }
    }

    fn put(&mut self, bytes: usize) {
        self.next += 1;
        self.db.put(self.next.to_be_bytes(), vec![7; bytes]).expect("a put");
        self.check();
    }

    /// Fills some log segments.
    fn fill(&mut self, segments: u64) {
        let bytes = segments * self.db.store().memory.wal_segment_bytes;
        (0..bytes / 1000).for_each(|_| self.put(1000));
    }

    fn is_lent(&self) -> bool {
        self.db.store().lending.is_lent()
    }

    fn memtables_bytes(&self) -> u64 {
        let store = self.db.store();
        let active_bytes = store.writing().expect("it takes writes").commit.lock().active_bytes;
        active_bytes + store.sealed_bytes.load(Ordering::Relaxed)
    }

    /// What the cache may have if memtables keep so much.
    fn cache_beside(&self, memtables_bytes: u64) -> u64 {
        let store = self.db.store();
        let log_bytes = store.writing().expect("it takes writes").log.mapped_bytes();
        store.memory.cache_bytes(memtables_bytes, log_bytes, store.files.open_amount().bytes)
    }

    /// LN1 and LN2: what memtables hold was granted to them, and what was granted is not the cache's.
    fn check(&self) {
        let memory = self.db.metrics().memory;
        let granted_bytes = self.db.store().lending.granted_bytes();
        let held_bytes = self.memtables_bytes();
        let is_whole = granted_bytes == self.db.store().memory.memtables_bytes;
        assert!(is_whole || held_bytes <= granted_bytes, "{held_bytes} held of {granted_bytes}");
        assert!(granted_bytes + memory.cache_capacity_bytes <= BUDGET, "{granted_bytes} {memory:?}");
        assert!(memory.cache_bytes <= memory.cache_capacity_bytes);
    }
}

#[test]
fn readers_have_what_writers_do_not_need() {
    let mut world = World::new();
    let plan = world.db.store().memory;
    let (kept, whole) = (plan.kept_bytes(), plan.memtables_bytes);
    let capacity = |world: &World| world.db.metrics().memory.cache_capacity_bytes;
    assert!(world.is_lent(), "nothing was written yet");
    assert_eq!(capacity(&world), world.cache_beside(kept));
    world.fill(20);
    assert!(!world.is_lent());
    world.settle();
    assert_eq!(world.db.store().lending.granted_bytes(), whole);
    assert!(capacity(&world) <= world.cache_beside(whole));
    assert!(world.db.metrics().memory.memtable_bytes > kept);
    // At rest: a compaction that was asked for, or nothing written between two looks.
    for round in 0..2 {
        match round {
            0 => world.db.compact_all().expect("a compaction"),
            _ => world.look(3),
        }
        world.settle();
        assert!(world.is_lent(), "round {round}");
        assert_eq!(capacity(&world), world.cache_beside(kept));
        let memory = world.db.metrics().memory;
        assert!(memory.memtable_bytes <= kept, "arenas have given their memory back: {memory:?}");
        world.fill(20);
        world.settle();
        assert!(!world.is_lent() && capacity(&world) <= world.cache_beside(whole));
    }
}

/// What memtables need at once comes at once, in few pieces or one: as far as the budget goes.
#[test]
fn a_large_batch_gets_its_memory_first() {
    for bytes in [1 << 20, 9 << 20, 20 << 20] {
        let mut world = World::new();
        world.put(bytes);
        world.settle();
        assert_eq!(world.db.get(1u32.to_be_bytes()).expect("a get").map(|value| value.len()), Some(bytes));
    }
}

/// Writes now and then do not keep the share from readers; those that fill segment after segment do.
#[test]
fn the_share_does_not_go_back_and_forth() {
    let mut world = World::new();
    let mut times_lent = 0;
    for _ in 0..5 * QUIET_LOOKS {
        let was_lent = world.is_lent();
        world.fill(1);
        assert!(!world.is_lent() || was_lent);
        world.look(1);
        times_lent += u32::from(world.is_lent() && !was_lent);
    }
    assert_eq!((times_lent, world.is_lent()), (0, false), "segments are filled all the time");
    for _ in 0..2 * QUIET_LOOKS {
        world.put(10);
        world.look(1);
    }
    assert!(world.is_lent(), "a put each ten seconds");
    let capacity = world.db.metrics().memory.cache_capacity_bytes;
    for _ in 0..2 * QUIET_LOOKS {
        world.put(10);
        world.look(1);
        assert_eq!(world.db.metrics().memory.cache_capacity_bytes, capacity);
    }
}

/// Whoever called the share back may be waiting for it, and nobody else tells the lane.
#[test]
fn a_share_that_was_called_back_comes() {
    let world = World::new();
    let store = world.db.store();
    let writing = store.writing().expect("it takes writes");
    assert!(!store.call_share_back(0, store.memory.memtables_bytes), "it is not there yet");
    store.lend(writing);
    let before = store.scheduler.generation();
    world.settle();
    assert_eq!(store.lending.granted_bytes(), store.memory.memtables_bytes);
    assert!(store.scheduler.generation() > before && !world.is_lent());
    store.lend(writing);
    assert!(world.is_lent());
}

/// A database that takes no writes has no use for the share.
#[test]
fn who_only_reads_has_all() {
    let fs: Arc<StrictFs> = Arc::new(StrictFs::new());
    let open = |read_only: bool| {
        let options =
            Options::default().memory_budget(BUDGET).env(Env::simulated(Arc::<StrictFs>::clone(&fs), 1));
        options.read_only(read_only).open("/db").expect("a database")
    };
    open(false).close().expect("a close");
    let db = open(true);
    let plan = db.store().memory;
    assert_eq!(db.metrics().memory.cache_capacity_bytes, plan.cache_bytes(plan.kept_bytes(), 0, 0));
}
