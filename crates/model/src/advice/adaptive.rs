//! Automatic tuning: when a keyspace adopts advice without a request.
//!
//! An adaptive keyspace is observed in windows of time. At the end of each window, [`decide()`] says whether
//! to change strategy and filters. It is a function of the window's observations, the present design and the
//! state left by earlier windows ([`History`]), so the same observations give the same decisions, and tests
//! need no clock.
//!
//! A tree must not follow every fluctuation, because each change costs rewritten bytes:
//! * AD1: a change is considered only while its predicted saving is at least a given share of the cost in
//!   each of several consecutive windows. A window with too few operations counts neither for nor against it.
//! * AD2: the saving within a horizon must exceed the bytes that the migration rewrites, by a factor.
//! * AD3: after a change there is a pause. A change back soon after it doubles the next pause, so a workload
//!   that alternates with the period of the windows is followed ever more slowly.
//!
//! The write buffer stays as it is: it is memory that keyspaces share.
//!
//! Rejected: decaying averages instead of consecutive windows. They respond to one large burst as they
//! respond to a lasting change, and the moment of the response cannot be predicted from outside.

use super::design::{Design, Family};
use super::search::{Question, cheapest_with_buffer};
use super::usage::Operations;
use std::fmt;

/// The thresholds of [`decide()`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdaptiveRules {
    /// The least share of the cost that a change must save.
    pub least_gain: f64,
    /// The number of consecutive windows required.
    pub windows: u32,
    /// Operations that a window needs to count.
    pub least_operations: f64,
    /// Windows within which a change must pay for its migration.
    pub horizon_windows: f64,
    /// The factor by which the saving must exceed the migration.
    pub payback: f64,
    /// The least pause between two changes, in milliseconds.
    pub rest_ms: u64,
}

impl AdaptiveRules {
    /// The defaults for windows of this length: 15 % in three consecutive windows, paid back one and a half
    /// times within six windows, and a pause of six windows.
    pub fn for_window(window_ms: u64) -> AdaptiveRules {
        AdaptiveRules {
            least_gain: 0.15,
            windows: 3,
            least_operations: 1000.0,
            horizon_windows: 6.0,
            payback: 1.5,
            rest_ms: window_ms.saturating_mul(6),
        }
    }
}

/// The most times a pause is doubled.
const MOST_DOUBLINGS: u32 = 4;

/// The state left by earlier windows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct History {
    /// Consecutive windows in which a change was worth it.
    pub agreeing: u32,
    operations: Operations,
    /// The last change: when, and from which design.
    last: Option<(u64, Design)>,
    /// How often the pause was doubled.
    doublings: u32,
}

impl History {
    /// Milliseconds left of the pause at this moment.
    pub fn rest_left_ms(&self, now_ms: u64, rules: &AdaptiveRules) -> u64 {
        let rest_ms = rules.rest_ms.saturating_mul(1 << self.doublings);
        self.last.map_or(0, |(at_ms, _)| at_ms.saturating_add(rest_ms).saturating_sub(now_ms))
    }

    /// The state after the design was changed by another cause: earlier windows do not count.
    #[must_use]
    pub fn interrupted(self) -> History {
        History { agreeing: 0, operations: Operations::default(), ..self }
    }
}

/// The observations of a window.
pub struct Observation<'a> {
    /// Its operations, for a tree with its present design.
    pub question: &'a Question,
    /// When it ended, on a monotonic clock.
    pub now_ms: u64,
    /// Bytes that a change to a design would rewrite.
    pub migration_bytes: &'a dyn Fn(&Design) -> f64,
}

