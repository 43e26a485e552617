//! Statistics of results: medians with their spread, means with their deviation, and chi-square tests of
//! histograms.

/// The values of one quantity over several rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Median of the rounds.
    pub median: f64,
    /// Least value of a round.
    pub least: f64,
    /// Greatest value of a round.
    pub most: f64,
    /// The rounds' mean, where a document reports means.
    pub mean: f64,
    /// Sample standard deviation of the rounds (divisor n-1); 0 of one round.
    pub deviation: f64,
}

impl Sample {
    /// Summarises the values of the rounds; `None` of no rounds.
    pub fn of(values: &[f64]) -> Option<Sample> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&least, &most) = (sorted.first()?, sorted.last()?);
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            0 => (sorted[middle - 1] + sorted[middle]) / 2.0,
            _ => sorted[middle],
        };
        let count = sorted.len() as f64;
        let mean = sorted.iter().sum::<f64>() / count;
        let squares: f64 = sorted.iter().map(|value| (value - mean) * (value - mean)).sum();
        let deviation = if sorted.len() == 1 { 0.0 } else { (squares / (count - 1.0)).sqrt() };
        Some(Sample { median, least, most, mean, deviation })
    }

    /// A quantity that was measured once, or that is the same in every round.
    pub const fn exact(value: f64) -> Sample {
        Sample { median: value, least: value, most: value, mean: value, deviation: 0.0 }
    }

    /// Half the distance from the least to the most, as a share of the median: 0.05 reads as "5 % around it".
    pub fn spread(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.most - self.least) / 2.0 / self.median.abs() }
    }

    /// The same in another unit.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Sample {
        Sample {
            median: self.median * factor,
            least: self.least * factor,
            most: self.most * factor,
            mean: self.mean * factor,
            deviation: self.deviation * factor.abs(),
        }
    }
}

/// How evenly items are distributed over bins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Balance {
    /// Standard deviation of the bins' counts, as a share of their mean.
    pub deviation: f64,
    /// Largest distance of a count from the mean, as a share of the mean.
    pub most_deviation: f64,
    /// Pearson's statistic against equal bins.
    pub chi_square: f64,
    /// How often perfect randomness would be at least as uneven. Near 0: less even than chance. Near 1: more
    /// even than chance, which for random keys is as suspicious.
    pub p_value: f64,
}

/// The balance of counts; `None` of fewer than two bins, or of empty ones.
pub fn balance(counts: &[u64]) -> Option<Balance> {
    let total: u64 = counts.iter().sum();
    if counts.len() < 2 || total == 0 {
        return None;
    }
    let mean = total as f64 / counts.len() as f64;
    let distances = || counts.iter().map(|&count| count as f64 - mean);
    let squares: f64 = distances().map(|distance| distance * distance).sum();
    let chi_square = squares / mean;
    Some(Balance {
        deviation: (squares / counts.len() as f64).sqrt() / mean,
        most_deviation: distances().map(f64::abs).fold(0.0, f64::max) / mean,
        chi_square,
        p_value: chi_square_p_value(chi_square, counts.len() as u32 - 1),
    })
}

/// The chi-square statistic that follows from a standard deviation of shares. So a report about `total` items
/// can be checked without its counts; the number of bins does not matter.
pub fn chi_square_of_deviation(deviation: f64, total: f64) -> f64 {
    // n squared distances over the mean are n (deviation mean)^2 / mean, and n times the mean is the total.
    deviation * deviation * total
}

/// The probability that a chi-square variable of so many degrees of freedom is at least `statistic`.
pub fn chi_square_p_value(statistic: f64, degrees: u32) -> f64 {
    upper_gamma_share(f64::from(degrees) / 2.0, statistic / 2.0)
}

/// Terms of the series and of the continued fraction; both converge in about `sqrt(shape)` of them near the
/// middle.
const MOST_TERMS: u32 = 10_000;
const PRECISION: f64 = 1e-15;

/// The regularised upper incomplete gamma function Q(shape, x), by its series below the middle and by Lentz's
/// method for its continued fraction above (Abramowitz and Stegun 6.5.29 and 6.5.31).
fn upper_gamma_share(shape: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 1.0;
    }
    let scale = (shape * x.ln() - x - ln_gamma(shape)).exp();
    if x < shape + 1.0 {
        let (mut term, mut sum) = (1.0 / shape, 1.0 / shape);
        for n in 1..MOST_TERMS {
            term *= x / (shape + f64::from(n));
            sum += term;
            if term < sum * PRECISION {
                break;
            }
        }
        return (1.0 - sum * scale).clamp(0.0, 1.0);
    }
    let tiny = f64::MIN_POSITIVE / PRECISION;
    let mut b = x + 1.0 - shape;
    let (mut c, mut d) = (1.0 / tiny, 1.0 / b);
    let mut fraction = d;
    for n in 1..MOST_TERMS {
        let a = -f64::from(n) * (f64::from(n) - shape);
        b += 2.0;
        d = 1.0 / nonzero(a * d + b, tiny);
        c = nonzero(b + a / c, tiny);
        let change = c * d;
        fraction *= change;
        if (change - 1.0).abs() < PRECISION {
            break;
        }
    }
    (fraction * scale).clamp(0.0, 1.0)
}

fn nonzero(value: f64, tiny: f64) -> f64 {
    if value.abs() < tiny { tiny } else { value }
}

/// The logarithm of the gamma function of a positive number: Stirling's series after moving the argument up
/// to where five of its terms give fifteen digits.
fn ln_gamma(argument: f64) -> f64 {
    let (mut x, mut product) = (argument, 1.0);
    while x < 12.0 {
        product *= x;
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    // Bernoulli's numbers over n(n-1): 1/12, -1/360, 1/1260, -1/1680, 1/1188.
    let series = (1.0 / 12.0
        - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square * (1.0 / 1680.0 - square / 1188.0))))
        / x;
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series - product.ln()
}

#[cfg(test)]
mod tests;
