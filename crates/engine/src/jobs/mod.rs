//! Background jobs while they run: what each is, how far it has come, and whether it is to go on.
//!
//! # Looks
//! A flush or merge shares one [`Job`] with all of its threads and *looks* at it between blocks of work:
//! before each window that is read of an input, or block of it that lies in the cache, after each
//! [`OUTPUT_BYTES_PER_LOOK`] that were written, and between pieces of what belongs to a whole table: shards
//! of a filter, keys of a locator, pages of an index, blocks that waited for a dictionary, mebibytes of all
//! that when it is written. A look that finds a reason to end answers an error, which ends the job like any
//! other error: its outputs are deleted, its inputs stay, and nothing was changed. So calling off is neither
//! a state of its own nor a way through the code that only tests take.
//!
//! A job that is held to a rate ([`RateLimiter`]) waits at its looks.
//!
//! Two things go on without a look: training a dictionary (about 20 ms of processor time, once a table, and
//! only with that codec), and the sync of a file, for which little is left, because files go to the device
//! while they are written.
//!
//! Reasons to end are: the database closes; the keyspace was dropped; another piece of the same job failed;
//! something more urgent waits for the thread of a job of the lowest classes ([`Job::yield_now`]).
//!
//! # Invariants
//! * JB1: between two looks a job reads at most one window of each input, or writes at most
//!   [`OUTPUT_BYTES_PER_LOOK`], whatever it drops on the way: dropped entries have been read. At the 5 MB/s
//!   of the slowest codec that is 13 ms of work.
//! * JB2: a job that is called off changes nothing but counters.
//! * JB3: the pieces of a job end before it does; when one fails, the others are called off.
//! * JB4: a job is in the list of running ones from before it reads its first byte until its result is
//!   installed or given up.
//! * JB5: of the classes Clean and Idle one job at most runs, so that threads are left for what is urgent.
//!
//! Rejected: a flag for each reason, asked for in each loop: one was always forgotten where entries are
//! dropped. Ending threads from outside: nobody would know what they hold.

mod pieces;

pub(crate) use pieces::pieces_of;

use crate::keyspace::KeyspaceState;
use crate::scheduler::Scheduler;
use crate::store::Store;
use esker_base::{Error, KeyspaceId, Result};
use esker_env::{Clock, Direction, RateLimiter};
use esker_sst::JobControl;
use esker_strategy::{Class, CompactionPlan, JobId, Reason};
use esker_version::{KeyRange, LevelIndex};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Bytes of keys and values that a job writes between two looks.
pub(crate) const OUTPUT_BYTES_PER_LOOK: u64 = 64 << 10;

/// Longest time that a job waits for its turn before it looks again whether it is to go on.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// What a job is, as it was begun.
#[derive(Clone, Debug)]
pub(crate) struct JobFacts {
    pub(crate) class: Class,
    /// Why a strategy wanted it; none for a flush.
    pub(crate) reason: Option<Reason>,
    /// Where its inputs come from, newest level first; nothing for a flush.
    pub(crate) from: Vec<LevelIndex>,
    /// Where its output goes.
    pub(crate) level: LevelIndex,
    /// The keys that it merges.
    pub(crate) hull: Option<KeyRange>,
    /// Bytes that it takes.
    pub(crate) total_bytes: u64,
    /// Whether it ends when the database closes. Nothing is lost with it but its own work.
    pub(crate) is_cancellable: bool,
}

impl JobFacts {
    /// What a plan's job is.
    pub(crate) fn of_plan(plan: &CompactionPlan) -> JobFacts {
        let mut from: Vec<_> = plan.inputs.iter().map(|input| input.level).collect();
        from.dedup();
        JobFacts {
            class: plan.class,
            reason: Some(plan.reason),
            from,
            level: plan.to.level(),
            hull: Some(plan.hull.clone()),
            total_bytes: plan.est_in_bytes,
            is_cancellable: true,
        }
    }

    /// Whether it is of the classes that get out of the way.
    pub(crate) fn is_patient(&self) -> bool {
        self.class <= Class::Clean
    }
}

/// A job that runs.
pub(crate) struct Job {
    number: u64,
    facts: JobFacts,
    keyspace: Arc<KeyspaceState>,
    /// Its mark among the keyspace's busy plans, if it has one.
    mark: Option<JobId>,
    scheduler: Arc<Scheduler>,
    clock: Arc<dyn Clock>,
    rates: Arc<RateLimiter>,
    began_ns: u64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    /// Keys and values of what was written.
    payload_bytes: AtomicU64,
    pieces: AtomicUsize,
    /// A piece of it failed.
    has_failed: AtomicBool,
    /// Something more urgent waits.
    yields: AtomicBool,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job")
            .field("number", &self.number)
            .field("facts", &self.facts)
            .finish_non_exhaustive()
    }
}

impl Job {
    /// Its mark among the busy plans of its keyspace.
    pub(crate) fn mark(&self) -> Option<JobId> {
        self.mark
    }

