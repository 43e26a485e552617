//! The keeper of the soak: one thread that does everything but reads and writes of keys, in turns. It copies
//! the database and opens the copies, holds snapshots, loads, follows the changes, changes options, verifies.

use crate::soak::content::{self, PACKED, SPACES};
use crate::soak::{Shared, WORKERS};
use crate::{Outcome, ensure};
use esker::backup::{Backups, Retention};
use esker::ingest::{IngestMode, IngestOptions, TableWriter};
use esker::parts::env::{Env, SeededRandom};
use esker::{Database, KeyspaceOptions, Options, SeqNo, Value};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Between two tasks.
const PAUSE: Duration = Duration::from_millis(100);
/// A snapshot is held so long.
const HOLD: Duration = Duration::from_millis(1_500);
/// Keys that are read from a snapshot twice.
const HELD_KEYS: u64 = 300;
/// Entries of a load.
const LOADED: u64 = 20_000;
/// Batches that are followed at a time.
const FOLLOWED: usize = 20_000;
/// Memory of a copy that is opened.
const COPY_BUDGET_BYTES: u64 = 8 << 20;

type Task = fn(&Shared, &Path, &SeededRandom) -> Outcome;

/// What is done in turns, with its name for failures.
const TASKS: [(&str, Task); 9] = [
    ("snapshot", hold_snapshot),
    ("checkpoint", checkpoint),
    ("follow", follow),
    ("bulk load", bulk_load),
    ("ingest", ingest),
    ("backup", backup),
    ("compact", compact),
    ("options", change_options),
    ("verify", verify),
];

/// Does the tasks in turns until the life is over.
pub(super) fn keep(shared: &Shared, dir: &Path, random: &SeededRandom) -> Outcome {
    for (name, task) in TASKS.iter().cycle() {
        if shared.is_over() {
            break;
        }
        task(shared, dir, random).map_err(|failure| failure.during(name))?;
        shared.rounds.fetch_add(1, Ordering::Relaxed);
        shared.pause(PAUSE);
    }
    Ok(())
}

/// A snapshot shows the same at the beginning and at the end.
fn hold_snapshot(shared: &Shared, _: &Path, random: &SeededRandom) -> Outcome {
    let snapshot = shared.db.snapshot();
    let keys: Vec<(usize, Vec<u8>)> = (0..HELD_KEYS)
        .map(|_| {
            let space = random.below(SPACES.len() as u64) as usize;
            (space, content::key(random.below(WORKERS), random.below(4_000)))
        })
        .collect();
    let read = || -> Outcome<Vec<Option<Value>>> {
        content::check_accounts("a snapshot", shared.accounts.at(&snapshot).iter())?;
        let get = |(space, key): &(usize, Vec<u8>)| shared.spaces[*space].at(&snapshot).get(key);
        Ok(keys.iter().map(get).collect::<esker::Result<_>>()?)
    };
    let first = read()?;
    shared.pause(HOLD);
    let second = read()?;
    // The time of a snapshot stands still, so nothing expires in it.
    let changed = first.iter().zip(&second).position(|(first, second)| first != second);
    ensure!(
        changed.is_none(),
        "SK1: {:?} changed in a snapshot",
        changed.map(|at| keys[at].1.escape_ascii().to_string())
    );
    Ok(())
}

/// Opens a copy for reading, checks it and removes it.
fn check_copy(copy: &Path, what: &str) -> Outcome {
    let options = Options::default().read_only(true).memory_budget(COPY_BUDGET_BYTES);
    let db = Database::open_with(copy, options)?;
    content::check_accounts(what, db.open_keyspace("accounts")?.iter())?;
    for (space, name) in SPACES.iter().map(|space| (space, space.name)).filter(|(space, _)| !space.counts) {
        for entry in db.open_keyspace(name)?.iter().take(3_000) {
            let (key, found) = entry?;
            content::check_whole(space, &key, &found).map_err(|failure| failure.during(what))?;
        }
    }
    db.close()?;
    Ok(Env::real().fs.remove_dir_all(copy)?)
}

fn checkpoint(shared: &Shared, dir: &Path, _: &SeededRandom) -> Outcome {
    let copy = dir.join("checkpoint");
    shared.db.checkpoint(&copy)?;
    check_copy(&copy, "a checkpoint")
}

