//! Background work: four lanes, typed, without sleeps.
//!
//! # The design
//! A *lane* is a kind of work with its own order: [`Lane::Log`] prepares segments and deletes files,
//! [`Lane::Flush`] writes memtables to tables, [`Lane::Compaction`] merges tables, [`Lane::Urgent`] merges
//! those of a level 0 that is about to stop the writers when all threads of the compaction lane are at
//! something else, and takes them from jobs that can wait. Each lane has threads of its own, so that a long
//! compaction never delays a flush and a long flush never delays the segment that writers wait for. Whoever
//! makes work calls [`Scheduler::request`], which counts it; each of a lane's threads remembers up to which
//! request it has looked, and notes that *before* it looks. So a request made while a thread works, or looks
//! in vain, makes it look again, whatever the lane's other threads do, and none is lost (LN1).
//!
//! A step that fails puts its error into the lane. The lane tries again after [`RETRY_WAIT`] or at the next
//! request; meanwhile whoever waits for that lane is told the error instead of waiting for ever ([`Concern`]:
//! whoever waits for the tables of one keyspace, that keyspace's alone). The first step that succeeds clears
//! it. So a full disk degrades, and space returning heals it without a restart.
//!
//! Time makes work, too, and nobody says so. The compaction lane looks by itself; so does the urgent one,
//! because nobody else looks at the clock while all threads of the other are at something long: memtables are
//! sealed and the log is left in time, and jobs that can wait make room.
//!
//! In stepped mode there are no threads: [`Scheduler::step`] runs one piece of work of a requested lane,
//! which one the seed decides. Writers step a little after each write, and where they would wait they step
//! until what they wait for has come. One seed, one interleaving.
//!
//! # Who has the processors
//! Where callers, a flush and a merge want two processors, the merge can wait longest: what it leaves lying
//! for a while is merged later with more beside it, in fewer bytes. So threads of the compaction lane step
//! back by [`MERGING_STEPS`], and the operating system's scheduler does the rest. Nothing can fall behind
//! without bound: what merges sustain is measured, and writers are held back by it ([`crate::pressure`]); an
//! urgent level 0 that finds all compaction threads busy has a thread that does not step back.
//!
//! Rejected: one pool with priorities. With two cores the pool has one or two threads, and a running
//! compaction cannot be taken off its thread when a flush becomes urgent.

use esker_base::{Error, Result};
use esker_env::{Background, Env, host};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a lane whose last step failed waits before it tries again by itself.
const RETRY_WAIT: Duration = Duration::from_secs(1);

/// The lanes that merge look for work by themselves after this time: entries expire, snapshots and writers
/// go, and nobody says so. One look at a store in which nothing has changed takes some microseconds.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// Longest wait between two looks at the time that is left.
const WAIT_PIECE: Duration = Duration::from_millis(100);

/// How far threads that merge step back, in steps of niceness. Against a thread that does not, five leave a
/// quarter of a processor that both want, and a third of the share that a thread has beside many. With ten
/// fills were faster still, but beside eight busy threads merges would have a tenth of their share.
const MERGING_STEPS: u8 = 5;

/// A kind of background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Segments are prepared, obsolete files deleted, cold tables closed.
    Log,
    /// Memtables become tables.
    Flush,
    /// Tables are merged.
    Compaction,
    /// Tables are merged that cannot wait for a thread of the compaction lane. Requested together with that
    /// lane, and never in stepped mode, where no job runs while another is chosen.
    Urgent,
}

pub(crate) const LANES: [Lane; 4] = [Lane::Log, Lane::Flush, Lane::Compaction, Lane::Urgent];

impl Lane {
    /// Why a write waits for the lane.
    pub(crate) fn why_writers_wait(self) -> &'static str {
        match self {
            Lane::Log => "a log segment is being prepared",
            Lane::Flush => "memtables are being written to tables",
            Lane::Compaction | Lane::Urgent => "level 0 holds as many runs as it may and is being compacted",
        }
    }
}

