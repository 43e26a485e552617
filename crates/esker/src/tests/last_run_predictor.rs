//! Lookups that the last-run predictor starts in the oldest run.

use crate::{Database, KeyspaceOptions, Options};
use esker_env::Env;
use esker_env::fault::StrictFs;
use esker_view::read::last_run_predictor::is_high;
use std::sync::Arc;

/// A lookup begun in the oldest run returns the newest version in whatever run: all runs have every key
/// that a newer one has, so using the prepared lookup of the oldest run for another would return an older
/// version.
#[test]
fn a_lookup_begun_in_the_oldest_run_serves_no_other() {
    let env = Env::simulated(Arc::new(StrictFs::new()), 7);
    let keyspace = KeyspaceOptions::default().strategy(esker_strategy::Strategy::None);
    let db = Database::open_with("/db", Options::default().keyspace_options(keyspace).env(env)).unwrap();
    let steps = [1u64, 2, 4, 8];
    for step in steps {
        for key in (0..400u64).step_by(step as usize) {
            db.default_keyspace().put(key.to_be_bytes(), step.to_be_bytes()).unwrap();
        }
        db.default_keyspace().flush().unwrap();
    }
    assert_eq!(db.metrics().keyspaces[0].runs, steps.len());
    // Twice: the first round opens the tables. Two keys found only in the oldest run before each keep the
    // counter high.
    let is_found = |key: u64, step: u64| {
        assert_eq!(
            db.default_keyspace().get(key.to_be_bytes()).unwrap().as_deref(),
            Some(&step.to_be_bytes()[..]),
            "{key}"
        );
    };
    for key in (0..400u64).chain(0..400) {
        is_found(1, 1);
        is_found(3, 1);
        assert!(is_high(), "lookups begin in the oldest run");
        is_found(key, 1 << key.trailing_zeros().min(3));
    }
    db.close().unwrap();
}
