//! The model test: random operations on the database and on an oracle, with every answer compared.
//!
//! A failing plan is shrunk and printed. `ESKER_SEED=n` runs one plan; `ESKER_PLANS=n` sets the number of
//! plans in each of the two tests, and `ESKER_SHRINK=0` leaves a failing plan as it is.

#![expect(clippy::print_stdout, reason = "seeds and counts are for people")]

use esker::parts::env::Env;
use esker_testkit::script::{Op, PathChange, Plan};
use esker_testkit::{Generator, Outcome, TestDir, model, shrink};

/// Operations of one plan.
const OPERATIONS: usize = 2_500;

/// Plans in each of the two tests, which run in parallel: together 650,000 operations.
const PLANS: u64 = 130;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}")))
}

fn check(plan: &Plan, run: &dyn Fn(&Plan) -> Outcome<u64>) -> u64 {
    run(plan).unwrap_or_else(|failure| {
        println!("{failure}\nreproduce: ESKER_SEED={} cargo test -p esker-testkit --test model", plan.seed);
        if variable("ESKER_SHRINK") == Some(0) {
            panic!("{failure}");
        }
        let (smaller, failure) = shrink::shrink(plan, run);
        panic!("{failure}\n{smaller:?}")
    })
}

/// Runs plans with these seeds.
fn simulate(seeds: impl Iterator<Item = u64>) {
    let mut checked = 0;
    let mut plans = 0;
    match variable("ESKER_SEED") {
        Some(seed) => checked = check(&Generator::plan(seed, OPERATIONS), &model::run),
        None => {
            for seed in seeds.take(variable("ESKER_PLANS").unwrap_or(PLANS) as usize) {
                checked += check(&Generator::plan(seed, OPERATIONS), &model::run);
                plans += 1;
            }
            assert!(checked >= plans * OPERATIONS as u64);
        }
    }
    println!("{checked} operations checked in {plans} plans");
}

#[test]
fn the_database_agrees_with_the_oracle_even_seeds() {
    simulate((0..).map(|number| 2 * number));
}

#[test]
fn the_database_agrees_with_the_oracle_odd_seeds() {
    simulate((0..).map(|number| 2 * number + 1));
}

/// A name that need not be text.
#[cfg(unix)]
fn directory(seed: u64) -> std::ffi::OsString {
    use std::os::unix::ffi::OsStringExt;
    std::ffi::OsString::from_vec(vec![b'd', b'b', if seed.is_multiple_of(2) { b'0' } else { 0xff }])
}

#[cfg(not(unix))]
fn directory(_: u64) -> &'static str {
    "db"
}

/// The same on real files with background threads: few plans, because syncs take time, and none is shrunk,
/// because threads do not follow the seed.
#[test]
fn the_answers_are_right_with_real_files_and_threads() {
    for seed in 0..6 {
        let mut plan = Generator::plan(1_000_000 + seed, 600);
        // Only real files have paths that change their meaning, and the dice rarely choose it.
        for (number, change) in PathChange::ALL.into_iter().enumerate() {
            plan.script.insert(140 * number + 20 * seed as usize, Op::ChangePath(change));
        }
        let dir = TestDir::new("model");
        if let Err(failure) = model::run_in(&plan, Env::real(), &dir.path().join(directory(seed))) {
            panic!("{failure}\n{plan:?}");
        }
    }
}
