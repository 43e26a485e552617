//! The output of merges, on the simulated file system, step by step.

use crate::parts::StepBackground;
use crate::{Database, KeyspaceOptions, Options};
use esker_base::SeqNo;
use esker_env::Env;
use esker_env::fault::StrictFs;
use std::sync::Arc;

const KEYS: u64 = 20_000;
/// Coprime to [`KEYS`], so its multiples reach every key, in a scattered order.
const STRIDE: u64 = 7_919;

/// A database of many small tables, whose jobs are so small that they cut tables.
fn database() -> Database {
    let keyspace =
        KeyspaceOptions::default().table_size(16 << 10).compaction_job_size(32 << 10).block_size(512);
    let env = Env::simulated(Arc::new(StrictFs::new()), 1);
    let options = Options::default().memory_budget(64 << 20).keyspace_options(keyspace).env(env);
    Database::open_with("/db", options).expect("a database")
}

#[test]
fn sequence_numbers_become_zero_in_the_last_level_however_tables_are_cut() {
    let db = database();
    for turn in 0..KEYS {
        let number = turn * STRIDE % KEYS;
        db.default_keyspace().put(format!("{number:08}"), [7; 40]).expect("a put");
        if turn % (KEYS / 10) == 0 {
            db.flush().expect("a flush");
            while db.step_background() {}
        }
    }
    db.compact_all().expect("a compaction");
    let view = db.default_keyspace().state().view.load();
    let parts: Vec<_> = view.tree.parts().map(|part| Arc::clone(&part.meta)).collect();
    assert!(parts.len() > 8, "{} tables", parts.len());
    for part in parts {
        assert_eq!(part.max_seqno, SeqNo::ZERO, "{part:?}");
    }
    assert_eq!(db.default_keyspace().iter().count() as u64, KEYS);
}
