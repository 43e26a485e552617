//! What an experiment is, and the list of all of them.

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
    /// For tests of the experiments themselves: it ends in seconds in an unoptimised build, and its numbers
    /// mean nothing.
    Tiny,
    /// Less than a minute: to see where things stand. Some claims need more.
    Quick,
    /// Some minutes: what documents cite.
    Full,
}

impl Scale {
    /// The value of these three that belongs to this scale.
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
pub type StartAnother = fn(arguments: &[&str]) -> std::io::Result<Command>;

/// How to run an experiment.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How large it is.
    pub scale: Scale,
    /// Where random choices begin.
    pub seed: u64,
    /// Below which directory files lie that it needs meanwhile.
    pub scratch: PathBuf,
    /// For what only a process of its own can tell; without it, that is left out.
    pub start_another: Option<StartAnother>,
}

/// What an experiment found.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What decided about the numbers, a line each: sizes, rounds, what exactly was timed.
    pub setup: Vec<String>,
    /// The numbers.
    pub tables: Vec<Table>,
    /// Pictures of some of them.
    pub plots: Vec<Plot>,
    /// What was asked for.
    pub claims: Vec<Claim>,
    /// What documents report.
    pub comparisons: Vec<Comparison>,
}

/// An experiment.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// What to call it.
    pub name: &'static str,
    /// What it is about, in a line.
    pub title: &'static str,
    /// What it shows and how, in some sentences.
    pub about: &'static str,
    /// Does it.
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

    /// The one of this name.
    pub fn parse(name: &str) -> Option<&'static Experiment> {
        Experiment::ALL.iter().find(|experiment| experiment.name == name)
    }
}
