//! Experiments: their form, their settings and results, and the list of all of them.

use crate::claim::Claim;
use crate::comparison::Comparison;
use crate::context::Context;
use crate::error::Result;
use crate::plot::Plot;
use crate::subjects;
use crate::table::Table;
use std::fmt;
use std::path::PathBuf;
use std::process::Command;

/// How large an experiment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scale {
    /// For tests of the experiments: ends in seconds in an unoptimised build, and its numbers mean nothing.
    Tiny,
    /// Less than a minute, for a first impression. Some claims need more.
    Quick,
    /// Some minutes; documents cite these numbers.
    Full,
}

impl Scale {
    /// The value for this scale.
    pub fn pick<T>(self, tiny: T, quick: T, full: T) -> T {
        match self {
            Scale::Tiny => tiny,
            Scale::Quick => quick,
            Scale::Full => full,
        }
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.pick("tiny", "quick", "full"))
    }
}

/// Starts this program once more, with these arguments of `esker experiment`.
pub type StartChild = fn(arguments: &[&str]) -> std::io::Result<Command>;

/// Settings of a run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How large it is.
    pub scale: Scale,
    /// Seed of all random choices.
    pub seed: u64,
    /// Directory for scratch files.
    pub scratch: PathBuf,
    /// Starts another process of this program, for measurements that need one; without it, they are left out.
    pub start_child: Option<StartChild>,
}

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
    pub(crate) run: fn(&mut Context<'_>) -> Result<Outcome>,
}

impl fmt::Debug for Experiment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Experiment").field(&self.name).finish()
    }
}

impl Experiment {
    /// All of them, in the order in which `all` runs them.
    pub const ALL: &[Experiment] = &[
        subjects::hashes::EXPERIMENT,
        subjects::memtables::EXPERIMENT,
        subjects::filters::EXPERIMENT,
        subjects::indexes::EXPERIMENT,
        subjects::caches::EXPERIMENT,
        subjects::codecs::EXPERIMENT,
        subjects::strategies::EXPERIMENT,
        subjects::csc443::EXPERIMENT,
        subjects::byron::EXPERIMENT,
        subjects::fractio::EXPERIMENT,
    ];

    /// The experiment of this name.
    pub fn parse(name: &str) -> Option<&'static Experiment> {
        Experiment::ALL.iter().find(|experiment| experiment.name == name)
    }
}
