//! Simulation with a clock: writers arrive at a rate, and jobs run concurrently and share the disk.
//!
//! Everything changes at events only: a memtable is full, a job has written its output, the writers' pace is
//! adapted. Between two events rates are constant, so time advances from event to event. The log and the
//! tables share the disk; of what the log leaves, the flush gets half and jobs the rest in equal parts, none
//! faster than a thread can merge.
//!
//! The admission rate, the stall limits and the capacity of background work come from the functions of the
//! store itself ([`esker_strategy::write_control`]), fed with the durations of flushes and jobs here.

use crate::scenario::Scenario;
use crate::settled;
use crate::tally::Tally;
use crate::tree::{Job, Tree};
use esker_strategy::write_control::{
    Capacity, GarbageQueue, MAX_SEALED, UNKNOWN_BYTES_PER_SECOND, admitted_bytes_per_second, memory_limits,
    pressure_permille,
};
use esker_strategy::{base_bytes, upper_bytes};
use esker_version::LevelIndex;
use std::time::Duration;

/// Decay of the measured overwrite share: a measurement counts this much less with each later job.
const MERGES_REMEMBERED: f64 = 0.75;
/// The least share of the disk that the log leaves.
const LEAST_RATE: f64 = 1.0 / 16.0;
/// Pace updates per memtable while memtables wait for their flush. The store updates every ten milliseconds.
const LOOKS_PER_MEMTABLE: f64 = 16.0;

struct Writing<J> {
    left_bytes: f64,
    all_bytes: f64,
    began_s: f64,
    job: J,
}

struct Pacer<'a> {
    scenario: &'a Scenario,
    tree: &'a mut Tree,
    tally: &'a mut Tally,
    /// Operations of a full memtable, and bytes of one operation.
    memtable: f64,
    operation_bytes: f64,
    wanted_bytes_per_s: f64,
    now_s: f64,
    /// Operations in the active memtable.
    filled: f64,
    /// The ends of sealed memtables, oldest first; the first may be being flushed.
    sealed: std::collections::VecDeque<f64>,
    /// Everything before this is sealed.
    sealed_to: f64,
    flush: Option<Writing<f64>>,
    jobs: Vec<Writing<Job>>,
    capacity: Capacity,
    /// Bytes that entered the last level in recent merges, and those of them that overwrote something there.
    arrived: f64,
    overwritten: f64,
    stopped_since: Option<f64>,
}

/// Writes up to a moment, in operations, and waits for running jobs.
pub(crate) fn run(
    scenario: &Scenario,
    tree: &mut Tree,
    tally: &mut Tally,
    until: f64,
    wanted_bytes_per_s: f64,
) -> Result<(), String> {
    let operation_bytes = scenario.workload.operation_bytes();
    let (sealed_to, began_s) = (tree.flushed_to, tree.now_s);
    let memtable = tree.options.memtable_bytes as f64 / operation_bytes;
    let mut pacer = Pacer {
        scenario,
        tree,
        tally,
        memtable,
        operation_bytes,
        wanted_bytes_per_s,
        now_s: began_s,
        filled: 0.0,
        sealed: std::collections::VecDeque::new(),
        sealed_to,
        flush: None,
        jobs: Vec::new(),
        capacity: Capacity::default(),
        arrived: 0.0,
        overwritten: 0.0,
        stopped_since: None,
    };
    let mut plans_after = 0u64;
    let mut has_changed = true;
    while pacer.tree.flushed_to < until - 1e-6 * memtable {
        if has_changed {
            pacer.begin_work(until)?;
        }
        has_changed = pacer.step(until)?;
        plans_after += 1;
        if plans_after > 100_000_000 {
            return Err(format!("{} does not come to an end", pacer.tree.strategy));
        }
    }
    // Writing has ended; running jobs finish.
    while !pacer.jobs.is_empty() {
        pacer.step(until)?;
    }
    let now_s = pacer.now_s;
    tree.now_s = now_s;
    if tally.counts {
        tally.elapsed_s += now_s - began_s;
    } else {
        // Unfinished work must not be charged to the next phase.
        settled::settle(tree, tally, false)?;
    }
    Ok(())
}

