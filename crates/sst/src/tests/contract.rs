//! Tables as a whole against sorted vectors: every layout, codec, block size and shape of keys.

use super::{EXPECTED, identity, new_fs, open, options, path, table, write};
use crate::simd::InstructionSet;
use crate::testing::{SHAPES, Shape, TestEntry, entries, expected, key_of};
use crate::{
    BlockLayout, ExpectedTable, LayoutFacts, Lookup, ReadPurpose, SlotCounts, Table, TableCursor,
    TableOptions, TableWriter, multi_get,
};
use esker_base::checksum::key_hash;
use esker_base::{Error, KeyspaceId, SeqNo, TableUid, Tag, ValueKind};
use esker_codec::Codec;
use esker_env::{FileSystem, OpenMode, SeededRandom};
use esker_filter::FilterPolicy;
use esker_iter::Cursor;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

fn found(table: &Table, key: &[u8], seqno: SeqNo) -> Option<(Tag, Vec<u8>)> {
    let hash = key_hash(key);
    let pinned = table.get(key, hash, seqno).unwrap().map(|hit| (hit.tag, hit.value.to_vec()));
    let lent = table.get_with(key, hash, seqno, |tag, value| (tag, value.to_vec())).unwrap();
    assert_eq!(pinned, lent);
    assert!(pinned.is_none() || table.may_contain(hash) && table.covers(key));
    pinned
}

fn assert_on(cursor: &impl Cursor, entries: &[TestEntry], at: usize) {
    assert_eq!(cursor.is_valid(), at < entries.len(), "entry {at} of {}", entries.len());
    if let Some(entry) = entries.get(at) {
        assert_eq!(
            (cursor.key(), cursor.tag(), cursor.value()),
            (&entry.key[..], entry.tag, &entry.value[..])
        );
        assert_eq!(cursor.head(0), esker_base::key::head(&entry.key, 0));
        assert_eq!(cursor.head(4), esker_base::key::head(&entry.key, 4));
    }
}

pub(super) fn check_walks(table: &Arc<Table>, entries: &[TestEntry], purpose: ReadPurpose) {
    let mut cursor = table.cursor(purpose);
    assert!(!cursor.is_valid());
    cursor.seek_to_first().unwrap();
    for at in 0..entries.len() {
        assert_on(&cursor, entries, at);
        cursor.next().unwrap();
    }
    assert!(!cursor.is_valid());
    cursor.seek_to_last().unwrap();
    for at in (0..entries.len()).rev() {
        assert_on(&cursor, entries, at);
        cursor.prev().unwrap();
    }
    assert!(!cursor.is_valid());
}

/// A key that is in the table, near one that is, or of the same shape.
fn probe_key(entries: &[TestEntry], shape: Shape, random: &SeededRandom) -> Vec<u8> {
    let mut key = entries[random.below(entries.len() as u64) as usize].key.clone();
    match random.below(8) {
        0 => key = key_of(shape, entries.len() as u64, random),
        1 => key.push(0),
        2 => {
            key.pop();
        }
        3 => key = [vec![], vec![0xff; 9], b"u".to_vec()][random.below(3) as usize].clone(),
        _ => {}
    }
    key
}

fn check_seeks(
    table: &Arc<Table>,
    entries: &[TestEntry],
    shape: Shape,
    purpose: ReadPurpose,
    random: &SeededRandom,
) {
    let mut cursor = table.cursor(purpose);
    for _ in 0..120 {
        let key = probe_key(entries, shape, random);
        let seqno = [SeqNo::MAX, SeqNo::ZERO, SeqNo::new(random.below(130))][random.below(3) as usize];
        let before = random.below(3) == 0;
        for round in 0..random.below(4) as u32 {
            let goes_on = cursor.prepare_seek(&key, round);
            // The block is found, prefetched and taken.
            assert_eq!(goes_on, round < 2 && purpose != ReadPurpose::Compaction);
            assert!(!cursor.is_valid());
        }
        let mut at = if before {
            cursor.seek_before(&key).unwrap();
            entries.partition_point(|entry| entry.key < key).wrapping_sub(1)
        } else {
            cursor.seek(&key, seqno).unwrap();
            entries.partition_point(|entry| entry.order() < (&key, Reverse(Tag::visible_at(seqno))))
        };
        assert_on(&cursor, entries, at);
        for _ in 0..random.below(60) {
            if at >= entries.len() {
                break;
            }
            if random.below(3) == 0 {
                cursor.prev().unwrap();
                at = at.wrapping_sub(1);
            } else {
                cursor.next().unwrap();
                at += 1;
            }
            assert_on(&cursor, entries, at);
        }
    }
}

