//! Every kind of block index gives the answers of a sorted vector, on tables of every shape.

use super::contract::check_everything;
use super::{home, new_fs, open_as, options, path, write};
use crate::testing::{SHAPES, Shape, entries};
use crate::{AdaptiveIndex, BlockLayout, FenceIndex, IndexKind, Table, TableOptions, TableReading};
use esker_base::Error;
use esker_env::{FileSystem, OpenMode, SeededRandom};

#[test]
fn every_kind_answers_like_a_sorted_vector() {
    for (number, shape) in SHAPES.into_iter().enumerate() {
        for (block_size_bytes, seqnos) in [(64, 300), (512, 0), (4096, 40)] {
            let random = SeededRandom::new((number * 10 + block_size_bytes) as u64);
            let count = if shape == Shape::Giant { 25 } else { 600 };
            let entries = entries(shape, count, seqnos, &random);
            let layout = if number % 2 == 0 { BlockLayout::Flat } else { BlockLayout::Delta };
            let fs = new_fs();
            write(&fs, &entries, TableOptions { block_size_bytes, layout, ..options() });
            for kind in IndexKind::ALL {
                println!("{shape:?}, blocks of {block_size_bytes}, {kind}");
                let table = open_as(&fs, 50_000, kind);
                let facts = table.index_facts().unwrap();
                assert_eq!((facts.asked, facts.entries), (kind, table.blocks()));
                assert_eq!(facts.used == kind, !matches!(kind, IndexKind::Adaptive(_)), "{facts:?}");
                assert!(facts.memory_bytes > 8 * facts.entries || kind == IndexKind::PrefixCompressed);
                check_everything(table, &entries, shape, &random);
            }
        }
    }
}

/// What the CS265 report promises of prefix compression, 30 to 70 % of the memory, on keys of both of the benchmarks' kinds.
#[test]
fn compression_saves_memory_and_is_counted() {
    for shape in [Shape::Random, Shape::Decimal, Shape::Paths] {
        let entries = entries(shape, 20_000, 0, &SeededRandom::new(3));
        let fs = new_fs();
        write(&fs, &entries, TableOptions { block_size_bytes: 512, ..options() });
        let of = |kind| open_as(&fs, 0, kind).index_facts().unwrap();
        let (array, compressed) = (of(IndexKind::SortedArray), of(IndexKind::PrefixCompressed));
        assert_eq!(array.sorted_array_bytes, compressed.sorted_array_bytes);
        let saved = 1.0 - compressed.memory_bytes as f64 / array.memory_bytes as f64;
        assert!(saved > if shape == Shape::Paths { 0.7 } else { 0.3 }, "{shape:?}: {array:?} {compressed:?}");
        // The prefix and the form itself, but nothing for each block that is not counted.
        assert!(array.memory_bytes.abs_diff(array.sorted_array_bytes) < 200, "{shape:?}: {array:?}");
    }
}

#[test]
fn what_is_open_is_charged_with_the_form_that_it_has() {
    let entries = entries(Shape::Random, 5_000, 0, &SeededRandom::new(4));
    let fs = new_fs();
    let len = write(&fs, &entries, TableOptions { block_size_bytes: 512, ..options() }).file_bytes;
    let mut charged = Vec::new();
    for index in IndexKind::ALL {
        let tables = crate::OpenTables::new(std::sync::Arc::clone(home(0).cache()));
        let home = crate::TableHome::new(&tables).unwrap();
        let file = fs.open(path(), OpenMode::Read).unwrap();
        let table = Table::open_for(file, len, None, home, TableReading { index }).unwrap();
        assert_eq!(tables.memory_bytes(), table.memory_bytes() as u64);
        charged.push((tables.memory_bytes(), index));
        drop(table);
        assert_eq!(tables.memory_bytes(), 0);
    }
    let of = |kind| charged.iter().find(|(_, charged)| *charged == kind).unwrap().0;
    assert!(of(IndexKind::PrefixCompressed) < of(IndexKind::SortedArray));
    assert!(of(IndexKind::SortedArray) < of(IndexKind::Eytzinger));
    assert!(of(IndexKind::Eytzinger) < of(IndexKind::FastLane));
}

#[test]
fn adaptive_tables_say_what_was_chosen() {
    let entries = entries(Shape::Decimal, 2_000, 0, &SeededRandom::new(5));
    let fs = new_fs();
    write(&fs, &entries, TableOptions { block_size_bytes: 512, level: 3, ..options() });
    let used = |adaptive| open_as(&fs, 0, IndexKind::Adaptive(adaptive)).index_facts().unwrap();
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
