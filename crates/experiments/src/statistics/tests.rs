use super::*;

fn assert_close(found: f64, expected: f64, tolerance: f64) {
    assert!((found - expected).abs() <= tolerance, "{found} is not {expected}");
}

#[test]
fn medians_and_spreads() {
    let odd = Sample::of(&[3.0, 1.0, 2.0]).unwrap();
    assert_eq!(odd, Sample { median: 2.0, least: 1.0, most: 3.0, mean: 2.0, deviation: 1.0 });
    assert_eq!(odd.spread(), 0.5);
    assert_eq!(Sample::of(&[4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
    assert_eq!(Sample::of(&[]), None);
    assert_eq!(Sample::exact(7.0).spread(), 0.0);
    assert_eq!(odd.scaled(10.0).most, 30.0);
    assert_eq!((odd.scaled(-10.0).mean, odd.scaled(-10.0).deviation), (-20.0, 10.0));
    assert_eq!(Sample::of(&[7.0]).unwrap(), Sample::exact(7.0));
    let uneven = Sample::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
    assert_eq!(uneven.mean, 5.0);
    assert_close(uneven.deviation, (32.0f64 / 7.0).sqrt(), 1e-12);
}

#[test]
fn the_gamma_function_is_that_of_the_tables() {
    for (argument, expected) in [(1.0, 0.0), (2.0, 0.0), (5.0, 24f64.ln()), (11.0, 3_628_800f64.ln())] {
        assert_close(ln_gamma(argument), expected, 1e-12);
    }
    assert_close(ln_gamma(0.5), std::f64::consts::PI.sqrt().ln(), 1e-12);
}

/// The critical values that every table of the distribution lists.
#[test]
fn p_values_are_those_of_the_tables() {
    let table = [
        (1, 3.841_459, 0.05),
        (1, 6.634_897, 0.01),
        (2, 5.991_465, 0.05),
        (10, 3.940_299, 0.95),
        (10, 18.307_038, 0.05),
        (15, 5.229_349, 0.99),
        (15, 7.260_944, 0.95),
        (15, 14.338_860, 0.50),
        (15, 24.995_790, 0.05),
        (15, 30.577_914, 0.01),
        (100, 124.342_113, 0.05),
    ];
    for (degrees, statistic, expected) in table {
        assert_close(chi_square_p_value(statistic, degrees), expected, 1e-6);
    }
}

#[test]
fn two_degrees_of_freedom_are_an_exponential() {
    for statistic in [0.01, 0.5, 1.0, 3.0, 10.0, 50.0, 700.0] {
        let expected = (-statistic / 2.0f64).exp();
        assert_close(chi_square_p_value(statistic, 2) / expected, 1.0, 1e-11);
    }
    assert_eq!(chi_square_p_value(0.0, 7), 1.0);
}

#[test]
fn balance_over_shards_is_tested() {
    let even = balance(&[100, 100, 100, 100]).unwrap();
    assert_eq!((even.chi_square, even.p_value, even.deviation), (0.0, 1.0, 0.0));

    // (90-100)^2/100 + (110-100)^2/100 = 2 with one degree of freedom.
    let uneven = balance(&[90, 110]).unwrap();
    assert_close(uneven.chi_square, 2.0, 1e-12);
    assert_close(uneven.p_value, 0.157_299_207, 1e-9);
    assert_close(uneven.deviation, 0.1, 1e-12);
    assert_close(uneven.most_deviation, 0.1, 1e-12);
    assert_close(chi_square_of_deviation(0.1, 200.0), 2.0, 1e-12);
    assert_eq!(balance(&[5]), None);
    assert_eq!(balance(&[0, 0]), None);
}

#[test]
fn all_keys_in_one_shard_is_no_chance() {
    let mut counts = [0u64; 16];
    counts[3] = 1_000_000;
    assert!(balance(&counts).unwrap().p_value < 1e-300);
}