#[test]
#[should_panic(expected = "a cursor stays in its table")]
fn a_cursor_is_attached_once() {
    let random = SeededRandom::new(3);
    let [one, other] = [1, 2].map(|_| table(&entries(SHAPES[0], 40, 10, &random), options()));
    let mut cursor = TableCursor::detached(ReadPurpose::Scan);
    assert!(!cursor.is_attached() && !cursor.is_valid());
    cursor.attach(&one);
    cursor.seek_to_first().unwrap();
    assert!(cursor.is_attached() && cursor.is_valid());
    cursor.attach(&other);
}

fn check_gets(table: &Table, entries: &[TestEntry], shape: Shape, random: &SeededRandom) {
    for _ in 0..300 {
        let key = probe_key(entries, shape, random);
        let seqno = [SeqNo::MAX, SeqNo::ZERO, SeqNo::new(random.below(130))][random.below(3) as usize];
        let wanted = expected(entries, &key, seqno).map(|entry| (entry.tag, entry.value.clone()));
        assert_eq!(found(table, &key, seqno), wanted, "key {} at {seqno}", key.escape_ascii());
    }
}

fn check_multi_gets(tables: &[(Arc<Table>, &[TestEntry])], shape: Shape, random: &SeededRandom) {
    for _ in 0..20 {
        let count = random.below(33) as usize;
        let seqno = [SeqNo::MAX, SeqNo::new(random.below(130))][random.below(2) as usize];
        let asked: Vec<(usize, Vec<u8>)> = (0..count)
            .map(|_| {
                let of = random.below(tables.len() as u64) as usize;
                (of, probe_key(tables[of].1, shape, random))
            })
            .collect();
        let lookups: Vec<Lookup<'_>> = asked
            .iter()
            .map(|(of, key)| Lookup { table: &tables[*of].0, key, hash: key_hash(key) })
            .collect();
        let mut pending = 0;
        for i in 0..count {
            pending |= u32::from(random.below(4) > 0) << i;
        }
        let asked_mask = pending;
        let mut hits = vec![None; count];
        multi_get(&lookups, seqno, &mut pending, &mut hits).unwrap();
        for (i, (of, key)) in asked.iter().enumerate() {
            let was_asked = asked_mask >> i & 1 == 1;
            let wanted = expected(tables[*of].1, key, seqno).filter(|_| was_asked);
            let hit = hits[i].as_ref().map(|hit| (hit.tag, hit.value.to_vec()));
            assert_eq!(
                hit,
                wanted.map(|entry| (entry.tag, entry.value.clone())),
                "key {}",
                key.escape_ascii()
            );
            assert_eq!(pending >> i & 1 == 1, was_asked && wanted.is_none());
        }
    }
}

pub(super) fn check_everything(
    mut table: Arc<Table>,
    entries: &[TestEntry],
    shape: Shape,
    random: &SeededRandom,
) {
    for isa in [InstructionSet::Portable, InstructionSet::Avx2, InstructionSet::Avx512] {
        if !isa.is_available() {
            continue;
        }
        Arc::get_mut(&mut table).unwrap().set_isa(isa);
        check_gets(&table, entries, shape, random);
        check_multi_gets(&[(Arc::clone(&table), entries)], shape, random);
        check_seeks(&table, entries, shape, ReadPurpose::Point, random);
    }
    let verified = table.verify().unwrap();
    assert_eq!((verified.blocks, verified.entries), (table.blocks() as u64, entries.len() as u64));
    for purpose in [ReadPurpose::Point, ReadPurpose::Scan, ReadPurpose::Compaction] {
        check_walks(&table, entries, purpose);
        check_seeks(&table, entries, shape, purpose, random);
    }
}

