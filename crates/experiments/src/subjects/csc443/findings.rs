//! What the page about the CSC443 report's steps says, checked.

use super::VARIANTS;
use super::pages::{HALVING, TREE};
use crate::claim::ratio;
use crate::finding::Findings;
use crate::settings::Scale;

/// The pool of 10 MB as the table of volumes tells it, in millions of bytes.
const POOL_MB: f64 = 10.485_76;

pub(super) fn declare(found: &mut Findings<'_>) {
    let Some(volumes) = found.table("volumes") else { return };
    let sizes = volumes.distinct("megabytes");
    let largest = sizes.last().map(String::as_str).unwrap_or_default();
    let of = |variant: usize, megabytes: &str, column: &str| {
        volumes.number(&[("variant", VARIANTS[variant].name), ("megabytes", megabytes)], column)
    };
    for megabytes in &sizes {
        let says = "the pool is 10 MB at every size of data";
        found.within("no-pool", "no pool at all", 0.0..=0.0, of(0, megabytes, "cache_mb"));
        for variant in 1..VARIANTS.len() {
            found.within("pool", says, POOL_MB..=POOL_MB, of(variant, megabytes, "cache_mb"));
        }
    }
    found.within(
        "a-page-of-each-run",
        "a get reads one page of each run that may hold its key",
        0.9..=1.1,
        ratio(of(0, largest, "reads_per_get"), of(0, largest, "tables_per_get")),
    );
    // A few megabytes are a few memtables, merged or not.
    if found.is_at_least(Scale::Quick) {
        let merging = ratio(of(2, largest, "runs"), of(3, largest, "runs"));
        found.within("merging-leaves-few-runs", "merging leaves few runs", 1.5..=1000.0, merging);
    }
    for variant in [3, 4] {
        found.within(
            "tables-of-a-get-in-step-3",
            "a get searches one table",
            0.3..=1.3,
            of(variant, largest, "tables_per_get"),
        );
    }
    pages(found, largest);
}

fn pages(found: &mut Findings<'_>, largest: &str) {
    let of = |search: &str, column: &str| {
        found.number("pages", &[("search", search), ("megabytes", largest)], column)
    };
    let [halving, tree] = [HALVING, TREE].map(|search| of(search, "pages_per_run_of_a_scan"));
    let reads = ratio(of(HALVING, "reads_per_get"), of(TREE, "reads_per_get"));
    found.within("pages-of-a-binary-search", "a binary search looks at eight or nine", 7.5..=9.5, halving);
    found.within("pages-of-a-b-tree", "of each run the B-tree looks at two pages", 1.9..=2.6, tree);
    // Below the pool's size both read each page once.
    if found.is_at_least(Scale::Full) {
        found.within("reads-of-a-binary-search", "reads several times as many pages", 2.0..=12.0, reads);
    }
}
