//! A keyspace with a changing workload, with a clock that the test moves, stepped.

use super::*;
use crate::parts::StepBackground;
use crate::{Database, Options};
use esker_engine::state::scheduler::WorkerPool;
use esker_env::fault::StrictFs;
use esker_env::{Env, ManualClock};

const WINDOW: Duration = Duration::from_secs(60);
const KEYS: u64 = 4000;

struct World {
    clock: Arc<ManualClock>,
    db: Database,
    drawn: u64,
}

impl World {
    fn new(strategy: &str, window: Option<Duration>) -> World {
        let clock = Arc::new(ManualClock::new(1_600_000_000_000));
        let env = Env { clock: clock.clone(), ..Env::simulated(Arc::new(StrictFs::new()), 7) };
        let keyspace = KeyspaceOptions::default()
            .strategy(strategy.parse().unwrap())
            .write_buffer_size(16 << 10)
            .table_size(32 << 10)
            .block_size(1024);
        let keyspace = KeyspaceOptions { adaptive_compaction: window, ..keyspace };
        let options = Options::default().memory_budget(8 << 20).keyspace_options(keyspace);
        let world = World { db: Database::open_with("/db", options.env(env)).unwrap(), clock, drawn: 0 };
        (0..KEYS).for_each(|number| world.put(number));
        world.db.drain().unwrap();
        // The first window begins at the worker's check.
        world.look();
        world
    }

    fn put(&self, number: u64) {
        self.db.default_keyspace().put(number.to_be_bytes(), [number as u8; 56]).unwrap();
    }

    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        (self.drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % KEYS
    }

    fn look(&self) {
        self.db.store().scheduler.request(WorkerPool::Compaction);
        while self.db.step_background() {}
    }

    /// A window with this many puts and short scans, to its end.
    fn window(&mut self, puts: u64, scans: u64) -> AdaptationInfo {
        self.pass_window(puts, scans);
        self.look();
        self.db.default_keyspace().adaptation().unwrap()
    }

    /// A window without a check at its end.
    fn pass_window(&mut self, puts: u64, scans: u64) {
        for _ in 0..puts {
            let number = self.draw();
            self.put(number);
        }
        for _ in 0..scans {
            let number = self.draw();
            let taken = self.db.default_keyspace().range(number.to_be_bytes()..).take(3).count();
            assert!(taken > 0);
        }
        self.clock.advance(WINDOW);
    }

    /// Windows of this kind until the strategy changes; returns their number.
    fn until_change(&mut self, puts: u64, scans: u64) -> u64 {
        let before = self.strategy();
        for window in 1..40 {
            let told = self.window(puts, scans);
            if self.strategy() != before {
                assert!(told.last.unwrap().starts_with("changed to"));
                return window;
            }
        }
        panic!("still {before}: {:?}", self.db.default_keyspace().adaptation());
    }

    fn strategy(&self) -> String {
        self.design().strategy.to_string()
    }

    fn design(&self) -> Design {
        self.db.default_keyspace().options().design(0)
    }

    /// The predicted write amplification and runs of the present design.
    fn predicted(&self) -> (f64, f64) {
        let keyspace = self.db.default_keyspace();
        let operations = Operations { puts: 1.0, ..Operations::default() };
        let request = AdviceRequest::default().operations(operations);
        let (store, state) = (self.db.store(), keyspace.state());
        let (mut question, _) = question::question(store, state, &request).unwrap();
        question.known = Calibration::default();
        let figures = question.predict(&self.design()).unwrap().figures;
        (figures.write_amplification, figures.runs)
    }
}

/// AD1 and AD3 on the engine: from writing to reading and back, without losing a key.
#[test]
fn the_tree_follows_a_changing_workload() {
    let mut world = World::new("leveled:4", Some(WINDOW));
    let (writes_before, _) = world.predicted();
    let first = world.until_change(4000, 0);
    assert_eq!(first, 3, "three windows agree, and nothing was changed before");
    let (writes, runs) = world.predicted();
    assert!(writes < writes_before, "{} writes {writes} for {writes_before}", world.strategy());
    world.db.drain().unwrap();

    let second = world.until_change(20, 4000);
    assert!(second >= 6, "the tree rests for six windows after a change, it changed after {second}");
    let (writes_of_scans, runs_of_scans) = world.predicted();
    assert!(runs_of_scans < runs && writes_of_scans > writes, "{}", world.strategy());
    world.db.drain().unwrap();

    world.until_change(4000, 0);
    let (writes_again, _) = world.predicted();
    assert!(writes_again < writes_of_scans, "{}", world.strategy());
    let told = world.db.default_keyspace().adaptation().unwrap();
    assert_eq!((told.changes, told.window, told.needed_windows), (3, WINDOW, 3));
    assert!(told.rest >= WINDOW * 5);

    world.db.drain().unwrap();
    let entries: Vec<_> = world.db.default_keyspace().iter().map(|entry| entry.unwrap()).collect();
    assert_eq!(entries.len() as u64, KEYS);
    for (number, (key, value)) in (0..KEYS).zip(&entries) {
        assert_eq!((&key[..], &value[..]), (&number.to_be_bytes()[..], &[number as u8; 56][..]));
    }
    world.db.close().unwrap();
}

