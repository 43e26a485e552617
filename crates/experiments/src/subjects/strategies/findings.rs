//! What the page about strategies says, checked: orders between them and bounds, at any size of data.

use crate::claim::ratio;
use crate::finding::Findings;
use crate::settings::Scale;

pub(super) fn declare(found: &mut Findings<'_>) {
    let written = |found: &Findings<'_>, strategy: &str| {
        found.number("writes", &[("strategy", strategy)], "write_amplification")
    };
    let rested =
        |found: &Findings<'_>, strategy: &str| found.number("space", &[("strategy", strategy)], "after_rest");
    found.within("nothing-merged", "where nothing is merged", 0.9..=1.5, written(found, "none"));
    found.within(
        "one-run-after-a-rest",
        "After a rest the default is one run",
        1.0..=1.0,
        found.number("reads", &[("strategy", "partitioned")], "runs_rested"),
    );
    let room = rested(found, "leveled");
    found.within("room-of-leveling", "leveled, T=10 | 4.21 / 4.21 | 1.63 / 2.77 | 1.00", 0.95..=1.11, room);
    if !found.is_at_least(Scale::Quick) {
        return;
    }
    let tiered = ratio(written(found, "tiered"), written(found, "leveled"));
    found.within("tiering-beside-leveling", "tiered, T=4 | 2.61 / 2.61", 0.2..=0.9, tiered);
    let partial = ratio(written(found, "partial"), written(found, "leveled"));
    found.within(
        "partial-beside-leveling",
        "Partial leveling writes 0.68 of what leveling does",
        0.3..=0.95,
        partial,
    );
    for strategy in ["partitioned", "leveled", "tiered", "lazy-leveled", "partial", "golden-ratio"] {
        let searched = found.number("reads", &[("strategy", strategy)], "tables_per_present_get");
        let says = "filters keep a get at 1.00 to 1.01 tables searched whatever the strategy";
        found.within("tables-of-a-get", says, 1.0..=1.03, searched);
    }
    let equal = found.table("equal");
    let entries = equal.and_then(|table| table.distinct("entries").pop()).unwrap_or_default();
    let of = |strategy: &str| {
        let wanted = [("strategy", strategy), ("entries", &*entries)];
        equal.and_then(|table| table.number(&wanted, "write_amplification"))
    };
    let order = ratio(of("tiered:4"), of("leveled:4"));
    found.within("tiering-at-equal-ratios", "at equal ratios tiering writes least", 0.2..=0.95, order);
    // The limits of small stores are not scaled, so the room of small data is another.
    if found.is_at_least(Scale::Full) {
        let most = found.number("space", &[("strategy", "partitioned")], "running_most");
        found.within(
            "room-of-the-default",
            "**The default keeps its room while writes run at full speed**",
            1.0..=1.4,
            most,
        );
    }
}
