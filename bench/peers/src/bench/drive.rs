//! Driver of one workload: runs operations on threads, times some of them, stops at the end or at the time
//! limit, and waits for the background work that they caused, so that it does not count for the next
//! workload.

use super::Bench;
use crate::cores;
use crate::data::mix;
use crate::engine::{Engine, Result, Session};
use crate::process::{self, AnonymousPeak, Usage};
use crate::record::Record;
use hdrhistogram::Histogram;
use std::ops::Range;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Least timed operations of a workload that is not cut short; about twice as many at most. Enough for a
/// percentile of 99.9. Timing one takes some 80 ns (two clock readings, which wait for the processor's
/// pipeline, and a slot in a large table), as long as a get of a fast store; so of many operations few are
/// timed.
const TIMED_OPERATIONS: u64 = 20_000;
/// Longest latency that the histogram resolves: 100 seconds.
const LONGEST_NS: u64 = 100_000_000_000;
/// Significant digits of a latency.
const DIGITS: u8 = 3;
/// A process is calm if for this long it used less than a twentieth of a processor and no thread waited for a
/// device.
const CALM: Duration = Duration::from_millis(100);
/// Interval of the checks for calm, and so the resolution of its beginning.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// With several threads, each takes the operations in at least this many pieces, if they are equally fast.
/// With one piece each, the slowest thread would be alone for up to a tenth of the time.
const PIECES_A_THREAD: u64 = 256;
/// Largest piece: a millisecond or two of a fast store.
const LARGEST_PIECE: u64 = 4096;

/// The operations that no thread has taken yet.
struct Work {
    next: AtomicU64,
    operations: u64,
    piece: u64,
}

impl Work {
    fn of(workload: &Workload<'_>) -> Work {
        let operations = workload.operations;
        let piece = match workload.threads as u64 {
            1 => operations,
            threads => (operations / threads / PIECES_A_THREAD).clamp(1, LARGEST_PIECE),
        };
        Work { next: AtomicU64::new(0), operations, piece: piece.max(1) }
    }

    /// The next piece; `None` if all are taken.
    fn take(&self) -> Option<Range<u64>> {
        let start = self.next.fetch_add(self.piece, Ordering::Relaxed);
        (start < self.operations).then(|| start..(start + self.piece).min(self.operations))
    }
}

/// Results of the operations of one thread.
#[derive(Default)]
pub(super) struct Tally {
    /// Records moved, where an operation moves several; else 0.
    pub(super) items: u64,
    /// Wrong results.
    pub(super) errors: u64,
}

/// A workload.
pub(super) struct Workload<'a> {
    pub(super) name: &'a str,
    pub(super) threads: usize,
    /// Operations over all threads.
    pub(super) operations: u64,
    pub(super) max_seconds: f64,
    /// Runs the operation of this number.
    pub(super) operation: &'a Operation<'a>,
}

/// Runs the operation of a number, and tallies its results.
pub(super) type Operation<'a> = dyn Fn(&mut dyn Session, u64, &mut Tally) -> Result<()> + Sync + 'a;

/// What another thread does until it is told to stop, beside a workload.
pub(super) type Beside<'a> = dyn Fn(&AtomicBool) -> Result<()> + Sync + 'a;

/// Results of one thread.
struct Share {
    operations: u64,
    tally: Tally,
    start: Instant,
    end: Instant,
    latencies_ns: Histogram<u64>,
}

fn latencies() -> Result<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(1, LONGEST_NS, DIGITS)?)
}

impl Bench {
    /// Runs a workload and waits until its background work has ended. The record is complete except for a
    /// note.
    pub(super) fn drive(&self, engine: &dyn Engine, workload: &Workload<'_>) -> Result<Record> {
        self.drive_beside(engine, workload, None)
    }

