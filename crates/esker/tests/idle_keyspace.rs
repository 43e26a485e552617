//! A keyspace with a few entries that is not written must not slow down the others.

mod common;

use common::{TestDir, key, tiny, value};
use esker::parts::env::{Env, StdFileSystem};
use esker::{Database, Durability, Options};
use std::sync::Arc;

/// While an idle keyspace has entries only in the log, a flush of another one must first sync the log (WL6).
/// The first such flush also flushes the idle one, so that later ones need no sync.
#[test]
fn an_idle_keyspace_does_not_make_every_flush_sync_the_log() {
    const FLUSHES: u64 = 12;
    let dir = TestDir::new("idle");
    let db = Database::open_with(
        dir.path(),
        Options::default()
            .durability(Durability::Process)
            .env(Env::simulated(Arc::new(StdFileSystem), 7))
            .keyspace_options(tiny()),
    )
    .unwrap();
    let (idle, busy) = (db.keyspace("idle").unwrap(), db.keyspace("busy").unwrap());
    idle.put(b"left", b"alone").unwrap();
    for round in 0..FLUSHES {
        for number in 0..20 {
            busy.put(key(number), value(number, round)).unwrap();
        }
        busy.flush().unwrap();
    }
    let metrics = db.metrics();
    let of = |name: &str| metrics.keyspaces.iter().find(|keyspace| keyspace.name == name).unwrap();
    assert_eq!(of("busy").flushes, FLUSHES);
    assert_eq!(of("idle").flushes, 1, "flushed once, along with the busy one");
    assert!(metrics.log.flushes <= 3, "{} flushes of the log", metrics.log.flushes);
    assert_eq!(idle.get(b"left").unwrap().as_deref(), Some(b"alone".as_slice()));
    db.close().unwrap();
}
