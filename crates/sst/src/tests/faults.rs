//! Failing calls: every failure is reported by the call that met it, and leaves good data usable.

use super::{EXPECTED, identity, new_fs, options, paging_filters, path, write};
use crate::testing::{Shape, TestEntry, entries};
use crate::{Lookup, ReadPurpose, Table, TableCache, TableOptions, TableSummary, TableWriter, multi_get};
use esker_base::checksum::key_hash;
use esker_base::{Error, Result, SeqNo};
use esker_env::fault::{Fault, FaultFs, Operation, Rule, When};
use esker_env::{FileSystem, OpenMode, SeededRandom};
use esker_iter::Cursor;
use std::sync::Arc;

fn sample() -> Vec<TestEntry> {
    entries(Shape::Random, 1_500, 0, &SeededRandom::new(3))
}

fn write_with(fs: &FaultFs, entries: &[TestEntry]) -> Result<TableSummary> {
    let file = fs.open(path(), OpenMode::CreateOrTruncate)?;
    let mut writer = TableWriter::new(file, TableOptions { block_size_bytes: 2_000, ..options() })?;
    for entry in entries {
        // More than a buffer's worth, so that writing starts before the end.
        writer.add(&entry.key, entry.tag, &[7; 1_000])?;
    }
    writer.finish()
}

#[test]
fn a_writer_reports_every_failed_call() {
    let entries = sample();
    for (operation, fault) in [
        (Operation::Write, Fault::Io),
        (Operation::Write, Fault::Full),
        (Operation::Write, Fault::ShortWrite { keep_bytes: 1_000 }),
        (Operation::SyncData, Fault::Io),
    ] {
        for nth in 1.. {
            let fs = FaultFs::over_strict(new_fs());
            fs.add(Rule::new(fault, When::Nth(nth)).on(operation));
            let outcome = write_with(&fs, &entries);
            if fs.injected() == 0 {
                outcome.unwrap();
                assert!(nth > 1, "{operation:?} was never called");
                break;
            }
            let error = outcome.unwrap_err();
            assert_eq!(matches!(error, Error::Full(_)), fault == Fault::Full, "{error}");
        }
    }
}

fn open(fs: &FaultFs, len: u64, cache_bytes: usize) -> Result<Arc<Table>> {
    let file = fs.open(path(), OpenMode::Read)?;
    Ok(Arc::new(Table::open(file, len, EXPECTED, identity(cache_bytes))?))
}

#[test]
fn readers_report_every_failed_call_and_go_on() {
    let entries = sample();
    let strict = new_fs();
    let len = write(&strict, &entries, TableOptions { block_size_bytes: 1_000, ..options() }).file_bytes;
    for fault in [Fault::Io, Fault::FlippedBit { bit: 4_001 }, Fault::ZeroedSector { sector: 0 }] {
        let fs = FaultFs::new(Arc::new(strict.clone()));
        fs.add(Rule::new(fault, When::Nth(1)).on(Operation::Read));
        // The end of the file is read with some blocks in front of it, which other faults may hit.
        assert!(open(&fs, len, 0).is_err() || fault != Fault::Io);
        fs.heal();
        let table = open(&fs, len, 1 << 20).unwrap();
        let mut failures = 0;
        fs.add(Rule::new(fault, When::Chance { probability: 0.3, seed: 5 }).on(Operation::Read));
        for entry in &entries {
            let hash = key_hash(&entry.key);
            match table.get(&entry.key, hash, SeqNo::MAX) {
                Ok(hit) => assert_eq!(hit.map(|hit| hit.tag), Some(entry.tag)),
                Err(_) => failures += 1,
            }
        }
        assert!(failures > 5, "{fault:?}: {failures}");
        // What failed once is read again: no error is remembered, and nothing damaged was cached.
        fs.heal();
        for entry in &entries {
            assert!(table.get(&entry.key, key_hash(&entry.key), SeqNo::MAX).unwrap().is_some());
        }
    }
}

#[test]
fn cursors_report_failures_and_never_skip() {
    let entries = sample();
    let strict = new_fs();
    let len = write(&strict, &entries, TableOptions { block_size_bytes: 1_000, ..options() }).file_bytes;
    for purpose in [ReadPurpose::Point, ReadPurpose::Scan, ReadPurpose::Compaction] {
        let fs = FaultFs::new(Arc::new(strict.clone()));
        let table = open(&fs, len, 0).unwrap();
        fs.add(Rule::new(Fault::Io, When::Chance { probability: 0.2, seed: 11 }).on(Operation::Read));
        let mut failures = 0;
        for forward in [true, false] {
            let (mut cursor, mut at) = (table.cursor(purpose), 0);
            // After each failure the walk continues from the entry that it had reached.
            while at < entries.len() {
                let wanted = if forward { at } else { entries.len() - 1 - at };
                if !cursor.is_valid() && cursor.seek(&entries[wanted].key, SeqNo::MAX).is_err() {
                    assert!(!cursor.is_valid());
                    failures += 1;
                    continue;
                }
                assert_eq!(cursor.key(), entries[wanted].key);
                at += 1;
                let moved = if forward { cursor.next() } else { cursor.prev() };
                assert!(moved.is_ok() || !cursor.is_valid());
                failures += usize::from(moved.is_err());
            }
        }
        assert!(failures > 0, "{purpose:?}");
    }
}

#[test]
fn a_failed_multi_get_keeps_what_it_found() {
    let entries = sample();
    let strict = new_fs();
    let len = write(&strict, &entries, TableOptions { block_size_bytes: 1_000, ..options() }).file_bytes;
    let fs = FaultFs::new(Arc::new(strict));
    let table = open(&fs, len, 0).unwrap();
    let lookups: Vec<Lookup<'_>> = entries
        .iter()
        .step_by(60)
        .map(|entry| Lookup { table: &table, key: &entry.key, hash: key_hash(&entry.key) })
        .collect();
    let (mut pending, mut hits) = ((1u32 << lookups.len()) - 1, vec![None; lookups.len()]);
    fs.add(Rule::new(Fault::Io, When::Nth(10)).on(Operation::Read));
    multi_get(&lookups, SeqNo::MAX, &mut pending, &mut hits).unwrap_err();
    multi_get(&lookups, SeqNo::MAX, &mut pending, &mut hits).unwrap();
    assert_eq!(pending, 0);
    assert!(hits.iter().all(Option::is_some));
}

/// PF1: a paged filter that cannot be read counts as *maybe*, and is read when that is possible again.
#[test]
fn a_paged_filter_that_cannot_be_read_is_passed_over_for_now() {
    let strict = new_fs();
    let len = write(&strict, &sample(), options()).file_bytes;
    let fs = FaultFs::new(Arc::new(strict));
    let cache = Arc::new(TableCache::new(0));
    let identity = paging_filters(&cache);
    let table = Table::open(fs.open(path(), OpenMode::Read).unwrap(), len, EXPECTED, identity).unwrap();
    cache.set_capacity_bytes(1 << 20);
    let refused = || (0..1_000u64).filter(|&hash| !table.may_contain(hash << 32)).count();
    fs.add(Rule::new(Fault::Io, When::From(1)).on(Operation::Read));
    assert_eq!(refused(), 0);
    assert!(fs.injected() > 0 && table.filter_damage().is_none());
    assert!(matches!(table.verify(), Err(Error::Io(_))));
    fs.heal();
    assert!(refused() > 900);
}
