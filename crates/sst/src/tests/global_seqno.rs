//! Global sequence numbers: tables whose entries count as another sequence number than the file says.

use super::{EXPECTED, identity, new_fs, options, path, write};
use crate::testing::{SHAPES, TestEntry, entries};
use crate::{BlockLayout, ExpectedTable, Lookup, ReadPurpose, Table, TableOptions, multi_get};
use esker_base::checksum::key_hash;
use esker_base::{KeyspaceId, SeqNo, Tag, ValueKind};
use esker_env::{FileSystem, OpenMode, SeededRandom};
use esker_iter::Cursor;
use std::sync::Arc;

const GLOBAL: SeqNo = SeqNo::new(700);
const BEFORE: SeqNo = SeqNo::new(699);

/// One version of each key, puts and deletes, all with sequence number 0.
fn ingestible(shape: crate::testing::Shape) -> Vec<TestEntry> {
    let random = SeededRandom::new(5);
    let mut all = entries(shape, 800, 0, &random);
    all.dedup_by(|later, kept| later.key == kept.key);
    for entry in all.iter_mut().filter(|_| random.below(4) == 0) {
        entry.tag = Tag::new(SeqNo::ZERO, ValueKind::Delete);
        entry.value.clear();
    }
    all
}

#[test]
fn every_read_path_reports_the_global_seqno() {
    for (shape, layout) in
        SHAPES.into_iter().flat_map(|shape| [(shape, BlockLayout::Flat), (shape, BlockLayout::Delta)])
    {
        let all = ingestible(shape);
        let fs = new_fs();
        let len = write(&fs, &all, TableOptions { layout, block_size_bytes: 512, ..options() }).file_bytes;
        let file = fs.open(path(), OpenMode::Read).unwrap();
        // The keyspace was not known either when the table was written.
        let expected = ExpectedTable { global_seqno: Some(GLOBAL), keyspace: KeyspaceId(99), ..EXPECTED };
        let table = Arc::new(Table::open(file, len, expected, identity(100_000)).unwrap());
        assert!(table.is_visible_at(GLOBAL) && !table.is_visible_at(BEFORE));
        let mut cursor = table.cursor(ReadPurpose::Scan);
        for (at, entry) in all.iter().enumerate() {
            let tag = Tag::from_parts(GLOBAL, entry.tag.kind_byte());
            let hash = key_hash(&entry.key);
            let hit = table.get(&entry.key, hash, GLOBAL).unwrap().unwrap();
            assert_eq!((hit.tag, &*hit.value), (tag, &entry.value[..]));
            assert!(table.get(&entry.key, hash, BEFORE).unwrap().is_none());
            for (seqno, tags) in [(GLOBAL, Some(tag)), (BEFORE, None)] {
                let (mut pending, mut hits) = (1, [None]);
                multi_get(&[Lookup { table: &table, key: &entry.key, hash }], seqno, &mut pending, &mut hits)
                    .unwrap();
                assert_eq!((hits[0].as_ref().map(|hit| hit.tag), pending), (tags, u32::from(tags.is_none())));
            }
            cursor.seek(&entry.key, GLOBAL).unwrap();
            assert_eq!((cursor.key(), cursor.tag()), (&entry.key[..], tag));
            // To an earlier reader the entry is too new: the next key is the first.
            cursor.seek(&entry.key, BEFORE).unwrap();
            let next = all.get(at + 1).map(|entry| &entry.key[..]);
            assert_eq!(cursor.is_valid().then(|| cursor.key()), next);
        }
        let counted = table.verify().unwrap();
        let deletes = all.iter().any(|entry| entry.tag.is_tombstone());
        let kinds: Vec<u8> = counted.kinds.iter().collect();
        assert_eq!((counted.entries, kinds.contains(&0)), (all.len() as u64, deletes));
    }
}
