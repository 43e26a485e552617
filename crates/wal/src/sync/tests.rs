use super::*;
use esker_base::LogId;
use esker_env::{ManualClock, SystemClock};
use std::sync::Barrier;
use std::sync::atomic::AtomicUsize;

fn place(offset: u64) -> LogPosition {
    LogPosition::new(LogId(1), offset)
}

/// A log of which every byte is a record: its end is its last sequence number.
#[derive(Debug)]
struct World {
    lane: FlushLane,
    end: Mutex<u64>,
    on_disk: AtomicU64,
    flushes: AtomicUsize,
}

impl World {
    fn new() -> World {
        World::with_clock(Arc::new(ManualClock::new(0)))
    }

    fn with_clock(clock: Arc<dyn Clock>) -> World {
        World {
            lane: FlushLane::new(0, place(0), clock),
            end: Mutex::new(0),
            on_disk: AtomicU64::new(0),
            flushes: AtomicUsize::new(0),
        }
    }

    fn append(&self) -> u64 {
        let mut end = self.end.lock().expect("no test panics while it holds this");
        *end += 1;
        *end
    }

    fn capture(&self) -> (u64, LogPosition) {
        let end = *self.end.lock().expect("no test panics while it holds this");
        (end, place(end))
    }

    fn sync(&self, seqno: u64) -> Result<()> {
        let capture = || self.capture();
        self.lane.sync_up_to(seqno, capture, |position| {
            self.flushes.fetch_add(1, Ordering::Relaxed);
            // What a flush makes durable is at least what was there when it began.
            std::thread::yield_now();
            self.on_disk.fetch_max(position.offset, Ordering::Release);
            Ok(())
        })
    }
}

#[test]
fn nobody_is_told_too_early_and_flushes_are_shared() {
    const THREADS: usize = 8;
    const WRITES: usize = 2000;
    // Flushes that take time, so that groups are waited for.
    let world = World::with_clock(Arc::new(SystemClock::new()));
    let start = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                start.wait();
                for _ in 0..WRITES {
                    let seqno = world.append();
                    world.sync(seqno).unwrap();
                    assert!(world.on_disk.load(Ordering::Acquire) >= seqno);
                    assert!(world.lane.durable_seqno() >= seqno);
                }
            });
        }
    });
    assert_eq!(world.lane.durable_seqno(), (THREADS * WRITES) as u64);
    assert_eq!(world.lane.durable_position(), place((THREADS * WRITES) as u64));
    assert!(world.flushes.load(Ordering::Relaxed) <= THREADS * WRITES);
}

/// While one flush is held up, seven writers come; one more flush serves them all.
#[test]
fn followers_wait_for_one_flush_more() {
    let world = World::new();
    let leading = Barrier::new(2);
    let go_on = Barrier::new(2);
    let arrived = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let first = world.append();
        let world = &world;
        let (leading, go_on) = (&leading, &go_on);
        let leader = scope.spawn(move || {
            let capture = || world.capture();
            world.lane.sync_up_to(first, capture, |_| {
                leading.wait();
                go_on.wait();
                Ok(())
            })
        });
        leading.wait();
        let followers: Vec<_> = (0..7)
            .map(|_| {
                scope.spawn(|| {
                    let seqno = world.append();
                    arrived.fetch_add(1, Ordering::SeqCst);
                    world.sync(seqno)
                })
            })
            .collect();
        while arrived.load(Ordering::SeqCst) < 7 {
            std::thread::yield_now();
        }
        assert_eq!(world.lane.durable_seqno(), 0);
        go_on.wait();
        leader.join().unwrap().unwrap();
        for follower in followers {
            follower.join().unwrap().unwrap();
        }
    });
    assert_eq!(world.flushes.load(Ordering::Relaxed), 1);
    assert_eq!(world.lane.durable_seqno(), 8);
}

#[test]
fn a_failed_flush_poisons_everybody_and_is_never_repeated() {
    let world = World::new();
    let leading = Barrier::new(2);
    let go_on = Barrier::new(2);
    let failing = |position: LogPosition| {
        assert_eq!(position, place(1));
        leading.wait();
        go_on.wait();
        Err(Error::internal("the device is gone"))
    };
    std::thread::scope(|scope| {
        let (world, failing) = (&world, &failing);
        let first = world.append();
        let leader = scope.spawn(move || world.lane.sync_up_to(first, || world.capture(), failing));
        leading.wait();
        let second = world.append();
        let waiting = scope.spawn(move || world.sync(second));
        go_on.wait();
        for outcome in [leader.join().unwrap(), waiting.join().unwrap(), world.sync(second)] {
            let Err(Error::ReadOnly { cause }) = outcome else { panic!("{outcome:?}") };
            assert!(cause.contains("the device is gone"), "{cause}");
        }
    });
    assert_eq!(world.flushes.load(Ordering::Relaxed), 0);
    assert_eq!(world.lane.durable_seqno(), 0);
    assert!(world.lane.is_poisoned());
    // The first cause stays.
    world.lane.poison("another".into());
    assert!(world.lane.cause().unwrap().contains("the device is gone"));
    // What was durable before stays so.
    assert!(world.sync(0).is_ok());
}

