//! The queue of the slow lane: which job a thread of it takes next.
//!
//! What holds:
//! * HB1. A job that the engine holds back waits in the queue and takes no thread meanwhile.
//! * HB2. Jobs that only read come before jobs that write, and a quarter of the threads is kept for them:
//!   however many writers wait for a device or for a stall, a reader waits at most for other readers.
//! * HB3. Jobs that are held back are tried one by one, in the order in which they were held back, until one
//!   is refused again; all others of the same reason are then put off with it. An attempt executes its
//!   commands anew, so attempts that must fail would take the processor from the work that ends the stall.
//!
//! # Rejected
//! * Several readers for one thread, whose records are read by one multi-get: with 50 clients that wait for a
//!   drive, 26,000 requests a second instead of 35,000. Each reader waited for the last read of them all.

use std::collections::VecDeque;
use std::sync::Arc;

/// A job that the engine held back.
#[derive(Debug)]
struct HeldBack<J> {
    /// When a further attempt is worthwhile, in nanoseconds.
    due_ns: u64,
    reason: Arc<str>,
    job: J,
}

/// The queue. A client has at most one job in it, so its length is bounded by their number.
#[derive(Debug)]
pub(super) struct LaneQueue<J> {
    readers: VecDeque<J>,
    writers: VecDeque<J>,
    /// In the order in which they were held back.
    held_back: Vec<HeldBack<J>>,
    /// Whether clients that wait for keys are to be served.
    serves_waiting: bool,
    is_closed: bool,
    /// Threads that write, now and at most.
    writing: usize,
    writing_most: usize,
    /// Whether one of them tries a job that was held back (HB3).
    is_trying_again: bool,
    /// Until when a thread waits for what is held back, so that the others sleep on.
    timed_until_ns: Option<u64>,
}

/// What a thread does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<J> {
    /// Execute a job that only reads.
    Read(J),
    /// Execute a job that writes, and call [`LaneQueue::wrote`] afterwards.
    Write(J),
    /// Execute a job that was held back, and call [`LaneQueue::tried_again`] afterwards.
    TryAgain(J),
    /// Serve clients that wait for keys, and call [`LaneQueue::wrote`] afterwards.
    ServeWaiting,
    /// Nothing, until something arrives.
    Wait,
    /// Nothing, until this time or until something arrives, and call [`LaneQueue::waited_until`] afterwards.
    WaitUntil(u64),
    /// No job is left, and none comes any more.
    End,
}

impl<J> LaneQueue<J> {
    /// The queue of a lane with so many threads.
    pub(super) fn new(threads: usize) -> Self {
        Self {
            readers: VecDeque::new(),
            writers: VecDeque::new(),
            held_back: Vec::new(),
            serves_waiting: false,
            is_closed: false,
            writing: 0,
            writing_most: threads.saturating_sub(threads.div_ceil(4)).max(1),
            is_trying_again: false,
            timed_until_ns: None,
        }
    }

    /// Jobs that wait, those that the engine holds back included.
    pub(super) fn len(&self) -> usize {
        self.readers.len() + self.writers.len() + self.held_back.len()
    }

    /// Adds a job.
    pub(super) fn push(&mut self, job: J, only_reads: bool) {
        let queue = if only_reads { &mut self.readers } else { &mut self.writers };
        queue.push_back(job);
    }

    /// Puts a job back that the engine held back, until a time in nanoseconds.
    pub(super) fn hold_back(&mut self, job: J, due_ns: u64, reason: Arc<str>) {
        for other in self.held_back.iter_mut().filter(|other| other.reason == reason) {
            other.due_ns = other.due_ns.max(due_ns);
        }
        self.held_back.push(HeldBack { due_ns, reason, job });
    }

    /// Lets a thread serve clients that wait for keys. Whether that is new.
    pub(super) fn serve_waiting(&mut self) -> bool {
        !std::mem::replace(&mut self.serves_waiting, true)
    }

    /// Lets threads end when no job is left. What is held back is given up: no thread takes its replies.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    /// What a thread does at this time in nanoseconds.
    pub(super) fn next(&mut self, now_ns: u64) -> Next<J> {
        if let Some(job) = self.readers.pop_front() {
            return Next::Read(job);
        }
        if self.writing < self.writing_most
            && let Some(next) = self.next_write(now_ns)
        {
            self.writing += 1;
            return next;
        }
        match () {
            () if self.is_closed => Next::End,
            // The threads that write look for more when they have ended.
            () if self.writing == self.writing_most || self.is_trying_again => Next::Wait,
            () => self.next_due(),
        }
    }

    /// Waiting for what is held back, unless another thread does so.
    fn next_due(&mut self) -> Next<J> {
        let due_ns = self.held_back.iter().map(|held| held.due_ns).min();
        let is_new = |due_ns: &u64| self.timed_until_ns.is_none_or(|until_ns| *due_ns < until_ns);
        match due_ns.filter(is_new) {
            Some(due_ns) => {
                self.timed_until_ns = Some(due_ns);
                Next::WaitUntil(due_ns)
            }
            None => Next::Wait,
        }
    }

    /// A thread has waited until a time that it got from [`LaneQueue::next`], or for less.
    pub(super) fn waited_until(&mut self, due_ns: u64) {
        if self.timed_until_ns == Some(due_ns) {
            self.timed_until_ns = None;
        }
    }