#[test]
fn tables_answer_like_sorted_vectors() {
    let codecs = Codec::ALL;
    let mut round = 0;
    for shape in SHAPES {
        for block_size_bytes in [64, 512, 4096, 65_536] {
            for layout in [BlockLayout::Flat, BlockLayout::Delta] {
                // Each codec is combined with each layout and block size for some shape, and with each shape.
                round += 1;
                let codec = codecs[round % codecs.len()];
                let seqnos = [0, 100, 1 << 30][round / 2 % 3];
                let count = if shape == Shape::Giant { 25 } else { 700 };
                println!(
                    "{shape:?}, {layout}, blocks of {block_size_bytes}, {codec}, sequence numbers to {seqnos}, seed {round}"
                );
                let random = SeededRandom::new(round as u64);
                let entries = entries(shape, count, seqnos, &random);
                let options = TableOptions {
                    layout,
                    codec,
                    block_size_bytes,
                    restart_interval: [16, 1, 5][round % 3],
                    hash_slots_percent: [100, 0, 75][round / 3 % 3],
                    ..options()
                };
                let table = table(&entries, options);
                check_everything(table, &entries, shape, &random);
            }
        }
    }
}

#[test]
fn versions_of_a_key_may_fill_many_blocks() {
    let random = SeededRandom::new(11);
    let mut entries = Vec::new();
    for key in [&b""[..], b"a", b"b\0", b"c"] {
        for version in (0..if key == b"a" { 40 } else { 300 }).rev() {
            let tag = Tag::new(SeqNo::new(1 + 2 * version), ValueKind::Put);
            entries.push(TestEntry { key: key.to_vec(), tag, value: version.to_string().into_bytes() });
        }
    }
    for layout in [BlockLayout::Flat, BlockLayout::Delta] {
        for block_size_bytes in [64, 200, 1_000] {
            let table = table(&entries, TableOptions { layout, block_size_bytes, ..options() });
            for key in [&b""[..], b"a", b"b", b"b\0", b"c", b"d"] {
                for seqno in 0..610 {
                    let wanted = expected(&entries, key, SeqNo::new(seqno));
                    let wanted = wanted.map(|entry| (entry.tag, entry.value.clone()));
                    assert_eq!(
                        found(&table, key, SeqNo::new(seqno)),
                        wanted,
                        "{layout} {} at {seqno}",
                        key.escape_ascii()
                    );
                }
            }
            check_everything(table, &entries, Shape::Dense, &random);
        }
    }
}

#[test]
fn lookups_of_one_call_may_have_different_tables() {
    let random = SeededRandom::new(21);
    let all: Vec<Vec<TestEntry>> =
        (0..5).map(|i| entries(Shape::Decimal, 3 + 400 * i, 100, &random)).collect();
    let tables: Vec<(Arc<Table>, &[TestEntry])> = all
        .iter()
        .enumerate()
        .map(|(i, entries)| {
            let filter = if i % 2 == 0 { FilterPolicy::None } else { FilterPolicy::DEFAULT };
            (table(entries, TableOptions { filter, block_size_bytes: 300, ..options() }), &entries[..])
        })
        .collect();
    check_multi_gets(&tables, Shape::Decimal, &random);
}