#[test]
fn short_changes_and_idle_windows_change_nothing() {
    let mut off = World::new("leveled:4", None);
    assert_eq!(off.db.default_keyspace().adaptation(), None);
    for _ in 0..3 * 4000 {
        let number = off.draw();
        off.put(number);
    }
    off.clock.advance(WINDOW * 10);
    off.look();
    assert_eq!(off.strategy(), "leveled:4");
    off.db.close().unwrap();

    // Repeatedly two of three windows; and windows with almost no operations.
    let mut world = World::new("leveled:4", Some(WINDOW));
    let best_for_scans = {
        world.until_change(20, 4000);
        world.strategy()
    };
    for _ in 0..4 {
        world.window(4000, 0);
        assert_eq!(world.window(4000, 0).agreeing_windows, 2);
        assert_eq!(world.window(20, 4000).agreeing_windows, 0);
        let silent = world.window(10, 10);
        assert_eq!(silent.last.as_deref(), Some("too few operations to judge by"));
    }
    assert_eq!(world.strategy(), best_for_scans);
    world.db.close().unwrap();
}

/// AD4: after a change by the user, observation begins anew.
#[test]
fn a_users_change_restarts_the_observation() {
    let mut world = World::new("leveled:4", Some(WINDOW));
    world.window(4000, 0);
    assert_eq!(world.window(4000, 0).agreeing_windows, 2);
    let by_hand: esker_strategy::Strategy = "leveled:5".parse().unwrap();
    world.db.default_keyspace().update_options(|options| options.strategy(by_hand)).unwrap();
    world.db.drain().unwrap();
    assert_eq!(world.window(4000, 0).agreeing_windows, 0);
    assert_eq!(world.strategy(), "leveled:5");
    assert!(world.until_change(4000, 0) >= 3);
    // The change is stored, and the write buffer is unaffected by the tuning.
    assert_eq!(world.design().write_buffer_bytes, 16384.0);
    world.db.close().unwrap();
}

/// AD5: a user's change after the worker has read the options, and before it replaces them. The change is not
/// undone, and not counted as the worker's; if it kept the design, the next window continues.
#[test]
fn a_concurrent_change_by_a_user_takes_precedence() {
    for (by_hand, strategy) in [(None, "leveled:4"), (Some("leveled:5"), "leveled:5")] {
        let mut world = World::new("leveled:4", Some(WINDOW));
        world.window(4000, 0);
        assert_eq!(world.window(4000, 0).agreeing_windows, 2);
        // The third window would change the strategy.
        world.pass_window(4000, 0);
        let keyspace = world.db.default_keyspace();
        let (store, state) = (world.db.store(), keyspace.state());
        let read_by_lane = state.options();
        keyspace
            .update_options(|options| {
                let options = options.compaction_job_runs(7);
                by_hand.map_or(options.clone(), |by_hand| options.strategy(by_hand.parse().unwrap()))
            })
            .unwrap();
        let window_ms = WINDOW.as_millis() as u64;
        end_window(store, state, &read_by_lane, window_ms, &mut state.tuning.adapting.0.lock()).unwrap();
        assert_eq!((world.strategy().as_str(), keyspace.options().max_job_runs), (strategy, Some(7)));
        assert_eq!(keyspace.adaptation().unwrap().changes, 0);

        world.db.drain().unwrap();
        let told = world.window(4000, 0);
        let (changes, agreeing) = if by_hand.is_some() { (0, 0) } else { (1, 0) };
        assert_eq!((told.changes, told.agreeing_windows), (changes, agreeing), "{told:?}");
        assert_eq!(world.db.default_keyspace().options().max_job_runs, Some(7));
        world.db.close().unwrap();
    }
}
