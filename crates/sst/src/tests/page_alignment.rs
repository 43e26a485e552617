//! PA1 and PA2: blocks lie in pages, readers find them, and verification looks at what is between.

use super::contract::check_everything;
use super::{UID, new_fs, open, open_as, options, path, write};
use crate::page_alignment::PAGE_BYTES;
use crate::testing::{SHAPES, Shape, TestEntry, entries};
use crate::{BlockLayout, IndexKind, Salvage, Table, TableOptions, verify_stored_checksums};
use esker_base::{SeqNo, Tag, ValueKind};
use esker_codec::Codec;
use esker_env::fault::StrictFs;
use esker_env::{FileSystem, OpenMode, SeededRandom};

fn aligned(codec: Codec, block_size_bytes: usize) -> TableOptions {
    TableOptions { aligns_blocks: true, codec, block_size_bytes, ..options() }
}

/// Keys in order, with values of lengths from nothing to more than a page.
fn mixed(count: u32) -> Vec<TestEntry> {
    let random = SeededRandom::new(9);
    let entry = |number: u32| {
        let len = if number % 40 == 7 { random.below(9000) } else { random.below(300) };
        let value = (0..len).map(|_| random.below(4) as u8).collect();
        TestEntry { key: number.to_be_bytes().to_vec(), tag: Tag::new(SeqNo::ZERO, ValueKind::Put), value }
    };
    (0..count).map(entry).collect()
}

fn block_len(table: &Table, number: usize) -> u64 {
    table.block_facts(number).unwrap().file_bytes
}

/// How many blocks fit a page, after a check of each; blocks that continue over a page are longer.
fn check_pages(table: &Table) -> usize {
    let mut fitting = 0;
    for number in 0..table.blocks() {
        let place = table.place(number).unwrap();
        let (start, len) = (place.start, block_len(table, number));
        let pages = start / PAGE_BYTES as u64..=(start + len - 1) / PAGE_BYTES as u64;
        assert!(len > PAGE_BYTES as u64 || pages.start() == pages.end(), "{len} bytes at {start}");
        fitting += usize::from(len <= PAGE_BYTES as u64);
    }
    fitting
}

#[test]
fn blocks_that_fit_a_page_lie_in_one() {
    let all = mixed(5000);
    for (codec, size) in [
        (Codec::None, 4096),
        (Codec::None, 512),
        (Codec::None, 1000),
        (Codec::None, 16 << 10),
        (Codec::Lz4, 4096),
        (Codec::Lz4, 8000),
        (Codec::ZstdDictionary { level: 3 }, 4096),
    ] {
        for layout in [BlockLayout::Flat, BlockLayout::Delta] {
            println!("{codec}, {size}, {layout}");
            let fs = new_fs();
            let plain =
                write(&fs, &all, TableOptions { aligns_blocks: false, layout, ..aligned(codec, size) });
            let summary = write(&fs, &all, TableOptions { layout, ..aligned(codec, size) });
            assert!(summary.file_bytes >= plain.file_bytes);
            let table = open(&fs, 100_000);
            assert!(check_pages(&table) > 50 || size > 2 * PAGE_BYTES);
            table.verify().unwrap();
            let file = fs.open(path(), OpenMode::Read).unwrap();
            verify_stored_checksums(&*file, summary.file_bytes, UID).unwrap();
            let mut salvage = Salvage::open(file, summary.file_bytes, None).unwrap();
            let mut found = 0;
            while salvage.next_block(|_, _, _| found += 1).unwrap().is_some() {}
            assert_eq!(found, all.len());
        }
    }
}

#[test]
fn every_kind_of_index_answers_as_without() {
    for (number, shape) in SHAPES.into_iter().enumerate() {
        let random = SeededRandom::new(number as u64);
        let count = if shape == Shape::Giant { 25 } else { 400 };
        let entries = entries(shape, count, 300, &random);
        for index in IndexKind::ALL {
            let fs = new_fs();
            write(&fs, &entries, TableOptions { index, ..aligned(Codec::None, 700) });
            check_everything(open_as(&fs, 3_000, index), &entries, shape, &random);
        }
    }
}

fn is_noticed(fs: &StrictFs, len: u64) -> [bool; 2] {
    let file = fs.open(path(), OpenMode::Read).unwrap();
    [verify_stored_checksums(&*file, len, UID).is_err(), open(fs, 100_000).verify().is_err()]
}

/// PA2: a byte of padding that is not zero, and a block of zeros, which would pass for padding.
#[test]
fn damaged_padding_and_blocks_of_zeros_are_noticed() {
    let fs = new_fs();
    let len = write(&fs, &mixed(600), aligned(Codec::None, 1500)).file_bytes;
    assert_eq!(is_noticed(&fs, len), [false, false]);
    let table = open(&fs, 100_000);
    let file = fs.open(path(), OpenMode::ReadWrite).unwrap();
    let (mut padded, mut last_in_page) = (0, 0);
    for number in 0..table.blocks() - 1 {
        let (place, block) = (table.place(number).unwrap(), block_len(&table, number));
        let padding = place.start + block..place.end;
        for at in [padding.start, padding.end.saturating_sub(1)].into_iter().filter(|at| padding.contains(at))
        {
            padded += 1;
            file.write_at(&[1], at).unwrap();
            assert_eq!(is_noticed(&fs, len), [true, true], "padding at {at}");
            file.write_at(&[0], at).unwrap();
        }
        if !place.start.is_multiple_of(PAGE_BYTES as u64) && place.end.is_multiple_of(PAGE_BYTES as u64) {
            last_in_page += 1;
            let mut bytes = vec![0; (place.end - place.start) as usize];
            file.read_exact_at(&mut bytes, place.start).unwrap();
            file.write_at(&vec![0; bytes.len()], place.start).unwrap();
            assert_eq!(is_noticed(&fs, len), [true, true], "block {number}");
            file.write_at(&bytes, place.start).unwrap();
        }
    }
    assert!(padded > 10 && last_in_page > 5, "{padded} {last_in_page}");
    assert_eq!(is_noticed(&fs, len), [false, false]);
}
