//! Recovery of data that only the log holds, over several opens.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

mod common;

use common::{TestDir, key, tiny, value};
use esker::{Database, Options};
use std::path::Path;

fn open(path: &Path) -> Database {
    Database::open_with(path, Options::default().flush_on_close(false).keyspace_options(tiny())).unwrap()
}

#[test]
fn every_open_finds_earlier_writes() {
    let dir = TestDir::new("log-only");
    for round in 0..5u64 {
        // Rounds of one entry, of a few, and of many memtables.
        let entries = [1, 10, 2_000, 1, 500][round as usize];
        let db = open(dir.path());
        let other = db.keyspace("other").unwrap();
        for number in 0..entries {
            db.default_keyspace().put(key(number), value(number, round)).unwrap();
            other.put(key(number), value(number, round)).unwrap();
        }
        db.close().unwrap();
        for read_only in [true, false] {
            let db = Database::open_with(
                dir.path(),
                Options::default().read_only(read_only).flush_on_close(false),
            )
            .unwrap();
            let other = db.open_keyspace("other").unwrap();
            for number in 0..entries {
                let expected = value(number, round);
                assert_eq!(
                    db.default_keyspace().get(key(number)).unwrap().as_deref(),
                    Some(&expected[..]),
                    "round {round}"
                );
                assert_eq!(other.get(key(number)).unwrap().as_deref(), Some(&expected[..]), "round {round}");
            }
            db.close().unwrap();
        }
    }
}
