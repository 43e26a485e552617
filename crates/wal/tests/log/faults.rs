//! Failing calls: nothing is consumed, the error names the cause, and the log recovers where it can.

use crate::harness::{
    DIR, Guaranteed, LogHarness, Manifest, SEGMENT_BYTES, batch, make_parent, options, read_back, start,
    verify,
};
use esker_base::checksum::crc32c;
use esker_base::{Error, LogId, Result, SeqNo};
use esker_env::fault::{Crash, Fault, FaultFs, Operation, Rule, StrictFs, StrictOptions, When};
use esker_env::{Env, FileSystem};
use esker_wal::{Log, LogWriter, Rotation, WalRecovery};
use std::path::Path;
use std::sync::Arc;

/// A log on a file system that fails by rule.
struct FaultyLog {
    strict: StrictFs,
    faults: FaultFs,
    log: Arc<Log>,
    writer: LogWriter,
}

impl FaultyLog {
    fn new(mapped: bool) -> FaultyLog {
        let strict = StrictFs::new();
        make_parent(&strict);
        let faults = FaultFs::over_strict(strict.clone());
        let env = Env::simulated(Arc::new(faults.clone()), 3);
        let start = start(&Manifest::NEW, LogId(1));
        let (log, writer) = Log::create(&env, Path::new(DIR), &start, options(mapped)).unwrap();
        FaultyLog { strict, faults, log, writer }
    }

    fn append(&mut self, count: u32) -> Result<u64> {
        let first = self.writer.last_seqno().plus(1);
        let batch = batch(first.get(), count);
        self.writer.append(first, count, batch.payload(), crc32c(batch.payload()))?;
        Ok(self.writer.last_seqno().get())
    }

    fn sync(&self) -> Result<()> {
        let captured = (self.writer.last_seqno(), self.writer.position());
        self.log.sync_up_to(captured.0, || captured)
    }

    fn known(&self) -> Guaranteed {
        let written = self.writer.last_seqno().get();
        Guaranteed { written, durable: self.log.durable_seqno().get(), ..Guaranteed::new(Manifest::NEW) }
    }

    fn files(&self) -> usize {
        self.strict.list(DIR.as_ref()).unwrap().len()
    }
}

#[test]
fn a_preparation_that_fails_at_any_call_leaves_nothing_and_heals() {
    let mut call = 0;
    loop {
        call += 1;
        let mut harness = FaultyLog::new(true);
        let fault = if call % 2 == 0 { Fault::Full } else { Fault::Io };
        harness.faults.add(Rule::new(fault, When::Nth(call)));
        let prepared = harness.log.prepare_next();
        if harness.faults.injected() == 0 {
            assert!(call > 4, "a preparation has more calls than {call}");
            break;
        }
        harness.append(1).unwrap();
        match prepared {
            Ok(true) => assert!(!matches!(harness.writer.rotate(0).unwrap(), Rotation::NoneReady)),
            other => {
                assert!(matches!(other, Err(Error::Full(_) | Error::Io(_))), "call {call}: {other:?}");
                assert_eq!(harness.files(), 1, "call {call}");
                assert_eq!(harness.writer.rotate(0).unwrap(), Rotation::NoneReady);
                let told = harness.log.wait_ready().unwrap_err();
                assert_eq!(told.to_string(), other.unwrap_err().to_string());
                harness.faults.heal();
                assert!(harness.log.prepare_next().unwrap());
                harness.log.wait_ready().unwrap();
                assert_eq!(harness.writer.rotate(0).unwrap(), Rotation::Done(LogId(2)));
            }
        }
        harness.append(2).unwrap();
        verify(&harness.strict.crash(Crash::Process), &harness.known(), false, &format!("call {call}"));
    }
}

#[test]
fn a_full_disk_fails_preparation_and_never_a_writer() {
    let capacity = Some(3 * SEGMENT_BYTES);
    let strict = StrictFs::with_options(StrictOptions { capacity_bytes: capacity, ..Default::default() });
    let mut harness = LogHarness::new(&strict, 1, true);
    let mut refused = 0;
    for _ in 0..400 {
        let batch = batch(harness.last_seqno() + 1, 2);
        if !harness.writer.has_room(batch.payload().len()) {
            while let Err(error) = harness.log.prepare_next() {
                assert!(matches!(error, Error::Full(_)), "{error}");
                // Only a writer without any segment gets the error.
                assert!(harness.log.has_ready() || matches!(harness.log.wait_ready(), Err(Error::Full(_))));
                refused += 1;
                // Releasing the oldest segments frees the space.
                harness.flush(0);
                if harness.log.has_ready() {
                    break;
                }
            }
            harness.rotate();
        }
        harness.write(2);
    }
    assert!(refused > 0);
    assert!(harness.log.counters().recycled > 3);
    verify(&strict.crash(Crash::Process), &harness.known(), false, "a full disk");
}

