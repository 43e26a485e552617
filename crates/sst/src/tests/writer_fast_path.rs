//! The writer's fast path, for plain puts of new keys, against the general path and against counting.

use super::{new_fs, options, path};
use crate::testing::{SHAPES, Shape, TestEntry, entries};
use crate::{TableOptions, TableSummary, TableWriter};
use esker_base::{SeqNo, Tag, ValueKind};
use esker_env::{FileSystem, OpenMode, SeededRandom};

fn written(entries: &[TestEntry], options: TableOptions, without_fast_path: bool) -> (Vec<u8>, TableSummary) {
    let fs = new_fs();
    let file = fs.open(path(), OpenMode::CreateOrTruncate).unwrap();
    let mut writer = TableWriter::new(file, options).unwrap();
    if without_fast_path {
        writer.disable_fast_path();
    }
    for entry in entries {
        writer.add(&entry.key, entry.tag, &entry.value).unwrap();
    }
    let summary = writer.finish().unwrap();
    let mut bytes = vec![0; summary.file_bytes as usize];
    fs.open(path(), OpenMode::Read).unwrap().read_exact_at(&mut bytes, 0).unwrap();
    (bytes, summary)
}

fn check(entries: &[TestEntry], options: &TableOptions, context: &str) {
    let (bytes, summary) = written(entries, options.clone(), false);
    let (expected, _) = written(entries, options.clone(), true);
    assert!(bytes == expected, "{context}: the tables differ");
    let seqnos = || entries.iter().map(|entry| entry.tag.seqno());
    let is_single = entries.iter().all(|entry| entry.tag.is_plain_put())
        && entries.windows(2).all(|pair| pair[0].key != pair[1].key);
    assert_eq!(summary.entries, entries.len() as u64, "{context}");
    assert_eq!(
        summary.tombstones,
        entries.iter().filter(|e| e.tag.is_tombstone()).count() as u64,
        "{context}"
    );
    assert_eq!(
        summary.raw_bytes,
        entries.iter().map(|e| (e.key.len() + e.value.len()) as u64).sum::<u64>(),
        "{context}"
    );
    assert_eq!(Some((summary.min_seqno, summary.max_seqno)), seqnos().min().zip(seqnos().max()), "{context}");
    assert_eq!(summary.single_version, is_single, "{context}");
    assert_eq!(Some((&summary.smallest, &summary.largest)), ends(entries), "{context}");
}

fn ends(entries: &[TestEntry]) -> Option<(&Vec<u8>, &Vec<u8>)> {
    Some((&entries.first()?.key, &entries.last()?.key))
}

#[test]
fn fast_and_general_path_write_the_same_bytes() {
    for shape in SHAPES {
        for seqnos in [0, 3, 1 << 40] {
            let random = SeededRandom::new(seqnos ^ 0x51);
            let count = if shape == Shape::Giant { 60 } else { 3_000 };
            let mut entries = entries(shape, count, seqnos, &random);
            for block_size_bytes in [512, 4096] {
                let options = TableOptions { block_size_bytes, ..options() };
                check(
                    &entries,
                    &options,
                    &format!("{shape:?}, numbers to {seqnos}, {block_size_bytes} bytes a block"),
                );
            }
            // Values of all the lengths at which copying changes its method.
            entries.retain(|entry| entry.tag.kind_byte() == ValueKind::Put as u8);
            for (at, entry) in entries.iter_mut().enumerate() {
                entry.value = (0..at % 300).map(|byte| (byte ^ at) as u8).collect();
            }
            check(&entries, &options(), &format!("{shape:?} with values of all lengths"));
        }
    }
}

#[test]
fn both_paths_refuse_entries_out_of_order() {
    let random = SeededRandom::new(5);
    for _ in 0..4_000 {
        let key = |random: &SeededRandom| {
            let mut key = vec![b'a'; [0, 3, 15, 16, 17, 30][random.below(6) as usize]];
            key.extend((0..random.below(3)).map(|_| [0, b'a', b'b'][random.below(3) as usize]));
            key
        };
        let entries = [0; 3].map(|_| {
            let tag = Tag::new(SeqNo::new(random.below(3)), ValueKind::Put);
            TestEntry { key: key(&random), tag, value: Vec::new() }
        });
        let file = new_fs().open(path(), OpenMode::CreateOrTruncate).unwrap();
        let mut writer = TableWriter::new(file, options()).unwrap();
        let taken = entries.iter().take_while(|e| writer.add(&e.key, e.tag, &e.value).is_ok()).count();
        let in_order = entries.windows(2).take_while(|pair| pair[0].order() < pair[1].order()).count() + 1;
        assert_eq!(taken, in_order, "{entries:?}");
    }
}
