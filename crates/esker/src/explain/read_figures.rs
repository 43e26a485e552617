//! Figures of the blocks that a read got, and names of its sources.

use super::text::{counted, time};
use super::{Figure, Step};
use esker_engine::amplification::level_label;
use esker_engine::state::store::Store;
use esker_sst::BlocksRead;
use esker_view::read::SourcePlace;

/// Adds what was read. `expected_blocks` is what the model expects of data blocks.
pub(super) fn add_blocks(step: &mut Step, read: &BlocksRead, expected_blocks: Option<f64>) {
    let blocks = read.data_blocks();
    if blocks > 0 || expected_blocks.is_some() {
        step.add_beside(Figure::DataBlocks, blocks as f64, expected_blocks);
    }
    for (figure, value) in [
        (Figure::BlocksFromSlots, read.from_slots),
        (Figure::BlocksFromCache, read.from_cache),
        (Figure::BlocksMapped, read.mapped),
        (Figure::BlocksFromFiles, read.from_files),
        (Figure::FileBytes, read.file_bytes),
        (Figure::IndexFromCache, read.other_from_cache),
        (Figure::IndexFromFiles, read.other_from_files),
        (Figure::IndexFileBytes, read.other_file_bytes),
        (Figure::LargeValues, read.large_values),
        (Figure::LargeBytes, read.large_bytes),
        (Figure::VersionsMerged, read.versions),
    ] {
        step.add_some(figure, value);
    }
}

/// The name of a source, such as `L0, run 2`.
pub(super) fn name_of(place: &SourcePlace) -> String {
    match *place {
        SourcePlace::Memtable { is_active, entries } => {
            let state = if is_active { "active" } else { "sealed" };
            format!("memtable, {state}, {}", counted_entries(entries))
        }
        SourcePlace::Ingested { tables } => format!("ingested, {}", counted(tables as u64, "table")),
        SourcePlace::Run { level, number, .. } => format!("{}, run {number}", level_label(level.get())),
    }
}

fn counted_entries(entries: u64) -> String {
    if entries == 1 { "1 entry".to_owned() } else { format!("{} entries", super::text::count(entries)) }
}

/// What blocks from files cost, and what would change it.
pub(super) fn about_files(store: &Store, what: &str, took_ns: u64, of_ns: u64) -> String {
    let cache = store.files.cache();
    let (used, capacity) = (cache.used_bytes() as u64, cache.capacity_bytes() as u64);
    let share = format!("{what}: {} of {}", time(took_ns as f64), time(of_ns as f64));
    let sizes = format!("{} of {}", super::text::bytes(used), super::text::bytes(capacity));
    // A cache with less room than this sixteenth replaces blocks already.
    if used + capacity / 16 >= capacity {
        format!("{share}. The block cache is full ({sizes}): a larger memory_budget would keep more blocks.")
    } else {
        format!("{share}. The block cache has room ({sizes}): the same read finds them there now.")
    }
}
