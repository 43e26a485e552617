//! What the page about scaling says, checked.

use super::presets;
use crate::finding::Findings;

pub(super) fn declare(found: &mut Findings<'_>) {
    for length in ["10", "100"] {
        let pairs = found.number("ranges", &[("length", length)], "pairs_per_range");
        let wanted: f64 = length.parse().unwrap_or(0.0);
        // Ranges that begin near the last key end with it.
        found.within("pairs-of-a-range", "Every range is counted", wanted * 0.9..=wanted, pairs);
    }
    for options in presets::NAMES {
        let searched = found.number("presets", &[("options", options)], "tables_per_get");
        found.within("tables-with-presets", "searches at most a few tables", 0.3..=3.0, searched);
    }
    let Some(sizes) = found.table("sizes") else { return };
    for pairs in sizes.distinct("pairs") {
        let of = |column: &str| sizes.number(&[("pairs", &pairs)], column);
        let says = "a get searches one table at every size";
        found.within("tables-of-a-get", says, 0.0..=1.05, of("tables_per_get"));
        let says = "a pair of 16 bytes takes 12 to 30 bytes of tables at every size";
        found.within("bytes-of-a-pair", says, 12.0..=30.0, of("stored_bytes_per_pair"));
    }
}
