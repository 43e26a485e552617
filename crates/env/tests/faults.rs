//! Calls that fail by rule.
#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]

use esker_base::{Error, Result};
use esker_env::fault::{Crash, Fault, FaultFs, Operation, Rule, StrictFs, When};
use esker_env::{FileSystem, LockKind, OpenMode};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn strict() -> (StrictFs, FaultFs) {
    let inner = StrictFs::new();
    (inner.clone(), FaultFs::over_strict(inner))
}

fn read(fs: &dyn FileSystem, path: &str) -> Vec<u8> {
    let file = fs.open(path.as_ref(), OpenMode::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn nth_fails_once_and_from_fails_on() {
    let (_, fs) = strict();
    let file = fs.open("/file".as_ref(), OpenMode::CreateNew).unwrap();
    fs.add(Rule::new(Fault::Io, When::Nth(3)).on(Operation::Write));
    let failures = |count: usize| {
        (0..count).map(|at| u8::from(file.write_at(b"x", at as u64).is_err())).collect::<Vec<u8>>()
    };
    assert_eq!(failures(6), [0, 0, 1, 0, 0, 0]);
    assert_eq!(fs.injected(), 1);
    fs.heal();
    fs.add(Rule::new(Fault::Io, When::From(3)).on(Operation::Write));
    assert_eq!(failures(6), [0, 0, 1, 1, 1, 1]);
    fs.heal();
    assert_eq!(failures(3), [0, 0, 0]);
    assert_eq!((fs.calls(Operation::Write), fs.calls(Operation::Create)), (15, 1));
    assert_eq!((fs.total_calls(), fs.injected()), (16, 5));
}

#[test]
fn rules_look_at_the_kind_and_at_the_path() {
    let (_, fs) = strict();
    fs.create_dir_all("/wal".as_ref()).unwrap();
    let log = fs.open("/wal/1".as_ref(), OpenMode::CreateNew).unwrap();
    let table = fs.open("/1.sst".as_ref(), OpenMode::CreateNew).unwrap();
    let rule = Rule::new(Fault::Full, When::From(1)).path("wal/");
    fs.add(rule.on(Operation::Write).on(Operation::SyncData));
    let error = log.write_at(b"x", 0).unwrap_err();
    assert!(matches!(error, Error::Full(_)), "{error}");
    assert!(log.sync_data().is_err());
    log.sync_all().unwrap();
    table.write_at(b"x", 0).unwrap();
    table.sync_data().unwrap();
    assert_eq!(log.len().unwrap(), 0, "nothing was written");
}

#[test]
fn errors_read_like_real_ones() {
    let (_, fs) = strict();
    let file = fs.open("/file".as_ref(), OpenMode::CreateNew).unwrap();
    fs.add(Rule::new(Fault::Io, When::Nth(1)));
    let error = file.sync_data().unwrap_err();
    assert!(matches!(error, Error::Io(_)));
    let text = error.to_string();
    assert!(text.starts_with("cannot sync /file: "), "{text}");
}

#[test]
fn chance_is_a_function_of_its_seed() {
    let pattern = |seed| {
        let (_, fs) = strict();
        let file = fs.open("/file".as_ref(), OpenMode::CreateNew).unwrap();
        fs.add(Rule::new(Fault::Io, When::Chance { probability: 0.25, seed }).on(Operation::Write));
        (0..400).map(|_| file.write_at(b"x", 0).is_err()).collect::<Vec<bool>>()
    };
    let first = pattern(1);
    assert_eq!(first, pattern(1));
    assert_ne!(first, pattern(2));
    let failed = first.iter().filter(|&&failed| failed).count();
    assert!((60..140).contains(&failed), "{failed} of 400");
}

#[test]
fn a_short_write_leaves_its_beginning() {
    let (_, fs) = strict();
    let file = fs.open("/file".as_ref(), OpenMode::CreateNew).unwrap();
    fs.add(Rule::new(Fault::ShortWrite { keep_bytes: 4 }, When::Nth(1)).on(Operation::Write));
    assert!(matches!(file.write_at(b"0123456789", 0), Err(Error::Io(_))));
    assert_eq!(read(&fs, "/file"), b"0123");
    fs.add(Rule::new(Fault::ShortFull { keep_bytes: 99 }, When::Nth(1)).on(Operation::Write));
    assert!(matches!(file.write_at(b"ABCDEF", 2), Err(Error::Full(_))));
    assert_eq!(read(&fs, "/file"), b"01ABCDEF");
}

#[test]
fn reads_can_return_wrong_bytes() {
    let (_, fs) = strict();
    let file = fs.open("/file".as_ref(), OpenMode::CreateNew).unwrap();
    file.write_at(&[0xFF; 1200], 0).unwrap();
    let mut buffer = [0; 1200];
    fs.add(Rule::new(Fault::FlippedBit { bit: 8 * 1200 + 17 }, When::Nth(1)).on(Operation::Read));
    file.read_exact_at(&mut buffer, 0).unwrap();
    assert_eq!(buffer[2], 0xFD);
    assert_eq!(buffer.iter().filter(|&&byte| byte != 0xFF).count(), 1);
    fs.add(Rule::new(Fault::ZeroedSector { sector: 5 }, When::Nth(1)).on(Operation::Read));
    file.read_exact_at(&mut buffer, 0).unwrap();
    assert!(buffer[..1024].iter().all(|&byte| byte == 0xFF) && buffer[1024..].iter().all(|&byte| byte == 0));
    file.read_exact_at(&mut buffer, 0).unwrap();
    assert_eq!(buffer, [0xFF; 1200], "the file itself is unharmed");
    // Damage of reads affects no other calls, and no read at the end of the file.
    fs.add(Rule::new(Fault::FlippedBit { bit: 0 }, When::From(1)));
    file.write_at(b"x", 0).unwrap();
    assert_eq!(file.read_at(&mut buffer, 1200).unwrap(), 0);
}

#[test]
fn after_a_failed_sync_a_second_one_tries_again() {
    let (inner, fs) = strict();
    let file = fs.open("/file".as_ref(), OpenMode::CreateNew).unwrap();
    fs.sync_dir("/".as_ref()).unwrap();
    file.write_at(b"abc", 0).unwrap();
    fs.add(Rule::new(Fault::Io, When::Nth(1)).on(Operation::SyncData));
    assert!(file.sync_data().is_err());
    assert_eq!(read(&inner.crash(Crash::PowerAllLost), "/file"), b"");
    file.sync_data().unwrap();
    assert_eq!(read(&inner.crash(Crash::PowerAllLost), "/file"), b"abc");
}

/// As on Linux: the failed sync marks the pages clean, and the next one succeeds without writing them.
#[test]
fn after_a_lost_sync_a_second_one_succeeds_without_the_data() {
    let (inner, fs) = strict();
    let file = fs.open("/file".as_ref(), OpenMode::CreateNew).unwrap();
    file.write_at(&[b'0'; 3 * 4096], 0).unwrap();
    file.sync_data().unwrap();
    fs.sync_dir("/".as_ref()).unwrap();
    file.write_at(&[b'1'; 3 * 4096], 0).unwrap();
    fs.add(Rule::new(Fault::LostSync, When::Nth(1)).on(Operation::SyncData));
    assert!(matches!(file.sync_data(), Err(Error::Io(_))));
    file.sync_data().unwrap();
    let pages = |fs: &StrictFs| {
        let bytes = read(fs, "/file");
        bytes.chunks(4096).map(|page| (char::from(page[0]), char::from(page[4095]))).collect::<Vec<_>>()
    };
    assert_eq!(pages(&inner), [('1', '1'); 3], "readable all the same");
    assert_eq!(pages(&inner.crash(Crash::Process)), [('1', '1'); 3], "also by the next process");
    for crash in [Crash::PowerAllLost, Crash::PowerNoneLost, Crash::PowerRandom { seed: 1 }] {
        assert_eq!(pages(&inner.crash(crash)), [('0', '0'); 3], "{crash:?}");
    }
    // A write into a page makes the whole page dirty again, and only that page.
    file.write_at(b"2", 4096).unwrap();
    assert_eq!(pages(&inner.crash(Crash::PowerNoneLost)), [('0', '0'), ('2', '1'), ('0', '0')]);
    file.sync_data().unwrap();
    let expected = [('0', '0'), ('2', '1'), ('0', '0')];
    assert_eq!(pages(&inner.crash(Crash::PowerAllLost)), expected);
    assert_eq!(pages(&inner.crash(Crash::Process).crash(Crash::PowerAllLost)), expected);
}

#[test]
fn after_a_lost_sync_a_length_can_become_durable_without_its_data() {
    let (inner, fs) = strict();
    let file = fs.open("/file".as_ref(), OpenMode::CreateNew).unwrap();
    file.write_at(b"old", 0).unwrap();
    file.sync_data().unwrap();
    fs.sync_dir("/".as_ref()).unwrap();
    file.write_at(b"NEW and longer", 0).unwrap();
    fs.add(Rule::new(Fault::LostSync, When::Nth(1)).on(Operation::SyncData));
    assert!(file.sync_data().is_err());
    assert_eq!(read(&inner.crash(Crash::PowerAllLost), "/file"), b"old");
    file.sync_data().unwrap();
    assert_eq!(read(&inner.crash(Crash::PowerAllLost), "/file"), b"old\0\0\0\0\0\0\0\0\0\0\0");
}

#[test]
fn a_sector_dirtied_again_takes_the_lost_bytes_with_it() {
    let (inner, fs) = strict();
    let file = fs.open("/file".as_ref(), OpenMode::CreateNew).unwrap();
    file.write_at(&[b'0'; 512], 0).unwrap();
    file.sync_data().unwrap();
    fs.sync_dir("/".as_ref()).unwrap();
    file.write_at(&[b'1'; 256], 0).unwrap();
    fs.add(Rule::new(Fault::LostSync, When::Nth(1)).on(Operation::SyncData));
    assert!(file.sync_data().is_err());
    file.write_at(&[b'2'; 128], 0).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let bytes = read(&inner.crash(Crash::PowerRandom { seed }), "/file");
        seen.insert([0, 128, 256].map(|at| char::from(bytes[at])));
    }
    assert_eq!(seen, [['0', '0', '0'], ['2', '1', '0']].into_iter().collect());
}

#[test]
fn the_first_matching_rule_applies_and_all_count_the_call() {
    let (_, fs) = strict();
    let file = fs.open("/file".as_ref(), OpenMode::CreateNew).unwrap();
    fs.add(Rule::new(Fault::Io, When::Nth(2)));
    fs.add(Rule::new(Fault::Full, When::From(2)));
    file.write_at(b"x", 0).unwrap();
    assert!(matches!(file.write_at(b"x", 0), Err(Error::Io(_))));
    assert!(matches!(file.write_at(b"x", 0), Err(Error::Full(_))));
}

#[test]
fn a_lost_sync_over_another_file_system_is_a_failed_one() {
    let inner = StrictFs::new();
    let fs = FaultFs::new(std::sync::Arc::new(inner.clone()));
    let file = fs.open("/file".as_ref(), OpenMode::CreateNew).unwrap();
    fs.sync_dir("/".as_ref()).unwrap();
    file.write_at(b"abc", 0).unwrap();
    fs.add(Rule::new(Fault::LostSync, When::Nth(1)).on(Operation::SyncData));
    assert!(file.sync_data().is_err());
    file.sync_data().unwrap();
    assert_eq!(read(&inner.crash(Crash::PowerAllLost), "/file"), b"abc");
}

/// One call of each kind.
fn every_call(fs: &dyn FileSystem) -> Vec<Result<()>> {
    let dir = Path::new("/dir");
    let path = |name: &str| dir.join(name);
    let mut results = vec![fs.create_dir_all(dir)];
    let file = fs.open(&path("file"), OpenMode::CreateOrTruncate);
    results.push(file.as_ref().map(|_| ()).map_err(Clone::clone));
    // A second time, independent of the first: each kind is exercised whatever failed before.
    let fallback = StrictFs::new();
    let file = match file {
        Ok(file) => file,
        Err(_) => fallback.open("/file".as_ref(), OpenMode::CreateNew).unwrap(),
    };
    results.push(file.write_at(&[1; 4096], 0));
    results.push(file.read_at(&mut [0; 10], 0).map(|_| ()));
    results.push(file.len().map(|_| ()));
    results.push(file.set_len(4096));
    results.push(file.allocate(0, 4096, true).map(|_| ()));
    results.push(file.map_writable(4096).map(|_| ()));
    results.push(file.sync_data());
    results.push(file.sync_all());
    results.push(fs.hard_link(&path("file"), &path("link")));
    results.push(fs.rename(&path("link"), &path("renamed")));
    results.push(fs.remove_file(&path("renamed")));
    results.push(fs.open(&path("file"), OpenMode::Read).map(|_| ()));
    results.push(fs.file_len(&path("file")).map(|_| ()));
    results.push(fs.list(dir).map(|_| ()));
    results.push(fs.sync_dir(dir));
    let shared = fs.begin_shared_sync(dir);
    results.push(shared.and_then(|shared| shared.unwrap().sync(&[path("file")])));
    results.push(fs.lock(&path("LOCK"), LockKind::Exclusive).map(|_| ()));
    results.push(fs.free_bytes(dir).map(|_| ()));
    results.push(fs.remove_dir_all(dir));
    results
}

#[test]
fn every_kind_of_call_is_counted_and_can_fail() {
    let (_, fs) = strict();
    for (number, result) in every_call(&fs).into_iter().enumerate() {
        result.unwrap_or_else(|error| panic!("call {number} without rules: {error}"));
    }
    for operation in Operation::ALL {
        let expected = if operation == Operation::Len { 2 } else { 1 };
        assert_eq!(fs.calls(operation), expected, "{operation:?}");
        let (_, failing) = strict();
        failing.add(Rule::new(Fault::Io, When::Nth(1)).on(operation));
        assert!(every_call(&failing).iter().any(Result::is_err), "{operation:?}");
        assert_eq!(failing.injected(), 1, "{operation:?}");
    }
}

/// Replaces the content of a file atomically: it is the old or the new one at every moment.
fn replace(fs: &dyn FileSystem, bytes: &[u8]) -> Result<()> {
    let temporary = Path::new("/CURRENT.tmp");
    let file = fs.open(temporary, OpenMode::CreateOrTruncate)?;
    file.write_at(bytes, 0)?;
    file.sync_data()?;
    fs.rename(temporary, "/CURRENT".as_ref())?;
    fs.sync_dir("/".as_ref())
}

/// The sweep that these two file systems are made for, on the smallest protocol: each call fails in each way,
/// then the machine crashes at each moment.
#[test]
fn a_replaced_file_is_old_or_new_whatever_fails_and_whenever_power_is_lost() {
    let prepare = || {
        let (inner, fs) = strict();
        replace(&fs, b"old content").unwrap();
        inner.forget_trace();
        (inner, fs)
    };
    let (_, fs) = prepare();
    let before = fs.total_calls();
    replace(&fs, b"new").unwrap();
    let calls = fs.total_calls() - before;
    assert_eq!(calls, 5);
    let mut images = 0;
    for call in 1..=calls + 1 {
        for fault in [Fault::Io, Fault::Full, Fault::ShortWrite { keep_bytes: 2 }, Fault::LostSync] {
            let (inner, fs) = prepare();
            fs.add(Rule::new(fault, When::Nth(call)));
            let replaced = replace(&fs, b"new");
            assert_eq!(replaced.is_err(), call <= calls);
            if replaced.is_ok() {
                inner.mark(1);
            }
            let mut replayer = inner.replayer();
            loop {
                let random = (0..20).map(|seed| Crash::PowerRandom { seed });
                for crash in
                    [Crash::Process, Crash::PowerAllLost, Crash::PowerNoneLost].into_iter().chain(random)
                {
                    let found = read(&replayer.image(crash), "/CURRENT");
                    let acknowledged = replayer.marks() == [1];
                    let allowed = found == b"new" || (found == b"old content" && !acknowledged);
                    let at = replayer.position();
                    assert!(allowed, "call {call} {fault:?}, cut {at} {crash:?}: {:?}", found.escape_ascii());
                    images += 1;
                }
                if replayer.step().is_none() {
                    break;
                }
            }
        }
    }
    assert!(images > 1_000, "{images}");
}

#[test]
fn an_interruption_happens_once_within_the_call_it_waits_for() {
    let (_, fs) = strict();
    fs.create_dir_all("/wal".as_ref()).unwrap();
    let file = fs.open("/wal/1".as_ref(), OpenMode::CreateNew).unwrap();
    let (within, seen) = (fs.clone(), Arc::new(AtomicU64::new(0)));
    let noted = seen.clone();
    fs.interrupt(Operation::Write, "wal/", move || {
        // Before the write is done, and free to use the file system.
        let file = within.open("/wal/1".as_ref(), OpenMode::Read).unwrap();
        noted.fetch_add(1 + file.len().unwrap(), Ordering::Relaxed);
    });
    let other = fs.open("/2".as_ref(), OpenMode::CreateNew).unwrap();
    other.write_at(b"elsewhere", 0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(seen.load(Ordering::Relaxed), 0, "neither the path nor the kind is meant");
    file.write_at(b"x", 0).unwrap();
    file.write_at(b"y", 1).unwrap();
    assert_eq!(seen.load(Ordering::Relaxed), 1, "it happened twice, or after the write");
}
