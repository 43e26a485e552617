//! Text of explanations: trees of lines, and figures in units that people read.

use super::{Figure, Measure, Step, Unit};
use std::fmt::{self, Write};

/// The least difference of measured and expected values that is shown.
const SAME: f64 = 1e-9;

/// Writes a step and those below it, a line for each.
pub(super) fn write_tree(f: &mut impl Write, root: &Step) -> fmt::Result {
    write_step(f, root, "", "")
}

fn write_step(f: &mut impl Write, step: &Step, first: &str, others: &str) -> fmt::Result {
    write!(f, "{first}{}", step.what)?;
    if !step.outcome.is_empty() {
        write!(f, ": {}", step.outcome)?;
    }
    for (at, measure) in step.measures.iter().enumerate() {
        f.write_str(if at == 0 { "; " } else { ", " })?;
        write_measure(f, measure)?;
    }
    writeln!(f)?;
    for (at, below) in step.steps.iter().enumerate() {
        let is_last = at + 1 == step.steps.len();
        let (branch, trunk) = if is_last { ("`- ", "   ") } else { ("|- ", "|  ") };
        write_step(f, below, &format!("{others}{branch}"), &format!("{others}{trunk}"))?;
    }
    Ok(())
}

fn write_measure(f: &mut impl Write, measure: &Measure) -> fmt::Result {
    let figure = measure.figure;
    let value = |value: f64| in_unit(value, figure.unit());
    let actual = measure.actual.map_or_else(|| "unknown".to_owned(), value);
    match figure {
        Figure::Time
        | Figure::LimitBytes
        | Figure::Amount
        | Figure::Soft
        | Figure::Hard
        | Figure::EndsIn
        | Figure::Since
        | Figure::SeekTime => write!(f, "{} {actual}", figure.label())?,
        _ => write!(f, "{actual} {}", label_of(figure, measure.actual))?,
    }
    match (measure.expected, measure.actual) {
        (Some(expected), Some(actual)) if (expected - actual).abs() < SAME => f.write_str(" (as expected)"),
        (Some(expected), _) => write!(f, " (expected {})", value(expected)),
        (None, _) => Ok(()),
    }
}

/// What a figure counts, in the singular if it is one. Places (`from files`) and lists are no nouns.
fn label_of(figure: Figure, actual: Option<f64>) -> String {
    let label = figure.label();
    let is_noun = figure.unit() == Unit::Count && !label.starts_with("from ") && !label.contains(" and ");
    if actual != Some(1.0) || !is_noun {
        return label.to_owned();
    }
    let Some(plural) = label.split(' ').find(|word| word.ends_with('s')) else { return label.to_owned() };
    let singular = match plural {
        "entries" => "entry",
        "flushes" => "flush",
        regular => regular.trim_end_matches('s'),
    };
    label.replacen(plural, singular, 1)
}

/// A value with its unit.
pub(super) fn in_unit(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Bytes | Unit::BytesPerSecond => bytes(value as u64),
        Unit::Nanoseconds => time(value),
        Unit::Count if value.fract() == 0.0 => count(value as u64),
        Unit::Count | Unit::Times => format!("{value:.2}"),
    }
}

/// A number with its thousands separated.
pub(super) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things, in the plural unless it is one.
pub(super) fn counted(value: u64, thing: &str) -> String {
    let plural = if value == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", count(value))
}

/// Bytes in the greatest binary unit that they fill.
pub(super) fn bytes(value: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if value < 1 << 10 {
        return counted(value, "byte");
    }
    let mut scaled = value as f64 / 1024.0;
    let mut unit = 0;
    while scaled >= 1023.95 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    format!("{scaled:.1} {}", UNITS[unit])
}

/// A time in the greatest unit that it fills.
pub(super) fn time(ns: f64) -> String {
    match ns {
        ns if ns < 999.5e3 => format!("{:.1} us", ns / 1e3),
        ns if ns < 999.5e6 => format!("{:.1} ms", ns / 1e6),
        ns => format!("{:.1} s", ns / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_written_in_their_units() {
        let texts = [
            (1_234_567.0, Unit::Count, "1,234,567"),
            (1.5, Unit::Count, "1.50"),
            (1.0, Unit::Bytes, "1 byte"),
            (1023.0, Unit::Bytes, "1,023 bytes"),
            (4096.0, Unit::Bytes, "4.0 KiB"),
            (1048575.0, Unit::Bytes, "1.0 MiB"),
            (3.5 * 1024.0 * 1024.0 * 1024.0, Unit::BytesPerSecond, "3.5 GiB"),
            (340.0, Unit::Nanoseconds, "0.3 us"),
            (999_600.0, Unit::Nanoseconds, "1.0 ms"),
            (2e9, Unit::Nanoseconds, "2.0 s"),
            (2.0, Unit::Times, "2.00"),
        ];
        for (value, unit, text) in texts {
            assert_eq!(in_unit(value, unit), text);
        }
    }

    #[test]
    fn one_of_a_kind_is_told_in_the_singular() {
        let texts = [
            (Figure::MemtablesSearched, 1.0, "memtable searched"),
            (Figure::MemtablesSearched, 2.0, "memtables searched"),
            (Figure::DataBlocks, 1.0, "data block"),
            (Figure::Met, 1.0, "entry met"),
            (Figure::LogFlushes, 1.0, "flush of the device"),
            (Figure::BlocksFromFiles, 1.0, "from files"),
            (Figure::IndexFromFiles, 1.0, "index pages and filters from files"),
            (Figure::SteppedOver, 1.0, "stepped over"),
        ];
        for (figure, actual, text) in texts {
            assert_eq!(label_of(figure, Some(actual)), text);
        }
    }

    #[test]
    fn steps_are_drawn_as_a_tree() {
        let mut root = Step::new("get", "a value");
        root.add_beside(Figure::TablesSearched, 2.0, Some(1.25));
        root.add(Figure::Time, 1_500);
        let mut middle = Step::new("L0", "");
        middle.steps = vec![Step::new("table 7", "the filter excludes the key"), Step::new("table 8", "")];
        root.steps = vec![middle, Step::new("Llast", "")];
        let mut text = String::new();
        write_tree(&mut text, &root).unwrap();
        assert_eq!(
            text,
            "get: a value; 2 tables searched (expected 1.25), took 1.5 us\n\
             |- L0\n\
             |  |- table 7: the filter excludes the key\n\
             |  `- table 8\n\
             `- Llast\n"
        );
    }
}
