//! The life cycle of segments, and marks.

use crate::harness::{
    DIR, Guaranteed, LogHarness, Manifest, SEGMENT_BYTES, batch, make_parent, options, start, verify,
};
use esker_base::checksum::crc32c;
use esker_base::{Error, LogId, SeqNo};
use esker_env::fault::{Crash, StrictFs, StrictOptions};
use esker_env::{Env, FileSystem, StdFileSystem};
use esker_wal::{Log, LogOptions, LogPosition, LogWriter, Rotation};
use std::path::Path;
use std::sync::Arc;

#[test]
fn released_segments_are_used_again_up_to_a_bound() {
    let mut harness = LogHarness::new(&StrictFs::new(), 1, true);
    for _ in 0..6 {
        harness.write(1);
        harness.rotate();
    }
    assert_eq!(harness.log.live_bytes(), 7 * SEGMENT_BYTES);
    assert_eq!(harness.log.oldest_log_id(), Some(LogId(1)));
    harness.flush(0);
    let counters = harness.log.counters();
    assert_eq!((counters.recycled, counters.deleted), (2, 4));
    assert_eq!(harness.log.live_bytes(), SEGMENT_BYTES);
    assert_eq!(harness.fs.list(DIR.as_ref()).unwrap().len(), 3);
    assert!(!harness.log.needs_preparation());
    let prepared = counters.prepared;
    for _ in 0..2 {
        harness.write(1);
        harness.rotate();
    }
    assert_eq!(harness.log.counters().prepared, prepared);
    assert!(harness.log.needs_preparation());
    verify(&harness.fs.crash(Crash::Process), &harness.known(), false, "recycled");
}

/// A shrunk log has one small segment, takes some records without another, and requests segments before it
/// needs them.
#[test]
fn a_shrunk_log_keeps_one_small_segment_and_grows_in_time() {
    let fs = StrictFs::new();
    make_parent(&fs);
    let env = Env::simulated(Arc::new(fs.clone()), 1);
    let large = LogOptions { segment_bytes: 1 << 20, kept_segments: 4, ..options(true) };
    let (log, mut writer) = Log::create(&env, DIR.as_ref(), &start(&Manifest::NEW, LogId(1)), large).unwrap();
    let files = || -> Vec<u64> {
        let listed = fs.list(DIR.as_ref()).unwrap();
        listed.iter().map(|file| fs.file_len(&Path::new(DIR).join(&file.name)).unwrap().unwrap()).collect()
    };
    let write = |writer: &mut LogWriter| {
        let first = writer.last_seqno().get() + 1;
        let batch = batch(first, 1);
        let payload = batch.payload();
        if !writer.has_room(payload.len()) {
            return false;
        }
        writer.append(SeqNo::new(first), 1, payload, crc32c(payload)).unwrap();
        true
    };
    while log.prepare_next().unwrap() {}
    writer.rotate(7).unwrap();
    while log.prepare_next().unwrap() {}
    write(&mut writer);
    assert_eq!(files(), [256 << 10, 1 << 20, 1 << 20, 1 << 20]);
    let mut small = log.prepare_small().unwrap();
    let current = writer.rotate_to_private(&mut small, 7).unwrap();
    writer.shrink();
    log.release_below(current).unwrap();
    log.delete_surplus().unwrap();
    assert_eq!(files(), [log.small_segment_bytes()]);
    assert!(!log.needs_preparation() && !log.prepare_next().unwrap(), "a resting log wants no segments");

    while write(&mut writer) {}
    let half = writer.position().offset;
    assert!((100 << 10..140 << 10).contains(&half), "told at {half} that there is no room");
    writer.shrink();
    assert!(!write(&mut writer), "to rest again gives no room");
    assert!(writer.grow() && log.needs_preparation());
    while write(&mut writer) {}
    assert!(writer.position().offset > 250 << 10);
    assert!(!writer.grow(), "it was awake");
    assert_eq!(writer.rotate(7).unwrap(), Rotation::NoneReady);
    // Grown again before the surplus is deleted: Ready segments stay.
    while log.prepare_next().unwrap() {}
    writer.shrink();
    writer.grow();
    assert_eq!((log.delete_surplus().unwrap(), log.has_ready()), (0, true));
    let last = writer.last_seqno().get();
    let manifest = Manifest { min_log_id: current, flushed: 1, ..Manifest::NEW };
    let known = Guaranteed { written: last, ..Guaranteed::new(manifest) };
    verify(&fs.crash(Crash::Process), &known, false, "rested");
}

