//! Sustained overwriting: puts of present keys, by default random ones, as fast as possible, for a given
//! time.
//!
//! The worst case counts here, not the mean: each put is timed, and puts are counted per second. A put's time
//! starts at the end of the previous one, so the clock is read once for each, and making the key is included.

use crate::data::{Data, Rng};
use crate::distribution::Chooser;
use crate::error::BenchError;
use crate::host::run_delay_ns;
use crate::report::{OverwriteRow, SecondRow};
use crate::sample::empty_histogram;
use crate::settings::{Settings, Workload};
use crate::store::Store;
use esker::parts::env::Clock;

const SECOND_NS: u64 = 1_000_000_000;

/// A put that takes longer is slow.
const SLOW_NS: u64 = 10_000_000;
/// Least share of a slow put's time that the database must say it made it wait.
const EXPLAINED_SHARE: f64 = 0.8;

/// Slow puts, by what made them slow.
#[derive(Clone, Copy, Debug, Default)]
struct SlowPuts {
    puts: u64,
    /// The system had given the processor to others.
    off_processor: u64,
    unexplained: u64,
    seen: Waited,
}

/// How long the calling thread has waited so far.
#[derive(Clone, Copy, Debug, Default)]
struct Waited {
    /// For the database, as it tells.
    by_database_ns: u64,
    /// For a processor, as the system tells.
    for_processor_ns: u64,
}

impl Waited {
    fn now(database: &esker::Database) -> Waited {
        let metrics = database.metrics();
        Waited {
            by_database_ns: (metrics.stall_time + metrics.delay_time).as_nanos() as u64,
            for_processor_ns: run_delay_ns().unwrap_or(0),
        }
    }
}

impl SlowPuts {
    /// Forgets earlier waits: those of fast puts are not the next slow one's.
    fn forget(&mut self, database: &esker::Database) {
        self.seen = Waited::now(database);
    }

    /// Finds out what made the last put slow. One thread writes, so all waiting was this put's, or that of
    /// fast puts since the last call.
    #[cold]
    fn note(&mut self, database: &esker::Database, took_ns: u64) {
        let now = Waited::now(database);
        let enough_ns = (took_ns as f64 * EXPLAINED_SHARE) as u64;
        let by_database_ns = now.by_database_ns - self.seen.by_database_ns;
        let for_processor_ns = now.for_processor_ns.saturating_sub(self.seen.for_processor_ns);
        self.seen = now;
        self.puts += 1;
        if by_database_ns < enough_ns {
            let is_processor = by_database_ns + for_processor_ns >= enough_ns;
            *(if is_processor { &mut self.off_processor } else { &mut self.unexplained }) += 1;
        }
    }
}

/// Overwrites for [`Settings::seconds`].
pub(crate) fn measure(
    store: &Store,
    settings: &Settings,
    data: &Data,
    clock: &dyn Clock,
) -> Result<OverwriteRow, BenchError> {
    let keys = data.keys(0..settings.num);
    let rng = Rng::new(settings.seed, 1 + Workload::Overwrite as u64);
    let mut chooser = Chooser::new(settings.distribution, data, settings.num, rng);
    let mut histogram = empty_histogram();
    let mut series = Vec::new();
    let before = store.database.metrics();
    let start_ns = clock.monotonic_ns();
    let (mut last_ns, mut this) = (start_ns, SecondRow { second: 1, puts: 0, longest_us: 0.0 });
    let (mut puts, mut slow) = (0u64, SlowPuts::default());
    slow.forget(&store.database);
    while this.second <= settings.seconds {
        let record = chooser.record() as usize;
        let Some(key) = keys.whole().iter().nth(record) else { break };
        store.keyspace.put(key, data.value(key, puts % 2))?;
        puts += 1;
        let now_ns = clock.monotonic_ns();
        let took_ns = now_ns - last_ns;
        histogram.saturating_record(took_ns);
        if took_ns > SLOW_NS {
            slow.note(&store.database, took_ns);
        }
        last_ns = now_ns;
        this.puts += 1;
        this.longest_us = this.longest_us.max(took_ns as f64 / 1e3);
        // A put that takes seconds ends that many, and those between have no puts.
        while now_ns >= start_ns + this.second * SECOND_NS {
            let next = SecondRow { second: this.second + 1, puts: 0, longest_us: 0.0 };
            series.push(std::mem::replace(&mut this, next));
            slow.forget(&store.database);
        }
    }
    series.truncate(settings.seconds as usize);
    let seconds = (last_ns - start_ns) as f64 / 1e9;
    let after = store.database.metrics();
    store.database.drain()?;
    let drained_seconds = (clock.monotonic_ns() - start_ns) as f64 / 1e9;
    let percentile = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1e3;
    let worst = series.iter().map(|second| second.puts).min().unwrap_or(0);
    Ok(OverwriteRow {
        workload: Workload::Overwrite,
        puts,
        seconds,
        puts_per_second: puts as f64 / seconds.max(1e-9),
        drained_seconds,
        worst_second_puts: worst,
        worst_second_share: worst as f64 * seconds / (puts as f64).max(1.0),
        p50_us: percentile(0.5),
        p99_us: percentile(0.99),
        p999_us: percentile(0.999),
        p9999_us: percentile(0.9999),
        longest_us: histogram.max() as f64 / 1e3,
        slow_puts: slow.puts,
        off_processor_puts: slow.off_processor,
        unexplained_puts: slow.unexplained,
        stalls: after.stalls - before.stalls,
        stall_ms: (after.stall_time - before.stall_time).as_millis() as u64,
        held_back_ms: held_back_ms(&before, &after),
        write_amplification: write_amplification(&before, &store.database.metrics()),
        series,
    })
}

/// How long writers were stopped and slowed between two moments, by cause.
fn held_back_ms(before: &esker::metrics::Metrics, after: &esker::metrics::Metrics) -> Vec<(String, u64)> {
    let earlier = |stall: &esker::metrics::StallCause| {
        let same = |other: &&esker::metrics::StallCause| {
            (other.is_stop, other.cause) == (stall.is_stop, stall.cause)
        };
        before.stall_causes.iter().find(same).map_or(std::time::Duration::ZERO, |other| other.time)
    };
    let named = |stall: &esker::metrics::StallCause| {
        let kind = if stall.is_stop { "stopped" } else { "slowed" };
        (format!("{kind} for {}", stall.cause), (stall.time - earlier(stall)).as_millis() as u64)
    };
    after.stall_causes.iter().map(named).filter(|(_, ms)| *ms > 0).collect()
}

/// Bytes of tables written per byte put between two moments, over all keyspaces.
fn write_amplification(before: &esker::metrics::Metrics, after: &esker::metrics::Metrics) -> f64 {
    let sum = |metrics: &esker::metrics::Metrics, of: fn(&esker::metrics::Amplification) -> u64| {
        metrics.keyspaces.iter().map(|keyspace| of(&keyspace.amplification)).sum::<u64>()
    };
    let written = sum(after, esker::metrics::Amplification::written_bytes)
        - sum(before, esker::metrics::Amplification::written_bytes);
    let put = sum(after, esker::metrics::Amplification::user_bytes)
        - sum(before, esker::metrics::Amplification::user_bytes);
    written as f64 / (put as f64).max(1.0)
}
