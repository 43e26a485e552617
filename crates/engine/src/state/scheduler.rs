//! Background scheduler: five typed worker pools, without sleeps.
//!
//! # The design
//! A *worker pool* is a kind of work with its own threads. [`WorkerPool::Log`] prepares segments,
//! [`WorkerPool::Deletion`] deletes files, [`WorkerPool::Flush`] writes memtables to tables,
//! [`WorkerPool::Compaction`] merges tables, [`WorkerPool::Urgent`] merges when level 0 is about to stop the
//! writers and all compaction threads are busy with other jobs, and preempts low-priority jobs. Each pool has
//! threads of its own, so that a long compaction never delays a flush, and neither a long flush nor a slow
//! unlink delays the segment that writers wait for: where a file system discards freed blocks at once, one
//! unlink may take a tenth of a second. Code that creates work calls [`Scheduler::request`], which counts it; each thread remembers up to which request it
//! has checked, and stores that *before* it checks. So a request made during a step, or during a check that
//! finds no work, makes the thread check again, whatever the pool's other threads do, and no request is lost
//! (BG1).
//!
//! A step that fails stores its error in the pool's state. The pool tries again after a wait that doubles
//! from [`FIRST_RETRY_WAIT`] to [`RETRY_WAIT`]; meanwhile a caller that waits for that pool gets the error
//! instead of waiting for ever ([`ErrorScope`]: a caller that waits for the tables of one keyspace gets only
//! that keyspace's errors). The first successful step clears it. So a full disk degrades service, and freed
//! space heals it without a restart.
//!
//! * **RY1** Requests do not shorten the wait after a failure: each write that is refused makes one, and a
//!   thousand refused writes must not be a thousand attempts. What is logged of failures grows with their
//!   logarithm, and no thread logs while it holds the scheduler's lock, because a logger may block.
//!
//! Work also becomes due by time, without a request. The compaction pool therefore checks periodically, and
//! so does the urgent pool, because all compaction threads may be in long jobs: memtables must be sealed and
//! log segments left in time, and low-priority jobs preempted.
//!
//! In stepped mode there are no threads: [`Scheduler::step`] runs one step of a requested pool, chosen by the
//! seed. Writers run some steps after each write, and where they would wait they step until the condition
//! holds. One seed, one interleaving.
//!
//! # Processor priority
//! Where callers, a flush and a merge compete for two processors, the merge can wait longest: delayed, it
//! merges more data in fewer bytes. So compaction threads raise their niceness by [`MERGING_STEPS`], and the
//! operating system's scheduler does the rest. Nothing falls behind without bound: the rate of merges is
//! measured, and writers are throttled by it ([`crate::write::write_control`]); an urgent level 0 that finds
//! all compaction threads busy has a thread with normal priority.
//!
//! Rejected: one pool with priorities. With two cores the pool has one or two threads, and a running
//! compaction cannot be taken off its thread when a flush becomes urgent.

use esker_base::planted;
use esker_base::{Error, ResidentOnly, Result};
use esker_env::{Background, Env, host};
use parking_lot::{Condvar, Mutex};
use std::mem::discriminant;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a pool waits after its first failure: what fails once, such as a lack of descriptors for a
/// moment, costs no more than that.
const FIRST_RETRY_WAIT: Duration = Duration::from_millis(10);

/// The longest wait of a pool that goes on to fail: so long after the cause is gone the work goes on.
const RETRY_WAIT: Duration = Duration::from_secs(1);

/// The period of checks without a request: entries expire, snapshots and writers end, and no request follows.
/// A check of an unchanged store takes some microseconds.
pub const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// The longest wait between two checks of the remaining time.
const WAIT_PIECE: Duration = Duration::from_millis(100);

/// Niceness steps of threads that merge. Against a thread with normal priority, five leave a quarter of a
/// contended processor, and a third of a thread's share beside many. With ten fills were faster still, but
/// beside eight busy threads merges would have a tenth of their share.
const MERGING_STEPS: u8 = 5;

/// A worker pool: a kind of background work with its own threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerPool {
    /// Prepares segments, closes cold tables, moves memory between the block cache and memtables.
    Log,
    /// Deletes obsolete files, and log segments that nothing needs.
    Deletion,
    /// Writes memtables to tables.
    Flush,
    /// Merges tables.
    Compaction,
    /// Merges tables that cannot wait for a compaction thread. Requested together with
    /// [`WorkerPool::Compaction`], and never in stepped mode, where no job runs while another is chosen.
    Urgent,
}