/// WL4: the extents of a Ready segment are allocated, so a rotation cannot meet a full disk; and its first
/// flush makes all of that durable.
#[test]
fn a_ready_segment_has_its_extents_and_survives_a_power_cut_when_flushed() {
    for mapped in [true, false] {
        let mut harness = LogHarness::new(&StrictFs::new(), 1, mapped);
        harness.log.prepare_next().unwrap();
        assert_eq!(harness.fs.used_bytes(), 2 * SEGMENT_BYTES, "its blocks are allocated");
        harness.write(1);
        harness.rotate();
        harness.write(1);
        harness.sync();
        let image = harness.fs.crash(Crash::PowerAllLost);
        assert_eq!(image.file_len(&Path::new(DIR).join("0002.seg")).unwrap(), Some(SEGMENT_BYTES));
        assert_eq!(image.used_bytes(), 2 * SEGMENT_BYTES);
    }
}

/// A recycled segment is full of records that were valid once, at the very offsets where new ones end.
#[test]
fn a_recycled_segment_never_gives_out_what_it_held_before() {
    let mut harness = LogHarness::new(&StrictFs::new(), 2, true);
    for round in 0..12 {
        while harness.writer.has_room(600) {
            harness.write(1 + round % 3);
            if round > 2 {
                let image = harness.fs.crash(Crash::Process);
                let recovered = verify(&image, &harness.known(), false, "in a recycled segment");
                assert_eq!(recovered.last(&harness.manifest), harness.last_seqno());
            }
        }
        harness.rotate();
        harness.flush(0);
    }
    assert!(harness.log.counters().recycled >= 9);
}

#[test]
fn a_record_larger_than_a_segment_gets_one_of_its_own() {
    let mut harness = LogHarness::new(&StrictFs::new(), 3, true);
    harness.write(1);
    harness.write(1000);
    let position = harness.writer.position();
    assert_eq!(position.log_id, LogId(2));
    assert!(position.offset > SEGMENT_BYTES);
    harness.write(2);
    let recovered = verify(&harness.fs.crash(Crash::Process), &harness.known(), false, "private");
    assert_eq!(recovered.records, [(1, 1), (2, 1001), (1002, 1003)]);
    // Its size differs, so it is not recycled.
    harness.rotate();
    harness.flush(0);
    verify(&harness.fs.crash(Crash::Process), &harness.known(), false, "private, released");
    let lens: Vec<u64> = harness.fs.list(DIR.as_ref()).unwrap().iter().map(|entry| entry.len).collect();
    assert!(lens.iter().all(|len| *len == SEGMENT_BYTES), "{lens:?}");
}

#[test]
fn marks_follow_flushes() {
    let mut harness = LogHarness::new(&StrictFs::new(), 4, true);
    assert!(!harness.writer.append_mark().unwrap(), "nothing is durable yet");
    harness.write(1);
    harness.sync();
    let durable = harness.log.durable_position();
    assert_eq!(durable, harness.writer.position());
    let before = harness.writer.bytes();
    assert!(harness.writer.append_mark().unwrap());
    assert_eq!(harness.writer.bytes() - before, 48);
    assert!(!harness.writer.append_mark().unwrap(), "it was told already");
    // The mark makes the loss of the marked records detectable after a power cut.
    let image = harness.fs.crash(Crash::PowerNoneLost);
    let recovered = verify(&image, &harness.known(), true, "marked");
    assert_eq!(recovered.report.end, LogPosition::new(LogId(1), durable.offset + 48));
}

#[test]
fn a_flush_covers_closed_segments_once() {
    let mut harness = LogHarness::new(&StrictFs::new(), 4, true);
    for _ in 0..3 {
        harness.write(1);
        harness.rotate();
    }
    harness.sync();
    assert_eq!(harness.log.counters().files_synced, 4);
    harness.write(1);
    harness.sync();
    assert_eq!(harness.log.counters().files_synced, 5);
    harness.sync();
    assert_eq!(harness.log.counters().flushes, 2, "what is durable is not flushed again");
}

