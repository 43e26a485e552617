//! The crash sweep over scripted workloads: every cut of every trace, with the mapped and with the written
//! log.
//!
//! A failure names the workload, the log, the cut and the crash; the only randomness comes from these
//! numbers. `ESKER_IMAGES=n` checks n images in total, the same number of each workload: half of them of
//! cuts, half of cuts of recoveries. `ESKER_SEED=n` chooses others.
#![expect(clippy::print_stdout, reason = "counts are for people")]

use esker::Durability;
use esker::ingest::IngestMode;
use esker_testkit::crash::{self, Extent};
use esker_testkit::ingest::LoadMethod;
use esker_testkit::options::{Chosen, DATABASE, KEYSPACE};
use esker_testkit::script::{Action, Edit, Op, Plan, Step, WriteMethod};
use esker_testkit::{Filler, Generator, Key};
use std::ops::Bound;

/// A write to some keyspaces: a plain one, or a batch if there are several.
fn write(number: u32, spaces: &[u8], len: u32, durability: Durability) -> Op {
    let key = Key(40 + (number * 7 % 50) as u16);
    let value = Filler { number, len };
    let action = match number % 13 {
        // The latest keys, a range inside them, or everything after a key.
        4 => Action::DeleteUpTo(Bound::Excluded(Key(key.0 + 9))),
        11 => Action::DeleteUpTo(Bound::Unbounded),
        _ if number % 6 == 5 => Action::Delete,
        _ => Action::Put(value),
    };
    let edits: Vec<Edit> = spaces.iter().map(|&space| Edit { space, key, action }).collect();
    let how = if edits.len() == 1 { WriteMethod::Plain } else { WriteMethod::Batch };
    Op::Write { edits, how, durability }
}

fn writes(numbers: std::ops::Range<u32>, spaces: &[u8], len: u32) -> Vec<Op> {
    numbers.map(|number| write(number, spaces, len, Durability::Process)).collect()
}

fn plan(options: &[(&str, &str)], script: Vec<Op>) -> Plan {
    let mut chosen = Chosen::plain(KEYSPACE).with(KEYSPACE, "filter", "bloom");
    for (row, choice) in options {
        chosen = chosen.with(KEYSPACE, row, choice);
    }
    let database = Chosen::plain(DATABASE).with(DATABASE, "log segment", "16 KiB");
    Plan { seed: 11, database, spaces: [chosen.clone(), chosen.clone(), chosen], script }
}

/// The names of all workloads: each gets the same share of `ESKER_IMAGES`.
const WORKLOADS: [&str; 22] = [
    "creation",
    "flushes",
    "leveled:2",
    "tiered:2",
    "partitioned",
    "rotation",
    "idle keyspace",
    "durability",
    "unlogged",
    "followed",
    "transactions",
    "merges",
    "an operator given later",
    "recovery",
    "drop",
    "following",
    "option changes",
    "ingest",
    "large values",
    "any calls of seed 0",
    "any calls of seed 1",
    "any calls of seed 2",
];
const LOGS: [&str; 2] = ["mapped", "written"];

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// The share of `ESKER_IMAGES`; without it every cut, and of every so many the cuts of the recovery.
fn extent(workload: usize, log: usize, nested_every: usize) -> Extent {
    let Some(images) = variable("ESKER_IMAGES") else {
        return Extent::EveryCut(crash::Nesting { every: nested_every, deeper_every: 8, deeper_cuts: 1 });
    };
    let sweeps = (WORKLOADS.len() * LOGS.len()) as u64;
    let place = (workload * LOGS.len() + log) as u64;
    let number = images * (place + 1) / sweeps - images * place / sweeps;
    Extent::Images { number, seed: variable("ESKER_SEED").unwrap_or(0) * sweeps + place }
}

/// Sweeps over a plan with both kinds of log.
fn sweep(name: &str, plan: &Plan, nested_every: usize) {
    let workload = WORKLOADS.iter().position(|known| *known == name);
    let workload = workload.unwrap_or_else(|| panic!("{name} is missing in WORKLOADS"));
    for (number, log) in LOGS.into_iter().enumerate() {
        let mut plan = plan.clone();
        plan.database = plan.database.with(DATABASE, "log", log);
        let recording = crash::record(&plan).unwrap_or_else(|failure| panic!("{name}, {log} log: {failure}"));
        let extent = extent(workload, number, nested_every);
        let done = recording.sweep(extent).unwrap_or_else(|failure| panic!("{name}, {log} log: {failure}"));
        println!("{name}, {log} log: {done:?}");
        if let Extent::Images { number, .. } = extent {
            assert_eq!(done.images, number, "{name}, {log} log: there are no more images of it");
        }
    }
}

