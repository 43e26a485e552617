//! Strategies on a simulated store without files: reads stay correct whatever jobs run concurrently,
//! compaction ends, and the amplifications match the theory.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

#[path = "support/simulated_store.rs"]
mod simulated_store;

use esker_base::SeqNo;
use esker_env::SeededRandom;
use esker_strategy::*;
use esker_version::*;
use simulated_store::*;

/// A key by one of several patterns that change over time.
fn some_key(random: &SeededRandom, step: u32, keys: u32) -> u32 {
    let keys = u64::from(keys);
    match (step / 150) % 5 {
        0 => random.below(keys) as u32,
        1 => random.below(keys / 10) as u32,
        2 => (u64::from(step) % keys) as u32,
        3 => (keys - 1 - u64::from(step) % keys) as u32,
        _ => (random.below(2) * (keys / 2) + u64::from(step) % 100 % (keys / 2)) as u32,
    }
}

fn stress(seed: u64, steps: u32) -> u64 {
    let random = SeededRandom::new(seed);
    let keys = 300;
    let mut store = SimulatedStore::new(some_strategy(&random), some_options(&random));
    let threads = 1 + random.below(3) as usize;
    for step in 0..steps {
        if step % 100 == 0 {
            store.is_scanned = random.below(3) == 0;
        }
        store.write(some_key(&random, step, keys), random.below(5) == 0);
        if random.below(8) == 0 && store.running.len() < threads {
            let version = store.version();
            let shape = store.shape(&version, random.below(10) == 0);
            let plan = store.strategy.plan(&shape, &store.busy, &store.options);
            assert_eq!(plan, store.strategy.plan(&shape, &store.busy, &store.options), "the same twice");
            if let Some(plan) = plan {
                store.begin(plan);
            }
        }
        if random.below(12) == 0 && !store.running.is_empty() {
            let at = random.below(store.running.len() as u64) as usize;
            store.end(at, random.below(10) > 0);
            store.check();
        }
        match random.below(400) {
            0 => store.take_snapshot(),
            1 => store.snapshot = None,
            2 => store.switch(some_strategy(&random), random.below(2) == 0),
            3 => manual(&mut store, &random),
            4 => {
                store.migration = store
                    .migration
                    .map(|migration| Migration { is_paused: !migration.is_paused, ..migration });
            }
            5..20 => store.end_migration(),
            _ => {}
        }
    }
    store.drain(false);
    store.check();
    store.drain(true);
    store.check();
    store.snapshot = None;
    store.drain(true);
    store.check();
    assert!(
        store.overdue() == 0 || !store.strategy.merges(),
        "{}: deletes that are due stay",
        store.strategy
    );
    store.installs
}

/// Compacts a random range manually while jobs run; each step is executed at once.
fn manual(store: &mut SimulatedStore, random: &SeededRandom) {
    store.flush();
    let (a, b) = (random.below(300) as u32, random.below(300) as u32);
    let range = KeyRange::inclusive(key_bytes(a.min(b)), key_bytes(a.max(b)));
    let mark = ManualMark { seqno: SeqNo::MAX, part: store.state.next_part };
    for _ in 0..1000 {
        let version = store.version();
        let shape = store.shape(&version, false);
        match store.strategy.plan_manual(&shape, &store.busy, &store.options, &range, mark) {
            ManualStep::Plan(plan) => {
                store.begin(*plan);
                store.end(store.running.len() - 1, true);
            }
            ManualStep::Blocked if store.running.is_empty() => panic!("blocked by nothing"),
            ManualStep::Blocked => store.end(0, true),
            ManualStep::Done => {
                let above = version.runs().filter(|(level, _)| !level.is_last());
                assert_eq!(above.filter(|(_, run)| run.overlaps(&range)).count(), 0, "not all went down");
                return;
            }
        }
    }
    panic!("manual compaction does not end");
}

#[test]
fn reads_stay_correct_with_concurrent_jobs() {
    let installs: u64 = (0..300).map(|seed| stress(seed, 1500)).sum();
    assert!(installs > 20_000, "the worlds were busy: {installs}");
}

/// Read-triggered compaction leaves one run above the last level, and the last level alone.
#[test]
fn scans_get_one_run_above_the_last_level() {
    let options = StrategyOptions {
        memtable_bytes: 60 * ENTRY_BYTES,
        table_bytes: Some(30 * ENTRY_BYTES),
        max_job_bytes: Some(150 * ENTRY_BYTES),
        ..StrategyOptions::default()
    };
    let mut store = SimulatedStore::new(Strategy::Partitioned, options);
    (0..3000).for_each(|key| store.write(key, false));
    store.drain(true);
    assert_eq!(store.version().run_count(), 1);
    (0..150).for_each(|step| store.write(step * 7, false));
    store.is_scanned = true;
    let before = store.installs;
    store.drain(false);
    store.check();
    assert_eq!(store.version().run_count(), 2);
    assert!(store.installs > before);
}

