//! Intervals of time compared with real keys: the same plans executed on tables that hold every entry.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

#[expect(dead_code, reason = "the tests of strategies need more of it")]
#[path = "../../strategy/tests/support/simulated_store.rs"]
mod simulated_store;

use esker_env::SeededRandom;
use esker_model::{Input, Scenario, Workload, simulate};
use esker_strategy::{Strategy, StrategyOptions};
use simulated_store::{ENTRY_BYTES, SimulatedStore};

const KEYS: u64 = 200_000;
/// The same ratio as ten million entries of 116 bytes to 64 MiB.
const MEMTABLE: u64 = 11_570;
const WARM_UP: u64 = 1;
const PASSES: u64 = 2;

/// Write amplification, and mean space at rest.
struct Found {
    writes: f64,
    space: f64,
}

fn options(strategy: Strategy) -> StrategyOptions {
    StrategyOptions {
        memtable_bytes: MEMTABLE * ENTRY_BYTES,
        table_bytes: Some(KEYS / 69 * ENTRY_BYTES),
        max_job_bytes: (strategy == Strategy::Partitioned).then_some(KEYS / 14 * ENTRY_BYTES),
        small_garbage_bytes: 0,
        ..StrategyOptions::default()
    }
}

fn with_keys(strategy: Strategy, input: Input, deleted_percent: u64) -> Found {
    let random = SeededRandom::new(7);
    let mut store = SimulatedStore::new(strategy, options(strategy));
    for key in 0..KEYS as u32 {
        // Keeps the share of deleted keys that the simulation has in the long run.
        if random.below(100) >= deleted_percent {
            store.write(key, false);
        }
    }
    store.drain(true);
    let (mut written, mut space, mut states) = (0, 0.0, 0);
    for operation in 0..(WARM_UP + PASSES) * KEYS {
        if operation == WARM_UP * KEYS {
            settle(&mut store);
            written = store.written_bytes;
            (space, states) = (0.0, 0);
        }
        let key = match input {
            Input::HotRange if random.below(5) < 4 => random.below(KEYS / 5),
            Input::HotRange => KEYS / 5 + random.below(KEYS - KEYS / 5),
            // Every fifth key is a popular one.
            Input::EightyTwenty if random.below(5) < 4 => random.below(KEYS / 5) * 5,
            Input::EightyTwenty => {
                let unpopular = random.below(KEYS / 5 * 4);
                unpopular / 4 * 5 + 1 + unpopular % 4
            }
            _ => random.below(KEYS),
        };
        store.write(key as u32, random.below(100) < deleted_percent);
        // Memtables are sealed by the bytes written to them, not by the bytes that remain.
        if (operation + 1) % MEMTABLE == 0 {
            settle(&mut store);
            space += store.space_percent() as f64 / 100.0;
            states += 1;
        }
    }
    settle(&mut store);
    Found {
        writes: (store.written_bytes - written) as f64 / (PASSES * KEYS * ENTRY_BYTES) as f64,
        space: space / f64::from(states),
    }
}

/// Flushes, and executes all plans of the strategy.
fn settle(store: &mut SimulatedStore) {
    store.flush();
    loop {
        let version = store.version();
        let plan = store.strategy.plan(&store.shape(&version, false), &store.busy, &store.options);
        let Some(plan) = plan else { return };
        drop(version);
        store.begin(plan);
        store.end(0, true);
    }
}

fn with_intervals(strategy: Strategy, input: Input, deleted_percent: u64) -> Found {
    let workload = Workload {
        keys: KEYS,
        // With real keys tombstones have the size of entries.
        key_bytes: 99,
        value_bytes: 1,
        input,
        deleted_share: deleted_percent as f64 / 100.0,
        ttl_passes: None,
    };
    let mut scenario = Scenario::with_options(strategy, workload, options(strategy));
    (scenario.warm_up_passes, scenario.passes) = (WARM_UP as f64, PASSES as f64);
    let outcome = simulate(&scenario).unwrap();
    Found { writes: outcome.write_amplification, space: outcome.space.mean }
}

#[track_caller]
fn near(what: &str, found: f64, expected: f64, error: f64) {
    let off = found / expected - 1.0;
    assert!(
        off.abs() <= error,
        "{what}: {found:.3} by intervals, {expected:.3} by keys ({:.1} %)",
        100.0 * off
    );
}

/// Where the densest window is chosen, real densities vary by chance, while those of intervals are all equal.
fn writes_error(strategy: Strategy) -> f64 {
    if strategy == Strategy::Partitioned { 0.08 } else { 0.03 }
}

fn compare(strategy: &str, input: Input, deleted_percent: u64) {
    let parsed: Strategy = strategy.parse().unwrap();
    let keys = with_keys(parsed, input, deleted_percent);
    let intervals = with_intervals(parsed, input, deleted_percent);
    near(&format!("writes of {strategy}, {input}"), intervals.writes, keys.writes, writes_error(parsed));
    near(&format!("space of {strategy}, {input}"), intervals.space, keys.space, 0.03);
}

#[test]
fn intervals_are_as_good_as_keys_when_all_are_equal() {
    for strategy in ["leveled:4", "leveled:10", "tiered:4", "lazy-leveled:4", "fluid:6,2,2", "partitioned"] {
        compare(strategy, Input::Uniform, 0);
    }
}

#[test]
fn intervals_are_as_good_as_keys_when_some_are_popular() {
    for strategy in ["leveled:10", "tiered:4", "partitioned"] {
        compare(strategy, Input::EightyTwenty, 0);
        compare(strategy, Input::HotRange, 0);
    }
}

#[test]
fn intervals_are_as_good_as_keys_when_some_are_deleted() {
    for strategy in ["leveled:10", "lazy-leveled:4", "partitioned"] {
        compare(strategy, Input::Uniform, 25);
    }
}
