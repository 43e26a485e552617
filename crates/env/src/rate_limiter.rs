//! Rate limits of background reads and writes.
//!
//! # Why
//! A merge at full speed keeps the device's queue full, and every foreground read waits behind it. With a
//! rate limit it leaves gaps. Flushes and urgent jobs are exempt, because writers wait for them, and so is
//! any job of a keyspace while its writers wait; their bytes are charged all the same, so that others leave
//! them room.
//!
//! # The algorithm
//! One token bucket for each direction ([`Bucket`]): a job is charged for the bytes it is about to read, or
//! has written, and then waits until the bucket is out of debt. Unused rate can be made up for within
//! [`BURST_NS`]. Charges of exempt jobs put the bucket into debt for [`MAX_DEBT_NS`] at most, which bounds
//! the wait of others.
//!
//! With *auto-tuning* the limits are ceilings, and the rates follow the latency of foreground reads
//! ([`Tuner`]): additive increase, multiplicative decrease, as in congestion control (Chiu and Jain, 1989),
//! because that converges to a fair share whatever the device is. Each [`TUNE_NS`], by the mean time of the
//! small foreground reads of table files in that period:
//!
//! * slower than [`SLOW_TIMES`] times the recent best mean: the rate becomes 3/4 of itself;
//! * otherwise, and without reads: it grows by 1/32 of the ceiling;
//! * never below 1/16 of the ceiling, nor above it.
//!
//! The recent best mean grows by 1/4096 each time, so that a device that became slower permanently is not
//! taken for a busy one: it doubles in five minutes, which one mean without background work undoes.
//!
//! Only reads through system calls count, which is what a foreground read waits for; cached blocks and mapped
//! files do not. Without limits, nothing is charged, measured or locked.
//!
//! Rejected: measuring puts and gets themselves: two clock readings cost more than a cached get, and limits
//! on bytes only affect the wait for the device.

use esker_base::{Error, Result};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Unused rate that can be made up for.
const BURST_NS: u64 = 100_000_000;
/// The longest debt that exempt jobs cause.
const MAX_DEBT_NS: u64 = 1_000_000_000;
/// How often the rates are adapted.
const TUNE_NS: u64 = 100_000_000;
/// Foreground reads may take this many times their best mean.
const SLOW_TIMES: u64 = 4;
/// The least rate: one in so many of the ceiling.
const FLOOR_PART: u64 = 16;
/// The increase of the rate: one in so many of the ceiling.
const STEP_PART: u64 = 32;
/// Least limit that can be set: below, one window of a table would hold a job for seconds.
pub const MIN_BYTES_PER_SECOND: u64 = 64 << 10;

/// Rate limits of background work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "GenericRateLimiter")]
pub struct BackgroundRates {
    /// Bytes of tables read a second, cached blocks included; unlimited if `None`.
    pub read_bytes_per_second: Option<u64>,
    /// Bytes of tables written a second; unlimited if `None`.
    pub write_bytes_per_second: Option<u64>,
    /// Whether these are ceilings for rates that follow the latency of foreground reads.
    pub auto_tuned: bool,
}

impl BackgroundRates {
    /// An error if the values are invalid.
    pub fn validate(&self) -> Result<()> {
        for (name, rate) in [
            ("background_read_bytes_per_second", self.read_bytes_per_second),
            ("background_write_bytes_per_second", self.write_bytes_per_second),
        ] {
            if let Some(rate) = rate.filter(|rate| *rate < MIN_BYTES_PER_SECOND) {
                return Err(Error::invalid(format!(
                    "{name} is {rate}, it must be at least {MIN_BYTES_PER_SECOND}, or unlimited"
                )));
            }
        }
        Ok(())
    }

    fn is_limited(&self) -> bool {
        self.read_bytes_per_second.is_some() || self.write_bytes_per_second.is_some()
    }
}

/// The direction that is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From files.
    Read,
    /// To files.
    Write,
}

/// A token bucket as a point in time: it is empty until [`Bucket::free_at_ns`].
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    free_at_ns: u64,
}

impl Bucket {
    /// Charges for `bytes`; returns the wait for the debt. Exempt jobs add at most [`MAX_DEBT_NS`].
    fn charge(&mut self, bytes: u64, bytes_per_second: u64, now_ns: u64, is_held: bool) -> u64 {
        let costs_ns = (u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_second.max(1))) as u64;
        let from_ns = self.free_at_ns.max(now_ns.saturating_sub(BURST_NS));
        let free_at_ns = from_ns.saturating_add(costs_ns);
        self.free_at_ns = match is_held {
            true => free_at_ns,
            false => free_at_ns.min(from_ns.max(now_ns.saturating_add(MAX_DEBT_NS))),
        };
        self.free_at_ns.saturating_sub(now_ns)
    }
}

