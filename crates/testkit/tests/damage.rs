//! The damage sweep over small stores: with each layout, with and without compression and filters.
//!
//! `ESKER_IMAGES=n` damages about n images of each store; 500,000 flip each bit of the larger one.
#![expect(clippy::print_stdout, reason = "counts are for people")]

use esker::Durability;
use esker_testkit::options::{Chosen, DATABASE, KEYSPACE};
use esker_testkit::script::{Action, Edit, Op, Plan, WriteMethod};
use esker_testkit::{Filler, Key, damage};

/// Images of each store, without `ESKER_IMAGES`.
const IMAGES: u64 = 800;

fn images() -> u64 {
    let images = std::env::var("ESKER_IMAGES").ok();
    images.map_or(IMAGES, |text| text.parse().unwrap_or_else(|_| panic!("ESKER_IMAGES={text}")))
}

/// Tables of two generations in two keyspaces, and a log with more.
fn script() -> Vec<Op> {
    let write = |number: u32| {
        let value = Filler { number, len: 60 + number % 50 };
        let action = match number % 5 {
            4 => Action::Delete,
            3 => Action::PutFor(value, 1_000),
            _ => Action::Put(value),
        };
        let edit = |space| Edit { space, key: Key(40 + (number * 11 % 90) as u16), action };
        let edits = if number.is_multiple_of(3) { vec![edit(0), edit(1)] } else { vec![edit(0)] };
        Op::Write { edits, how: WriteMethod::Batch, durability: Durability::Process }
    };
    let mut script: Vec<Op> = (0..60).map(write).collect();
    script.push(Op::Flush);
    script.extend((60..100).map(write));
    script.push(Op::Flush);
    script.push(Op::Reopen { flush_on_close: false });
    script.extend((100..120).map(write));
    script
}

fn sweep(seed: u64, options: &[(&str, &str)]) {
    let mut chosen = Chosen::plain(KEYSPACE).with(KEYSPACE, "block size", "512");
    for (row, choice) in options {
        chosen = chosen.with(KEYSPACE, row, choice);
    }
    let database = Chosen::plain(DATABASE).with(DATABASE, "log segment", "16 KiB");
    let plan = Plan { seed, database, spaces: [chosen.clone(), chosen.clone(), chosen], script: script() };
    let victim = damage::prepare(&plan);
    let verdicts =
        victim.and_then(|victim| victim.sweep(images())).unwrap_or_else(|failure| panic!("{failure}"));
    println!("{options:?}: {verdicts:?}");
    assert!(verdicts.detected > 100, "hardly anything was noticed: {verdicts:?}");
}

#[test]
fn flat_blocks_with_a_filter() {
    sweep(1, &[("filter", "bloom"), ("table size", "4 KiB")]);
}

#[test]
fn compressed_delta_blocks_without_one() {
    sweep(2, &[("layout", "delta"), ("compression", "lz4"), ("strategy", "none")]);
}
