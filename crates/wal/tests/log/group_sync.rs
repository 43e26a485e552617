//! Group commit: many writers share few flushes.

use crate::harness::{DIR, Guaranteed, Manifest, batch, make_parent, start, verify};
use esker_base::LogId;
use esker_base::checksum::crc32c;
use esker_env::Env;
use esker_env::fault::{Crash, StrictFs, StrictOptions};
use esker_wal::{Log, LogOptions, LogWriter, Rotation};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const THREADS: usize = 8;
const WRITES: usize = 60;

/// Appends under the lock as an engine does, waiting for a segment without it.
fn append(writer: &Mutex<LogWriter>, log: &Log) -> u64 {
    loop {
        let mut writer = writer.lock();
        let first = writer.last_seqno().plus(1);
        let batch = batch(first.get(), 1);
        if !writer.has_room(batch.payload().len()) && writer.rotate(0).unwrap() == Rotation::NoneReady {
            drop(writer);
            log.wait_ready().unwrap();
            continue;
        }
        writer.append(first, 1, batch.payload(), crc32c(batch.payload())).unwrap();
        return first.get();
    }
}

/// Counts a writer out, also one that panics, so that the others do not wait for it.
struct Finished<'a>(&'a AtomicUsize);

impl Drop for Finished<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Eight writers of durability `Power`, and a thread that prepares segments. The leader of a flush waits
/// until all writers have appended, so that sharing does not depend on the speed of a flush.
#[test]
fn power_writers_share_flushes() {
    let strict = StrictFs::with_options(StrictOptions { record_trace: false, ..Default::default() });
    make_parent(&strict);
    let env = Env::simulated(Arc::new(strict.clone()), 8);
    let options =
        LogOptions { segment_bytes: 8 << 10, mapped: true, kept_segments: 2, ..LogOptions::default() };
    let (log, writer) = Log::create(&env, Path::new(DIR), &start(&Manifest::NEW, LogId(1)), options).unwrap();
    let writer = Mutex::new(writer);
    let running = AtomicUsize::new(THREADS);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let _finished = Finished(&running);
                let capture = || {
                    loop {
                        let writer = writer.lock();
                        let (last, position) = (writer.last_seqno(), writer.position());
                        let waiting = last.get() - log.durable_seqno().get();
                        if waiting >= running.load(Ordering::SeqCst) as u64 {
                            return (last, position);
                        }
                        drop(writer);
                        std::thread::yield_now();
                    }
                };
                for _ in 0..WRITES {
                    let seqno = append(&writer, &log);
                    log.sync_up_to(esker_base::SeqNo::new(seqno), capture).unwrap();
                    assert!(log.durable_seqno().get() >= seqno);
                }
            });
        }
        scope.spawn(|| {
            while running.load(Ordering::SeqCst) > 0 {
                log.prepare_next().unwrap();
                std::thread::yield_now();
            }
        });
    });
    let commits = (THREADS * WRITES) as u64;
    assert_eq!(log.durable_seqno().get(), commits);
    let flushes = log.counters().flushes;
    assert!(flushes * 2 < commits, "{flushes} flushes for {commits} commits");
    let known = Guaranteed { written: commits, durable: commits, ..Guaranteed::new(Manifest::NEW) };
    for crash in [Crash::PowerAllLost, Crash::PowerRandom { seed: 1 }, Crash::PowerRandom { seed: 2 }] {
        let recovered = verify(&strict.crash(crash), &known, true, "after all flushes");
        assert_eq!(recovered.records.len() as u64, commits);
    }
}
