//! Merge operators, through the public API.

mod common;

use common::TestDir;
use esker::merge::{Merge, MergeError, set};
use esker::parts::env::{Env, ManualClock};
use esker::{Database, Error, Expiry, KeyspaceOptions, MergeOperator, Options, Ttl};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

fn with(operator: MergeOperator) -> KeyspaceOptions {
    KeyspaceOptions::default().merge_operator(operator)
}

/// Entries in the tables of a keyspace.
fn stored(db: &Database, name: &str) -> u64 {
    let metrics = db.metrics();
    metrics.keyspaces.iter().find(|keyspace| *keyspace.name == *name).expect("it is there").table_entries
}

/// Keeps the last two pieces; an operator that cannot combine operands alone.
#[derive(Debug)]
struct LastTwo;

impl Merge for LastTwo {
    fn name(&self) -> &str {
        "last two"
    }

    fn merge(&self, _: &[u8], value: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, MergeError> {
        let text = [value.unwrap_or_default(), b" ", &operands.join(b" ".as_slice())].concat();
        let pieces: Vec<&[u8]> = text.split(|byte| *byte == b' ').filter(|piece| !piece.is_empty()).collect();
        assert!(!pieces.contains(&b"panic".as_slice()), "a piece said so");
        Ok(pieces[pieces.len().saturating_sub(2)..].join(b" ".as_slice()))
    }
}

#[test]
fn every_read_merges_operands_wherever_they_are() {
    let dir = TestDir::new("merge-readers");
    let operators = [
        ("sums", MergeOperator::counter_wrapping()),
        ("checked", MergeOperator::counter_checked()),
        ("lists", MergeOperator::append(", ")),
        ("sets", MergeOperator::set_union()),
        ("least", MergeOperator::min()),
        ("most", MergeOperator::max()),
        ("last", MergeOperator::custom(Arc::new(LastTwo))),
    ];
    let open =
        || Database::open_with(dir.path(), Options::default().custom_merge(Arc::new(LastTwo))).unwrap();
    let operand = |name: &str, number: u64| match name {
        "sets" => set::encode([number.to_string()]),
        _ => number.to_string().into_bytes(),
    };
    let expected = |name: &str, count: u64| match name {
        "sums" | "checked" => (1..=count).sum::<u64>().to_string().into_bytes(),
        "lists" => (1..=count).map(|n| n.to_string()).collect::<Vec<_>>().join(", ").into_bytes(),
        "sets" => set::encode((1..=count).map(|n| n.to_string())),
        "least" => b"1".to_vec(),
        "most" => (1..=count).map(|n| n.to_string()).max().unwrap().into_bytes(),
        _ if count == 1 => b"1".to_vec(),
        _ => format!("{} {count}", count - 1).into_bytes(),
    };
    let mut db = open();
    for (name, operator) in &operators {
        db.keyspace_with(name, with(operator.clone())).unwrap();
    }
    for count in 1..=12u64 {
        for (name, _) in &operators {
            let keyspace = db.keyspace(name).unwrap();
            for key in ["a", "k", "z"] {
                match count % 3 {
                    0 => keyspace.merge(key, operand(name, count)).unwrap(),
                    1 => {
                        let mut batch = db.batch();
                        batch.merge(&keyspace, key, operand(name, count));
                        db.write(&batch).unwrap();
                    }
                    _ => db.transact(|tx| tx.merge(&keyspace, key, operand(name, count))).unwrap(),
                }
            }
            keyspace.delete("z").unwrap();
            let wanted = expected(name, count);
            let wanted = Some(wanted.as_slice());
            assert_eq!(keyspace.get("k").unwrap().as_deref(), wanted, "{name} {count}");
            assert!(keyspace.contains("k").unwrap() && !keyspace.contains("z").unwrap());
            keyspace.get_with("k", |value| assert_eq!(value, wanted)).unwrap();
            let all = keyspace.multi_get(&["k", "z", "a"]).unwrap();
            let all: Vec<_> = all.iter().map(Option::as_deref).collect();
            assert_eq!(all, [wanted, None, wanted]);
            let forwards: Vec<_> = keyspace.iter().map(|entry| entry.unwrap().1).collect();
            let backwards: Vec<_> = keyspace.iter().rev().map(|entry| entry.unwrap().1).collect();
            for values in [forwards, backwards] {
                assert_eq!(values.iter().map(|value| Some(&**value)).collect::<Vec<_>>(), [wanted, wanted]);
            }
            let mut cursor = keyspace.cursor().unwrap();
            cursor.seek_for_prev("y").unwrap();
            assert_eq!((cursor.key(), cursor.value()), (Some(b"k".as_slice()), wanted));
            cursor.retreat().unwrap();
            cursor.advance().unwrap();
            assert_eq!((cursor.key(), cursor.value()), (Some(b"k".as_slice()), wanted));
        }
        match count {
            3 | 5 | 9 => db.flush().unwrap(),
            7 => db.compact_all().unwrap(),
            6 | 10 => {
                db.close().unwrap();
                db = open();
            }
            _ => {}
        }
    }
    db.compact_all().unwrap();
    for (name, _) in &operators {
        assert_eq!(stored(&db, name), 2, "operands of {name} are left");
    }
    assert!(db.verify().unwrap().is_clean());
}

#[test]
fn snapshots_keep_what_they_see() {
    let dir = TestDir::new("merge-snapshots");
    let db = Database::open(dir.path()).unwrap();
    let visits = db.keyspace_with("visits", with(MergeOperator::counter_wrapping())).unwrap();
    let mut snapshots = Vec::new();
    for number in 1..=6 {
        visits.merge("k", "1").unwrap();
        visits.merge("k", "1").unwrap();
        snapshots.push((db.snapshot(), (2 * number).to_string()));
    }
    for _ in 0..3 {
        visits.compact(..).unwrap();
        for (snapshot, expected) in &snapshots {
            let seen = visits.at(snapshot).get("k").unwrap().unwrap();
            assert_eq!(*seen, *expected.as_bytes());
        }
        assert_eq!(stored(&db, "visits"), snapshots.len().max(1) as u64);
        snapshots.truncate(snapshots.len() / 2);
        visits.merge("k", "0").unwrap();
        if let Some((snapshot, expected)) = snapshots.last_mut() {
            *snapshot = db.snapshot();
            *expected = "12".to_owned();
        }
    }
}

#[test]
fn each_operand_expires_on_its_own() {
    let dir = TestDir::new("merge-ttl");
    let clock = Arc::new(ManualClock::new(1_000_000));
    let env = Env { clock: Arc::<ManualClock>::clone(&clock), ..Env::real() };
    let db = Database::open_with(dir.path(), Options::default().env(env)).unwrap();
    let options = with(MergeOperator::counter_wrapping());
    let plain = db.keyspace_with("plain", options.clone()).unwrap();
    let lately = db.keyspace_with("lately", options.default_ttl(Duration::from_secs(60))).unwrap();
    let second = Duration::from_secs(1);
    plain.put_with("base", "100", Expiry::After(second)).unwrap();
    plain.merge("base", "1").unwrap();
    plain.merge("mixed", "1").unwrap();
    plain.merge_with("mixed", "10", Expiry::After(2 * second)).unwrap();
    plain.merge("mixed", "100").unwrap();
    plain.merge_with("short", "7", Expiry::After(second)).unwrap();
    lately.merge("k", "1").unwrap();
    let get = |keyspace: &esker::Keyspace, key: &str| {
        keyspace.get(key).unwrap().map(|value| String::from_utf8(value.into_vec()).unwrap())
    };
    let is = |text: &str| Some(text.to_owned());
    for _ in 0..2 {
        assert_eq!(get(&plain, "base"), is("101"));
        assert_eq!(get(&plain, "mixed"), is("111"));
        assert_eq!(get(&plain, "short"), is("7"));
        let left = Ttl::Expires { at: UNIX_EPOCH + Duration::from_millis(1_001_000), left: second };
        assert_eq!(plain.ttl("short").unwrap(), Some(left));
        assert_eq!(plain.ttl("mixed").unwrap(), Some(Ttl::Forever));
        db.compact_all().unwrap();
    }
    clock.advance(second);
    assert_eq!((get(&plain, "base"), get(&plain, "short")), (is("1"), None));
    assert_eq!(plain.ttl("short").unwrap(), None);
    clock.advance(second);
    for _ in 0..2 {
        assert_eq!(get(&plain, "mixed"), is("101"));
        assert_eq!((get(&plain, "base"), get(&plain, "short")), (is("1"), None));
        db.compact_all().unwrap();
    }
    // A write, so that there is something to compact again.
    plain.delete("nothing").unwrap();
    plain.merge("mixed", "0").unwrap();
    plain.merge("short", "0").unwrap();
    plain.merge("base", "0").unwrap();
    db.compact_all().unwrap();
    assert_eq!(stored(&db, "plain"), 3);
    lately.merge("k", "1").unwrap();
    assert_eq!(get(&lately, "k"), is("2"));
    clock.advance(58 * second);
    assert_eq!(get(&lately, "k"), is("1"));
    clock.advance(2 * second);
    assert_eq!(get(&lately, "k"), None);
}

#[test]
fn mistakes_are_reported_to_the_caller() {
    let dir = TestDir::new("merge-mistakes");
    let db = Database::open(dir.path()).unwrap();
    let told = |result: esker::Result<()>| result.unwrap_err().to_string();
    let none = told(db.default_keyspace().merge("k", "1"));
    assert!(none.contains("\"default\" has no merge operator"), "{none}");
    let mut batch = db.batch();
    batch.merge(db.default_keyspace(), "k", "1");
    assert!(told(db.write(&batch).map(drop)).contains("has no merge operator"));
    let visits = db.keyspace_with("visits", with(MergeOperator::counter_checked())).unwrap();
    let operand = told(visits.merge("k\n", "one"));
    assert!(operand.contains("key \"k\\n\"") && operand.contains("\"one\" is no whole number"), "{operand}");
    assert!(matches!(db.transaction().merge(&visits, "k", "x"), Err(Error::InvalidArgument(_))));

    // Operands that cannot be merged stay, and their readers get the error.
    let max = i64::MAX.to_string();
    visits.merge("full", &max).unwrap();
    visits.merge("full", "1").unwrap();
    visits.put("text", "many").unwrap();
    visits.merge("text", "1").unwrap();
    visits.merge("well", "1").unwrap();
    for _ in 0..2 {
        let full = visits.get("full").unwrap_err();
        assert!(matches!(full, Error::Merge(_)), "{full}");
        let full = full.to_string();
        assert!(full.contains("key \"full\" in keyspace \"visits\"") && full.contains("overflows"), "{full}");
        assert!(full.contains("counter-checked"), "{full}");
        let text = visits.get("text").unwrap_err().to_string();
        assert!(text.contains("\"many\" is no whole number"), "{text}");
        assert!(visits.iter().next().unwrap().is_err() && visits.iter().next_back().unwrap().is_ok());
        assert_eq!(visits.get("well").unwrap().as_deref(), Some(b"1".as_slice()));
        db.compact_all().unwrap();
    }
    db.rename_keyspace("visits", "hits").unwrap();
    assert!(visits.get("full").unwrap_err().to_string().contains("keyspace \"hits\""));
    // An operand after which the sum fits again, and a value that ends the history.
    visits.merge("full", "-1").unwrap();
    visits.put("text", "0").unwrap();
    db.compact_all().unwrap();
    assert_eq!(visits.get("full").unwrap().as_deref(), Some(max.as_bytes()));
    assert_eq!(stored(&db, "hits"), 3);
}

#[test]
fn an_operator_is_stored_and_required_by_name() {
    let dir = TestDir::new("merge-names");
    let supplied = || Options::default().custom_merge(Arc::new(LastTwo));
    let db = Database::open_with(dir.path(), Options::default().flush_on_close(false)).unwrap();
    let words = db.keyspace_with("words", with(MergeOperator::custom(Arc::new(LastTwo)))).unwrap();
    for word in ["a", "b", "c"] {
        words.merge("k", word).unwrap();
    }
    let sums = db.keyspace("sums").unwrap();
    sums.put("k", "40").unwrap();
    sums.update_options(|options| options.merge_operator(MergeOperator::counter_wrapping())).unwrap();
    sums.merge("k", "2").unwrap();
    let other = |options: KeyspaceOptions| options.merge_operator(MergeOperator::min());
    let refused = sums.update_options(other).unwrap_err().to_string();
    assert!(refused.contains("\"sums\" cannot become min: there may be operands of counter"), "{refused}");
    let refused = sums.update_options(|_| KeyspaceOptions::default()).unwrap_err().to_string();
    assert!(refused.contains("cannot become none"), "{refused}");
    let refused = db.keyspace_with("sums", with(MergeOperator::max())).unwrap_err().to_string();
    assert!(refused.contains("has the merge operator counter, not max"), "{refused}");
    assert!(db.keyspace_with("sums", with(MergeOperator::counter_wrapping())).is_ok());
    drop((words, sums));
    db.close().unwrap();
    drop(db);

    let missing = Database::open(dir.path()).unwrap_err();
    assert!(matches!(missing, Error::InvalidArgument(_)));
    let missing = missing.to_string();
    assert!(missing.contains("\"words\" has the merge operator \"last two\""), "{missing}");
    assert!(missing.contains("Options::custom_merge"), "{missing}");

    // A tool reads the other keyspaces.
    let db = Database::open_with(dir.path(), Options::default().allow_missing_operators(true)).unwrap();
    let (words, sums) = (db.keyspace("words").unwrap(), db.keyspace("sums").unwrap());
    assert_eq!(sums.get("k").unwrap().as_deref(), Some(b"42".as_slice()));
    assert!(words.get("k").unwrap_err().to_string().contains("was not supplied"));
    assert!(words.merge("k", "d").is_err());
    words.put("other", "x").unwrap();
    db.compact_all().unwrap();
    drop((words, sums));
    db.close().unwrap();
    drop(db);

    let db = Database::open_with(dir.path(), supplied()).unwrap();
    let words = db.keyspace("words").unwrap();
    assert_eq!(words.get("k").unwrap().as_deref(), Some(b"b c".as_slice()));
    // A panic in a user's merge function loses nothing.
    words.merge("k", "panic").unwrap();
    let panicked = words.get("k").unwrap_err().to_string();
    assert!(panicked.contains("it panicked: a piece said so"), "{panicked}");
    db.compact_all().unwrap();
    assert_eq!(words.get("other").unwrap().as_deref(), Some(b"x".as_slice()));
    words.delete("k").unwrap();
    words.merge("k", "e").unwrap();
    db.compact_all().unwrap();
    assert_eq!(words.get("k").unwrap().as_deref(), Some(b"e".as_slice()));
    // An export merges operands; an import puts values.
    let mut bytes = Vec::new();
    db.export(&[words, db.keyspace("sums").unwrap()], &mut bytes, |_| {}).unwrap();
    let elsewhere = TestDir::new("merge-import");
    let copy = Database::open(elsewhere.path()).unwrap();
    copy.import(&mut bytes.as_slice(), |_| {}).unwrap();
    assert_eq!(copy.keyspace("sums").unwrap().get("k").unwrap().as_deref(), Some(b"42".as_slice()));
}

#[test]
fn transactions_read_what_they_merge() {
    let dir = TestDir::new("merge-transactions");
    let db = Database::open(dir.path()).unwrap();
    let lists = db.keyspace_with("lists", with(MergeOperator::append(","))).unwrap();
    lists.put("a", "1").unwrap();
    lists.put("b", "1").unwrap();
    let mut tx = db.transaction();
    tx.merge(&lists, "a", "2").unwrap();
    let savepoint = tx.savepoint();
    tx.merge(&lists, "a", "3").unwrap();
    tx.delete(&lists, "b").unwrap();
    tx.merge(&lists, "b", "2").unwrap();
    tx.merge(&lists, "c", "1").unwrap();
    tx.put(&lists, "d", "1").unwrap();
    tx.merge(&lists, "d", "2").unwrap();
    let seen = |tx: &esker::Transaction| {
        let keys = ["a", "b", "c", "d"];
        let text = |value: esker::Value| String::from_utf8(value.into_vec()).unwrap();
        let got: Vec<_> = keys.iter().map(|key| tx.get(&lists, key).unwrap().map(text)).collect();
        let together = tx.multi_get(&lists, &keys).unwrap();
        assert_eq!(got, together.into_iter().map(|value| value.map(text)).collect::<Vec<_>>());
        let there: Vec<_> = got.iter().flatten().cloned().collect();
        let ranged: Vec<_> = tx.range(&lists, ..).map(|entry| text(entry.unwrap().1)).collect();
        let mut reversed: Vec<_> = tx.range(&lists, ..).rev().map(|entry| text(entry.unwrap().1)).collect();
        reversed.reverse();
        assert_eq!((&ranged, &reversed), (&there, &there));
        assert!(keys.iter().zip(&got).all(|(key, got)| tx.contains(&lists, key).unwrap() == got.is_some()));
        there.join(" ")
    };
    assert_eq!(seen(&tx), "1,2,3 2 1 1,2");
    tx.rollback_to(savepoint).unwrap();
    assert_eq!(seen(&tx), "1,2 1");
    tx.merge(&lists, "c", "1").unwrap();
    tx.commit().unwrap();
    assert_eq!(lists.get("a").unwrap().as_deref(), Some(b"1,2".as_slice()));
    assert_eq!(lists.get("c").unwrap().as_deref(), Some(b"1".as_slice()));
    // Changes of other writers are conflicts.
    let mut tx = db.transaction();
    tx.merge(&lists, "a", "3").unwrap();
    lists.merge("a", "4").unwrap();
    assert!(tx.commit().unwrap_err().is_conflict());
    lists.fetch_update("a", |list| Some([list.unwrap(), b"."].concat())).unwrap();
    assert_eq!(lists.get("a").unwrap().as_deref(), Some(b"1,2,4.".as_slice()));
}

#[test]
fn a_range_delete_ends_the_history_of_operands() {
    let dir = TestDir::new("merge-range-delete");
    let db = Database::open(dir.path()).unwrap();
    let visits = db.keyspace_with("visits", with(MergeOperator::counter_wrapping())).unwrap();
    visits.put("k", "100").unwrap();
    visits.merge("k", "10").unwrap();
    db.flush().unwrap();
    visits.delete_range("a".."z").unwrap();
    visits.merge("k", "1").unwrap();
    for _ in 0..2 {
        visits.merge("k", "1").unwrap();
        let value = visits.get("k").unwrap().unwrap();
        assert_eq!(visits.iter().next_back().unwrap().unwrap().1, value);
        assert_eq!(visits.first().unwrap().unwrap().1, value);
        db.flush().unwrap();
        // The range delete ends the operands' history, so they become a value before they meet the older
        // table.
        assert_eq!(visits.get("k").unwrap().unwrap(), value);
    }
    assert_eq!(visits.get("k").unwrap().as_deref(), Some(b"3".as_slice()));
    visits.compact(..).unwrap();
    assert_eq!(visits.get("k").unwrap().as_deref(), Some(b"3".as_slice()));
    assert_eq!(stored(&db, "visits"), 1);
}

/// Keys whose operands the operator refuses end an export, or are left out of it on request and told.
#[test]
fn an_export_leaves_out_what_cannot_be_merged_if_it_is_told_to() {
    let dir = TestDir::new("export-merges");
    let options = KeyspaceOptions::default().merge_operator(MergeOperator::counter_checked());
    let db = Database::open(dir.path()).unwrap();
    let counts = db.keyspace_with("counts", options).unwrap();
    for number in 0..10u32 {
        let key = format!("key{number}");
        // Two neighbours in the middle, the first and the last.
        let is_bad = matches!(number, 0 | 4 | 5 | 9);
        counts.put(&key, if is_bad { "no number" } else { "1" }).unwrap();
        counts.merge(&key, "2").unwrap();
    }
    let mut bytes = Vec::new();
    let error = db.export(std::slice::from_ref(&counts), &mut bytes, |_| {}).unwrap_err();
    assert!(matches!(&error, Error::Merge(failure) if &*failure.key == b"key0"), "{error}");
    bytes.clear();
    let mut skipped = Vec::new();
    let keep = |failure: &esker::error::MergeFailure| {
        skipped.push((failure.keyspace.to_string(), failure.key.to_vec()));
    };
    let report = db.export_skipping(&[counts], &mut bytes, |_| {}, keep).unwrap();
    let named = |number: u32| ("counts".to_owned(), format!("key{number}").into_bytes());
    assert_eq!(skipped, [0, 4, 5, 9].map(named));
    assert_eq!((report.skipped, report.entries), (4, 6));
    let other = TestDir::new("export-merges-import");
    let target = Database::open(other.path()).unwrap();
    assert_eq!(target.import(&mut bytes.as_slice(), |_| {}).unwrap().entries, 6);
    assert_eq!(target.open_keyspace("counts").unwrap().get("key8").unwrap().as_deref(), Some(&b"3"[..]));
    target.close().unwrap();
    db.close().unwrap();
}

/// Operands of a key that make more than the memory budget: a read is refused before it takes the memory, the
/// operands stay, whatever is compacted, and a larger budget reads them.
#[test]
fn a_merge_beyond_the_memory_budget_is_refused_and_loses_nothing() {
    const OPERANDS: u8 = 40;
    const BYTES: usize = 400_000;
    let dir = TestDir::new("long-merge");
    let open = |budget: u64| {
        let options =
            Options::default().memory_budget(budget).keyspace_options(with(MergeOperator::append(b"")));
        Database::open_with(dir.path(), options).unwrap()
    };
    let db = open(8 << 20);
    let keyspace = db.default_keyspace();
    keyspace.put("other", "value").unwrap();
    for number in 0..OPERANDS {
        keyspace.merge("key", vec![number; BYTES]).unwrap();
        if number % 16 == 9 {
            db.compact_all().unwrap();
        }
    }
    let check = || {
        let error = keyspace.get("key").unwrap_err();
        assert!(error.to_string().contains("the memory budget has 8388608 bytes"), "{error}");
        assert_eq!(keyspace.get("other").unwrap().as_deref(), Some(&b"value"[..]));
    };
    check();
    db.compact_all().unwrap();
    check();
    db.close().unwrap();
    let db = open(64 << 20);
    let expected: Vec<u8> = (0..OPERANDS).flat_map(|number| vec![number; BYTES]).collect();
    let read = || db.default_keyspace().get("key").unwrap().is_some_and(|value| *value == expected[..]);
    assert!(read());
    db.compact_all().unwrap();
    assert!(read());
    db.close().unwrap();
}
