//! A batch over the database: reads see the batch first and the database below it, and writing it makes the
//! database what the batch showed.

#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]

mod common;

use common::{TestDir, tiny};
use esker::parts::env::{Env, ManualClock};
use esker::{BatchView, Database, Error, Expiry, IndexedBatch, Keyspace, MergeOperator, Options, Value};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

const KEYS: u64 = 40;

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("{number:03}").into_bytes()
}

fn appended(before: Option<&Vec<u8>>, operand: &[u8]) -> Vec<u8> {
    before.map_or(operand.to_vec(), |before| [before, b",".as_slice(), operand].concat())
}

/// One random change, of the batch and of what it should show.
fn change(random: &mut Random, batch: &mut IndexedBatch, keyspace: &Keyspace, shown: &mut Contents) {
    let (number, value) = (random.below(KEYS), random.below(1000).to_string().into_bytes());
    let key = key(number);
    match random.below(10) {
        0..4 => {
            batch.put(keyspace, &key, &value).unwrap();
            shown.insert(key, value);
        }
        4..6 => {
            batch.delete(keyspace, &key).unwrap();
            shown.remove(&key);
        }
        6..8 => {
            batch.merge(keyspace, &key, &value).unwrap();
            shown.insert(key.clone(), appended(shown.get(&key), &value));
        }
        _ => {
            let end = self::key(number + random.below(12));
            batch.delete_range(keyspace, &key..&end).unwrap();
            shown.retain(|other, _| !(*other >= key && *other < end));
        }
    }
}

fn check(view: BatchView<'_>, shown: &Contents, turns: u64) {
    let keys: Vec<_> = (0..KEYS).map(key).collect();
    let expected: Vec<_> = keys.iter().map(|key| shown.get(key).cloned()).collect();
    let found: Vec<_> = keys.iter().map(|key| view.get(key).unwrap().map(Value::into_vec)).collect();
    assert_eq!(found, expected);
    let found = view.multi_get(&keys).unwrap();
    assert_eq!(found.into_iter().map(|value| value.map(Value::into_vec)).collect::<Vec<_>>(), expected);
    for (key, expected) in std::iter::zip(&keys, &expected) {
        assert_eq!(view.contains(key).unwrap(), expected.is_some());
        assert_eq!(view.get_with_expiry(key).unwrap().map(|found| found.value.into_vec()), *expected);
    }
    let bounds = [(Bound::Unbounded, Bound::Unbounded), (Bound::Excluded(key(7)), Bound::Included(key(31)))];
    for bounds in bounds {
        let (mut front, mut back, mut turns) = (Vec::new(), Vec::new(), turns);
        let mut range = view.range(bounds.clone());
        loop {
            turns = turns.rotate_right(1);
            let is_back = turns & 1 == 1;
            let next = if is_back { range.next_back() } else { range.next() };
            let Some(entry) = next else { break };
            let (key, value) = entry.unwrap();
            if is_back { &mut back } else { &mut front }.push((key.into_vec(), value.into_vec()));
        }
        front.extend(back.into_iter().rev());
        let expected: Vec<_> = shown.range(bounds).map(|(key, value)| (key.clone(), value.clone())).collect();
        assert_eq!(front, expected);
    }
}

