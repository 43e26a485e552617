use super::*;
use crate::kind::FilterKind;
use crate::policy::FilterPolicy;

fn sizes(kind: FilterKind) -> impl Iterator<Item = (BitsPerKey, FilterPolicy)> {
    let (least, most) = kind.sizes().expect("a kind with a filter");
    (least..=most).map(move |tenths| (BitsPerKey::from_tenths(tenths), kind.policy_of_size(tenths)))
}

#[test]
fn the_tables_of_probes_are_the_optimum_of_the_models() {
    type Rate = fn(f64, u8) -> f64;
    let kinds: [(FilterKind, Rate, u8, f64); 4] = [
        (FilterKind::BlockedBloom, rate, MAX_PROBES, 1.003),
        (FilterKind::Bloom, standard_rate, crate::bloom::MAX_PROBES, 1.003),
        (FilterKind::DoubleProbeBloom, double_rate, MAX_PROBES, 1.003),
        // RocksDB's choice, which prefers few probes.
        (FilterKind::LocalBloom, rate, MAX_PROBES, 1.05),
    ];
    for (kind, rate, most_probes, tolerance) in kinds {
        for (bits_per_key, policy) in sizes(kind) {
            let chosen = policy.false_positive_rate();
            let best = (1..=most_probes).map(|k| rate(bits_per_key.bits(), k)).fold(1.0, f64::min);
            assert!(chosen <= best * tolerance, "{policy}: {chosen} against {best}");
        }
    }
}

#[test]
fn rates_agree_with_the_published_ones() {
    // Percent, for 2 to 24 bits, blocked.
    let table = [
        (2.0, 39.3),
        (4.0, 14.8),
        (6.0, 5.8),
        (8.0, 2.3),
        (10.0, 0.96),
        (12.0, 0.41),
        (14.0, 0.18),
        (16.0, 0.082),
        (20.0, 0.019),
        (24.0, 0.005),
    ];
    for (bits, percent) in table {
        let rate = FilterPolicy::blocked_bloom(bits).false_positive_rate() * 100.0;
        assert!((rate / percent - 1.0).abs() < 0.04, "{bits} bits: {rate} % against {percent} %");
    }
    // The standard filter: 0.6185 to the power of the bits, a little more for whole probes.
    for (bits_per_key, policy) in sizes(FilterKind::Bloom).filter(|(bits, _)| bits.bits() >= 2.0) {
        let ratio = policy.false_positive_rate() / 0.6185_f64.powf(bits_per_key.bits());
        assert!((0.99..1.07).contains(&ratio), "{policy}: {ratio}");
    }
}

/// From 5 bits on, below which all are alike.
#[test]
fn two_lines_lie_between_one_line_and_the_standard_filter() {
    for (bits_per_key, double) in sizes(FilterKind::DoubleProbeBloom).filter(|(bits, _)| bits.bits() >= 5.0) {
        let of = |kind: FilterKind| kind.policy(bits_per_key.bits()).false_positive_rate();
        let double = double.false_positive_rate();
        assert!(of(FilterKind::Bloom) < double && double < of(FilterKind::BlockedBloom), "{bits_per_key:?}");
    }
}

#[test]
fn more_bits_never_hurt() {
    for &kind in FilterKind::ALL.iter().filter(|kind| kind.sizes().is_some()) {
        let mut last = 1.0;
        for (_, policy) in sizes(kind) {
            let rate = policy.false_positive_rate();
            assert!(rate < last, "{policy}");
            last = rate;
        }
    }
    assert_eq!(FilterPolicy::None.false_positive_rate(), 1.0);
}
