//! Models of the structures with one writer and one reader, over modelled memory:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p esker-memtable --test loom --release
//! ```
//!
//! `LOOM_MAX_PREEMPTIONS=3` in front explores more and takes minutes.
//!
//! The code is the real one; only the memory below it is loom's. Each scenario prepares a memtable, then the
//! writer makes the one or two insertions in question while a reader reads. The reader must find everything
//! at or below the visible sequence number it loaded (MT2), complete and in order, and whatever else it meets
//! must be complete too (MT1); loom reports words that are read before they are ordered after their writing.
//! The mutants at the end break one ordering each, and each must be found.
#![cfg(loom)]
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

use esker_base::{SeqNo, Tag, ValueKind};
use esker_iter::Cursor;
use esker_memtable::model::{Mutant, set_mutant};
use esker_memtable::{ArenaPool, Inserter, Memtable, MemtableKind};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeSet;

/// Keys that are there before, and keys that are inserted while the reader reads.
#[derive(Clone, Debug)]
struct Scenario {
    kind: MemtableKind,
    before: Vec<Vec<u8>>,
    during: Vec<Vec<u8>>,
}

fn scenario(kind: MemtableKind, before: &[&[u8]], during: &[&[u8]]) -> Scenario {
    let owned = |keys: &[&[u8]]| keys.iter().map(|key| key.to_vec()).collect();
    Scenario { kind, before: owned(before), during: owned(during) }
}

/// The radix tree with a root that has so many children, and more to come below the bytes of `during`.
fn wide(children: u8, during: &[u8]) -> Scenario {
    let key = |byte: u8| vec![byte.wrapping_mul(37), byte];
    Scenario {
        kind: MemtableKind::Art,
        before: (0..children).map(key).collect(),
        during: during.iter().map(|&byte| key(byte)).collect(),
    }
}

fn insert(inserter: &mut Inserter, key: &[u8], seqno: u64) {
    let value = [key, &seqno.to_le_bytes()].concat();
    inserter.insert(key, Tag::new(SeqNo::new(seqno), ValueKind::Put), &value);
}

fn check_entry(key: &[u8], tag: Tag, value: &[u8]) {
    assert_eq!(value, [key, &tag.seqno().get().to_le_bytes()].concat(), "a torn entry");
}

/// The kind of read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// Looks up the keys that are inserted meanwhile, and one that was there before.
    Get,
    /// The same in one call.
    MultiGet,
    /// Walks over everything.
    Walk,
    /// Walks backwards.
    WalkBack,
    /// Seeks the keys that are inserted meanwhile.
    Seek,
}

impl Scenario {
    /// The newest version of each key at or below `visible`.
    fn newest(&self, key: &[u8], visible: u64) -> Option<u64> {
        let all = self.before.iter().chain(&self.during);
        let seqnos = all.zip(1u64..).filter(|(other, seqno)| *other == key && *seqno <= visible);
        seqnos.map(|(_, seqno)| seqno).max()
    }

    fn get(&self, memtable: &Memtable, visible: u64) {
        for key in self.during.iter().chain(self.before.first()) {
            let found = memtable.get(key, SeqNo::new(visible));
            assert_eq!(found.map(|(tag, _)| tag.seqno().get()), self.newest(key, visible));
            // Invisible entries must be complete as well.
            if let Some((tag, value)) = memtable.get(key, SeqNo::MAX) {
                check_entry(key, tag, value);
            }
        }
    }

    fn multi_get(&self, memtable: &Memtable, visible: u64) {
        let keys: Vec<&[u8]> = self.during.iter().chain(self.before.first()).map(Vec::as_slice).collect();
        let mut results = vec![None; keys.len()];
        memtable.multi_get(&keys, u32::MAX, SeqNo::new(visible), &mut results);
        for (key, found) in keys.iter().zip(results) {
            assert_eq!(found.map(|(tag, _)| tag.seqno().get()), self.newest(key, visible));
            if let Some((tag, value)) = found {
                check_entry(key, tag, value);
            }
        }
    }