    /// Whether a further thread is to wait for what is held back.
    pub(super) fn lacks_timer(&self) -> bool {
        self.timed_until_ns.is_none() && !self.held_back.is_empty()
    }

    fn next_write(&mut self, now_ns: u64) -> Option<Next<J>> {
        // They came before those that were not tried yet.
        let due = self.held_back.iter().position(|held| held.due_ns <= now_ns);
        if let Some(at) = due.filter(|_| !self.is_trying_again) {
            self.is_trying_again = true;
            return Some(Next::TryAgain(self.held_back.remove(at).job));
        }
        let job = self.writers.pop_front().map(Next::Write);
        job.or_else(|| std::mem::take(&mut self.serves_waiting).then_some(Next::ServeWaiting))
    }

    /// A thread has ended what it got from [`LaneQueue::next`] to write.
    pub(super) fn wrote(&mut self) {
        self.writing -= 1;
    }

    /// A thread has ended what was held back; if it is held back again, it is in the queue already.
    pub(super) fn tried_again(&mut self) {
        self.is_trying_again = false;
        self.wrote();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: bool = true;
    const WRITE: bool = false;

    /// HB2.
    #[test]
    fn readers_pass_writers_and_have_threads_of_their_own() {
        let mut queue = LaneQueue::new(3);
        for job in ["write 1", "write 2", "write 3"] {
            queue.push(job, WRITE);
        }
        queue.push("read 1", READ);
        assert_eq!(queue.next(0), Next::Read("read 1"));
        assert_eq!(queue.next(0), Next::Write("write 1"));
        assert_eq!(queue.next(0), Next::Write("write 2"));
        assert_eq!(queue.next(0), Next::Wait, "the third thread is for readers");
        queue.push("read 2", READ);
        assert_eq!(queue.next(0), Next::Read("read 2"));
        assert!(queue.serve_waiting() && !queue.serve_waiting());
        assert_eq!(queue.next(0), Next::Wait);
        queue.wrote();
        assert_eq!(queue.next(0), Next::Write("write 3"));
        queue.wrote();
        assert_eq!(queue.next(0), Next::ServeWaiting);
        queue.wrote();
        queue.wrote();
        queue.close();
        assert_eq!(queue.next(0), Next::End);
        let mut alone = LaneQueue::new(1);
        alone.push("write", WRITE);
        assert_eq!(alone.next(0), Next::Write("write"), "one thread does all");
        assert_eq!(LaneQueue::<()>::new(16).writing_most, 12);
    }

    /// HB1.
    #[test]
    fn what_is_held_back_lets_others_pass_and_comes_when_it_is_due() {
        let mut queue = LaneQueue::new(2);
        queue.hold_back("late", 300, "the log".into());
        queue.hold_back("soon", 200, "level 0".into());
        assert_eq!(queue.next(100), Next::WaitUntil(200));
        assert_eq!(queue.next(100), Next::Wait, "one thread has the time");
        queue.waited_until(200);
        assert!(queue.lacks_timer());
        queue.push("another", WRITE);
        assert_eq!(queue.len(), 3);
        assert_eq!(queue.next(100), Next::Write("another"));
        assert_eq!(queue.len(), 2, "what is executed waits no more");
        assert_eq!(queue.next(250), Next::Wait, "that one takes the thread");
        queue.wrote();
        queue.push("later", WRITE);
        assert_eq!(queue.next(250), Next::TryAgain("soon"));
        queue.tried_again();
        assert_eq!(queue.next(250), Next::Write("later"));
        queue.wrote();
        assert_eq!(queue.next(250), Next::WaitUntil(300));
        queue.hold_back("sooner", 280, "level 0".into());
        assert_eq!(queue.next(250), Next::WaitUntil(280), "an earlier time has a thread of its own");
        queue.waited_until(300);
        assert!(!queue.lacks_timer());
        queue.waited_until(280);
        assert_eq!(queue.next(280), Next::TryAgain("sooner"));
        queue.tried_again();
        queue.close();
        assert_eq!(queue.next(250), Next::End, "what is held back longer is given up");
        assert_eq!(queue.next(300), Next::TryAgain("late"));
    }

    /// HB3.
    #[test]
    fn a_refusal_puts_off_all_that_wait_for_the_same() {
        let mut queue = LaneQueue::new(4);
        for (job, due_ns) in [("first", 100), ("second", 110), ("third", 120)] {
            queue.hold_back(job, due_ns, "slowed".into());
        }
        queue.hold_back("other", 150, "the log".into());
        assert_eq!(queue.next(200), Next::TryAgain("first"));
        assert_eq!(queue.next(200), Next::Wait, "one attempt at a time");
        queue.push("new", WRITE);
        assert_eq!(queue.next(200), Next::Write("new"), "what was not refused yet is tried beside it");
        queue.wrote();
        queue.tried_again();
        assert_eq!(queue.next(200), Next::TryAgain("second"), "the first was admitted");
        queue.hold_back("second", 300, "slowed".into());
        queue.tried_again();
        assert_eq!(queue.next(200), Next::TryAgain("other"), "the third waits with the second");
        queue.tried_again();
        assert_eq!(queue.next(200), Next::WaitUntil(300));
        assert_eq!(queue.next(300), Next::TryAgain("third"));
        queue.tried_again();
        assert_eq!(queue.next(300), Next::TryAgain("second"));
    }
}