#[test]
fn a_batch_shows_what_writing_it_stores() {
    let dir = TestDir::new("indexed-batch");
    let db = Database::open(dir.path()).unwrap();
    let options = tiny().merge_operator(MergeOperator::append(","));
    let keyspace = db.keyspace_with("lists", options).unwrap();
    let mut random = Random(1);
    let mut stored = Contents::new();
    let mut batch = db.indexed_batch();
    for round in 0..120u64 {
        let mut shown = stored.clone();
        for _ in 0..random.below(25) {
            change(&mut random, &mut batch, &keyspace, &mut shown);
        }
        check(batch.over(&keyspace), &shown, random.below(u64::MAX >> 1));
        // A snapshot from before a foreign write still shows what was stored then.
        let snapshot = db.snapshot();
        keyspace.put("foreign", "write").unwrap();
        check(batch.over(&keyspace).at(&snapshot), &shown, round);
        keyspace.delete("foreign").unwrap();

        db.write(&batch.to_batch().unwrap()).unwrap();
        check(db.indexed_batch().over(&keyspace), &shown, round);
        let entries: Contents = keyspace
            .iter()
            .map(|entry| entry.map(|(key, value)| (key.into_vec(), value.into_vec())).unwrap())
            .collect();
        assert_eq!(entries, shown, "round {round}");
        stored = shown;
        batch.clear();
        assert!(batch.is_empty() && batch.memory_bytes() == 0);
        if round % 10 == 9 {
            keyspace.flush().unwrap();
        }
    }
}

#[test]
fn changes_of_a_batch_expire_while_it_is_read() {
    let dir = TestDir::new("indexed-batch-expiry");
    let clock = Arc::new(ManualClock::new(1_000_000));
    let env = Env { clock: Arc::<ManualClock>::clone(&clock), ..Env::real() };
    let db = Database::open_with(dir.path(), Options::default().env(env)).unwrap();
    let options = tiny().merge_operator(MergeOperator::append(","));
    let lists = db.keyspace_with("lists", options).unwrap();
    let at = |seconds| Expiry::At(db.now() + Duration::from_secs(seconds));
    let end = db.now() + Duration::from_secs(10);
    lists.put_with("a", "stored", at(10)).unwrap();
    let mut batch = db.indexed_batch();
    batch.put_with(&lists, "a", "own", Expiry::Keep).unwrap();
    batch.put_with(&lists, "b", "own", at(5)).unwrap();
    batch.merge_with(&lists, "c", "1", at(5)).unwrap();
    batch.merge_with(&lists, "c", "2", at(7)).unwrap();
    let text = |name: &str| batch.over(&lists).get(name).unwrap().map(Value::into_vec);
    assert_eq!(batch.over(&lists).get_with_expiry("a").unwrap().unwrap().expiry, Some(end));
    assert_eq!((text("b"), text("c")), (Some(b"own".to_vec()), Some(b"1,2".to_vec())));
    clock.advance(Duration::from_secs(6));
    assert_eq!((text("b"), text("c")), (None, Some(b"2".to_vec())));
    assert_eq!(batch.over(&lists).iter().count(), 2);
    clock.advance(Duration::from_secs(6));
    assert_eq!(batch.over(&lists).iter().count(), 0);
    assert_eq!(batch.over(&lists).first().unwrap(), None);
}

#[test]
fn what_a_batch_cannot_hold_changes_nothing() {
    let (dir, other_dir) = (TestDir::new("indexed-batch-errors"), TestDir::new("indexed-batch-other"));
    let (db, other) = (Database::open(dir.path()).unwrap(), Database::open(other_dir.path()).unwrap());
    let (ours, theirs) = (db.default_keyspace(), other.default_keyspace());
    let mut batch = db.indexed_batch();
    let is_invalid = |outcome: esker::Result<()>| matches!(outcome, Err(Error::InvalidArgument(_)));
    assert!(is_invalid(batch.put(theirs, "a", "1")));
    assert!(is_invalid(batch.delete(ours, vec![0; 70_000])));
    assert!(is_invalid(batch.merge(ours, "a", "1")), "there is no merge operator");
    batch.delete_range(ours, "c".."a").unwrap();
    assert!(batch.is_empty());
    assert!(batch.over(theirs).get("a").is_err());
    assert!(batch.over(ours).at(&other.snapshot()).get("a").is_err());
    assert!(batch.over(theirs).iter().next().unwrap().is_err());
    db.close().unwrap();
    assert!(matches!(batch.over(ours).get("a"), Err(Error::Closed)));
}
