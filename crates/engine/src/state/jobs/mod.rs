//! Running background jobs: what each is, its progress, and cancellation.
//!
//! # Checkpoints
//! A flush or merge shares one [`Job`] with all of its threads and calls [`Job::check_cancelled`] between
//! blocks of work: before each window read of an input, or cached block of it, after each
//! `OUTPUT_BYTES_PER_CHECK` written, and between pieces of the parts that belong to a whole table: shards of
//! a filter, keys of a locator, pages of an index, blocks that waited for a dictionary, each MiB of all that
//! when it is written. A check that finds a reason to end returns an error, which ends the job like any other
//! error: its outputs are deleted, its inputs stay, and nothing was changed. So cancellation is neither a
//! state of its own nor a code path that only tests take.
//!
//! A job with a rate limit ([`RateLimiter`]) waits at its checks.
//!
//! Two operations proceed without a check: training a dictionary (about 20 ms of processor time, once a
//! table, and only with that codec), and the sync of a file, which has little left to write, because files go
//! to the device while they are written.
//!
//! Reasons to end are: the database closes; the keyspace was dropped; another subcompaction of the same job
//! failed; something more urgent waits for the thread of a job of the lowest classes ([`Job::yield_now`]).
//!
//! # Invariants
//! * JB1: between two checks a job reads at most one window of each input, or writes at most
//!   `OUTPUT_BYTES_PER_CHECK`, whatever it drops on the way: dropped entries have been read. At the 5 MB/s
//!   of the slowest codec that is 13 ms of work.
//! * JB2: a cancelled job changes nothing but counters.
//! * JB3: the subcompactions of a job end before it does; when one fails, the others are cancelled.
//! * JB4: a job is in the list of running ones from before it reads its first byte until its result is
//!   installed or abandoned.
//! * JB5: of the classes Clean and Idle at most one job runs, so that threads are left for urgent work.
//!
//! Rejected: a flag for each reason, checked in each loop: one was always forgotten where entries are
//! dropped. Terminating threads from outside: their resources would be unknown.

use crate::state::keyspace::KeyspaceState;
use crate::state::scheduler::Scheduler;
use esker_base::{Error, KeyspaceId, Result};
use esker_build::table_sink::OutputControl;
use esker_env::{Clock, Direction, RateLimiter};
use esker_sst::JobControl;
use esker_strategy::{Class, CompactionPlan, JobId, Reason};
use esker_version::{KeyRange, LevelIndex};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// The longest pause of a rate-limited job before it checks again whether to continue.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// The description of a job, fixed at its begin.
#[derive(Clone, Debug)]
pub struct JobFacts {
    /// How urgent it is.
    pub class: Class,
    /// Why a strategy planned it; `None` for a flush.
    pub reason: Option<Reason>,
    /// The levels of its inputs, newest first; empty for a flush.
    pub from: Vec<LevelIndex>,
    /// The level of its output.
    pub level: LevelIndex,
    /// The keys that it merges.
    pub hull: Option<KeyRange>,
    /// Bytes of its inputs.
    pub total_bytes: u64,
    /// Whether it is cancelled when the database closes. Only its own work is lost then.
    pub is_cancellable: bool,
}

impl JobFacts {
    /// The description of a plan's job.
    pub fn of_plan(plan: &CompactionPlan) -> JobFacts {
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

    /// Whether the job can be preempted.
    pub(crate) fn is_preemptible(&self) -> bool {
        self.class <= Class::Clean
    }
}

/// A running job.
pub struct Job {
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
    /// Bytes of keys and values written.
    payload_bytes: AtomicU64,
    pieces: AtomicUsize,
    /// A subcompaction has failed.
    has_failed: AtomicBool,
    /// Preemption was requested.
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
    /// Its number: the first since the open has 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Its mark among the busy plans of its keyspace.
    pub fn mark(&self) -> Option<JobId> {
        self.mark
    }

    /// The keyspace that it works for.
    pub fn keyspace(&self) -> &Arc<KeyspaceState> {
        &self.keyspace
    }

