//! Figures of a running database, a line for each interval.

use super::amplification::ratio;
use esker::metrics::{KeyspaceMetrics, Metrics};
use std::time::Duration;

const LINES_PER_HEAD: u64 = 20;
/// One lookup in this many is sampled.
const SAMPLE: f64 = esker::parts::filter::watch::SAMPLE as f64;

const HEAD: &str = "    s  writes/s  users  flush  merge write  lookups/s tables space  runs   debt stall
                  MiB/s  MiB/s  MiB/s                /lookup               MiB    ms";

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    entries: u64,
    user_bytes: u64,
    flushed_bytes: u64,
    merged_bytes: u64,
    written_bytes: u64,
    lookups: u64,
    searched: u64,
    taken_bytes: u64,
    live_bytes: u64,
    /// Keyspaces whose live bytes are not known yet.
    unmeasured: usize,
    runs: usize,
    debt_bytes: u64,
    stall_ms: u64,
}

/// Compares figures with those of the interval before.
#[derive(Debug)]
pub(crate) struct Watch {
    only: Option<String>,
    last: Sums,
    seconds: f64,
    lines: u64,
}

impl Watch {
    pub(crate) fn new(only: Option<String>, now: &Metrics) -> Watch {
        let last = Sums::of(now, only.as_deref());
        Watch { only, last, seconds: 0.0, lines: 0 }
    }

    /// The line of an interval that ends now, with a header before the first line and then regularly.
    pub(crate) fn lines(&mut self, now: &Metrics, interval: Duration) -> String {
        let (then, now) = (self.last, Sums::of(now, self.only.as_deref()));
        let seconds = interval.as_secs_f64().max(1e-3);
        self.seconds += seconds;
        let mut text = String::new();
        if self.lines.is_multiple_of(LINES_PER_HEAD) {
            text.push_str(HEAD);
            text.push('\n');
        }
        self.lines += 1;
        self.last = now;
        let per_second = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
        let mebibytes = |bytes: f64| bytes / f64::from(1 << 20);
        let over = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        let user_bytes = now.user_bytes.saturating_sub(then.user_bytes);
        let lookups = now.lookups.saturating_sub(then.lookups);
        text.push_str(&format!(
            "{:>5.0} {:>9.0} {:>6.1} {:>6.1} {:>6.1} {:>5} {:>10.0} {:>6} {:>5} {:>5} {:>6.0} {:>5}\n",
            self.seconds,
            per_second(now.entries, then.entries),
            mebibytes(user_bytes as f64 / seconds),
            mebibytes(per_second(now.flushed_bytes, then.flushed_bytes)),
            mebibytes(per_second(now.merged_bytes, then.merged_bytes)),
            ratio(over(now.written_bytes, now.user_bytes)),
            lookups as f64 * SAMPLE / seconds,
            ratio(over(now.searched.saturating_sub(then.searched), lookups)),
            ratio(over(now.taken_bytes, now.live_bytes).filter(|_| now.unmeasured == 0)),
            now.runs,
            mebibytes(now.debt_bytes as f64),
            now.stall_ms.saturating_sub(then.stall_ms),
        ));
        text
    }
}

impl Sums {
    fn of(metrics: &Metrics, only: Option<&str>) -> Sums {
        let watched =
            metrics.keyspaces.iter().filter(|keyspace| only.is_none_or(|only| keyspace.name == only));
        let start = Sums {
            entries: metrics.entries,
            stall_ms: metrics.stall_time.as_millis() as u64,
            ..Sums::default()
        };
        watched.fold(start, Sums::with)
    }

    fn with(self, keyspace: &KeyspaceMetrics) -> Sums {
        let seen = &keyspace.amplification;
        Sums {
            user_bytes: self.user_bytes + seen.user_bytes(),
            flushed_bytes: self.flushed_bytes + keyspace.flushed_bytes + keyspace.blob_flushed_bytes,
            merged_bytes: self.merged_bytes + keyspace.compacted_out_bytes + keyspace.blob_relocated_bytes,
            written_bytes: self.written_bytes + seen.written_bytes(),
            lookups: self.lookups + seen.reads.lookups,
            searched: self.searched + seen.reads.tables_searched,
            taken_bytes: self.taken_bytes + seen.space.table_bytes + seen.space.blob_bytes,
            live_bytes: self.live_bytes + seen.space.live_bytes,
            unmeasured: self.unmeasured + usize::from(!seen.space.is_measured),
            runs: self.runs + keyspace.runs,
            debt_bytes: self.debt_bytes + keyspace.compaction_debt_bytes,
            ..self
        }
    }
}
