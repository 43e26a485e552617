//! Findings: what the experiments' pages say, as checks over the rows of a run.
//!
//! A page says "Ribbon 6.9"; the finding of that name quotes it, takes the number from the rows, and tells
//! the range in which a run, small or large, on any machine, must find it. A finding that does not hold
//! fails the run: then the page is wrong, or the code is. So findings are about counts, such as bits, bytes,
//! hit rates and amplification. Times depend on the machine and on what else runs there; they are for
//! [`Claim`](crate::claim::Claim)s, whose verdict is shown and fails nothing.

use crate::settings::Scale;
use crate::table::{Column, Table};
use std::fmt;
use std::ops::RangeInclusive;

/// A statement of a page, with what this run found.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Its name, in lower case with hyphens.
    pub name: &'static str,
    /// The page, a file of `docs/experiments`.
    pub page: &'static str,
    /// Words of the page: they stand in it as they stand here, whatever the line breaks.
    pub says: &'static str,
    /// The range in which the number must be.
    pub range: RangeInclusive<f64>,
    /// The number; `None` if the run had no row for it, which is a failure.
    pub measured: Option<f64>,
}

impl Finding {
    /// Whether the run found what the page says.
    pub fn holds(&self) -> bool {
        self.measured.is_some_and(|measured| self.range.contains(&measured))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (docs/experiments/{}: \"{}\")", self.name, self.page, self.says)?;
        let (least, most) = (self.range.start(), self.range.end());
        match self.measured {
            Some(measured) => write!(f, ": {measured:.4} is to be from {least} to {most}"),
            None => write!(f, ": no row has it"),
        }
    }
}

/// The findings of an experiment, as they are declared.
#[derive(Debug)]
pub(crate) struct Findings<'a> {
    page: &'static str,
    tables: &'a [Table],
    scale: Scale,
    found: Vec<Finding>,
}

impl<'a> Findings<'a> {
    /// For the rows of this run; `page` is where the statements are.
    pub(crate) fn new(page: &'static str, tables: &'a [Table], scale: Scale) -> Findings<'a> {
        Findings { page, tables, scale, found: Vec::new() }
    }

    /// Whether the run was so large: small ones may have no row for a statement about large sizes.
    pub(crate) fn is_at_least(&self, scale: Scale) -> bool {
        self.scale >= scale
    }

    /// The number of column `of` in the first row of `table` in which columns have these values.
    pub(crate) fn number(&self, table: &str, wanted: &[(&str, &str)], of: &str) -> Option<f64> {
        self.table(table)?.number(wanted, of)
    }

    /// The table of this name.
    pub(crate) fn table(&self, name: &str) -> Option<&'a Table> {
        self.tables.iter().find(|table| table.name == name)
    }

    /// The page says this, and the number is in the range.
    pub(crate) fn within(
        &mut self,
        name: &'static str,
        says: &'static str,
        range: RangeInclusive<f64>,
        measured: Option<f64>,
    ) {
        self.found.push(Finding { name, page: self.page, says, range, measured });
    }

    /// The list.
    pub(crate) fn into_list(self) -> Vec<Finding> {
        self.found
    }
}

pub(crate) fn table(findings: &[Finding]) -> Table {
    let columns = [
        Column::key("finding"),
        Column::key("page_says"),
        Column::number("least", 2),
        Column::number("most", 2),
        Column::number("measured", 2),
        Column::key("holds"),
    ];
    let mut table = Table::new("findings", "What the page says, checked", &columns);
    for finding in findings {
        table.push(vec![
            finding.name.into(),
            finding.says.into(),
            (*finding.range.start()).into(),
            (*finding.range.end()).into(),
            finding.measured.into(),
            if finding.holds() { "yes" } else { "no" }.into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_outside_or_missing_does_not_hold() {
        let finding = |measured| Finding {
            name: "a-name",
            page: "a.md",
            says: "about one",
            range: 0.9..=1.1,
            measured,
        };
        assert!(finding(Some(0.9)).holds() && finding(Some(1.1)).holds());
        for wrong in [None, Some(0.89), Some(1.11), Some(f64::NAN)] {
            assert!(!finding(wrong).holds(), "{wrong:?}");
            let told = finding(wrong).to_string();
            assert!(told.contains("a-name") && told.contains("docs/experiments/a.md"), "{told}");
        }
    }
}