const TINY: &[(&str, &str)] = &[("write buffer", "4 KiB"), ("table size", "4 KiB"), ("block size", "512")];

#[test]
fn creation_and_first_writes() {
    let mut script = writes(0..6, &[0], 50);
    script.extend(writes(6..10, &[1, 2], 50));
    script.push(Op::Reopen { flush_on_close: false });
    script.extend(writes(10..14, &[0, 1], 50));
    sweep("creation", &plan(TINY, script), 6);
}

#[test]
fn flushes() {
    let mut script = writes(0..40, &[0], 400);
    script.push(Op::Flush);
    script.extend(writes(40..60, &[0, 1], 400));
    script.push(Op::Drain);
    sweep("flushes", &plan(TINY, script), 80);
}

#[test]
fn compactions() {
    for strategy in ["leveled:2", "tiered:2", "partitioned"] {
        let options = [TINY, &[("strategy", strategy), ("write buffer entries", "7")]].concat();
        let mut script = writes(0..35, &[0], 100);
        script.push(Op::Compact {
            space: 0,
            lower: std::ops::Bound::Unbounded,
            upper: std::ops::Bound::Unbounded,
        });
        script.extend(writes(35..60, &[0], 100));
        script.push(Op::Drain);
        sweep(strategy, &plan(&options, script), 120);
    }
}

#[test]
fn rotation_and_recycling_of_log_segments() {
    let mut script = writes(0..30, &[0], 1_500);
    script.push(write(30, &[0], 40_000, Durability::Process));
    script.push(Op::Flush);
    script.extend(writes(32..60, &[0, 1], 1_500));
    sweep("rotation", &plan(&[("write buffer", "30 KiB")], script), 100);
}

#[test]
fn batches_over_keyspaces_of_which_one_is_idle() {
    let mut script = vec![write(0, &[0, 1, 2], 60, Durability::Process)];
    for round in 0..4 {
        // The first keyspace is flushed repeatedly, the second gets a batch now and then, the third nothing.
        script.extend(writes(round * 20 + 1..round * 20 + 18, &[0], 300));
        script.extend(writes(round * 20 + 18..round * 20 + 20, &[0, 1], 60));
    }
    sweep("idle keyspace", &plan(TINY, script), 120);
}

#[test]
fn writes_of_every_durability() {
    let levels = [Durability::Process, Durability::Power, Durability::None, Durability::Process];
    let mut script: Vec<Op> = (0..32)
        .map(|number| write(number, &[(number % 2) as u8], 120, levels[number as usize % 4]))
        .collect();
    script.insert(20, Op::Sync);
    script.insert(30, Op::Flush);
    sweep("durability", &plan(TINY, script), 50);
}

/// What a crash may take of unlogged writes: a suffix of those of each keyspace, behind the last flush;
/// nothing that was logged, and no part of a batch.
#[test]
fn unlogged_writes_are_lost_from_some_point_on_and_logged_ones_are_not() {
    let mut script: Vec<Op> = (0..70)
        .map(|number| match number % 10 {
            // Logged ones between them, of one keyspace and of two.
            3 => write(number, &[0], 120, Durability::Process),
            5 => write(number, &[0, 1], 120, Durability::None),
            7 => write(number, &[1], 120, Durability::Power),
            _ => write(number, &[(number % 2) as u8], 300, Durability::None),
        })
        .collect();
    script.insert(60, Op::Sync);
    script.insert(45, Op::Reopen { flush_on_close: false });
    script.insert(30, Op::Drain);
    script.insert(20, Op::Flush);
    sweep("unlogged", &plan(TINY, script), 60);
}

/// A consumer that is created behind unlogged writes, and what is written while it is there.
#[test]
fn following_the_change_stream_behind_unlogged_writes() {
    let none = |numbers: std::ops::Range<u32>| {
        numbers.map(|number| write(number, &[(number % 2) as u8], 150, Durability::None))
    };
    let follow = |acknowledge| Op::Follow { anew: true, durability: Durability::Power, acknowledge };
    let mut script: Vec<Op> = none(0..10).collect();
    script.push(write(10, &[0], 100, Durability::Process));
    script.extend(none(11..14));
    script.push(follow(true));
    script.extend(none(14..24));
    script.push(follow(false));
    script.push(Op::Reopen { flush_on_close: false });
    script.extend(none(24..30));
    script.push(follow(true));
    sweep("followed", &plan(TINY, script), 60);
}

