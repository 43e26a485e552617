//! The input of a simulation.

use crate::cost::{Costs, Form};
use crate::workload::Workload;
use esker_filter::FilterKind;
use esker_strategy::write_control::level0_limits;
use esker_strategy::{Strategy, StrategyOptions};

/// How time passes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Flushes wait until nothing is planned, one job at a time: machine-independent, as in the formulas.
    Settled,
    /// Writers arrive at a rate in bytes a second, and jobs take time and run concurrently.
    Rate {
        /// The requested rate of writers, in bytes of keys and values a second.
        bytes_per_s: f64,
    },
}

/// The machine. It matters under [`Pace::Rate`] only.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Bytes a second that the disk writes for tables and log.
    pub disk_bytes_per_s: f64,
    /// Bytes a second that one thread merges.
    pub merge_bytes_per_s: f64,
    /// Threads for compactions; flushes have one of their own.
    pub threads: usize,
}

impl Default for Machine {
    /// A virtual disk of a cloud machine, and two cores.
    fn default() -> Machine {
        Machine { disk_bytes_per_s: 400e6, merge_bytes_per_s: 400e6, threads: 2 }
    }
}

/// What is simulated. Equal scenarios give equal outcomes.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// What is written.
    pub workload: Workload,
    /// The strategy.
    pub strategy: Strategy,
    /// Its options.
    pub options: StrategyOptions,
    /// How time passes.
    pub pace: Pace,
    /// What the tree runs on.
    pub machine: Machine,
    /// Writes before the measured phase, in passes over all keys.
    pub warm_up_passes: f64,
    /// Writes of the measured phase, in passes over all keys.
    pub passes: f64,
    /// Bytes of a table over the bytes of the keys and values in it.
    pub table_overhead: f64,
    /// Kind of filters.
    pub filter: FilterKind,
    /// Filter memory, in bits for each entry of the tree, divided over the runs by Monkey.
    pub filter_bits_per_key: f64,
    /// Level-0 runs at which writers are slowed, and stopped. For [`Pace::Rate`] only.
    pub level0_limits: (u32, u32),
    /// The most flushes of one pass that are simulated one by one; see [`crate::Scaling`].
    pub most_flushes: f64,
}

/// The least number of level-0 merges in the measured phase, where they differ. Writes arrive in bursts, each
/// when level 0 is full, and chance decides whether one more falls into the measured phase. Two passes over
/// ten million keys contain four or five, so the results of two such trees may differ by a quarter.
const LEAST_BURSTS: f64 = 16.0;
/// The most passes for that purpose: small trees have hardly one flush in each.
const MOST_PASSES: f64 = 16.0;

/// Passes after which an average is significant.
fn enough_passes(strategy: &Strategy, options: &StrategyOptions, flushes_per_pass: f64) -> f64 {
    // Trees that merge whole levels repeat with each cycle of the last level.
    let is_regular = !matches!(strategy, Strategy::Partial { .. } | Strategy::GoldenRatio);
    let burst = strategy.level0_trigger(options).filter(|_| !is_regular);
    let passes =
        burst.map_or(0.0, |runs| LEAST_BURSTS * f64::from(runs) / flushes_per_pass.max(f64::MIN_POSITIVE));
    passes.clamp(2.0, MOST_PASSES)
}

impl Scenario {
    /// A strategy at a workload, with the defaults for everything else: settled, a pass or a cycle of the
    /// last level to warm up, and at least two measured passes in whole cycles, with at least sixteen merges
    /// of level 0 where those proceed window by window.
    pub fn new(strategy: Strategy, workload: Workload) -> Scenario {
        Scenario::with_options(strategy, workload, StrategyOptions::default())
    }

    /// [`Scenario::new`] with these options.
    pub fn with_options(strategy: Strategy, workload: Workload, options: StrategyOptions) -> Scenario {
        let flushes =
            workload.keys as f64 * workload.operation_bytes() / options.memtable_bytes.max(1) as f64;
        let cycle = Form::of(&strategy, &options).map_or(1.0, |form| Costs::of(&form, flushes).cycle);
        let cycle = if cycle.is_finite() { cycle.clamp(0.01, 100.0) } else { 1.0 };
        let once = workload.input.starts_empty();
        let enough = enough_passes(&strategy, &options, flushes);
        Scenario {
            workload,
            strategy,
            level0_limits: level0_limits(&strategy, &options, None, None),
            options,
            pace: Pace::Settled,
            machine: Machine::default(),
            // The data loaded at once must have expired.
            warm_up_passes: if once {
                0.0
            } else {
                (workload.ttl_passes.unwrap_or(1.0).max(1.0) / cycle).ceil() * cycle
            },
            passes: if once { 1.0 } else { (enough / cycle).ceil() * cycle },
            table_overhead: 1.0,
            filter: FilterKind::BlockedBloom,
            filter_bits_per_key: 10.0,
            most_flushes: 2500.0,
        }
    }

    /// Flushes in one pass over all keys: the size of the data in memtables.
    pub fn flushes_per_pass(&self) -> f64 {
        self.workload.keys as f64 * self.workload.operation_bytes()
            / self.options.memtable_bytes.max(1) as f64
    }

    /// Whether the scenario can be simulated; takes constant time.
    ///
    /// # Errors
    /// What is wrong with it, as a sentence.
    pub fn check(&self) -> Result<(), String> {
        let workload = &self.workload;
        if workload.keys == 0 || workload.keys > 1_000_000_000_000_000 {
            return Err(format!("there are 1 to 10^15 keys, not {}", workload.keys));
        }
        if workload.key_bytes == 0 {
            return Err("a key has at least one byte".into());
        }
        if !(0.0..=0.95).contains(&workload.deleted_share) {
            return Err(format!("the part of deletes is 0 to 0.95, not {}", workload.deleted_share));
        }
        if workload.ttl_passes.is_some_and(|passes| !(passes > 0.0 && passes <= 1000.0)) {
            return Err("entries live for more than 0 and at most 1000 passes".into());
        }
        let positive = [
            ("number of passes", self.passes),
            ("table overhead", self.table_overhead),
            ("disk bandwidth", self.machine.disk_bytes_per_s),
            ("merge bandwidth", self.machine.merge_bytes_per_s),
            ("number of flushes", self.most_flushes),
        ];
        for (what, number) in positive {
            if !(number > 0.0 && number.is_finite()) {
                return Err(format!("the {what} is a positive number, not {number}"));
            }
        }
        if !(0.0..=1000.0).contains(&self.warm_up_passes) || self.passes > 1000.0 {
            return Err("a simulation makes at most 1000 passes".into());
        }
        if let Pace::Rate { bytes_per_s } = self.pace
            && !(bytes_per_s > 0.0 && bytes_per_s.is_finite())
        {
            return Err(format!("writers write a positive number of bytes a second, not {bytes_per_s}"));
        }
        if self.options.memtable_bytes < workload.operation_bytes() as u64 + 1 {
            return Err("a memtable holds at least one entry".into());
        }
        if !(0.0..=1000.0).contains(&self.filter_bits_per_key) {
            return Err(format!(
                "filters have 0 to 1000 bits for each entry, not {}",
                self.filter_bits_per_key
            ));
        }
        if let Strategy::Fifo(limits) = self.strategy
            && limits.max_age_ms.is_some()
            && self.pace == Pace::Settled
        {
            let strategy = self.strategy;
            return Err(format!(
                "{strategy} drops by age, and no time passes without a rate at which is written"
            ));
        }
        if self.machine.threads == 0 {
            return Err("compaction needs at least one thread".into());
        }
        Ok(())
    }
}
