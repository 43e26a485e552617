//! What the page about codecs says, checked.

use crate::claim::ratio;
use crate::finding::Findings;
use crate::settings::Scale;

pub(super) fn declare(found: &mut Findings<'_>) {
    columns(found);
    tables(found);
    let mixture = |found: &Findings<'_>, codec: &str| {
        found.number("mixture", &[("codec", codec), ("block_bytes", "4096")], "ratio")
    };
    let snappy = ratio(mixture(found, "snappy"), mixture(found, "lz4"));
    found.within("snappy-beside-lz4", "is 3 % before LZ4 here", 0.97..=1.1, snappy);
    let order = ratio(mixture(found, "zstd:1"), mixture(found, "lz4"));
    found.within("order-by-ratio", "The order by ratio is that of the table", 1.1..=1.6, order);
    levels(found);
}

fn levels(found: &mut Findings<'_>) {
    let tree = |section: &str, level: &str| {
        found.number("levels", &[("section", section), ("level", level)], "tree_ratio")
    };
    let same = ratio(tree("2.7.4", "3"), tree("2.7.3", "3"));
    let deep = ratio(tree("2.7.4", "6"), tree("2.7.3", "6"));
    found.within("tables-of-levels-agree", "are the same down to level 3", 1.0..=1.0, same);
    found.within("second-table-of-levels", "the second table gains a few hundredths", 1.0..=1.1, deep);
}

fn columns(found: &mut Findings<'_>) {
    let of = |found: &Findings<'_>, codec: &str, span: &str| {
        found.number("columns", &[("codec", codec), ("span", span), ("block_bytes", "4096")], "ratio")
    };
    found.within(
        "digits-of-one-number",
        "1,018 bytes of 4,096, a ratio of 4.02",
        4.0..=4.05,
        of(found, "bit-packing", "50000"),
    );
    found.within("whole-bits", "that is 3.96 in blocks of 4 KiB", 3.94..=3.98, of(found, "delta", "50000"));
}

fn tables(found: &mut Findings<'_>) {
    let of =
        |found: &Findings<'_>, codec: &str| found.number("tables", &[("codec", codec)], "bytes_per_entry");
    found.within("an-entry-raw", "8 of 15.2 bytes an entry are values", 15.0..=15.5, of(found, "none"));
    found.within("an-entry-by-differences", "`delta` takes 1.3 for these", 3.0..=3.7, of(found, "delta"));
    // Numbers of a small table are short.
    if found.is_at_least(Scale::Quick) {
        found.within(
            "an-entry-packed",
            "bit-packing takes 2 for them, but 5.8 of the other 7.2",
            6.4..=8.3,
            of(found, "bit-packing"),
        );
    }
}
