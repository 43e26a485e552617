//! Background capacity: the rate of user bytes that flushes and compactions sustain, measured while they
//! work.
//!
//! Both figures are user bytes a second. The rate of flushes is measured directly: payload over the duration
//! of the flush. Compactions write each byte several times, so their rate is the bytes that jobs wrote over
//! the time they took, times the number of concurrent jobs, divided by the bytes they wrote for each flushed
//! byte. Rates are averages of the last five seconds of *work*, so that idle time does not count; the
//! amplification is averaged over the last dozen flushes, so that it follows the present tree.
//!
//! # Level 0 under saturation
//! Then flushed bytes equal admitted bytes, so the measured rate of compactions follows the writers as well
//! as the other way round. It is right at the point where level 0 neither grows nor shrinks, which is where
//! the [admission rate](super::admitted_bytes_per_second) leads to. Around it the pace oscillates with the
//! jobs: each removes its runs from level 0 at once, so that pressure falls by as much of the width between
//! the limits as it took, and rises until the next job ends. With the usual limits, 12 and 24 runs, and jobs
//! that take four runs, seconds lie within a tenth of the mean; with jobs that take eight, within a third;
//! writers never stop. A test runs the loop.
//!
//! Rejected: to divide by the bytes that jobs took out of level 0 instead of the flushed bytes, which does
//! not depend on the writers. That figure arrives at the ends of jobs only, as what they write does, so the
//! estimate jumps with them: the worst second is 0.71 of the mean instead of 0.84 in jobs of eight runs. A
//! limit of the rate of change would steady the pace, and let level 0 reach its limit when jobs become more
//! expensive.

use std::time::Duration;

/// Work older than this counts for less than 1/e.
const MEMORY: Duration = Duration::from_secs(5);

/// Flushed bytes older than this many flushes count for less than 1/e.
const FLUSHES_REMEMBERED: f64 = 12.0;

/// Rate assumed before the first measurement: high enough to delay no writer.
pub const UNKNOWN_BYTES_PER_SECOND: u64 = 1_000_000_000;

/// Bytes that compactions write for each flushed byte, assumed before the first flush.
const UNKNOWN_AMPLIFICATION: f64 = 4.0;

/// Bounds of that figure: below is a lull, above is a job that happened to be large.
const AMPLIFICATION: std::ops::RangeInclusive<f64> = 0.5..=50.0;

/// A rate, averaged over the last seconds of work.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Speed {
    bytes_per_second: f64,
    /// How much of the average is measured, 0 to 1.
    weight: f64,
}

impl Speed {
    pub(crate) fn note(&mut self, bytes: u64, took: Duration) {
        let seconds = took.as_secs_f64().max(1e-6);
        let kept = (-seconds / MEMORY.as_secs_f64()).exp();
        self.bytes_per_second = self.bytes_per_second * kept + bytes as f64 / seconds * (1.0 - kept);
        self.weight = self.weight * kept + (1.0 - kept);
    }

    pub(crate) fn bytes_per_second(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.bytes_per_second / self.weight)
    }
}

/// The sustained rates of one keyspace's background work.
#[derive(Clone, Copy, Debug, Default)]
pub struct Capacity {
    /// Payload of flushed memtables, per flush time and per time since the previous flush.
    flush: Speed,
    arrival: Speed,
    /// Bytes that one compaction at a time writes.
    compaction: Speed,
    /// Bytes that one compaction at a time takes from above the last level into it.
    taken: Speed,
    /// Bytes that one compaction at a time reads.
    merged: Speed,
    /// Bytes flushed and bytes written by compactions, decaying.
    flushed: f64,
    compacted: f64,
}

impl Capacity {
    /// Records a flush of `payload_bytes` of user data, written as `table_bytes`.
    pub fn note_flush(&mut self, payload_bytes: u64, table_bytes: u64, took: Duration) {
        self.flush.note(payload_bytes, took);
        let kept = (-1.0 / FLUSHES_REMEMBERED).exp();
        self.flushed = self.flushed * kept + table_bytes as f64;
        self.compacted *= kept;
    }

    /// Records the payload bytes flushed since the previous flush.
    pub fn note_arrival(&mut self, payload_bytes: u64, since: Duration) {
        self.arrival.note(payload_bytes, since);
    }

    /// Recently written payload bytes a second; `None` before the second flush.
    pub fn arrival_bytes_per_second(&self) -> Option<f64> {
        self.arrival.bytes_per_second()
    }