    /// The keyspace that it works for.
    pub(crate) fn keyspace(&self) -> &Arc<KeyspaceState> {
        &self.keyspace
    }

    /// An error if the job is to end: to be asked between blocks of work (JB1).
    ///
    /// # Errors
    /// [`Error::Closed`] if it was called off, `NotFound` if the keyspace was dropped.
    pub(crate) fn look(&self) -> Result<()> {
        self.keyspace.check_living()?;
        let is_called_off = self.facts.is_cancellable
            && (self.has_failed.load(Ordering::Relaxed)
                || self.yields.load(Ordering::Relaxed)
                || self.scheduler.is_stopping());
        if is_called_off { Err(Error::Closed) } else { Ok(()) }
    }

    /// Notes that so many bytes of tables were written, with so many bytes of keys and values in them, and
    /// waits if that was too fast.
    ///
    /// # Errors
    /// As [`Job::look`].
    pub(crate) fn note_written(&self, bytes: u64, payload_bytes: u64) -> Result<()> {
        self.written_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.payload_bytes.fetch_add(payload_bytes, Ordering::Relaxed);
        self.keep_rate(Direction::Write, bytes)
    }

    fn keep_rate(&self, direction: Direction, bytes: u64) -> Result<()> {
        let changes = self.rates.changes();
        match self.rates.charge(direction, bytes, self.is_held(), || self.clock.monotonic_ns()) {
            Some(until_ns) => self.wait_until(until_ns, changes),
            None => Ok(()),
        }
    }

    /// Whether it is held to a rate: not if it was begun for writers, nor as long as some wait for it (WM2).
    fn is_held(&self) -> bool {
        self.facts.class < Class::L0Urgent && !self.keyspace.merging.is_in_haste()
    }

    /// Waits for a moment that follows from limits which were changed so often, or until they are changed
    /// again or it is not to be held any more.
    #[cold]
    fn wait_until(&self, until_ns: u64, changes: u64) -> Result<()> {
        loop {
            self.look()?;
            let left_ns = until_ns.saturating_sub(self.clock.monotonic_ns());
            // In stepped mode time stands still while a job runs.
            let is_free = self.rates.changes() != changes || !self.is_held();
            if left_ns == 0 || is_free || self.scheduler.is_stepped() {
                return Ok(());
            }
            self.scheduler.pause(Duration::from_nanos(left_ns).min(LONGEST_PAUSE));
        }
    }

    /// Notes that it is done in so many pieces.
    pub(crate) fn note_pieces(&self, pieces: usize) {
        self.pieces.store(pieces, Ordering::Relaxed);
    }

    /// Calls off the other pieces, because one has failed (JB3).
    pub(crate) fn fail(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
    }

    /// Asks it to make room for something more urgent.
    pub(crate) fn yield_now(&self) {
        self.yields.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked to make room.
    pub(crate) fn has_yielded(&self) -> bool {
        self.yields.load(Ordering::Relaxed)
    }

    fn progress(&self, now_ns: u64) -> JobMetrics {
        JobMetrics {
            number: self.number,
            keyspace: self.keyspace.name().to_string(),
            class: self.facts.class.to_string(),
            reason: self.facts.reason.map(|reason| reason.to_string()),
            from: self.facts.from.iter().map(ToString::to_string).collect(),
            level: self.facts.level.to_string(),
            keys: self.facts.hull.as_ref().map(ToString::to_string),
            total_bytes: self.facts.total_bytes,
            read_bytes: self.read_bytes.load(Ordering::Relaxed),
            written_bytes: self.written_bytes.load(Ordering::Relaxed),
            payload_bytes: self.payload_bytes.load(Ordering::Relaxed),
            pieces: self.pieces.load(Ordering::Relaxed),
            running_ms: now_ns.saturating_sub(self.began_ns) / 1_000_000,
        }
    }
}

impl JobControl for Job {
    fn before_read(&self, bytes: u64) -> Result<()> {
        self.look()?;
        self.keep_rate(Direction::Read, bytes)?;
        self.read_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn check_cancelled(&self) -> Result<()> {
        self.look()
    }
}

/// The jobs that run.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    begun: AtomicU64,
    running: Mutex<Vec<Arc<Job>>>,
}

/// A job in the list; taken from it when this is dropped.
pub(crate) struct RunningJob<'a> {
    jobs: &'a Jobs,
    job: Arc<Job>,
}

impl std::ops::Deref for RunningJob<'_> {
    type Target = Arc<Job>;

    fn deref(&self) -> &Arc<Job> {
        &self.job
    }
}

impl Drop for RunningJob<'_> {
    fn drop(&mut self) {
        self.jobs.running.lock().retain(|other| !Arc::ptr_eq(other, &self.job));
    }
}

