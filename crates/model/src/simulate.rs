//! The simulation of a scenario.

use crate::outcome::Outcome;
use crate::scenario::{Pace, Scenario};
use crate::tally::Tally;
use crate::tree::Tree;
use crate::{paced, scale, settled};

/// Runs a scenario.
///
/// Takes about a second, whatever the size of the tree; as many flushes as [`Scenario::most_flushes`] times
/// the passes, with a plan and an edit for each job.
///
/// ```
/// use esker_model::{Scenario, Workload, simulate};
/// use esker_strategy::Strategy;
///
/// let workload = Workload { keys: 10_000_000, ..Workload::default() };
/// let leveled = simulate(&Scenario::new("leveled:10".parse()?, workload))?;
/// let tiered = simulate(&Scenario::new("tiered:4".parse()?, workload))?;
/// assert!(tiered.write_amplification < leveled.write_amplification);
/// assert!(tiered.space.mean > leveled.space.mean);
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
/// What is wrong with the scenario, as a sentence; or the rule that a strategy violated, which is a defect of
/// the strategy.
pub fn simulate(scenario: &Scenario) -> Result<Outcome, String> {
    scenario.check()?;
    let (options, scaling) = scale::affordable(scenario);
    let mut tree = Tree::new(scenario, options)?;
    let mut tally = Tally::new(scenario, scaling.as_ref());
    let keys = scenario.workload.keys as f64;
    let counted_from = tree.flushed_to + scenario.warm_up_passes * keys;
    write(scenario, &mut tree, &mut tally, counted_from)?;
    tally.counts = true;
    let until = counted_from + scenario.passes * keys;
    write(scenario, &mut tree, &mut tally, until)?;
    tally.counts = false;
    let at_rest = settled::settle(&mut tree, &mut tally, false)?;
    let idle = settled::settle(&mut tree, &mut tally, true)?;
    Ok(tally.finish(scenario, &tree, at_rest + idle, scaling))
}

fn write(scenario: &Scenario, tree: &mut Tree, tally: &mut Tally, until: f64) -> Result<(), String> {
    match scenario.pace {
        Pace::Settled => settled::run(scenario, tree, tally, until),
        Pace::Rate { bytes_per_s } => paced::run(scenario, tree, tally, until, bytes_per_s),
    }
}
