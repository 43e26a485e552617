//! Garbage estimate: how many bytes of a part above the last level count against the garbage budget.
//!
//! The budget exists because data above the last level may overwrite older data, which occupies space until
//! both are merged. New keys overwrite nothing: while a store is filled they may stay above for longer, in
//! larger runs, and each is then merged with fewer bytes of the last level. So a part counts with its
//! overwrite ratio ([`Shape::overwrite_ratios`]), but never so little that more than [`MOST_UPPER_PERMILLE`]
//! of the last level lies above it: data there is searched by more lookups and must be merged eventually.
//!
//! * GW1. The estimate of a part is at least the bytes of it that overwrite older data, so garbage within the
//!   budget by estimate is within the budget. This assumes that entries are as large as those they overwrite,
//!   whose size is unknown before a merge. Small values over large ones leave more garbage than estimated;
//!   beside large new keys, for which more may lie here, more than they would without the estimate.
//! * GW2. Parts that fit the budget together have at most [`MOST_UPPER_PERMILLE`] of the last level's bytes,
//!   or as many as the budget, if that is more.
//! * GW3. Every part counts in full where its ratio is unknown, under a space target ([`crate::space_target`]
//!   counts all bytes), where the last level is empty, and during a migration.

use crate::garbage_budget::garbage_budget_bytes;
use crate::options::StrategyOptions;
use crate::plan_builder::Context;
use crate::shape::{Shape, base_bytes};
use esker_version::{PartMeta, Run};

/// Most bytes above the last level before a merge, in 1/1000 of it, if they overwrite nothing.
const MOST_UPPER_PERMILLE: u64 = 600;

const WHOLE_PERMILLE: u64 = 1000;

#[derive(Clone, Copy, Debug)]
pub(crate) struct GarbageEstimates<'a> {
    shape: Shape<'a>,
    least_permille: u64,
}

impl<'a> GarbageEstimates<'a> {
    pub(crate) fn new(cx: &Context<'a>) -> GarbageEstimates<'a> {
        let least_permille = match cx.shape.migration {
            Some(_) => WHOLE_PERMILLE,
            None => least_permille(cx.options, base_bytes(cx.shape.version)),
        };
        GarbageEstimates { shape: cx.shape, least_permille }
    }

    /// The estimate of a part, where each tombstone counts as an entry that it hides.
    pub(crate) fn of_part(&self, part: &PartMeta) -> u64 {
        self.weighed(part, part.effective_bytes())
    }

    pub(crate) fn of_run(&self, run: &Run) -> u64 {
        let parts = run.parts().iter();
        parts.fold(0, |sum, part| sum.saturating_add(self.weighed(part, part.bytes)))
    }

    fn weighed(&self, part: &PartMeta, bytes: u64) -> u64 {
        let permille = self.shape.overwrite_permille(part).max(self.least_permille).min(WHOLE_PERMILLE);
        // Not more than the bytes, so it fits.
        (u128::from(bytes) * u128::from(permille)).div_ceil(u128::from(WHOLE_PERMILLE)) as u64
    }
}

/// What new keys count: the budget over the most that may lie above.
fn least_permille(options: &StrategyOptions, base_bytes: u64) -> u64 {
    let most_bytes = u128::from(base_bytes) * u128::from(MOST_UPPER_PERMILLE) / u128::from(WHOLE_PERMILLE);
    if most_bytes == 0 || options.max_space_amp_permille.is_some() {
        return WHOLE_PERMILLE;
    }
    let budget = u128::from(garbage_budget_bytes(options, base_bytes)) * u128::from(WHOLE_PERMILLE);
    u64::try_from(budget.div_ceil(most_bytes)).unwrap_or(u64::MAX).min(WHOLE_PERMILLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn least(base_mib: u64, options: &StrategyOptions) -> u64 {
        least_permille(options, base_mib * MIB)
    }

    /// GW2, GW3.
    #[test]
    fn new_keys_count_so_that_the_most_may_lie_above() {
        let options = StrategyOptions { memtable_bytes: 16 * MIB, ..StrategyOptions::default() };
        assert_eq!(least(10_000, &options), 317, "190 of 600");
        assert_eq!(least(200, &options), 534, "64 MiB of 120, which is the least budget");
        assert_eq!(least(100, &options), 1000, "a budget of more than what may lie above");
        assert_eq!(least(0, &options), 1000, "nothing rests");
        let with_target =
            StrategyOptions { max_space_amp_permille: Some(2000), ..StrategyOptions::default() };
        assert_eq!(least(10_000, &with_target), 1000);
        let generous = StrategyOptions { garbage_permille: 800, ..StrategyOptions::default() };
        assert_eq!(least(10_000, &generous), 1000);
        for base_mib in [1, 150, 337, 1000, 1_000_000] {
            let budget = garbage_budget_bytes(&options, base_mib * MIB);
            let upper = budget * 1000 / least(base_mib, &options);
            assert!(upper <= budget.max(base_mib * MIB / 10 * 6), "{base_mib}: {upper}");
        }
    }
}
