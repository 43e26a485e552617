//! Rates: what happened between two moments.

use super::snapshot::{Calls, Keyspace, Sample, Snapshot};

/// One lookup in this many is sampled.
const SAMPLE: f64 = esker::parts::filter::watch::SAMPLE as f64;

/// Points of the curve: those of a wide terminal.
const CURVE_POINTS: usize = 240;

/// What happened in a second between two moments.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rates {
    /// Commands of Redis.
    pub(super) commands: Option<f64>,
    /// Operations written.
    pub(super) writes: f64,
    /// Bytes of keys and values written.
    pub(super) written_bytes: f64,
    /// Lookups in the keyspaces, estimated from samples.
    pub(super) lookups: f64,
    /// Of a thousand blocks read, those that the cache had; `None` if none was read.
    pub(super) hit_permille: Option<u64>,
    /// Milliseconds for which writes were slowed, and stopped.
    pub(super) delay_ms: f64,
    pub(super) stall_ms: f64,
    /// Percentiles of the newest sample of the server, in microseconds; `None` if no command was executed.
    pub(super) p50_us: Option<f64>,
    pub(super) p99_us: Option<f64>,
    /// Commands that were called, most time first: their name, calls, and microseconds of a call.
    pub(super) by_command: Vec<(String, f64, f64)>,
    /// Keyspaces by name with bytes put and bytes written to tables.
    pub(super) by_keyspace: Vec<(String, f64, f64)>,
}

impl Rates {
    /// The rates between two moments. `None` if the process started anew between them, or no time passed.
    pub(super) fn between(then: &Snapshot, now: &Snapshot) -> Option<Rates> {
        let ms = now.uptime_ms.checked_sub(then.uptime_ms).filter(|ms| *ms > 0)?;
        let seconds = ms as f64 / 1e3;
        // A reset of counters is no negative rate.
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
        let commands = now.redis.zip(then.redis).map(|(now, then)| rate(now.executed, then.executed));
        let newest = now.samples.last().filter(|sample| sample.p99_us > 0.0);
        let mut rates = Rates {
            commands,
            p50_us: newest.map(|sample| sample.p50_us),
            p99_us: newest.map(|sample| sample.p99_us),
            by_command: by_command(&then.commands, &now.commands, seconds),
            ..Rates::default()
        };
        if let (Some(now), Some(then)) = (now.totals, then.totals) {
            let hits = now.cache_hits.saturating_sub(then.cache_hits);
            let asked = hits + now.cache_misses.saturating_sub(then.cache_misses);
            rates.writes = rate(now.entries, then.entries);
            rates.written_bytes = rate(now.user_bytes, then.user_bytes);
            rates.hit_permille = hits.saturating_mul(1000).checked_div(asked);
            rates.delay_ms = rate(now.delay_ms, then.delay_ms);
            rates.stall_ms = rate(now.stall_ms, then.stall_ms);
        }
        for keyspace in &now.keyspaces {
            let Some(before) = then.keyspaces.iter().find(|other| other.name == keyspace.name) else {
                continue;
            };
            let of = |read: fn(&Keyspace) -> u64| rate(read(keyspace), read(before));
            rates.lookups += of(|keyspace| keyspace.sampled_lookups) * SAMPLE;
            let written = (of(|keyspace| keyspace.put_bytes), of(|keyspace| keyspace.written_bytes));
            rates.by_keyspace.push((keyspace.name.clone(), written.0, written.1));
        }
        Some(rates)
    }

    /// Bytes put into a keyspace, and written to its tables, in a second.
    pub(super) fn of_keyspace(&self, name: &str) -> Option<(f64, f64)> {
        let found = self.by_keyspace.iter().find(|(known, ..)| known == name);
        found.map(|(_, put, written)| (*put, *written))
    }
}

