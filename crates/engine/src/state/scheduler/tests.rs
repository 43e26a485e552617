use super::worker::{MERGING_STEPS, RETRY_WAIT, retry_wait};
use super::*;
use esker_env::host;
use std::collections::VecDeque;
use std::sync::mpsc;

/// Returns the given answers, and `false` from then on; counts the calls.
#[derive(Default)]
struct Told {
    answers: Mutex<VecDeque<Result<bool>>>,
    asked: AtomicU64,
}

impl Told {
    fn new(answers: impl IntoIterator<Item = Result<bool>>) -> Told {
        Told { answers: Mutex::new(answers.into_iter().collect()), asked: AtomicU64::new(0) }
    }

    fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }
}

impl BackgroundWork for Told {
    fn work(&self, _lane: WorkerPool) -> Result<bool> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.answers.lock().pop_front().unwrap_or(Ok(false))
    }
}

fn stepped() -> Scheduler {
    Scheduler::new(Background::Stepped { seed: 1 })
}

fn full() -> Error {
    Error::Full("the disk is full".into())
}

/// A writer without room requests a pool, waits for a change, and checks again. A step without work must not
/// count as a change: waking the waiter, which would request the pool again, would keep both busy for ever.
#[test]
fn a_waiter_and_a_pool_without_work_do_not_keep_each_other_busy() {
    for useful_steps in 0..4 {
        let (scheduler, work) = (stepped(), Told::new((0..useful_steps).map(|_| Ok(true))));
        let mut looks = 0;
        let told = loop {
            looks += 1;
            assert!(looks <= 10, "the waiter goes round in circles");
            let seen = scheduler.generation();
            scheduler.request(WorkerPool::Flush);
            match scheduler.wait_for_change(&work, WorkerPool::Flush, ErrorScope::Pool, seen, Duration::MAX) {
                Ok(changed) => assert!(changed),
                Err(error) => break error,
            }
        };
        // With threads it would sleep now until another thread changes something.
        assert!(matches!(told, Error::Internal(_)), "{told}");
        assert_eq!((looks, work.asked()), (useful_steps + 1, useful_steps + 1));
    }
}

#[test]
fn a_step_without_work_changes_nothing_but_clears_the_error() {
    let (scheduler, work) = (stepped(), Told::new([Err(full())]));
    scheduler.request(WorkerPool::Log);
    assert!(scheduler.step(&work));
    assert_eq!(scheduler.errors().len(), 1);
    assert!(!scheduler.step(&work), "a pool that failed was asked again at once");
    // The pool's recovery is a change, the next step is none.
    for (changes, errors) in [(1, 0), (0, 0)] {
        let seen = scheduler.generation();
        scheduler.request(WorkerPool::Log);
        assert!(scheduler.step(&work));
        assert_eq!((scheduler.generation() - seen, scheduler.errors().len()), (changes, errors));
    }
}

/// Runs another step of the same pool inside a step, as a second thread does.
struct Nested {
    scheduler: Arc<Scheduler>,
    inner: Told,
}

impl BackgroundWork for Nested {
    fn work(&self, pool: WorkerPool) -> Result<bool> {
        let (seen, errors) = (self.scheduler.generation(), self.scheduler.errors().len());
        self.scheduler.request(pool);
        assert!(self.scheduler.step(&self.inner));
        assert_eq!(self.scheduler.generation(), seen, "an idle thread announced a change");
        assert_eq!(self.scheduler.errors().len(), errors, "an idle thread took back the error of a busy one");
        Ok(true)
    }
}

/// Of two threads of a pool one may find no work because the other is doing it. That says nothing about the
/// pool's errors.
#[test]
fn a_thread_without_work_beside_a_busy_one_clears_no_error() {
    let scheduler = Arc::new(stepped());
    scheduler.request(WorkerPool::Compaction);
    assert!(scheduler.step(&Told::new([Err(full())])));
    scheduler.request(WorkerPool::Compaction);
    let seen = scheduler.generation();
    assert!(scheduler.step(&Nested { scheduler: Arc::clone(&scheduler), inner: Told::default() }));
    assert_eq!((scheduler.generation() - seen, scheduler.errors().len()), (1, 0));
}

