//! The slow lane: threads that execute what has to wait for a device or for a stall, in the order of arrival.
//!
//! What holds:
//! * HB1. Work that the engine holds back waits in the queue and takes no thread meanwhile, so reads that
//!   need a device are not queued behind stalled writes.

use super::connection::Work;
use super::inbox::{Inbox, Letter};
use crate::execute::group::{End, Executor, Mode};
use crate::server::Server;
use crate::statistics::add;
use esker::parts::env::Clock;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
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
    /// How long it has been held back.
    stalled: Duration,
}

/// What a thread takes from the queue.
#[derive(Debug)]
enum Task {
    Job(Job),
    ServeWaiting,
}

#[derive(Debug)]
struct Queue<J> {
    ready: VecDeque<J>,
    /// Jobs that are held back, and when each is worth a further attempt, in nanoseconds.
    held_back: Vec<(u64, J)>,
    /// Whether clients that wait for keys are to be served.
    serves_waiting: bool,
    is_closed: bool,
}

/// What a thread does next.
#[derive(Debug, PartialEq, Eq)]
enum Next<J> {
    Job(J),
    ServeWaiting,
    /// Nothing, until this time or until something arrives.
    WaitUntil(Option<u64>),
    End,
}

impl<J> Default for Queue<J> {
    fn default() -> Self {
        Self { ready: VecDeque::new(), held_back: Vec::new(), serves_waiting: false, is_closed: false }
    }
}

impl<J> Queue<J> {
    /// The first job that is ready. Jobs that are held back line up behind the ready ones when they are due.
    fn next(&mut self, now_ns: u64) -> Next<J> {
        let due = self.held_back.extract_if(.., |(due_ns, _)| *due_ns <= now_ns).map(|(_, job)| job);
        self.ready.extend(due);
        if let Some(job) = self.ready.pop_front() {
            return Next::Job(job);
        }
        if std::mem::take(&mut self.serves_waiting) {
            return Next::ServeWaiting;
        }
        // A closed lane gives up what is held back: no thread takes its replies any more.
        if self.is_closed {
            return Next::End;
        }
        Next::WaitUntil(self.held_back.iter().map(|(due_ns, _)| *due_ns).min())
    }
}

/// The queue before the threads. A client has at most one job in it, so its length is bounded by theirs.
#[derive(Debug, Default)]
pub(crate) struct SlowLane {
    queue: Mutex<Queue<Job>>,
    arrived: Condvar,
}

impl SlowLane {
    /// Hands work over.
    pub(crate) fn push(&self, client: u64, work: Box<Work>, inbox: &Arc<Inbox>) {
        let job = Job { client, work, inbox: Arc::clone(inbox), stalled: Duration::ZERO };
        self.queue.lock().ready.push_back(job);
        self.arrived.notify_one();
    }

    /// Lets a thread serve the clients that others have left to it.
    pub(crate) fn serve_waiting(&self) {
        if !std::mem::replace(&mut self.queue.lock().serves_waiting, true) {
            self.arrived.notify_one();
        }
    }

    /// Lets the threads end when no job is ready.
    pub(crate) fn close(&self) {
        self.queue.lock().is_closed = true;
        self.arrived.notify_all();
    }

    /// Executes jobs until the lane is closed.
    pub(crate) fn run(&self, server: &Server) {
        let mut executor = Executor::new(server);
        while let Some(task) = self.next(server) {
            let Task::Job(mut job) = task else {
                executor.serve_postponed();
                continue;
            };
            add(&server.statistics.slow_groups, 1);
            executor.go_on_after(job.stalled);
            job.work.execute(&mut executor, Mode::Waiting);
            if job.work.end == End::MustWait {
                self.hold_back(job, &mut executor, server);
            } else {
                job.inbox.send(Letter::Executed(job.client, job.work));
            }
        }
    }

    /// Puts a job back that the engine held back.
    fn hold_back(&self, mut job: Job, executor: &mut Executor<'_>, server: &Server) {
        let mut retry_after = Duration::ZERO;
        if let Some(stall) = executor.take_stall() {
            (retry_after, job.stalled) = (stall.retry_after, stall.so_far);
        }
        let retry_after = retry_after.clamp(SHORTEST_RETRY, LONGEST_RETRY);
        let due_ns = server.clock.monotonic_ns() + retry_after.as_nanos() as u64;
        self.queue.lock().held_back.push((due_ns, job));
        // A thread that sleeps has looked for the first of them without this one.
        self.arrived.notify_one();
    }

    fn next(&self, server: &Server) -> Option<Task> {
        let mut queue = self.queue.lock();
        loop {
            let now_ns = server.clock.monotonic_ns();
            match queue.next(now_ns) {
                Next::Job(job) => return Some(Task::Job(job)),
                Next::ServeWaiting => return Some(Task::ServeWaiting),
                Next::End => return None,
                Next::WaitUntil(None) => self.arrived.wait(&mut queue),
                Next::WaitUntil(Some(due_ns)) => {
                    let time = Duration::from_nanos(due_ns.saturating_sub(now_ns));
                    self.arrived.wait_for(&mut queue, time);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Next, Queue};

    #[test]
    fn what_is_held_back_lets_others_pass_and_comes_when_it_is_due() {
        let mut queue = Queue::default();
        queue.held_back.extend([(300, "late"), (200, "soon")]);
        queue.ready.push_back("read");
        assert_eq!(queue.next(100), Next::Job("read"));
        assert_eq!(queue.next(100), Next::WaitUntil(Some(200)));
        queue.ready.push_back("another read");
        assert_eq!(queue.next(250), Next::Job("another read"));
        assert_eq!(queue.next(250), Next::Job("soon"));
        assert_eq!(queue.next(250), Next::WaitUntil(Some(300)));
        queue.is_closed = true;
        assert_eq!(queue.next(250), Next::End);
        assert_eq!(queue.next(300), Next::Job("late"));
    }
}
