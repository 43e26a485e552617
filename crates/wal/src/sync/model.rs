//! Loom model of leaders and followers, in every interleaving of up to three threads.

use super::*;
use esker_base::LogId;
use esker_base::sync::{Arc, thread};
use esker_env::ManualClock;

struct SyncModel {
    group_sync: GroupSync,
    clock: std::sync::Arc<ManualClock>,
    end: Mutex<u64>,
    on_disk: AtomicU64,
    flushes: AtomicU64,
}

impl SyncModel {
    fn new() -> Arc<SyncModel> {
        let clock = std::sync::Arc::new(ManualClock::new(0));
        Arc::new(SyncModel {
            group_sync: GroupSync::new(0, LogPosition::ZERO, clock.clone()),
            clock,
            end: Mutex::new(0),
            on_disk: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
        })
    }

    fn append(&self) -> u64 {
        let mut end = self.end.lock().expect("no test panics while it holds this");
        *end += 1;
        *end
    }

    fn sync(&self, seqno: u64, fails: impl Fn(u64) -> bool) -> Result<()> {
        let capture = || {
            let end = *self.end.lock().expect("no test panics while it holds this");
            (end, LogPosition::new(LogId(1), end))
        };
        self.group_sync.sync_up_to(seqno, capture, |position| {
            if fails(self.flushes.fetch_add(1, Ordering::Relaxed)) {
                return Err(Error::internal("the device is gone"));
            }
            // A flush takes time, so that the next group is delayed.
            self.clock.advance(Duration::from_millis(1));
            self.on_disk.fetch_max(position.offset, Ordering::Relaxed);
            Ok(())
        })
    }
}

/// Three writers, one flush at a time: every caller returns, and none before its own record is durable.
#[test]
fn leaders_and_followers() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let model = SyncModel::new();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let model = model.clone();
                thread::spawn(move || {
                    let seqno = model.append();
                    model.sync(seqno, |_| false).unwrap();
                    assert!(model.on_disk.load(Ordering::Relaxed) >= seqno);
                })
            })
            .collect();
        let seqno = model.append();
        model.sync(seqno, |_| false).unwrap();
        assert!(model.on_disk.load(Ordering::Relaxed) >= seqno);
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(model.group_sync.durable_seqno(), 3);
        assert_eq!(model.on_disk.load(Ordering::Relaxed), 3);
        assert!(model.flushes.load(Ordering::Relaxed) <= 3);
    });
}

/// The first flush fails: a caller that succeeded was durable before, no second flush runs, no caller hangs.
#[test]
fn failure_reaches_every_caller() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let model = SyncModel::new();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let model = model.clone();
                thread::spawn(move || {
                    let seqno = model.append();
                    let outcome = model.sync(seqno, |flush| flush == 0);
                    assert!(matches!(outcome, Err(Error::ReadOnly { .. })));
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(model.flushes.load(Ordering::Relaxed), 1);
        assert_eq!(model.group_sync.durable_seqno(), 0);
        assert!(model.group_sync.is_poisoned());
    });
}