/// What the lanes do; implemented by the database.
pub(crate) trait Work: Send + Sync + 'static {
    /// Does one piece of work of the lane; `false` if there is none.
    fn work(&self, lane: Lane) -> Result<bool>;

    /// After which time a lane looks for work without being asked; `None` for never.
    fn look_interval(&self, lane: Lane) -> Option<Duration> {
        matches!(lane, Lane::Compaction | Lane::Urgent).then_some(LOOK_INTERVAL)
    }
}

/// Whose failures somebody who waits is told.
#[derive(Clone, Copy)]
pub(crate) enum Concern<'a> {
    /// The last one of the lane.
    Lane,
    /// What this says: it knows what of all that the lane does is waited for.
    Own(&'a dyn Fn() -> Option<Error>),
}

#[derive(Debug, Default)]
struct LaneState {
    /// Requests so far.
    requests: u64,
    /// Stepped mode: how many of these were looked for. A thread remembers that by itself.
    taken: u64,
    running: usize,
    error: Option<Error>,
}

/// What a piece of work came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Something was done, so there may be more.
    Done,
    /// There was nothing to do.
    Nothing,
    Failed,
}

#[derive(Debug)]
struct State {
    lanes: [LaneState; LANES.len()],
    stopping: bool,
    /// State of the stepped mode's generator.
    seed: u64,
}

impl LaneState {
    /// Stepped mode: whether somebody asked since the lane looked last.
    fn is_requested(&self) -> bool {
        self.requests != self.taken
    }
}

impl State {
    /// What failed of what somebody waits for.
    fn failure(&self, lane: Lane, concern: Concern<'_>) -> Option<Error> {
        match concern {
            Concern::Lane => self.lanes[lane as usize].error.clone(),
            Concern::Own(failure) => failure(),
        }
    }
}

/// Runs [`Work`].
#[derive(Debug)]
pub(crate) struct Scheduler {
    state: Mutex<State>,
    /// Signalled by requests for the lane and by the stop. One each, or requests for one lane would put off
    /// the look that another takes by itself.
    requests: [Condvar; LANES.len()],
    /// Signalled after every step and every published change: wakes whoever waits for progress.
    progress: Condvar,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Grows with every step and every announced change: a waiter reads it while it still holds the lock
    /// under which it found no room, and waits until it moves.
    generation: AtomicU64,
    /// As in the state, for jobs that look often.
    stopping: AtomicBool,
    stepped: bool,
}

impl Scheduler {
    pub(crate) fn new(background: Background) -> Scheduler {
        let (stepped, seed) = match background {
            Background::Threads => (false, 0),
            Background::Stepped { seed } => (true, seed),
        };
        Scheduler {
            state: Mutex::new(State { lanes: Default::default(), stopping: false, seed }),
            requests: Default::default(),
            progress: Condvar::new(),
            threads: Mutex::new(Vec::new()),
            generation: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            stepped,
        }
    }

    /// Starts the threads of all lanes; nothing in stepped mode.
    pub(crate) fn start<W: Work>(
        self: &Arc<Self>,
        env: &Env,
        work: &Arc<W>,
        compaction_threads: usize,
    ) -> Result<()> {
        self.start_log(env, work)?;
        let compactions =
            (0..compaction_threads).map(|index| (Lane::Compaction, format!("esker-compact-{index}")));
        let others = [(Lane::Flush, "esker-flush".to_owned()), (Lane::Urgent, "esker-urgent".to_owned())];
        self.spawn(env, work, others.into_iter().chain(compactions))
    }

    /// Starts the thread of the log lane alone, which also closes tables: what a database has that takes no
    /// writes.
    pub(crate) fn start_log<W: Work>(self: &Arc<Self>, env: &Env, work: &Arc<W>) -> Result<()> {
        self.spawn(env, work, [(Lane::Log, "esker-log".to_owned())].into_iter())
    }

    fn spawn<W: Work>(
        self: &Arc<Self>,
        env: &Env,
        work: &Arc<W>,
        threads: impl Iterator<Item = (Lane, String)>,
    ) -> Result<()> {
        if self.stepped {
            return Ok(());
        }
        for (lane, name) in threads {
            let (scheduler, work) = (Arc::clone(self), Arc::clone(work));
            let thread = env.spawn(&name, move || scheduler.run_lane(lane, &*work))?;
            self.threads.lock().push(thread);
        }
        Ok(())
    }

