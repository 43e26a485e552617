//! The largest supported trees: 10^12 entries at the smallest size ratio, in 46 levels.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use esker_base::{FileNumber, PartId, RunId, SeqNo, TableUid};
use esker_strategy::*;
use esker_version::*;
use std::sync::Arc;

const ENTRIES: u64 = 1_000_000_000_000;
const ENTRY_BYTES: u64 = 116;
/// Larger than real tables, so that the test builds the tree quickly: the number of levels is what matters.
const PART_BYTES: u64 = 32 << 30;
const MEMTABLE_BYTES: u64 = 1 << 20;

/// A full tree: each level at capacity, four runs in level 0, all keys in each run.
fn full_tree(size_ratio_permille: u64) -> (Version, usize) {
    let mut parts = Vec::new();
    let mut add_run = |level: LevelIndex, run: u64, order: u64, bytes: u64| {
        let count = bytes.div_ceil(PART_BYTES).max(1);
        for at in 0..count {
            let border = |at: u64| (u128::from(at) * u128::from(u64::MAX) / u128::from(count)) as u64;
            let range = KeyRange::half_open(border(at).to_be_bytes(), border(at + 1).to_be_bytes());
            let id = parts.len() as u64 + 1;
            let mut part = PartMeta::new(PartId(id), FileNumber(id), bytes / count, TableUid(id), range);
            part.entries = bytes / count / ENTRY_BYTES;
            // Older levels have older entries.
            part.min_seqno = SeqNo::new(1_000_000 - run * 100);
            part.max_seqno = SeqNo::new(1_000_000 - run * 100 + 99);
            let place = Place { level, run: RunId(run), order };
            parts.push((place, Arc::new(part)));
        }
    };
    let mut sizes = vec![ENTRIES * ENTRY_BYTES];
    while sizes[sizes.len() - 1] > 4 * MEMTABLE_BYTES * size_ratio_permille / 1000 {
        sizes.push(sizes[sizes.len() - 1] / size_ratio_permille * 1000);
    }
    let levels = sizes.len();
    for run in 0..4 {
        add_run(LevelIndex::FLUSH, run + 1, 4 - run, MEMTABLE_BYTES);
    }
    for (depth, bytes) in sizes.into_iter().rev().enumerate() {
        let level =
            if depth + 1 == levels { LevelIndex::LAST } else { LevelIndex::new(depth as u8 + 1).unwrap() };
        add_run(level, depth as u64 + 10, 1, bytes);
    }
    (Version::from_parts(parts).unwrap(), levels)
}

#[test]
fn plans_for_46_levels_obey_the_rules() {
    let (version, levels) = full_tree(1500);
    assert!((40..=46).contains(&levels), "{levels} levels");
    let options = StrategyOptions { memtable_bytes: MEMTABLE_BYTES, ..StrategyOptions::default() };
    for name in [
        "leveled:1.5",
        "partial:1.5,round-robin",
        "partial:1.5",
        "golden-ratio",
        "lazy-leveled:1.5",
        "partitioned",
    ] {
        let strategy: Strategy = name.parse().unwrap();
        let mut busy = Busy::new();
        for count in 0..8 {
            let shape = Shape::new(&version);
            let plan = strategy.plan(&shape, &busy, &options);
            assert_eq!(plan, strategy.plan(&shape, &busy, &options), "{name}: the same twice");
            let Some(plan) = plan else {
                assert!(count > 0, "{name} has nothing to do");
                break;
            };
            validate(&version, &busy, &plan).unwrap_or_else(|error| panic!("{name}: {error}"));
            busy.add(&plan);
        }
    }
}
