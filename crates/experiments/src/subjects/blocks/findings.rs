//! What the page about blocks says, checked.

use crate::claim::ratio;
use crate::finding::Findings;

pub(super) fn declare(found: &mut Findings<'_>) {
    let bytes = |found: &Findings<'_>, values: &str, block: &str| {
        found.number("sizes", &[("value_bytes", values), ("block_bytes", block)], "bytes_per_entry")
    };
    let small = ratio(bytes(found, "100", "512"), bytes(found, "100", "4096"));
    found.within(
        "small-blocks-take-room",
        "Blocks of 512 bytes take more room than those of 4 KiB",
        1.03..=1.5,
        small,
    );
    let large = ratio(bytes(found, "100", "65536"), bytes(found, "100", "4096"));
    found.within("large-blocks-save-little", "64 KiB save next to nothing over 4 KiB", 0.93..=1.02, large);
    let aligned = |found: &Findings<'_>, aligned: &str| {
        found.number("alignment", &[("value_bytes", "100"), ("aligned", aligned)], "bytes_per_entry")
    };
    let padding = ratio(aligned(found, "1"), aligned(found, "0"));
    found.within(
        "aligned-blocks-take-little-room",
        "Aligned blocks of 4 KiB take a few percent more room",
        1.0..=1.05,
        padding,
    );
    let of = |found: &Findings<'_>, interval: &str| {
        found.number("restarts", &[("restart_interval", interval)], "bytes_per_entry")
    };
    let near = ratio(of(found, "4"), of(found, "16"));
    found.within(
        "near-whole-keys-take-room",
        "a whole key at every fourth entry takes more room",
        1.005..=1.2,
        near,
    );
    let far = ratio(of(found, "64"), of(found, "16"));
    found.within("far-whole-keys-save-little", "64 save next to nothing over 16", 0.93..=1.0, far);
}