pub(crate) const WORKER_POOLS: [WorkerPool; 5] =
    [WorkerPool::Log, WorkerPool::Deletion, WorkerPool::Flush, WorkerPool::Compaction, WorkerPool::Urgent];

impl WorkerPool {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            WorkerPool::Log => "log",
            WorkerPool::Deletion => "deletion",
            WorkerPool::Flush => "flush",
            WorkerPool::Compaction => "compaction",
            WorkerPool::Urgent => "urgent compaction",
        }
    }

    /// Why a write waits for the pool.
    pub fn why_writers_wait(self) -> &'static str {
        match self {
            WorkerPool::Log => "a log segment is being prepared",
            WorkerPool::Deletion => "files are being deleted",
            WorkerPool::Flush => "memtables are being written to tables",
            WorkerPool::Compaction | WorkerPool::Urgent => {
                "level 0 holds as many runs as it may and is being compacted"
            }
        }
    }
}

/// The work of the pools; implemented by the database.
pub trait BackgroundWork: Send + Sync + 'static {
    /// Does one step of work; `false` if there is none.
    fn work(&self, pool: WorkerPool) -> Result<bool>;

    /// The period of checks without a request; `None` for never.
    fn look_interval(&self, pool: WorkerPool) -> Option<Duration> {
        matches!(pool, WorkerPool::Compaction | WorkerPool::Urgent).then_some(LOOK_INTERVAL)
    }

    /// A pool fails, with another kind of error than before, or has succeeded after a failure. Called under
    /// the scheduler's lock, so it must not call the scheduler.
    fn note_condition(&self, _pool: WorkerPool, _failure: Option<&Error>) {}
}

/// Which failures end a wait.
#[derive(Clone, Copy)]
pub enum ErrorScope<'a> {
    /// The last failure of the pool.
    Pool,
    /// The error reported by this closure; only the caller knows which of the pool's jobs it waits for.
    Own(&'a dyn Fn() -> Option<Error>),
}

#[derive(Debug, Default)]
struct PoolState {
    /// Requests so far.
    requests: u64,
    /// Stepped mode: how many of these were checked. A thread stores that itself.
    taken: u64,
    running: usize,
    error: Option<Error>,
    /// Failed steps since the last successful one.
    failures: u32,
    /// The error is older than an attempt that a caller has asked for ([`Scheduler::retry_now`]).
    is_error_old: bool,
}

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Work was done, so there may be more.
    Done,
    /// There was no work.
    Nothing,
    Failed,
}

#[derive(Debug)]
struct State {
    pools: [PoolState; WORKER_POOLS.len()],
    stopping: bool,
    /// State of the stepped mode's generator.
    seed: u64,
}

impl PoolState {
    /// Stepped mode: whether a request came since the last check.
    fn is_requested(&self) -> bool {
        self.requests != self.taken
    }

    /// Takes back the error after a step without failure: one that found no work says nothing about what
    /// another thread of the pool does.
    fn take_error(&mut self, is_done: bool) -> Option<Error> {
        if !is_done && self.running > 0 {
            return None;
        }
        (self.failures, self.is_error_old) = (0, false);
        self.error.take()
    }

    /// Stores a failure; whether it is of another kind than the one before.
    fn note_failure(&mut self, error: &Error) -> bool {
        let before = self.error.replace(error.clone());
        let is_other = before.is_none_or(|before| discriminant(&before) != discriminant(error));
        (self.failures, self.is_error_old) = (self.failures.saturating_add(1), false);
        is_other && !matches!(error, Error::Closed)
    }
}

/// The wait after so many failures in a row, at least one.
fn retry_wait(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(u32::BITS - 1);
    FIRST_RETRY_WAIT.saturating_mul(1 << doublings).min(RETRY_WAIT)
}

impl State {
    fn failure(&self, pool: WorkerPool, concern: ErrorScope<'_>) -> Option<Error> {
        match concern {
            ErrorScope::Pool => {
                let pool = &self.pools[pool as usize];
                pool.error.clone().filter(|_| !pool.is_error_old)
            }
            ErrorScope::Own(failure) => failure(),
        }
    }
}

