//! The experiments, a module each, and the list of all of them.

pub(crate) mod blocks;
pub(crate) mod byron;
pub(crate) mod caches;
pub(crate) mod codecs;
pub(crate) mod csc443;
pub(crate) mod filters;
pub(crate) mod fractio;
pub(crate) mod hashes;
pub(crate) mod indexes;
pub(crate) mod memtables;
pub(crate) mod scaling;
pub(crate) mod strategies;

use crate::experiment::Experiment;

impl Experiment {
    /// All of them, in the order in which `all` runs them.
    pub const ALL: &[Experiment] = &[
        hashes::EXPERIMENT,
        memtables::EXPERIMENT,
        filters::EXPERIMENT,
        indexes::EXPERIMENT,
        blocks::EXPERIMENT,
        caches::EXPERIMENT,
        codecs::EXPERIMENT,
        strategies::EXPERIMENT,
        scaling::EXPERIMENT,
        csc443::EXPERIMENT,
        byron::EXPERIMENT,
        fractio::EXPERIMENT,
    ];

    /// The experiment of this name.
    pub fn parse(name: &str) -> Option<&'static Experiment> {
        Experiment::ALL.iter().find(|experiment| experiment.name == name)
    }
}
