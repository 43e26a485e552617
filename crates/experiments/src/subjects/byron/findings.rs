//! What the page about the byron report's tables says, checked.

use super::varints;
use crate::finding::Findings;
use crate::settings::Scale;

pub(super) fn declare(found: &mut Findings<'_>) {
    let of = |found: &Findings<'_>, row: &str| {
        found.number("document", &[("table", "4: deletes"), ("row", row)], "mean_seconds")
    };
    for (row, seconds) in [("100 K", 1.90), ("1 M", 1.82)] {
        let measured = of(found, row);
        found.within(
            "times-of-its-deletes",
            "Its table of deletes has 1.90, 1.70 and 1.82 s",
            seconds..=seconds,
            measured,
        );
    }
    for (numbers, name, says, range) in [
        (varints::UNIFORM, "varint-of-32-bits", "numbers of 32 bits take 4.94 bytes", 4.92..=4.95),
        (varints::SKEWED, "varint-of-small-numbers", "geometric ones one byte", 1.0..=1.001),
    ] {
        found.within(name, says, range, found.number("varints", &[("numbers", numbers)], "measured_bytes"));
    }
    // In small runs too few gets are sampled.
    if !found.is_at_least(Scale::Quick) {
        return;
    }
    for (bits, name, says, range) in [
        ("0.1", "tables-at-a-tenth-of-a-bit", "0.1 bits: a get searches seven runs of ten", 6.0..=8.0),
        ("10", "tables-at-ten-bits", "10 bits: it searches half a run", 0.45..=0.7),
    ] {
        found.within(name, says, range, found.number("filters", &[("bits_asked", bits)], "tables_per_get"));
    }
}