    fn keep_rate(&self, direction: Direction, bytes: u64) -> Result<()> {
        let changes = self.rates.changes();
        match self.rates.charge(direction, bytes, self.is_held(), || self.clock.monotonic_ns()) {
            Some(until_ns) => self.wait_until(until_ns, changes),
            None => Ok(()),
        }
    }

    /// Whether the rate limit applies: not if the job was begun for writers, nor while writers wait for it
    /// (WM2).
    fn is_held(&self) -> bool {
        self.facts.class < Class::L0Urgent && !self.keyspace.jobs.compaction_outcome.has_blocked_writers()
    }

    /// Waits until a time derived from the limits in their state `changes`, or until they change again or no
    /// longer apply.
    #[cold]
    fn wait_until(&self, until_ns: u64, changes: u64) -> Result<()> {
        loop {
            self.check_cancelled()?;
            let left_ns = until_ns.saturating_sub(self.clock.monotonic_ns());
            // In stepped mode time stands still while a job runs.
            let is_free = self.rates.changes() != changes || !self.is_held();
            if left_ns == 0 || is_free || self.scheduler.is_stepped() {
                return Ok(());
            }
            self.scheduler.pause(Duration::from_nanos(left_ns).min(LONGEST_PAUSE));
        }
    }

    /// Records the number of subcompactions.
    pub(crate) fn note_subcompactions(&self, pieces: usize) {
        self.pieces.store(pieces, Ordering::Relaxed);
    }

    /// Cancels the other subcompactions, because one has failed (JB3).
    pub fn fail(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
    }

    /// Requests preemption by something more urgent.
    pub fn yield_now(&self) {
        self.yields.store(true, Ordering::Relaxed);
    }

    /// Whether preemption was requested.
    pub fn has_yielded(&self) -> bool {
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
            running: Duration::from_nanos(now_ns.saturating_sub(self.began_ns)),
        }
    }
}

impl JobControl for Job {
    fn before_read(&self, bytes: u64) -> Result<()> {
        self.check_cancelled()?;
        self.keep_rate(Direction::Read, bytes)?;
        self.read_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// An error if the job is to end (JB1).
    ///
    /// # Errors
    /// [`Error::Closed`] if it was cancelled, `NotFound` if the keyspace was dropped.
    fn check_cancelled(&self) -> Result<()> {
        self.keyspace.check_living()?;
        let is_called_off = self.facts.is_cancellable
            && (self.has_failed.load(Ordering::Relaxed)
                || self.yields.load(Ordering::Relaxed)
                || self.scheduler.is_stopping());
        if is_called_off { Err(Error::Closed) } else { Ok(()) }
    }
}

impl OutputControl for Job {
    fn note_written(&self, bytes: u64, payload_bytes: u64) -> Result<()> {
        self.written_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.payload_bytes.fetch_add(payload_bytes, Ordering::Relaxed);
        self.keep_rate(Direction::Write, bytes)
    }
}

/// The running jobs.
pub struct Jobs {
    scheduler: Arc<Scheduler>,
    clock: Arc<dyn Clock>,
    rates: Arc<RateLimiter>,
    begun: AtomicU64,
    running: Mutex<Vec<Arc<Job>>>,
}

/// A job in the list; removed on drop.
pub struct RunningJob<'a> {
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
    /// No job runs yet; jobs look at the scheduler, and are held to the rates.
    pub fn new(scheduler: &Arc<Scheduler>, clock: &Arc<dyn Clock>, rates: &Arc<RateLimiter>) -> Jobs {
        Jobs {
            scheduler: Arc::clone(scheduler),
            clock: Arc::clone(clock),
            rates: Arc::clone(rates),
            begun: AtomicU64::new(0),
            running: Mutex::default(),
        }
    }

