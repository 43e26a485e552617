//! Compaction filters, through the public API.

mod common;

use common::TestDir;
use esker::compaction_filter::{CompactionFilter, Decision};
use esker::{Database, Expiry, KeyspaceOptions, MergeOperator, Options};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

/// Removes and changes the values that say so, and records what it was shown.
#[derive(Default)]
struct Obedient {
    shown: Mutex<Vec<(Vec<u8>, Vec<u8>)>>,
}

impl CompactionFilter for Obedient {
    fn name(&self) -> &str {
        "obedient"
    }

    fn filter(&self, key: &[u8], value: &[u8]) -> Decision {
        self.shown.lock().expect("no panic").push((key.to_vec(), value.to_vec()));
        match value {
            b"remove" => Decision::Remove,
            b"change" => Decision::Change(b"changed".to_vec()),
            b"panic" => panic!("a value said so"),
            _ => Decision::Keep,
        }
    }
}

impl Obedient {
    fn take(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        std::mem::take(&mut self.shown.lock().expect("no panic"))
    }
}

fn text(keyspace: &esker::Keyspace, key: &str) -> Option<String> {
    let value = keyspace.get(key).expect("a get");
    value.map(|value| String::from_utf8(value.into_vec()).expect("text"))
}

fn is(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn filters_keep_change_and_remove_values_and_uncover_nothing() {
    let dir = TestDir::new("filter");
    let filter = Arc::new(Obedient::default());
    let options = KeyspaceOptions::default().compaction_filter(Arc::<Obedient>::clone(&filter));
    let db = Database::open(dir.path()).expect("opening");
    let data = db.keyspace_with("data", options.clone()).expect("a keyspace");
    for key in ["a", "b", "c", "p"] {
        data.put(key, "older").expect("a put");
    }
    data.flush().expect("a flush");
    assert!(filter.take().is_empty(), "flushes show nothing");
    data.put("a", "remove").expect("a put");
    data.put_with("b", "change", Expiry::After(Duration::from_secs(3600))).expect("a put");
    data.put("p", "panic").expect("a put");
    data.put("gone", "remove").expect("a put");
    data.delete("gone").expect("a delete");
    for _ in 0..2 {
        data.compact(..).expect("a compaction");
        let values = ["a", "b", "c", "p"].map(|key| text(&data, key));
        assert_eq!(values, [None, is("changed"), is("older"), is("panic")]);
        assert!(data.ttl("b").expect("a ttl").is_some_and(|ttl| ttl != esker::Ttl::Forever));
        assert_eq!(data.iter().count(), 3);
        // Gives the compaction something to do.
        data.put("c", "older").expect("a put");
    }
    let shown = filter.take();
    assert!(!shown.iter().any(|(key, _)| key == b"gone"), "what is deleted is not shown");
    assert!(!shown.contains(&(b"a".to_vec(), b"older".to_vec())), "nor what is overwritten");
    assert!(db.verify().expect("verify").is_clean());
    let named = data.options().named_values();
    assert!(named.contains(&("compaction_filter".to_owned(), "obedient".to_owned())));

    // Filters are code: attached anew after each open.
    drop(data);
    db.close().expect("closing");
    drop(db);
    let db = Database::open(dir.path()).expect("opening");
    let data = db.keyspace("data").expect("a keyspace");
    data.put("a", "remove").expect("a put");
    data.compact(..).expect("a compaction");
    assert_eq!((text(&data, "a"), filter.take().len()), (is("remove"), 0));
    let data = db.keyspace_with("data", options).expect("a keyspace");
    data.put("c", "older").expect("a put");
    data.compact(..).expect("a compaction");
    assert_eq!(text(&data, "a"), None);
}

#[test]
fn versions_that_a_snapshot_needs_are_not_filtered() {
    let dir = TestDir::new("filter-snapshot");
    let filter = Arc::new(Obedient::default());
    let options = KeyspaceOptions::default().compaction_filter(Arc::<Obedient>::clone(&filter));
    let db = Database::open_with(dir.path(), Options::default().keyspace_options(options)).expect("opening");
    let data = db.default_keyspace().clone();
    data.put("old", "remove").expect("a put");
    data.put("both", "older").expect("a put");
    let snapshot = db.snapshot();
    data.put("new", "remove").expect("a put");
    data.put("both", "remove").expect("a put");
    data.compact(..).expect("a compaction");
    assert_eq!([text(&data, "old"), text(&data, "new"), text(&data, "both")], [is("remove"), None, None]);
    assert!(!filter.take().iter().any(|(key, _)| key == b"old"));
    let then = |key| data.at(&snapshot).get(key).expect("a get").map(|value| value.to_vec());
    assert_eq!(
        [then("old"), then("new"), then("both")],
        [Some(b"remove".to_vec()), None, Some(b"older".to_vec())]
    );
    drop(snapshot);
    let transaction = db.transaction();
    data.put("more", "remove").expect("a put");
    data.compact(..).expect("a compaction");
    assert_eq!([text(&data, "old"), text(&data, "more")], [is("remove"), None]);
    drop(transaction);
    data.put("more", "remove").expect("a put");
    data.compact(..).expect("a compaction");
    assert_eq!(data.iter().count(), 0);
}

#[test]
fn operands_are_merged_before_they_are_filtered() {
    let dir = TestDir::new("filter-merge");
    let filter = Arc::new(Obedient::default());
    let options = KeyspaceOptions::default()
        .merge_operator(MergeOperator::append(""))
        .compaction_filter(Arc::<Obedient>::clone(&filter));
    let db = Database::open(dir.path()).expect("opening");
    let data = db.keyspace_with("data", options).expect("a keyspace");
    for (key, pieces) in [("a", ["rem", "ove"]), ("b", ["chan", "ge"]), ("c", ["ke", "ep"])] {
        data.put(key, pieces[0]).expect("a put");
        data.flush().expect("a flush");
        data.merge(key, pieces[1]).expect("a merge");
        data.flush().expect("a flush");
    }
    data.compact(..).expect("a compaction");
    assert_eq!(["a", "b", "c"].map(|key| text(&data, key)), [None, is("changed"), is("keep")]);
    let operands: [&[u8]; 3] = [b"ove", b"ge", b"ep"];
    assert!(!filter.take().iter().any(|(_, value)| operands.contains(&&**value)), "an operand was shown");
    data.compact(..).expect("a compaction");
    assert_eq!(["a", "b", "c"].map(|key| text(&data, key)), [None, is("changed"), is("keep")]);
}

/// Lets the test take a snapshot while the compaction runs.
struct PausingFilter {
    barrier: Barrier,
    calls: AtomicUsize,
}

impl CompactionFilter for PausingFilter {
    fn name(&self) -> &str {
        "meeting"
    }

    fn filter(&self, _: &[u8], _: &[u8]) -> Decision {
        if self.calls.fetch_add(1, Ordering::Relaxed) == 0 {
            self.barrier.wait();
            self.barrier.wait();
        }
        Decision::Remove
    }
}

/// CF2: a snapshot taken after the job read the snapshots, and before what it removed is gone.
#[test]
fn a_snapshot_taken_meanwhile_is_unchanged() {
    let dir = TestDir::new("filter-meanwhile");
    let filter = Arc::new(PausingFilter { barrier: Barrier::new(2), calls: AtomicUsize::new(0) });
    let options = KeyspaceOptions::default().compaction_filter(Arc::<PausingFilter>::clone(&filter));
    let db = Database::open(dir.path()).expect("opening");
    let data = db.keyspace_with("data", options).expect("a keyspace");
    for key in ["a", "b"] {
        data.put(key, "value").expect("a put");
    }
    let snapshot = std::thread::scope(|scope| {
        let compaction = scope.spawn(|| data.compact(..).expect("a compaction"));
        filter.barrier.wait();
        let snapshot = db.snapshot();
        filter.barrier.wait();
        compaction.join().expect("no panic");
        snapshot
    });
    assert_eq!(data.at(&snapshot).iter().count(), 2, "the snapshot lost what it saw");
    drop(snapshot);
    data.put("c", "value").expect("a put");
    data.compact(..).expect("a compaction");
    assert_eq!(data.iter().count(), 0);
    // Puts and transactions of another thread work as usual.
    db.transact(|tx| tx.put(&data, "d", "value")).expect("a transaction");
}

/// Decides by the first byte of a value.
struct FilterByFirstByte;

impl CompactionFilter for FilterByFirstByte {
    fn name(&self) -> &str {
        "by beginning"
    }

    fn filter(&self, _: &[u8], value: &[u8]) -> Decision {
        match value.first() {
            Some(b'r') => Decision::Remove,
            Some(b's') => Decision::Change(b"small".to_vec()),
            Some(b'l') => Decision::Change(vec![b'k'; 20_000]),
            _ => Decision::Keep,
        }
    }
}

#[test]
fn large_values_are_filtered() {
    let dir = TestDir::new("filter-large");
    let options =
        KeyspaceOptions::default().blob_threshold(4096).compaction_filter(Arc::new(FilterByFirstByte));
    let db = Database::open_with(dir.path(), Options::default().keyspace_options(options)).expect("opening");
    let data = db.default_keyspace().clone();
    for (key, first) in [("kept", b'k'), ("larger", b'l'), ("removed", b'r'), ("smaller", b's')] {
        data.put(key, vec![first; 10_000]).expect("a put");
    }
    data.put_with("expiring", vec![b's'; 10_000], Expiry::After(Duration::from_secs(3600))).expect("a put");
    data.put("inline", "l").expect("a put");
    data.flush().expect("a flush");
    data.compact(..).expect("a compaction");
    let len = |key: &str| data.get(key).expect("a get").map(|value| value.len());
    let lens = ["kept", "larger", "removed", "smaller", "expiring", "inline"].map(len);
    assert_eq!(lens, [Some(10_000), Some(20_000), None, Some(5), Some(5), Some(20_000)]);
    assert!(data.ttl("expiring").expect("a ttl").is_some_and(|ttl| ttl != esker::Ttl::Forever));
    assert!(db.verify().expect("verify").is_clean());
}
