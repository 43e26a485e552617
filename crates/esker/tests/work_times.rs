//! Times of slow work in the metrics: flushes of memtables, flushes of the log, and writes held back, by
//! cause.

#![allow(clippy::disallowed_methods, reason = "threads and files of the tests")]

use esker::metrics::{DurationCounts, Metrics};
use esker::parts::env::fault::{FaultFs, Operation};
use esker::parts::env::{Env, StdFileSystem};
use esker::{Database, Durability, Options, WriteOptions};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("esker-work-times-{name}-{}", std::process::id()));
        let _left = std::fs::remove_dir_all(&path);
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _removed = std::fs::remove_dir_all(&self.0);
    }
}

/// The highest step has all durations but those above all steps, of which a test has none.
fn assert_complete(counts: &DurationCounts) {
    let (_, within) = counts.within_steps().last().expect("there are steps");
    assert_eq!(within, counts.count(), "{counts:?}");
    assert!(counts.count() == 0 || counts.sum() > Duration::ZERO, "{counts:?}");
}

#[test]
fn flushes_and_bytes_of_the_log_are_counted_with_their_times() {
    let dir = Directory::new("flushes");
    let database = Database::open_with(&dir.0, Options::default().memory_budget(32 << 20)).expect("opens");
    let keyspace = database.default_keyspace();
    let before = database.metrics();
    assert_eq!(before.flush_times.count(), 0);
    let (value, power) = ([7; 1000], WriteOptions::default().durability(Durability::Power));
    for number in 0..20_u32 {
        keyspace.put_with(number.to_be_bytes(), value, power).expect("written");
    }
    let written = database.metrics();
    let grown = written.log.written_bytes - before.log.written_bytes;
    assert!((20 * 1004..20 * 1200).contains(&grown), "{grown} bytes in the log");
    assert!(
        written.log.flushes >= 20 && written.log.flush_times.count() == written.log.flushes,
        "{written:?}"
    );
    assert_complete(&written.log.flush_times);
    assert!(written.keyspaces[0].memtable_bytes >= 20 * 1000, "{:?}", written.keyspaces[0]);
    database.flush().expect("flushed");
    let flushed = database.metrics();
    let flushes: u64 = flushed.keyspaces.iter().map(|keyspace| keyspace.flushes).sum();
    assert!(flushes >= 1 && flushed.flush_times.count() == flushes, "{flushes}: {:?}", flushed.flush_times);
    assert_complete(&flushed.flush_times);
    database.close().expect("closed");
}

fn caused(metrics: &Metrics, is_stop: bool) -> Duration {
    metrics.stall_causes.iter().filter(|stall| stall.is_stop == is_stop).map(|stall| stall.time).sum()
}

#[test]
fn the_time_of_stalls_has_causes() {
    let dir = Directory::new("stalls");
    let faults = FaultFs::new(Arc::new(StdFileSystem));
    let env = Env { fs: Arc::new(faults.clone()), ..Env::real() };
    // Memtables of half a megabyte, whose flush waits at a gate until a write waits for it.
    let options = Options::default().memory_budget(8 << 20).env(env);
    let database = Database::open_with(&dir.0, options).expect("opens");
    let (gate, opened) = channel::<()>();
    faults.interrupt(Operation::Create, "tables/", move || {
        let _opened = opened.recv();
    });
    std::thread::scope(|scope| {
        let write = |writer: u32| {
            let keyspace = database.default_keyspace();
            for number in 0..250_u32 {
                let key = (writer * 250 + number).to_be_bytes();
                keyspace.put(key, vec![7; 64 << 10]).expect("written");
            }
        };
        let writers: Vec<_> = (0..4).map(|writer| scope.spawn(move || write(writer))).collect();
        while database.stalls().waiting.is_empty() && !writers.iter().all(|writer| writer.is_finished()) {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(gate);
    });
    let metrics = database.metrics();
    assert!(metrics.stalls > 0, "nothing stalled, so nothing was tested");
    assert_eq!(caused(&metrics, true), metrics.stall_time, "{:?}", metrics.stall_causes);
    assert_eq!(caused(&metrics, false), metrics.delay_time, "{:?}", metrics.stall_causes);
    for stall in &metrics.stall_causes {
        let known = match stall.is_stop {
            true => ["log", "flush", "compaction"].contains(&stall.cause),
            false => ["memory", "shared memory", "level 0", "drained"].contains(&stall.cause),
        };
        assert!(known && stall.time > Duration::ZERO, "{stall:?}");
    }
    database.close().expect("closed");
}