    /// The same beside another thread. Then each operation is timed, because what the other disturbs are few.
    pub(super) fn drive_beside(
        &self,
        engine: &dyn Engine,
        workload: &Workload<'_>,
        beside: Option<&Beside<'_>>,
    ) -> Result<Record> {
        let core_round_trip_ns = || if workload.threads > 1 { cores::round_trip_ns() } else { 0.0 };
        let round_trip_before_ns = core_round_trip_ns();
        let device_before = process::device_written_bytes(&self.home);
        let peak = AnonymousPeak::start();
        let before = Usage::now();
        let shares = run_shares(engine, workload, beside)?;
        let mut record = self.record(workload.name, workload.threads);
        let abilities = engine.abilities();
        record.is_weaker = abilities.persists && !abilities.survives_exit;
        sum_up(&mut record, workload, &shares)?;
        let foreground = Usage::now().since(&before);
        let others_seconds = (foreground.machine_seconds - foreground.own_seconds()).max(0.0);
        record.others_cpus = others_seconds / record.seconds.max(0.2);
        record.resident_mib = process::resident_mib();
        record.settle_seconds = self.settle();
        record.drained_per_second = record.count as f64 / (record.seconds + record.settle_seconds);
        let all = Usage::now().since(&before);
        record.cpu_seconds = all.own_seconds();
        record.read_mb = all.read_bytes as f64 / 1e6;
        let chosen_bytes = self.chosen_bytes.take();
        record.anonymous_peak_mib = (peak.mib() - chosen_bytes as f64 / f64::from(1 << 20)).max(0.0);
        let device_bytes = device_before.zip(process::device_written_bytes(&self.home));
        record.written_mb = device_bytes.map(|(before, after)| after.saturating_sub(before) as f64 / 1e6);
        record.core_round_trip_ns = round_trip_before_ns.max(core_round_trip_ns());
        Ok(record)
    }

    /// Waits until this process is calm, within the limit, and returns how long it went on working.
    pub(super) fn settle(&self) -> f64 {
        let start = Instant::now();
        let most_seconds = CALM.as_secs_f64() / 20.0;
        let mut calm_from = Duration::ZERO;
        let mut used_seconds = Usage::now().own_seconds();
        while start.elapsed().as_secs_f64() < self.settings.max_settle_seconds {
            std::thread::sleep(LOOK_EVERY);
            let (now, used_now) = (start.elapsed(), Usage::now().own_seconds());
            let is_long_enough = now - calm_from >= CALM;
            let is_working = used_now - used_seconds >= most_seconds;
            if is_working || (is_long_enough && process::is_waiting_for_device()) {
                (calm_from, used_seconds) = (now, used_now);
            } else if is_long_enough {
                break;
            }
        }
        calm_from.as_secs_f64()
    }
}

/// Runs the operations on their threads, and what is beside them until the last of them ends.
fn run_shares(
    engine: &dyn Engine,
    workload: &Workload<'_>,
    beside: Option<&Beside<'_>>,
) -> Result<Vec<Share>> {
    let timed_every = match beside {
        Some(_) => 1,
        None => 1u64 << (workload.operations / TIMED_OPERATIONS).max(1).ilog2(),
    };
    let barrier = Barrier::new(workload.threads);
    let work = Work::of(workload);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let is_over = &is_over;
        let other = beside.map(|beside| scope.spawn(move || beside(is_over)));
        let threads: Vec<_> = (0..workload.threads)
            .map(|_| {
                let (work, barrier) = (&work, &barrier);
                scope.spawn(move || run_share(engine, workload, work, barrier, timed_every))
            })
            .collect();
        let shares: Vec<Result<Share>> =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| panicked())).collect();
        is_over.store(true, Ordering::Relaxed);
        other.map_or(Ok(()), |thread| thread.join().unwrap_or_else(|_| panicked()))?;
        shares.into_iter().collect()
    })
}

fn panicked<T>() -> Result<T> {
    Err("a thread of the workload panicked".into())
}

