//! Tables whose blocks share a dictionary.

use super::{EXPECTED, UID, identity, new_fs, open, open_as, options, path, write};
use crate::salvage::Salvage;
use crate::testing::TestEntry;
use crate::{IndexKind, ReadPurpose, SectionKind, Table, TableOptions, TableWriter};
use esker_base::checksum::key_hash;
use esker_base::{SeqNo, Tag, ValueKind};
use esker_codec::{Codec, id};
use esker_env::fault::StrictFs;
use esker_env::{FileSystem, OpenMode, SeededRandom};
use esker_iter::Cursor;

const SHARED: Codec = Codec::ZstdDictionary { level: 3 };
const OWN: Codec = Codec::Zstd { level: 3 };

/// The use case of dictionaries: records of one form.
fn records(count: u64) -> Vec<TestEntry> {
    let random = SeededRandom::new(5);
    (0..count)
        .map(|i| TestEntry {
            key: format!("user:{:08}", i * 3).into_bytes(),
            tag: Tag::new(SeqNo::new(i + 1), ValueKind::Put),
            value: format!(
                "{{\"name\":\"n{}\",\"email\":\"n{}@mail.example\",\"balance\":{},\"currency\":\"coins\",\"status\":\"active\"}}",
                random.below(1 << 40),
                random.below(1 << 40),
                random.below(1 << 20)
            )
            .into_bytes(),
        })
        .collect()
}

fn with(codec: Codec) -> TableOptions {
    TableOptions { codec, block_size_bytes: 1024, ..options() }
}

fn has_dictionary(table: &Table) -> bool {
    table.sections().iter().any(|section| section.kind == SectionKind::DICTIONARY)
}

fn check(table: &std::sync::Arc<Table>, entries: &[TestEntry]) {
    for purpose in [ReadPurpose::Scan, ReadPurpose::Compaction] {
        let mut cursor = table.cursor(purpose);
        cursor.seek_to_first().unwrap();
        for entry in entries {
            assert!(cursor.is_valid());
            assert_eq!(
                (cursor.key(), cursor.tag(), cursor.value()),
                (&entry.key[..], entry.tag, &entry.value[..])
            );
            cursor.next().unwrap();
        }
        assert!(!cursor.is_valid());
    }
    for entry in entries.iter().step_by(7) {
        let hit = table.get(&entry.key, key_hash(&entry.key), SeqNo::MAX).unwrap().unwrap();
        assert_eq!(hit.value.to_vec(), entry.value);
    }
    assert_eq!(table.verify().unwrap().entries, entries.len() as u64);
}

#[test]
fn blocks_share_a_dictionary_and_shrink_by_it() {
    // Fewer blocks than training needs, and several times as many.
    for count in [400, 12_000] {
        let entries = records(count);
        let (own, shared) = (new_fs(), new_fs());
        let own_bytes = write(&own, &entries, with(OWN)).file_bytes;
        let summary = write(&shared, &entries, with(SHARED));
        assert!(summary.file_bytes * 100 < own_bytes * 85, "{} of {own_bytes} bytes", summary.file_bytes);
        let (own, table) = (open(&own, 1 << 20), open(&shared, 1 << 20));
        assert!(has_dictionary(&table) && !has_dictionary(&own));
        // The dictionary, prepared: its tables alone have 27 KiB.
        assert!(table.memory_bytes() > own.memory_bytes() + 20_000);
        for number in 0..table.blocks() {
            let header = table.block_facts(number).unwrap().header;
            assert_eq!((header.codec_id, header.number as usize), (id::ZSTD_DICTIONARY, number));
        }
        check(&table, &entries);

        let again = new_fs();
        assert_eq!(write(&again, &entries, with(SHARED)), summary);
        assert_eq!(bytes(&again), bytes(&shared), "equal entries give equal bytes");
    }
}

#[test]
fn locators_and_index_pages_cover_blocks_buffered_for_a_dictionary() {
    for index in [IndexKind::HashLocator, IndexKind::BTreePages] {
        for count in [400, 12_000] {
            let (fs, entries) = (new_fs(), records(count));
            write(&fs, &entries, TableOptions { index, ..with(SHARED) });
            let table = open_as(&fs, 1 << 20, index);
            assert!(has_dictionary(&table));
            check(&table, &entries);
        }
    }
}

