//! Scores as fractions that are compared without division.

use std::cmp::Ordering;

/// A score of `part / whole`. A zero `whole` means infinite.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Score {
    pub(crate) part: u128,
    pub(crate) whole: u128,
}

impl Score {
    pub(crate) fn new(part: u64, whole: u64) -> Score {
        Score { part: u128::from(part), whole: u128::from(whole) }
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Score) -> Ordering {
        // Byte counts stay far below 2^64, so the products fit; saturation covers absurd values.
        let left = self.part.saturating_mul(other.whole);
        let right = other.part.saturating_mul(self.whole);
        left.cmp(&right)
    }
}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Score) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Score {
    fn eq(&self, other: &Score) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Score {}
