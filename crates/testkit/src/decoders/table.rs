//! Shared by the targets for table files: opens a file in memory and reads it in every way there is.

use esker_base::checksum::key_hash;
use esker_base::{SeqNo, Tag};
use esker_cache::BlockCache;
use esker_env::fault::{StrictFs, StrictOptions};
use esker_env::{File, FileSystem, OpenMode};
use esker_iter::Cursor;
use esker_sst::{IndexKind, Lookup, MAX_LOOKUPS, ReadPurpose, Table, TableIdentity, TableReading, multi_get};
use std::path::Path;
use std::sync::Arc;

/// Capacity of the cache: some blocks, so that reads cause eviction.
const CACHE_BYTES: usize = 64 << 10;

/// Entries that are read one by one; damaged bytes may claim many more than a target has time for.
const MAX_ENTRIES: usize = 600;

type Entry = (Vec<u8>, Tag, Vec<u8>);

pub(super) fn memory_file() -> Arc<dyn File> {
    let options = StrictOptions { record_trace: false, ..StrictOptions::default() };
    StrictFs::with_options(options).open(Path::new("table.sst"), OpenMode::CreateNew).expect("memory")
}

/// The table whose file has these bytes, if it opens; their number selects the kind of index in memory.
pub(super) fn open(bytes: &[u8]) -> Option<Arc<Table>> {
    let file = memory_file();
    file.write_at(bytes, 0).expect("memory");
    let identity =
        TableIdentity::standalone(Arc::new(BlockCache::new(CACHE_BYTES))).expect("the first of its cache");
    let reading = TableReading { index: IndexKind::ALL[bytes.len() % IndexKind::ALL.len()] };
    match Table::open_for(file, bytes.len() as u64, None, identity, reading) {
        Ok(table) => Some(Arc::new(table)),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            None
        }
    }
}

/// Reads a table in every way; returns whether [`Table::verify`] accepts it.
///
/// # Panics
/// If a way of reading panics or does not end, or if two ways of reading a good table disagree.
pub(super) fn exercise(table: &Arc<Table>) -> bool {
    let properties = table.properties();
    assert!(table.memory_bytes() >= properties.min_key.len());
    if let Ok(Some(facts)) = table.index_facts() {
        assert_eq!(facts.entries, table.blocks());
    }
    let verified = table.verify();
    let mut entries: Vec<Entry> = Vec::new();
    let mut all = true;
    for number in 0..table.blocks().min(MAX_ENTRIES) {
        let facts = table.block_facts(number);
        let visited = table.visit_entries(number, |key, tag, value| {
            if entries.len() < MAX_ENTRIES {
                entries.push((key.to_vec(), tag, value.to_vec()));
            } else {
                all = false;
            }
        });
        assert_eq!(facts.is_ok(), visited.is_ok());
        all &= visited.is_ok();
    }
    // Walks and lookups can only be checked when all entries were read.
    let good = verified.as_ref().is_ok_and(|verified| verified.entries == entries.len() as u64) && all;
    for purpose in [ReadPurpose::Point, ReadPurpose::Scan, ReadPurpose::Compaction] {
        walk(table, purpose, &entries, good);
    }
    seek(table, &entries, good);
    look_up(table, &entries, good);
    verified.is_ok()
}

fn entry_of(cursor: &impl Cursor) -> Entry {
    (cursor.key().to_vec(), cursor.tag(), cursor.value().to_vec())
}