fn by_command(then: &[Calls], now: &[Calls], seconds: f64) -> Vec<(String, f64, f64)> {
    let change = |now: &Calls| {
        let before = then.iter().find(|before| before.name == now.name);
        let (calls, microseconds) = before.map_or((0, 0), |before| (before.calls, before.microseconds));
        let calls = now.calls.saturating_sub(calls);
        let mean_us = now.microseconds.saturating_sub(microseconds) as f64 / calls.max(1) as f64;
        (calls > 0).then(|| (now.name.clone(), calls as f64 / seconds, mean_us))
    };
    let mut all: Vec<_> = now.iter().filter_map(change).collect();
    all.sort_by(|(name, calls, mean), (other, more, longer)| {
        (more * longer).total_cmp(&(calls * mean)).then(name.cmp(other))
    });
    all
}

/// A curve of the last minutes: operations in a second.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Curve(Vec<u64>);

impl Curve {
    /// The samples that the server has from before.
    pub(super) fn of(snapshot: &Snapshot) -> Curve {
        let has_redis = snapshot.redis.is_some();
        let operations = |sample: &Sample| match has_redis {
            true => sample.commands_per_second as u64,
            false => sample.writes_per_second as u64,
        };
        Curve(snapshot.samples.iter().map(operations).collect())
    }

    /// Adds what was seen since the last point.
    pub(super) fn push(&mut self, rates: &Rates) {
        if self.0.len() >= CURVE_POINTS {
            self.0.remove(0);
        }
        self.0.push(rates.commands.unwrap_or(rates.writes) as u64);
    }

    /// The newest points, oldest first.
    pub(super) fn newest(&self, count: usize) -> &[u64] {
        &self.0[self.0.len().saturating_sub(count)..]
    }
}

#[cfg(test)]
mod tests {
    use super::super::snapshot::{Counters, Redis};
    use super::*;

    fn at(uptime_ms: u64, executed: u64, hits: u64) -> Snapshot {
        let totals =
            Counters { entries: executed, cache_hits: hits, cache_misses: hits / 3, ..Counters::default() };
        let calls = Calls { name: "get".to_owned(), calls: executed, microseconds: executed * 7 };
        Snapshot {
            uptime_ms,
            redis: Some(Redis { executed, ..Redis::default() }),
            totals: Some(totals),
            commands: vec![calls],
            keyspaces: vec![Keyspace { sampled_lookups: executed, ..Keyspace::default() }],
            ..Snapshot::default()
        }
    }

    #[test]
    fn rates_are_those_between_two_moments() {
        let rates = Rates::between(&at(1000, 100, 300), &at(3000, 300, 900)).unwrap();
        assert_eq!((rates.commands, rates.writes), (Some(100.0), 100.0));
        assert_eq!(rates.hit_permille, Some(750));
        assert_eq!(rates.lookups, 100.0 * SAMPLE);
        assert_eq!(rates.by_command, [("get".to_owned(), 100.0, 7.0)]);
        assert_eq!(rates.p99_us, None);
    }

    #[test]
    fn a_restart_has_no_rates_and_a_reset_no_negative_ones() {
        assert_eq!(Rates::between(&at(5000, 100, 0), &at(1000, 300, 0)), None);
        assert_eq!(Rates::between(&at(1000, 100, 0), &at(1000, 100, 0)), None);
        let reset = Rates::between(&at(1000, 100, 0), &at(2000, 10, 0)).unwrap();
        assert_eq!((reset.commands, reset.hit_permille), (Some(0.0), None));
        assert!(reset.by_command.is_empty());
    }

    #[test]
    fn the_curve_forgets_its_oldest_points() {
        let mut curve = Curve::default();
        for point in 0..CURVE_POINTS + 10 {
            curve.push(&Rates { commands: Some(point as f64), ..Rates::default() });
        }
        assert_eq!(curve.0.len(), CURVE_POINTS);
        assert_eq!(curve.newest(2), [CURVE_POINTS as u64 + 8, CURVE_POINTS as u64 + 9]);
        assert_eq!(curve.newest(1000).len(), CURVE_POINTS);
    }
}
