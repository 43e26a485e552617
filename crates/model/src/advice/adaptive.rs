//! When to follow advice without being asked.
//!
//! A keyspace that adapts is observed in windows of time. At the end of each, [`decide()`] says whether to
//! change strategy and filters; it is a function of what the window showed, the present design and what the
//! windows before left behind ([`History`]), so the same observations give the same decisions, and tests need
//! no clock.
//!
//! A tree must not follow every wind, because each change is paid for in bytes that are rewritten:
//! * AD1: a change is considered only while it promises to save at least a share of the cost in each of
//!   several windows in a row. A window in which hardly anything was asked for says nothing either way.
//! * AD2: what it would save within a horizon must exceed what the migration rewrites, by a factor.
//! * AD3: after a change there is a rest. Who changes back soon after it rests twice as long the next time,
//!   so a workload that swings with the period of the windows is followed ever more slowly instead of at each
//!   turn.
//!
//! The write buffer stays as it is: it is memory that keyspaces share.
//!
//! Rejected: averages that fade, in the place of windows in a row. They answer a burst that was large enough
//! as they answer a lasting change, and nobody can say from outside when they will.

use super::design::{Design, Family};
use super::search::{Question, cheapest_with_buffer};
use super::usage::Operations;
use std::fmt;

/// How eager [`decide()`] is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdaptiveRules {
    /// The share of the cost that a change must save at least.
    pub least_gain: f64,
    /// In so many windows in a row.
    pub windows: u32,
    /// Operations that a window must have seen to say anything.
    pub least_operations: f64,
    /// Windows within which a change must pay for its migration.
    pub horizon_windows: f64,
    /// How many times over.
    pub payback: f64,
    /// Milliseconds between two changes at least.
    pub rest_ms: u64,
}

impl AdaptiveRules {
    /// The usual rules for windows of so many milliseconds: 15 % in three windows in a row, paid back one and
    /// a half times within six windows, and a rest of six windows.
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

/// A rest is doubled so often at most.
const MOST_DOUBLINGS: u32 = 4;

/// What earlier windows left behind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct History {
    /// Windows in a row in which a change was worth it.
    pub agreeing: u32,
    /// What was asked for in them.
    operations: Operations,
    /// The last change: when, and from which design.
    last: Option<(u64, Design)>,
    /// How often the rest was doubled.
    doublings: u32,
}

impl History {
    /// Milliseconds of rest that are left at this moment.
    pub fn rest_left_ms(&self, now_ms: u64, rules: &AdaptiveRules) -> u64 {
        let rest_ms = rules.rest_ms.saturating_mul(1 << self.doublings);
        self.last.map_or(0, |(at_ms, _)| at_ms.saturating_add(rest_ms).saturating_sub(now_ms))
    }

    /// The design was changed by somebody else, or is being changed: windows before say nothing about it.
    #[must_use]
    pub fn interrupted(self) -> History {
        History { agreeing: 0, operations: Operations::default(), ..self }
    }
}

/// What a window showed.
pub struct Observation<'a> {
    /// What was asked for in it, of a tree with its present design.
    pub question: &'a Question,
    /// When it ended, on a clock that does not run backwards.
    pub now_ms: u64,
    /// Bytes that a change to a design would have to rewrite.
    pub migration_bytes: &'a dyn Fn(&Design) -> f64,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decision {
    /// Hardly anything was asked for.
    Silent,
    /// There is no formula for the present strategy, or no data.
    Unknown,
    /// No change saves enough; the best one saves this share.
    Good(f64),
    /// A change to this design would save this share; it has for so many windows, and has to for more.
    Waiting(Design, f64, u32),
    /// Enough windows agree, but the last change was so short ago that there are so many milliseconds of rest
    /// left.
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

/// What to do at the end of a window, and what to remember of it. Pure; some milliseconds.
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
    // Of a long row only the last windows count.
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
    // All these windows together decide where to, and they too must agree.
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

/// What is remembered after a change.
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