/// One thread's part of the operations, of which one in `timed_every` is timed, a power of two.
fn run_share(
    engine: &dyn Engine,
    workload: &Workload<'_>,
    work: &Work,
    barrier: &Barrier,
    timed_every: u64,
) -> Result<Share> {
    let session = engine.session();
    let mut latencies_ns = latencies()?;
    let mut tally = Tally::default();
    let most = Duration::from_secs_f64(workload.max_seconds);
    // Only after the barrier: a thread that returned before it would block the others.
    barrier.wait();
    let mut session = session?;
    let session = session.as_mut();
    let start = Instant::now();
    let mut operations = 0;
    let mut timed = timed_of(0, timed_every);
    'work: while let Some(piece) = work.take() {
        for operation in piece {
            if operations != timed {
                (workload.operation)(session, operation, &mut tally)?;
                operations += 1;
                continue;
            }
            timed = timed_of(timed / timed_every + 1, timed_every);
            let began = Instant::now();
            (workload.operation)(session, operation, &mut tally)?;
            let ended = Instant::now();
            operations += 1;
            latencies_ns.saturating_record(((ended - began).as_nanos() as u64).max(1));
            if ended - start > most {
                break 'work;
            }
        }
    }
    Ok(Share { operations, tally, start, end: Instant::now(), latencies_ns })
}

/// Which of `every` operations is timed in this window: any, because workloads may do different things at
/// even and at odd numbers. `every` is a power of two.
fn timed_of(window: u64, every: u64) -> u64 {
    window * every + (mix(window) & (every - 1))
}

fn sum_up(record: &mut Record, workload: &Workload<'_>, shares: &[Share]) -> Result<()> {
    let mut latencies_ns = latencies()?;
    let (mut operations, mut items) = (0, 0);
    for share in shares {
        latencies_ns.add(&share.latencies_ns)?;
        operations += share.operations;
        items += share.tally.items;
        record.errors += share.tally.errors;
    }
    record.count = if items > 0 { items } else { operations };
    record.is_cut_short = operations < workload.operations;
    let (start, end) =
        (shares.iter().map(|share| share.start).min(), shares.iter().map(|share| share.end).max());
    record.seconds = start.zip(end).map_or(0.0, |(start, end)| (end - start).as_secs_f64());
    record.per_second = record.count as f64 / record.seconds.max(1e-9);
    let at_us = |quantile: f64| latencies_ns.value_at_quantile(quantile) as f64 / 1e3;
    (record.p50_us, record.p99_us, record.p999_us) = (at_us(0.5), at_us(0.99), at_us(0.999));
    record.max_us = latencies_ns.max() as f64 / 1e3;
    record.samples = latencies_ns.len();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{LARGEST_PIECE, Work, Workload, timed_of};

    #[test]
    fn pieces_are_all_operations_once() {
        for (threads, operations) in [(1, 0), (1, 7), (2, 1), (2, 1_000_001), (8, 4_000), (16, 100_000_000)] {
            let operation = |_: &mut dyn super::Session, _, _: &mut super::Tally| Ok(());
            let workload =
                Workload { name: "any", threads, operations, max_seconds: 1.0, operation: &operation };
            let work = Work::of(&workload);
            let mut next = 0;
            while let Some(piece) = work.take() {
                assert_eq!(piece.start, next);
                assert!(!piece.is_empty() && (threads == 1 || piece.end - piece.start <= LARGEST_PIECE));
                next = piece.end;
            }
            assert_eq!(next, operations);
            assert!(work.take().is_none());
        }
    }

    #[test]
    fn one_operation_in_n_is_timed_at_even_and_odd_places_alike() {
        assert!((0..100).all(|place| timed_of(place, 1) == place));
        for every in [2u64, 16, 1024] {
            let timed: Vec<u64> = (0..1_000).map(|window| timed_of(window, every)).collect();
            assert!(timed.iter().zip(0..).all(|(place, window)| place / every == window));
            let even = timed.iter().filter(|place| place.is_multiple_of(2)).count();
            assert!((400..600).contains(&even), "{even} of 1,000 at even places, one of {every}");
        }
    }
}
