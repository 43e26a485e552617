//! The soak: a database on real files under every kind of work at once, for as long as one likes.
//!
//! Workers write and read keys of their own, which they know by heart, so that each answer is compared with
//! the one that is right ([`worker`]). Beside them one thread makes and opens copies, loads, follows the
//! changes, holds snapshots and changes options ([`keeper`]). Every few minutes the work ends, everything is
//! read, merged and measured, and the database is closed and opened again.
//!
//! Promises that the soak checks:
//!
//! * **SK1** Each answer is what the last acknowledged write of the key makes it, or absent from its expiry
//!   on.
//! * **SK2** Transfers between accounts leave the sum as it is: in every snapshot, copy and restored backup.
//! * **SK3** After the first third of the time, memory grows by less than a mebibyte a minute.
//! * **SK4** After the first third of the time no more descriptors are open than before, up to a margin.
//! * **SK5** What is merged takes at most one and a half times the bytes of what is alive, without the log
//!   that readers of changes need.

mod content;
mod keeper;
mod sampler;
mod worker;

use crate::{Failure, Outcome, TestDir, ensure};
use content::SPACES;
use esker::parts::env::{Env, SeededRandom};
use esker::{Database, Keyspace, Options};
use sampler::Sampler;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use worker::Worker;

/// Threads that write and read keys of their own.
const WORKERS: u64 = 2;

/// A database works so long between two opens.
const LIFE: Duration = Duration::from_secs(300);

/// Memory and descriptors are looked at so often.
const SAMPLE_EVERY: Duration = Duration::from_millis(250);

/// SK5: bytes of the directory for each byte of keys and values that are alive.
const MAX_SPACE_AMP: f64 = 1.5;

/// Bytes of a directory without data: log segments made in advance, manifest, tables of almost no entries.
const EMPTY_DIRECTORY_BYTES: u64 = 24 << 20;

/// How long, how large, how fast.
#[derive(Clone, Copy, Debug)]
pub struct SoakPlan {
    /// The time of all work together.
    pub time: Duration,
    /// The memory budget of the database. The data is some ten times as large.
    pub budget_bytes: u64,
    /// Operations that a worker does in a second at most; `None`: as many as it can.
    pub rate: Option<u64>,
    /// The seed of all choices. Threads take turns as they like, so a seed does not repeat a failure.
    pub seed: u64,
}

/// What a soak did and what it measured.
#[derive(Clone, Copy, Debug)]
pub struct SoakReport {
    /// Operations of workers; each is compared with what is right.
    pub operations: u64,
    /// Rounds of the keeper: copies, loads, snapshots, changes of options.
    pub rounds: u64,
    /// How often the database was closed and opened again.
    pub lives: u64,
    /// Bytes of keys and values that were alive at the end.
    pub live_bytes: u64,
    /// The most bytes of the directory for each of them, when all was merged.
    pub space_amp: f64,
    /// The most anonymous memory.
    pub peak_anonymous_bytes: u64,
    /// Growth of anonymous memory after the first third, by least squares.
    pub growth_bytes_per_minute: f64,
    /// The most descriptors after the first third.
    pub peak_descriptors: u64,
}

/// What all threads of a life share.
struct Shared {
    db: Database,
    spaces: Vec<Keyspace>,
    accounts: Keyspace,
    is_over: Mutex<bool>,
    ends: Condvar,
    operations: AtomicU64,
    rounds: AtomicU64,
}

impl Shared {
    fn open(dir: &TestDir, budget_bytes: u64) -> Outcome<Shared> {
        let options = Options::default().memory_budget(budget_bytes);
        let db = Database::open_with(dir.path().join("db"), options)?;
        let spaces = SPACES.iter().map(|space| space.open(&db)).collect::<Outcome<Vec<_>>>()?;
        let accounts = content::open_accounts(&db)?;
        Ok(Shared {
            db,
            spaces,
            accounts,
            is_over: Mutex::new(false),
            ends: Condvar::new(),
            operations: AtomicU64::new(0),
            rounds: AtomicU64::new(0),
        })
    }

    /// Whether the threads shall end.
    fn is_over(&self) -> bool {
        self.pause(Duration::ZERO)
    }

    /// Ends the life: every pause ends at once.
    fn end(&self) {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.ends.notify_all();
    }

