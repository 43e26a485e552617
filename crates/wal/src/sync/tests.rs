use super::*;
use esker_base::LogId;
use esker_env::{ManualClock, SystemClock};
use std::sync::Barrier;
use std::sync::atomic::AtomicUsize;

fn place(offset: u64) -> LogPosition {
    LogPosition::new(LogId(1), offset)
}

/// A log in which every byte is a record: its end is its last sequence number.
#[derive(Debug)]
struct SyncHarness {
    group_sync: GroupSync,
    end: Mutex<u64>,
    on_disk: AtomicU64,
    flushes: AtomicUsize,
}

impl SyncHarness {
    fn new() -> SyncHarness {
        SyncHarness::with_clock(Arc::new(ManualClock::new(0)))
    }

    fn with_clock(clock: Arc<dyn Clock>) -> SyncHarness {
        SyncHarness {
            group_sync: GroupSync::new(0, place(0), clock),
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
        self.group_sync.sync_up_to(seqno, capture, |position| {
            self.flushes.fetch_add(1, Ordering::Relaxed);
            // A flush makes at least everything durable that was there when it began.
            std::thread::yield_now();
            self.on_disk.fetch_max(position.offset, Ordering::Release);
            Ok(())
        })
    }
}

#[test]
fn no_sync_returns_early_and_flushes_are_shared() {
    const THREADS: usize = 8;
    const WRITES: usize = 2000;
    // Flushes take time, so that groups form.
    let harness = SyncHarness::with_clock(Arc::new(SystemClock::new()));
    let start = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                start.wait();
                for _ in 0..WRITES {
                    let seqno = harness.append();
                    harness.sync(seqno).unwrap();
                    assert!(harness.on_disk.load(Ordering::Acquire) >= seqno);
                    assert!(harness.group_sync.durable_seqno() >= seqno);
                }
            });
        }
    });
    assert_eq!(harness.group_sync.durable_seqno(), (THREADS * WRITES) as u64);
    assert_eq!(harness.group_sync.durable_position(), place((THREADS * WRITES) as u64));
    assert!(harness.flushes.load(Ordering::Relaxed) <= THREADS * WRITES);
}

/// While one flush is held up, seven writers arrive; one more flush serves them all.
#[test]
fn followers_wait_for_at_most_one_more_flush() {
    let harness = SyncHarness::new();
    let leading = Barrier::new(2);
    let go_on = Barrier::new(2);
    let arrived = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let first = harness.append();
        let harness = &harness;
        let (leading, go_on) = (&leading, &go_on);
        let leader = scope.spawn(move || {
            let capture = || harness.capture();
            harness.group_sync.sync_up_to(first, capture, |_| {
                leading.wait();
                go_on.wait();
                Ok(())
            })
        });
        leading.wait();
        let followers: Vec<_> = (0..7)
            .map(|_| {
                scope.spawn(|| {
                    let seqno = harness.append();
                    arrived.fetch_add(1, Ordering::SeqCst);
                    harness.sync(seqno)
                })
            })
            .collect();
        while arrived.load(Ordering::SeqCst) < 7 {
            std::thread::yield_now();
        }
        assert_eq!(harness.group_sync.durable_seqno(), 0);
        go_on.wait();
        leader.join().unwrap().unwrap();
        for follower in followers {
            follower.join().unwrap().unwrap();
        }
    });
    assert_eq!(harness.flushes.load(Ordering::Relaxed), 1);
    assert_eq!(harness.group_sync.durable_seqno(), 8);
}

