//! The accumulation of results.

use crate::outcome::{Amplification, Outcome, Scaling, Stalls};
use crate::scenario::Scenario;
use crate::tree::{Job, Tree};
use crate::workload::Input;
use esker_filter::monkey::{FilterGoal, FilteredRun, RateCurve, allocate};
use esker_strategy::{PlanKind, Reason};
use std::sync::Arc;

/// Sampled lookups in the measured phase: planning a filter for each run takes some microseconds.
const LOOKUP_SAMPLES: f64 = 200.0;

#[derive(Debug)]
pub(crate) struct Tally {
    curve: Arc<RateCurve>,
    filter_bits_per_key: f64,
    operation_bytes: f64,
    /// Operations between two samples of lookups.
    sample_every: f64,
    next_sample: f64,
    /// How many real runs each simulated one beside the largest represents, and how many of them span a key.
    runs_for_one: f64,
    spanning_for_one: f64,
    pub(crate) counts: bool,
    operations: f64,
    flushed_bytes: u64,
    read_bytes: u64,
    merged_bytes: u64,
    causes: Vec<(Reason, u64)>,
    jobs: u64,
    free_jobs: u64,
    largest_job_bytes: u64,
    space: Weighed,
    transient_space: f64,
    lookups: Lookups,
    pub(crate) stalls: Stalls,
    pub(crate) elapsed_s: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Weighed {
    sum: f64,
    weight: f64,
    max: f64,
    /// The maximum of all values with a weight.
    max_weighed: f64,
}

impl Weighed {
    fn add(&mut self, value: f64, weight: f64) {
        self.sum += value * weight;
        self.weight += weight;
        self.max = self.max.max(value);
        if weight > 0.0 {
            self.max_weighed = self.max_weighed.max(value);
        }
    }

