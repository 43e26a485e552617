//! Sequences between the two steps that are rare from outside.

use super::*;
use crate::WriteBatch;
use crate::parts::StepBackground;
use crate::{Database, Durability, Expiry, Keyspace, KeyspaceOptions, MergeOperator, Options, Snapshot};
use esker_engine::write::commit;
use esker_engine::write::write_stall::StallPolicy;
use esker_env::Env;
use esker_env::fault::StrictFs;
use esker_memtable::MemtableKind;
use std::time::Duration;

fn key(number: u64) -> Vec<u8> {
    format!("key{number:08}").into_bytes()
}

/// A database whose background work happens only on request.
fn open() -> (Database, Keyspace) {
    open_with(MemtableKind::Art)
}

fn open_with(kind: MemtableKind) -> (Database, Keyspace) {
    let env = Env::simulated(Arc::new(StrictFs::new()), 3);
    let keyspaces = KeyspaceOptions::default().memtable(kind);
    let options = Options::default().memory_budget(64 << 20).keyspace_options(keyspaces);
    let db = Database::open_with("/db", options.env(env)).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    (db, keyspace)
}

/// Kinds that are sorted by readers.
const UNORDERED: [MemtableKind; 2] = [MemtableKind::Vector, MemtableKind::Hash];

/// Bytes of the active memtable, including sorted runs, so sorting is visible in them.
fn held_bytes(keyspace: &Keyspace) -> u64 {
    keyspace.state().view.load().active.memtable.allocated_bytes()
}

/// Commits a put of `result` with this read set; returns the number of returns, or the key of the conflict.
fn commit(
    db: &Database,
    keyspace: &Keyspace,
    snapshot: &Snapshot,
    points: Vec<&[u8]>,
    ranges: Vec<Bounds>,
) -> Result<u32, Vec<u8>> {
    let store = db.store();
    let footprints = [Footprint::new(keyspace.state(), points, ranges)];
    let mut validation = Validation::new(&footprints, snapshot.seqno());
    let mut batch = WriteBatch::new(store);
    batch.put(keyspace, b"result", b"");
    let encoded = batch.encoded(store).unwrap();
    match commit::commit_if(store, &encoded, Durability::Process, StallPolicy::Stall, &mut validation) {
        Ok(_) => Ok(validation.returns),
        Err(Error::Conflict(conflict)) => Err(conflict.key.to_vec()),
        Err(error) => panic!("{error}"),
    }
}

/// Directly under the lock it would take too long: the memtable is sealed and searched outside.
#[test]
fn a_long_look_is_put_off_and_the_memtable_sealed() {
    let (db, keyspace) = open();
    for number in 0..20_000 {
        keyspace.put(key(number), b"v").unwrap();
    }
    let all: Vec<Vec<u8>> = (0..18_000).map(key).collect();
    let points = || all.iter().map(Vec::as_slice).collect::<Vec<_>>();
    let range = || vec![Bounds::new(Bound::Unbounded, Bound::Excluded(&all[17_999]))];
    for (points, ranges) in [(Vec::new(), range()), (points(), Vec::new()), (points(), range())] {
        let snapshot = db.snapshot();
        keyspace.put(key(19_000), b"not depended on").unwrap();
        let is_first = ranges.len() == 1 && points.is_empty();
        let returns = commit(&db, &keyspace, &snapshot, points.clone(), ranges.clone());
        // Once sealed, only new entries have to be checked, and those are few.
        assert_eq!(returns, Ok(u32::from(is_first)));
        let view = keyspace.state().view.load();
        assert!(view.active.memtable.len() < 10, "the large memtable was sealed");
        keyspace.put(key(7), b"depended on").unwrap();
        assert_eq!(commit(&db, &keyspace, &snapshot, points, ranges), Err(key(7)));
    }
}