/// The auto-tuning; rates are in 1/1024 of their ceilings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tuner {
    part: u64,
    /// The recent best mean, in 1/256 nanoseconds; 0 before the first.
    best: u64,
}

/// The ceiling.
const WHOLE: u64 = 1024;

impl Default for Tuner {
    fn default() -> Tuner {
        Tuner { part: WHOLE, best: 0 }
    }
}

impl Tuner {
    /// The next state, by the mean time of foreground reads; `None` if there were none.
    fn after(self, mean_ns: Option<u64>) -> Tuner {
        let aged = self.best + self.best / 4096;
        let mean = mean_ns.map(|mean_ns| mean_ns.saturating_mul(256).max(1));
        let best = match (mean, aged) {
            (None, _) => self.best,
            (Some(mean), 0) => mean,
            (Some(mean), _) => mean.min(aged),
        };
        let is_slow = mean.is_some_and(|mean| mean > best.saturating_mul(SLOW_TIMES));
        let part = if is_slow { self.part * 3 / 4 } else { self.part + WHOLE / STEP_PART };
        Tuner { part: part.clamp(WHOLE / FLOOR_PART, WHOLE), best }
    }
}

#[derive(Debug, Default)]
struct State {
    rates: BackgroundRates,
    read: Bucket,
    write: Bucket,
    tuner: Tuner,
    tuned_at_ns: u64,
}

/// The limits of a database and their use.
#[derive(Debug, Default)]
pub struct RateLimiter {
    state: Mutex<State>,
    is_limited: AtomicBool,
    is_tuned: AtomicBool,
    /// The number of changes: a job that waits by older limits checks again.
    changes: AtomicU64,
    /// Foreground reads since the last adaptation, and their total time.
    reads: AtomicU64,
    reads_ns: AtomicU64,
}

impl RateLimiter {
    /// Sets the limits, from now on.
    pub fn set(&self, rates: BackgroundRates) {
        let mut state = self.state.lock();
        *state = State { rates, ..State::default() };
        self.is_limited.store(rates.is_limited(), Ordering::Relaxed);
        self.is_tuned.store(rates.auto_tuned, Ordering::Relaxed);
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// The number of changes of the limits.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// The limits as they were set.
    pub fn get(&self) -> BackgroundRates {
        self.state.lock().rates
    }

    /// Whether foreground reads are measured.
    #[inline]
    pub fn is_tuned(&self) -> bool {
        self.is_tuned.load(Ordering::Relaxed)
    }

    /// Records the duration of a foreground read.
    pub fn note_read(&self, took_ns: u64) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.reads_ns.fetch_add(took_ns, Ordering::Relaxed);
    }

