//! Dynamic filter tuning (T7): the bits of new tables follow from measured rates of false positives.
//!
//! Each level has a target. The first bits come from the model of the filter's kind. From then on each step
//! compares the measured rate with the one that the model expected of the very filters that were probed, and
//! moves a *correction* a part of the way towards their quotient; the bits follow from the model for
//! `target / correction`, by at most [`MAX_STEP_BITS`] in a step.
//!
//! Why this converges: the rate of a table never changes after it was built, and the measured rate is divided
//! by the expected rate of just those tables, whatever their bits. So the quotient does not depend on the
//! steps taken, the logarithm of the correction's error shrinks by the factor 1 - [`GAIN`] each time, and
//! bits built on an old correction only delay it.

use crate::kind::FilterKind;
use crate::policy::FilterPolicy;
use crate::watch::Observed;

/// Fewest bits a key that tuning chooses (CS265). Below, a filter is hardly worth its lookup.
pub const MIN_BITS: f64 = 2.0;
/// Most bits a key that tuning chooses (CS265): targets below about 1 % are reported out of reach.
pub const MAX_BITS: f64 = 10.0;
/// Sampled lookups that a step needs (CS265).
pub const MIN_SAMPLES: u64 = 1000;
/// False positives that must have been expected before the quotient is used: with eight it is off by a third.
const MIN_EXPECTED: f64 = 8.0;
/// Part of the way that the logarithm of the correction moves in a step.
const GAIN: f64 = 0.25;
/// Limits of the correction. Filters beyond them are damaged, not mistuned.
const CORRECTIONS: (f64, f64) = (0.5, 3.0);
/// Most that bits change in a step.
pub const MAX_STEP_BITS: f64 = 1.0;

/// The bits of one level's new tables, and the state of their tuning.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LevelTuning {
    /// Bits a key, and the kind and target that they were chosen for; `None` before the first table.
    chosen: Option<(FilterKind, f64, f64)>,
    /// Logarithm of the factor between the model's rate and the measured one.
    log_correction: f64,
    /// The counters at the last step.
    seen: Observed,
}

/// The bits for a new table, and whether they suffice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tuned {
    /// Bits a key.
    pub bits: f64,
    /// The expected rate.
    pub rate: f64,
    /// Whether the target can be reached within the bounds on bits.
    pub is_in_reach: bool,
}

impl LevelTuning {
    /// The tuning of a level of which so much was counted before, by filters that are not known any more.
    pub fn beginning_at(seen: Observed) -> LevelTuning {
        LevelTuning { seen, ..LevelTuning::default() }
    }

    /// Bits for the level's next table, by target and counters. Steps after enough sampled lookups.
    pub fn next(&mut self, policy: FilterPolicy, target: f64, seen: Observed) -> Tuned {
        let news = seen.since(&self.seen);
        let may_step = news.probes >= MIN_SAMPLES && news.expected_false_positives >= MIN_EXPECTED;
        if may_step {
            // Half a case more: without false positives the rate is still not zero.
            let quotient = (news.false_positives as f64 + 0.5) / (news.expected_false_positives + 0.5);
            let (least, most) = CORRECTIONS;
            let wanted = quotient.clamp(least, most).ln();
            self.log_correction += GAIN * (wanted - self.log_correction);
            self.seen = seen;
        }
        let wanted = self.wanted(policy, target);
        let bits = match self.chosen_for(policy, target) {
            None => wanted,
            Some(bits) if may_step => bits + (wanted - bits).clamp(-MAX_STEP_BITS, MAX_STEP_BITS),
            Some(bits) => bits,
        };
        self.chosen = Some((policy.kind(), target, bits));
        self.tuned(policy, target, bits)
    }

    /// As [`LevelTuning::next`], without a step.
    pub fn present(&self, policy: FilterPolicy, target: f64) -> Tuned {
        self.tuned(
            policy,
            target,
            self.chosen_for(policy, target).unwrap_or_else(|| self.wanted(policy, target)),
        )
    }

    /// The present bits, unless they are for another kind or target: then the model decides.
    fn chosen_for(&self, policy: FilterPolicy, target: f64) -> Option<f64> {
        let chosen = self.chosen.filter(|(kind, aim, _)| *kind == policy.kind() && *aim == target);
        chosen.map(|(_, _, bits)| bits)
    }

