//! Options of single writes: expiry together with durability, what keeps an expiry, and refusals.

#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]

mod common;

use common::TestDir;
use esker::parts::env::{Env, ManualClock};
use esker::{
    Database, Durability, Error, Expiry, Keyspace, KeyspaceOptions, MergeOperator, Options, Ttl, WriteOptions,
};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);

fn open(dir: &TestDir) -> (Database, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(1_000_000));
    let env = Env { clock: Arc::<ManualClock>::clone(&clock), ..Env::real() };
    (Database::open_with(dir.path(), Options::default().env(env)).unwrap(), clock)
}

fn left(keyspace: &Keyspace, key: &str) -> Option<Duration> {
    match keyspace.ttl(key).unwrap().expect("a value") {
        Ttl::Forever => None,
        Ttl::Expires { left, .. } => Some(left),
    }
}

#[test]
fn expiries_work_with_every_durability() {
    let dir = TestDir::new("write-options");
    let (db, clock) = open(&dir);
    let keyspace = db.default_keyspace();
    for durability in [Durability::None, Durability::Process, Durability::Power] {
        let options = WriteOptions::new().durability(durability).ttl(HOUR);
        keyspace.put_with("key", "value", options).unwrap();
        assert_eq!(left(keyspace, "key"), Some(HOUR));
        clock.advance(HOUR);
        assert_eq!(keyspace.get("key").unwrap(), None);
    }
    let end = db.now() + MINUTE;
    keyspace.put_with("key", "value", Expiry::At(end)).unwrap();
    assert_eq!(keyspace.ttl("key").unwrap(), Some(Ttl::Expires { at: end, left: MINUTE }));
    keyspace.put_with("key", "value", Expiry::At(UNIX_EPOCH)).unwrap();
    assert_eq!(keyspace.get("key").unwrap(), None);
}

#[test]
fn updates_keep_the_expiry() {
    let dir = TestDir::new("kept-expiry");
    let (db, clock) = open(&dir);
    let options = KeyspaceOptions::default().default_ttl(MINUTE);
    let keyspaces = [db.default_keyspace().clone(), db.keyspace_with("short", options).unwrap()];
    for (keyspace, default) in keyspaces.iter().zip([None, Some(MINUTE)]) {
        // By default a put does not read the old value.
        keyspace.put_with("key", "1", Expiry::After(HOUR)).unwrap();
        keyspace.put("key", "1").unwrap();
        assert_eq!(left(keyspace, "key"), default);

        keyspace.put_with("key", "1", Expiry::After(HOUR)).unwrap();
        clock.advance(Duration::from_secs(1));
        let rest = Some(HOUR - Duration::from_secs(1));
        keyspace.fetch_update("key", |_| Some(b"2".to_vec())).unwrap();
        assert_eq!(left(keyspace, "key"), rest);
        assert!(keyspace.compare_and_set("key", Some(b"2"), Some(b"3")).unwrap().is_set());
        assert_eq!(left(keyspace, "key"), rest);
        keyspace.put_with("key", "4", Expiry::Keep).unwrap();
        assert_eq!(left(keyspace, "key"), rest);
        // With an explicit expiry.
        keyspace.fetch_update_with("key", Expiry::After(MINUTE), |_| Some(b"5".to_vec())).unwrap();
        assert_eq!(left(keyspace, "key"), Some(MINUTE));
        let forever = WriteOptions::from(Expiry::Never).durability(Durability::Power);
        assert!(keyspace.compare_and_set_with("key", Some(b"5"), Some(b"6"), forever).unwrap().is_set());
        assert_eq!(left(keyspace, "key"), None);
        // A value without an expiry keeps having none, in a keyspace with a default too.
        keyspace.fetch_update("key", |_| Some(b"7".to_vec())).unwrap();
        assert_eq!(left(keyspace, "key"), None);
        // A new value takes the default.
        for key in ["new", "kept"] {
            keyspace.delete(key).unwrap();
        }
        keyspace.put_if_absent("new", "1").unwrap();
        keyspace.put_with("kept", "1", Expiry::Keep).unwrap();
        assert_eq!((left(keyspace, "new"), left(keyspace, "kept")), (default, default));
        keyspace.delete("new").unwrap();
        keyspace.put_if_absent_with("new", "1", Expiry::After(HOUR)).unwrap();
        assert_eq!(left(keyspace, "new"), Some(HOUR));
    }
}

#[test]
fn an_expiry_without_a_value_is_refused() {
    let dir = TestDir::new("refused-expiry");
    let (db, _) = open(&dir);
    let counters = KeyspaceOptions::default().merge_operator(MergeOperator::counter_wrapping());
    let keyspace = db.keyspace_with("counters", counters).unwrap();
    let mut batch = db.batch();
    batch.put(&keyspace, "key", "1");
    let mut keeping = db.batch();
    keeping.put_with(&keyspace, "key", "1", Expiry::Keep);
    let refused = [
        keyspace.delete_with("key", Expiry::After(HOUR)),
        keyspace.delete_range_with("a".."b", Expiry::Never),
        keyspace.merge_with("key", "1", Expiry::Keep),
        db.write_with(&batch, Expiry::After(HOUR)).map(drop),
        db.write(&keeping).map(drop),
    ];
    for refused in refused {
        assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{refused:?}");
    }
    assert_eq!(keyspace.get("key").unwrap(), None);
    // A written batch may be written again.
    db.write(&batch).unwrap();
    db.write_with(&batch, Durability::Power).unwrap();
    assert_eq!(keyspace.get("key").unwrap().as_deref(), Some(b"1".as_slice()));
}
