//! Last-run predictor: whether the next lookup will find its key in the oldest run.
//!
//! Lookups that may begin there before the filters have been probed use it; the gain for lookups that find
//! the key equals the cost for those that do not. So it follows the recent majority: a saturating counter is
//! incremented by each lookup that found its key there, and decremented by each that reached it and did not.
//! The counter is thread-local, because a shared one would be written to by all threads; it does not affect
//! results.

use std::cell::Cell;

/// The maximum of the counter: this many lookups of the other kind reverse the prediction from one end; half
/// as many from the middle.
const MOST: u8 = 15;

thread_local! {
    static FOUND: Cell<u8> = const { Cell::new(MOST) };
}

/// Whether most of the thread's recent lookups that reached the oldest run found their key there.
#[inline]
pub(super) fn is_high() -> bool {
    FOUND.get() > MOST / 2
}

/// Records the outcome of a lookup that the memtables did not decide.
#[inline]
pub(super) fn note(was_in_oldest: bool) {
    let found = FOUND.get();
    FOUND.set(if was_in_oldest { (found + 1).min(MOST) } else { found.saturating_sub(1) });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyspaceOptions, Options};
    use esker_env::Env;
    use esker_env::fault::StrictFs;
    use std::sync::Arc;

    /// A lookup begun in the oldest run returns the newest version in whatever run: all runs have every key
    /// that a newer one has, so using the prepared lookup of the oldest run for another would return an older
    /// version.
    #[test]
    fn what_began_in_the_oldest_run_answers_for_no_other() {
        let env = Env::simulated(Arc::new(StrictFs::new()), 7);
        let keyspace = KeyspaceOptions::default().strategy(esker_strategy::Strategy::None);
        let db = Options::default().keyspace_options(keyspace).env(env).open("/db").unwrap();
        let steps = [1u64, 2, 4, 8];
        for step in steps {
            for key in (0..400u64).step_by(step as usize) {
                db.put(key.to_be_bytes(), step.to_be_bytes()).unwrap();
            }
            db.default_keyspace().flush().unwrap();
        }
        assert_eq!(db.metrics().keyspaces[0].runs, steps.len());
        // Twice: the first round opens the tables. Two keys found only in the oldest run before each keep the
        // counter high.
        let is_found = |key: u64, step: u64| {
            assert_eq!(db.get(key.to_be_bytes()).unwrap().as_deref(), Some(&step.to_be_bytes()[..]), "{key}");
        };
        for key in (0..400u64).chain(0..400) {
            is_found(1, 1);
            is_found(3, 1);
            assert!(is_high(), "lookups begin in the oldest run");
            is_found(key, 1 << key.trailing_zeros().min(3));
        }
        db.close().unwrap();
    }

    #[test]
    fn the_majority_of_late_decides() {
        for _ in 0..100 {
            note(true);
        }
        assert!(is_high());
        (0..8).for_each(|_| note(false));
        assert!(!is_high(), "half of what is remembered");
        for _ in 0..100 {
            note(false);
        }
        (0..7).for_each(|_| note(true));
        assert!(!is_high());
        note(true);
        assert!(is_high());
        // One absent key among many present ones changes nothing.
        for at in 0..1_000 {
            note(at % 4 != 0);
            assert!(is_high() || at < 4);
        }
    }
}