    /// Waits so long, or until the life is over; returns whether it is.
    fn pause(&self, time: Duration) -> bool {
        let is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_over || time.is_zero() {
            return *is_over;
        }
        let waited = self.ends.wait_timeout_while(is_over, time, |is_over| !*is_over);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Soaks a database in a temporary directory; `told` gets a line of figures now and then.
///
/// # Errors
/// The first promise that did not hold.
pub fn run(plan: &SoakPlan, told: &(dyn Fn(&str) + Sync)) -> Outcome<SoakReport> {
    let dir = TestDir::new("soak");
    let mut workers: Vec<Worker> = (0..WORKERS).map(|number| Worker::new(plan, number)).collect();
    let (mut report, mut sampler) = (SoakReport::new(), Sampler::new());
    while sampler.elapsed() < plan.time {
        let shared = Arc::new(Shared::open(&dir, plan.budget_bytes)?);
        check_all(&shared, &workers)?;
        let random = SeededRandom::new(plan.seed ^ report.lives.wrapping_mul(0x9e37_79b9));
        let time = LIFE.min(plan.time.saturating_sub(sampler.elapsed()));
        workers = live(&shared, &dir, workers, random, time, &mut sampler, told)?;
        report.operations += shared.operations.load(Ordering::Relaxed);
        report.rounds += shared.rounds.load(Ordering::Relaxed);
        report.lives += 1;
        measure_space(&shared, &dir, &workers, &mut report)?;
        shared.db.close()?;
        told(&report.to_string());
    }
    sampler.judge(plan.time, &mut report)?;
    Ok(report)
}

/// One life: workers and keeper until the time is over. Returns the workers with what they know.
fn live(
    shared: &Arc<Shared>,
    dir: &TestDir,
    workers: Vec<Worker>,
    random: SeededRandom,
    time: Duration,
    sampler: &mut Sampler,
    told: &(dyn Fn(&str) + Sync),
) -> Outcome<Vec<Worker>> {
    let ends = sampler.elapsed() + time;
    let (sender, worked) = channel();
    let count = workers.len();
    for mut worker in workers {
        let (shared, sender) = (Arc::clone(shared), sender.clone());
        Env::real().spawn("worker", move || {
            let outcome = worker.work(&shared);
            if outcome.is_err() {
                shared.end();
            }
            let _ = sender.send(outcome.map(|()| worker));
        })?;
    }
    drop(sender);
    let (sender, kept) = channel();
    let (keeping, base) = (Arc::clone(shared), dir.path().to_path_buf());
    Env::real().spawn("keeper", move || {
        let outcome = keeper::keep(&keeping, &base, &random);
        if outcome.is_err() {
            keeping.end();
        }
        let _ = sender.send(outcome);
    })?;
    while sampler.elapsed() < ends && !shared.pause(SAMPLE_EVERY) {
        sampler.sample(&dir.path().join("db"), shared, told)?;
    }
    shared.end();
    kept.recv().map_err(|_| Failure::new("the keeper panicked; its message is above"))??;
    let workers: Vec<Worker> = worked.iter().collect::<Outcome<_>>()?;
    ensure!(workers.len() == count, "a worker panicked; its message is above");
    Ok(workers)
}

/// Reads everything forwards and compares it with what the workers know (SK1), then backwards.
fn check_all(shared: &Shared, workers: &[Worker]) -> Outcome {
    let snapshot = shared.db.snapshot();
    for (number, keyspace) in shared.spaces.iter().enumerate() {
        for worker in workers {
            worker.check_all(number, keyspace, &snapshot)?;
        }
        let view = keyspace.at(&snapshot);
        let forwards = view.iter().try_fold(0, |count: u64, entry| entry.map(|_| count + 1))?;
        let backwards = view.iter().rev().try_fold(0, |count: u64, entry| entry.map(|_| count + 1))?;
        let name = SPACES[number].name;
        ensure!(forwards == backwards, "SK1: {name}: {forwards} entries forwards, {backwards} backwards");
    }
    Ok(())
}

/// Merges everything and compares the directory with what is alive (SK5).
fn measure_space(shared: &Shared, dir: &TestDir, workers: &[Worker], report: &mut SoakReport) -> Outcome {
    shared.db.compact_all()?;
    shared.db.drain()?;
    report.live_bytes = workers.iter().map(|worker| worker.live_bytes(&shared.db)).sum();
    // The log that a reader of changes still needs is as long as the reader is behind.
    let beside = EMPTY_DIRECTORY_BYTES + shared.db.metrics().log.history_bytes;
    let taken = sampler::directory_bytes(&dir.path().join("db"))?.saturating_sub(beside);
    let space_amp = taken as f64 / report.live_bytes.max(1) as f64;
    report.space_amp = report.space_amp.max(space_amp);
    let is_within = space_amp <= MAX_SPACE_AMP;
    ensure!(
        is_within,
        "SK5: all merged, the directory has {taken} bytes for {} that are alive: {space_amp:.2} times",
        report.live_bytes
    );
    Ok(())
}

impl SoakReport {
    fn new() -> SoakReport {
        SoakReport {
            operations: 0,
            rounds: 0,
            lives: 0,
            live_bytes: 0,
            space_amp: 0.0,
            peak_anonymous_bytes: 0,
            growth_bytes_per_minute: 0.0,
            peak_descriptors: 0,
        }
    }
}

impl std::fmt::Display for SoakReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} lives, {} operations, {} rounds of the keeper; {} MiB alive, {:.2} times that on disk",
            self.lives,
            self.operations,
            self.rounds,
            self.live_bytes >> 20,
            self.space_amp
        )?;
        if self.peak_anonymous_bytes > 0 {
            let growth = self.growth_bytes_per_minute / f64::from(1 << 20);
            write!(
                f,
                "; anonymous memory at most {} MiB, growing by {growth:.2} MiB a minute; at most {} descriptors",
                self.peak_anonymous_bytes >> 20,
                self.peak_descriptors
            )?;
        }
        Ok(())
    }
}