    fn mean(&self) -> f64 {
        if self.weight > 0.0 { self.sum / self.weight } else { self.max }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Lookups {
    runs: Weighed,
    in_vain: Weighed,
    found: Weighed,
    filter_bytes: Weighed,
}

impl Tally {
    pub(crate) fn new(scenario: &Scenario, scaling: Option<&Scaling>) -> Tally {
        // Without merges each flush is a run; those of ascending keys lie beside each other.
        let runs_for_one =
            scaling.filter(|scaling| scaling.levels == 0).map_or(1.0, |scaling| scaling.memtable_factor);
        let is_swept = scenario.workload.input == Input::Sequential;
        Tally {
            runs_for_one,
            spanning_for_one: if is_swept { 1.0 } else { runs_for_one },
            curve: RateCurve::of(scenario.filter),
            filter_bits_per_key: scenario.filter_bits_per_key,
            operation_bytes: scenario.workload.operation_bytes(),
            sample_every: scenario.passes * scenario.workload.keys as f64 / LOOKUP_SAMPLES,
            next_sample: f64::NEG_INFINITY,
            counts: false,
            operations: 0.0,
            flushed_bytes: 0,
            read_bytes: 0,
            merged_bytes: 0,
            causes: Vec::new(),
            jobs: 0,
            free_jobs: 0,
            largest_job_bytes: 0,
            space: Weighed::default(),
            transient_space: 0.0,
            lookups: Lookups::default(),
            stalls: Stalls::default(),
            elapsed_s: 0.0,
        }
    }

    pub(crate) fn flushed(&mut self, operations: f64, bytes: u64) {
        if self.counts {
            self.operations += operations;
            self.flushed_bytes += bytes;
        }
    }

    /// Records a job before its install.
    pub(crate) fn job(&mut self, job: &Job) {
        if !self.counts {
            return;
        }
        if job.plan.kind != PlanKind::Merge {
            self.free_jobs += 1;
            return;
        }
        self.jobs += 1;
        self.read_bytes += job.plan.est_in_bytes;
        self.merged_bytes += job.out_bytes;
        self.largest_job_bytes = self.largest_job_bytes.max(job.out_bytes);
        match self.causes.iter_mut().find(|(reason, _)| *reason == job.plan.reason) {
            Some((_, bytes)) => *bytes += job.out_bytes,
            None => self.causes.push((job.plan.reason, job.out_bytes)),
        }
    }

    /// Records the state of the tree for a time of this weight, with the bytes of unfinished outputs.
    pub(crate) fn observe(&mut self, tree: &Tree, weight: f64, making_bytes: u64) {
        if !self.counts {
            return;
        }
        let live = tree.live_bytes().max(1.0);
        self.space.add(tree.version().bytes() as f64 / live, weight);
        let all_bytes = tree.file_bytes + making_bytes;
        self.transient_space = self.transient_space.max(all_bytes as f64 / live);
    }

    /// Samples lookups when due.
    pub(crate) fn sample(&mut self, tree: &Tree) {
        if !self.counts || tree.flushed_to < self.next_sample {
            return;
        }
        self.next_sample = tree.flushed_to + self.sample_every;
        let runs = tree.runs();
        // Most keys are found in the largest run, whose filter then costs nothing.
        let largest = (0..runs.len()).max_by_key(|&at| runs[at].entries);
        // A run that represents many smaller ones is searched as often as all of those.
        let spanning = runs.iter().enumerate().map(|(at, run)| {
            let runs = if Some(at) == largest { 1.0 } else { self.spanning_for_one };
            FilteredRun { keys: run.entries, weight: run.covered * runs }
        });
        let filtered: Vec<FilteredRun> = spanning.collect();
        let bits = allocate(&filtered, FilterGoal::BitsPerKey(self.filter_bits_per_key), &self.curve);
        let rates: Vec<f64> = bits.iter().map(|&bits| self.curve.rate(bits)).collect();
        let in_vain: f64 = filtered.iter().zip(&rates).map(|(run, rate)| run.weight * rate).sum();
        let of_largest = largest.map_or(0.0, |at| filtered[at].weight * rates[at]);
        let at_most = runs.len().min(1) as f64 + runs.len().saturating_sub(1) as f64 * self.runs_for_one;
        let filter_bits: f64 = filtered.iter().zip(&bits).map(|(run, bits)| run.keys as f64 * bits).sum();
        self.lookups.runs.add(filtered.iter().map(|run| run.weight).sum(), 1.0);
        self.lookups.runs.max = self.lookups.runs.max.max(at_most);
        self.lookups.in_vain.add(in_vain, 1.0);
        self.lookups.found.add(1.0 + in_vain - of_largest, 1.0);
        self.lookups.filter_bytes.add(filter_bits / 8.0, 1.0);
    }

    pub(crate) fn finish(
        mut self,
        scenario: &Scenario,
        tree: &Tree,
        drain_bytes: u64,
        scaling: Option<Scaling>,
    ) -> Outcome {
        self.causes.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        let user_bytes = self.operations * self.operation_bytes;
        let by_user = |bytes: u64| bytes as f64 / user_bytes.max(1.0);
        let levels = scaling.map_or(0.0, |scaling| f64::from(scaling.levels));
        let added_writes = scaling.map_or(0.0, |scaling| levels * scaling.writes_of_a_level);
        let added_runs = scaling.map_or(0.0, |scaling| levels * scaling.runs_of_a_level);
        let written = self.flushed_bytes + self.merged_bytes;
        let version = tree.version();
        Outcome {
            strategy: scenario.strategy,
            user_bytes,
            flushed_bytes: self.flushed_bytes,
            read_bytes: self.read_bytes,
            merged_bytes: self.merged_bytes,
            causes: self.causes,
            write_amplification: by_user(written) + added_writes,
            drained_write_amplification: by_user(written + drain_bytes) + added_writes,
            space: Amplification { mean: self.space.mean(), max: self.space.max },
            space_at_rest: self.space.max_weighed,
            transient_space: self.transient_space,
            drained_space: version.bytes() as f64 / tree.live_bytes().max(1.0),
            runs: Amplification {
                mean: self.lookups.runs.mean() + added_runs,
                max: self.lookups.runs.max + 2.0 * added_runs,
            },
            reads_in_vain: self.lookups.in_vain.mean(),
            reads_found: self.lookups.found.mean(),
            filter_bytes: self.lookups.filter_bytes.mean(),
            jobs: self.jobs,
            free_jobs: self.free_jobs,
            largest_job_bytes: self.largest_job_bytes,
            stalls: self.stalls,
            elapsed_s: self.elapsed_s,
            levels: version
                .levels()
                .iter()
                .map(|level| (level.index.to_string(), level.runs().len(), level.bytes()))
                .collect(),
            scaling,
        }
    }
}
