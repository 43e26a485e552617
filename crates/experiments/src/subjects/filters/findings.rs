//! What the page about filters says, checked.

use crate::finding::Findings;
use crate::settings::Scale;
use crate::table::Table;

/// No structure that answers wrongly for one absent key in a hundred takes fewer bits: `log2(100)`.
const INFORMATION_BOUND: f64 = 6.64;
/// No Bloom filter does: `log2(100) / ln 2`, less what a search in tenths of bits and 200,000 probes blur.
const BLOOM_BOUND: f64 = 9.59 - 0.2;

pub(super) fn declare(found: &mut Findings<'_>) {
    bits_for_one_percent(found);
    rates_at_ten_bits(found);
    growing(found);
    for (bits, name, says, expected) in [
        ("1", "one-bit", "one bit still lets 62 of 100 absent keys through", 61.0..=64.0),
        ("2", "two-bits", "two bits 38", 37.0..=40.0),
    ] {
        let measured = found.number("budget", &[("bits_asked", bits)], "expected_false_positive_percent");
        found.within(name, says, expected, measured);
    }
}

fn growing(found: &mut Findings<'_>) {
    let Some(growing) = found.table("growing") else { return };
    let largest = growing.distinct("keys").pop().unwrap_or_default();
    let wanted = [("form", "grows, 32 at a time, all cores"), ("keys", &*largest)];
    let of = |column| growing.number(&wanted, column);
    // Below the sum of the parts' rates, but for the draw of the keys.
    let rate = of("false_positive_percent");
    found.within(
        "rate-of-a-growing-filter",
        "at most one false positive in a hundred at every size",
        0.01..=1.15,
        rate,
    );
    let says = "between 9.6 bits a key and twice as many and more";
    found.within("bits-of-a-growing-filter", says, 9.6..=32.0, of("bits_per_key"));
}

fn bits_for_one_percent(found: &mut Findings<'_>) {
    let Some(bits) = found.table("bits") else { return };
    let largest = bits.distinct("keys").pop().unwrap_or_default();
    let of = |kind: &str| bits.number(&[("kind", kind), ("keys", &largest)], "bits_per_key");
    found.within(
        "no-filter-below-the-information-bound",
        "what each kind takes in truth",
        INFORMATION_BOUND..=16.0,
        least(bits, &largest, |_| true),
    );
    found.within(
        "no-bloom-filter-below-its-bound",
        "No Bloom filter needs fewer than 9.59",
        BLOOM_BOUND..=12.0,
        least(bits, &largest, |kind| kind.contains("bloom")),
    );
    // Of a thousand keys, rounding to whole words and segments is most of what small filters take.
    if found.is_at_least(Scale::Quick) {
        found.within("bits-of-ribbon", "Ribbon 6.9", 6.8..=7.2, of("ribbon"));
        found.within("bits-of-binary-fuse", "binary fuse 8.0", 7.9..=8.6, of("binary-fuse"));
        found.within("bits-of-bloom", "standard Bloom 9.6", 9.4..=9.9, of("bloom"));
    }
}

fn rates_at_ten_bits(found: &mut Findings<'_>) {
    let Some(kinds) = found.table("kinds") else { return };
    let largest = kinds.distinct("keys").pop().unwrap_or_default();
    let wanted = [("keys", &*largest)];
    let rates = kinds.find(&wanted).filter_map(|row| row.number("false_positive_percent"));
    let worst =
        rates.fold(None, |worst: Option<f64>, rate| Some(worst.map_or(rate, |worst| worst.max(rate))));
    // A thousand keys are few: the filter of one draw differs from that of another.
    let most = if found.is_at_least(Scale::Quick) { 1.25 } else { 2.0 };
    found.within(
        "worst-rate-at-ten-bits",
        "All kinds get the same hashes at ten bits a key",
        0.01..=most,
        worst,
    );
}

/// The fewest bits of all kinds of which `is_meant` is true.
fn least(bits: &Table, keys: &str, is_meant: impl Fn(&str) -> bool) -> Option<f64> {
    let wanted = [("keys", keys)];
    let rows = bits.find(&wanted).filter(|row| row.text("kind").is_some_and(|kind| is_meant(&kind)));
    let bits = rows.filter_map(|row| row.number("bits_per_key"));
    bits.fold(None, |least: Option<f64>, bits| Some(least.map_or(bits, |least| least.min(bits))))
}