#[test]
fn a_private_segment_that_cannot_be_made_costs_nothing() {
    let strict = StrictFs::with_options(StrictOptions {
        capacity_bytes: Some(4 * SEGMENT_BYTES),
        ..Default::default()
    });
    let mut harness = LogHarness::new(&strict, 1, true);
    harness.write(1);
    assert!(matches!(harness.log.prepare_private(64 << 10), Err(Error::Full(_))));
    assert_eq!(strict.list(DIR.as_ref()).unwrap().len(), 1);
    // An unused private segment deletes itself.
    drop(harness.log.prepare_private(20 << 10).unwrap());
    assert_eq!(strict.list(DIR.as_ref()).unwrap().len(), 1);
    harness.write(1);
    verify(&strict.crash(Crash::Process), &harness.known(), false, "no private segment");
}

/// Without a mapping an append can fail. The same sequence numbers are then used again at the same offset by
/// another batch, and only that one comes back.
#[test]
fn a_failed_write_is_rolled_back_and_overwritten() {
    for keep_bytes in [0, 1, 20, 40, 100, 1000, 4000] {
        let mut harness = FaultyLog::new(false);
        harness.append(2).unwrap();
        let before = (harness.writer.position(), harness.writer.last_seqno());
        let fault = if keep_bytes % 2 == 0 {
            Fault::ShortFull { keep_bytes }
        } else {
            Fault::ShortWrite { keep_bytes }
        };
        harness.faults.add(Rule::new(fault, When::Nth(1)).on(Operation::Write));
        assert!(matches!(harness.append(20), Err(Error::Full(_) | Error::Io(_))));
        assert_eq!((harness.writer.position(), harness.writer.last_seqno()), before);
        assert!(!harness.log.is_poisoned());
        let torn = harness.strict.crash(Crash::Process);
        verify(&torn, &harness.known(), false, &format!("{keep_bytes} bytes kept, then killed"));
        for _ in 0..3 {
            harness.append(3).unwrap();
        }
        let image = harness.strict.crash(Crash::Process);
        let recovered = verify(&image, &harness.known(), false, &format!("{keep_bytes} bytes kept"));
        assert_eq!(recovered.records, [(1, 2), (3, 5), (6, 8), (9, 11)]);
    }
}

/// A rotation by writes stores two headers and an end record; each may fail.
#[test]
fn a_failed_rotation_can_be_tried_again() {
    for nth in 1..=3 {
        let mut harness = FaultyLog::new(false);
        harness.append(2).unwrap();
        harness.log.prepare_next().unwrap();
        harness
            .faults
            .add(Rule::new(Fault::ShortWrite { keep_bytes: 20 }, When::Nth(nth)).on(Operation::Write));
        assert!(harness.writer.rotate(0).is_err());
        verify(
            &harness.strict.crash(Crash::Process),
            &harness.known(),
            false,
            &format!("write {nth} failed"),
        );
        // The active segment still takes records.
        harness.append(1).unwrap();
        assert_eq!(harness.writer.rotate(0).unwrap(), Rotation::Done(LogId(3)));
        harness.append(2).unwrap();
        let image = harness.strict.crash(Crash::Process);
        let recovered = verify(&image, &harness.known(), false, &format!("write {nth} failed, then rotated"));
        assert_eq!(recovered.report.next_log_id, LogId(4));
    }
}

#[test]
fn a_failed_flush_poisons_and_is_not_repeated() {
    for fault in [Fault::Io, Fault::LostSync, Fault::Full] {
        let mut harness = FaultyLog::new(true);
        harness.append(1).unwrap();
        harness.sync().unwrap();
        harness.append(1).unwrap();
        harness.faults.add(Rule::new(fault, When::Nth(1)).on(Operation::SyncData));
        let syncs = harness.faults.calls(Operation::SyncData);
        let error = harness.sync().unwrap_err();
        assert!(matches!(&error, Error::ReadOnly { cause } if cause.contains("flush of the log failed")));
        assert!(matches!(harness.sync(), Err(Error::ReadOnly { .. })));
        assert!(matches!(harness.log.wait_ready(), Err(Error::ReadOnly { .. })));
        assert_eq!(harness.faults.calls(Operation::SyncData), syncs + 1);
        assert!(harness.log.is_poisoned() && harness.log.poisoned().is_some());
        assert_eq!(harness.log.durable_seqno(), SeqNo::new(1));
        for crash in [Crash::PowerAllLost, Crash::PowerNoneLost] {
            verify(&harness.strict.crash(crash), &harness.known(), true, "after a failed flush");
        }
        verify(&harness.strict.crash(Crash::Process), &harness.known(), false, "after a failed flush");
    }
}

