//! Comparisons: a document's ratio beside the one that this run measured. Machines differ, so only ratios are
//! compared.

use crate::table::{Column, Table};

/// A ratio of a document and ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Which document, and where in it.
    pub source: &'static str,
    /// The quotient, in words.
    pub what: String,
    /// The document's ratio.
    pub theirs: f64,
    /// Ours; `None` if this run had no rows for it.
    pub ours: Option<f64>,
}

/// Ratios that differ by at most this factor count as the same; smaller differences are those between
/// machines.
const SAME_WITHIN: f64 = 1.25;

impl Comparison {
    /// One of them.
    pub fn new(source: &'static str, what: impl Into<String>, theirs: f64, ours: Option<f64>) -> Comparison {
        Comparison { source, what: what.into(), theirs, ours }
    }

    /// The result, in words.
    pub fn verdict(&self) -> &'static str {
        let Some(ours) = self.ours else { return "not measured in this run" };
        let quotient = ours / self.theirs;
        if (1.0 / SAME_WITHIN..=SAME_WITHIN).contains(&quotient) {
            "reproduces"
        } else if (ours > 1.0) == (self.theirs > 1.0) {
            let is_stronger = ours.ln().abs() > self.theirs.ln().abs();
            if is_stronger { "same direction, stronger" } else { "same direction, weaker" }
        } else {
            "does not reproduce"
        }
    }
}

pub(crate) fn table(comparisons: &[Comparison]) -> Table {
    let columns = [
        Column::key("document"),
        Column::key("ratio"),
        Column::number("theirs", 2),
        Column::number("ours", 2),
        Column::key("verdict"),
    ];
    let mut table = Table::new("compared", "The documents' ratios beside ours", &columns);
    for comparison in comparisons {
        table.push(vec![
            comparison.source.into(),
            comparison.what.as_str().into(),
            comparison.theirs.into(),
            comparison.ours.into(),
            comparison.verdict().into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_tell_direction_and_size() {
        let verdict = |theirs, ours| Comparison::new("a", "b", theirs, ours).verdict();
        assert_eq!(verdict(1.5, Some(1.4)), "reproduces");
        assert_eq!(verdict(0.9, Some(1.05)), "reproduces");
        assert_eq!(verdict(1.5, Some(3.0)), "same direction, stronger");
        assert_eq!(verdict(5.0, Some(1.2)), "same direction, weaker");
        assert_eq!(verdict(0.5, Some(0.2)), "same direction, stronger");
        assert_eq!(verdict(1.5, Some(0.9)), "does not reproduce");
        assert_eq!(verdict(1.5, None), "not measured in this run");
    }
}