/// Which trees become one run when idle, as the advice assumes.
#[test]
fn idle_makes_one_run_of_converging_trees() {
    for (name, converges) in [
        ("partitioned", true),
        ("lazy-leveled:4", true),
        // T-1 is one, so this is leveling.
        ("lazy-leveled:2", false),
        ("fluid:6,3/2,1", true),
        ("fluid:6,2,2", false),
        ("fluid:4,3/1,1", false),
        ("tiered-leveled:4", false),
        ("tiered:4", false),
        ("leveled:4", false),
        ("partial:3", false),
        ("golden-ratio", false),
        ("fifo:1GiB,merge", false),
        ("none", false),
    ] {
        let options = StrategyOptions {
            memtable_bytes: 60 * ENTRY_BYTES,
            table_bytes: Some(30 * ENTRY_BYTES),
            max_job_bytes: Some(150 * ENTRY_BYTES),
            small_garbage_bytes: 0,
            idle_permille: 0,
            ..StrategyOptions::default()
        };
        let mut store = SimulatedStore::new(name.parse().unwrap(), options);
        let random = SeededRandom::new(23);
        for _ in 0..9000 {
            store.write(random.below(3000) as u32, false);
            compact(&mut store);
        }
        store.drain(true);
        store.check();
        assert_eq!(store.strategy.converges(), converges, "{name}");
        assert_eq!(
            store.version().run_count() == 1,
            converges,
            "{name}: {} runs",
            store.version().run_count()
        );
    }
}

const KEYS: u32 = 8_000;

/// Overwrites all keys at random, `passes` times after the load; returns write amplification in the steady
/// state in 1/100, the greatest space and the drained space in percent.
fn overwrite(strategy: Strategy, garbage_permille: u32, memtable: u64, passes: u32) -> (u64, u64, u64) {
    let keys = KEYS;
    let options = StrategyOptions {
        memtable_bytes: memtable * ENTRY_BYTES,
        table_bytes: Some(u64::from(keys) / 69 * ENTRY_BYTES),
        // The built-in job limits of these strategies are far larger than this data.
        max_job_bytes: matches!(
            strategy,
            Strategy::Partitioned | Strategy::Partial { .. } | Strategy::GoldenRatio
        )
        .then(|| u64::from(keys) / 17 * ENTRY_BYTES),
        small_garbage_bytes: 0,
        garbage_permille,
        ..StrategyOptions::default()
    };
    let random = SeededRandom::new(5);
    let mut store = SimulatedStore::new(strategy, options);
    for key in 0..keys {
        store.write(key, false);
    }
    store.drain(true);
    let mut greatest = 0;
    let (mut written, mut user) = (0, 0);
    for pass in 0..passes {
        if pass == 1 {
            (written, user) = (store.written_bytes, 0);
        }
        for _ in 0..keys {
            let installs = store.installs;
            store.write(random.below(u64::from(keys)) as u32, false);
            user += ENTRY_BYTES;
            if store.installs != installs {
                compact(&mut store);
                greatest = greatest.max(store.space_percent());
            }
        }
    }
    let amplification = (store.written_bytes - written) * 100 / user;
    store.drain(true);
    store.check();
    (amplification, greatest, store.space_percent())
}

/// Executes all plans that follow a flush.
fn compact(store: &mut SimulatedStore) {
    loop {
        let version = store.version();
        let shape = store.shape(&version, false);
        let Some(plan) = store.strategy.plan(&shape, &store.busy, &store.options) else { return };
        // Its merges take windows of keys: a part of any run may rest, and would be read in vain.
        assert!(plan.filter || store.strategy != Strategy::Partitioned, "tables without filters: {plan:?}");
        store.begin(plan);
        store.end(0, true);
    }
}

#[test]
fn amplification_matches_the_theory() {
    // 17.3 memtables of data, as with 10 million entries and 64 MiB. The expected values come from a
    // simulation with exact key sets made when the rules were designed; they agree with the closed forms
    // within a fifth. Partial leveling writes less than that, 350 and 370, because data that exceeds its
    // first level passes through.
    let memtable = 462;
    for (name, write_amplification, space_at_rest) in [
        ("leveled:10", 530, 123),
        ("leveled:4", 480, 148),
        ("tiered:4", 280, 370),
        ("lazy-leveled:4", 296, 179),
        ("partial:10", 350, 149),
        ("partial:4", 300, 170),
        ("golden-ratio", 580, 240),
        ("partitioned", 283, 125),
    ] {
        let (amplification, greatest, drained) = overwrite(name.parse().unwrap(), 250, memtable, 5);
        let off_percent = amplification.abs_diff(write_amplification) * 100 / write_amplification;
        assert!(
            off_percent <= 15,
            "{name}: write amplification {amplification}, {write_amplification} expected"
        );
        assert!(greatest <= space_at_rest + 3, "{name}: space {greatest} %, {space_at_rest} expected");
        // Tiers stay, and so does a level between level 0 and the last: leveled:4 has one.
        let one_run = ["leveled:10", "lazy-leveled:4", "partitioned"].contains(&name);
        assert_eq!(drained == 100, one_run, "{name}: {drained} % when drained");
    }
}

