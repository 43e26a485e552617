//! The error sweep over random workloads: every call that changes the file system fails once, in some ways;
//! and of these calls and of the reads some fail from then on.
//!
//! `ESKER_PLANS=n` sweeps over n workloads for each log, and leaves out no call.
#![expect(clippy::print_stdout, reason = "counts are for people")]

use esker_testkit::errors::{FAULTS, Injection, Lasting, READ_FAULTS};
use esker_testkit::options::DATABASE;
use esker_testkit::{Generator, errors};

/// Workloads for each log, without `ESKER_PLANS`.
const PLANS: u64 = 4;
/// Without `ESKER_PLANS` so many calls are left out between two that fail, where not every call fails.
const STEP: usize = 7;

fn plans() -> Option<u64> {
    std::env::var("ESKER_PLANS")
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("ESKER_PLANS={text}")))
}

fn sweep(log: &str, first_seed: u64, injections: &[Injection], lasting: Lasting, step: usize) {
    let step = if plans().is_some() { 1 } else { step };
    for seed in first_seed..first_seed + plans().unwrap_or(PLANS) {
        let mut plan = Generator::plan(seed, 0);
        plan.script = Generator::writes(seed, 45, 20);
        plan.database = plan.database.with(DATABASE, "log", log).with(DATABASE, "log segment", "16 KiB");
        for injection in injections {
            match errors::sweep(&plan, injection, lasting, step) {
                Ok(runs) => {
                    println!("seed {seed}, {log} log: {runs} runs, {lasting:?} {:?}", injection.fault);
                }
                Err(failure) => panic!("seed {seed}, {log} log: {failure}"),
            }
        }
    }
}

#[test]
fn with_the_mapped_log() {
    sweep("mapped", 100, &FAULTS, Lasting::Once, 1);
}

#[test]
fn with_the_written_log() {
    sweep("written", 104, &FAULTS, Lasting::Once, 1);
}

#[test]
fn from_a_call_on() {
    sweep("mapped", 200, &FAULTS, Lasting::FromNowOn, STEP);
    sweep("written", 204, &FAULTS, Lasting::FromNowOn, STEP);
}

#[test]
fn of_reads() {
    for lasting in [Lasting::Once, Lasting::FromNowOn] {
        sweep("mapped", 300, &READ_FAULTS, lasting, STEP);
        sweep("written", 304, &READ_FAULTS, lasting, STEP);
    }
}