#[test]
fn summaries_and_properties_count() {
    let random = SeededRandom::new(31);
    for (shape, seqnos) in [(Shape::Random, 0), (Shape::Versions, 90)] {
        let entries = entries(shape, 2_000, seqnos, &random);
        let fs = new_fs();
        let summary = write(&fs, &entries, TableOptions { level: 4, ..options() });
        let table = open(&fs, 0);
        let properties = table.properties();
        let raw: usize = entries.iter().map(|entry| entry.key.len() + entry.value.len()).sum();
        let keys: BTreeSet<&[u8]> = entries.iter().map(|entry| &entry.key[..]).collect();
        assert_eq!((summary.raw_bytes, summary.entries), (raw as u64, entries.len() as u64));
        assert_eq!(properties.raw_key_bytes + properties.raw_value_bytes, raw as u64);
        assert_eq!((properties.keys, properties.level), (keys.len() as u64, 4));
        assert_eq!(
            summary.tombstones,
            entries.iter().filter(|entry| entry.tag.is_tombstone()).count() as u64
        );
        assert_eq!(summary.min_seqno, entries.iter().map(|entry| entry.tag.seqno()).min().unwrap());
        assert_eq!(summary.max_seqno, entries.iter().map(|entry| entry.tag.seqno()).max().unwrap());
        assert_eq!(
            (&summary.smallest[..], &summary.largest[..]),
            (keys.first().copied().unwrap(), keys.last().copied().unwrap())
        );
        assert_eq!((summary.blocks as usize, summary.single_version), (table.blocks(), seqnos == 0));
        assert!(!table.is_visible_at(SeqNo::ZERO) || seqnos == 0);
    }
}

#[test]
fn single_versions_are_told_from_anything_else() {
    let put = |key: &[u8], seqno, byte| TestEntry {
        key: key.to_vec(),
        tag: Tag::from_parts(SeqNo::new(seqno), byte),
        value: b"v".to_vec(),
    };
    let is_single = |entries: &[TestEntry]| write(&new_fs(), entries, options()).single_version;
    assert!(is_single(&[put(b"a", 1, 1), put(b"b", 9, 1)]));
    assert!(!is_single(&[put(b"a", 2, 1), put(b"a", 1, 1)]));
    assert!(!is_single(&[put(b"a", 1, 1), put(b"b", 1, 0)]));
    assert!(!is_single(&[put(b"a", 1, 1 | esker_base::kind::FLAG_EXPIRY)]));
    assert!(!is_single(&[]));
}

#[test]
fn an_empty_table_is_a_table() {
    let table = table(&[], options());
    assert_eq!((found(&table, b"", SeqNo::MAX), table.blocks()), (None, 0));
    let mut cursor = table.cursor(ReadPurpose::Scan);
    cursor.seek_to_first().unwrap();
    assert!(!cursor.is_valid());
    cursor.seek_to_last().unwrap();
    assert!(!cursor.is_valid());
    cursor.seek(b"a", SeqNo::MAX).unwrap();
    assert!(!cursor.is_valid());
    cursor.seek_before(b"a").unwrap();
    assert!(!cursor.is_valid());
    let (mut pending, mut hits) = (1, [None]);
    multi_get(&[Lookup { table: &table, key: b"", hash: 0 }], SeqNo::MAX, &mut pending, &mut hits).unwrap();
    assert_eq!(pending, 1);
}

#[test]
fn wrong_order_and_wrong_options_are_errors() {
    let fs = new_fs();
    let file = || fs.open(path(), OpenMode::CreateOrTruncate).unwrap();
    let put = |seqno| Tag::new(SeqNo::new(seqno), ValueKind::Put);
    for block_size_bytes in [64, 4096] {
        let mut writer = TableWriter::new(file(), TableOptions { block_size_bytes, ..options() }).unwrap();
        for i in 0..50u8 {
            writer.add(&[b'b', i], put(5), &[7; 20]).unwrap();
            for (key, tag) in
                [(vec![b'b', i], put(5)), (vec![b'b', i], put(6)), (vec![b'b'], put(1)), (vec![], put(1))]
            {
                assert!(matches!(writer.add(&key, tag, b""), Err(Error::Internal(_))));
            }
        }
        let too_long = vec![b'c'; 65_536];
        assert!(matches!(writer.add(&too_long, put(1), b""), Err(Error::InvalidArgument(_))));
        // A refused entry leaves no trace.
        assert_eq!(writer.finish().unwrap().entries, 50);
    }
    for wrong in [
        TableOptions { block_size_bytes: 65_537, ..options() },
        TableOptions { block_size_bytes: 0, ..options() },
        TableOptions { restart_interval: 0, ..options() },
        TableOptions { hash_slots_percent: 401, ..options() },
        TableOptions { codec: Codec::Zstd { level: 99 }, ..options() },
    ] {
        assert!(matches!(TableWriter::new(file(), wrong), Err(Error::InvalidArgument(_))));
    }
}

