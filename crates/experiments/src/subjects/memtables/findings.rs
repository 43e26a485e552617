//! What the page about memtables says, checked. It speaks of times, of which a ratio of ten and more is held
//! against a third of itself: less, on the busiest machine, means that something else changed.

use crate::claim::ratio;
use crate::finding::Findings;
use crate::settings::Scale;
use crate::subjects::memtables::structures;
use esker::options::MemtableKind;

pub(super) fn declare(found: &mut Findings<'_>) {
    if !found.is_at_least(Scale::Quick) {
        return;
    }
    let default = MemtableKind::default().name();
    let entries = found.table("kinds").and_then(|table| table.distinct("entries").pop()).unwrap_or_default();
    let of = |kind: &str, column| {
        found.number("kinds", &[("kind", kind), ("keys", "random"), ("entries", &entries)], column)
    };
    let get = ratio(of(structures::CROSSBEAM, "get_ns"), of(default, "get_ns"));
    found.within(
        "default-beside-crossbeam",
        "ten times the yardstick's speed on random keys",
        3.0..=100.0,
        get,
    );
}
