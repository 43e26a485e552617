//! The published formulas for trees of exact shape, with ideal Bloom filters.
//!
//! Levels are numbered from 1, the smallest, to `levels`, the largest; each is `ratio` times as large as the
//! one before. `reads` is the sum of the false-positive rates of all runs: blocks that a lookup of an absent
//! key reads in vain. Leveling has one run in each level, tiering `ratio - 1`, lazy leveling (Dayan and
//! Idreos, "Dostoevsky", SIGMOD 2018) tiers above and a single run in the last level.
//!
//! The papers sum over infinitely many levels; here the factor `1 - ratio^-levels` makes the sum exact. Their
//! threshold for the levels that get no filter gives rates above 1 between `T/(T-1)` and 2 if T is above 2;
//! the rule here does not.

/// `ln² 2`: an ideal Bloom filter of `x` bits a key has the rate `exp(-x ln² 2)`.
pub const LN2_SQUARED: f64 = std::f64::consts::LN_2 * std::f64::consts::LN_2;

/// The false-positive rate of an ideal Bloom filter.
pub fn ideal_rate(bits_per_key: f64) -> f64 {
    (-LN2_SQUARED * bits_per_key).exp()
}

/// The bits a key that an ideal Bloom filter needs for a rate; 0 for a rate of 1 and more.
pub fn ideal_bits(rate: f64) -> f64 {
    (-rate.ln() / LN2_SQUARED).max(0.0)
}

/// How the levels above the last and the last one are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merging {
    /// One run in each level.
    Leveling,
    /// `ratio - 1` runs in each level.
    Tiering,
    /// `ratio - 1` runs in each level above the last, which is one run.
    Lazy,
}

/// The false-positive rate of the runs of each level, smallest level first, that gives `reads` with the least
/// memory.
///
/// `ratio` is more than 1 and `levels` at least 1. A bound above the number of runs gives rates of 1: no
/// filters at all.
pub fn rates(merging: Merging, ratio: f64, levels: u32, reads: f64) -> Vec<f64> {
    let runs = |level: u32| match merging {
        Merging::Leveling => 1.0,
        Merging::Lazy if level == levels => 1.0,
        Merging::Tiering | Merging::Lazy => ratio - 1.0,
    };
    // A run's rate is in proportion to its size, up to 1: the largest levels then have no filter.
    let run_size = |level: u32| ratio.powi(level as i32 - levels as i32) / runs(level);
    let rate_for_size = |filtered: u32, reads: f64| {
        reads / (1..=filtered).map(|level| run_size(level) * runs(level)).sum::<f64>()
    };
    let (mut filtered, mut left) = (levels, reads);
    while filtered > 0 && rate_for_size(filtered, left) * run_size(filtered) >= 1.0 {
        left -= runs(filtered);
        filtered -= 1;
    }
    let rate = |level| if level > filtered { 1.0 } else { rate_for_size(filtered, left) * run_size(level) };
    (1..=levels).map(rate).collect()
}
