//! What the page about block indexes says, checked.

use crate::claim::ratio;
use crate::finding::Findings;

pub(super) fn declare(found: &mut Findings<'_>) {
    let Some(points) = found.table("points") else { return };
    let entries = points.distinct("entries").pop().unwrap_or_default();
    let of = |kind: &str| {
        points.number(&[("kind", kind), ("keys", "random"), ("entries", &entries)], "bytes_per_entry")
    };
    found.within(
        "memory-of-eytzinger",
        "Eytzinger's heads beside the keys make 1.55 times the sorted array",
        1.45..=1.65,
        ratio(of("eytzinger"), of("sorted-array")),
    );
    found.within(
        "memory-of-prefix-compression",
        "of 100,000 random keys it is 60 %",
        0.35..=0.5,
        ratio(of("prefix-compressed"), of("sorted-array")),
    );
    found.within(
        "yardstick-is-heads-alone",
        "search of eight-byte heads that lie side by side",
        8.0..=8.0,
        of("binary-search"),
    );
}
