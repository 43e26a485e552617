//! Every kind of block index gives the answers of a sorted vector, on tables of every shape.

use super::contract::check_everything;
use super::{identity, new_fs, open_as, options, path, write};
use crate::testing::{SHAPES, Shape, entries};
use crate::{
    AdaptiveIndex, BlockLayout, FenceIndex, IndexFacts, IndexKind, Table, TableOptions, TableReading,
};
use esker_base::Error;
use esker_env::{FileSystem, OpenMode, SeededRandom};

fn facts(table: &Table) -> IndexFacts {
    table.index_facts().unwrap().unwrap()
}

#[test]
fn every_kind_answers_like_a_sorted_vector() {
    for (number, shape) in SHAPES.into_iter().enumerate() {
        for (block_size_bytes, seqnos) in [(64, 300), (512, 0), (4096, 40)] {
            let random = SeededRandom::new((number * 10 + block_size_bytes) as u64);
            let count = if shape == Shape::Giant { 25 } else { 600 };
            let entries = entries(shape, count, seqnos, &random);
            let is_flat = number % 2 == 0 || shape == Shape::Records;
            let layout = if is_flat { BlockLayout::Flat } else { BlockLayout::Delta };
            for kind in IndexKind::ALL {
                println!("{shape:?}, blocks of {block_size_bytes}, {kind}");
                let fs = new_fs();
                write(&fs, &entries, TableOptions { block_size_bytes, layout, index: kind, ..options() });
                let table = open_as(&fs, 50_000, kind);
                let facts = facts(&table);
                assert_eq!((facts.requested, facts.entries), (kind, table.blocks()));
                assert_eq!(facts.used == kind, !matches!(kind, IndexKind::Adaptive(_)), "{facts:?}");
                assert_eq!(facts.pages.is_some(), kind == IndexKind::BTreePages);
                assert_eq!(facts.fingerprint_bits.is_some(), kind == IndexKind::HashLocator);
                check_everything(table, &entries, shape, &random);
            }
        }
    }
}

/// The CS265 report's claim: prefix compression saves 30 to 70 %, for both benchmark key kinds.
#[test]
fn compression_saves_memory_and_is_counted() {
    for shape in [Shape::Random, Shape::Decimal, Shape::Paths] {
        let entries = entries(shape, 20_000, 0, &SeededRandom::new(3));
        let fs = new_fs();
        write(&fs, &entries, TableOptions { block_size_bytes: 512, ..options() });
        let of = |kind| facts(&open_as(&fs, 0, kind));
        let (array, compressed) = (of(IndexKind::SortedArray), of(IndexKind::PrefixCompressed));
        assert_eq!(array.sorted_array_bytes, compressed.sorted_array_bytes);
        let saved = 1.0 - compressed.memory_bytes as f64 / array.memory_bytes as f64;
        assert!(saved > if shape == Shape::Paths { 0.7 } else { 0.3 }, "{shape:?}: {array:?} {compressed:?}");
        // The prefix and the form itself, but no uncounted bytes for each block.
        assert!(array.memory_bytes.abs_diff(array.sorted_array_bytes) < 200, "{shape:?}: {array:?}");
    }
}

#[test]
fn open_tables_are_charged_for_their_index_form() {
    let entries = entries(Shape::Random, 5_000, 0, &SeededRandom::new(4));
    let fs = new_fs();
    let mut charged = Vec::new();
    for index in IndexKind::ALL {
        let len = write(&fs, &entries, TableOptions { block_size_bytes: 512, index, ..options() }).file_bytes;
        let tables = crate::OpenTables::new(std::sync::Arc::clone(identity(0).cache()));
        let identity = crate::TableIdentity::new(&tables).unwrap();
        let file = fs.open(path(), OpenMode::Read).unwrap();
        let table = Table::open_for(file, len, None, identity, TableReading { index }).unwrap();
        assert_eq!(tables.memory_bytes(), table.memory_bytes() as u64);
        charged.push((tables.memory_bytes(), index));
        drop(table);
        assert_eq!(tables.memory_bytes(), 0);
    }
    let of = |kind| charged.iter().find(|(_, charged)| *charged == kind).unwrap().0;
    assert!(of(IndexKind::PrefixCompressed) < of(IndexKind::SortedArray));
    assert!(of(IndexKind::SortedArray) < of(IndexKind::Eytzinger));
    assert!(of(IndexKind::Eytzinger) < of(IndexKind::FastLane));
    // Neither index nor slots: only the filter, and what every table takes.
    let filter = 5_000 * 10 / 8;
    assert!(of(IndexKind::BTreePages) < filter + 3_000, "{charged:?}");
    // The locator replaces the filter.
    let locator = 5_000 * 16 / 3;
    assert!(
        of(IndexKind::HashLocator).abs_diff(of(IndexKind::STree) - filter + locator) < 1_000,
        "{charged:?}"
    );
}

