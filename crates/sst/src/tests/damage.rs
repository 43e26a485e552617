//! Damaged files: every change is detected or harmless, and results in an error only.

use super::{EXPECTED, UID, identity, new_fs, open, options, paging_filters, path, write};
use crate::block::header::{HEADER_BYTES, placed_checksum};
use crate::testing::{Shape, TestEntry, entries};
use crate::{
    BlockLayout, IndexKind, LayoutFacts, ReadPurpose, SectionKind, Table, TableCache, TableOptions,
    TableReading, verify_stored_checksums,
};
use esker_base::checksum::key_hash;
use esker_base::{Error, Result, SeqNo, Tag, ValueKind};
use esker_cache::BlockKind;
use esker_codec::Codec;
use esker_env::fault::StrictFs;
use esker_env::{FileSystem, OpenMode, SeededRandom};
use esker_iter::Cursor;
use std::sync::Arc;

/// A few blocks of each kind, small enough to try every byte.
fn small_tables() -> Vec<(StrictFs, Vec<TestEntry>, u64)> {
    let mut tables = Vec::new();
    for layout in [BlockLayout::Flat, BlockLayout::Delta] {
        for codec in [Codec::None, Codec::Lz4] {
            let random = SeededRandom::new(tables.len() as u64);
            let mut entries = entries(Shape::Decimal, 24, 40, &random);
            // Compressible values, else no block would be compressed.
            entries
                .iter_mut()
                .filter(|entry| !entry.value.is_empty())
                .for_each(|entry| entry.value = vec![7; 30]);
            let fs = new_fs();
            let options =
                TableOptions { layout, codec, block_size_bytes: 400, restart_interval: 3, ..options() };
            let summary = write(&fs, &entries, options);
            assert!(summary.blocks >= 2 && summary.file_bytes < 4_000, "{summary:?}");
            tables.push((fs, entries, summary.file_bytes));
        }
    }
    tables
}

/// The same for the kinds of index that have sections of their own.
fn tables_with_sections() -> Vec<(StrictFs, Vec<TestEntry>, u64, IndexKind)> {
    let table = |index| {
        let entries = entries(Shape::Versions, 60, 90, &SeededRandom::new(77));
        let fs = new_fs();
        let summary = write(&fs, &entries, TableOptions { index, block_size_bytes: 100, ..options() });
        assert!(summary.blocks >= 8 && summary.file_bytes < 6_000, "{summary:?}");
        (fs, entries, summary.file_bytes, index)
    };
    vec![table(IndexKind::BTreePages), table(IndexKind::HashLocator)]
}

