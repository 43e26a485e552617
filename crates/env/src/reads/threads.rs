//! Asynchronous reads by threads: each does one plain read at a time.
//!
//! One thread is started with the queue, and starts the others at the first request: threads inherit their
//! scheduling priority ([`crate::host::lower_thread_priority`]), and the first caller may be a low-priority
//! one, such as a compaction, while all others wait for the same threads. They end with the queue, after all
//! submitted reads are done (RQ2). If no thread could be started, the caller reads itself.

use super::ReadRequest;
use crate::env::Env;
use esker_base::{Error, Result};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Reads in flight at once. Devices serve more in parallel, but each costs the wake-up of a thread.
const THREADS: usize = 8;

#[derive(Debug)]
pub(super) struct Pool {
    work: Arc<Work>,
    /// Starts the others and joins them; `None` if it could not be started.
    first: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Work {
    state: Mutex<PoolState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct PoolState {
    waiting: VecDeque<(ReadRequest, Arc<ReadOutcome>)>,
    ends: bool,
}

#[derive(Debug, Default)]
struct ReadOutcome {
    outcome: Mutex<Option<Result<Vec<u8>>>>,
    is_there: Condvar,
}

impl ReadOutcome {
    fn give(&self, outcome: Result<Vec<u8>>) {
        *self.outcome.lock() = Some(outcome);
        self.is_there.notify_one();
    }
}

#[derive(Debug)]
pub(super) struct ThreadRead(Arc<ReadOutcome>);

impl ThreadRead {
    pub(super) fn wait(self) -> Result<Vec<u8>> {
        let mut outcome = self.0.outcome.lock();
        loop {
            if let Some(outcome) = outcome.take() {
                return outcome;
            }
            self.0.is_there.wait(&mut outcome);
        }
    }
}

impl Pool {
    pub(super) fn new(env: &Env) -> Pool {
        let work = Arc::<Work>::default();
        let run = {
            let (env, work) = (env.clone(), Arc::clone(&work));
            move || work.run_first(&env)
        };
        Pool { work, first: env.spawn("esker-read-0", run).ok() }
    }

    pub(super) fn submit(&self, request: ReadRequest) -> ThreadRead {
        let answer = Arc::new(ReadOutcome::default());
        if self.first.is_some() {
            self.work.state.lock().waiting.push_back((request, Arc::clone(&answer)));
            self.work.changed.notify_one();
        } else {
            answer.give(request.run());
        }
        ThreadRead(answer)
    }
}

impl Work {
    /// As [`Work::run`], and starts the other threads at the first request.
    fn run_first(self: &Arc<Self>, env: &Env) {
        let is_asked = {
            let mut state = self.state.lock();
            while state.waiting.is_empty() && !state.ends {
                self.changed.wait(&mut state);
            }
            !state.waiting.is_empty()
        };
        let start = |number: usize| {
            let work = Arc::clone(self);
            env.spawn(&format!("esker-read-{number}"), move || work.run()).ok()
        };
        let others: Vec<_> = (1..THREADS).take_while(|_| is_asked).map_while(start).collect();
        self.run();
        for thread in others {
            // Nothing in it panics.
            let _ = thread.join();
        }
    }

    fn run(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some((request, answer)) = state.waiting.pop_front() {
                drop(state);
                // A panic in a test's file system must not leave a waiter behind.
                let path = request.file.path().to_path_buf();
                let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| request.run()));
                answer.give(outcome.unwrap_or_else(|_| {
                    Err(Error::internal(format!("a read of {} panicked", path.display())))
                }));
                state = self.state.lock();
            } else if state.ends {
                return;
            } else {
                self.changed.wait(&mut state);
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.work.state.lock().ends = true;
        self.work.changed.notify_all();
        if let Some(first) = self.first.take() {
            // Nothing in it panics.
            let _ = first.join();
        }
    }
}