#[test]
fn a_waiter_for_a_segment_is_woken_by_poison_and_by_close() {
    let poisoned = FaultyLog::new(true);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| poisoned.log.wait_ready());
        poisoned.log.poison("a test says so");
        assert!(matches!(waiter.join().unwrap(), Err(Error::ReadOnly { .. })));
    });
    let closed = FaultyLog::new(true);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| closed.log.wait_ready());
        closed.log.close();
        assert!(matches!(waiter.join().unwrap(), Err(Error::Closed)));
    });
    assert!(!closed.log.prepare_next().unwrap());
    let ready = FaultyLog::new(true);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| ready.log.wait_ready());
        assert!(ready.log.prepare_next().unwrap());
        assert!(waiter.join().unwrap().is_ok());
    });
}

#[test]
fn a_read_error_is_not_the_end_of_the_log() {
    let mut harness = FaultyLog::new(true);
    for _ in 0..5 {
        harness.append(3).unwrap();
    }
    let mut nth = 0;
    loop {
        nth += 1;
        let image = FaultFs::over_strict(harness.strict.crash(Crash::Process));
        image.add(Rule::new(Fault::Io, When::Nth(nth)));
        let outcome = read_back(&image, &Manifest::NEW, WalRecovery::Strict);
        if image.injected() == 0 {
            assert!(nth > 4, "recovery makes more calls than {nth}");
            break;
        }
        assert!(matches!(outcome.err(), Some(Error::Io(_))), "call {nth}");
    }
}

#[test]
fn a_surplus_segment_that_cannot_be_removed_is_reported_and_found_again() {
    let mut harness = FaultyLog::new(true);
    for _ in 0..5 {
        harness.append(1).unwrap();
        harness.log.prepare_next().unwrap();
        harness.writer.rotate(0).unwrap();
    }
    harness.faults.add(Rule::new(Fault::Io, When::Nth(1)).on(Operation::Remove));
    let active = harness.writer.position().log_id;
    assert!(matches!(harness.log.release_below(active), Err(Error::Io(_))));
    // Five were released: two are kept, three are surplus, one of which could not be removed.
    assert_eq!(harness.log.counters().recycled, 2);
    assert_eq!(harness.log.counters().deleted, 2);
    assert_eq!(harness.files(), 4);
    let manifest = Manifest { min_log_id: active, flushed: 5, ..Manifest::NEW };
    let recovered = read_back(&harness.strict, &manifest, WalRecovery::Strict).unwrap();
    assert_eq!(recovered.report.removable.len(), 4);
}

/// A log that is not flushed waits for no device: neither on open nor while it grows. An existing directory
/// is not synced into its parent again either. The first flush syncs all of it.
#[test]
fn a_log_that_is_not_flushed_syncs_nothing() {
    let mut faulty = FaultyLog::new(true);
    let faults = faulty.faults.clone();
    let syncs = || (faults.calls(Operation::SyncDir), faults.calls(Operation::SyncData));
    assert_eq!(syncs(), (1, 0), "the parent for the directory");
    for _ in 0..3 {
        faulty.append(1).unwrap();
        faulty.log.prepare_next().unwrap();
        assert!(matches!(faulty.writer.rotate(0), Ok(Rotation::Done(_))));
    }
    assert_eq!(syncs(), (1, 0));
    faulty.append(1).unwrap();
    faulty.sync().unwrap();
    assert_eq!(syncs(), (2, 4), "four segments, and their directory once");
    verify(&faulty.strict.crash(Crash::PowerAllLost), &faulty.known(), true, "flushed");
    faulty.append(1).unwrap();
    faulty.sync().unwrap();
    assert_eq!(syncs(), (2, 5));
    let env = Env::simulated(Arc::new(faults.clone()), 3);
    Log::create(&env, Path::new(DIR), &start(&Manifest::NEW, LogId(9)), options(true)).unwrap();
    assert_eq!(syncs(), (2, 5));
}
