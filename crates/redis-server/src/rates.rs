//! Rates of the last second or two: what INFO tells of commands and bytes, from counters looked at now and
//! then.

use parking_lot::Mutex;
use std::collections::VecDeque;

/// Looks that are kept; with the time between them, how far back a rate reaches. As in Redis.
const LOOKS: usize = 16;

/// The least time between two looks.
const BETWEEN_NS: u64 = 100_000_000;

/// What is counted: commands, bytes received, bytes sent.
pub(crate) type Counts = [u64; 3];

/// Counters as they were, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Rates(Mutex<VecDeque<(u64, Counts)>>);

impl Rates {
    /// Looks at the counters, if the last look is long enough ago.
    pub(crate) fn look(&self, now_ns: u64, counts: impl FnOnce() -> Counts) {
        let mut looks = self.0.lock();
        if looks.back().is_some_and(|(last_ns, _)| now_ns.saturating_sub(*last_ns) < BETWEEN_NS) {
            return;
        }
        if looks.len() > LOOKS {
            looks.pop_front();
        }
        looks.push_back((now_ns, counts()));
    }

    /// The counters begin anew.
    pub(crate) fn reset(&self) {
        self.0.lock().clear();
    }

    /// How much each counter grew in a second, on average.
    pub(crate) fn per_second(&self) -> [f64; 3] {
        let looks = self.0.lock();
        let (Some((first_ns, first)), Some((last_ns, last))) = (looks.front(), looks.back()) else {
            return [0.0; 3];
        };
        let seconds = last_ns.saturating_sub(*first_ns) as f64 / 1e9;
        if seconds == 0.0 {
            return [0.0; 3];
        }
        [0, 1, 2].map(|at: usize| last[at].saturating_sub(first[at]) as f64 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn rates_are_of_the_last_looks() {
        let rates = Rates::default();
        assert_eq!(rates.per_second(), [0.0; 3]);
        rates.look(SECOND_NS, || [10, 0, 5]);
        assert_eq!(rates.per_second(), [0.0; 3]);
        rates.look(SECOND_NS + 1, || panic!("too early"));
        rates.look(3 * SECOND_NS, || [30, 100, 5]);
        assert_eq!(rates.per_second(), [10.0, 50.0, 0.0]);
        // What was long ago does not count.
        for look in 0..=LOOKS as u64 {
            rates.look((10 + look) * SECOND_NS, || [1000 + look, 100, 5]);
        }
        assert_eq!(rates.per_second(), [1.0, 0.0, 0.0]);
        rates.reset();
        assert_eq!(rates.per_second(), [0.0; 3]);
    }
}