/// The decision for a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decision {
    /// Too few operations.
    Silent,
    /// There is no formula for the present strategy, or no data.
    Unknown,
    /// No change saves enough; the best one saves this share.
    Good(f64),
    /// A change to this design would save this share, for this many windows of the required number.
    Waiting(Design, f64, u32),
    /// Enough windows agree, but this many milliseconds of the pause after the last change are left.
    Resting(Design, u64),
    /// Enough windows agree, but the migration would cost more than the change saves within the horizon.
    TooDear(Design),
    /// Change to this design, which saves this share.
    Change(Design, f64),
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |gain: &f64| format!("{:.0} %", 100.0 * gain);
        match self {
            Decision::Silent => f.write_str("too few operations to judge by"),
            Decision::Unknown => f.write_str("nothing to compare with"),
            Decision::Good(gain) => {
                write!(f, "no change saves enough, the best one {}", percent(&gain.max(0.0)))
            }
            Decision::Waiting(design, gain, windows) => {
                let plural = if *windows == 1 { "" } else { "s" };
                write!(
                    f,
                    "{} would save {}, for {windows} window{plural} now",
                    design.strategy,
                    percent(gain)
                )
            }
            Decision::Resting(design, left_ms) => {
                write!(f, "{} is next, after {} s of rest", design.strategy, left_ms.div_ceil(1000))
            }
            Decision::TooDear(design) => {
                write!(f, "{} would not pay for its migration soon", design.strategy)
            }
            Decision::Change(design, gain) => {
                write!(f, "changed to {}, which saves {}", design.strategy, percent(gain))
            }
        }
    }
}

/// The decision at the end of a window, and the state for the next. Pure; some milliseconds.
pub fn decide(seen: &Observation<'_>, history: &History, rules: &AdaptiveRules) -> (Decision, History) {
    let operations = seen.question.usage.operations;
    if operations.total() < rules.least_operations {
        return (Decision::Silent, *history);
    }
    let Some((best, gain)) = proposal(seen.question) else {
        return (Decision::Unknown, history.interrupted());
    };
    if gain < rules.least_gain {
        return (Decision::Good(gain), history.interrupted());
    }
    let windows = rules.windows.max(1);
    // Only the last windows of a long series count.
    let kept = if history.agreeing >= windows { 1.0 - 1.0 / f64::from(windows) } else { 1.0 };
    let after = History {
        agreeing: history.agreeing.saturating_add(1),
        operations: history.operations.times(kept).plus(&operations),
        ..*history
    };
    if after.agreeing < windows {
        return (Decision::Waiting(best, gain, after.agreeing), after);
    }
    let left_ms = history.rest_left_ms(seen.now_ms, rules);
    if left_ms > 0 {
        return (Decision::Resting(best, left_ms), after);
    }
    // The windows together determine the target, and their sum must agree too.
    let mut together = seen.question.clone();
    together.usage.operations = after.operations;
    let Some((best, gain)) = proposal(&together).filter(|(_, gain)| *gain >= rules.least_gain) else {
        return (Decision::Good(gain), after);
    };
    let cost = |design: &Design| together.predict(design).map_or(0.0, |prediction| prediction.cost_ns());
    let saved = together.present.as_ref().map_or(0.0, |present| cost(present) - cost(&best));
    let in_window = after.operations.total() / f64::from(windows);
    let migration = (seen.migration_bytes)(&best) * together.prices.byte_merged_ns;
    if saved * in_window * rules.horizon_windows < rules.payback * migration {
        return (Decision::TooDear(best), after);
    }
    (Decision::Change(best, gain), changed(seen, history, rules, &best))
}

/// The state after a change.
fn changed(seen: &Observation<'_>, history: &History, rules: &AdaptiveRules, to: &Design) -> History {
    let is_back = history.last.is_some_and(|(at_ms, from)| {
        let soon_ms = rules.rest_ms.saturating_mul(2 << history.doublings);
        Family::of(&from.strategy) == Family::of(&to.strategy) && seen.now_ms.saturating_sub(at_ms) < soon_ms
    });
    let doublings = if is_back { (history.doublings + 1).min(MOST_DOUBLINGS) } else { 0 };
    let last = seen.question.present.map(|from| (seen.now_ms, from));
    History { agreeing: 0, operations: Operations::default(), last, doublings }
}

/// The cheapest design with the present write buffer, and the share of the cost that it saves.
fn proposal(question: &Question) -> Option<(Design, f64)> {
    let present = question.present?;
    let cost = question.predict(&present)?.cost_ns();
    let best = cheapest_with_buffer(question, &present)?;
    (cost > 0.0).then(|| (best.design, 1.0 - best.cost_ns() / cost))
}
