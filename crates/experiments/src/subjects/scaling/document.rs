//! What CS265's final report has for the same rows.

use super::THREAD_WORKLOADS;

/// Operations a second by threads (4.6); of batches (4.2.1) there is one thread only.
const BY_THREADS: [[Option<f64>; 5]; 4] = [
    [Some(532e3), Some(985e3), Some(1.72e6), Some(2.58e6), Some(3.12e6)],
    [Some(1_876_321.0), None, None, None, None],
    [Some(45e3), Some(89e3), Some(172e3), Some(324e3), Some(582e3)],
    [Some(87e3), Some(162e3), Some(298e3), Some(518e3), Some(764e3)],
];
const THREADS: [usize; 5] = [1, 2, 4, 8, 16];

/// Ranges a second by their length (4.2.3).
const RANGES: [(usize, f64); 4] = [(10, 42_365.0), (100, 12_784.0), (1_000, 1_547.0), (10_000, 179.0)];

/// Puts, gets and ranges of a hundred a second by pairs (4.2.4).
const SIZES: [(u64, [f64; 3]); 3] = [
    (1_000_000, [1_254_873.0, 73_642.0, 12_784.0]),
    (10_000_000, [1_187_294.0, 68_451.0, 11_853.0]),
    (100_000_000, [1_052_841.0, 61_275.0, 10_472.0]),
];

pub(super) fn by_threads(workload: &str, threads: usize) -> Option<f64> {
    let workload = THREAD_WORKLOADS.iter().position(|&name| name == workload)?;
    BY_THREADS[workload][THREADS.iter().position(|&count| count == threads)?]
}

/// The rate of so many threads over that of one.
pub(super) fn factor(workload: &str, threads: usize) -> Option<f64> {
    Some(by_threads(workload, threads)? / by_threads(workload, 1)?)
}

pub(super) fn ranges(length: usize) -> Option<f64> {
    RANGES.iter().find(|&&(its_length, _)| its_length == length).map(|&(_, rate)| rate)
}

pub(super) fn by_size(pairs: u64) -> [Option<f64>; 3] {
    let row = SIZES.iter().find(|&&(its_pairs, _)| its_pairs == pairs);
    row.map_or([None; 3], |&(_, rates)| rates.map(Some))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The scaling factors that the report prints follow from its rates, within its rounding.
    #[test]
    fn printed_factors_follow_from_printed_rates() {
        for (workload, threads, printed) in [
            ("put", 16, 5.86),
            ("put", 2, 1.85),
            ("get", 16, 12.93),
            ("get", 8, 7.20),
            ("half get, half put", 8, 5.95),
        ] {
            let factor = factor(workload, threads).unwrap();
            assert!((factor - printed).abs() < 0.02, "{workload} {threads}: {factor}");
        }
    }
}
