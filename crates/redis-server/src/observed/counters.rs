//! Statistics of commands: how often each was called, how long it took, how often it failed.
//!
//! What holds: OB2. Counters have one writer, the thread that was given them, so adding needs no locked
//! instruction. A reader adds up those of all threads. CONFIG RESETSTAT keeps the sums and takes them away
//! from later ones, because it may not write to other threads' counters.

use super::histogram::{Counts, Histogram};
use super::turns::{TurnCounters, TurnTotals};
use esker_redis_commands::{Command, table};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Codes of errors that are counted: scripts can make new ones without end.
const MAX_CODES: usize = 128;

/// Bytes of a code that are kept.
const MAX_CODE_BYTES: usize = 64;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With a reply.
    Well,
    /// With an error of its own.
    Failed,
    /// It was not executed: its arguments or its client did not fit.
    Rejected,
    /// Not yet: it waits for its keys, and is counted as a call already.
    Waits,
    /// With a reply after it has waited.
    WaitedWell,
    /// With an error after it has waited.
    WaitedFailed,
}

impl Ended {
    /// Whether it is a call that was not counted before.
    pub(crate) fn is_call(self) -> bool {
        matches!(self, Self::Well | Self::Failed | Self::Waits)
    }
}

/// The code of an error, which is its first word.
pub(crate) fn code_of(error: &[u8]) -> &[u8] {
    let code = error.split(|byte| matches!(byte, b' ' | b'\r' | b'\n')).next().unwrap_or_default();
    &code[..code.len().min(MAX_CODE_BYTES)]
}

/// Counters of a command of one thread.
#[derive(Debug, Default)]
struct Counter {
    calls: AtomicU64,
    nanos: AtomicU64,
    rejected: AtomicU64,
    failed: AtomicU64,
    latencies: OnceLock<Box<Histogram>>,
}

/// Adds to a counter of this thread (OB2).
pub(super) fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Ordering::Relaxed) + count, Ordering::Relaxed);
}

/// The counters of a thread, one for each command of the table.
#[derive(Debug)]
pub(crate) struct ThreadCounters {
    commands: Box<[Counter]>,
    /// What is counted of groups, turns and scripts.
    pub(crate) turns: TurnCounters,
}

impl ThreadCounters {
    fn new() -> Self {
        let commands = (0..table::count_with_subcommands()).map(|_| Counter::default()).collect();
        Self { commands, turns: TurnCounters::default() }
    }

    /// Counts a command. Only the thread that was given the counters may call it (OB2).
    pub(crate) fn count(&self, command: usize, nanos: u64, ended: Ended, with_latency: bool) {
        let Some(counter) = self.commands.get(command) else { return };
        if ended == Ended::Rejected {
            return add(&counter.rejected, 1);
        }
        if ended.is_call() {
            add(&counter.calls, 1);
        }
        if ended == Ended::Waits {
            return;
        }
        add(&counter.nanos, nanos);
        if matches!(ended, Ended::Failed | Ended::WaitedFailed) {
            add(&counter.failed, 1);
        }
        if with_latency {
            counter.latencies.get_or_init(Box::default).add(nanos);
        }
    }
}

/// What was counted of a command.
#[derive(Clone, Debug, Default)]
pub(crate) struct Total {
    /// Executions.
    pub(crate) calls: u64,
    /// Their time in nanoseconds.
    pub(crate) nanos: u64,
    /// Calls that were not executed.
    pub(crate) rejected: u64,
    /// Executions that ended with an error.
    pub(crate) failed: u64,
    /// The distribution of times, if they were tracked.
    pub(crate) latencies: Option<Counts>,
}

impl Total {
    fn subtract(&mut self, earlier: &Self) {
        self.calls = self.calls.saturating_sub(earlier.calls);
        self.nanos = self.nanos.saturating_sub(earlier.nanos);
        self.rejected = self.rejected.saturating_sub(earlier.rejected);
        self.failed = self.failed.saturating_sub(earlier.failed);
        if let (Some(counts), Some(earlier)) = (&mut self.latencies, &earlier.latencies) {
            counts.subtract(earlier);
        }
    }
}

/// Statistics of commands and errors.
#[derive(Debug)]
pub(crate) struct CommandStatistics {
    /// `latency-tracking`.
    tracks_latencies: AtomicBool,
    threads: Mutex<Vec<Arc<ThreadCounters>>>,
    /// Commands that waited and ended without being served; one of `threads`, of the thread with the lock.
    ended_waits: Mutex<Arc<ThreadCounters>>,
    /// The sums at the last reset.
    at_reset: Mutex<Vec<Total>>,
    errors: Mutex<BTreeMap<Vec<u8>, u64>>,
    error_replies: AtomicU64,
}

impl Default for CommandStatistics {
    fn default() -> Self {
        let ended_waits = Arc::new(ThreadCounters::new());
        Self {
            tracks_latencies: AtomicBool::new(true),
            threads: Mutex::new(vec![Arc::clone(&ended_waits)]),
            ended_waits: Mutex::new(ended_waits),
            at_reset: Mutex::default(),
            errors: Mutex::default(),
            error_replies: AtomicU64::new(0),
        }
    }
}

impl CommandStatistics {
    /// Whether distributions of times are kept.
    pub(crate) fn tracks_latencies(&self) -> bool {
        self.tracks_latencies.load(Ordering::Relaxed)
    }