    /// Bytes a second that one compaction at a time writes; `None` before the first.
    pub fn job_bytes_per_second(&self) -> Option<f64> {
        self.compaction.bytes_per_second()
    }

    /// Records a compaction: bytes written, and bytes read that entered the last level from above
    /// ([`CompactionPlan::bytes_into_last`](crate::CompactionPlan::bytes_into_last)).
    pub fn note_compaction(&mut self, written_bytes: u64, taken_bytes: u64, took: Duration) {
        self.compaction.note(written_bytes, took);
        self.taken.note(taken_bytes, took);
        self.compacted += written_bytes as f64;
    }

    /// Records the bytes a compaction read.
    pub fn note_merged(&mut self, read_bytes: u64, took: Duration) {
        self.merged.note(read_bytes, took);
    }

    /// Bytes a second that one compaction at a time reads, however little it writes; `None` before the first.
    /// Where most is deleted it writes almost nothing and is not slower for that.
    pub fn merged_bytes_per_second(&self) -> Option<f64> {
        self.merged.bytes_per_second()
    }

    /// Payload bytes a second of consecutive flushes; `None` before the first.
    pub fn flush_bytes_per_second(&self) -> Option<u64> {
        self.flush.bytes_per_second().map(|measured| measured as u64)
    }

    /// Flushed bytes a second that `jobs` concurrent compactions keep up with; `None` before the first.
    pub fn compaction_bytes_per_second(&self, jobs: usize) -> Option<u64> {
        let one = self.compaction.bytes_per_second()?;
        Some((one * jobs.max(1) as f64 / self.amplification()) as u64)
    }

    /// Bytes a second that `jobs` concurrent compactions take into the last level; `None` before the first.
    /// Unlike [`Capacity::compaction_bytes_per_second`] it is independent of the flushed bytes: merges that
    /// fall behind write little for each flushed byte, and seem to keep up with any rate.
    pub fn taken_bytes_per_second(&self, jobs: usize) -> Option<u64> {
        self.taken.bytes_per_second().map(|one| (one * jobs.max(1) as f64) as u64)
    }

    /// Bytes that a compaction takes into the last level per flushed byte, 0 to 1; 0 while unknown.
    pub(crate) fn taken_while_flushing(&self) -> f64 {
        let speeds = self.taken.bytes_per_second().zip(self.flush.bytes_per_second());
        speeds.map_or(0.0, |(taken, flushed)| (taken / flushed.max(1.0)).clamp(0.0, 1.0))
    }

    /// Bytes that compactions write for each flushed byte.
    fn amplification(&self) -> f64 {
        if self.flushed == 0.0 || self.compacted == 0.0 {
            return UNKNOWN_AMPLIFICATION;
        }
        (self.compacted / self.flushed).clamp(*AMPLIFICATION.start(), *AMPLIFICATION.end())
    }
}

#[cfg(test)]
mod tests {
    use super::super::admission_rate::{admitted_bytes_per_second, pressure_permille};
    use super::*;

    const MB: u64 = 1_000_000;

    #[test]
    fn speed_is_that_of_the_last_seconds_of_work() {
        let mut speed = Speed::default();
        assert_eq!(speed.bytes_per_second(), None);
        speed.note(50 * MB, Duration::from_millis(500));
        let first = speed.bytes_per_second().unwrap();
        assert!((first / 100e6 - 1.0).abs() < 1e-9, "the first measurement counts whole: {first}");
        for _ in 0..100 {
            speed.note(20 * MB, Duration::from_millis(500));
        }
        let later = speed.bytes_per_second().unwrap();
        assert!((later / 40e6 - 1.0).abs() < 0.01, "{later}");
        speed.note(0, Duration::ZERO);
        assert!(speed.bytes_per_second().unwrap().is_finite());
    }

