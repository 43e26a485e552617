//! The soak: every kind of work at once on real files, with every answer compared; with the tests for some
//! seconds.
//!
//! `ESKER_SOAK_SECONDS=n` soaks so long, with a budget of 64 MiB; `ESKER_SOAK_RATE=n` lets each worker do at
//! most n operations a second.
use esker_testkit::soak::{SoakPlan, run};
use std::time::Duration;

const SECONDS: u64 = 10;
const BUDGET_BYTES: u64 = 16 << 20;
const LONG_BUDGET_BYTES: u64 = 64 << 20;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}")))
}

#[test]
fn every_answer_is_right_under_all_kinds_of_work() {
    let seconds = variable("ESKER_SOAK_SECONDS");
    let plan = SoakPlan {
        time: Duration::from_secs(seconds.unwrap_or(SECONDS)),
        budget_bytes: if seconds.is_some() { LONG_BUDGET_BYTES } else { BUDGET_BYTES },
        rate: variable("ESKER_SOAK_RATE"),
        seed: variable("ESKER_SEED").unwrap_or(1),
    };
    match run(&plan, &|line| println!("{line}")) {
        Ok(report) => println!("{report}"),
        Err(failure) => panic!("{failure}"),
    }
}