/// Runs [`BackgroundWork`].
#[derive(Debug)]
pub struct Scheduler {
    state: Mutex<State>,
    /// Signalled by requests for the pool and by the stop. One each; otherwise requests for one pool would
    /// delay the periodic check of another.
    requests: [Condvar; WORKER_POOLS.len()],
    /// Signalled by the stop and by [`Scheduler::retry_now`]: threads wait here after a failure (RY1).
    retries: Condvar,
    /// Signalled after every step and every published change; wakes all waiters.
    progress: Condvar,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Incremented by every step and every announced change: a waiter reads it under the lock under which it
    /// found no room, and waits until it changes.
    generation: AtomicU64,
    /// As in the state, for jobs that check it often.
    stopping: AtomicBool,
    stepped: bool,
}

impl Scheduler {
    /// A scheduler whose workers run in this way.
    pub fn new(background: Background) -> Scheduler {
        let (stepped, seed) = match background {
            Background::Threads => (false, 0),
            Background::Stepped { seed } => (true, seed),
        };
        Scheduler {
            state: Mutex::new(State { pools: Default::default(), stopping: false, seed }),
            requests: Default::default(),
            retries: Condvar::new(),
            progress: Condvar::new(),
            threads: Mutex::new(Vec::new()),
            generation: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            stepped,
        }
    }

    /// Starts the threads of all pools; nothing in stepped mode.
    pub fn start<W: BackgroundWork>(
        self: &Arc<Self>,
        env: &Env,
        work: &Arc<W>,
        compaction_threads: usize,
    ) -> Result<()> {
        self.start_for_reading(env, work)?;
        let compactions =
            (0..compaction_threads).map(|index| (WorkerPool::Compaction, format!("esker-compact-{index}")));
        let others =
            [(WorkerPool::Flush, "esker-flush".to_owned()), (WorkerPool::Urgent, "esker-urgent".to_owned())];
        self.spawn(env, work, others.into_iter().chain(compactions))
    }

    /// Starts the threads that a read-only database has, too: one closes tables, the other removes blocks of
    /// closed ones from the cache.
    pub fn start_for_reading<W: BackgroundWork>(self: &Arc<Self>, env: &Env, work: &Arc<W>) -> Result<()> {
        let pools =
            [(WorkerPool::Log, "esker-log".to_owned()), (WorkerPool::Deletion, "esker-delete".to_owned())];
        self.spawn(env, work, pools.into_iter())
    }

    fn spawn<W: BackgroundWork>(
        self: &Arc<Self>,
        env: &Env,
        work: &Arc<W>,
        threads: impl Iterator<Item = (WorkerPool, String)>,
    ) -> Result<()> {
        if self.stepped {
            return Ok(());
        }
        for (pool, name) in threads {
            let (scheduler, work) = (Arc::clone(self), Arc::clone(work));
            let thread = env.spawn(&name, move || scheduler.run_worker(pool, &*work))?;
            self.threads.lock().push(thread);
        }
        Ok(())
    }

    /// Whether work runs only when a caller steps it.
    pub fn is_stepped(&self) -> bool {
        self.stepped
    }

    /// Requests work of a pool; the urgent pool together with the compaction pool.
    pub fn request(&self, pool: WorkerPool) {
        self.request_alone(pool);
        if pool == WorkerPool::Compaction && !self.stepped {
            self.request_alone(WorkerPool::Urgent);
        }
    }

    /// Requests work of this pool and no other.
    pub fn request_alone(&self, pool: WorkerPool) {
        self.state.lock().pools[pool as usize].requests += 1;
        self.requests[pool as usize].notify_all();
    }

    /// Ends the wait after a failure: a caller that waits for the pool from now on gets the outcome of the
    /// next attempt. For calls that are about this work, such as a drain after room was made. A write that
    /// found no room requests the pool instead (RY1).
    pub fn retry_now(&self, pool: WorkerPool) {
        let mut state = self.state.lock();
        let pool = &mut state.pools[pool as usize];
        if pool.error.is_some() && !self.stepped {
            pool.is_error_old = true;
            self.retries.notify_all();
        }
    }

    /// Wakes waiters after a change they may wait for.
    pub fn announce_progress(&self) {
        if planted!(LosesWakeup) {
            return;
        }
        self.generation.fetch_add(1, Ordering::AcqRel);
        // Taking the lock orders this against a waiter between its check and its wait.
        drop(self.state.lock());
        self.progress.notify_all();
    }