impl Jobs {
    /// Begins a job; `None` if it is of the lowest classes and another such one runs (JB5).
    pub(crate) fn begin(
        &self,
        facts: JobFacts,
        mark: Option<JobId>,
        keyspace: &Arc<KeyspaceState>,
        store: &Store,
    ) -> Option<RunningJob<'_>> {
        let mut running = self.running.lock();
        if facts.is_patient() && running.iter().any(|other| other.facts.is_patient()) {
            return None;
        }
        let job = Arc::new(Job {
            number: self.begun.fetch_add(1, Ordering::Relaxed) + 1,
            facts,
            keyspace: Arc::clone(keyspace),
            mark,
            scheduler: Arc::clone(&store.scheduler),
            clock: Arc::clone(&store.env.clock),
            rates: Arc::clone(&store.files.rates),
            began_ns: store.env.clock.monotonic_ns(),
            read_bytes: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
            payload_bytes: AtomicU64::new(0),
            pieces: AtomicUsize::new(1),
            has_failed: AtomicBool::new(false),
            yields: AtomicBool::new(false),
        });
        running.push(Arc::clone(&job));
        Some(RunningJob { jobs: self, job })
    }

    /// Whether a job of the lowest classes runs.
    pub(crate) fn has_patient(&self) -> bool {
        self.running.lock().iter().any(|job| job.facts.is_patient())
    }

    /// Threads that merge tables at present, of pieces and of callers that asked for a compaction included.
    pub(crate) fn merging(&self) -> usize {
        let running = self.running.lock();
        let merges = running.iter().filter(|job| job.facts.class < Class::Free);
        merges.map(|job| job.pieces.load(Ordering::Relaxed)).sum()
    }

    /// The job of the lowest classes that runs and was not yet asked to make room.
    pub(crate) fn patient(&self) -> Option<Arc<Job>> {
        let running = self.running.lock();
        running.iter().find(|job| job.facts.is_patient() && !job.has_yielded()).cloned()
    }

    /// How far the job has come for which `rank` answers the most, of several the oldest; jobs that it
    /// answers nothing for are passed over.
    pub(crate) fn most<R: Ord>(
        &self,
        now_ns: u64,
        rank: impl Fn(KeyspaceId, &JobFacts) -> Option<R>,
    ) -> Option<JobMetrics> {
        let running = self.running.lock();
        let ranked = running.iter().filter_map(|job| Some((rank(job.keyspace.id, &job.facts)?, job)));
        // Of equals `max_by_key` takes the last, which is the oldest this way round.
        let most = ranked.rev().max_by(|one, other| one.0.cmp(&other.0));
        most.map(|(_, job)| job.progress(now_ns))
    }

    /// How far each has come, oldest first.
    pub(crate) fn progress(&self, now_ns: u64) -> Vec<JobMetrics> {
        self.running.lock().iter().map(|job| job.progress(now_ns)).collect()
    }
}

/// A flush or merge that runs in the background, and how far it has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobMetrics {
    /// Its number: the first since the database was opened has 1.
    pub number: u64,
    /// The keyspace.
    pub keyspace: String,
    /// How urgent it is: `flush`, `free` (parts that go without being read), `level 0 urgent`, `promise`,
    /// `shape`, `clean` or `idle`.
    pub class: String,
    /// Why the strategy wanted it; `None` for a flush.
    pub reason: Option<String>,
    /// The levels that its inputs are in, newest first; none for a flush.
    pub from: Vec<String>,
    /// The level that its output goes to.
    pub level: String,
    /// The range of keys that it merges; `None` for a flush.
    pub keys: Option<String>,
    /// Bytes that it takes: of tables, or the payload of memtables.
    pub total_bytes: u64,
    /// Bytes of tables that it has read, as they are in the file, where blocks lay in the cache as well.
    pub read_bytes: u64,
    /// Bytes of tables that it has written.
    pub written_bytes: u64,
    /// Bytes of keys and values that it has written.
    pub payload_bytes: u64,
    /// Pieces that it is done in, side by side.
    pub pieces: usize,
    /// How long it has been running, in milliseconds.
    pub running_ms: u64,
}

impl JobMetrics {
    /// Bytes of those it takes that are done: read by a merge, written by a flush, of keys and values.
    pub fn done_bytes(&self) -> u64 {
        let done = if self.reason.is_some() { self.read_bytes } else { self.payload_bytes };
        done.min(self.total_bytes)
    }

    /// Done bytes a second so far.
    pub fn bytes_per_second(&self) -> u64 {
        (u128::from(self.done_bytes()) * 1000 / u128::from(self.running_ms.max(1))) as u64
    }

    /// When it ends if it goes on as it did, in milliseconds from now; `None` before anything is done.
    pub fn remaining_ms(&self) -> Option<u64> {
        let (done, left) = (self.done_bytes(), self.total_bytes.saturating_sub(self.done_bytes()));
        (done > 0).then(|| (u128::from(left) * u128::from(self.running_ms) / u128::from(done)) as u64)
    }
}

#[cfg(test)]
mod tests;
