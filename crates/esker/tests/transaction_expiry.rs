//! Expiry in transactions: counted from the call, of each operand on its own, and kept by updates.

#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]

mod common;

use common::TestDir;
use esker::parts::env::{Env, ManualClock};
use esker::{Database, Error, Expiry, Keyspace, KeyspaceOptions, MergeOperator, Options, Transaction};
use std::sync::Arc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

struct Fixture {
    db: Database,
    clock: Arc<ManualClock>,
    /// With and without a default TTL of ten seconds.
    lists: [Keyspace; 2],
}

fn open(dir: &TestDir) -> Fixture {
    let clock = Arc::new(ManualClock::new(1_000_000));
    let env = Env { clock: Arc::<ManualClock>::clone(&clock), ..Env::real() };
    let db = Database::open_with(dir.path(), Options::default().env(env)).unwrap();
    let plain = KeyspaceOptions::default().merge_operator(MergeOperator::append(","));
    let lists = [
        db.keyspace_with("short", plain.clone().default_ttl(10 * SECOND)).unwrap(),
        db.keyspace_with("plain", plain).unwrap(),
    ];
    Fixture { db, clock, lists }
}

fn text(value: Option<esker::Value>) -> Option<String> {
    value.map(|value| String::from_utf8(value.into_vec()).unwrap())
}

/// The values of `key` after each second, for twenty seconds.
fn lives(fixture: &Fixture, keyspace: &Keyspace, key: &str) -> Vec<Option<String>> {
    let mut lives = Vec::new();
    for _ in 0..20 {
        lives.push(text(keyspace.get(key).unwrap()));
        fixture.clock.advance(SECOND);
    }
    lives
}

fn is(parts: &[(&str, usize)]) -> Vec<Option<String>> {
    parts
        .iter()
        .flat_map(|(text, times)| std::iter::repeat_n((!text.is_empty()).then(|| (*text).to_owned()), *times))
        .collect()
}

#[test]
fn a_default_ttl_counts_from_the_call_not_from_the_commit() {
    let dir = TestDir::new("tx-expiry");
    let fixture = open(&dir);
    let [short, _] = &fixture.lists;
    let mut tx = fixture.db.transaction();
    tx.merge(short, "merged", "a").unwrap();
    fixture.clock.advance(4 * SECOND);
    tx.merge(short, "merged", "b").unwrap();
    tx.delete(short, "new").unwrap();
    tx.merge(short, "new", "c").unwrap();
    fixture.clock.advance(2 * SECOND);
    tx.commit().unwrap();
    // Six and two seconds have passed since the calls.
    let both = [text(short.get("merged").unwrap()), text(short.get("new").unwrap())];
    assert_eq!(both, [Some("a,b".to_owned()), Some("c".to_owned())]);
    assert_eq!(lives(&fixture, short, "merged"), is(&[("a,b", 4), ("b", 4), ("", 12)]));
}