    fn walk(&self, memtable: &std::sync::Arc<Memtable>, visible: u64, forwards: bool) {
        let mut cursor = memtable.cursor();
        if forwards { cursor.seek_to_first() } else { cursor.seek_to_last() }.unwrap();
        let mut met = BTreeSet::new();
        let mut last: Option<(Vec<u8>, Tag)> = None;
        while cursor.is_valid() {
            let here = (cursor.key().to_vec(), cursor.tag());
            check_entry(&here.0, here.1, cursor.value());
            if let Some(last) = last {
                let increases = (&last.0, here.1) < (&here.0, last.1);
                assert!(if forwards { increases } else { !increases && last != here }, "order");
            }
            met.insert(here.1.seqno().get());
            last = Some(here);
            if forwards { cursor.next() } else { cursor.prev() }.unwrap();
        }
        assert!((1..=visible).all(|seqno| met.contains(&seqno)), "an entry was missed: {met:?}");
    }

    fn seek(&self, memtable: &std::sync::Arc<Memtable>, visible: u64) {
        let mut cursor = memtable.cursor();
        for key in &self.during {
            for round in 0..3 {
                cursor.prepare_seek(key, round);
            }
            cursor.seek(key, SeqNo::new(visible)).unwrap();
            if let Some(seqno) = self.newest(key, visible) {
                assert_eq!((cursor.key(), cursor.tag().seqno().get()), (key.as_slice(), seqno));
                check_entry(key, cursor.tag(), cursor.value());
            }
            cursor.seek_before(key).unwrap();
            if cursor.is_valid() {
                assert!(cursor.key() < key.as_slice());
                check_entry(cursor.key(), cursor.tag(), cursor.value());
            }
        }
    }

    fn run(&self, look: Look) {
        let this = self.clone();
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = builder.preemption_bound.or(Some(2));
        builder.max_branches = 20_000;
        builder.check(move || {
            let count = (this.before.len() + this.during.len()) as u64;
            let pool = ArenaPool::new(0);
            let reserve = this.kind.needed_bytes(count * 80, count) + 2_000;
            let (memtable, mut inserter) = Memtable::create(this.kind, &pool, reserve).unwrap();
            for (key, seqno) in this.before.iter().zip(1..) {
                insert(&mut inserter, key, seqno);
            }
            let prepared = this.before.len() as u64;
            let visible = Arc::new(AtomicU64::new(prepared));
            let (reader, seen) = (this.clone(), visible.clone());
            let reader = loom::thread::spawn(move || {
                let visible = seen.load(Ordering::Acquire);
                match look {
                    Look::Get => reader.get(&memtable, visible),
                    Look::MultiGet => reader.multi_get(&memtable, visible),
                    Look::Walk => reader.walk(&memtable, visible, true),
                    Look::WalkBack => reader.walk(&memtable, visible, false),
                    Look::Seek => reader.seek(&memtable, visible),
                }
            });
            for (key, seqno) in this.during.iter().zip(prepared + 1..) {
                insert(&mut inserter, key, seqno);
                visible.store(seqno, Ordering::Release);
            }
            reader.join().unwrap();
        });
    }

    fn run_all(&self) {
        for look in [Look::Get, Look::MultiGet, Look::Walk, Look::WalkBack, Look::Seek] {
            self.run(look);
        }
    }
}

const ART: MemtableKind = MemtableKind::Art;

#[test]
fn first_key_then_leaf_split() {
    scenario(ART, &[], &[b"ab", b"ac"]).run_all();
}

#[test]
fn a_child_more_twice() {
    scenario(ART, &[b"a", b"b"], &[b"d", b"c"]).run_all();
}

#[test]
fn a_leaf_becomes_a_node_with_a_value() {
    scenario(ART, &[b"ab", b"b"], &[b"a", b"abc"]).run_all();
}

#[test]
fn a_prefix_is_split_twice() {
    scenario(ART, &[b"prefix-long-1", b"prefix-long-2"], &[b"prefix", b"pre"]).run_all();
}