    fn wanted(&self, policy: FilterPolicy, target: f64) -> f64 {
        let bits = policy.bits_for_rate(target / self.log_correction.exp());
        bits.unwrap_or(MAX_BITS).clamp(MIN_BITS, MAX_BITS)
    }

    fn tuned(&self, policy: FilterPolicy, target: f64, bits: f64) -> Tuned {
        let rate = |bits| policy.with_bits_per_key(bits).false_positive_rate() * self.log_correction.exp();
        Tuned { bits, rate: rate(bits), is_in_reach: rate(MAX_BITS) <= target }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: FilterPolicy = FilterPolicy::DEFAULT;

    /// Lookups of a level whose filters let through `worse` times what their bits promise, until it settles.
    fn settle(target: f64, worse: f64, steps: u32) -> (LevelTuning, Tuned) {
        let (mut tuning, mut seen) = (LevelTuning::default(), Observed::default());
        let mut tuned = tuning.next(POLICY, target, seen);
        for _ in 0..steps {
            let model = POLICY.with_bits_per_key(tuned.bits).false_positive_rate();
            seen.probes += 100_000;
            seen.expected_false_positives += 100_000.0 * model;
            seen.false_positives += (100_000.0 * model * worse).round() as u64;
            let before = tuned.bits;
            tuned = tuning.next(POLICY, target, seen);
            assert!((tuned.bits - before).abs() <= MAX_STEP_BITS + 1e-9);
            assert!((MIN_BITS..=MAX_BITS).contains(&tuned.bits));
        }
        (tuning, tuned)
    }

    #[test]
    fn bits_settle_where_the_target_is_met() {
        for target in [0.02, 0.05, 0.1, 0.2] {
            for worse in [0.7, 1.0, 1.5, 2.2] {
                let (_, tuned) = settle(target, worse, 60);
                let rate = POLICY.with_bits_per_key(tuned.bits).false_positive_rate() * worse;
                let what = format!("target {target}, {worse} times the model: {tuned:?} gives {rate}");
                let is_at_bound = tuned.bits == MIN_BITS || tuned.bits == MAX_BITS;
                assert!((rate / target - 1.0).abs() < 0.05 || is_at_bound, "{what}");
                assert_eq!(tuned.is_in_reach, rate <= target * 1.02, "{what}");
            }
        }
    }

    #[test]
    fn a_target_out_of_reach_is_reported() {
        let (_, tuned) = settle(0.001, 1.0, 3);
        assert_eq!((tuned.bits, tuned.is_in_reach), (MAX_BITS, false));
        assert!(tuned.rate > 0.009);
        assert!(settle(0.02, 1.0, 3).1.is_in_reach);
    }

    #[test]
    fn few_samples_change_nothing() {
        let mut tuning = LevelTuning::default();
        let first = tuning.next(POLICY, 0.05, Observed::default());
        let few = Observed { probes: MIN_SAMPLES - 1, false_positives: 900, expected_false_positives: 50.0 };
        assert_eq!(tuning.next(POLICY, 0.05, few), first);
        let rare = Observed { probes: 10 * MIN_SAMPLES, false_positives: 7, expected_false_positives: 7.0 };
        assert_eq!(tuning.next(POLICY, 0.05, rare), first);
        let many =
            Observed { probes: 10 * MIN_SAMPLES, false_positives: 1500, expected_false_positives: 500.0 };
        assert!(tuning.next(POLICY, 0.05, many).bits > first.bits);
    }

    #[test]
    fn another_target_is_aimed_at_at_once() {
        let mut tuning = LevelTuning::default();
        let strict = tuning.next(POLICY, 0.01, Observed::default());
        let lax = tuning.next(POLICY, 0.2, Observed::default());
        assert!(strict.bits - lax.bits > 5.0, "{strict:?}, {lax:?}");
        assert_eq!(tuning.present(POLICY, 0.01), strict);
    }

    #[test]
    fn the_correction_is_bounded_and_comes_near_without_swinging() {
        let mut last = 0.0;
        for steps in 1..20 {
            let (tuning, _) = settle(0.05, 2.0, steps);
            assert!(tuning.log_correction >= last && tuning.log_correction <= 2f64.ln() + 0.01);
            last = tuning.log_correction;
        }
        assert!(last > 0.99 * 2f64.ln());
        assert!(settle(0.05, 100.0, 100).0.log_correction <= CORRECTIONS.1.ln() + 1e-9);
    }
}