fn walk(table: &Arc<Table>, purpose: ReadPurpose, entries: &[Entry], good: bool) {
    let mut cursor = table.cursor(purpose);
    let mut forward = Vec::new();
    let mut outcome = cursor.seek_to_first();
    while outcome.is_ok() && cursor.is_valid() && forward.len() < MAX_ENTRIES {
        assert_eq!(cursor.head(0), esker_base::key::head(cursor.key(), 0));
        forward.push(entry_of(&cursor));
        outcome = cursor.next();
    }
    assert!(outcome.is_ok() || !cursor.is_valid(), "C5: an error leaves a cursor invalid");
    let mut backward = Vec::new();
    let mut outcome = cursor.seek_to_last();
    while outcome.is_ok() && cursor.is_valid() && backward.len() < MAX_ENTRIES {
        backward.push(entry_of(&cursor));
        outcome = cursor.prev();
    }
    assert!(outcome.is_ok() || !cursor.is_valid(), "C5: an error leaves a cursor invalid");
    if good {
        backward.reverse();
        assert_eq!(forward, entries, "{purpose:?}, forward");
        assert_eq!(backward, entries, "{purpose:?}, backward");
    }
}

fn seek(table: &Arc<Table>, entries: &[Entry], good: bool) {
    let mut cursor = table.cursor(ReadPurpose::Point);
    for (key, tag, _) in entries.iter().take(40) {
        let mut after = key.clone();
        after.push(0);
        for wanted in [&key[..], &after, &key[..key.len() / 2], b""] {
            let outcome = cursor.seek(wanted, tag.seqno());
            assert!(outcome.is_ok() || !cursor.is_valid());
            if good {
                let newest = Tag::visible_at(tag.seqno());
                let expected = entries
                    .iter()
                    .find(|(key, tag, _)| key[..] > *wanted || (key == wanted && *tag <= newest));
                assert_eq!(cursor.is_valid().then(|| entry_of(&cursor)).as_ref(), expected);
            }
            let outcome = cursor.seek_before(wanted);
            assert!(outcome.is_ok() || !cursor.is_valid());
            if good {
                let expected = entries.iter().rfind(|(key, ..)| key[..] < *wanted);
                assert_eq!(cursor.is_valid().then(|| entry_of(&cursor)).as_ref(), expected);
            }
        }
    }
}

fn look_up(table: &Arc<Table>, entries: &[Entry], good: bool) {
    let mut keys: Vec<(Vec<u8>, SeqNo)> = Vec::new();
    for (key, tag, _) in entries.iter().take(60) {
        let mut absent = key.clone();
        absent.extend_from_slice(b"?");
        keys.extend([(key.clone(), tag.seqno()), (key.clone(), SeqNo::MAX), (absent, SeqNo::MAX)]);
    }
    keys.push((Vec::new(), SeqNo::MAX));
    for (key, seqno) in &keys {
        let hash = key_hash(key);
        let single = table.get(key, hash, *seqno);
        let lent = table.get_with(key, hash, *seqno, |tag, value| (tag, value.to_vec()));
        let copied = single.map(|hit| hit.map(|hit| (hit.tag, hit.value.to_vec())));
        assert_eq!(copied.as_ref().ok(), lent.as_ref().ok());
        if good {
            let newest = Tag::visible_at(*seqno);
            let expected = entries.iter().find(|(other, tag, _)| other == key && *tag <= newest);
            let expected = expected.map(|(_, tag, value)| (*tag, value.clone()));
            assert!(expected.is_none() || table.may_contain(hash), "a filter without false negatives");
            assert_eq!(copied.expect("a good table"), expected);
        }
    }
    for keys in keys.chunks(MAX_LOOKUPS) {
        let lookups: Vec<Lookup<'_>> =
            keys.iter().map(|(key, _)| Lookup { table, key, hash: key_hash(key) }).collect();
        let mut pending = ((1u64 << keys.len()) - 1) as u32;
        let mut hits = vec![None; keys.len()];
        let outcome = multi_get(&lookups, SeqNo::MAX, &mut pending, &mut hits);
        if good {
            outcome.expect("a good table");
            for ((key, _), hit) in keys.iter().zip(hits) {
                let expected = entries.iter().find(|(other, ..)| other == key);
                let found = hit.map(|hit| (hit.tag, hit.value.to_vec()));
                assert_eq!(found, expected.map(|(_, tag, value)| (*tag, value.clone())));
            }
        }
    }
}
