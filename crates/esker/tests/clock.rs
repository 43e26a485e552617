//! A wall clock that is wrong by decades: what expires, what is told, and the way back.

#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

use esker::events::{ClockState, Event};
use esker::parts::env::fault::StrictFs;
use esker::parts::env::{Env, ManualClock};
use esker::{Database, Expiry, Keyspace, Options};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// In 2026, and in 2096.
const RIGHT_MS: u64 = 1_780_000_000_000;
const WRONG_MS: u64 = 3_990_000_000_000;
const MINUTE: Duration = Duration::from_secs(60);

struct World {
    fs: StrictFs,
    clock: Arc<ManualClock>,
}

impl World {
    fn new(wall_ms: u64) -> World {
        World { fs: StrictFs::new(), clock: Arc::new(ManualClock::new(wall_ms)) }
    }

    fn open(&self, options: Options) -> (Database, Receiver<ClockState>) {
        let clock = Arc::<ManualClock>::clone(&self.clock);
        let env = Env { clock, ..Env::simulated(Arc::new(self.fs.clone()), 3) };
        let (sender, states) = channel();
        let listener = move |event: &Event| {
            if let Event::ClockState { state, .. } = event {
                let _ = sender.send(*state);
            }
        };
        (Database::open_with("/db", options.env(env).listener(Arc::new(listener))).unwrap(), states)
    }

    /// Whether an entry that is put for a minute is there before the end of it, and gone after.
    fn expires(&self, keyspace: &Keyspace) -> bool {
        keyspace.put_with("fleeting", "1", Expiry::After(MINUTE)).unwrap();
        self.clock.advance(MINUTE - Duration::from_millis(1));
        assert!(keyspace.get("fleeting").unwrap().is_some(), "it expires too early");
        self.clock.advance(Duration::from_millis(1));
        keyspace.get("fleeting").unwrap().is_none()
    }
}

/// One open with a clock that is seventy years ahead: nothing of it stays.
#[test]
fn a_clock_that_is_decades_ahead_is_told_and_not_believed() {
    let world = World::new(RIGHT_MS);
    let (db, _) = world.open(Options::default());
    let keyspace = db.default_keyspace();
    keyspace.put_with("for a year", "1", Expiry::After(365 * 1440 * MINUTE)).unwrap();
    assert_eq!(db.metrics().clock_skew_ms, 0);
    db.close().unwrap();
    world.clock.set_wall_ms(WRONG_MS);
    let (db, states) = world.open(Options::default());
    let keyspace = db.default_keyspace();
    assert!(db.metrics().clock_skew_ms > (WRONG_MS - RIGHT_MS) as i64 / 2);
    assert!(world.expires(keyspace), "time goes on while the clock is not believed");
    db.compact_all().unwrap();
    assert!(keyspace.get("for a year").unwrap().is_some(), "merged away as expired");
    db.close().unwrap();
    assert_eq!(states.try_iter().collect::<Vec<_>>(), [ClockState::Ahead]);
    world.clock.set_wall_ms(RIGHT_MS + 3_600_000);
    let (db, states) = world.open(Options::default());
    assert_eq!(db.metrics().clock_skew_ms, 0);
    assert!(world.expires(db.default_keyspace()));
    world.clock.advance(366 * 1440 * MINUTE);
    assert!(db.default_keyspace().get("for a year").unwrap().is_none());
    db.close().unwrap();
    assert!(states.try_iter().next().is_none(), "there is nothing to tell");
}

/// A database that was made under a wrong clock, or by a build that believed every clock.
#[test]
fn a_time_that_is_too_late_is_told_and_taken_back_on_request() {
    for flush_on_close in [true, false] {
        let world = World::new(WRONG_MS);
        let options = || Options::default().flush_on_close(flush_on_close);
        let (db, _) = world.open(options());
        db.default_keyspace().put("stays", "1").unwrap();
        db.close().unwrap();
        world.clock.set_wall_ms(RIGHT_MS);
        let (db, states) = world.open(options());
        assert!(!world.expires(db.default_keyspace()), "time stands still");
        assert!(db.metrics().clock_skew_ms < 0);
        db.close().unwrap();
        assert_eq!(states.try_iter().collect::<Vec<_>>(), [ClockState::Behind]);
        let (db, states) = world.open(options().believe_clock(true));
        assert_eq!(db.metrics().clock_skew_ms, 0);
        assert!(world.expires(db.default_keyspace()));
        db.close().unwrap();
        assert!(states.try_iter().next().is_none());
        // It is durable: later opens need no option.
        for times in 1..3 {
            let (db, states) = world.open(options());
            assert_eq!(db.metrics().clock_skew_ms, 0, "flush_on_close {flush_on_close}, open {times}");
            assert!(world.expires(db.default_keyspace()));
            assert_eq!(db.default_keyspace().get("stays").unwrap().unwrap(), "1");
            db.close().unwrap();
            assert!(states.try_iter().next().is_none());
        }
    }
}

/// A database that was closed for longer than the bound goes on where it was, until it is told to believe.
#[test]
fn a_leap_that_is_right_is_believed_on_request() {
    let world = World::new(RIGHT_MS);
    let (db, _) = world.open(Options::default());
    db.default_keyspace().put_with("k", "1", Expiry::After(MINUTE)).unwrap();
    db.close().unwrap();
    world.clock.set_wall_ms(WRONG_MS);
    let (db, _) = world.open(Options::default());
    assert!(db.default_keyspace().get("k").unwrap().is_some());
    db.close().unwrap();
    let (db, states) = world.open(Options::default().believe_clock(true));
    assert!(db.default_keyspace().get("k").unwrap().is_none());
    db.close().unwrap();
    let (db, _) = world.open(Options::default());
    assert_eq!(db.metrics().clock_skew_ms, 0);
    db.close().unwrap();
    assert!(states.try_iter().next().is_none());
}
