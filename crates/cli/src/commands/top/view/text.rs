//! Figures as short text: rates, times and bars.

use crate::format::{human_bytes, human_count};
use std::time::Duration;

/// A rate: with a decimal below ten.
pub(super) fn rate(per_second: f64) -> String {
    if per_second > 0.0 && per_second < 9.95 {
        return format!("{per_second:.1}");
    }
    human_count(per_second.round() as u64)
}

pub(super) fn bytes_rate(per_second: f64) -> String {
    format!("{}/s", human_bytes(per_second as u64))
}

/// A time in microseconds.
pub(super) fn microseconds(us: f64) -> String {
    match us {
        us if us < 9.95 => format!("{us:.1} \u{b5}s"),
        us if us < 999.5 => format!("{us:.0} \u{b5}s"),
        us if us < 9_950.0 => format!("{:.1} ms", us / 1e3),
        us if us < 999_500.0 => format!("{:.0} ms", us / 1e3),
        us => format!("{:.1} s", us / 1e6),
    }
}

/// A time in milliseconds, by its largest unit.
pub(super) fn time(ms: u64) -> String {
    match ms / 1000 {
        0 => format!("{ms} ms"),
        seconds @ 1..10 => format!("{seconds}.{} s", ms % 1000 / 100),
        seconds @ 10..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

/// The time between two frames.
pub(super) fn interval(interval: Duration) -> String {
    match interval.subsec_millis() {
        0 => format!("{} s", interval.as_secs()),
        _ => format!("{} ms", interval.as_millis()),
    }
}

/// A factor: `1.23`, or a dash if it is not known.
pub(super) fn factor(factor: Option<f64>) -> String {
    factor.map_or("-".to_owned(), |factor| format!("{factor:.2}"))
}

/// The first characters, with an ellipsis if that is not all. Wide characters may take two columns.
pub(super) fn shortened(text: &str, columns: usize) -> String {
    use ratatui::text::Span;
    if Span::raw(text).width() <= columns {
        return text.to_owned();
    }
    let mut short = String::new();
    for char in text.chars() {
        short.push(char);
        if Span::raw(short.as_str()).width() >= columns {
            short.pop();
            break;
        }
    }
    format!("{short}\u{2026}")
}

/// Text at the left of its columns.
pub(super) fn left(text: &str, columns: usize) -> String {
    use ratatui::text::Span;
    let short = shortened(text, columns);
    let blanks = columns.saturating_sub(Span::raw(short.as_str()).width());
    format!("{short}{}", " ".repeat(blanks))
}

/// A part of a whole as a bar. What is not nothing has a mark.
pub(super) fn bar(part: u64, whole: u64, columns: usize) -> String {
    let filled = (u128::from(part) * columns as u128).checked_div(u128::from(whole)).unwrap_or(0) as usize;
    let filled = filled.max(usize::from(part > 0)).min(columns);
    "\u{2588}".repeat(filled)
}

/// As [`bar`], with marks for the rest.
pub(super) fn gauge(part: u64, whole: u64, columns: usize) -> String {
    let filled = bar(part, whole, columns);
    let rest = columns - filled.chars().count();
    format!("{filled}{}", "\u{2591}".repeat(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        assert_eq!([0.0, 0.04, 9.94, 9.96, 1234.5].map(rate), ["0", "0.0", "9.9", "10", "1,235"]);
        let told = [0.4, 12.0, 1_234.0, 45_000.0, 2_300_000.0].map(microseconds);
        assert_eq!(told, ["0.4 \u{b5}s", "12 \u{b5}s", "1.2 ms", "45 ms", "2.3 s"]);
        let told = [0, 999, 1_250, 60_000, 600_000, 10_000_000, 200_000_000].map(time);
        assert_eq!(told, ["0 ms", "999 ms", "1.2 s", "60 s", "10 min", "2 h", "2 days"]);
        assert_eq!(interval(Duration::from_millis(1500)), "1500 ms");
    }

    #[test]
    fn text_and_bars_keep_their_columns() {
        assert_eq!(shortened("keyspace", 8), "keyspace");
        assert_eq!(shortened("keyspaces", 8), "keyspac\u{2026}");
        assert_eq!(left("\u{7a7a}\u{9593}\u{7a7a}\u{9593}", 5), "\u{7a7a}\u{9593}\u{2026}");
        assert_eq!(left("a", 3), "a  ");
        assert_eq!(gauge(0, 0, 4), "\u{2591}\u{2591}\u{2591}\u{2591}");
        assert_eq!(gauge(1, 1000, 2), "\u{2588}\u{2591}");
        assert_eq!(gauge(u64::MAX, 1, 2), "\u{2588}\u{2588}");
    }
}
