//! The ways between the two steps, which the outside meets only by chance.

use super::*;
use crate::batch::WriteBatch;
use crate::commit::Patience;
use crate::{Database, Durability, Keyspace, Options, Snapshot};
use esker_env::Env;
use esker_env::fault::StrictFs;

fn key(number: u64) -> Vec<u8> {
    format!("key{number:08}").into_bytes()
}

/// A database whose background work happens only when it is asked for.
fn open() -> (Database, Keyspace) {
    let env = Env::simulated(Arc::new(StrictFs::new()), 3);
    let db = Options::default().memory_budget(64 << 20).env(env).open("/db").unwrap();
    let keyspace = db.keyspace("k").unwrap();
    (db, keyspace)
}

/// Commits a put of `result` over this footprint; how often the look was put off, or the key of the conflict.
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
    match store.commit_if(&encoded, Durability::Process, Patience::Stall, &mut validation) {
        Ok(_) => Ok(validation.returns),
        Err(Error::Conflict(conflict)) => Err(conflict.key.to_vec()),
        Err(error) => panic!("{error}"),
    }
}

/// Straight under the lock, where it would take too long: the memtable is sealed, and looked through outside.
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
        // Once sealed, only what is new has to be looked at, and that is short.
        assert_eq!(returns, Ok(u32::from(is_first)));
        let view = keyspace.state().view.load();
        assert!(view.active.memtable.len() < 10, "the large memtable was sealed");
        keyspace.put(key(7), b"depended on").unwrap();
        assert_eq!(commit(&db, &keyspace, &snapshot, points, ranges), Err(key(7)));
    }
}

/// A flush between the look outside and the one under the lock: what it carried away is looked for again.
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
