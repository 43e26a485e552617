//! What blocks and bytes are worth, and what is known of this very database.

/// Prices in nanoseconds of one core or of the disk. Only their proportions matter for a design.
///
/// The defaults are round figures for a virtual disk and one core of a cloud machine: 100 µs for a random
/// read, 400 MB/s in sequence, some hundred nanoseconds for a search of a block that is in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// A block that is in no cache.
    pub block_read_ns: f64,
    /// The search of a block in memory.
    pub block_search_ns: f64,
    /// A look at a filter. The lines of all runs are requested together, so that misses overlap.
    pub filter_ns: f64,
    /// A comparison in the merge of runs.
    pub comparison_ns: f64,
    /// A byte that is read in sequence.
    pub byte_read_ns: f64,
    /// A byte that background work reads, merges and writes.
    pub byte_merged_ns: f64,
}

impl Default for Prices {
    fn default() -> Prices {
        Prices {
            block_read_ns: 100_000.0,
            block_search_ns: 600.0,
            filter_ns: 20.0,
            comparison_ns: 15.0,
            byte_read_ns: 2.5,
            byte_merged_ns: 4.0,
        }
    }
}

/// What this very database showed, over what the formulas say. 1 where nothing is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// Of write amplification.
    pub writes: f64,
    /// Of blocks that lookups search in vain.
    pub in_vain: f64,
    /// The exponent of the cache's share of hits: 1 if all blocks are equally popular, less if few are asked
    /// for again and again.
    pub cache_skew: f64,
}

impl Default for Calibration {
    fn default() -> Calibration {
        Calibration { writes: 1.0, in_vain: 1.0, cache_skew: 1.0 }
    }
}

impl Calibration {
    /// A measurement moves a figure by this factor at most, either way: beyond it the tree is not in the
    /// state that the formulas describe, and its measurement says little about another one.
    const MOST: f64 = 4.0;

    /// Measured over predicted, within bounds; 1 if there is nothing to divide by.
    pub fn factor(measured: f64, predicted: f64) -> f64 {
        let factor = measured / predicted;
        if factor.is_finite() && factor > 0.0 { factor.clamp(1.0 / Self::MOST, Self::MOST) } else { 1.0 }
    }

    /// The skew that makes a cache with this share of the data have this share of hits.
    pub fn skew(hits: f64, cached_share: f64) -> f64 {
        if !(cached_share > 0.0 && cached_share < 1.0 && hits > 0.0) {
            return 1.0;
        }
        (hits.min(0.999).ln() / cached_share.ln()).clamp(0.05, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_count_within_bounds() {
        assert_eq!(Calibration::factor(3.0, 2.0), 1.5);
        assert_eq!([Calibration::factor(100.0, 1.0), Calibration::factor(0.01, 1.0)], [4.0, 0.25]);
        for (measured, predicted) in [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (f64::NAN, 1.0)] {
            assert_eq!(Calibration::factor(measured, predicted), 1.0);
        }
        // A tenth of the data that answers half of the lookups.
        let skew = Calibration::skew(0.5, 0.1);
        assert!((0.1f64.powf(skew) - 0.5).abs() < 1e-9);
        assert_eq!([Calibration::skew(0.0, 0.5), Calibration::skew(0.9, 1.0)], [1.0, 1.0]);
        assert_eq!(Calibration::skew(0.05, 0.1), 1.0, "no cache is worse than one of random blocks");
    }
}
