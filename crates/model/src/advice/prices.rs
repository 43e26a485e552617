//! Prices of blocks and bytes, and the calibration by measurements of a database.

/// Prices in nanoseconds of one core or of the disk. Only their proportions matter for a design.
///
/// The defaults are round figures for a virtual disk and one core of a cloud machine: 100 µs for a random
/// read, 400 MB/s sequential, some hundred nanoseconds for the search of a cached block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// A random block read.
    pub block_read_ns: f64,
    /// The search of a block in memory.
    pub block_search_ns: f64,
    /// A filter probe. The cache lines of all runs are prefetched together, so that misses overlap.
    pub filter_ns: f64,
    /// A comparison in the merge of runs.
    pub comparison_ns: f64,
    /// A byte read sequentially.
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

/// Measured over predicted figures of this database. 1 where nothing is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// Of write amplification.
    pub writes: f64,
    /// Of block reads due to false positives.
    pub in_vain: f64,
    /// Exponent of the cache's hit rate: 1 for equally popular blocks, less for skewed accesses.
    pub cache_skew: f64,
}

impl Default for Calibration {
    fn default() -> Calibration {
        Calibration { writes: 1.0, in_vain: 1.0, cache_skew: 1.0 }
    }
}

impl Calibration {
    /// The largest correction by a measurement, either way: beyond it the tree is not in the state that the
    /// formulas describe, and its measurement says little about another design.
    const MOST: f64 = 4.0;

    /// Measured over predicted, clamped; 1 for a division by zero.
    pub fn factor(measured: f64, predicted: f64) -> f64 {
        let factor = measured / predicted;
        if factor.is_finite() && factor > 0.0 { factor.clamp(1.0 / Self::MOST, Self::MOST) } else { 1.0 }
    }

    /// The skew at which a cache with this share of the data has this hit rate.
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
        // A tenth of the data that serves half of the lookups.
        let skew = Calibration::skew(0.5, 0.1);
        assert!((0.1f64.powf(skew) - 0.5).abs() < 1e-9);
        assert_eq!([Calibration::skew(0.0, 0.5), Calibration::skew(0.9, 1.0)], [1.0, 1.0]);
        assert_eq!(Calibration::skew(0.05, 0.1), 1.0, "no cache is worse than one of random blocks");
    }
}
