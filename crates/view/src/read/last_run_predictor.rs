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
pub fn is_high() -> bool {
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