impl Pacer<'_> {
    fn now_ms(&self) -> u64 {
        (self.now_s * 1000.0) as u64
    }

    fn begin_work(&mut self, until: f64) -> Result<(), String> {
        while self.jobs.len() < self.scenario.machine.threads {
            let Some(job) = self.tree.begin(false, self.now_ms())? else { break };
            let bytes = job.out_bytes as f64;
            self.jobs.push(Writing { left_bytes: bytes, all_bytes: bytes, began_s: self.now_s, job });
        }
        let rest = until - self.sealed_to;
        // As in the store, sealing waits for level 0 only while compaction can reduce it.
        let must_wait =
            !self.jobs.is_empty() && self.level0_runs() >= u64::from(self.scenario.level0_limits.1);
        if self.filled >= self.memtable.min(rest) - 1e-9 * self.memtable
            && self.sealed.len() < MAX_SEALED
            && rest > 0.0
            && !must_wait
        {
            self.sealed_to += self.filled;
            self.sealed.push_back(self.sealed_to);
            self.filled = 0.0;
        }
        if self.flush.is_none()
            && let Some(&to) = self.sealed.front()
        {
            let bytes = self.tree.flush_bytes(to) as f64;
            self.flush = Some(Writing { left_bytes: bytes, all_bytes: bytes, began_s: self.now_s, job: to });
        }
        Ok(())
    }

    fn level0_runs(&self) -> u64 {
        self.tree.version().runs_of(LevelIndex::FLUSH).len() as u64
    }

    /// The admission rate of writers in bytes a second; `None` for no limit.
    fn admitted_bytes_per_s(&self) -> Option<u64> {
        let memory = if self.sealed.is_empty() {
            0
        } else {
            let memtable_bytes = self.tree.options.memtable_bytes;
            let (soft, hard) =
                memory_limits(memtable_bytes, memtable_bytes.saturating_mul(MAX_SEALED as u64));
            let operations = self.sealed_to + self.filled - self.tree.flushed_to;
            pressure_permille((operations * self.operation_bytes) as u64, soft, hard)
        };
        let (soft, hard) = self.scenario.level0_limits;
        let level0 = if self.jobs.is_empty() {
            0
        } else {
            pressure_permille(self.level0_runs(), soft.into(), hard.into())
        };
        let flushes = self.capacity.flush_bytes_per_second().unwrap_or(UNKNOWN_BYTES_PER_SECOND);
        let compactions = self.capacity.compaction_bytes_per_second(self.scenario.machine.threads);
        let taken = self.capacity.taken_bytes_per_second(self.scenario.machine.threads);
        let rates = [
            admitted_bytes_per_second(memory, flushes),
            admitted_bytes_per_second(level0, compactions.unwrap_or(UNKNOWN_BYTES_PER_SECOND)),
            admitted_bytes_per_second(self.garbage_permille(), taken.unwrap_or(UNKNOWN_BYTES_PER_SECOND)),
        ];
        rates.into_iter().flatten().min()
    }

    fn garbage_permille(&self) -> u32 {
        if self.jobs.is_empty() {
            return 0;
        }
        let version = self.tree.version();
        let in_memory = (self.sealed_to + self.filled - self.tree.flushed_to) * self.operation_bytes;
        let newer_bytes = upper_bytes(&version) + in_memory as u64;
        let share = (self.arrived > 0.0).then(|| self.overwritten / self.arrived);
        let (strategy, options) = (&self.tree.strategy, &self.tree.options);
        let base_bytes = base_bytes(&version);
        let queue = GarbageQueue::of(strategy, options, base_bytes, newer_bytes, share, &self.capacity);
        queue.map_or(0, |queue| queue.permille())
    }

    /// Records the bytes that a merge into the last level dropped, as the store counts them.
    fn note_overwritten(&mut self, job: &Job, taken_bytes: u64) {
        let dropped_bytes = job.plan.est_in_bytes.saturating_sub(job.out_bytes).min(taken_bytes);
        self.arrived = self.arrived * MERGES_REMEMBERED + taken_bytes as f64;
        self.overwritten = self.overwritten * MERGES_REMEMBERED + dropped_bytes as f64;
    }

    /// Admitted operations a second, and whether that is less than the requested rate.
    fn admitted(&self, until: f64) -> (f64, Pressure) {
        let wanted = self.wanted_bytes_per_s / self.operation_bytes;
        if self.sealed_to + self.filled >= until - 1e-6 * self.memtable {
            return (0.0, Pressure::None);
        }
        if self.filled >= self.memtable * (1.0 - 1e-9) {
            return (0.0, Pressure::Stop);
        }
        match self.admitted_bytes_per_s().map(|bytes_per_s| bytes_per_s as f64 / self.operation_bytes) {
            Some(allowed) if allowed < wanted => (allowed, Pressure::Slow),
            _ => (wanted, Pressure::None),
        }
    }

    /// Advances to the next event; whether it was more than an adaptation of the pace.
    fn step(&mut self, until: f64) -> Result<bool, String> {
        let (rate, pressure) = self.admitted(until);
        let disk = self.scenario.machine.disk_bytes_per_s;
        let left = (disk - rate * self.operation_bytes).max(disk * LEAST_RATE);
        // The flush has priority: half of the disk, or all of it without jobs.
        let most = self.scenario.machine.merge_bytes_per_s;
        let of_flush = match (&self.flush, self.jobs.len()) {
            (None, _) => 0.0,
            (Some(_), 0) => left.min(most),
            (Some(_), _) => (left / 2.0).min(most),
        };
        let of_job = ((left - of_flush) / self.jobs.len().max(1) as f64).min(most);
        let full_in = if rate > 0.0 {
            let rest = (until - self.sealed_to).min(self.memtable) - self.filled;
            rest.max(0.0) / rate
        } else {
            f64::INFINITY
        };
        let flushed_in = self.flush.as_ref().map_or(f64::INFINITY, |flush| flush.left_bytes / of_flush);
        let first_job = self.jobs.iter().enumerate().min_by(|a, b| a.1.left_bytes.total_cmp(&b.1.left_bytes));
        let (first_job, job_in) =
            first_job.map_or((0, f64::INFINITY), |(at, job)| (at, job.left_bytes / of_job));
        // With sealed memtables or garbage pressure, writes increase the pressure, so the pace is adapted.
        let is_growing = rate > 0.0 && (!self.sealed.is_empty() || pressure != Pressure::None);
        let look_in = if is_growing { self.memtable / LOOKS_PER_MEMTABLE / rate } else { f64::INFINITY };
        let event_in = full_in.min(flushed_in).min(job_in);
        let time = event_in.min(look_in);
        if !time.is_finite() {
            return Err(format!("{}: writers wait and nothing runs", self.tree.strategy));
        }
        self.pass(time, rate, of_flush, of_job, pressure);
        if look_in < event_in {
            return Ok(false);
        }
        if job_in <= time {
            let Writing { all_bytes, began_s, job, .. } = self.jobs.swap_remove(first_job);
            if all_bytes > 0.0 {
                let taken_bytes = job.plan.bytes_into_last();
                self.note_overwritten(&job, taken_bytes);
                let took = seconds(self.now_s - began_s);
                self.capacity.note_compaction(all_bytes as u64, taken_bytes, took);
            }
            self.tally.job(&job);
            let now_ms = self.now_ms();
            self.tree.end(job, now_ms)?;
        }
        if flushed_in <= time
            && let Some(flush) = self.flush.take()
        {
            self.sealed.pop_front();
            let flushed = flush.job - self.tree.flushed_to;
            let now_ms = self.now_ms();
            let bytes = self.tree.flush(flush.job, now_ms)?;
            let payload_bytes = (flushed * self.operation_bytes) as u64;
            self.capacity.note_flush(payload_bytes, bytes, seconds(self.now_s - flush.began_s));
            self.tally.flushed(flushed, bytes);
        }
        self.tally.sample(self.tree);
        Ok(true)
    }

    /// Advances time without an event.
    fn pass(&mut self, time: f64, rate: f64, of_flush: f64, of_job: f64, pressure: Pressure) {
        let stalls = &mut self.tally.stalls;
        if self.tally.counts {
            match pressure {
                Pressure::Slow => stalls.slowed_s += time,
                Pressure::Stop => stalls.stopped_s += time,
                Pressure::None => {}
            }
        }
        if pressure == Pressure::Stop {
            let since = *self.stopped_since.get_or_insert(self.now_s);
            if self.tally.counts {
                stalls.stops += u64::from(since >= self.now_s);
                stalls.longest_stop_s = stalls.longest_stop_s.max(self.now_s + time - since);
            }
        } else {
            self.stopped_since = None;
        }
        self.now_s += time;
        self.filled += rate * time;
        let mut making = 0.0;
        let jobs = self.jobs.iter_mut().map(|job| (&mut job.left_bytes, job.all_bytes, of_job));
        let flush = self.flush.iter_mut().map(|flush| (&mut flush.left_bytes, flush.all_bytes, of_flush));
        for (left_bytes, all_bytes, bytes_per_s) in jobs.chain(flush) {
            let written = (bytes_per_s * time).min(*left_bytes);
            *left_bytes -= written;
            making += all_bytes - *left_bytes;
        }
        self.tally.observe(self.tree, time, making as u64);
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// Whether writers are throttled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pressure {
    None,
    Slow,
    Stop,
}
