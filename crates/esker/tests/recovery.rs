//! Recovery of writes that only the log has.

mod common;

use common::{TestDir, key, tiny, value};
use esker::Database;
use esker::Options;

#[test]
fn writes_that_were_never_flushed_come_back_from_the_log() {
    let dir = TestDir::new("unflushed");
    let open = || {
        Database::open_with(dir.path(), Options::default().keyspace_options(tiny()).flush_on_close(false))
            .unwrap()
    };
    open().close().unwrap();
    for round in 0..3 {
        let db = open();
        let found = db.default_keyspace().get(key(7)).unwrap().map(|found| found.to_vec());
        assert_eq!(found, (round > 0).then(|| value(7, round - 1)));
        for number in 0..50 {
            db.default_keyspace().put(key(number), value(number, round)).unwrap();
        }
        db.close().unwrap();
    }
    assert_eq!(open().default_keyspace().iter().count(), 50);
}