/// A script of puts and merges with expiries gives what a batch of the same operations gives, whatever became
/// one in the transaction.
#[test]
fn parts_expire_as_in_a_batch() {
    let script: &[(&str, bool, Expiry)] = &[
        ("a", true, Expiry::After(Duration::from_secs(8))),
        ("b", false, Expiry::After(Duration::from_secs(8))),
        ("c", false, Expiry::After(Duration::from_secs(12))),
        ("d", false, Expiry::After(Duration::from_secs(12))),
        ("e", false, Expiry::Default),
        ("f", false, Expiry::After(Duration::from_secs(3))),
        ("g", false, Expiry::Never),
        ("h", true, Expiry::Never),
        ("i", false, Expiry::After(Duration::from_secs(2))),
        ("j", false, Expiry::Default),
        ("k", false, Expiry::After(Duration::ZERO)),
    ];
    let dir = TestDir::new("tx-expiry");
    let fixture = open(&dir);
    let (db, clock) = (&fixture.db, &fixture.clock);
    for keyspace in &fixture.lists {
        for from in 0..script.len() {
            for until in from + 1..=script.len() {
                for key in ["in a batch", "in a transaction"] {
                    keyspace.put_with(key, "0", Expiry::After(5 * SECOND)).unwrap();
                }
                let (mut batch, mut tx) = (db.batch(), db.transaction());
                for (part, is_put, expiry) in &script[from..until] {
                    if *is_put {
                        batch.put_with(keyspace, "in a batch", part, *expiry);
                        tx.put_with(keyspace, "in a transaction", part, *expiry).unwrap();
                    } else {
                        batch.merge_with(keyspace, "in a batch", part, *expiry);
                        tx.merge_with(keyspace, "in a transaction", part, *expiry).unwrap();
                    }
                    if part.as_bytes()[0] % 2 == 0 {
                        clock.advance(SECOND / 10);
                    }
                }
                let seen = text(tx.get(keyspace, "in a transaction").unwrap());
                let listed = tx.range(keyspace, "in a t"..).next().map(|entry| entry.unwrap().1);
                assert_eq!(text(listed), seen);
                db.write(&batch).unwrap();
                tx.commit().unwrap();
                for _ in 0..16 {
                    let of = |key| (text(keyspace.get(key).unwrap()), keyspace.ttl(key).unwrap());
                    assert_eq!(of("in a transaction"), of("in a batch"), "{:?}", &script[from..until]);
                    clock.advance(SECOND);
                }
            }
        }
    }
}

/// Nothing expires while a transaction reads, and what was over at its moment is not seen.
#[test]
fn a_transaction_reads_at_one_moment() {
    let dir = TestDir::new("tx-expiry");
    let fixture = open(&dir);
    let [_, lists] = &fixture.lists;
    lists.put("a", "0").unwrap();
    let mut tx = fixture.db.transaction();
    tx.merge_with(lists, "a", "over", Expiry::After(Duration::ZERO)).unwrap();
    tx.merge_with(lists, "b", "over", Expiry::At(fixture.db.now() - SECOND)).unwrap();
    tx.delete(lists, "c").unwrap();
    tx.merge_with(lists, "c", "over", Expiry::After(Duration::ZERO)).unwrap();
    tx.merge_with(lists, "d", "1", Expiry::After(SECOND)).unwrap();
    fixture.clock.advance(2 * SECOND);
    let seen = |tx: &Transaction, key: &str| text(tx.get(lists, key).unwrap());
    assert_eq!(["a", "b", "c", "d"].map(|key| seen(&tx, key).unwrap_or_default()), ["0", "", "", "1"]);
    assert!(!tx.contains(lists, "b").unwrap());
    assert_eq!(tx.keys(lists, ..).count(), 2);
    tx.commit().unwrap();
    assert_eq!(lists.iter().count(), 1);
}

#[test]
fn updates_keep_the_expiry_of_the_last_part() {
    let dir = TestDir::new("tx-expiry");
    let fixture = open(&dir);
    let [short, lists] = &fixture.lists;
    for (base, operand, expected) in [(3, 5, 5), (5, 3, 5), (0, 3, 3), (3, 0, 20)] {
        // Zero stands for nothing below, and for an operand that does not expire.
        lists.delete("k").unwrap();
        if base > 0 {
            lists.put_with("k", "0", Expiry::After(base * SECOND)).unwrap();
        }
        let mut tx = fixture.db.transaction();
        let expiry = if operand > 0 { Expiry::After(operand * SECOND) } else { Expiry::Never };
        tx.merge_with(lists, "k", "1", expiry).unwrap();
        tx.fetch_update(lists, "k", |_| Some(b"new".to_vec())).unwrap();
        tx.commit().unwrap();
        let alive = lives(&fixture, lists, "k").iter().flatten().count();
        assert_eq!(alive, expected, "{base} {operand}");
    }
    // What is new takes the default.
    let mut tx = fixture.db.transaction();
    tx.delete(short, "k").unwrap();
    tx.fetch_update(short, "k", |_| Some(b"new".to_vec())).unwrap();
    tx.commit().unwrap();
    assert_eq!(lives(&fixture, short, "k").iter().flatten().count(), 10);
    assert!(matches!(
        fixture.db.transaction().merge_with(lists, "k", "1", Expiry::Keep),
        Err(Error::InvalidArgument(_))
    ));
}
