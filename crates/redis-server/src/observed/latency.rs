//! Latencies of events: for each kind of event the last ones that took longer than a threshold.

use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

/// Samples of an event, one for each second in which there was any.
const MAX_SAMPLES: usize = 160;

/// An event that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LatencyEvent {
    /// Writing a group's batch.
    BatchWrite,
    /// A command of more than logarithmic time.
    Command,
    /// Deleting expired keys.
    ExpireCycle,
    /// A command of constant or logarithmic time.
    FastCommand,
}

impl LatencyEvent {
    const ALL: [Self; 4] = [Self::BatchWrite, Self::Command, Self::ExpireCycle, Self::FastCommand];

    /// The name in replies. A batch goes into the log, as a command of Redis into its append-only file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::BatchWrite => "aof-write",
            Self::Command => "command",
            Self::ExpireCycle => "expire-cycle",
            Self::FastCommand => "fast-command",
        }
    }

    /// The event of a name, in letters of either case.
    pub(crate) fn named(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.name().as_bytes().eq_ignore_ascii_case(name))
    }
}

/// The longest latency of a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    /// The second, since 1970.
    pub(crate) time_s: u64,
    /// Milliseconds.
    pub(crate) latency_ms: u64,
}

/// The samples of an event; never without any.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples {
    /// The oldest first.
    pub(crate) list: VecDeque<Sample>,
    /// The longest latency since the last reset, in milliseconds.
    pub(crate) highest_ms: u64,
}

/// The samples of all events.
#[derive(Debug, Default)]
pub(crate) struct Latency {
    /// `latency-monitor-threshold`, in milliseconds; zero: nothing is watched.
    threshold_ms: AtomicU64,
    events: Mutex<BTreeMap<LatencyEvent, Samples>>,
}

impl Latency {
    /// Sets from how many milliseconds on an event is a sample; zero: none is.
    pub(crate) fn set_threshold_ms(&self, threshold_ms: u64) {
        self.threshold_ms.store(threshold_ms, Ordering::Relaxed);
    }

    /// From how many milliseconds on an event is a sample; zero: none is.
    pub(crate) fn threshold_ms(&self) -> u64 {
        self.threshold_ms.load(Ordering::Relaxed)
    }

    /// The same in nanoseconds, and the greatest number if none is.
    pub(crate) fn threshold_ns(&self) -> u64 {
        match self.threshold_ms() {
            0 => u64::MAX,
            threshold_ms => threshold_ms.saturating_mul(1_000_000),
        }
    }

    /// Notes an event if it took long enough.
    pub(crate) fn note(&self, event: LatencyEvent, time_s: u64, nanos: u64) {
        if nanos < self.threshold_ns() {
            return;
        }
        let latency_ms = nanos / 1_000_000;
        let mut events = self.events.lock();
        let samples = events.entry(event).or_default();
        samples.highest_ms = samples.highest_ms.max(latency_ms);
        match samples.list.back_mut() {
            Some(last) if last.time_s == time_s => last.latency_ms = last.latency_ms.max(latency_ms),
            _ => samples.list.push_back(Sample { time_s, latency_ms }),
        }
        if samples.list.len() > MAX_SAMPLES {
            samples.list.pop_front();
        }
    }

    /// All events that have samples.
    pub(crate) fn all(&self) -> Vec<(LatencyEvent, Samples)> {
        self.events.lock().iter().map(|(event, samples)| (*event, samples.clone())).collect()
    }

    /// The samples of an event.
    pub(crate) fn of(&self, event: LatencyEvent) -> Option<Samples> {
        self.events.lock().get(&event).cloned()
    }

    /// Forgets the samples of an event; whether there were any.
    pub(crate) fn forget(&self, event: LatencyEvent) -> bool {
        self.events.lock().remove(&event).is_some()
    }

    /// Forgets all samples; the number of events that had any.
    pub(crate) fn forget_all(&self) -> usize {
        std::mem::take(&mut *self.events.lock()).len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_one_sample_and_the_oldest_go() {
        let latency = Latency::default();
        latency.note(LatencyEvent::Command, 1, u64::MAX - 1);
        assert!(latency.all().is_empty(), "nothing is watched");
        latency.set_threshold_ms(2);
        latency.note(LatencyEvent::Command, 1, 1_999_999);
        assert!(latency.all().is_empty(), "too short");
        for nanos in [2_000_000, 9_000_000, 3_000_000] {
            latency.note(LatencyEvent::Command, 1, nanos);
        }
        let samples = latency.of(LatencyEvent::Command).expect("samples");
        assert_eq!(samples.list, [Sample { time_s: 1, latency_ms: 9 }]);
        for time_s in 2..=200 {
            latency.note(LatencyEvent::Command, time_s, 2_000_000);
        }
        let samples = latency.of(LatencyEvent::Command).expect("samples");
        assert_eq!((samples.list.len(), samples.list[0].time_s, samples.highest_ms), (MAX_SAMPLES, 41, 9));
        assert_eq!(latency.forget_all(), 1);
        assert!(latency.of(LatencyEvent::Command).is_none());
    }
}
