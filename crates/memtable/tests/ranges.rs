//! Range tombstones of memtables: what readers find while more are inserted.
#![cfg(not(loom))]

mod common;

use common::{Rng, create, scaled};
use esker_base::{SeqNo, Tag, ValueKind};
use esker_iter::RangeTombstone;
use esker_memtable::{ArenaPool, MAX_RANGE_DELETES, Memtable, MemtableKind, RANGE_DELETE_OVERHEAD_BYTES};
use std::sync::atomic::{AtomicU64, Ordering};

fn key(number: u64) -> Vec<u8> {
    format!("{number:04}").into_bytes()
}

/// Range tombstone `n`, of sequence number `n + 1`, known beforehand: its start, and its end if it has one.
fn ranges(seed: u64, count: u64) -> Vec<(u64, Option<u64>)> {
    let mut rng = Rng(seed);
    let one = |_| {
        let start = rng.below(500);
        let end = start + rng.below(100);
        (start, Some(end).filter(|end| *end < 580))
    };
    (0..count).map(one).collect()
}

fn expected(ranges: &[(u64, Option<u64>)], at: u64, seqno: u64) -> u64 {
    let covers =
        |(_, (start, end)): &(usize, &(u64, Option<u64>))| *start <= at && end.is_none_or(|end| at < end);
    let seen = ranges.iter().enumerate().take(seqno as usize).filter(covers);
    seen.map(|(number, _)| number as u64 + 1).max().unwrap_or(0)
}

fn insert(inserter: &mut esker_memtable::Inserter, number: u64, start: u64, end: Option<u64>) {
    let (start, end) = (key(start), end.map(key));
    let seqno = SeqNo::new(number + 1);
    inserter.insert_range_delete(RangeTombstone { start: &start, end: end.as_deref(), seqno });
}

#[test]
fn the_newest_visible_range_delete_is_found() {
    for kind in MemtableKind::ALL {
        let (memtable, mut inserter) = create(kind, &ArenaPool::new(0), 100_000);
        assert!(!memtable.has_range_deletes() && memtable.range_deletes().is_empty());
        let all = ranges(7, scaled(200) as u64);
        let mut rng = Rng(3);
        let mut bytes = 0;
        for (number, range) in all.iter().enumerate() {
            insert(&mut inserter, number as u64, range.0, range.1);
            bytes += 4 + range.1.map_or(0, |_| 4) + RANGE_DELETE_OVERHEAD_BYTES;
            let newest = number as u64 + 1;
            for _ in 0..20 {
                let (at, seqno) = (rng.below(600), rng.below(newest + 2));
                let found = memtable.cover(&key(at), SeqNo::new(seqno)).get();
                assert_eq!(found, expected(&all[..=number], at, seqno), "{kind} key {at} for {seqno}");
            }
        }
        assert_eq!((memtable.len(), memtable.range_deletes_len()), (0, all.len() as u64));
        assert_eq!(memtable.payload_bytes(), bytes);
        // As in a binary counter: few sets to search, whatever their number.
        assert!(memtable.range_deletes().len() <= 8, "{}", memtable.range_deletes().len());
        // Entries stay what they were.
        let tag = Tag::new(SeqNo::new(100_000), ValueKind::Put);
        inserter.insert(b"0001", tag, b"v");
        assert_eq!(memtable.get(b"0001", SeqNo::MAX), Some((tag, b"v".as_slice())));
    }
}

#[test]
fn there_is_room_up_to_the_limit() {
    let (memtable, mut inserter) = create(MemtableKind::Art, &ArenaPool::new(0), 100_000);
    for number in 0..MAX_RANGE_DELETES {
        assert!(memtable.has_range_room(1) && !memtable.has_range_room(MAX_RANGE_DELETES - number + 1));
        insert(&mut inserter, number, number % 500, Some(number % 500 + 1));
    }
    assert!(!memtable.has_range_room(1) && memtable.has_range_room(0));
    assert!(memtable.allocated_bytes() > 100 * MAX_RANGE_DELETES);
}

/// Acknowledged range tombstones are found while more are inserted, and none that is invisible to the reader.
#[test]
fn readers_beside_the_inserter_miss_nothing() {
    let all = ranges(11, scaled(600) as u64);
    let (memtable, mut inserter) = create(MemtableKind::Skiplist, &ArenaPool::new(0), 100_000);
    let visible = AtomicU64::new(0);
    let read = |memtable: &Memtable, seed| {
        let mut rng = Rng(seed);
        loop {
            let seqno = visible.load(Ordering::Acquire);
            for _ in 0..50 {
                let at = rng.below(600);
                let found = memtable.cover(&key(at), SeqNo::new(seqno)).get();
                assert_eq!(found, expected(&all, at, seqno), "key {at} for {seqno}");
            }
            if seqno == all.len() as u64 {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let memtable = &memtable;
            scope.spawn(move || read(memtable, seed));
        }
        for (number, range) in all.iter().enumerate() {
            insert(&mut inserter, number as u64, range.0, range.1);
            visible.store(number as u64 + 1, Ordering::Release);
        }
    });
}