    /// Begins a job; `None` if it is of the lowest classes and another such job runs (JB5).
    pub fn begin(
        &self,
        keyspace: &Arc<KeyspaceState>,
        facts: JobFacts,
        mark: Option<JobId>,
    ) -> Option<RunningJob<'_>> {
        let mut running = self.running.lock();
        if facts.is_preemptible() && running.iter().any(|other| other.facts.is_preemptible()) {
            return None;
        }
        let job = Arc::new(Job {
            number: self.begun.fetch_add(1, Ordering::Relaxed) + 1,
            facts,
            keyspace: Arc::clone(keyspace),
            mark,
            scheduler: Arc::clone(&self.scheduler),
            clock: Arc::clone(&self.clock),
            rates: Arc::clone(&self.rates),
            began_ns: self.clock.monotonic_ns(),
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
    pub fn has_preemptible(&self) -> bool {
        self.running.lock().iter().any(|job| job.facts.is_preemptible())
    }

    /// Threads that merge tables at present, including subcompactions and manual compactions.
    pub fn merging(&self) -> usize {
        let running = self.running.lock();
        let merges = running.iter().filter(|job| job.facts.class < Class::Free);
        merges.map(|job| job.pieces.load(Ordering::Relaxed)).sum()
    }

    /// The running job of the lowest classes, if its preemption was not requested yet.
    pub fn preemptible(&self) -> Option<Arc<Job>> {
        let running = self.running.lock();
        running.iter().find(|job| job.facts.is_preemptible() && !job.has_yielded()).cloned()
    }

    /// The progress of the job with the greatest `rank`, on a tie the oldest; jobs with rank `None` are
    /// skipped.
    pub fn most<R: Ord>(
        &self,
        now_ns: u64,
        rank: impl Fn(KeyspaceId, &JobFacts) -> Option<R>,
    ) -> Option<JobMetrics> {
        let running = self.running.lock();
        let ranked = running.iter().filter_map(|job| Some((rank(job.keyspace.id, &job.facts)?, job)));
        // Of equals `max_by` takes the last, which is the oldest in reverse order.
        let most = ranked.rev().max_by(|one, other| one.0.cmp(&other.0));
        most.map(|(_, job)| job.progress(now_ns))
    }

    /// The progress of each job, oldest first.
    pub fn progress(&self, now_ns: u64) -> Vec<JobMetrics> {
        self.running.lock().iter().map(|job| job.progress(now_ns)).collect()
    }
}

/// A running flush or merge and its progress.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobMetrics {
    /// Its number: the first since the open has 1.
    pub number: u64,
    /// The keyspace.
    pub keyspace: String,
    /// Its priority class: `flush`, `free` (parts that are dropped unread), `level 0 urgent`, `target`,
    /// `shape`, `clean` or `idle`.
    pub class: String,
    /// Why the strategy planned it; `None` for a flush.
    pub reason: Option<String>,
    /// The levels of its inputs, newest first; empty for a flush.
    pub from: Vec<String>,
    /// The level of its output.
    pub level: String,
    /// The range of keys that it merges; `None` for a flush.
    pub keys: Option<String>,
    /// Bytes of its inputs: of tables, or the payload of memtables.
    pub total_bytes: u64,
    /// Bytes of tables that it has read, by size in the file, cached blocks included.
    pub read_bytes: u64,
    /// Bytes of tables that it has written.
    pub written_bytes: u64,
    /// Bytes of keys and values that it has written.
    pub payload_bytes: u64,
    /// The number of parallel subcompactions.
    pub pieces: usize,
    /// How long it has been running.
    pub running: Duration,
}

impl JobMetrics {
    /// Bytes done of its inputs: bytes read by a merge, bytes of keys and values written by a flush.
    pub fn done_bytes(&self) -> u64 {
        let done = if self.reason.is_some() { self.read_bytes } else { self.payload_bytes };
        done.min(self.total_bytes)
    }

    /// Done bytes a second so far.
    pub fn bytes_per_second(&self) -> u64 {
        (u128::from(self.done_bytes()) * 1000 / self.running.as_millis().max(1)) as u64
    }

    /// The estimated remaining time, at the same rate; `None` before anything is done.
    pub fn remaining(&self) -> Option<Duration> {
        let (done, left) = (self.done_bytes(), self.total_bytes.saturating_sub(self.done_bytes()));
        let ms = || (u128::from(left) * self.running.as_millis() / u128::from(done)) as u64;
        (done > 0).then(|| Duration::from_millis(ms()))
    }
}