    #[test]
    fn compactions_sustain_a_share_of_their_write_rate() {
        let mut capacity = Capacity::default();
        assert_eq!(
            (capacity.flush_bytes_per_second(), capacity.compaction_bytes_per_second(2)),
            (None, None)
        );
        for _ in 0..200 {
            capacity.note_flush(16 * MB, 16 * MB, Duration::from_millis(100));
            capacity.note_compaction(48 * MB, 12 * MB, Duration::from_millis(480));
        }
        assert_eq!(capacity.flush_bytes_per_second(), Some(160 * MB));
        // 100 MB/s each, three bytes for each flushed byte.
        let one = capacity.compaction_bytes_per_second(1).unwrap() as f64;
        assert!((one / 33.3e6 - 1.0).abs() < 0.02, "{one}");
        let two = capacity.compaction_bytes_per_second(2).unwrap() as f64;
        assert!((two / one - 2.0).abs() < 0.01);
        let taken = capacity.taken_bytes_per_second(2).unwrap() as f64;
        assert!((taken / 50e6 - 1.0).abs() < 0.01, "{taken}");
        let meanwhile = capacity.taken_while_flushing();
        assert!((meanwhile / (25.0 / 160.0) - 1.0).abs() < 0.01, "{meanwhile}");
        // Merges fall behind: half as many, equally fast. The taken rate shows it, the written rate does not.
        for _ in 0..200 {
            capacity.note_flush(32 * MB, 32 * MB, Duration::from_millis(200));
            capacity.note_compaction(48 * MB, 12 * MB, Duration::from_millis(480));
        }
        let (taken, seeming) = (capacity.taken_bytes_per_second(1), capacity.compaction_bytes_per_second(1));
        assert!((taken.unwrap() as f64 / 25e6 - 1.0).abs() < 0.01, "{taken:?}");
        assert!((seeming.unwrap() as f64 / 66.7e6 - 1.0).abs() < 0.02, "{seeming:?}");
    }

    /// Unthrottled writers, one job after the other that takes `runs_of_a_job` runs out of level 0 and writes
    /// four bytes for each: the least and the greatest second over the mean, and the most runs, after the
    /// first minute.
    fn saturated(runs_of_a_job: u64) -> (f64, f64, u64) {
        const STEP: Duration = Duration::from_millis(5);
        const STEPS_A_SECOND: usize = 200;
        let (run, written_a_step) = (16.0 * 1e6, 300e6 * STEP.as_secs_f64());
        let (mut capacity, mut runs, mut filled, mut most_runs) = (Capacity::default(), 0u64, 0.0, 0);
        let mut job: Option<(f64, u64, Duration)> = None;
        let mut seconds = Vec::new();
        for at in 0..180 {
            let mut second = 0.0;
            for _ in 0..STEPS_A_SECOND {
                let sustained = capacity.compaction_bytes_per_second(1).unwrap_or(UNKNOWN_BYTES_PER_SECOND);
                let pressure = if job.is_some() { pressure_permille(runs, 12, 24) } else { 0 };
                let admitted = admitted_bytes_per_second(pressure, sustained).unwrap_or(u64::MAX);
                let written = admitted.min(400 * MB) as f64 * STEP.as_secs_f64();
                (filled, second) = (filled + written, second + written);
                if filled >= run {
                    (filled, runs) = (filled - run, runs + 1);
                    capacity.note_flush(run as u64, run as u64, Duration::from_millis(50));
                }
                if job.is_none() && runs >= 4 {
                    let taken = runs.min(runs_of_a_job);
                    job = Some((taken as f64 * run * 4.0, taken, Duration::ZERO));
                }
                let Some((left, taken, took)) = job.take() else { continue };
                let (left, took) = (left - written_a_step, took + STEP);
                if left > 0.0 {
                    job = Some((left, taken, took));
                } else {
                    capacity.note_compaction((taken as f64 * run * 4.0) as u64, 0, took);
                    runs -= taken;
                }
                most_runs = if at < 60 { runs } else { most_runs.max(runs) };
            }
            seconds.push(second);
        }
        let settled = &seconds[60..];
        let mean = settled.iter().sum::<f64>() / settled.len() as f64;
        assert!((mean / 75e6 - 1.0).abs() < 0.02, "all of what compactions sustain: {mean}");
        let least = settled.iter().copied().fold(f64::MAX, f64::min);
        let greatest = settled.iter().copied().fold(0.0, f64::max);
        (least / mean, greatest / mean, most_runs)
    }

    #[test]
    fn under_saturation_the_pace_varies_with_the_jobs_only() {
        for (runs_of_a_job, least, greatest) in [(4, 0.9, 1.1), (8, 0.66, 1.33)] {
            let (worst, best, runs) = saturated(runs_of_a_job);
            assert!(worst >= least && best <= greatest, "{runs_of_a_job}: {worst} to {best}");
            assert!(runs < 24, "writers stop at {runs} runs");
        }
    }
}
