//! What the page about the fractio analysis says, checked. It speaks of rates: the one of which the page is
//! about, that a database need not be slower than a skiplist, is held against half of itself.

use crate::finding::Findings;
use crate::settings::Scale;

pub(super) fn declare(found: &mut Findings<'_>) {
    let operations = found.table("operations");
    let entries = operations.and_then(|table| table.distinct("entries").pop()).unwrap_or_default();
    let of = |operation: &str, store: &str| {
        let wanted = [("operation", operation), ("entries", &*entries), ("store", store)];
        operations.and_then(|table| table.number(&wanted, "share_of_skiplist"))
    };
    found.within(
        "the-skiplist-is-the-yardstick",
        "each of the database's rates is a share of the skiplist's",
        1.0..=1.0,
        of("random writes", "crossbeam-skipmap"),
    );
    if found.is_at_least(Scale::Quick) {
        let reads = of("random reads", "default");
        found.within(
            "no-slower-than-a-skiplist",
            "**A database need not be slower than a skiplist.**",
            0.5..=50.0,
            reads,
        );
    }
}
