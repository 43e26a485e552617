//! Simulated trees with blob files: uniform overwrites stay within the target and garbage collection ends.

use super::*;
use crate::validate::validate;
use esker_base::{PartId, RunId, SeqNo, TableUid};
use esker_version::{BlobFileMeta, BlobReference, KeyRange, Place};
use std::collections::BTreeMap;

const RECORD_BYTES: u64 = 4096;
const FILE_RECORDS: u64 = 256;
const POINTER_BYTES: u64 = 30;

/// A store of large values whose tables map keys to blob files.
#[derive(Default)]
struct Store {
    /// Newest first; the last is the base, if `has_base`.
    runs: Vec<(u64, BTreeMap<u64, u64>)>,
    has_base: bool,
    /// The number of records of each file.
    files: BTreeMap<u64, u64>,
    next: u64,
    written: u64,
    table_bytes: u64,
}

impl Store {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn write_values(&mut self, keys: impl Iterator<Item = u64>) -> BTreeMap<u64, u64> {
        let mut pointers = BTreeMap::new();
        let (mut file, mut room) = (0, 0);
        for key in keys {
            if room == 0 {
                (file, room) = (self.number(), FILE_RECORDS);
            }
            *self.files.entry(file).or_default() += 1;
            room -= 1;
            self.written += 1;
            pointers.insert(key, file);
        }
        pointers
    }

    fn flush(&mut self, keys: impl Iterator<Item = u64>) {
        let pointers = self.write_values(keys);
        let run = self.number();
        self.table_bytes += pointers.len() as u64 * POINTER_BYTES;
        self.runs.insert(0, (run, pointers));
    }

    fn version(&self) -> Version {
        let mut version = Version::new();
        for (&number, &records) in &self.files {
            assert!(version.add_blob_file(BlobFileMeta {
                number: FileNumber(number),
                file_bytes: records * RECORD_BYTES + 104,
                uid: TableUid(number),
                records,
                record_bytes: records * RECORD_BYTES,
                value_bytes: records * RECORD_BYTES,
                created_ms: 0,
            }));
        }
        for (at, (run, pointers)) in self.runs.iter().enumerate() {
            let key = |key: &u64| key.to_be_bytes().to_vec();
            let (Some((first, _)), Some((last, _))) = (pointers.first_key_value(), pointers.last_key_value())
            else {
                continue;
            };
            let range = KeyRange::inclusive(key(first), key(last));
            let bytes = pointers.len() as u64 * POINTER_BYTES;
            let mut part = PartMeta::new(PartId(*run), FileNumber(*run), bytes, TableUid(*run), range);
            part.entries = pointers.len() as u64;
            part.max_seqno = SeqNo::new(1);
            let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
            pointers.values().for_each(|file| *counts.entry(*file).or_default() += 1);
            let reference = |(&file, &count): (&u64, &u64)| BlobReference {
                file: FileNumber(file),
                bytes: count * RECORD_BYTES,
                count,
            };
            part.blobs = counts.iter().map(reference).collect();
            let is_base = self.has_base && at + 1 == self.runs.len();
            let level = if is_base { LevelIndex::LAST } else { LevelIndex::FLUSH };
            version.insert(Place { level, run: RunId(*run), order: *run }, Arc::new(part)).unwrap();
        }
        version
    }

    /// Executes collections until none is planned; returns their number.
    fn collect(&mut self, options: &StrategyOptions) -> usize {
        for round in 0.. {
            assert!(round < 100, "collection does not end");
            let version = self.version();
            let shape = Shape::new(&version);
            let Some(collection) = plan_blob_gc(&shape, &Busy::default(), options) else { return round };
            validate(&version, &Busy::default(), &collection.plan).unwrap();
            // Trees of these tests are small enough that each job takes all of them.
            let mut merged = BTreeMap::new();
            for (_, pointers) in std::mem::take(&mut self.runs).into_iter().rev() {
                merged.extend(pointers);
            }
            let is_victim = |file: &u64| collection.victims.contains(&FileNumber(*file));
            let moved: Vec<u64> =
                merged.iter().filter(|(_, file)| is_victim(file)).map(|(key, _)| *key).collect();
            merged.extend(self.write_values(moved.into_iter()));
            self.table_bytes += merged.len() as u64 * POINTER_BYTES;
            let referenced: BTreeSet<u64> = merged.values().copied().collect();
            self.files.retain(|file, _| referenced.contains(file));
            let run = self.number();
            self.runs.push((run, merged));
            self.has_base = true;
        }
        0
    }

    fn space_permille(&self, live: u64) -> u64 {
        self.files.values().sum::<u64>() * 1000 / live
    }
}

#[test]
fn overwriting_evenly_keeps_the_target_and_writes_less_than_twice() {
    const KEYS: u64 = 60_000;
    const FLUSH: u64 = 600;
    let options = StrategyOptions::default();
    let mut random = numbers();
    let mut store = Store::default();
    for start in (0..KEYS).step_by(FLUSH as usize) {
        store.flush(start..start + FLUSH);
        store.collect(&options);
    }
    // The first steps let the ages of files settle; the rest is measured.
    let (mut written, mut table_bytes, mut most, mut user) = (0, 0, 0, 0);
    for step in 0..700 {
        if step == 300 {
            (written, table_bytes, most, user) = (store.written, store.table_bytes, 0, 0);
        }
        store.flush((0..FLUSH).map(|_| random() % KEYS));
        user += FLUSH;
        store.collect(&options);
        most = most.max(store.space_permille(KEYS));
    }
    let values = (store.written - written) * 1000 / user;
    let tables = (store.table_bytes - table_bytes) * 1000 / (user * RECORD_BYTES);
    assert!(values + tables < 2000, "{values} of values and {tables} of tables were written for 1000 put");
    assert!(most <= 1500, "{most} bytes for 1000 alive");
}

#[test]
fn a_store_that_only_grows_is_not_copied() {
    let options = StrategyOptions::default();
    let mut store = Store::default();
    for start in (0..20_000u64).step_by(500) {
        store.flush(start..start + 500);
        store.collect(&options);
    }
    assert_eq!(store.written, 20_000);
    // The pointer tables are rewritten a few times only.
    assert!(store.table_bytes < 6 * 20_000 * POINTER_BYTES, "{}", store.table_bytes);
}

#[test]
fn tables_without_large_values_plan_nothing() {
    let version = Version::new();
    assert_eq!(plan_blob_gc(&Shape::new(&version), &Busy::default(), &StrategyOptions::default()), None);
    assert!(!BlobSpace::of(&version).is_over(1000));
}

fn numbers() -> impl FnMut() -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 11
    }
}