    /// The number of changes.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Waits until the generation differs from `seen`; otherwise as [`Scheduler::wait`].
    pub fn wait_for_change<W: BackgroundWork>(
        &self,
        work: &W,
        pool: WorkerPool,
        concern: ErrorScope<'_>,
        seen: u64,
        limit: Duration,
    ) -> Result<bool> {
        self.wait(work, pool, concern, limit, || self.generation() != seen)
    }

    /// Waits until `done`, at most `limit`; `false` if the time ran out.
    ///
    /// # Errors
    /// The error of the pool's last attempt at the awaited work, if that failed, because the wait might never
    /// end.
    pub fn wait<W: BackgroundWork>(
        &self,
        work: &W,
        pool: WorkerPool,
        concern: ErrorScope<'_>,
        limit: Duration,
        mut done: impl FnMut() -> bool,
    ) -> Result<bool> {
        if self.stepped {
            return self.step_until(work, pool, concern, &mut done);
        }
        let mut left = limit;
        loop {
            let seen = self.generation();
            // Not under the scheduler's lock: `done` reads views, and dropping the last reference to an old
            // one requests the log worker.
            if done() {
                return Ok(true);
            }
            let mut state = self.state.lock();
            while self.generation() == seen {
                if state.stopping {
                    return Err(Error::Closed);
                }
                if let Some(error) = state.failure(pool, concern) {
                    return Err(error);
                }
                // The wait is divided so that the limit needs no clock.
                let piece = left.min(WAIT_PIECE);
                if self.progress.wait_for(&mut state, piece).timed_out() {
                    left = left.saturating_sub(piece);
                    if left.is_zero() {
                        return Ok(false);
                    }
                }
            }
        }
    }

    /// Pauses for a time, or until a change or the close. Does nothing in stepped mode, which has no other
    /// threads. For callers that hold no lock.
    pub fn pause(&self, time: Duration) {
        if self.stepped {
            return;
        }
        let mut state = self.state.lock();
        if !state.stopping {
            self.progress.wait_for(&mut state, time);
        }
    }

    /// The last error of each pool that has not succeeded since.
    pub fn errors(&self) -> Vec<Error> {
        self.state.lock().pools.iter().filter_map(|pool| pool.error.clone()).collect()
    }

    /// The last error of a pool, if it has not succeeded since.
    pub fn error(&self, pool: WorkerPool) -> Option<Error> {
        self.state.lock().pools[pool as usize].error.clone()
    }

    /// Stops: running steps end, no more start, and all threads are joined.
    pub fn stop(&self) {
        self.state.lock().stopping = true;
        self.stopping.store(true, Ordering::Release);
        for requests in &self.requests {
            requests.notify_all();
        }
        self.retries.notify_all();
        self.progress.notify_all();
        for thread in self.threads.lock().drain(..) {
            // A panic of a worker was already reported by the panic hook and has poisoned the database.
            let _ = thread.join();
        }
    }

    /// Whether [`Scheduler::stop`] was called; long steps check it between blocks of work.
    #[inline]
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Stepped mode: runs one step of a requested pool. `false` if nothing was requested, or after
    /// [`Scheduler::stop`].
    pub fn step<W: BackgroundWork>(&self, work: &W) -> bool {
        self.step_one(work).is_some()
    }

    /// As [`Scheduler::step`]; returns the pool.
    fn step_one<W: BackgroundWork>(&self, work: &W) -> Option<WorkerPool> {
        let pool = self.choose_pool()?;
        // The step belongs to a background thread, not to the caller.
        let _files_are_read = ResidentOnly::suspend();
        self.run_step(pool, work);
        Some(pool)
    }

    /// Stepped mode: after a write, sometimes runs a step, as a background thread would.
    pub fn step_sometimes<W: BackgroundWork>(&self, work: &W) {
        if self.stepped && self.random().is_multiple_of(4) {
            self.step(work);
        }
    }

    fn run_worker<W: BackgroundWork>(&self, pool: WorkerPool, work: &W) {
        if pool == WorkerPool::Compaction {
            // If the system refuses that, merges run at normal priority.
            host::lower_thread_priority(MERGING_STEPS);
        }
        let (mut looked_for, mut last) = (0, Outcome::Nothing);
        while self.wait_for_request(pool, looked_for, last, work.look_interval(pool)) {
            (looked_for, last) = self.run_step(pool, work);
        }
    }