fn bytes(fs: &StrictFs) -> Vec<u8> {
    let file = fs.open(path(), OpenMode::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn a_dictionary_that_saves_nothing_is_left_out() {
    let mut noise = records(3_000);
    let random = SeededRandom::new(6);
    noise.iter_mut().for_each(|entry| entry.value = (0..60).map(|_| random.below(256) as u8).collect());
    // One giant value, which is no sample.
    let mut giant = records(2);
    giant[1].value = records(9_000).into_iter().flat_map(|entry| entry.value).collect();
    for entries in [records(0), records(1), records(20), noise, giant] {
        let fs = new_fs();
        let summary = write(&fs, &entries, with(SHARED));
        let plain = new_fs();
        assert!(summary.file_bytes <= write(&plain, &entries, with(OWN)).file_bytes + 8);
        let table = open(&fs, 1 << 20);
        assert!(!has_dictionary(&table));
        if !entries.is_empty() {
            check(&table, &entries);
        }
    }
}

#[test]
fn writers_tell_the_memory_of_what_they_hold() {
    let fs = new_fs();
    let mut writer =
        TableWriter::new(fs.open(path(), OpenMode::CreateOrTruncate).unwrap(), with(SHARED)).unwrap();
    let before = writer.memory_bytes();
    let mut most = 0;
    for (i, entry) in records(6_000).iter().enumerate() {
        writer.add(&entry.key, entry.tag, &entry.value).unwrap();
        most = most.max(writer.memory_bytes());
        if i == 1_000 {
            assert!(writer.memory_bytes() > before + 100_000);
            assert!(writer.estimated_file_bytes() > 10_000);
        }
    }
    assert!(most < before + (2 << 20), "{most} bytes");
}

#[test]
fn a_table_without_its_dictionary_is_damaged_and_what_does_not_need_it_is_saved() {
    let mut entries = records(3_000);
    // Noise is stored raw, so these blocks need no dictionary.
    let random = SeededRandom::new(8);
    entries[1_000..1_100].iter_mut().for_each(|entry| {
        entry.value = (0..3_000).map(|_| random.below(256) as u8).collect();
    });
    let fs = new_fs();
    let len = write(&fs, &entries, with(SHARED)).file_bytes;
    let table = open(&fs, 1 << 20);
    let section = *table.sections().iter().find(|section| section.kind == SectionKind::DICTIONARY).unwrap();
    drop(table);
    let salvaged = |uid| {
        let file = fs.open(path(), OpenMode::Read).unwrap();
        let mut salvage = Salvage::open(file, fs.file_len(path()).unwrap().unwrap(), uid).unwrap();
        let mut found = Vec::new();
        while salvage
            .next_block(|key, tag, value| {
                found.push(TestEntry { key: key.to_vec(), tag, value: value.to_vec() });
            })
            .unwrap()
            .is_some()
        {}
        found
    };
    assert_eq!(salvaged(None), entries);

    // The footer is lost: the dictionary is found all the same.
    let file = fs.open(path(), OpenMode::ReadWrite).unwrap();
    let footer = len - 64;
    let mut kept = vec![0; 64];
    file.read_exact_at(&mut kept, footer).unwrap();
    file.write_at(&[0xee; 64], footer).unwrap();
    assert_eq!(salvaged(None), entries);
    file.write_at(&kept, footer).unwrap();

    // The dictionary is damaged: the table does not open, and only raw blocks are recovered.
    file.write_at(&[0xee; 3], section.offset + section.len / 2).unwrap();
    let opened = Table::open(fs.open(path(), OpenMode::Read).unwrap(), len, EXPECTED, identity(1 << 20));
    let error = opened.unwrap_err();
    assert!(error.is_corruption() && error.to_string().contains("dictionary"), "{error}");
    let rest = salvaged(Some(UID));
    assert!(rest.len() >= 100 && rest.len() < 120, "{} entries", rest.len());
    assert!(rest.iter().all(|entry| entries.contains(entry)));
}

/// Blocks buffered for the dictionary will have entries in the index pages like all others.
#[test]
fn the_estimate_counts_index_pages_of_buffered_blocks() {
    let records = records(200);
    let estimated = |index| {
        let file = new_fs().open(path(), OpenMode::CreateOrTruncate).unwrap();
        let mut writer = TableWriter::new(file, TableOptions { index, ..with(SHARED) }).unwrap();
        for entry in &records {
            writer.add(&entry.key, entry.tag, &entry.value).unwrap();
        }
        let estimated = writer.estimated_file_bytes();
        (estimated, writer.finish().unwrap())
    };
    let (plain, _) = estimated(IndexKind::default());
    let (paged, summary) = estimated(IndexKind::BTreePages);
    let pages = paged - plain;
    assert!(
        summary.blocks > 20 && pages >= 20 * u64::from(summary.blocks - 1),
        "{pages} bytes of pages estimated"
    );
}
