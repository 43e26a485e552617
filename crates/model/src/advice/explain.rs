//! The explanation of an advice in plain words.

use super::figures::Prediction;
use super::search::Advice;
use super::usage::Usage;

/// Why `best` is proposed.
pub(super) fn reason(
    usage: &Usage,
    best: &Prediction,
    present: Option<&Prediction>,
    families: &[Prediction],
) -> String {
    let [lookups, scans, writes] = usage.operations.shares().map(|share| 100.0 * share);
    let mixture =
        format!("Of the operations {writes:.0} % write, {lookups:.0} % look up a key and {scans:.0} % scan.");
    let Some(present) = present else {
        let second = families
            .get(1)
            .map_or_else(String::new, |second| format!(" {}", compared("The next best kind", second, best)));
        return format!("{mixture} {}{second}", spent(best));
    };
    let gain = 1.0 - best.cost_ns() / present.cost_ns().max(f64::MIN_POSITIVE);
    if gain < Advice::LEAST_GAIN {
        return format!(
            "{mixture} {} No design is predicted to save more than {:.0} % of that, which is within the error of the formulas: leave it.",
            spent(present),
            100.0 * gain.max(0.0)
        );
    }
    format!("{mixture} {} {}", spent(present), compared("The present design", present, best))
}

/// The largest part of a design's cost.
fn spent(prediction: &Prediction) -> String {
    let parts = &prediction.parts;
    let largest = [
        (parts.writes_ns, "the background work that writes make necessary"),
        (parts.lookups_ns, "lookups"),
        (parts.scans_ns, "scans"),
    ]
    .into_iter()
    .max_by(|a, b| a.0.total_cmp(&b.0));
    let (ns, what) = largest.unwrap_or((0.0, "nothing"));
    let share = 100.0 * ns / prediction.cost_ns().max(f64::MIN_POSITIVE);
    format!("With {} {share:.0} % of the cost goes to {what}.", prediction.design.strategy)
}

/// What `other` does worse or better than `best`.
fn compared(subject: &str, other: &Prediction, best: &Prediction) -> String {
    let (theirs, ours) = (&other.figures, &best.figures);
    let mut better = Vec::new();
    let mut worse = Vec::new();
    let mut note = |theirs: f64, ours: f64, text: String| {
        if (theirs - ours).abs() > 0.05 * theirs.abs().max(ours.abs()) {
            if ours < theirs { better.push(text) } else { worse.push(text) }
        }
    };
    let was = |ours: f64, theirs: f64, digits: usize| format!("{ours:.digits$} (not {theirs:.digits$})");
    note(
        theirs.write_amplification,
        ours.write_amplification,
        format!(
            "{} bytes for each byte written",
            was(ours.write_amplification, theirs.write_amplification, 2)
        ),
    );
    note(
        theirs.absent_blocks,
        ours.absent_blocks,
        format!("{} blocks for an absent key", was(ours.absent_blocks, theirs.absent_blocks, 3)),
    );
    note(theirs.runs, ours.runs, format!("{} runs for a scan", was(ours.runs, theirs.runs, 1)));
    note(
        1.0 - other.cached_share,
        1.0 - best.cached_share,
        format!(
            "{} % of blocks from the cache",
            was(100.0 * best.cached_share, 100.0 * other.cached_share, 0)
        ),
    );
    note(theirs.space, ours.space, format!("{} times the room", was(ours.space, theirs.space, 2)));
    let more = 100.0 * (other.cost_ns() / best.cost_ns().max(f64::MIN_POSITIVE) - 1.0);
    let mut text = format!("{subject}, {}, costs {more:.0} % more", other.design.strategy);
    if !better.is_empty() {
        text += &format!(": {} promises {}", best.design.strategy, better.join(", "));
    }
    if !worse.is_empty() {
        let but = if better.is_empty() { ":" } else { ", at the price of" };
        text += &format!("{but} {}", worse.join(", "));
    }
    text + "."
}