/// A copy of a table is checked by these alone, so every bit that any reader uses must be covered.
#[test]
fn stored_checksums_notice_every_bit_and_every_cut() {
    let plain = small_tables().into_iter().map(|(fs, _, len)| (fs, len));
    let sectioned = tables_with_sections().into_iter().map(|(fs, _, len, _)| (fs, len));
    for (fs, len) in plain.chain(sectioned) {
        let file = fs.open(path(), OpenMode::ReadWrite).unwrap();
        verify_stored_checksums(&*file, len, UID).unwrap();
        let mut bytes = vec![0; len as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        for (at, byte) in (0..).zip(&bytes) {
            for bit in [at % 8, (at + 3) % 8] {
                file.write_at(&[byte ^ 1 << bit], at).unwrap();
                let found = verify_stored_checksums(&*file, len, UID);
                assert!(found.as_ref().is_err_and(is_clear), "bit {bit} of byte {at} of {len}: {found:?}");
            }
            file.write_at(&[*byte], at).unwrap();
        }
        for cut in 0..len {
            assert!(verify_stored_checksums(&*file, cut, UID).is_err(), "cut at {cut} of {len}");
        }
        verify_stored_checksums(&*file, len, UID).unwrap();
    }
}

/// Blocks, and sections behind them, that are longer than what is read at a time.
#[test]
fn stored_checksums_of_long_blocks_are_verified_in_pieces() {
    let fs = new_fs();
    let entry = |number| {
        let tag = Tag::from_parts(SeqNo::new(1), ValueKind::Put as u8);
        TestEntry { key: vec![number], tag, value: vec![number; 700_000] }
    };
    let entries: Vec<TestEntry> = (0..3).map(entry).collect();
    let len = write(&fs, &entries, TableOptions { codec: Codec::None, ..options() }).file_bytes;
    let file = fs.open(path(), OpenMode::ReadWrite).unwrap();
    verify_stored_checksums(&*file, len, UID).unwrap();
    for at in (100..len - 5_000).step_by(97_001) {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_at(&[byte[0] ^ 16], at).unwrap();
        assert!(verify_stored_checksums(&*file, len, UID).is_err(), "byte {at}");
        file.write_at(&byte, at).unwrap();
    }
}

fn try_open(fs: &StrictFs, len: u64) -> Result<Arc<Table>> {
    try_open_as(fs, len, IndexKind::default())
}

fn try_open_as(fs: &StrictFs, len: u64, index: IndexKind) -> Result<Arc<Table>> {
    let file = fs.open(path(), OpenMode::Read)?;
    Ok(Arc::new(Table::open_for(file, len, Some(EXPECTED), identity(1 << 20), TableReading { index })?))
}

fn is_clear(error: &Error) -> bool {
    matches!(error, Error::Corruption(_) | Error::Unsupported(_))
}

/// Reads everything; whatever is returned must be right.
fn read_all(fs: &StrictFs, len: u64, entries: &[TestEntry]) -> Result<()> {
    read_all_of(&try_open(fs, len)?, entries)
}

fn read_all_of(table: &Arc<Table>, entries: &[TestEntry]) -> Result<()> {
    let mut first_error = None;
    let mut note = |error: Error| {
        assert!(is_clear(&error), "{error}");
        first_error.get_or_insert(error);
    };
    for entry in entries {
        let hash = key_hash(&entry.key);
        assert!(table.may_contain(hash));
        match table.get(&entry.key, hash, entry.tag.seqno()) {
            Ok(hit) => assert_eq!(
                hit.map(|hit| (hit.tag, hit.value.to_vec())),
                Some((entry.tag, entry.value.clone()))
            ),
            Err(error) => note(error),
        }
    }
    for purpose in [ReadPurpose::Scan, ReadPurpose::Compaction] {
        if let Err(error) = walk(table, purpose, entries) {
            note(error);
        }
    }
    first_error.map_or(Ok(()), Err)
}

fn walk(table: &Arc<Table>, purpose: ReadPurpose, entries: &[TestEntry]) -> Result<()> {
    let mut cursor = table.cursor(purpose);
    let mut at = 0;
    cursor.seek_to_first()?;
    while cursor.is_valid() {
        assert_eq!(
            (cursor.key(), cursor.tag(), cursor.value()),
            (&entries[at].key[..], entries[at].tag, &entries[at].value[..])
        );
        at += 1;
        let moved = cursor.next();
        assert!(moved.is_ok() || !cursor.is_valid(), "an error leaves the cursor invalid");
        moved?;
    }
    assert_eq!(at, entries.len(), "an error must not check_cancelled like the end");
    Ok(())
}

#[test]
fn every_changed_byte_is_noticed_or_harmless() {
    for (fs, entries, len) in small_tables() {
        let file = fs.open(path(), OpenMode::ReadWrite).unwrap();
        let mut noticed = 0;
        for at in 0..len {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            for change in [0x01, 0x80, 0xff] {
                file.write_at(&[byte[0] ^ change], at).unwrap();
                match read_all(&fs, len, &entries) {
                    Ok(()) => {}
                    Err(error) => {
                        noticed += 1;
                        assert!(is_clear(&error), "byte {at}: {error}");
                    }
                }
                // Verification detects every change, even one that reads do not notice.
                let verified = try_open(&fs, len).and_then(|table| table.verify());
                assert!(verified.as_ref().is_err_and(is_clear), "byte {at} ^ {change:#x}: {verified:?}");
            }
            file.write_at(&byte, at).unwrap();
        }
        // Only the file's header and the filter can be damaged without reads noticing.
        assert!(noticed > (len - 32 - 150) * 3, "{noticed} of {len} bytes");
        read_all(&fs, len, &entries).unwrap();
        try_open(&fs, len).unwrap().verify().unwrap();
    }
}

#[test]
fn pages_and_locators_that_change_are_noticed_or_done_without() {
    for (fs, entries, len, kind) in tables_with_sections() {
        let file = fs.open(path(), OpenMode::ReadWrite).unwrap();
        let at = {
            let table = try_open_as(&fs, len, kind).unwrap();
            read_all_of(&table, &entries).unwrap();
            table.verify().unwrap();
            let own = [SectionKind::INDEX_PAGES, SectionKind::LOCATOR];
            *table.sections().iter().find(|section| own.contains(&section.kind)).unwrap()
        };
        let (mut failed, mut done_without) = (0, 0);
        for offset in 0..len {
            let mut byte = [0];
            file.read_exact_at(&mut byte, offset).unwrap();
            for change in [0x01, 0xff] {
                file.write_at(&[byte[0] ^ change], offset).unwrap();
                let opened = try_open_as(&fs, len, kind);
                if let Ok(table) = &opened {
                    let is_own = (at.offset..at.offset + at.len).contains(&offset);
                    done_without += u64::from(table.index_damage().is_some());
                    assert!(is_own || table.index_damage().is_none());
                    let read = read_all_of(table, &entries);
                    failed += u64::from(is_own && read.is_err());
                    assert!(read.is_ok() || read.is_err_and(|error| is_clear(&error)));
                }
                let verified = opened.and_then(|table| table.verify());
                assert!(verified.as_ref().is_err_and(is_clear), "byte {offset} ^ {change:#x}: {verified:?}");
            }
            file.write_at(&byte, offset).unwrap();
        }
        // A locator is checked as a whole, and replaced by the tree; pages are checked when they are read.
        match kind {
            IndexKind::HashLocator => assert_eq!((failed, done_without), (0, 2 * at.len)),
            _ => assert_eq!((failed, done_without), (2 * (at.len - 40), 2 * 40)),
        }
        assert_eq!(try_open(&fs, len).unwrap().index_facts().unwrap().unwrap().used, IndexKind::STree);
    }
}

/// Salvage finds blocks by their magic bytes: index pages have them too, and hold no entries of the table.
#[test]
fn pages_are_not_taken_for_blocks_of_entries() {
    let (fs, entries, len, _) = tables_with_sections().remove(0);
    let file = fs.open(path(), OpenMode::ReadWrite).unwrap();
    let mut salvage = crate::Salvage::open(file, len, None).unwrap();
    let mut found = 0;
    while salvage.next_block(|_, _, _| found += 1).unwrap().is_some() {}
    assert_eq!(found, entries.len());
}

#[test]
fn a_damaged_filter_is_left_out_and_told() {
    let (fs, entries, len) = small_tables().remove(0);
    let section = {
        let table = try_open(&fs, len).unwrap();
        assert!(table.filter_damage().is_none() && table.filter().is_some());
        *table.sections().iter().find(|section| section.kind == crate::SectionKind::FILTER).unwrap()
    };
    let file = fs.open(path(), OpenMode::ReadWrite).unwrap();
    file.write_at(&[0xa5; 20], section.offset + 8).unwrap();
    let table = try_open(&fs, len).unwrap();
    assert!(table.filter_damage().is_some_and(Error::is_corruption) && table.filter().is_none());
    read_all(&fs, len, &entries).unwrap();
    assert!(table.verify().unwrap_err().is_corruption());
}

/// PF1: lookups go on without a paged filter that is damaged later, and the damage is reported.
#[test]
fn a_paged_filter_damaged_later_is_left_out_and_told() {
    let (fs, entries, len) = small_tables().remove(0);
    let cache = Arc::new(TableCache::new(1 << 20));
    let identity = paging_filters(&cache);
    let file = || fs.open(path(), OpenMode::ReadWrite).unwrap();
    let table = Arc::new(Table::open(file(), len, EXPECTED, identity).unwrap());
    let section =
        *table.sections().iter().find(|section| section.kind == crate::SectionKind::FILTER).unwrap();
    let refused = || (0..1_000u64).filter(|key| !table.may_contain(key_hash(&key.to_be_bytes()))).count();
    let refused_intact = refused();
    assert!(refused_intact > 100);
    file().write_at(&[0xa5; 20], section.offset + 8).unwrap();
    assert_eq!(refused(), refused_intact, "it is in the cache still");
    assert!(table.verify().unwrap_err().is_corruption(), "verifying reads the file");
    cache.set_capacity_bytes(0);
    cache.set_capacity_bytes(1 << 20);
    assert_eq!(refused(), 0);
    assert!(table.filter_damage().is_some_and(Error::is_corruption));
    let misses = cache.stats()[BlockKind::Filter].inserts;
    for entry in &entries {
        let hash = key_hash(&entry.key);
        assert!(table.may_contain(hash) && table.get(&entry.key, hash, SeqNo::MAX).unwrap().is_some());
    }
    assert_eq!(cache.stats()[BlockKind::Filter].inserts, misses);
}

#[test]
fn a_file_cut_short_is_noticed() {
    for (fs, _, len) in small_tables() {
        for cut in (0..len).rev() {
            fs.open(path(), OpenMode::ReadWrite).unwrap().set_len(cut).unwrap();
            assert!(try_open(&fs, len).unwrap_err().is_corruption(), "cut at {cut}");
            assert!(try_open(&fs, cut).unwrap_err().is_corruption(), "cut at {cut}");
        }
    }
}

#[test]
fn swapped_blocks_are_noticed() {
    // Files with the same entries differ in uid, hence in checksums; a block is bound to its offset.
    let (fs, entries, len) = small_tables().remove(0);
    let other = new_fs();
    let same =
        TableOptions { block_size_bytes: 400, uid: esker_base::TableUid(!UID.get() | 1 << 63), ..options() };
    assert_eq!(write(&other, &entries, same).file_bytes, len);
    let block = try_open(&fs, len).unwrap().block_facts(1).unwrap();
    let (mut own, mut foreign) = (vec![0; block.file_bytes as usize], vec![0; block.file_bytes as usize]);
    let file = fs.open(path(), OpenMode::ReadWrite).unwrap();
    file.read_exact_at(&mut own, block.offset).unwrap();
    other.open(path(), OpenMode::Read).unwrap().read_exact_at(&mut foreign, block.offset).unwrap();
    assert_eq!(own[..own.len() - 8], foreign[..own.len() - 8], "only the checksums differ");
    file.write_at(&foreign, block.offset).unwrap();
    let mut cursor = try_open(&fs, len).unwrap().cursor(ReadPurpose::Scan);
    cursor.seek_to_first().unwrap();
    let error = loop {
        if let Err(error) = cursor.next() {
            break error;
        }
        assert!(cursor.is_valid());
    };
    let Error::Corruption(corruption) = error else { panic!("{error}") };
    assert_eq!((corruption.file.as_path(), corruption.offset), (path(), Some(block.offset)));
}

#[test]
fn damage_of_one_block_leaves_the_others_readable() {
    let (fs, entries, len) = small_tables().remove(0);
    let table = try_open(&fs, len).unwrap();
    let (bad, last) = (table.block_facts(1).unwrap(), table.blocks() - 1);
    assert!(last > 1);
    fs.open(path(), OpenMode::ReadWrite).unwrap().write_at(b"\x5a", bad.offset + 40).unwrap();
    let (mut failed, mut found) = (0, 0);
    for entry in &entries {
        match table.get(&entry.key, key_hash(&entry.key), entry.tag.seqno()) {
            Ok(Some(hit)) => found += usize::from(hit.tag == entry.tag),
            Ok(None) => panic!("an absent key where there is damage"),
            Err(error) => failed += usize::from(error.is_corruption()),
        }
    }
    assert_eq!((failed, failed + found), (bad.header.entries as usize, entries.len()));
    // A cursor may seek past the damage.
    let mut cursor = table.cursor(ReadPurpose::Point);
    cursor.seek_to_last().unwrap();
    assert_eq!(cursor.tag(), entries[entries.len() - 1].tag);
    assert!(cursor.seek(&bad.first_key, SeqNo::MAX).is_err() && !cursor.is_valid());
    cursor.seek_to_first().unwrap();
    assert!(cursor.is_valid() && cursor.tag() != Tag::OLDEST);
}

/// A checksum proves that bytes are what was written, not that entries can be found. Here they cannot.
#[test]
fn verification_looks_every_entry_up() {
    let random = SeededRandom::new(43);
    // With offsets, and without.
    for (shape, offset_bytes) in [(Shape::Decimal, 2), (Shape::Records, 0)] {
        misleading_directories_are_noticed(&entries(shape, 20, 8, &random), offset_bytes);
    }
}

fn misleading_directories_are_noticed(entries: &[TestEntry], offset_bytes: usize) {
    let fs = new_fs();
    write(&fs, entries, options());
    let facts = open(&fs, 0).block_facts(0).unwrap();
    let LayoutFacts::Flat { prefix_bytes } = facts.layout else { panic!("flat is the default") };
    let count = facts.header.entries as usize;
    let fingerprints = HEADER_BYTES + 16 + prefix_bytes;
    let heads = fingerprints + count + offset_bytes * count;
    for at in (fingerprints..fingerprints + count).chain(heads..heads + 2 * count) {
        let file = fs.open(path(), OpenMode::ReadWrite).unwrap();
        let mut image = vec![0; facts.file_bytes as usize];
        file.read_exact_at(&mut image, facts.offset).unwrap();
        let good = image.clone();
        image[at] ^= 0x80;
        let end = image.len() - 8;
        let checksum = placed_checksum(UID, facts.offset, &image[..end]);
        image[end..].copy_from_slice(&checksum.to_le_bytes());
        file.write_at(&image, facts.offset).unwrap();
        let error = open(&fs, 0).verify().expect_err("an entry cannot be found");
        assert!(error.is_corruption() && error.to_string().contains("do not find its entry"), "{error}");
        file.write_at(&good, facts.offset).unwrap();
        open(&fs, 0).verify().unwrap();
    }
}