fn backup(shared: &Shared, dir: &Path, random: &SeededRandom) -> Outcome {
    let backups = Backups::new(dir.join("backups"));
    let made = shared.db.backup(&backups)?;
    backups.retain(Retention::keep_last(2))?;
    if random.below(3) == 0 {
        let verified = backups.verify(made.id)?;
        ensure!(verified.is_clean(), "backup {} is damaged: {verified:?}", made.id);
        let copy = dir.join("restored");
        backups.restore(made.id, &copy)?;
        check_copy(&copy, "a restored backup")?;
    }
    Ok(())
}

/// Reads the changes since the last time: sequence numbers ascend without a gap.
fn follow(shared: &Shared, _: &Path, _: &SeededRandom) -> Outcome {
    let name = "soak";
    let consumer = match shared.db.consumers().iter().any(|info| info.name == name) {
        true => shared.db.consumer(name)?,
        false => shared.db.create_consumer(name)?,
    };
    let mut last = consumer.acknowledged()?;
    let mut changes = consumer.changes()?;
    for _ in 0..FOLLOWED {
        let Some(batch) = changes.try_next()? else { break };
        let follows = batch.first_seqno() > last && batch.last_seqno() >= batch.first_seqno();
        ensure!(follows, "after change {last} comes {}", batch.first_seqno());
        last = batch.last_seqno();
    }
    // It would keep the log for what it cannot follow.
    let newest: SeqNo = shared.db.snapshot().seqno();
    Ok(consumer.acknowledge(newest.max(last))?)
}

/// Entries of a load, whose order of keys is none.
fn loaded(number: u64) -> (Vec<u8>, Vec<u8>) {
    let key = format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).into_bytes();
    let value = [&key[..], b" was loaded"].concat();
    (key, value)
}

/// Checks a keyspace that has the entries of a load and nothing else, and drops it under another name.
fn check_loaded(db: &Database, name: &str) -> Outcome {
    db.rename_keyspace(name, "loaded")?;
    let keyspace = db.open_keyspace("loaded")?;
    let mut count = 0;
    for entry in keyspace.iter() {
        let (key, value) = entry?;
        ensure!(*value == [&key[..], b" was loaded"].concat(), "{} is not as loaded", key.escape_ascii());
        count += 1;
    }
    ensure!(count == LOADED, "{count} of {LOADED} loaded entries are there");
    Ok(db.drop_keyspace("loaded")?)
}

fn bulk_load(shared: &Shared, _: &Path, _: &SeededRandom) -> Outcome {
    let mut loader = shared.db.keyspace("bulk")?.bulk_load()?;
    for (key, value) in (0..LOADED).map(loaded) {
        loader.add(key, value)?;
    }
    loader.finish()?;
    check_loaded(&shared.db, "bulk")
}

fn ingest(shared: &Shared, dir: &Path, _: &SeededRandom) -> Outcome {
    let path = dir.join("ingested.sst");
    let mut entries: Vec<_> = (0..LOADED).map(loaded).collect();
    entries.sort();
    let mut table = TableWriter::create(&path, &KeyspaceOptions::default())?;
    for (key, value) in entries {
        table.put(key, value)?;
    }
    table.finish()?;
    shared.db.keyspace("ingested")?.ingest([&path], IngestOptions::new().mode(IngestMode::Move))?;
    check_loaded(&shared.db, "ingested")
}

fn compact(shared: &Shared, _: &Path, random: &SeededRandom) -> Outcome {
    let space = &shared.spaces[random.below(SPACES.len() as u64) as usize];
    let (worker, first) = (random.below(WORKERS), random.below(4_000));
    Ok(space.compact(content::key(worker, first)..content::key(worker, first + 2_000))?)
}

fn change_options(shared: &Shared, _: &Path, random: &SeededRandom) -> Outcome {
    let choices =
        [("compression", "lz4"), ("compression", "zstd"), ("block_size", "4096"), ("block_size", "16384")];
    let (name, value) = choices[random.below(choices.len() as u64) as usize];
    let packed = &shared.spaces[PACKED];
    let changed = packed.options().set(name, value)?;
    packed.update_options(|_| changed.clone())?;
    Ok(())
}

fn verify(shared: &Shared, _: &Path, random: &SeededRandom) -> Outcome {
    if random.below(4) == 0 {
        let report = shared.db.verify()?;
        ensure!(report.is_clean(), "verification finds damage: {report:?}");
    }
    Ok(())
}