    pub(crate) fn is_stepped(&self) -> bool {
        self.stepped
    }

    /// Says that the lane may have work; the urgent one together with the compaction lane.
    pub(crate) fn request(&self, lane: Lane) {
        self.request_alone(lane);
        if lane == Lane::Compaction && !self.stepped {
            self.request_alone(Lane::Urgent);
        }
    }

    /// Says that this lane may have work, and no other.
    pub(crate) fn request_alone(&self, lane: Lane) {
        self.state.lock().lanes[lane as usize].requests += 1;
        self.requests[lane as usize].notify_all();
    }

    /// Says that something others may wait for has changed.
    pub(crate) fn announce_progress(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        // Taking the lock orders this against a waiter between its check and its wait.
        drop(self.state.lock());
        self.progress.notify_all();
    }

    /// Changes so far.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Waits until something has changed since the generation was `seen`; as [`Scheduler::wait`] otherwise.
    pub(crate) fn wait_for_change<W: Work>(
        &self,
        work: &W,
        on: (Lane, Concern<'_>),
        seen: u64,
        limit: Duration,
    ) -> Result<bool> {
        self.wait(work, on, limit, || self.generation() != seen)
    }

    /// Waits until `done`, at most `limit`; `false` if the time ran out.
    ///
    /// # Errors
    /// The error of the last attempt of the lane at what is waited for, if that failed, because waiting may
    /// then take for ever.
    pub(crate) fn wait<W: Work>(
        &self,
        work: &W,
        (lane, concern): (Lane, Concern<'_>),
        limit: Duration,
        mut done: impl FnMut() -> bool,
    ) -> Result<bool> {
        if self.stepped {
            return self.step_until(work, (lane, concern), &mut done);
        }
        let mut left = limit;
        loop {
            let seen = self.generation();
            // Not under the scheduler's lock: `done` looks at views, and dropping the last reference to an
            // old one requests the log lane.
            if done() {
                return Ok(true);
            }
            let mut state = self.state.lock();
            while self.generation() == seen {
                if state.stopping {
                    return Err(Error::Closed);
                }
                if let Some(error) = state.failure(lane, concern) {
                    return Err(error);
                }
                // The wait is cut into pieces so that the limit needs no clock.
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

    /// Lets others go on for a time, or until something has changed or the database closes. Nothing in
    /// stepped mode, where there are no others. For callers that hold no lock.
    pub(crate) fn pause(&self, time: Duration) {
        if self.stepped {
            return;
        }
        let mut state = self.state.lock();
        if !state.stopping {
            self.progress.wait_for(&mut state, time);
        }
    }

    /// The last error of each lane that has not succeeded since.
    pub(crate) fn errors(&self) -> Vec<Error> {
        self.state.lock().lanes.iter().filter_map(|lane| lane.error.clone()).collect()
    }

    /// The last error of a lane, if it has not succeeded since.
    pub(crate) fn error(&self, lane: Lane) -> Option<Error> {
        self.state.lock().lanes[lane as usize].error.clone()
    }

    /// Lets running steps end, starts no more, and waits for the threads.
    pub(crate) fn stop(&self) {
        self.state.lock().stopping = true;
        self.stopping.store(true, Ordering::Release);
        for requests in &self.requests {
            requests.notify_all();
        }
        self.progress.notify_all();
        for thread in self.threads.lock().drain(..) {
            // A panic in a lane was already reported by the panic hook and has poisoned the database.
            let _ = thread.join();
        }
    }

    /// Whether [`Scheduler::stop`] was called; long steps look at it between blocks of work.
    #[inline]
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Stepped mode: runs one piece of work of some requested lane. `false` if nothing was requested, or
    /// after [`Scheduler::stop`].
    pub(crate) fn step<W: Work>(&self, work: &W) -> bool {
        self.step_one(work).is_some()
    }

    /// As [`Scheduler::step`]; tells whose piece it was.
    fn step_one<W: Work>(&self, work: &W) -> Option<Lane> {
        let lane = self.choose_lane()?;
        self.run_step(lane, work);
        Some(lane)
    }

    /// Stepped mode: after a write, sometimes runs a piece of work, as a background thread would.
    pub(crate) fn step_sometimes<W: Work>(&self, work: &W) {
        if self.stepped && self.random().is_multiple_of(4) {
            self.step(work);
        }
    }

    fn run_lane<W: Work>(&self, lane: Lane, work: &W) {
        if lane == Lane::Compaction {
            // Where that is refused, merges have the share of everybody.
            host::lower_thread_priority(MERGING_STEPS);
        }
        let (mut looked_for, mut last) = (0, Outcome::Nothing);
        while self.wait_for_request(lane, looked_for, last, work.look_interval(lane)) {
            (looked_for, last) = self.run_step(lane, work);
        }
    }

    /// Waits until there may be something to do: at once after a step that did something, else once more was
    /// requested of the lane than was looked for, or it is time to look without that. `false` after the stop.
    fn wait_for_request(
        &self,
        lane: Lane,
        looked_for: u64,
        last: Outcome,
        look_interval: Option<Duration>,
    ) -> bool {
        let longest = if last == Outcome::Failed { Some(RETRY_WAIT) } else { look_interval };
        let mut state = self.state.lock();
        while !state.stopping && last != Outcome::Done && state.lanes[lane as usize].requests == looked_for {
            let Some(longest) = longest else {
                self.requests[lane as usize].wait(&mut state);
                continue;
            };
            if self.requests[lane as usize].wait_for(&mut state, longest).timed_out() {
                break;
            }
        }
        !state.stopping
    }

    /// One piece of work; answers up to which request it looked, and what it came to.
    fn run_step<W: Work>(&self, lane: Lane, work: &W) -> (u64, Outcome) {
        let looked_for = {
            let lane = &mut self.state.lock().lanes[lane as usize];
            lane.taken = lane.requests;
            lane.running += 1;
            lane.requests
        };
        let result = work.work(lane);
        let mut state = self.state.lock();
        let lane_state = &mut state.lanes[lane as usize];
        lane_state.running -= 1;
        // A step that found nothing changes nothing: waking waiters for it would make them ask again, and
        // again.
        let mut has_changed = true;
        let outcome = match result {
            Ok(true) => {
                // In stepped mode nobody goes on by himself.
                lane_state.requests += u64::from(self.stepped);
                lane_state.error = None;
                Outcome::Done
            }
            Ok(false) => {
                has_changed = lane_state.running == 0 && lane_state.error.take().is_some();
                Outcome::Nothing
            }
            Err(error) => {
                if !matches!(error, Error::Closed) {
                    tracing::warn!(?lane, %error, "background work failed and will be tried again");
                }
                lane_state.error = Some(error);
                Outcome::Failed
            }
        };
        if has_changed {
            self.generation.fetch_add(1, Ordering::AcqRel);
            drop(state);
            self.progress.notify_all();
        }
        (looked_for, outcome)
    }

    fn step_until<W: Work>(
        &self,
        work: &W,
        (lane, concern): (Lane, Concern<'_>),
        done: &mut impl FnMut() -> bool,
    ) -> Result<bool> {
        while !done() {
            let stepped = self.step_one(work);
            // What the lane met before is no answer while it is still to try again.
            let has_tried = stepped.is_none_or(|stepped| stepped == lane);
            if has_tried && let Some(error) = self.state.lock().failure(lane, concern) {
                return Err(error);
            }
            if stepped.is_none() && !done() {
                return Err(match self.is_stopping() {
                    true => Error::Closed,
                    false => Error::internal("waiting for background work that nobody requested"),
                });
            }
        }
        Ok(true)
    }

    fn choose_lane(&self) -> Option<Lane> {
        let random = self.random() as usize;
        let state = self.state.lock();
        if state.stopping {
            return None;
        }
        let requested: Vec<Lane> =
            LANES.into_iter().filter(|&lane| state.lanes[lane as usize].is_requested()).collect();
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

#[cfg(test)]
mod tests;
