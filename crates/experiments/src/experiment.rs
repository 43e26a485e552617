//! Experiments: their form and their results.

use crate::claim::Claim;
use crate::comparison::Comparison;
use crate::context::Context;
use crate::error::Result;
use crate::finding::{Finding, Findings};
use crate::plot::Plot;
use crate::settings::Scale;
use crate::table::Table;
use std::fmt;

/// Results of an experiment.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The conditions of the measurement, a line each: sizes, rounds, what exactly was timed.
    pub setup: Vec<String>,
    /// The numbers.
    pub tables: Vec<Table>,
    /// Plots of some of them.
    pub plots: Vec<Plot>,
    /// The claims with their measurements.
    pub claims: Vec<Claim>,
    /// The comparisons with documents.
    pub comparisons: Vec<Comparison>,
}

/// An experiment.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// Name on the command line.
    pub name: &'static str,
    /// Subject, in a line.
    pub title: &'static str,
    /// What it shows and how, in some sentences.
    pub about: &'static str,
    /// The page about it, in `docs/experiments`.
    pub page: &'static str,
    pub(crate) run: fn(&mut Context<'_>) -> Result<Outcome>,
    /// Declares what its page says.
    pub(crate) findings: fn(&mut Findings<'_>),
}

impl Experiment {
    /// What its page says of these results of a run of this scale.
    pub(crate) fn findings_of(&self, outcome: &Outcome, scale: Scale) -> Vec<Finding> {
        let mut findings = Findings::new(self.page, &outcome.tables, scale);
        (self.findings)(&mut findings);
        findings.into_list()
    }
}

impl fmt::Debug for Experiment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Experiment").field(&self.name).finish()
    }
}
