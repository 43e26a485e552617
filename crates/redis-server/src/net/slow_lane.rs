//! The slow lane: threads that execute what has to wait for a device or for a stall.
//!
//! Which job comes next is the [queue](super::lane_queue)'s to say (HB1, HB2, HB3).

use super::connection::Work;
use super::inbox::{Inbox, Letter};
use super::lane_queue::{LaneQueue, Next};
use crate::execute::group::{End, Executor, Mode};
use crate::server::Server;
use crate::statistics::add;
use esker::parts::env::Clock;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Bounds of the time between two attempts of work that is held back: an attempt executes its commands anew,
/// and the end of a stall is to be noticed soon.
const SHORTEST_RETRY: Duration = Duration::from_millis(1);
const LONGEST_RETRY: Duration = Duration::from_millis(200);

/// Work of a client, and where its result goes.
#[derive(Debug)]
struct Job {
    client: u64,
    work: Box<Work>,
    inbox: Arc<Inbox>,
    /// Since when it is held back.
    held_since_ns: Option<u64>,
}

/// What a thread takes from the queue.
#[derive(Debug)]
enum Task {
    Read(Job),
    Write(Job),
    TryAgain(Job),
    ServeWaiting,
}

/// The queue before the threads.
#[derive(Debug)]
pub(crate) struct SlowLane {
    queue: Mutex<LaneQueue<Job>>,
    arrived: Condvar,
}

impl SlowLane {
    /// The lane of so many threads.
    pub(crate) fn new(threads: usize) -> Self {
        Self { queue: Mutex::new(LaneQueue::new(threads)), arrived: Condvar::new() }
    }

    /// Hands work over.
    pub(crate) fn push(&self, client: u64, work: Box<Work>, inbox: &Arc<Inbox>, server: &Server) {
        let only_reads = work.requests.only_read(server.names());
        let job = Job { client, work, inbox: Arc::clone(inbox), held_since_ns: None };
        let mut queue = self.queue.lock();
        queue.push(job, only_reads);
        show_length(&queue, server);
        drop(queue);
        self.arrived.notify_one();
    }

    /// Lets a thread serve the clients that others have left to it.
    pub(crate) fn serve_waiting(&self) {
        if self.queue.lock().serve_waiting() {
            self.arrived.notify_one();
        }
    }

    /// Lets the threads end when no job is ready.
    pub(crate) fn close(&self) {
        self.queue.lock().close();
        self.arrived.notify_all();
    }

    /// Executes jobs until the lane is closed.
    pub(crate) fn run(&self, server: &Server) {
        let mut executor = Executor::new(server);
        while let Some(task) = self.next(server) {
            match task {
                Task::Read(job) => self.execute(job, &mut executor),
                Task::Write(job) => {
                    self.execute(job, &mut executor);
                    self.queue.lock().wrote();
                }
                Task::TryAgain(job) => {
                    self.execute(job, &mut executor);
                    self.queue.lock().tried_again();
                }
                Task::ServeWaiting => {
                    executor.serve_postponed();
                    self.queue.lock().wrote();
                }
            }
        }
    }

    fn execute(&self, mut job: Job, executor: &mut Executor<'_>) {
        let server = executor.server();
        add(&server.statistics.slow_groups, 1);
        let held = |since_ns| Duration::from_nanos(server.clock.monotonic_ns().saturating_sub(since_ns));
        executor.go_on_after(job.held_since_ns.map_or(Duration::ZERO, held));
        job.work.execute(executor, Mode::Waiting);
        if job.work.end == End::MustWait {
            self.hold_back(job, executor);
        } else {
            job.inbox.send(Letter::Executed(job.client, job.work));
        }
    }

    /// Puts a job back that the engine held back.
    fn hold_back(&self, mut job: Job, executor: &mut Executor<'_>) {
        let now_ns = executor.server().clock.monotonic_ns();
        let (mut retry_after, mut cause) = (Duration::ZERO, Arc::from(""));
        if let Some(stall) = executor.take_stall() {
            (retry_after, cause) = (stall.retry_after, stall.cause);
            let before = stall.so_far.saturating_sub(retry_after);
            job.held_since_ns = Some(now_ns.saturating_sub(before.as_nanos() as u64));
        }
        let retry_after = retry_after.clamp(SHORTEST_RETRY, LONGEST_RETRY);
        let due_ns = now_ns + retry_after.as_nanos() as u64;
        let mut queue = self.queue.lock();
        queue.hold_back(job, due_ns, cause);
        show_length(&queue, executor.server());
        drop(queue);
        // A thread that sleeps has looked for the first of them without this one.
        self.arrived.notify_one();
    }

    fn next(&self, server: &Server) -> Option<Task> {
        let mut queue = self.queue.lock();
        loop {
            let now_ns = server.clock.monotonic_ns();
            let next = queue.next(now_ns);
            show_length(&queue, server);
            let task = match next {
                Next::Read(job) => Task::Read(job),
                Next::Write(job) => Task::Write(job),
                Next::TryAgain(job) => Task::TryAgain(job),
                Next::ServeWaiting => Task::ServeWaiting,
                Next::End => return None,
                Next::Wait => {
                    self.arrived.wait(&mut queue);
                    continue;
                }
                Next::WaitUntil(due_ns) => {
                    let time = Duration::from_nanos(due_ns.saturating_sub(now_ns));
                    self.arrived.wait_for(&mut queue, time);
                    queue.waited_until(due_ns);
                    continue;
                }
            };
            if queue.lacks_timer() {
                self.arrived.notify_one();
            }
            return Some(task);
        }
    }
}

/// Lets figures tell how many jobs wait. The queue is locked, so the last change is the one that stays.
fn show_length(queue: &LaneQueue<Job>, server: &Server) {
    server.observed.slow_lane_jobs.store(queue.len() as u64, Ordering::Relaxed);
}
