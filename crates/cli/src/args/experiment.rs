//! Arguments of `experiment`.

use super::PAGE_COLUMNS;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use esker_experiments::Experiment;
use std::path::PathBuf;

/// Compare the kinds of a part: memtables, filters, codecs and so on
///
/// Prints tables of measurements with the figures that documents report. With --out, also writes a page, CSV
/// files and plots. Figures are meaningful on an idle machine only.
#[derive(Args, Debug)]
#[command(after_help = examples())]
pub(crate) struct ExperimentArgs {
    /// Which experiments, or all
    #[arg(value_name = "NAME", required = true, value_parser = chosen(), hide_possible_values = true)]
    pub(crate) chosen: Vec<Chosen>,
    /// The short form, seconds each: whether the pages hold; claims about large sizes are left out
    #[arg(long)]
    pub(crate) quick: bool,
    /// Write a page, CSV files and plots into this directory, too; their names begin with the experiment's
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Compress with this codec and print the memory it took: the child process of `codecs`
    #[arg(long, value_name = "CODEC", hide = true)]
    pub(crate) memory_of: Option<esker::options::Codec>,
}

/// Meaning of an experiment name on the command line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Chosen {
    /// All of them, in order.
    All,
    /// This one.
    One(&'static Experiment),
}

impl ExperimentArgs {
    pub(crate) fn experiments(&self) -> Vec<&'static Experiment> {
        let is_chosen = |experiment: &&Experiment| {
            self.chosen.iter().any(|chosen| match chosen {
                Chosen::All => true,
                Chosen::One(one) => one.name == experiment.name,
            })
        };
        Experiment::ALL.iter().filter(is_chosen).collect()
    }
}

/// Parser that knows the names, so that it can suggest the closest one.
fn chosen() -> impl TypedValueParser<Value = Chosen> {
    let names = Experiment::ALL.iter().map(|experiment| experiment.name);
    PossibleValuesParser::new(names.chain(["all"]))
        .map(|name| Experiment::parse(&name).map_or(Chosen::All, Chosen::One))
}

fn examples() -> String {
    let mut text = String::from("Experiments:\n");
    for experiment in Experiment::ALL {
        let mut line = format!("  {:<10}", experiment.name);
        for word in experiment.title.split(' ') {
            if line.len() + 1 + word.len() > PAGE_COLUMNS {
                text.extend([line.as_str(), "\n"]);
                line = " ".repeat(12);
            }
            line.extend([" ", word]);
        }
        text.extend([line.as_str(), "\n"]);
    }
    text.push_str(
        "
Examples:
  esker experiment hashes --quick
  esker experiment filters caches --out results
  esker experiment all --out docs/experiments/results

An experiment that needs a database makes it below the directory for temporary files, or below --data DIR.",
    );
    text
}
