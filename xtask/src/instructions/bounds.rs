//! The file of bounds: counts, and what they were counted with.

use std::fmt;
use std::str::FromStr;

/// Allowed deviation from a bound, as a share. Changes elsewhere move functions between the compiler's units,
/// which changes inlining: that alone can be a percent.
const TOLERANCE: f64 = 0.03;

const HEAD: &str = "\
# Instructions of the hot paths, an operation: crates/esker/benches/hot_paths.rs under callgrind. Written by
# `cargo xtask instructions --update`; `cargo xtask instructions` compares. They hold for what is named here; elsewhere they only are
# shown.
";

#[derive(Debug, PartialEq)]
pub(super) struct Bounds {
    /// Names and versions that the counts depend on.
    pub(super) counted_with: Vec<(String, String)>,
    /// Paths in the order of their run, with their instructions per operation.
    pub(super) paths: Vec<(String, f64)>,
}

/// A path's bound and its count; `None` where only the other is known.
#[derive(Debug, PartialEq)]
pub(super) struct Row<'a> {
    pub(super) path: &'a str,
    pub(super) bound: Option<f64>,
    pub(super) counted: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Within,
    More,
    /// Fewer instructions: the bound must be lowered, or the gain could be lost unnoticed.
    Fewer,
    /// Only one of bound and count exists.
    Unmatched,
}

impl Bounds {
    /// Every path of either side, beside its bound.
    pub(super) fn compare<'a>(&'a self, counted: &'a Bounds) -> Vec<Row<'a>> {
        let of = |all: &Bounds, path: &str| {
            all.paths.iter().find(|(name, _)| name == path).map(|(_, instructions)| *instructions)
        };
        let known = self.paths.iter().map(|(path, _)| path.as_str());
        let others =
            counted.paths.iter().map(|(path, _)| path.as_str()).filter(|path| of(self, path).is_none());
        let row = |path| Row { path, bound: of(self, path), counted: of(counted, path) };
        known.chain(others).map(row).collect()
    }

    /// The versions in which bounds and counts differ.
    pub(super) fn differences(&self, counted: &Bounds) -> Vec<&str> {
        let is_other = |named: &&(String, String)| !counted.counted_with.contains(named);
        self.counted_with.iter().filter(is_other).map(|(_, value)| value.as_str()).collect()
    }
}

impl Row<'_> {
    /// Excess of the count over the bound, as a share of the bound.
    pub(super) fn change(&self) -> Option<f64> {
        self.bound.zip(self.counted).map(|(bound, counted)| counted / bound - 1.0)
    }

    pub(super) fn verdict(&self) -> Verdict {
        match self.change() {
            None => Verdict::Unmatched,
            Some(change) if change > TOLERANCE => Verdict::More,
            Some(change) if change < -TOLERANCE => Verdict::Fewer,
            Some(_) => Verdict::Within,
        }
    }
}

impl Verdict {
    /// The text after the numbers.
    pub(super) fn remark(self) -> &'static str {
        match self {
            Verdict::Within => "",
            Verdict::More => "  TOO MANY",
            Verdict::Fewer => "  fewer: write it down",
            Verdict::Unmatched => "  only here: write it down",
        }
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}\n[counted_with]")?;
        self.counted_with.iter().try_for_each(|(name, value)| writeln!(f, "{name} = \"{value}\""))?;
        writeln!(f, "\n[paths]")?;
        self.paths.iter().try_for_each(|(path, instructions)| writeln!(f, "{path} = {instructions:.1}"))
    }
}

impl FromStr for Bounds {
    type Err = String;

    /// Parses what [`Bounds`] prints; no more of TOML than that.
    fn from_str(text: &str) -> Result<Bounds, String> {
        let mut bounds = Bounds { counted_with: Vec::new(), paths: Vec::new() };
        let mut section = "";
        for (number, line) in (1..).zip(text.lines().map(str::trim)) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if line.starts_with('[') {
                section = line;
                continue;
            }
            let wrong = || format!("line {number} is not understood in the section {section:?}: {line}");
            let (name, value) = line.split_once(" = ").ok_or_else(wrong)?;
            match section {
                "[counted_with]" => {
                    bounds.counted_with.push((name.to_owned(), value.trim_matches('"').to_owned()));
                }
                "[paths]" => {
                    let instructions = value.parse().ok().filter(|count: &f64| *count > 0.0);
                    bounds.paths.push((name.to_owned(), instructions.ok_or_else(wrong)?));
                }
                _ => return Err(wrong()),
            }
        }
        Ok(bounds)
    }
}

#[cfg(test)]
mod tests {
    use super::{Bounds, Verdict};

    fn bounds(rustc: &str, paths: &[(&str, f64)]) -> Bounds {
        Bounds {
            counted_with: vec![("rustc".to_owned(), rustc.to_owned())],
            paths: paths.iter().map(|(path, count)| ((*path).to_owned(), *count)).collect(),
        }
    }

    #[test]
    fn written_bounds_are_read_back() {
        let written = bounds("rustc 1.95.0 (59807616e 2026-04-14)", &[("put", 812.5), ("get", 400.0)]);
        assert_eq!(written.to_string().parse(), Ok(written));
    }

    #[test]
    fn damage_of_a_file_is_reported_with_its_line() {
        for damaged in ["put = 1", "[paths]\nput 1", "[paths]\nput = many", "[paths]\nput = 0"] {
            let told = damaged.parse::<Bounds>().unwrap_err();
            assert!(told.contains("put") && told.contains("line"), "{told}");
        }
    }

    #[test]
    fn three_percent_are_allowed_and_more_are_not_in_either_direction() {
        let before = bounds("a", &[("same", 100.0), ("more", 100.0), ("fewer", 100.0), ("gone", 100.0)]);
        let now = bounds("a", &[("same", 102.9), ("more", 103.1), ("fewer", 96.9), ("new", 1.0)]);
        let verdicts: Vec<_> =
            before.compare(&now).iter().map(|row| (row.path.to_owned(), row.verdict())).collect();
        let expected = [
            ("same", Verdict::Within),
            ("more", Verdict::More),
            ("fewer", Verdict::Fewer),
            ("gone", Verdict::Unmatched),
            ("new", Verdict::Unmatched),
        ];
        assert_eq!(verdicts, expected.map(|(path, verdict)| (path.to_owned(), verdict)));
        assert!(!super::super::report(&before, &now));
        assert!(super::super::report(&before, &before));
    }

    #[test]
    fn bounds_of_another_compiler_fail_nothing() {
        let (before, now) = (bounds("a", &[("put", 100.0)]), bounds("b", &[("put", 200.0)]));
        assert_eq!(before.differences(&now), ["a"]);
        assert!(super::super::report(&before, &now));
    }
}