/// A flush between the check outside and the one under the lock: the flushed entries are checked again.
#[test]
fn a_flush_between_the_two_looks_hides_nothing() {
    for is_conflict in [false, true] {
        let (db, keyspace) = open();
        keyspace.put(key(1), b"v").unwrap();
        let snapshot = db.snapshot();
        let footprints = [Footprint::new(keyspace.state(), vec![b"key00000001"], Vec::new())];
        let mut validation = Validation::new(&footprints, snapshot.seqno());
        validation.prepare(db.store()).unwrap();
        keyspace.put(key(if is_conflict { 1 } else { 2 }), b"changed").unwrap();
        db.compact_all().unwrap();
        db.flush().unwrap();
        let writing = db.store().writing().unwrap();
        assert!(!validation.admit(&writing.commit.lock()).unwrap(), "tables are not read under the lock");
        assert_eq!(validation.prepare(db.store()).is_err(), is_conflict);
        if !is_conflict {
            assert!(validation.admit(&writing.commit.lock()).unwrap());
        }
    }
}

/// An unordered memtable, with a change before the check outside, between it and the lock, or none: it is
/// found on both sides, and nothing is sorted under the lock (the guard panics in builds with debug
/// assertions, the bytes show it in all).
#[test]
fn what_came_since_the_look_outside_is_gone_over_without_sorting() {
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Changed {
        Before,
        Since,
        Never,
    }
    for kind in UNORDERED {
        for changed in [Changed::Before, Changed::Since, Changed::Never] {
            // A key; a range; more keys than there are entries.
            let many: Vec<Vec<u8>> = (0..1_000).map(|number| key(number * 10)).collect();
            let some = Bounds::new(Bound::Included(&key(70)), Bound::Excluded(&key(71)));
            let all: Vec<&[u8]> = many.iter().map(Vec::as_slice).collect();
            for (points, ranges) in [(vec![all[7]], vec![]), (vec![], vec![some]), (all.clone(), vec![])] {
                let (db, keyspace) = open_with(kind);
                (0..300).for_each(|number| keyspace.put(key(number * 2 + 1), b"v").unwrap());
                let snapshot = db.snapshot();
                let footprints = [Footprint::new(keyspace.state(), points, ranges)];
                let mut validation = Validation::new(&footprints, snapshot.seqno());
                let write = |place: Changed, from: u64| {
                    (from..from + 200).for_each(|number| keyspace.put(key(number * 2 + 1), b"w").unwrap());
                    if changed == place {
                        keyspace.put(key(70), b"changed").unwrap();
                    }
                };
                write(Changed::Before, 400);
                let is_found = validation.prepare(db.store()).is_err();
                assert_eq!(is_found, changed == Changed::Before, "{kind}, {changed:?}");
                if is_found {
                    continue;
                }
                write(Changed::Since, 600);
                let (held, writing) = (held_bytes(&keyspace), db.store().writing().unwrap());
                let admitted = validation.admit(&writing.commit.lock());
                assert_eq!(held_bytes(&keyspace), held, "{kind} sorted under the lock");
                match changed {
                    Changed::Since => {
                        let Err(Error::Conflict(conflict)) = admitted else { panic!("{kind}: {admitted:?}") };
                        assert_eq!(conflict.key.to_vec(), key(70));
                    }
                    _ => assert!(admitted.unwrap(), "{kind}"),
                }
            }
        }
    }
}

/// Without a previous step outside, an unordered memtable of some size is checked there first, and not sealed
/// for it.
#[test]
fn a_memtable_without_order_is_not_gone_over_at_once() {
    for kind in UNORDERED {
        let (db, keyspace) = open_with(kind);
        for entries in [UNTAKEN_STEPS / 2, MIN_SEALED_ENTRIES * 2] {
            (0..entries).for_each(|number| keyspace.put(key(number), b"v").unwrap());
            let snapshot = db.snapshot();
            keyspace.put(key(1), b"changed").unwrap();
            let is_large = u32::from(entries > UNTAKEN_STEPS);
            let other = commit(&db, &keyspace, &snapshot, vec![b"key00000002"], Vec::new());
            assert_eq!(other, Ok(is_large), "{kind} with {entries} entries");
            let same = commit(&db, &keyspace, &snapshot, vec![b"key00000001"], Vec::new());
            assert_eq!(same, Err(key(1)), "{kind} with {entries} entries");
            let length = keyspace.state().view.load().active.memtable.len();
            assert!(length > entries, "the memtable of {length} entries was not sealed");
        }
    }
}