#[test]
fn a_failed_flush_fails_every_caller_and_is_never_repeated() {
    let harness = SyncHarness::new();
    let leading = Barrier::new(2);
    let go_on = Barrier::new(2);
    let failing = |position: LogPosition| {
        assert_eq!(position, place(1));
        leading.wait();
        go_on.wait();
        Err(Error::internal("the device is gone"))
    };
    std::thread::scope(|scope| {
        let (harness, failing) = (&harness, &failing);
        let first = harness.append();
        let leader = scope.spawn(move || harness.group_sync.sync_up_to(first, || harness.capture(), failing));
        leading.wait();
        let second = harness.append();
        let waiting = scope.spawn(move || harness.sync(second));
        go_on.wait();
        for outcome in [leader.join().unwrap(), waiting.join().unwrap(), harness.sync(second)] {
            let Err(Error::ReadOnly { cause }) = outcome else { panic!("{outcome:?}") };
            assert!(cause.contains("the device is gone"), "{cause}");
        }
    });
    assert_eq!(harness.flushes.load(Ordering::Relaxed), 0);
    assert_eq!(harness.group_sync.durable_seqno(), 0);
    assert!(harness.group_sync.is_poisoned());
    // The first cause stays.
    harness.group_sync.poison("another".into());
    assert!(harness.group_sync.cause().unwrap().contains("the device is gone"));
    // Earlier durable numbers stay durable.
    assert!(harness.sync(0).is_ok());
}

#[test]
fn a_panic_of_the_leader_poisons_the_log() {
    let harness = SyncHarness::new();
    let seqno = harness.append();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        harness.group_sync.sync_up_to(seqno, || harness.capture(), |_| panic!("defect"))
    }));
    assert!(outcome.is_err());
    assert!(harness.group_sync.cause().unwrap().contains("panicked"));
    assert!(matches!(harness.sync(seqno), Err(Error::ReadOnly { .. })));
}

#[test]
fn a_sync_past_the_end_of_the_log_is_refused_and_not_waited_for() {
    let harness = SyncHarness::new();
    let seqno = harness.append();
    assert!(matches!(harness.sync(seqno + 1), Err(Error::Internal(_))));
    assert_eq!(harness.group_sync.durable_seqno(), seqno);
}

#[test]
fn marks_are_pending_once_for_each_raise() {
    let harness = SyncHarness::new();
    assert_eq!(harness.group_sync.durable_raises(), 0);
    let seqno = harness.append();
    harness.sync(seqno).unwrap();
    let mark = harness.group_sync.try_pending_mark().unwrap();
    assert_eq!((mark.durable_raises, mark.position), (1, place(1)));
    harness.sync(seqno).unwrap();
    assert_eq!(harness.group_sync.durable_raises(), 1);
}

/// Seven callers arrive during one flush and then wait for its returning caller: one flush for all eight.
#[test]
fn the_next_flush_waits_for_callers_of_the_last_round() {
    let clock = Arc::new(ManualClock::new(0));
    let harness = SyncHarness::with_clock(clock.clone());
    // The limit is never reached: only the eighth caller ends the delay.
    harness.group_sync.lock().commit_delay.set_max_delay(Duration::from_secs(3600));
    let leading = Barrier::new(2);
    let go_on = Barrier::new(2);
    std::thread::scope(|scope| {
        let harness = &harness;
        let first = harness.append();
        let (leading, go_on) = (&leading, &go_on);
        let leader = scope.spawn(move || {
            let flush = |_| {
                leading.wait();
                go_on.wait();
                clock.advance(Duration::from_secs(7200));
                Ok(())
            };
            harness.group_sync.sync_up_to(first, || harness.capture(), flush)?;
            // The others are queued and one of them watches the timer, or they did not wait.
            while !harness.group_sync.lock().commit_delay.is_timed()
                && harness.flushes.load(Ordering::Relaxed) == 0
            {
                std::thread::yield_now();
            }
            harness.sync(harness.append())
        });
        leading.wait();
        let followers: Vec<_> = (0..7).map(|_| scope.spawn(|| harness.sync(harness.append()))).collect();
        while harness.group_sync.lock().queued < 7 {
            std::thread::yield_now();
        }
        go_on.wait();
        for writer in followers.into_iter().chain([leader]) {
            writer.join().unwrap().unwrap();
        }
    });
    assert_eq!(harness.flushes.load(Ordering::Relaxed), 1, "besides the one that was held up");
    assert_eq!(harness.group_sync.durable_seqno(), 9);
    assert_eq!(harness.group_sync.lock().queued, 0);
}

