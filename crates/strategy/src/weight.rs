//! What a part above the last level weighs against the budget for garbage.
//!
//! The budget is there because what lies above may replace something older, which takes room until both are
//! merged. Of new keys none does: while a store is filled they may lie there for longer, in larger runs, and
//! each is merged with fewer bytes of the last level. So a part weighs as much as of it replaces something
//! ([`Shape::replaced`]), but never so little that more than [`MOST_UPPER_PERMILLE`] of the last level lie
//! above it: what lies there is read by more lookups, and is to be merged some day.
//!
//! * GW1. What a part weighs is not less than what of it replaces something older, so garbage that fits the
//!   budget by weight fits it. That is as true as entries are as large as what they replace: how large that
//!   was nobody knows before a merge. Small values in the place of large ones leave more garbage than they
//!   weigh; beside large new keys, for which more may lie here, more than they would without weights.
//! * GW2. Parts that fit the budget together have at most [`MOST_UPPER_PERMILLE`] of the last level's bytes,
//!   or as many as the budget, if that is more.
//! * GW3. Everything weighs its bytes where nobody knows better, where room is promised ([`crate::space`]
//!   counts all bytes there), where nothing rests in the last level yet, and while a tree is on its way from
//!   one strategy to another.

use crate::draft::Context;
use crate::options::StrategyOptions;
use crate::partitioned::garbage_budget_bytes;
use crate::shape::{Shape, base_bytes};
use esker_version::{PartMeta, Run};

/// Most that lies above the last level before it is merged, in 1/1000 of that, if none of it replaces
/// anything.
const MOST_UPPER_PERMILLE: u64 = 600;

/// All of it.
const WHOLE_PERMILLE: u64 = 1000;

/// The weights of a tree's parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weights<'a> {
    shape: Shape<'a>,
    least_permille: u64,
}

impl<'a> Weights<'a> {
    pub(crate) fn new(cx: &Context<'a>) -> Weights<'a> {
        let least_permille = match cx.shape.migration {
            Some(_) => WHOLE_PERMILLE,
            None => least_permille(cx.options, base_bytes(cx.shape.version)),
        };
        Weights { shape: cx.shape, least_permille }
    }

    /// A part, where each tombstone counts as an entry that it kills.
    pub(crate) fn of_part(&self, part: &PartMeta) -> u64 {
        self.weighed(part, part.effective_bytes())
    }

    /// The tables of a run.
    pub(crate) fn of_run(&self, run: &Run) -> u64 {
        let parts = run.parts().iter();
        parts.fold(0, |sum, part| sum.saturating_add(self.weighed(part, part.bytes)))
    }

    fn weighed(&self, part: &PartMeta, bytes: u64) -> u64 {
        let permille = self.shape.replaced_of(part).max(self.least_permille).min(WHOLE_PERMILLE);
        // Not more than the bytes, so it fits.
        (u128::from(bytes) * u128::from(permille)).div_ceil(u128::from(WHOLE_PERMILLE)) as u64
    }
}

/// What new keys weigh: the budget over the most that may lie above.
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
    fn new_keys_weigh_what_leaves_the_most_above() {
        let options = StrategyOptions { memtable_bytes: 16 * MIB, ..StrategyOptions::default() };
        assert_eq!(least(10_000, &options), 317, "190 of 600");
        assert_eq!(least(200, &options), 534, "64 MiB of 120, which is the least budget");
        assert_eq!(least(100, &options), 1000, "a budget of more than what may lie above");
        assert_eq!(least(0, &options), 1000, "nothing rests");
        let promised = StrategyOptions { max_space_amp_permille: Some(2000), ..StrategyOptions::default() };
        assert_eq!(least(10_000, &promised), 1000);
        let generous = StrategyOptions { garbage_permille: 800, ..StrategyOptions::default() };
        assert_eq!(least(10_000, &generous), 1000);
        for base_mib in [1, 150, 337, 1000, 1_000_000] {
            let budget = garbage_budget_bytes(&options, base_mib * MIB);
            let upper = budget * 1000 / least(base_mib, &options);
            assert!(upper <= budget.max(base_mib * MIB / 10 * 6), "{base_mib}: {upper}");
        }
    }
}
