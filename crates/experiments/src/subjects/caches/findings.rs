//! What the page about block caches says, checked.

use crate::finding::Findings;
use crate::settings::Scale;

pub(super) fn declare(found: &mut Findings<'_>) {
    let hits = |found: &Findings<'_>, kind: &str, pattern: &str, percent: &str| {
        let wanted = [("kind", kind), ("pattern", pattern), ("cache_percent", percent)];
        found.number("hits", &wanted, "hit_percent")
    };
    for kind in ["slots", "lru", "s3-fifo"] {
        let measured = hits(found, kind, "uniform", "10");
        found.within(
            "uniform",
            "Those of uniform access are the cache's share of the data",
            9.0..=11.0,
            measured,
        );
        let measured = hits(found, kind, "sequential", "10");
        let says = "Sequential access hits 31 of 32 times in any cache";
        found.within("sequential", says, 96.7..=97.0, measured);
    }
    found.within(
        "no-cache-no-hits",
        "Those of uniform access are the cache's share of the data",
        0.0..=0.0,
        hits(found, "slots", "zipf", "0"),
    );
    found.within(
        "gets-without-a-cache",
        "with a cache of nothing no get hits",
        0.0..=0.0,
        found.number("sizes", &[("pattern", "zipf"), ("cache_percent", "0")], "hit_percent"),
    );
    if !found.is_at_least(Scale::Quick) {
        return;
    }
    let difference = |one: Option<f64>, other: Option<f64>| Some(one? - other?);
    let (slots, lru, s3_fifo) = (
        hits(found, "slots", "zipf", "10"),
        hits(found, "lru", "zipf", "10"),
        hits(found, "s3-fifo", "zipf", "10"),
    );
    found.within(
        "the-default-over-lru",
        "`slots` | 41.3, 52.2, 58.1, 65.7",
        3.0..=12.0,
        difference(slots, lru),
    );
    found.within("s3-fifo-over-the-default", "0.3 to 1.2 points", -1.0..=2.5, difference(s3_fifo, slots));
}