/// The index kind to write for and the kind to read with are independent.
#[test]
fn any_table_is_read_with_any_kind() {
    for (number, written) in IndexKind::ALL.into_iter().enumerate() {
        let random = SeededRandom::new(number as u64);
        let entries = entries(Shape::Versions, 500, 200, &random);
        let fs = new_fs();
        write(&fs, &entries, TableOptions { block_size_bytes: 128, index: written, ..options() });
        for read in IndexKind::ALL {
            let table = open_as(&fs, 1 << 20, read);
            let facts = facts(&table);
            let is_adaptive = matches!(read, IndexKind::Adaptive(_));
            let needs_other = (read.needs_pages() || read.needs_locator()) && read != written;
            assert_eq!(facts.used == read, !is_adaptive && !needs_other, "{written} as {read}: {facts:?}");
            assert_eq!(needs_other, facts.reason.contains("written without"), "{facts:?}");
            assert!(table.index_damage().is_none());
            check_everything(table, &entries, Shape::Versions, &random);
        }
    }
}

/// The tree of pages has the expected depth, and a search reads one page a level once and then nothing.
#[test]
fn pages_go_through_the_cache() {
    let entries = entries(Shape::Random, 30_000, 0, &SeededRandom::new(6));
    let fs = new_fs();
    let index = IndexKind::BTreePages;
    write(&fs, &entries, TableOptions { block_size_bytes: 512, index, ..options() });
    let table = open_as(&fs, 64 << 20, index);
    let facts = facts(&table);
    let pages = facts.pages.unwrap();
    assert!(pages > 10 && facts.entries / pages > 80, "{facts:?}");
    let stats = || table.cache.stats();
    let misses = |of: esker_cache::BlockKind| stats()[of].misses;
    let before = misses(esker_cache::BlockKind::Index);
    for entry in &entries {
        let hash = esker_base::checksum::key_hash(&entry.key);
        assert!(table.get(&entry.key, hash, esker_base::SeqNo::MAX).unwrap().is_some());
    }
    assert!(misses(esker_cache::BlockKind::Index) - before <= pages as u64);
    assert!(misses(esker_cache::BlockKind::Data) <= table.blocks() as u64);
}

/// The locator reads no block for nearly all absent keys, without any filter.
#[test]
fn a_locator_spares_reads_of_absent_keys() {
    let entries = entries(Shape::Random, 5_000, 0, &SeededRandom::new(7));
    let fs = new_fs();
    let index = IndexKind::HashLocator;
    write(&fs, &entries, TableOptions { index, filter: esker_filter::FilterPolicy::None, ..options() });
    let table = open_as(&fs, 0, index);
    assert!(table.filter().is_none() && facts(&table).fingerprint_bits.unwrap() >= 12);
    let random = SeededRandom::new(8);
    let misses = || table.cache.stats()[esker_cache::BlockKind::Data].misses;
    let before = misses();
    for _ in 0..10_000 {
        let key = crate::testing::key_of(Shape::Random, 5_000, &random);
        let hash = esker_base::checksum::key_hash(&key);
        assert!(table.get(&key, hash, esker_base::SeqNo::MAX).unwrap().is_none());
    }
    assert!(misses() - before < 10_000 / 150, "{} blocks read", misses() - before);
}

#[test]
fn adaptive_tables_say_what_was_chosen() {
    let entries = entries(Shape::Decimal, 2_000, 0, &SeededRandom::new(5));
    let fs = new_fs();
    write(&fs, &entries, TableOptions { block_size_bytes: 512, level: 3, ..options() });
    let used = |adaptive| facts(&open_as(&fs, 0, IndexKind::Adaptive(adaptive)));
    let default = AdaptiveIndex::DEFAULT;
    assert_eq!(used(default).used, IndexKind::SortedArray);
    assert_eq!(used(AdaptiveIndex { tree_level: 4, ..default }).used, IndexKind::SortedArray);
    assert_eq!(used(AdaptiveIndex { tree_level: 3, ..default }).used, IndexKind::STree);
    assert_eq!(used(AdaptiveIndex { small_entries: 10, ..default }).used, IndexKind::STree);
    let compressed = used(AdaptiveIndex { memory_bytes: 1_000, ..default });
    assert_eq!((compressed.used, compressed.reason.contains("memory")), (IndexKind::PrefixCompressed, true));
}

#[test]
fn fences_are_found_without_a_table() {
    for (number, shape) in SHAPES.into_iter().enumerate() {
        let random = SeededRandom::new(number as u64);
        let count = if shape == Shape::Giant { 40 } else { 2_000 };
        let mut fences: Vec<Vec<u8>> =
            entries(shape, count, 0, &random).into_iter().map(|entry| entry.key).collect();
        fences.dedup();
        for kind in IndexKind::ALL {
            let index = FenceIndex::new(kind, fences.iter().map(|fence| &fence[..])).unwrap();
            assert_eq!(index.len(), fences.len());
            for _ in 0..2_000 {
                let key = match random.below(3) {
                    0 => fences[random.below(fences.len() as u64) as usize].clone(),
                    _ => crate::testing::key_of(shape, count as u64, &random),
                };
                let place = |key: &[u8]| fences.partition_point(|fence| &fence[..] <= key).saturating_sub(1);
                assert_eq!(index.find(&key), place(&key), "{kind}, {}", key.escape_ascii());
                let to = crate::testing::key_of(shape, count as u64, &random);
                let range = index.find_range(&key, &to);
                assert_eq!((*range.start(), *range.end()), (place(&key), place(&to).max(place(&key))));
            }
        }
    }
    for wrong in [&[][..], &[&b"b"[..], b"a"], &[b"a", b"a"]] {
        let index = FenceIndex::new(IndexKind::STree, wrong.iter().copied());
        assert!(matches!(index, Err(Error::InvalidArgument(_))), "{wrong:?}");
    }
}
