//! Filter statistics: what a filter watch counts.

use super::{EXPECTED, KEYSPACE, UID, new_fs, options, path, write};
use crate::testing::{Shape, TestEntry, entries, key_of};
use crate::{
    ExpectedTable, Lookup, OpenTables, Table, TableCache, TableIdentity, TableOptions, TableWriter, multi_get,
};
use esker_base::checksum::key_hash;
use esker_base::{SeqNo, Tag, ValueKind};
use esker_env::fault::StrictFs;
use esker_env::{FileSystem, OpenMode, SeededRandom};
use esker_filter::{FilterKind, FilterPolicy, FilterWatch};
use std::sync::Arc;

const LEVEL: u8 = 3;

fn open(fs: &StrictFs, global_seqno: Option<SeqNo>) -> (Table, Arc<FilterWatch>) {
    let (watch, cache) = (Arc::new(FilterWatch::default()), Arc::new(TableCache::new(1 << 20)));
    let identity =
        TableIdentity::with_filter_watch(&OpenTables::new(cache), Some(Arc::clone(&watch))).unwrap();
    let len = fs.file_len(path()).unwrap().unwrap();
    let expected = ExpectedTable { global_seqno, ..EXPECTED };
    (Table::open(fs.open(path(), OpenMode::Read).unwrap(), len, expected, identity).unwrap(), watch)
}

fn look_up(table: &Table, key: &[u8], seqno: SeqNo) -> bool {
    let hash = key_hash(key);
    table.may_contain(hash) && table.get(key, hash, seqno).unwrap().is_some()
}

/// Many versions of few keys, spread over blocks, the oldest with sequence number 20.
fn versions() -> Vec<TestEntry> {
    let mut all = Vec::new();
    for number in 0..2_000u64 {
        for seqno in (20..20 + number % 30).rev() {
            let tag = Tag::new(SeqNo::new(seqno), ValueKind::Put);
            all.push(TestEntry { key: number.to_be_bytes().to_vec(), tag, value: vec![1; 40] });
        }
    }
    all
}

#[test]
fn keys_that_are_only_newer_than_the_reader_are_no_false_positives() {
    let options = TableOptions { level: LEVEL, block_size_bytes: 512, ..options() };
    for (entries, global) in
        [(versions(), None), (entries(Shape::Random, 3_000, 0, &SeededRandom::new(4)), Some(SeqNo::new(700)))]
    {
        let fs = new_fs();
        write(&fs, &entries, options.clone());
        let (table, watch) = open(&fs, global);
        let before = SeqNo::new(19);
        let mut misses = 0;
        for entry in &entries {
            misses += u64::from(!look_up(&table, &entry.key, before));
        }
        for entry in &entries {
            let lookups = [Lookup { table: &table, key: &entry.key, hash: key_hash(&entry.key) }];
            multi_get(&lookups, before, &mut 1, &mut [None]).unwrap();
        }
        assert_eq!(misses, entries.len() as u64, "nothing is visible yet");
        assert_eq!(watch.observed(LEVEL).probes, 0, "{global:?}: no filter was wrong");
        assert!(entries.iter().all(|entry| look_up(&table, &entry.key, SeqNo::MAX)));
        assert_eq!(watch.observed(LEVEL).probes, 0);
    }
}

/// The rate is the same at every sequence number, and it is the expected one.
#[test]
fn keys_that_are_absent_are_counted_for_every_reader() {
    let policy = FilterPolicy::blocked_bloom(3.0);
    let fs = new_fs();
    write(&fs, &versions(), TableOptions { level: LEVEL, filter: policy, ..options() });
    let random = SeededRandom::new(6);
    let absent: Vec<Vec<u8>> = (0..60_000).map(|_| key_of(Shape::Random, 1, &random)).collect();
    for seqno in [SeqNo::new(19), SeqNo::new(25), SeqNo::MAX] {
        let (table, watch) = open(&fs, None);
        assert!(absent.iter().all(|key| !look_up(&table, key, seqno)));
        let seen = watch.observed(LEVEL);
        let (rate, expected) = (seen.rate().unwrap(), policy.false_positive_rate());
        assert!(seen.probes > 800 && (rate / expected - 1.0).abs() < 0.35, "{seqno}: {seen:?}, {expected}");
        assert!((seen.expected_rate().unwrap() - expected).abs() < 1e-5);
    }
}

/// Hashes that shard-based filters cannot separate: a blocked filter is built and recorded.
#[test]
fn the_filter_that_was_built_is_the_one_that_is_expected() {
    let inverse = (0..6).fold(1u64, |inverse, _| {
        inverse.wrapping_mul(2u64.wrapping_sub(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(inverse)))
    });
    for (filter_bits, bits) in [(None, 8.0), (Some(300_000 * 6), 6.0)] {
        for is_hostile in [false, true] {
            let fs = new_fs();
            let file = fs.open(path(), OpenMode::CreateOrTruncate).unwrap();
            let filter = FilterKind::Ribbon.policy(8.0);
            let options = TableOptions { filter, filter_bits, uid: UID, keyspace: KEYSPACE, ..options() };
            let mut writer = TableWriter::new(file, options).unwrap();
            writer.add(b"key", Tag::new(SeqNo::new(1), ValueKind::Put), b"value").unwrap();
            let factor = if is_hostile { inverse } else { 0x2545_f491_4f6c_dd1d };
            for at in 1..300_000u64 {
                writer.add_to_filter(at.wrapping_mul(factor));
            }
            writer.finish().unwrap();
            let (table, _) = open(&fs, None);
            let kind = if is_hostile { FilterKind::BlockedBloom } else { FilterKind::Ribbon };
            let built = kind.policy(bits);
            assert_eq!(table.filter().unwrap().kind(), Some(kind));
            assert_eq!(table.properties().filter, built.to_string());
            assert_eq!(table.filter_rate, built.false_positive_rate());
        }
    }
}