#[test]
fn a_full_node_of_4_grows_and_takes_more() {
    scenario(ART, &[b"a", b"c", b"E", b"G"], &[b"D", b"f"]).run_all();
}

#[test]
fn a_full_node_of_4_becomes_a_row_and_takes_more() {
    scenario(ART, &[b"a", b"c", b"e", b"g"], &[b"d", b"f"]).run_all();
}

#[test]
fn a_row_meets_a_byte_of_another() {
    scenario(ART, &[b"a", b"c", b"e", b"g", b"i"], &[b"h", b"D"]).run_all();
}

#[test]
fn a_child_splits_while_its_parent_grows() {
    scenario(ART, &[b"aa", b"c", b"e", b"g"], &[b"ab", b"d"]).run_all();
}

#[test]
fn newer_versions() {
    scenario(ART, &[b"a", b"ab"], &[b"ab", b"a", b"ab"]).run_all();
}

#[test]
fn a_full_node_of_16_grows_and_takes_more() {
    let scenario = wide(16, &[20, 21]);
    scenario.run(Look::Get);
    scenario.run(Look::MultiGet);
}

#[test]
fn a_full_node_of_48_grows_and_takes_more() {
    wide(48, &[60, 61]).run(Look::Get);
}

#[test]
fn a_node_of_48_takes_more() {
    wide(17, &[60, 61]).run(Look::Get);
}

#[test]
fn a_node_of_256_takes_more() {
    wide(49, &[60, 61]).run(Look::Get);
}

#[test]
fn skiplist_links() {
    scenario(MemtableKind::Skiplist, &[b"b"], &[b"a", b"c"]).run_all();
    scenario(MemtableKind::Skiplist, &[], &[b"a", b"b"]).run_all();
}

#[test]
fn skiplist_newer_versions() {
    scenario(MemtableKind::Skiplist, &[b"a", b"b"], &[b"a", b"b"]).run_all();
}

#[test]
fn two_shards() {
    let kind = "sharded:2:3".parse().unwrap();
    scenario(kind, &[b"b"], &[b"a", b"c"]).run_all();
    scenario(kind, &[b"a"], &[b"a", b"d"]).run_all();
}

#[test]
fn entries_as_they_came() {
    scenario(MemtableKind::Vector, &[b"b"], &[b"a", b"c"]).run_all();
    scenario(MemtableKind::Vector, &[b"a", b"b"], &[b"a", b"b"]).run_all();
}

#[test]
fn a_table_takes_keys_and_versions() {
    for kind in [MemtableKind::Hash, MemtableKind::HashedArt] {
        scenario(kind, &[b"b"], &[b"a", b"c"]).run_all();
        scenario(kind, &[b"a", b"b"], &[b"a", b"b"]).run_all();
    }
}

/// The smallest table has room for twelve keys: the next one makes it grow.
fn outgrown() -> Scenario {
    let before = (b'a'..b'm').map(|byte| vec![byte]).collect();
    Scenario { kind: MemtableKind::Hash, before, during: vec![b"b".to_vec(), b"z".to_vec()] }
}

#[test]
fn a_table_is_outgrown() {
    outgrown().run(Look::Get);
    outgrown().run(Look::MultiGet);
    outgrown().run(Look::Seek);
}

/// In models a leaf of the B+-tree has four places, the first one two, and an inner node four children.
const B_TREE: MemtableKind = MemtableKind::BTree;

#[test]
fn b_tree_first_key_and_one_behind_it() {
    scenario(B_TREE, &[], &[b"a", b"b"]).run_all();
}

#[test]
fn b_tree_leaf_grows_and_takes_more() {
    scenario(B_TREE, &[b"b", b"d"], &[b"c", b"a"]).run_all();
}

#[test]
fn b_tree_leaf_splits_and_takes_more() {
    scenario(B_TREE, &[b"b", b"d", b"f", b"h"], &[b"c", b"g"]).run_all();
}

#[test]
fn b_tree_right_edge() {
    scenario(B_TREE, &[b"a", b"b", b"c", b"d"], &[b"e", b"f"]).run_all();
}