#[test]
fn a_panic_of_the_leader_poisons() {
    let world = World::new();
    let seqno = world.append();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        world.lane.sync_up_to(seqno, || world.capture(), |_| panic!("defect"))
    }));
    assert!(outcome.is_err());
    assert!(world.lane.cause().unwrap().contains("panicked"));
    assert!(matches!(world.sync(seqno), Err(Error::ReadOnly { .. })));
}

#[test]
fn a_sync_past_the_end_of_the_log_is_refused_and_not_waited_for() {
    let world = World::new();
    let seqno = world.append();
    assert!(matches!(world.sync(seqno + 1), Err(Error::Internal(_))));
    assert_eq!(world.lane.durable_seqno(), seqno);
}

#[test]
fn marks_are_pending_once_for_each_raise() {
    let world = World::new();
    assert_eq!(world.lane.raises(), 0);
    let seqno = world.append();
    world.sync(seqno).unwrap();
    let mark = world.lane.try_pending_mark().unwrap();
    assert_eq!((mark.raises, mark.position), (1, place(1)));
    world.sync(seqno).unwrap();
    assert_eq!(world.lane.raises(), 1);
}

/// Seven come while one flush is held up. When it ends they wait for its caller, who comes again: one flush
/// for all eight.
#[test]
fn the_next_flush_waits_for_those_of_the_last_round() {
    let clock = Arc::new(ManualClock::new(0));
    let world = World::with_clock(clock.clone());
    // The limit is never reached: only the eighth ends the wait.
    world.lane.lock().gathering.set_longest(Duration::from_secs(3600));
    let leading = Barrier::new(2);
    let go_on = Barrier::new(2);
    std::thread::scope(|scope| {
        let world = &world;
        let first = world.append();
        let (leading, go_on) = (&leading, &go_on);
        let leader = scope.spawn(move || {
            let flush = |_| {
                leading.wait();
                go_on.wait();
                clock.advance(Duration::from_secs(7200));
                Ok(())
            };
            world.lane.sync_up_to(first, || world.capture(), flush)?;
            // The others are queued and one of them watches, or they did not wait.
            while !world.lane.lock().gathering.is_watched() && world.flushes.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            world.sync(world.append())
        });
        leading.wait();
        let followers: Vec<_> = (0..7).map(|_| scope.spawn(|| world.sync(world.append()))).collect();
        while world.lane.lock().queued < 7 {
            std::thread::yield_now();
        }
        go_on.wait();
        for writer in followers.into_iter().chain([leader]) {
            writer.join().unwrap().unwrap();
        }
    });
    assert_eq!(world.flushes.load(Ordering::Relaxed), 1, "besides the one that was held up");
    assert_eq!(world.lane.durable_seqno(), 9);
    assert_eq!(world.lane.lock().queued, 0);
}

/// One of two stays away: the other one's wait ends by itself.
#[test]
fn a_wait_ends_although_nobody_comes() {
    let clock = Arc::new(ManualClock::new(0));
    let world = World::with_clock(clock.clone());
    world.lane.lock().gathering.ended(2, 0, 1_000_000, 0);
    let flush = |_| {
        clock.advance(Duration::from_millis(1));
        Ok(())
    };
    let waits = || world.lane.lock().gathering.limit(1).is_some();
    assert!(waits());
    world.lane.sync_up_to(world.append(), || world.capture(), flush).unwrap();
    assert_eq!(world.lane.durable_seqno(), 1);
    assert!(!waits(), "GA1: nobody else was there in the last round");
}

/// A log that is poisoned while a group gathers lets nobody wait on.
#[test]
fn poison_ends_a_wait_for_the_group() {
    let world = World::with_clock(Arc::new(ManualClock::new(0)));
    {
        let mut state = world.lane.lock();
        state.gathering.set_longest(Duration::from_secs(3600));
        state.gathering.ended(3, 0, u64::MAX, 0);
    }
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..2).map(|_| scope.spawn(|| world.sync(world.append()))).collect();
        while world.lane.lock().queued < 2 {
            std::thread::yield_now();
        }
        world.lane.poison("the device is gone".into());
        for writer in waiting {
            assert!(matches!(writer.join().unwrap(), Err(Error::ReadOnly { .. })));
        }
    });
    assert_eq!(world.flushes.load(Ordering::Relaxed), 0);
}
