//! Experiments: the kinds of each part beside each other, and beside what others wrote, measured through
//! their public faces.
//!
//! `esker bench` asks how fast the database is; an experiment asks which kind of a part is best at what, and
//! whether what a document claims of it can be seen here. Each gives tables, which are files of
//! comma-separated values, too, plots, the ratios that were asked for with what was measured, and the
//! documents' ratios beside ours.
//!
//! # What makes the numbers honest
//! * Kinds are measured in turn, round for round, on the same keys ([`context`]); medians are shown with how
//!   far the rounds lay apart.
//! * Kinds are taken from the parts' own lists, or a test holds the list against theirs, so that none is left
//!   out.
//! * Every answer is checked at least once on the very structure that is measured; a wrong one ends the run
//!   without numbers.
//! * Claims and comparisons are computed from the rows of the tables that are printed.
//! * The machine, the seed and what exactly was timed stand beside the results.
//!
//! # Map
//! [`experiment`] what an experiment is, and the list of them; [`subjects`] the experiments; [`context`]
//! rounds, clock and scratch files; [`keys`] the keys they share; [`statistics`], [`claim`] and
//! [`comparison`] what is made of numbers; [`table`], [`plot`] and [`report`] how they are shown; [`machine`]
//! where they come from, and `counters` what its processor counts meanwhile.

#![forbid(unsafe_code)]

pub mod claim;
pub mod comparison;
mod context;
mod counters;
pub mod error;
pub mod experiment;
mod keys;
pub mod machine;
pub mod plot;
pub mod report;
pub mod statistics;
mod subjects;
pub mod table;

pub use context::{Unwatched, Watcher};
pub use error::ExperimentError;
pub use experiment::{Experiment, Outcome, Scale, Settings, StartAnother};
pub use machine::Machine;
pub use report::Report;
pub use subjects::codecs::compress_for_memory;

use context::{Context, time_ns};

/// Runs an experiment.
///
/// # Errors
/// [`ExperimentError::WrongAnswer`] if what is measured does not do what it is for; those of the database and
/// its parts.
pub fn run(
    experiment: &'static Experiment,
    settings: &Settings,
    watcher: &mut dyn Watcher,
) -> error::Result<Report> {
    let machine = Machine::look();
    let mut context = Context::new(experiment.name, settings, watcher);
    let (taken_ns, outcome) = time_ns(&context.clock(), || (experiment.run)(&mut context));
    Ok(Report { experiment, settings: settings.clone(), seconds: taken_ns / 1e9, machine, outcome: outcome? })
}