/// Batches between the check outside and the lock, one after the other: after too many returns the whole tail
/// is checked.
#[test]
fn a_long_tail_is_put_off_and_gone_over_at_last() {
    for kind in UNORDERED {
        let (db, keyspace) = open_with(kind);
        let snapshot = db.snapshot();
        keyspace.put(key(1), b"v").unwrap();
        let footprints = [Footprint::new(keyspace.state(), vec![b"key00000000"], Vec::new())];
        let mut validation = Validation::new(&footprints, snapshot.seqno());
        validation.prepare(db.store()).unwrap();
        let writing = db.store().writing().unwrap();
        for round in 0..=MAX_RETURNS {
            let mut batch = WriteBatch::new(db.store());
            (0..=LOCKED_STEPS).for_each(|number| batch.put(&keyspace, key(number + 2), b"v"));
            db.write(&batch).unwrap();
            let is_admitted = validation.admit(&writing.commit.lock()).unwrap();
            assert_eq!(is_admitted, round == MAX_RETURNS, "{kind}, round {round}");
            if !is_admitted {
                validation.prepare(db.store()).unwrap();
            }
        }
        keyspace.put(key(0), b"changed").unwrap();
        let last = validation.admit(&writing.commit.lock());
        assert!(matches!(last, Err(Error::Conflict(_))), "{kind}: {last:?}");
    }
}

/// A change that expired at once is a change: a compaction that finds it useless to every reader keeps its
/// evidence for as long as there is an older snapshot. Covers operands (which a merge drops one by one) and
/// whole tables (which are dropped unread).
#[test]
fn what_expires_at_once_is_a_conflict_before_and_after_a_compaction() {
    type Write = fn(&Keyspace);
    let expire_at_once: [(&str, Write); 3] = [
        ("an operand over a value", |keyspace| {
            keyspace.put(key(2), b"other").unwrap();
            keyspace.merge_with(key(1), b"1", Expiry::After(Duration::ZERO)).unwrap();
        }),
        ("two operands", |keyspace| {
            keyspace.merge_with(key(1), b"1", Expiry::After(Duration::ZERO)).unwrap();
            keyspace.merge_with(key(1), b"2", Expiry::After(Duration::ZERO)).unwrap();
        }),
        ("a table of its own", |keyspace| {
            keyspace.put_with(key(1), b"v", Expiry::After(Duration::ZERO)).unwrap();
        }),
    ];
    for (what, change) in expire_at_once {
        for is_stored in [false, true] {
            for compacts in [false, true] {
                let env = Env::simulated(Arc::new(StrictFs::new()), 3);
                let db =
                    Database::open_with("/db", Options::default().memory_budget(64 << 20).env(env)).unwrap();
                let options = KeyspaceOptions::default().merge_operator(MergeOperator::append(b","));
                let keyspace = db.keyspace_with("k", options).unwrap();
                if is_stored {
                    keyspace.put(key(1), b"v").unwrap();
                }
                let snapshot = db.snapshot();
                let read = keyspace.get(key(1)).unwrap();
                change(&keyspace);
                db.flush().unwrap();
                while db.step_background() {}
                if compacts {
                    db.compact_all().unwrap();
                }
                let told = commit(&db, &keyspace, &snapshot, vec![&key(1)], Vec::new());
                assert_eq!(told, Err(key(1)), "{what}, stored {is_stored}, compacted {compacts}");
                assert_eq!(keyspace.at(&snapshot).get(key(1)).unwrap(), read);
                // Without a snapshot it is dropped.
                drop(snapshot);
                db.compact_all().unwrap();
                let view = keyspace.state().view.load();
                let entries: u64 = view.tree.parts().map(|part| part.meta.entries).sum();
                let others = u64::from(what == "an operand over a value");
                assert!(entries <= others + u64::from(is_stored), "{what}: {entries} entries");
            }
        }
    }
}
