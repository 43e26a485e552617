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
}