#[test]
fn the_wait_after_failures_doubles_up_to_its_limit() {
    let waits: Vec<u128> = (0..=9).map(|failures| retry_wait(failures).as_millis()).collect();
    assert_eq!(waits, [10, 10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
    assert_eq!(retry_wait(u32::MAX), RETRY_WAIT);
}

/// Fails each step; counts them.
#[derive(Default)]
struct Failing(AtomicU64);

impl BackgroundWork for Failing {
    fn work(&self, _lane: WorkerPool) -> Result<bool> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Err(full())
    }
}

/// Each refused write requests the pool that it would have waited for (RY1).
#[test]
fn requests_do_not_make_a_failing_pool_try_again() {
    const REQUESTS: u64 = 20_000;
    let (scheduler, work) = (Arc::new(Scheduler::new(Background::Threads)), Arc::new(Failing::default()));
    scheduler.start(&Env::real(), &work, 1).unwrap();
    for _ in 0..REQUESTS {
        scheduler.request(WorkerPool::Flush);
        let seen = scheduler.generation();
        let outcome =
            scheduler.wait_for_change(&*work, WorkerPool::Flush, ErrorScope::Pool, seen, RETRY_WAIT);
        assert!(outcome.is_ok() || matches!(outcome, Err(Error::Full(_))), "{outcome:?}");
    }
    scheduler.stop();
    // A second between two attempts at last: more than these would take hours.
    let attempts = work.0.load(Ordering::Relaxed);
    assert!(attempts < REQUESTS / 10, "{attempts} attempts");
}

#[test]
fn nothing_is_done_after_the_stop() {
    let (scheduler, work) = (stepped(), Told::new([Ok(true), Ok(true)]));
    scheduler.request(WorkerPool::Flush);
    scheduler.stop();
    assert!(!scheduler.step(&work));
    let seen = scheduler.generation();
    let waited = scheduler.wait_for_change(&work, WorkerPool::Flush, ErrorScope::Pool, seen, Duration::MAX);
    assert!(matches!(waited, Err(Error::Closed)), "{waited:?}");
    assert_eq!(work.asked(), 0);
}

/// Records the niceness of the calling threads by pool.
#[cfg(target_os = "linux")]
#[derive(Default)]
struct Niceness(Mutex<[Option<i32>; WORKER_POOLS.len()]>);

#[cfg(target_os = "linux")]
impl BackgroundWork for Niceness {
    fn work(&self, pool: WorkerPool) -> Result<bool> {
        self.0.lock()[pool as usize] = host::lower_thread_priority(0);
        Ok(false)
    }
}

/// Only merges run at lower priority: neither flushes, which writers wait for, nor the thread for urgent
/// merges do.
#[cfg(target_os = "linux")]
#[test]
fn only_compaction_threads_have_lower_priority() {
    let usual = host::lower_thread_priority(0).expect("Linux tells");
    let (scheduler, work) = (Arc::new(Scheduler::new(Background::Threads)), Arc::new(Niceness::default()));
    scheduler.start(&Env::real(), &work, 1).unwrap();
    for pool in [WorkerPool::Log, WorkerPool::Deletion, WorkerPool::Flush, WorkerPool::Compaction] {
        scheduler.request(pool);
    }
    while work.0.lock().contains(&None) {
        std::thread::yield_now();
    }
    scheduler.stop();
    let stepped_back = (usual + i32::from(MERGING_STEPS)).min(19);
    for pool in WORKER_POOLS {
        let expected = if pool == WorkerPool::Compaction { stepped_back } else { usual };
        assert_eq!(work.0.lock()[pool as usize], Some(expected), "{pool:?}");
    }
}

/// Returns what the test sends, one answer for each call; calls block until there is one.
struct Asked {
    pool: WorkerPool,
    questions: Mutex<mpsc::Sender<mpsc::Sender<bool>>>,
    look_interval: Option<Duration>,
}

impl Asked {
    fn new(
        pool: WorkerPool,
        look_interval: Option<Duration>,
    ) -> (Arc<Asked>, mpsc::Receiver<mpsc::Sender<bool>>) {
        let (questions, asked) = mpsc::channel();
        (Arc::new(Asked { pool, questions: Mutex::new(questions), look_interval }), asked)
    }
}

impl BackgroundWork for Asked {
    fn work(&self, pool: WorkerPool) -> Result<bool> {
        let (answer, answered) = mpsc::channel();
        if pool != self.pool || self.questions.lock().send(answer).is_err() {
            return Ok(false);
        }
        Ok(answered.recv().unwrap_or(false))
    }

    fn look_interval(&self, pool: WorkerPool) -> Option<Duration> {
        self.look_interval.filter(|_| pool == self.pool)
    }
}

/// Of two threads of a pool one checks without result, and before it has recorded that, a request is made
/// that the other takes: there may be more, so the first must check again.
#[test]
fn a_request_is_for_all_threads_of_a_pool() {
    let (work, asked) = Asked::new(WorkerPool::Compaction, None);
    let scheduler = Arc::new(Scheduler::new(Background::Threads));
    scheduler.start(&Env::real(), &work, 2).unwrap();
    let question = || asked.recv_timeout(Duration::from_secs(20)).expect("a thread that looks");
    // Both check, and one of them returns.
    scheduler.request(WorkerPool::Compaction);
    let (in_vain, other) = (question(), question());
    other.send(false).unwrap();
    scheduler.request(WorkerPool::Compaction);
    let long_job = question();
    in_vain.send(false).unwrap();
    let second_job = question();
    for answer in [long_job, second_job] {
        answer.send(false).unwrap();
    }
    drop(asked);
    scheduler.stop();
}

/// Work becomes due by time without a request, also while all compaction threads are busy.
#[test]
fn the_urgent_pool_checks_by_itself() {
    let (work, asked) = Asked::new(WorkerPool::Urgent, Some(Duration::from_millis(1)));
    let scheduler = Arc::new(Scheduler::new(Background::Threads));
    scheduler.start(&Env::real(), &work, 1).unwrap();
    for _ in 0..3 {
        asked.recv_timeout(Duration::from_secs(20)).expect("it looks").send(false).unwrap();
    }
    drop(asked);
    scheduler.stop();
}

/// Longer than a wakeup takes on any machine. Only a test that fails waits to its end.
const PATIENCE: Duration = Duration::from_secs(20);

/// Published changes of the tree wake writers that wait for room; nothing else does.
#[test]
fn an_announced_change_wakes_the_threads_that_wait_for_it() {
    let scheduler = Arc::new(Scheduler::new(Background::Threads));
    let seen = scheduler.generation();
    let (told, outcome) = mpsc::channel();
    let waiting = {
        let scheduler = Arc::clone(&scheduler);
        move || {
            let (work, pool) = (Told::default(), WorkerPool::Flush);
            let woken = scheduler.wait_for_change(&work, pool, ErrorScope::Pool, seen, PATIENCE);
            told.send(woken).unwrap();
        }
    };
    let waiter = Env::real().spawn("waiter", waiting).unwrap();
    scheduler.announce_progress();
    waiter.join().unwrap();
    assert!(outcome.recv().unwrap().unwrap(), "nothing woke the thread");
}

/// Fails until it is healed, and then does one step of work.
#[derive(Default)]
struct Healing {
    is_healed: AtomicBool,
    is_done: AtomicBool,
}

impl BackgroundWork for Healing {
    fn work(&self, _lane: WorkerPool) -> Result<bool> {
        if !self.is_healed.load(Ordering::Acquire) {
            return Err(full());
        }
        Ok(!self.is_done.swap(true, Ordering::AcqRel))
    }
}

/// A drain after room was made must not answer with the error of the time before.
#[test]
fn an_attempt_that_is_asked_for_answers_for_itself() {
    let (scheduler, work) = (Arc::new(Scheduler::new(Background::Threads)), Arc::new(Healing::default()));
    scheduler.start(&Env::real(), &work, 1).unwrap();
    scheduler.request(WorkerPool::Flush);
    let wait = || {
        let done = || work.is_done.load(Ordering::Acquire);
        scheduler.wait(&*work, WorkerPool::Flush, ErrorScope::Pool, PATIENCE, done)
    };
    assert!(matches!(wait(), Err(Error::Full(_))));
    work.is_healed.store(true, Ordering::Release);
    scheduler.retry_now(WorkerPool::Flush);
    let outcome = wait();
    scheduler.stop();
    assert!(outcome.unwrap());
}
