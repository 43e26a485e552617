//! The error sweep over random workloads: every call that changes the file system fails once, in three ways.
#![expect(clippy::print_stdout, reason = "counts are for people")]

use esker_testkit::options::DATABASE;
use esker_testkit::{Generator, errors};

fn sweep(log: &str, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let mut plan = Generator::plan(seed, 0);
        plan.script = Generator::writes(seed, 45, 20);
        plan.database = plan.database.with(DATABASE, "log", log).with(DATABASE, "log segment", "16 KiB");
        for (fault, operations) in errors::FAULTS {
            match errors::sweep(&plan, fault, operations) {
                Ok(runs) => println!("seed {seed}, {log} log: {runs} runs, one {fault:?} in each"),
                Err(failure) => panic!("seed {seed}, {log} log: {failure}"),
            }
        }
    }
}

#[test]
fn with_the_mapped_log() {
    sweep("mapped", 100..104);
}

#[test]
fn with_the_written_log() {
    sweep("written", 104..108);
}
