//! Claims: a required ratio beside the measured one.

use crate::table::{Column, Table};
use std::fmt;

/// The side of the required number on which the measured one must lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// At least as much.
    AtLeast,
    /// At most as much.
    AtMost,
}

/// A requirement and its measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// What, in words.
    pub what: String,
    /// The side.
    pub bound: Bound,
    /// The required number.
    pub asked: f64,
    /// The measured number; `None` if this run had no rows for it, as quick runs may.
    pub measured: Option<f64>,
}

/// Result of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The measured number is on the required side.
    Reached,
    /// It is on the other side.
    Missed,
    /// There is no number.
    NotMeasured,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Reached => "reached",
            Verdict::Missed => "missed",
            Verdict::NotMeasured => "not measured in this run",
        })
    }
}

impl Claim {
    /// A quantity is at least `asked`.
    pub fn at_least(asked: f64, what: impl Into<String>, measured: Option<f64>) -> Claim {
        Claim { what: what.into(), bound: Bound::AtLeast, asked, measured }
    }

    /// A quantity is at most `asked`.
    pub fn at_most(asked: f64, what: impl Into<String>, measured: Option<f64>) -> Claim {
        Claim { what: what.into(), bound: Bound::AtMost, asked, measured }
    }

    /// The result.
    pub fn verdict(&self) -> Verdict {
        match (self.measured, self.bound) {
            (None, _) => Verdict::NotMeasured,
            (Some(measured), Bound::AtLeast) if measured >= self.asked => Verdict::Reached,
            (Some(measured), Bound::AtMost) if measured <= self.asked => Verdict::Reached,
            (Some(_), _) => Verdict::Missed,
        }
    }
}

pub(crate) fn table(claims: &[Claim]) -> Table {
    let columns =
        [Column::key("claim"), Column::key("asked"), Column::number("measured", 2), Column::key("verdict")];
    let mut table = Table::new("claims", "What was asked for", &columns);
    for claim in claims {
        let sign = if claim.bound == Bound::AtLeast { "≥" } else { "≤" };
        let asked = format!("{sign} {}", claim.asked);
        table.push(vec![
            claim.what.as_str().into(),
            asked.into(),
            claim.measured.into(),
            claim.verdict().to_string().into(),
        ]);
    }
    table
}

/// `slow` divided by `fast`; `None` if either is missing or zero.
pub fn ratio(slow: Option<f64>, fast: Option<f64>) -> Option<f64> {
    let ratio = slow? / fast?;
    ratio.is_finite().then_some(ratio)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_follow_from_the_numbers() {
        assert_eq!(Claim::at_least(10.0, "x", Some(10.0)).verdict(), Verdict::Reached);
        assert_eq!(Claim::at_least(10.0, "x", Some(9.99)).verdict(), Verdict::Missed);
        assert_eq!(Claim::at_most(0.78, "x", Some(0.7)).verdict(), Verdict::Reached);
        assert_eq!(Claim::at_most(0.78, "x", Some(0.8)).verdict(), Verdict::Missed);
        assert_eq!(Claim::at_most(0.78, "x", Some(f64::NAN)).verdict(), Verdict::Missed);
        assert_eq!(Claim::at_most(0.78, "x", None).verdict(), Verdict::NotMeasured);
    }

    #[test]
    fn ratios_need_two_numbers() {
        assert_eq!(ratio(Some(6.0), Some(2.0)), Some(3.0));
        assert_eq!(ratio(Some(6.0), Some(0.0)), None);
        assert_eq!(ratio(None, Some(2.0)), None);
    }
}
