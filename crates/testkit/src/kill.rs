//! Both halves of the kill loop: the writes of the child process, and the check that the parent makes after
//! killing it.
//!
//! Each of a few threads writes numbers in order. Write `n` of thread `t` is one batch: the thread's counter
//! in one keyspace becomes `n`, and in another keyspace a slot of the thread gets a value that follows from
//! `t` and `n`, or is deleted. So the counter alone determines what every slot must hold, and a half-applied
//! batch shows. Each value also carries the numbers that the other threads had acknowledged before it was
//! written: all of those writes precede it, so a database that has the value without them has a hole.

use crate::{Failure, Outcome, ensure};
use esker::parts::env::Env;
use esker::{Database, Durability, Keyspace, KeyspaceOptions, Options};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Writing threads.
pub const WRITERS: usize = 3;

/// Keys that a thread writes in turns.
const SLOTS: u64 = 97;

/// Thread 0 requests a compaction, and thread 1 a sync, once every so many writes.
const UPHEAVAL: u64 = 500;

/// Opens the database with limits so small that flushes, compactions and rotations happen all the time.
///
/// # Errors
/// As [`Database::open_with`].
pub fn open(dir: &Path, mapped_log: bool) -> esker::Result<Database> {
    let keyspace = KeyspaceOptions::default()
        .write_buffer_size(16 << 10)
        .table_size(8 << 10)
        .block_size(512)
        .strategy(esker::options::Strategy::Partitioned);
    let options = Options::default().memory_budget(16 << 20).wal_segment_bytes(32 << 10);
    Database::open_with(dir, options.mapped_log(mapped_log).keyspace_options(keyspace))
}

fn keyspaces(db: &Database) -> esker::Result<(Keyspace, Keyspace)> {
    Ok((db.keyspace("counters")?, db.keyspace("slots")?))
}

fn slot_key(writer: usize, number: u64) -> Vec<u8> {
    format!("{writer}/{:03}", number % SLOTS).into_bytes()
}

/// The value of a write, or `None` for a delete. `others` are the acknowledged numbers of all threads.
fn value(writer: usize, number: u64, others: &[u64; WRITERS]) -> Option<Vec<u8>> {
    if number.is_multiple_of(7) {
        return None;
    }
    let mut text = format!("{writer} {number}");
    for other in others {
        let _ = write!(text, " {other}");
    }
    let filler = number * 131 % 700;
    text.extend((0..filler).map(|at| char::from(b'a' + ((at + number) % 26) as u8)));
    Some(text.into_bytes())
}

/// The acknowledged numbers that a value carries.
fn others_in(value: &[u8]) -> Option<[u64; WRITERS]> {
    let text = std::str::from_utf8(value).ok()?;
    let digits = |word: &str| word.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok();
    let numbers: Option<Vec<u64>> = text.split(' ').skip(2).map(digits).collect();
    numbers?.try_into().ok()
}

fn counter(counters: &Keyspace, writer: usize) -> Outcome<u64> {
    let Some(found) = counters.get(format!("{writer}"))? else { return Ok(0) };
    let bytes: [u8; 8] = (*found).try_into().map_err(|_| Failure::new("a counter that is no number"))?;
    Ok(u64::from_be_bytes(bytes))
}

/// Writes with all threads until `report`, which is called with each acknowledgement, returns `false`.
///
/// # Errors
/// The first write that failed.
pub fn write_forever(db: &Database, report: impl Fn(usize, u64) -> bool + Send + Sync + 'static) -> Outcome {
    let (report, acknowledged) = (Arc::new(report), Arc::new([const { AtomicU64::new(0) }; WRITERS]));
    let (failed, counters) = (Arc::new(AtomicBool::new(false)), keyspaces(db)?.0);
    for writer in 0..WRITERS {
        acknowledged[writer].store(counter(&counters, writer)?, Ordering::Relaxed);
    }
    let mut threads = Vec::new();
    for writer in 0..WRITERS {
        let (db, report) = (db.clone(), Arc::clone(&report));
        let (acknowledged, failed) = (Arc::clone(&acknowledged), Arc::clone(&failed));
        threads.push(Env::real().spawn(&format!("writer-{writer}"), move || {
            let outcome = write_as(&db, writer, &acknowledged, &*report);
            failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
        })?);
    }
    let panicked = threads.into_iter().map(std::thread::JoinHandle::join).filter(Result::is_err).count();
    ensure!(panicked == 0 && !failed.load(Ordering::Relaxed), "a writer failed");
    Ok(())
}

fn write_as(
    db: &Database,
    writer: usize,
    acknowledged: &[AtomicU64; WRITERS],
    report: &(impl Fn(usize, u64) -> bool + ?Sized),
) -> Outcome {
    let (counters, slots) = keyspaces(db)?;
    let first = acknowledged[writer].load(Ordering::Relaxed) + 1;
    for number in first.. {
        let others: [u64; WRITERS] = std::array::from_fn(|other| acknowledged[other].load(Ordering::Acquire));
        let mut batch = db.batch();
        batch.put(&counters, format!("{writer}"), number.to_be_bytes());
        match value(writer, number, &others) {
            Some(value) => batch.put(&slots, slot_key(writer, number), value),
            None => batch.delete(&slots, slot_key(writer, number)),
        }
        db.write_with(&batch, Durability::Process)?;
        acknowledged[writer].store(number, Ordering::Release);
        if !report(writer, number) {
            break;
        }
        match (writer, number % UPHEAVAL) {
            (0, 0) => slots.compact(..)?,
            (1, 0) => db.sync()?,
            _ => {}
        }
    }
    Ok(())
}

/// Checks the database of a killed writer; `acknowledged` are the numbers it had reported. Returns the
/// numbers found.
///
/// # Errors
/// The first thing that is missing, half applied, or not what was written.
pub fn verify(db: &Database, acknowledged: &[u64; WRITERS]) -> Outcome<[u64; WRITERS]> {
    let (counters, slots) = keyspaces(db)?;
    let mut found = [0; WRITERS];
    for writer in 0..WRITERS {
        found[writer] = counter(&counters, writer)?;
        let promised = acknowledged[writer];
        ensure!(
            found[writer] >= promised,
            "write {promised} of {writer} was acknowledged, {} is there",
            found[writer]
        );
    }
    let mut present = 0;
    for writer in 0..WRITERS {
        let last = found[writer];
        for number in last.saturating_sub(SLOTS - 1).max(1)..=last {
            let there = slots.get(slot_key(writer, number))?;
            let what = format!("write {number} of {writer} (of {last})");
            let Some(there) = there else {
                ensure!(number.is_multiple_of(7), "{what} is missing");
                continue;
            };
            present += 1;
            let others =
                others_in(&there).ok_or_else(|| Failure::new(format!("{what} is unreadable: {there:?}")))?;
            let expected = value(writer, number, &others);
            ensure!(expected.as_deref() == Some(&*there), "{what} is {there:?}");
            let hole = (0..WRITERS).find(|&other| others[other] > found[other]);
            ensure!(hole.is_none(), "{what} was written after {others:?}, but found is {found:?}");
        }
    }
    let all = slots.iter().try_fold(0, |count, entry| entry.map(|_| count + 1))?;
    ensure!(all == present, "{all} slots are there, {present} should be");
    let report = db.verify()?;
    ensure!(report.is_clean(), "verify found damage: {:?}", report.damage);
    Ok(found)
}
