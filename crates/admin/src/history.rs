//! Samples of the last minutes: rates and latencies between two moments, and since when writes are stopped.

use crate::sources::Sources;
use esker::metrics::{Stalls, WriteState};
use esker_redis_server::figures::Latencies;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::time::Duration;

/// Time between two samples. A sample reads the counters of every keyspace, which takes some microseconds
/// for each.
pub(crate) const INTERVAL: Duration = Duration::from_secs(2);

/// Samples that are kept: those of five minutes, a few kilobytes.
const KEPT: usize = 150;

/// Rates and latencies of an interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sample {
    /// Its end, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// Commands of Redis a second.
    pub(crate) commands_per_second: f64,
    /// Operations written to the database a second.
    pub(crate) writes_per_second: f64,
    /// Half of the commands took no longer, in microseconds; zero if there were none.
    pub(crate) p50_us: f64,
    /// Of a hundred commands one took longer.
    pub(crate) p99_us: f64,
    /// Memory that counts against the budget.
    pub(crate) used_bytes: u64,
    /// Whether writes were free, slowed or stopped at its end: 0, 1 or 2.
    pub(crate) write_state: u8,
}

/// The totals at a moment.
#[derive(Clone, Debug, Default)]
struct Totals {
    at: Duration,
    commands: u64,
    writes: u64,
    latencies: Latencies,
}

#[derive(Debug, Default)]
struct State {
    samples: VecDeque<Sample>,
    last: Option<Totals>,
    /// When writes were first seen stopped; `None` if they were not at the last sample.
    stopped_since: Option<Duration>,
}

/// The samples.
#[derive(Debug, Default)]
pub(crate) struct History(Mutex<State>);

impl History {
    /// Takes a sample; the first call only notes the totals.
    pub(crate) fn sample(&self, sources: &Sources) {
        let (metrics, stalls) = (sources.database().metrics(), sources.database().stalls());
        let totals = Totals {
            at: sources.uptime(),
            commands: sources.redis().map_or(0, |redis| redis.figures().executed),
            writes: metrics.entries,
            latencies: sources.redis().map(|redis| redis.latencies()).unwrap_or_default(),
        };
        self.add(totals, metrics.memory.used_bytes(), write_state(&stalls), sources.now_ms());
    }

    /// The same, unless the last sample is younger than this.
    pub(crate) fn sample_after(&self, age: Duration, sources: &Sources) {
        let last = self.0.lock().last.as_ref().map(|last| last.at);
        if last.is_none_or(|last| sources.uptime().saturating_sub(last) >= age) {
            self.sample(sources);
        }
    }

    fn add(&self, now: Totals, used_bytes: u64, write_state: u8, at_ms: u64) {
        let mut state = self.0.lock();
        state.stopped_since = (write_state == STOPPED).then(|| state.stopped_since.unwrap_or(now.at));
        if let Some(last) = &state.last {
            let seconds = now.at.saturating_sub(last.at).as_secs_f64().max(1e-3);
            let latencies = now.latencies.since(&last.latencies);
            let microseconds = |percent| latencies.percentile_ns(percent) as f64 / 1e3;
            // A reset of the counters is no negative rate.
            let rate = |now: u64, last: u64| now.saturating_sub(last) as f64 / seconds;
            let sample = Sample {
                at_ms,
                commands_per_second: rate(now.commands, last.commands),
                writes_per_second: rate(now.writes, last.writes),
                p50_us: microseconds(50.0),
                p99_us: microseconds(99.0),
                used_bytes,
                write_state,
            };
            if state.samples.len() == KEPT {
                state.samples.pop_front();
            }
            state.samples.push_back(sample);
        }
        state.last = Some(now);
    }

    /// The samples, oldest first.
    pub(crate) fn samples(&self) -> Vec<Sample> {
        self.0.lock().samples.iter().cloned().collect()
    }

    /// For how long writes have been stopped, as far as samples saw; zero if they are not.
    pub(crate) fn stopped_for(&self, uptime: Duration) -> Duration {
        self.0.lock().stopped_since.map_or(Duration::ZERO, |since| uptime.saturating_sub(since))
    }
}

const STOPPED: u8 = 2;

/// The state of the keyspace whose writes are held back most: 0 free, 1 slowed, 2 stopped.
fn write_state(stalls: &Stalls) -> u8 {
    stalls.keyspaces.iter().map(|keyspace| number_of(&keyspace.state)).max().unwrap_or_default()
}

/// The number of a state in figures.
pub(crate) fn number_of(state: &WriteState) -> u8 {
    match state {
        WriteState::Free => 0,
        WriteState::Slowed { .. } => 1,
        _ => STOPPED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(seconds: u64, commands: u64, writes: u64) -> Totals {
        Totals { at: Duration::from_secs(seconds), commands, writes, latencies: Latencies::default() }
    }

    #[test]
    fn rates_are_those_between_samples_and_the_oldest_samples_go() {
        let history = History::default();
        history.add(totals(10, 1_000, 500), 7, 0, 1);
        assert!(history.samples().is_empty(), "one moment has no rate");
        history.add(totals(12, 1_400, 600), 7, 1, 2);
        let sample = Sample {
            at_ms: 2,
            commands_per_second: 200.0,
            writes_per_second: 50.0,
            used_bytes: 7,
            write_state: 1,
            ..Sample::default()
        };
        assert_eq!(history.samples(), [sample]);
        history.add(totals(14, 0, 600), 7, 0, 3);
        assert_eq!(history.samples()[1].commands_per_second, 0.0, "the counters were reset");
        for number in 0..KEPT as u64 {
            history.add(totals(20 + number, 0, 600), 7, 0, 100 + number);
        }
        assert_eq!((history.samples().len(), history.samples()[0].at_ms), (KEPT, 100));
    }

    #[test]
    fn a_stop_is_counted_from_the_first_sample_that_saw_it() {
        let history = History::default();
        history.add(totals(1, 0, 0), 0, STOPPED, 1);
        history.add(totals(9, 0, 0), 0, STOPPED, 2);
        assert_eq!(history.stopped_for(Duration::from_secs(12)), Duration::from_secs(11));
        history.add(totals(13, 0, 0), 0, 1, 3);
        assert_eq!(history.stopped_for(Duration::from_secs(14)), Duration::ZERO);
    }
}
