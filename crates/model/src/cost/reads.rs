//! False-positive reads with ideal Bloom filters: `p = exp(-x ln² 2)` for `x` bits.

use super::levels::RunClass;
use esker_filter::monkey::closed::LN2_SQUARED;

/// The rates of [`ideal_reads_in_vain`] as a factor of the size, at most 1 for a run.
fn factor(shape: &[RunClass], bits_per_key: f64) -> f64 {
    let all: f64 = shape.iter().map(|class| class.size * class.count).sum();
    let memory = LN2_SQUARED * bits_per_key * all;
    // Largest last; runs with a rate above 1 get no filter, and their memory is divided anew.
    let mut filtered: Vec<&RunClass> =
        shape.iter().filter(|class| class.size > 0.0 && class.count > 0.0).collect();
    filtered.sort_by(|a, b| a.size.total_cmp(&b.size));
    while let Some(largest) = filtered.last() {
        let entries: f64 = filtered.iter().map(|class| class.size * class.count).sum();
        let logs: f64 = filtered.iter().map(|class| class.size * class.count * class.size.ln()).sum();
        let factor = (-(logs + memory) / entries).exp();
        if factor * largest.size <= 1.0 {
            return factor;
        }
        filtered.pop();
    }
    f64::INFINITY
}

/// False-positive block reads of a lookup of an absent key in runs of these sizes, if filters of this many
/// bits for each entry are divided best (Monkey): rates proportional to sizes.
pub fn ideal_reads_in_vain(shape: &[RunClass], bits_per_key: f64) -> f64 {
    let factor = factor(shape, bits_per_key);
    shape.iter().map(|class| class.count * (factor * class.size).min(1.0)).sum()
}

/// The rate of the largest run under the same division.
pub(super) fn ideal_rate_of_largest(shape: &[RunClass], bits_per_key: f64) -> f64 {
    let largest = shape.iter().map(|class| class.size).fold(0.0, f64::max);
    (factor(shape, bits_per_key) * largest).min(1.0)
}

/// The same for the exact shape of a fluid tree with many levels, all filtered (Dostoevsky):
/// `T^(T/(T-1)) / (T-1) * K^(1/T) * Z^((T-1)/T) * exp(-x ln² 2)`.
pub fn monkey_reads_in_vain(ratio: f64, upper_runs: f64, last_runs: f64, bits_per_key: f64) -> f64 {
    let shape = ratio.powf(ratio / (ratio - 1.0)) / (ratio - 1.0);
    let runs = upper_runs.powf(1.0 / ratio) * last_runs.powf((ratio - 1.0) / ratio);
    shape * runs * (-LN2_SQUARED * bits_per_key).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_bits_give_what_the_design_says() {
        let near =
            |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 0.05, "{found} {expected}");
        near(monkey_reads_in_vain(4.0, 1.0, 1.0, 10.0), 0.017);
        near(monkey_reads_in_vain(10.0, 1.0, 1.0, 10.0), 0.012);
        near(monkey_reads_in_vain(4.0, 3.0, 1.0, 10.0), 0.023);
        near(monkey_reads_in_vain(4.0, 3.0, 3.0, 10.0), 0.052);
        near(monkey_reads_in_vain(10.0, 9.0, 9.0, 10.0), 0.106);
    }

    /// Levels from the largest up, `K` runs in each but `Z` in the last.
    fn fluid(ratio: f64, upper: f64, last: f64) -> Vec<RunClass> {
        (0..30)
            .map(|up| {
                let count = if up == 0 { last } else { upper };
                RunClass { size: ratio.powi(-up) / count, count }
            })
            .collect()
    }

    #[test]
    fn sizes_of_a_fluid_tree_give_its_closed_form() {
        for (ratio, upper, last) in [(4.0, 1.0, 1.0), (10.0, 1.0, 1.0), (4.0, 3.0, 1.0), (4.0, 3.0, 3.0)] {
            for bits in [4.0, 10.0] {
                let (sum, closed) = (
                    ideal_reads_in_vain(&fluid(ratio, upper, last), bits),
                    monkey_reads_in_vain(ratio, upper, last, bits),
                );
                assert!((sum / closed - 1.0).abs() < 1e-3, "{ratio} {upper} {last} {bits}: {sum} {closed}");
            }
        }
    }

    #[test]
    fn without_memory_every_run_is_read() {
        let shape = fluid(4.0, 3.0, 1.0);
        let runs: f64 = shape.iter().map(|class| class.count).sum();
        assert!((ideal_reads_in_vain(&shape, 0.0) - runs).abs() < 1e-9);
        // With little memory the largest run has no filter, and the others share the memory.
        let little = ideal_reads_in_vain(&shape, 0.2);
        assert!(little < 0.2 * runs && little > 1.0, "{little}");
    }
}