#[test]
fn without_mapping_or_allocation_records_are_written() {
    for (can_map_writable, can_allocate) in [(true, false), (false, true), (false, false)] {
        let strict =
            StrictFs::with_options(StrictOptions { can_map_writable, can_allocate, ..Default::default() });
        let mut harness = LogHarness::new(&strict, 5, true);
        assert!(!harness.writer.is_mapped());
        for _ in 0..60 {
            harness.step();
        }
        verify(&strict.crash(Crash::Process), &harness.known(), false, "written");
    }
}

#[test]
fn an_append_without_room_is_refused_and_consumes_nothing() {
    let mut harness = LogHarness::new(&StrictFs::new(), 6, true);
    let huge = vec![0u8; SEGMENT_BYTES as usize];
    let position = harness.writer.position();
    let next = harness.writer.last_seqno().plus(1);
    let refused = harness.writer.append(next, 1, &huge, crc32c(&huge));
    assert!(matches!(refused, Err(Error::Internal(_))));
    assert_eq!(harness.writer.position(), position);
    harness.write(1);
    verify(&harness.fs.crash(Crash::Process), &harness.known(), false, "refused");
}

#[test]
fn options_out_of_range_are_refused() {
    let env = Env::simulated(Arc::new(StrictFs::new()), 1);
    for segment_bytes in [0, 4096, 12_000, (1 << 30) + 4096] {
        let options = LogOptions { segment_bytes, ..options(true) };
        let created = Log::create(&env, Path::new("/wal"), &start(&Manifest::NEW, LogId(1)), options);
        assert!(matches!(created, Err(Error::InvalidArgument(_))), "{segment_bytes}");
    }
}

#[test]
fn a_new_life_uses_new_files_and_deletes_the_old_ones() {
    let mut harness = LogHarness::new(&StrictFs::new(), 7, true);
    for _ in 0..40 {
        harness.step();
    }
    let known = harness.known();
    let image = harness.fs.crash(Crash::Process);
    let old = verify(&image, &known, false, "first life");
    let old_files = old.report.removable.len();
    assert!(old_files > 1);
    let mut second = LogHarness::after(&image, 8, true, &known, &old);
    assert_eq!(image.list(DIR.as_ref()).unwrap().len(), 1);
    assert_eq!(second.writer.position().log_id, old.report.next_log_id);
    second.write(3);
    let mut known = Guaranteed::new(second.manifest);
    known.written = second.last_seqno();
    let recovered = verify(&image.crash(Crash::Process), &known, false, "second life");
    assert_eq!(recovered.records.len(), 1);
    assert_eq!(recovered.report.segments_seen, 1);
}

/// The same on real files, mapped if the file system of the temporary directory allows it.
#[test]
fn a_log_on_real_files_recovers() {
    let dir = std::env::temp_dir().join(format!("esker-wal-{}", std::process::id()));
    let env = Env { fs: Arc::new(StdFileSystem), ..Env::simulated(Arc::new(StdFileSystem), 1) };
    let wal = dir.join("wal");
    let (log, mut writer) = Log::create(&env, &wal, &start(&Manifest::NEW, LogId(1)), options(true)).unwrap();
    for seqno in 1..=500 {
        let batch = batch(seqno, 1);
        if !writer.has_room(batch.payload().len()) {
            log.prepare_next().unwrap();
            assert!(matches!(writer.rotate(0).unwrap(), Rotation::Done(_)));
        }
        writer.append(esker_base::SeqNo::new(seqno), 1, batch.payload(), crc32c(batch.payload())).unwrap();
        if seqno % 100 == 0 {
            let captured = (writer.last_seqno(), writer.position());
            log.sync_up_to(captured.0, || captured).unwrap();
        }
    }
    let mut input = Manifest::NEW.input(&StdFileSystem, esker_wal::WalRecovery::Strict);
    input.dir = &wal;
    let mut last = 0;
    let report = esker_wal::recover(&input, &mut |record| {
        last = record.header.last_seqno().get();
        Ok(())
    })
    .unwrap();
    assert_eq!((last, report.records), (500, 500));
    drop((log, writer));
    env.fs.remove_dir_all(&dir).unwrap();
}