#[test]
fn b_tree_newer_versions_and_a_split_between() {
    scenario(B_TREE, &[b"a", b"b"], &[b"b", b"a", b"b"]).run_all();
    scenario(B_TREE, &[b"b", b"d", b"f", b"h"], &[b"d", b"c", b"d"]).run_all();
}

/// A B+-tree of so many ascending keys: four in each leaf, four leaves below the first inner node.
fn ascending(count: u8, during: &[&[u8]]) -> Scenario {
    let before = (0..count).map(|number| vec![b'k', 2 * number]).collect();
    let during = during.iter().map(|key| key.to_vec()).collect();
    Scenario { kind: B_TREE, before, during }
}

#[test]
fn b_tree_root_splits_in_the_middle() {
    let scenario = ascending(16, &[&[b'k', 9], &[b'k', 13]]);
    scenario.run(Look::Get);
    scenario.run(Look::Walk);
    scenario.run(Look::Seek);
}

#[test]
fn b_tree_root_splits_at_its_edge() {
    let scenario = ascending(16, &[&[b'k', 40], &[b'k', 41]]);
    scenario.run(Look::MultiGet);
    scenario.run(Look::WalkBack);
}

#[test]
fn b_tree_inner_node_below_the_root_is_replaced() {
    let scenario = ascending(24, &[&[b'k', 1], &[b'k', 2]]);
    scenario.run(Look::Get);
    scenario.run(Look::Walk);
}

/// The scenario holds, and the mutant breaks it.
fn must_die(mutant: Mutant, scenario: &Scenario, look: Look) {
    scenario.run(look);
    set_mutant(Some(mutant));
    let outcome = std::panic::catch_unwind(|| scenario.run(look));
    assert!(outcome.is_err(), "{mutant:?} survived");
}

#[test]
fn mutant_relaxed_reference() {
    must_die(Mutant::RelaxedReference, &scenario(ART, &[b"a"], &[b"b"]), Look::Get);
}

#[test]
fn mutant_relaxed_reference_of_a_version() {
    must_die(Mutant::RelaxedReference, &scenario(ART, &[b"a"], &[b"a"]), Look::Get);
}

#[test]
fn mutant_relaxed_reference_of_a_grown_node() {
    must_die(Mutant::RelaxedReference, &scenario(ART, &[b"a", b"c", b"e", b"g"], &[b"d"]), Look::Walk);
}

#[test]
fn mutant_relaxed_reference_in_a_node_of_256() {
    must_die(Mutant::RelaxedReference, &wide(49, &[60]), Look::Get);
}

#[test]
fn mutant_relaxed_reference_in_the_skiplist() {
    must_die(Mutant::RelaxedReference, &scenario(MemtableKind::Skiplist, &[b"a"], &[b"b"]), Look::Get);
}

#[test]
fn mutant_relaxed_reference_load() {
    must_die(Mutant::RelaxedReferenceLoad, &scenario(ART, &[b"a"], &[b"b"]), Look::Get);
}

#[test]
fn mutant_relaxed_reference_load_in_the_skiplist() {
    must_die(Mutant::RelaxedReferenceLoad, &scenario(MemtableKind::Skiplist, &[b"a"], &[b"b"]), Look::Walk);
}

#[test]
fn mutant_relaxed_count() {
    must_die(Mutant::RelaxedCount, &scenario(ART, &[b"a", b"b"], &[b"c"]), Look::Get);
}

#[test]
fn mutant_relaxed_count_load() {
    must_die(Mutant::RelaxedCountLoad, &scenario(ART, &[b"a", b"b"], &[b"c"]), Look::Walk);
}

#[test]
fn mutant_relaxed_index() {
    must_die(Mutant::RelaxedIndex, &wide(17, &[60]), Look::Get);
}

#[test]
fn mutant_relaxed_index_load() {
    must_die(Mutant::RelaxedIndexLoad, &wide(17, &[60]), Look::Get);
}

