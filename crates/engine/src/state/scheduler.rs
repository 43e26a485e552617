//! Background scheduler: five typed worker pools, without sleeps.
//!
//! # The design
//! A *worker pool* is a kind of work with its own threads. [`WorkerPool::Log`] prepares segments,
//! [`WorkerPool::Deletion`] deletes files, [`WorkerPool::Flush`] writes memtables to tables,
//! [`WorkerPool::Compaction`] merges tables, [`WorkerPool::Urgent`] merges when level 0 is about to stop the
//! writers and all compaction threads are busy with other jobs, and preempts low-priority jobs. Each pool has
//! threads of its own, so that a long compaction never delays a flush, and neither a long flush nor a slow
//! unlink delays the segment that writers wait for: where a file system discards freed blocks at once, one
//! unlink may take a tenth of a second. Code that creates work calls [`Scheduler::request`], which counts it;
//! each thread remembers up to which request it has checked, and stores that *before* it checks. So a request
//! made during a step, or during a check that finds no work, makes the thread check again, whatever the
//! pool's other threads do, and no request is lost (BG1).
//!
//! A step that fails stores its error in the pool's state. The pool tries again after a wait that doubles
//! with every failure, up to [`RETRY_WAIT`](worker::RETRY_WAIT); meanwhile a caller that waits for that pool
//! gets the error instead of waiting for ever ([`ErrorScope`]: a caller that waits for the tables of one
//! keyspace gets only that keyspace's errors). The first successful step clears it. So a full disk degrades
//! service, and freed space heals it without a restart.
//!
//! * **RY1** Requests do not shorten the wait after a failure: each write that is refused makes one, and a
//!   thousand refused writes must not be a thousand attempts. What is logged of failures grows with their
//!   logarithm, and no thread logs while it holds the scheduler's lock, because a logger may block.
//!
//! Work also becomes due by time, without a request. The compaction pool therefore checks periodically, and
//! so does the urgent pool, because all compaction threads may be in long jobs: memtables must be sealed and
//! log segments left in time, and low-priority jobs preempted.
//!
//! In stepped mode there are no threads: callers run the steps, in an order that a seed decides
//! ([`stepped`]).
//!
//! # Processor priority
//! Where callers, a flush and a merge compete for two processors, the merge can wait longest: delayed, it
//! merges more data in fewer bytes. So compaction threads raise their niceness ([`worker`]), and the
//! operating system's scheduler does the rest. Nothing falls behind without bound: the rate of merges is
//! measured, and writers are throttled by it ([`crate::write::write_control`]); an urgent level 0 that finds
//! all compaction threads busy has a thread with normal priority.
//!
//! Rejected: one pool with priorities. With two cores the pool has one or two threads, and a running
//! compaction cannot be taken off its thread when a flush becomes urgent.

use esker_base::planted;
use esker_base::{Error, Result};
use esker_env::{Background, Env, SeededRandom};
use parking_lot::{Condvar, Mutex};
use pool::PoolState;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

mod pool;
mod stepped;
mod wait;
mod worker;

pub(crate) use pool::WORKER_POOLS;
pub use pool::WorkerPool;
pub use wait::ErrorScope;

/// The period of checks without a request: entries expire, snapshots and writers end, and no request follows.
/// A check of an unchanged store takes some microseconds.
pub const LOOK_INTERVAL: Duration = Duration::from_secs(10);

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

/// What the scheduler's lock guards.
#[derive(Debug)]
struct State {
    pools: [PoolState; WORKER_POOLS.len()],
    stopping: bool,
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
    /// The order of steps in stepped mode; `None` where the pools have threads.
    stepped: Option<SeededRandom>,
}

impl Scheduler {
    /// A scheduler whose workers run in this way.
    pub fn new(background: Background) -> Scheduler {
        let stepped = match background {
            Background::Threads => None,
            Background::Stepped { seed } => Some(SeededRandom::new(seed)),
        };
        Scheduler {
            state: Mutex::new(State { pools: Default::default(), stopping: false }),
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
        if self.is_stepped() {
            return Ok(());
        }
        for (pool, name) in threads {
            let (scheduler, work) = (Arc::clone(self), Arc::clone(work));
            let thread = env.spawn(&name, move || scheduler.run_worker(pool, &*work))?;
            self.threads.lock().push(thread);
        }
        Ok(())
    }

    /// Requests work of a pool; the urgent pool together with the compaction pool.
    pub fn request(&self, pool: WorkerPool) {
        self.request_alone(pool);
        if pool == WorkerPool::Compaction && !self.is_stepped() {
            self.request_alone(WorkerPool::Urgent);
        }
    }

    /// Requests work of this pool and no other.
    pub(crate) fn request_alone(&self, pool: WorkerPool) {
        self.state.lock().pools[pool as usize].requests += 1;
        self.requests[pool as usize].notify_all();
    }

    /// Ends the wait after a failure: a caller that waits for the pool from now on gets the outcome of the
    /// next attempt. For calls that are about this work, such as a drain after room was made. A write that
    /// found no room requests the pool instead (RY1).
    pub(crate) fn retry_now(&self, pool: WorkerPool) {
        let mut state = self.state.lock();
        let pool = &mut state.pools[pool as usize];
        if pool.error.is_some() && !self.is_stepped() {
            pool.is_error_old = true;
            self.retries.notify_all();
        }
    }

    /// Wakes waiters after a change they may wait for.
    pub(crate) fn announce_progress(&self) {
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
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests;