#[test]
fn ascending_loads_are_written_once() {
    for name in ["leveled:10", "tiered:4", "lazy-leveled:4", "partitioned"] {
        let mut store = SimulatedStore::new(name.parse().unwrap(), some_options(&SeededRandom::new(3)));
        for key in 0..3000 {
            store.write(key, false);
            if key % 7 == 0 {
                compact(&mut store);
            }
        }
        store.drain(true);
        assert_eq!(store.written_bytes, 3000 * ENTRY_BYTES, "{name}");
        assert_eq!(store.version().run_count(), 1, "{name}");
    }
    // Two interleaved streams never overlap either.
    let options = StrategyOptions {
        memtable_bytes: 60 * ENTRY_BYTES,
        table_bytes: Some(16 * ENTRY_BYTES),
        max_job_bytes: Some(64 * ENTRY_BYTES),
        ..StrategyOptions::default()
    };
    let mut store = SimulatedStore::new(Strategy::Partitioned, options);
    for key in 0..1500 {
        store.write(key, false);
        store.write(1_000_000 + key, false);
        compact(&mut store);
    }
    store.drain(true);
    store.check();
    assert!(store.written_bytes <= 2 * 3000 * ENTRY_BYTES, "{} bytes written", store.written_bytes);
}

#[test]
fn drops_never_expose_older_versions() {
    let mut dropped = 0;
    for seed in 0..40 {
        let random = SeededRandom::new(seed);
        let mut store = SimulatedStore::new(some_strategy(&random), some_options(&random));
        let fifo: Strategy = if seed % 2 == 0 { "fifo:9000B" } else { "fifo:5000B,merge" }.parse().unwrap();
        let threads = 1 + random.below(3) as usize;
        for step in 0..1500 {
            store.write(some_key(&random, step, 300), random.below(5) == 0);
            if step == 600 {
                // Any tree can switch strategy, even with running jobs.
                store.strategy = fifo;
                store.may_lose = true;
            }
            let version = store.version();
            let plan = store.strategy.plan(&store.shape(&version, false), &store.busy, &store.options);
            if let Some(plan) = plan.filter(|_| store.running.len() < threads) {
                dropped += u32::from(plan.kind == PlanKind::Drop);
                store.begin(plan);
            }
            if random.below(3) == 0 && !store.running.is_empty() {
                let at = random.below(store.running.len() as u64) as usize;
                store.end(at, random.below(10) > 0);
                store.check();
            }
        }
        store.drain(false);
        store.check();
        assert!(store.version().bytes() <= 9000, "{} bytes are kept", store.version().bytes());
    }
    assert!(dropped > 1000, "much was dropped: {dropped}");
}

#[test]
fn round_robin_goes_round() {
    let random = SeededRandom::new(11);
    let options = StrategyOptions {
        memtable_bytes: 50 * ENTRY_BYTES,
        table_bytes: Some(10 * ENTRY_BYTES),
        max_job_bytes: Some(40 * ENTRY_BYTES),
        ..StrategyOptions::default()
    };
    let mut store = SimulatedStore::new("partial:4,round-robin".parse().unwrap(), options);
    let mut starts = Vec::new();
    for step in 0..20_000 {
        store.write(random.below(2000) as u32, false);
        let version = store.version();
        let plan = store.strategy.plan(&store.shape(&version, false), &store.busy, &store.options);
        let Some(plan) = plan else { continue };
        let goes_to_last = plan.reason == Reason::TooLarge && plan.to.level().is_last();
        if step > 4000 && goes_to_last {
            starts.push(plan.hull.start.clone());
        }
        store.begin(plan);
        store.end(0, true);
    }
    store.check();
    let rounds = starts.windows(2).filter(|pair| pair[1] < pair[0]).count();
    assert!(starts.len() > 200, "{} jobs", starts.len());
    assert!(rounds >= 5 && rounds * 8 < starts.len(), "{rounds} rounds of {} jobs", starts.len());
}

#[test]
fn deleting_everything_leaves_nothing() {
    for name in ["leveled:10", "lazy-leveled:4", "partitioned"] {
        let options = some_options(&SeededRandom::new(9));
        let mut store = SimulatedStore::new(name.parse().unwrap(), options);
        let random = SeededRandom::new(1);
        for _ in 0..3000 {
            store.write(random.below(1000) as u32, false);
            compact(&mut store);
        }
        for key in 0..1000 {
            store.write(key * 7 % 1000, true);
            compact(&mut store);
        }
        store.drain(true);
        store.check();
        assert_eq!(store.version().bytes(), 0, "{name}");
    }
}

#[test]
fn the_default_stays_below_a_quarter_of_garbage() {
    let garbage_permille = StrategyOptions::default().garbage_permille;
    let (writes, greatest, drained) = overwrite(Strategy::Partitioned, garbage_permille, 462, 5);
    assert!(greatest <= 125 && drained <= 102, "{greatest} %, drained {drained} %");
    assert!(writes <= 380, "a byte is written {writes} / 100 times");
}