    /// Waits until there may be work: at once after a step that did something, for a time after one that
    /// failed, otherwise until a request beyond `looked_for`, or until the period has passed. `false` after
    /// the stop.
    fn wait_for_request(
        &self,
        pool: WorkerPool,
        looked_for: u64,
        last: Outcome,
        look_interval: Option<Duration>,
    ) -> bool {
        let mut state = self.state.lock();
        if last == Outcome::Failed && !state.stopping {
            let wait = retry_wait(state.pools[pool as usize].failures);
            self.retries.wait_for(&mut state, wait);
            return !state.stopping;
        }
        while !state.stopping && last != Outcome::Done && state.pools[pool as usize].requests == looked_for {
            let Some(longest) = look_interval else {
                self.requests[pool as usize].wait(&mut state);
                continue;
            };
            if self.requests[pool as usize].wait_for(&mut state, longest).timed_out() {
                break;
            }
        }
        !state.stopping
    }

    /// One step; returns up to which request it checked, and its outcome.
    fn run_step<W: BackgroundWork>(&self, pool: WorkerPool, work: &W) -> (u64, Outcome) {
        let looked_for = {
            let pool = &mut self.state.lock().pools[pool as usize];
            pool.taken = pool.requests;
            pool.running += 1;
            pool.requests
        };
        let result = work.work(pool);
        let mut state = self.state.lock();
        let pool_state = &mut state.pools[pool as usize];
        pool_state.running -= 1;
        let (outcome, has_changed, report) = match result {
            Ok(is_done) => {
                // In stepped mode no thread continues by itself.
                pool_state.requests += u64::from(self.stepped && is_done);
                let ended = pool_state.take_error(is_done);
                note_recovery(work, pool, ended.as_ref());
                // A step without work changes nothing: waking waiters for it would make them repeat their
                // request endlessly.
                let outcome = if is_done { Outcome::Done } else { Outcome::Nothing };
                (outcome, is_done || ended.is_some(), None)
            }
            Err(error) => {
                let is_other = pool_state.note_failure(&error);
                if is_other {
                    work.note_condition(pool, Some(&error));
                }
                let is_reported =
                    !matches!(error, Error::Closed) && (is_other || pool_state.failures.is_power_of_two());
                (Outcome::Failed, true, is_reported.then_some((error, pool_state.failures)))
            }
        };
        if has_changed {
            self.generation.fetch_add(1, Ordering::AcqRel);
            drop(state);
            self.progress.notify_all();
        } else {
            drop(state);
        }
        if let Some((error, failures)) = report {
            tracing::warn!(?pool, %error, failures, "background work failed and will be tried again");
        }
        (looked_for, outcome)
    }

    fn step_until<W: BackgroundWork>(
        &self,
        work: &W,
        pool: WorkerPool,
        concern: ErrorScope<'_>,
        done: &mut impl FnMut() -> bool,
    ) -> Result<bool> {
        while !done() {
            let stepped = self.step_one(work);
            // An earlier failure does not count while the next attempt is still pending.
            let has_tried = stepped.is_none_or(|stepped| stepped == pool);
            if has_tried && let Some(error) = self.state.lock().failure(pool, concern) {
                return Err(error);
            }
            if stepped.is_none() && !done() {
                return Err(match self.is_stopping() {
                    true => Error::Closed,
                    false => Error::internal("waiting for background work without a request"),
                });
            }
        }
        Ok(true)
    }

    fn choose_pool(&self) -> Option<WorkerPool> {
        let random = self.random() as usize;
        let state = self.state.lock();
        if state.stopping {
            return None;
        }
        let requested: Vec<WorkerPool> =
            WORKER_POOLS.into_iter().filter(|&pool| state.pools[pool as usize].is_requested()).collect();
        (!requested.is_empty()).then(|| requested[random % requested.len()])
    }

    /// SplitMix64: the stepped mode's interleaving must depend on the seed alone.
    fn random(&self) -> u64 {
        let mut state = self.state.lock();
        state.seed = state.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state.seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

fn note_recovery<W: BackgroundWork>(work: &W, pool: WorkerPool, ended: Option<&Error>) {
    if ended.is_some_and(|error| !matches!(error, Error::Closed)) {
        work.note_condition(pool, None);
    }
}

#[cfg(test)]
mod tests;
