//! Explanations: what a read does, where bytes are, and why writes wait, as trees of steps with figures.
//!
//! An explanation is measured, not planned: [`Keyspace::explain_get`](crate::Keyspace::explain_get) looks the
//! key up, and [`Keyspace::explain_scan`](crate::Keyspace::explain_scan) walks the range. Beside what was
//! measured stands what the model expects, where it has a formula, and a sentence says what dominates and
//! what would change it.
//!
//! ```
//! # fn main() -> esker::Result<()> {
//! # let dir = std::env::temp_dir().join(format!("esker-doc-explain-{}", std::process::id()));
//! use esker::explain::Figure;
//!
//! let db = esker::Database::open(&dir)?;
//! let users = db.keyspace("users")?;
//! users.put(b"ada", b"1815")?;
//! let (value, explanation) = users.explain_get(b"ada")?;
//! assert_eq!(value.as_deref(), Some(b"1815".as_slice()));
//! assert_eq!(explanation.root.actual(Figure::TablesSearched), Some(0.0));
//! println!("{explanation}");
//! # db.close()?;
//! # std::fs::remove_dir_all(dir).ok();
//! # Ok(()) }
//! ```
//!
//! Nothing of this costs other reads anything: they run code that was compiled without it. An explained read
//! uses the cache as any other read does, and is not counted among lookups and scans.

mod directory;
mod figure;
mod get;
mod json;
mod memory;
mod model;
mod put;
mod read_figures;
mod scan;
mod shortened;
mod space;
mod stall;
mod text;

pub use figure::{Figure, Unit};
pub use scan::ScanOptions;

use std::fmt;

/// How something was done or where something is.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Explanation {
    /// The whole; its figures are those of all steps together.
    pub root: Step,
    /// What dominates, and what would change it: a sentence or two.
    pub conclusion: String,
}

/// A step of an operation, or a part of a whole.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Step {
    /// What it is.
    pub what: String,
    /// What came of it; may be empty.
    pub outcome: String,
    /// Its figures, those of its own steps included.
    pub measures: Vec<Measure>,
    /// The steps that it consists of.
    pub steps: Vec<Step>,
}

/// A figure of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Measure {
    /// The figure.
    pub figure: Figure,
    /// Its value; `None` if it was not measured.
    pub actual: Option<f64>,
    /// What the model expects; `None` without a formula.
    pub expected: Option<f64>,
}

impl Step {
    pub(crate) fn new(what: impl Into<String>, outcome: impl Into<String>) -> Step {
        Step { what: what.into(), outcome: outcome.into(), ..Step::default() }
    }

    /// Adds a figure that was measured.
    pub(crate) fn with(mut self, figure: Figure, actual: u64) -> Step {
        self.add(figure, actual);
        self
    }

    /// Adds a figure that was measured.
    pub(crate) fn add(&mut self, figure: Figure, actual: u64) {
        self.measures.push(Measure { figure, actual: Some(actual as f64), expected: None });
    }

    /// Adds a figure that was measured, unless it is 0.
    pub(crate) fn add_some(&mut self, figure: Figure, actual: u64) {
        if actual > 0 {
            self.add(figure, actual);
        }
    }

    /// Adds a figure and what the model expects of it.
    pub(crate) fn add_beside(&mut self, figure: Figure, actual: f64, expected: Option<f64>) {
        self.measures.push(Measure { figure, actual: Some(actual), expected });
    }

    /// The measured value of a figure; `None` if the step does not have it.
    pub fn actual(&self, figure: Figure) -> Option<f64> {
        self.measure(figure)?.actual
    }

    /// What the model expects of a figure; `None` if it has no formula.
    pub fn expected(&self, figure: Figure) -> Option<f64> {
        self.measure(figure)?.expected
    }

    fn measure(&self, figure: Figure) -> Option<&Measure> {
        self.measures.iter().find(|measure| measure.figure == figure)
    }
}

impl Explanation {
    /// The explanation as a JSON object, on one line: `what`, `outcome`, the measured `figures` and those
    /// `expected` by name, `steps` with the same members, and the `conclusion`.
    pub fn to_json(&self) -> String {
        json::written(self)
    }

    /// The same with at most `most` steps within each step: of more, those with the smallest first figures
    /// become one step, which has the sums of their figures.
    #[must_use]
    pub fn shortened(mut self, most: usize) -> Explanation {
        shortened::shorten(&mut self.root, most.max(1));
        self
    }
}

/// Text: a line for each step, as a tree, and the conclusion.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::write_tree(f, &self.root)?;
        writeln!(f, "{}", self.conclusion)
    }
}