    /// Charges a job; returns until when it has to wait if the limit applies to it.
    pub fn charge(
        &self,
        direction: Direction,
        bytes: u64,
        is_held: bool,
        now_ns: impl FnOnce() -> u64,
    ) -> Option<u64> {
        if !self.is_limited.load(Ordering::Relaxed) {
            return None;
        }
        let now_ns = now_ns();
        let mut state = self.state.lock();
        if state.rates.auto_tuned && now_ns.saturating_sub(state.tuned_at_ns) >= TUNE_NS {
            state.tuned_at_ns = now_ns;
            let (reads, took_ns) =
                (self.reads.swap(0, Ordering::Relaxed), self.reads_ns.swap(0, Ordering::Relaxed));
            state.tuner = state.tuner.after(took_ns.checked_div(reads));
        }
        let ceiling = match direction {
            Direction::Read => state.rates.read_bytes_per_second,
            Direction::Write => state.rates.write_bytes_per_second,
        }?;
        let rate = if state.rates.auto_tuned { ceiling / WHOLE * state.tuner.part } else { ceiling };
        let bucket = match direction {
            Direction::Read => &mut state.read,
            Direction::Write => &mut state.write,
        };
        let wait_ns = bucket.charge(bytes, rate, now_ns, is_held);
        (is_held && wait_ns > 0).then_some(now_ns + wait_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// However it is charged, no more than the rate and one burst passes before any moment, and not less.
    #[test]
    fn the_bucket_keeps_the_rate() {
        for piece in [1u64, 1000, 65_536, 3_000_000] {
            let (rate, start_ns) = (1_000_000, 5 * SECOND);
            let (mut bucket, mut now_ns, mut bytes) = (Bucket::default(), start_ns, 0u64);
            for _ in 0..(20_000_000 / piece).clamp(7, 100_000) {
                now_ns += bucket.charge(piece, rate, now_ns, true);
                bytes += piece;
                let allowed_ns = now_ns - start_ns + BURST_NS;
                assert!(bytes <= allowed_ns / 1000 + 1, "{bytes} bytes in {} ns", now_ns - start_ns);
            }
            assert!(bytes >= (now_ns - start_ns) / 1000, "{bytes} bytes in {} ns", now_ns - start_ns);
        }
    }

    #[test]
    fn unused_rate_is_made_up_for_within_a_burst() {
        let mut bucket = Bucket::default();
        assert_eq!(bucket.charge(1_000_000, 1_000_000, 10 * SECOND, true), SECOND - BURST_NS);
        assert_eq!(bucket.charge(100_000, 1_000_000, 60 * SECOND, true), 0);
        assert_eq!(bucket.charge(100_000, 1_000_000, 60 * SECOND, true), SECOND / 10);
    }

    #[test]
    fn exempt_jobs_cause_bounded_debt() {
        let mut bucket = Bucket::default();
        for _ in 0..100 {
            bucket.charge(1 << 30, 1 << 20, 10 * SECOND, false);
        }
        assert_eq!(bucket.charge(0, 1 << 20, 10 * SECOND, true), MAX_DEBT_NS);
        // Debt that a limited job made before remains.
        bucket.charge(5 << 20, 1 << 20, 10 * SECOND, true);
        bucket.charge(1, 1 << 20, 10 * SECOND, false);
        assert_eq!(bucket.charge(0, 1 << 20, 10 * SECOND, true), MAX_DEBT_NS + 5 * SECOND);
    }

    /// A device whose reads slow down with background work: the rate settles at the allowed latency.
    #[test]
    fn the_tuner_finds_the_tolerable_rate() {
        for capacity in [100u64, 300, 700, 5000] {
            let mut tuner = Tuner::default();
            // An open queue: 100 us alone, and without bound towards the capacity.
            let mean_ns = |part: u64| 100_000 * capacity / capacity.saturating_sub(part).max(1);
            // Learns the best mean without background work.
            tuner = tuner.after(Some(mean_ns(0)));
            let mut parts = Vec::new();
            for _ in 0..400 {
                tuner = tuner.after(Some(mean_ns(tuner.part)));
                parts.push(tuner.part);
            }
            let settled = &parts[100..];
            // The best mean grows a little meanwhile.
            let bearable = (capacity * 4 / 5).clamp(WHOLE / FLOOR_PART, WHOLE);
            let mean = settled.iter().sum::<u64>() / settled.len() as u64;
            assert!(mean * 2 >= bearable, "{mean} of {bearable}");
            assert!(settled.iter().all(|&part| part <= bearable + WHOLE / STEP_PART), "above {bearable}");
            assert!(settled.iter().all(|&part| part >= WHOLE / FLOOR_PART));
        }
    }

    #[test]
    fn without_a_foreground_the_rate_goes_to_the_ceiling() {
        let mut tuner = Tuner::default().after(Some(1000));
        (0..20).for_each(|_| tuner = tuner.after(Some(1_000_000)));
        assert_eq!(tuner.part, WHOLE / FLOOR_PART);
        (0..40).for_each(|_| tuner = tuner.after(None));
        assert_eq!(tuner.part, WHOLE);
    }

    /// A device that is slower permanently becomes the new reference.
    #[test]
    fn an_old_best_mean_fades() {
        let mut tuner = Tuner::default().after(Some(1000));
        (0..5000).for_each(|_| tuner = tuner.after(Some(10_000)));
        assert_eq!(tuner.part, WHOLE);
    }

    #[test]
    fn limits_change_at_once_and_are_checked() {
        let rates = RateLimiter::default();
        assert_eq!(rates.charge(Direction::Read, 1 << 40, true, || unreachable!("nothing is limited")), None);
        let slow = BackgroundRates { read_bytes_per_second: Some(1 << 20), ..BackgroundRates::default() };
        rates.set(slow);
        assert_eq!(rates.get(), slow);
        assert_eq!(rates.charge(Direction::Write, 1 << 30, true, || SECOND), None);
        assert_eq!(rates.charge(Direction::Read, 1 << 20, false, || SECOND), None);
        assert!(rates.charge(Direction::Read, 1 << 20, true, || SECOND) > Some(2 * SECOND));
        rates.set(BackgroundRates::default());
        assert_eq!(rates.charge(Direction::Read, 1 << 40, true, || SECOND), None);
        let refused = |rates: BackgroundRates| rates.validate().unwrap_err().to_string();
        let tiny = BackgroundRates { write_bytes_per_second: Some(9), ..BackgroundRates::default() };
        assert!(refused(tiny).contains("background_write_bytes_per_second is 9"));
        assert!(BackgroundRates { auto_tuned: true, ..slow }.validate().is_ok());
    }
}