/// The changes of a transaction over all keyspaces are there as a whole, or not at all.
#[test]
fn transactions() {
    let write = |number: u32| match write(number, &[0, 1, 2], 90, Durability::Process) {
        Op::Write { edits, durability, .. } => Op::Write { edits, how: WriteMethod::Transaction, durability },
        other => other,
    };
    let change = |number: u32| {
        let action = Action::Put(Filler { number, len: 60 });
        Step::Change(Edit { space: (number % 3) as u8, key: Key(100 + number as u16), action })
    };
    let mut script = Vec::new();
    for round in 0..8 {
        script.extend([Op::Begin { serializable: true }, Op::Begin { serializable: false }]);
        script.extend((0..4).map(|number| write(round * 4 + number)));
        for number in 0..6 {
            let which = (number % 2) as u8;
            script.push(Op::InTransaction { which, step: change(round * 6 + number) });
        }
        script.push(Op::Finish { which: 0, commit: true });
        script.push(Op::Finish { which: 0, commit: round % 2 == 0 });
    }
    sweep("transactions", &plan(TINY, script), 120);
}

/// Acknowledged operands count once each, whatever was merged before the crash; and a keyspace never has
/// operands without their operator.
#[test]
fn merges() {
    let merge = |number: u32, space: u8| {
        let key = Key(60 + (number % 4) as u16);
        let action = match number % 7 {
            5 => Action::Put(Filler { number, len: 30 }),
            6 => Action::Delete,
            _ => Action::Merge(Filler { number, len: 30 }),
        };
        let edits = vec![Edit { space, key, action }];
        Op::Write { edits, how: WriteMethod::Plain, durability: Durability::Process }
    };
    let options = [TINY, &[("write buffer entries", "7"), ("merge operator", "chain")]].concat();
    let mut script: Vec<Op> = (0..20).map(|number| merge(number, 0)).collect();
    script.extend([Op::Flush, Op::Snapshot]);
    script.extend((20..34).map(|number| merge(number, 0)));
    let unbounded = std::ops::Bound::Unbounded;
    script.push(Op::Compact { space: 0, lower: unbounded, upper: unbounded });
    script.extend((34..44).map(|number| merge(number, 0)));
    script.push(Op::Reopen { flush_on_close: false });
    script.extend((44..50).map(|number| merge(number, 0)));
    sweep("merges", &plan(&options, script), 120);

    let mut script: Vec<Op> = (0..4).map(|number| merge(number, 1)).collect();
    let given = Chosen::plain(KEYSPACE).with(KEYSPACE, "merge operator", "append");
    script.push(Op::SetOptions { space: 1, options: given });
    script.extend((4..14).map(|number| merge(number, 1)));
    sweep("an operator given later", &plan(TINY, script), 80);
}

#[test]
fn recovery_after_recovery() {
    let mut script = Vec::new();
    for life in 0..4 {
        script.extend(writes(life * 10..life * 10 + 8, &[0, 1], 150));
        script.push(Op::Reopen { flush_on_close: life % 2 == 0 });
    }
    sweep("recovery", &plan(TINY, script), 40);
}

/// A keyspace is copied into another and dropped, one is filled and renamed over it, and a new one takes the
/// old name. Without a sync of the log before the edit, a power loss after the drop loses the copy as well.
#[test]
fn dropping_and_renaming() {
    let mut script = writes(0..10, &[0, 1], 200);
    script.push(Op::SetOptions { space: 1, options: Chosen::plain(KEYSPACE) });
    script.extend(writes(10..14, &[1], 200));
    script.extend([
        Op::Flush,
        write(14, &[1], 60, Durability::Process),
        write(15, &[0], 60, Durability::Process),
    ]);
    script.push(Op::DropKeyspace(1));
    script.extend(writes(16..24, &[0, 2], 300));
    script.push(Op::RenameKeyspace { from: 2, to: 1 });
    script.extend(writes(24..30, &[0, 1, 2], 60));
    script.push(Op::DropKeyspace(2));
    script.extend([Op::Step(3), Op::Flush]);
    sweep("drop", &plan(TINY, script), 80);
}

/// After every crash a consumer of the change stream finds exactly what survived: over rotations, flushes,
/// released segments and reopenings, with and without acknowledgements.
#[test]
fn following_the_change_stream() {
    let follow = |acknowledge, durability| Op::Follow { anew: true, durability, acknowledge };
    let mut script = writes(100..103, &[0], 200);
    script.push(follow(false, Durability::Power));
    script.extend(writes(0..25, &[0], 1_500));
    script.push(Op::Flush);
    script.extend(writes(25..30, &[0, 1], 300));
    script.push(follow(true, Durability::Process));
    script.extend(writes(30..40, &[1, 2], 900));
    script.push(Op::Reopen { flush_on_close: false });
    script.extend(writes(40..50, &[0, 2], 900));
    script.push(Op::DropKeyspace(1));
    script.push(Op::Reopen { flush_on_close: true });
    script.extend(writes(50..60, &[0], 400));
    script.push(follow(true, Durability::Power));
    script.extend(writes(60..64, &[0, 1], 60));
    sweep("following", &plan(TINY, script), 120);
}