/// One of two callers stays away: the other one's delay ends by itself.
#[test]
fn a_delay_ends_although_no_caller_joins() {
    let clock = Arc::new(ManualClock::new(0));
    let harness = SyncHarness::with_clock(clock.clone());
    harness.group_sync.lock().commit_delay.ended(2, 0, 1_000_000, 0);
    let flush = |_| {
        clock.advance(Duration::from_millis(1));
        Ok(())
    };
    let waits = || harness.group_sync.lock().commit_delay.limit(1).is_some();
    assert!(waits());
    harness.group_sync.sync_up_to(harness.append(), || harness.capture(), flush).unwrap();
    assert_eq!(harness.group_sync.durable_seqno(), 1);
    assert!(!waits(), "GA1: nobody else was there in the last round");
}

/// Poisoning the log during a commit delay wakes every waiter.
#[test]
fn poison_ends_a_delay() {
    let harness = SyncHarness::with_clock(Arc::new(ManualClock::new(0)));
    {
        let mut state = harness.group_sync.lock();
        state.commit_delay.set_max_delay(Duration::from_secs(3600));
        state.commit_delay.ended(3, 0, u64::MAX, 0);
    }
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..2).map(|_| scope.spawn(|| harness.sync(harness.append()))).collect();
        while harness.group_sync.lock().queued < 2 {
            std::thread::yield_now();
        }
        harness.group_sync.poison("the device is gone".into());
        for writer in waiting {
            assert!(matches!(writer.join().unwrap(), Err(Error::ReadOnly { .. })));
        }
    });
    assert_eq!(harness.flushes.load(Ordering::Relaxed), 0);
}

const LONG: Duration = Duration::from_secs(600);

#[test]
fn a_wait_without_leading_ends_with_the_flush_that_covers_it() {
    let harness = &SyncHarness::with_clock(Arc::new(SystemClock::new()));
    for round in 0..200 {
        let (before, last) = (harness.append(), harness.append());
        std::thread::scope(|scope| {
            let waits: Vec<_> = [before, last, last]
                .map(|seqno| scope.spawn(move || (seqno, harness.group_sync.wait_durable(seqno, LONG))))
                .into();
            if round % 2 == 0 {
                std::thread::yield_now();
            }
            harness.sync(last).unwrap();
            for wait in waits {
                let (seqno, outcome) = wait.join().unwrap();
                assert_eq!(outcome.unwrap(), DurableWait::Durable);
                assert!(harness.on_disk.load(Ordering::Acquire) >= seqno);
            }
        });
    }
    assert_eq!(harness.flushes.load(Ordering::Relaxed), 200, "a wait leads no flush");
}

#[test]
fn a_wait_without_leading_ends_by_time_by_poison_and_by_closing() {
    let harness = SyncHarness::with_clock(Arc::new(SystemClock::new()));
    let seqno = harness.append();
    let wait = |limit| harness.group_sync.wait_durable(seqno, limit);
    assert_eq!(wait(Duration::ZERO).unwrap(), DurableWait::TimedOut);
    assert_eq!(wait(Duration::from_millis(1)).unwrap(), DurableWait::TimedOut);
    std::thread::scope(|scope| {
        let waits: Vec<_> = (0..3).map(|_| scope.spawn(|| wait(LONG))).collect();
        harness.group_sync.end_waits();
        for wait in waits {
            assert_eq!(wait.join().unwrap().unwrap(), DurableWait::Ended);
        }
    });
    let harness = SyncHarness::with_clock(Arc::new(SystemClock::new()));
    let seqno = harness.append();
    std::thread::scope(|scope| {
        let waits: Vec<_> =
            (0..3).map(|_| scope.spawn(|| harness.group_sync.wait_durable(seqno, LONG))).collect();
        harness.group_sync.poison("the device is gone".into());
        for wait in waits {
            assert!(matches!(wait.join().unwrap(), Err(Error::ReadOnly { .. })));
        }
    });
}