/// A row that takes one more child.
fn row() -> Scenario {
    scenario(ART, &[b"a", b"c", b"e", b"g", b"i"], &[b"d"])
}

#[test]
fn mutant_relaxed_reference_in_a_row() {
    must_die(Mutant::RelaxedReference, &row(), Look::Get);
}

#[test]
fn mutant_relaxed_reference_load_in_a_row() {
    must_die(Mutant::RelaxedReferenceLoad, &row(), Look::Walk);
}

#[test]
fn mutant_late_put() {
    must_die(Mutant::LatePut, &scenario(ART, &[b"a", b"b"], &[b"c"]), Look::Walk);
}

#[test]
fn mutant_late_put_behind_an_index() {
    must_die(Mutant::LatePut, &wide(17, &[60]), Look::Get);
}

#[test]
fn mutant_late_init() {
    must_die(Mutant::LateInit, &scenario(ART, &[b"a", b"b"], &[b"c"]), Look::Get);
}

#[test]
fn mutant_relaxed_end_of_the_log() {
    must_die(Mutant::RelaxedReference, &scenario(MemtableKind::Vector, &[b"a"], &[b"b"]), Look::Get);
}

#[test]
fn mutant_relaxed_load_of_the_end_of_the_log() {
    must_die(Mutant::RelaxedReferenceLoad, &scenario(MemtableKind::Vector, &[b"a"], &[b"b"]), Look::Walk);
}

#[test]
fn mutant_relaxed_slot() {
    must_die(Mutant::RelaxedReference, &scenario(MemtableKind::Hash, &[b"a"], &[b"b"]), Look::Get);
}

#[test]
fn mutant_relaxed_load_of_a_slot() {
    must_die(Mutant::RelaxedReferenceLoad, &scenario(MemtableKind::Hash, &[b"a"], &[b"b"]), Look::Get);
}

#[test]
fn mutant_relaxed_table() {
    must_die(Mutant::RelaxedReference, &outgrown(), Look::Get);
}

#[test]
fn mutant_late_table() {
    must_die(Mutant::LateInit, &outgrown(), Look::Get);
}

#[test]
fn mutant_relaxed_count_in_the_b_tree() {
    must_die(Mutant::RelaxedCount, &scenario(B_TREE, &[b"a", b"c", b"d"], &[b"b"]), Look::Get);
}

#[test]
fn mutant_relaxed_count_at_the_right_edge_of_the_b_tree() {
    must_die(Mutant::RelaxedCount, &scenario(B_TREE, &[b"a"], &[b"b"]), Look::Walk);
}

#[test]
fn mutant_relaxed_count_load_in_the_b_tree() {
    must_die(Mutant::RelaxedCountLoad, &scenario(B_TREE, &[b"a", b"c", b"d"], &[b"b"]), Look::Walk);
}

#[test]
fn mutant_relaxed_reference_of_a_split_in_the_b_tree() {
    must_die(Mutant::RelaxedReference, &scenario(B_TREE, &[b"b", b"d", b"f", b"h"], &[b"c"]), Look::Get);
}

#[test]
fn mutant_relaxed_reference_of_a_copy_below_the_root_of_the_b_tree() {
    must_die(Mutant::RelaxedReference, &ascending(24, &[&[b'k', 1]]), Look::Get);
}

#[test]
fn mutant_relaxed_reference_of_a_version_in_the_b_tree() {
    must_die(Mutant::RelaxedReference, &scenario(B_TREE, &[b"a", b"b"], &[b"a"]), Look::Get);
}

#[test]
fn mutant_relaxed_reference_load_in_the_b_tree() {
    must_die(
        Mutant::RelaxedReferenceLoad,
        &scenario(B_TREE, &[b"b", b"d", b"f", b"h"], &[b"c"]),
        Look::MultiGet,
    );
}

#[test]
fn mutant_late_init_in_the_b_tree() {
    must_die(Mutant::LateInit, &scenario(B_TREE, &[b"a", b"c", b"d"], &[b"b"]), Look::Get);
}