#[test]
fn another_table_or_keyspace_is_noticed() {
    let fs = new_fs();
    let entries = entries(Shape::Random, 100, 0, &SeededRandom::new(1));
    let len = write(&fs, &entries, options()).file_bytes;
    let open = |expected, len| {
        let file = fs.open(path(), OpenMode::Read).unwrap();
        Table::open(file, len, expected, identity(0))
    };
    open(EXPECTED, len).unwrap();
    assert!(open(ExpectedTable { uid: TableUid(1), ..EXPECTED }, len).unwrap_err().is_corruption());
    assert!(open(ExpectedTable { keyspace: KeyspaceId(4), ..EXPECTED }, len).unwrap_err().is_corruption());
    for other in [0, 10, len - 1, len + 1] {
        assert!(open(EXPECTED, other).unwrap_err().is_corruption(), "{other} bytes");
    }
}

#[test]
fn giant_values_round_trip() {
    let random = SeededRandom::new(2);
    let mut entries = entries(Shape::Decimal, 40, 50, &random);
    for (i, entry) in entries.iter_mut().enumerate().filter(|(i, _)| i % 7 == 3) {
        entry.value = (0..3_000_000 + i).map(|at| ((at * 31) >> 3) as u8).collect();
    }
    for layout in [BlockLayout::Flat, BlockLayout::Delta] {
        for codec in
            [Codec::None, Codec::Lz4, Codec::Snappy, Codec::ZstdDictionary { level: 1 }, Codec::Delta]
        {
            let table = table(&entries, TableOptions { layout, codec, ..options() });
            check_walks(&table, &entries, ReadPurpose::Scan);
            check_walks(&table, &entries, ReadPurpose::Compaction);
            for entry in &entries {
                let wanted = Some((entry.tag, entry.value.clone()));
                assert_eq!(found(&table, &entry.key, entry.tag.seqno()), wanted);
            }
        }
    }
}

#[test]
fn inspection_shows_every_block_and_entry() {
    let random = SeededRandom::new(41);
    let entries = entries(Shape::Paths, 3_000, 50, &random);
    for layout in [BlockLayout::Flat, BlockLayout::Delta] {
        let table =
            table(&entries, TableOptions { layout, codec: Codec::Lz4, restart_interval: 1, ..options() });
        let (mut at, mut slots, mut end) = (0, SlotCounts::default(), 32);
        for number in 0..table.blocks() {
            let facts = table.block_facts(number).unwrap();
            assert_eq!((facts.header.number as usize, facts.offset), (number, end));
            assert_eq!(facts.first_key, entries[at].key);
            assert!(facts.separator <= facts.first_key && facts.tag_bytes > 0);
            end += facts.file_bytes;
            match facts.layout {
                LayoutFacts::Flat { prefix_bytes } => {
                    assert!(prefix_bytes >= b"/srv/data/tenants/0001/".len());
                }
                LayoutFacts::Delta { restarts, slots: counts, shared_bytes, varint_bytes } => {
                    assert_eq!((restarts, shared_bytes), (facts.header.entries as usize, 0));
                    assert!(varint_bytes > 0);
                    slots.usable += counts.usable;
                    slots.empty += counts.empty;
                    slots.cancelled += counts.cancelled;
                }
            }
            let first = at;
            table
                .visit_entries(number, |key, tag, value| {
                    assert_eq!(
                        (key, tag, value),
                        (&entries[at].key[..], entries[at].tag, &entries[at].value[..])
                    );
                    at += 1;
                })
                .unwrap();
            assert_eq!(at - first, facts.header.entries as usize);
        }
        assert_eq!((at, end), (entries.len(), 32 + table.properties().data_bytes));
        assert!(layout == BlockLayout::Flat || slots.usable > 0 && slots.empty > 0 && slots.cancelled > 0);
        assert!(matches!(table.block_facts(table.blocks()), Err(Error::InvalidArgument(_))));
    }
}
