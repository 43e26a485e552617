//! What the page about hash functions says, checked.

use crate::finding::Findings;

pub(super) fn declare(found: &mut Findings<'_>) {
    for hash in ["xxh3-64", "foldhash-fast"] {
        let p_value = found.number("balance", &[("hash", hash), ("keys", "random")], "p_value");
        found.within(
            "even-as-chance",
            "Here every function is as even as chance on random keys",
            1e-6..=1.0 - 1e-6,
            p_value,
        );
    }
    let printed = [("hash", "XXH3")];
    found.within(
        "printed-deviation-is-not-chance",
        "whose p-value is below 10^-100, not 0.997",
        0.0..=1e-100,
        found.number("document-balance", &printed, "p_value_true"),
    );
    found.within(
        "statistic-of-the-printed-deviation",
        "statistic that follows from 0.27 % is 729",
        728.9..=729.1,
        found.number("document-balance", &printed, "chi_square"),
    );
    found.within(
        "deviation-of-chance",
        "chance alone gives 0.04 %",
        0.035..=0.045,
        found.number("document-balance", &printed, "deviation_of_chance_percent"),
    );
    for (hash, name, says, range) in [
        ("xxh3-64", "avalanche-of-xxh3", "XXH3 changes half of its bits", 49.0..=51.0),
        ("siphash-2-4", "avalanche-of-siphash", "so do Murmur3 and SipHash", 49.0..=51.0),
        ("murmur3-128", "avalanche-of-murmur3", "so do Murmur3 and SipHash", 49.0..=51.0),
    ] {
        found.within(name, says, range, found.number("quality", &[("hash", hash)], "flipped_percent"));
    }
    found.within(
        "no-avalanche-of-a-linear-code",
        "a bit of the key decides a bit of the code",
        0.0..=0.0,
        found.number("quality", &[("hash", "crc32c")], "worst_bit_percent"),
    );
    let of = |column| found.number("quality", &[("hash", "xxh3-64")], column);
    // Counts of so few vary by their square root: five of them on either side, and one for small runs.
    let expected = of("collisions_expected");
    let excess = of("collisions_random")
        .zip(expected)
        .map(|(count, expected)| (count - expected) / (expected.sqrt() * 5.0 + 1.0));
    found.within("collisions-as-chance", "as many collisions as chance", -1.0..=1.0, excess);
}