    /// Sets whether distributions of times are kept.
    pub(crate) fn track_latencies(&self, tracks: bool) {
        self.tracks_latencies.store(tracks, Ordering::Relaxed);
    }

    /// Counters for a thread: those of one that has ended, or new ones.
    pub(crate) fn for_thread(&self) -> Arc<ThreadCounters> {
        let mut threads = self.threads.lock();
        // Exclusive access proves that the former thread has ended, and makes its last additions visible.
        if let Some(free) =
            threads.iter_mut().find_map(|counters| Arc::get_mut(counters).is_some().then_some(&*counters))
        {
            return Arc::clone(free);
        }
        let counters = Arc::new(ThreadCounters::new());
        threads.push(Arc::clone(&counters));
        counters
    }

    /// Counts a command that waited and was not served.
    pub(crate) fn count_ended_wait(&self, command: &Command, ended: Ended) {
        self.ended_waits.lock().count(command.index(), 0, ended, self.tracks_latencies());
    }

    /// Counts an error reply by its code, the first word of its text.
    pub(crate) fn count_error(&self, text: &[u8]) {
        self.error_replies.fetch_add(1, Ordering::Relaxed);
        let code = code_of(text);
        let mut errors = self.errors.lock();
        if let Some(count) = errors.get_mut(code) {
            *count += 1;
        } else if errors.len() < MAX_CODES {
            errors.insert(code.to_vec(), 1);
        }
    }

    /// Error replies since the last reset.
    pub(crate) fn error_replies(&self) -> u64 {
        self.error_replies.load(Ordering::Relaxed)
    }

    /// Codes of errors and how often each was replied.
    pub(crate) fn errors(&self) -> BTreeMap<Vec<u8>, u64> {
        self.errors.lock().clone()
    }

    /// What was counted since the last reset, of each command of the table.
    pub(crate) fn totals(&self) -> Vec<(&'static Command, Total)> {
        let mut totals = self.sums();
        for (total, earlier) in totals.iter_mut().zip(self.at_reset.lock().iter()) {
            total.subtract(earlier);
        }
        table::all().iter().zip(totals).collect()
    }

    /// What was counted of groups, turns and scripts since the start.
    pub(crate) fn turns(&self) -> TurnTotals {
        let mut totals = TurnTotals::default();
        self.threads.lock().iter().for_each(|thread| totals.add(&thread.turns));
        totals
    }

    fn sums(&self) -> Vec<Total> {
        let mut sums = vec![Total::default(); table::count_with_subcommands()];
        for thread in self.threads.lock().iter() {
            for (sum, counter) in sums.iter_mut().zip(&thread.commands) {
                sum.calls += counter.calls.load(Ordering::Relaxed);
                sum.nanos += counter.nanos.load(Ordering::Relaxed);
                sum.rejected += counter.rejected.load(Ordering::Relaxed);
                sum.failed += counter.failed.load(Ordering::Relaxed);
                if let Some(histogram) = counter.latencies.get() {
                    histogram.add_to(sum.latencies.get_or_insert_default());
                }
            }
        }
        sums
    }

    /// Begins anew.
    pub(crate) fn reset(&self) {
        *self.at_reset.lock() = self.sums();
        self.errors.lock().clear();
        self.error_replies.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(statistics: &CommandStatistics, name: &str) -> Total {
        let found = statistics.totals().into_iter().find(|(command, _)| command.name() == name);
        found.expect("in the table").1
    }

    #[test]
    fn counters_of_ended_threads_stay_and_are_used_again() {
        let statistics = CommandStatistics::default();
        let get = esker_redis_commands::find(b"get").expect("there is GET").index();
        for round in 1..=3 {
            let counters = statistics.for_thread();
            counters.count(get, 100, Ended::Well, true);
            counters.count(get, 300, Ended::Failed, true);
            counters.count(get, 0, Ended::Rejected, true);
            let total = of(&statistics, "get");
            assert_eq!((total.calls, total.nanos), (2 * round, 400 * round));
            assert_eq!((total.failed, total.rejected), (round, round));
            assert_eq!(total.latencies.map(|counts| counts.total()), Some(2 * round));
        }
        // Those of the threads, which took turns, and those of waits that ended.
        assert_eq!(statistics.threads.lock().len(), 2);
        let (first, second) = (statistics.for_thread(), statistics.for_thread());
        assert!(!Arc::ptr_eq(&first, &second), "two threads have one counter");
        statistics.reset();
        second.count(get, 7, Ended::Well, false);
        assert_eq!((of(&statistics, "get").calls, of(&statistics, "get").nanos), (1, 7));
        first.count(get, 7, Ended::Well, false);
        assert_eq!(of(&statistics, "get").calls, 2);
    }

    #[test]
    fn codes_of_errors_are_bounded() {
        let statistics = CommandStatistics::default();
        for number in 0..1_000 {
            statistics.count_error(format!("E{number} text").as_bytes());
        }
        statistics.count_error(b"E1");
        statistics.count_error(&[b'x'; 1 << 20]);
        assert_eq!(statistics.errors().len(), MAX_CODES);
        assert_eq!(statistics.errors()[&b"E1"[..]], 2);
        assert_eq!(statistics.error_replies(), 1_002);
    }
}