/// Options change between writes, also while tables of the old ones are merged and migrated.
#[test]
fn option_changes() {
    let set = |space, row, choice| Op::SetOptions {
        space,
        options: Chosen::plain(KEYSPACE).with(KEYSPACE, row, choice),
    };
    let mut script = writes(0..20, &[0, 1], 200);
    script.push(set(0, "strategy", "tiered:2"));
    script.extend(writes(20..40, &[0], 300));
    script.extend([Op::Flush, set(0, "large values", "from 100, packed")]);
    script.extend(writes(40..52, &[0, 1], 300));
    script.extend([Op::Step(2), set(1, "strategy", "leveled:2"), set(0, "block size", "512")]);
    script.extend(writes(52..60, &[1], 300));
    script.extend([Op::Flush, Op::Drain, Op::Reopen { flush_on_close: false }]);
    script.extend(writes(60..66, &[0, 1], 90));
    sweep("option changes", &plan(TINY, script), 120);
}

/// Ingests between writes to the same keys, to others and to another keyspace: each is there as a whole or
/// not at all, in its place in the order, and a missing one leaves no file.
#[test]
fn ingests() {
    let edits = |round: u32| -> Vec<(Key, Action)> {
        let put = |number: u32| {
            let key = Key(40 + (round * 17 + number * 3) as u16 % 60);
            let action =
                if number % 5 == 4 { Action::Delete } else { Action::Put(Filler { number, len: 90 }) };
            (key, action)
        };
        (0..12).map(put).collect()
    };
    let mut script = Vec::new();
    for round in 0..6 {
        let space = (round % 2) as u8;
        let mode = [IngestMode::Copy, IngestMode::Link, IngestMode::Move][round as usize % 3];
        script.extend(writes(round * 8..round * 8 + 6, &[0, 1], 120));
        script.push(Op::Join {
            space,
            edits: edits(round),
            load_method: LoadMethod::Tables { tables: 3, mode },
        });
        script.extend(writes(round * 8 + 6..round * 8 + 8, &[space], 120));
        script.push(Op::Join {
            space,
            edits: edits(round + 9),
            load_method: LoadMethod::BulkLoad { sort_memory: 400 },
        });
        match round {
            1 => script.push(Op::Step(2)),
            2 => script.push(Op::Flush),
            3 => script.push(Op::Reopen { flush_on_close: false }),
            4 => script.push(Op::DropKeyspace(1)),
            _ => {}
        }
    }
    sweep("ingest", &plan(TINY, script), 120);
}

/// Large values are written, overwritten until their files are empty, and dropped with their keyspace.
#[test]
fn large_values() {
    let options = [TINY, &[("large values", "from 100, packed"), ("write buffer entries", "7")]].concat();
    let put = |number: u32, space: u8| {
        let action = Action::Put(Filler { number, len: 60 + number % 3 * 300 });
        let edits = vec![Edit { space, key: Key(40 + (number * 7 % 11) as u16), action }];
        Op::Write { edits, how: WriteMethod::Plain, durability: Durability::Process }
    };
    let mut script: Vec<Op> = (0..45).map(|number| put(number, 0)).collect();
    script.push(Op::Drain);
    script.extend((45..75).map(|number| put(number, (number % 3) as u8)));
    script.push(Op::Drain);
    script.push(Op::SetOptions { space: 0, options: Chosen::plain(KEYSPACE) });
    script.push(Op::DropKeyspace(2));
    script.extend((75..90).map(|number| put(number, 0)));
    script.extend([Op::Step(3), Op::Flush, Op::Drain]);
    sweep("large values", &plan(&options, script), 120);
}

fn any_calls(seed: u64) {
    let mut plan = Generator::plan(seed, 0);
    plan.script = Generator::writes(seed, 50, 15);
    sweep(&format!("any calls of seed {seed}"), &plan, 400);
}

// The longest tests, one for each seed, so that they share the processors. Tests start in the order of their
// names: the shorter ones fill what is left at the end.

#[test]
fn any_calls_of_seed_0() {
    any_calls(0);
}

#[test]
fn any_calls_of_seed_1() {
    any_calls(1);
}

#[test]
fn any_calls_of_seed_2() {
    any_calls(2);
}
