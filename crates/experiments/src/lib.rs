//! Experiments: compare the kinds of each part with each other and with published figures, through their
//! public interfaces.
//!
//! `esker bench` measures how fast the database is; an experiment measures which kind of a part is best at
//! what, and whether a document's claim can be reproduced. Each returns tables, which are also written as CSV
//! files, plots, required ratios beside measured ones, and the documents' ratios beside ours.
//!
//! # Rules of measurement
//! * Kinds are measured in turn, round for round, on the same keys ([`context`]); medians are shown with the
//!   spread of the rounds.
//! * Kinds are taken from the parts' own lists, or a test compares the list with theirs, so that none is left
//!   out.
//! * Every answer is checked at least once on the very structure that is measured; a wrong one ends the run
//!   without numbers.
//! * Claims and comparisons are computed from the rows of the tables that are printed.
//! * What a page says of counts is checked in every run ([`finding`]).
//! * The machine, the seed and what exactly was timed are part of the results.
//!
//! # Map
//! [`experiment`] the form of an experiment, and the list of them; [`subjects`] the experiments; [`context`]
//! rounds, clock and scratch files; [`keys`] the keys they share; [`statistics`], [`claim`],
//! [`finding`] and [`comparison`] evaluate numbers; [`table`], [`plot`] and [`report`] print them;
//! [`machine`] describes the machine, and `counters` reads its hardware counters.

#![forbid(unsafe_code)]

pub mod claim;
pub mod comparison;
mod context;
mod counters;
pub mod error;
pub mod experiment;
pub mod finding;
mod keys;
pub mod machine;
pub mod plot;
pub mod report;
pub mod settings;
pub mod statistics;
mod subjects;
pub mod table;

pub use context::{NoProgress, Watcher};
pub use error::ExperimentError;
pub use experiment::{Experiment, Outcome};
pub use finding::Finding;
pub use machine::Machine;
pub use report::Report;
pub use settings::{Scale, Settings, StartChild};
pub use subjects::codecs::compress_for_memory;

use context::{Context, time_ns};

/// Runs an experiment.
///
/// # Errors
/// [`ExperimentError::WrongAnswer`] if a subject gives a wrong answer; those of the database and its parts.
pub fn run(
    experiment: &'static Experiment,
    settings: &Settings,
    watcher: &mut dyn Watcher,
) -> error::Result<Report> {
    let machine = Machine::look();
    let mut context = Context::new(experiment.name, settings, watcher);
    let (taken_ns, outcome) = time_ns(&context.clock(), || (experiment.run)(&mut context));
    let outcome = outcome?;
    let findings = experiment.findings_of(&outcome, settings.scale);
    let seconds = taken_ns / 1e9;
    Ok(Report { experiment, settings: settings.clone(), seconds, machine, outcome, findings })
}
