//! Damage of every byte and every length is detected, or everything guaranteed is still there. Wrong data
//! never comes back, and nothing panics.

use crate::harness::{DIR, Guaranteed, LogHarness, Manifest, read_back, verify};
use esker_base::{Error, LogId};
use esker_env::fault::{Crash, StrictFs};
use esker_env::{FileSystem, OpenMode};
use esker_wal::WalRecovery;
use esker_wal::segment::SegmentHeader;
use std::path::{Path, PathBuf};

/// Two full segments and a third with a few records, one sync in between: two marks.
fn three_segments(mapped: bool) -> LogHarness {
    let mut harness = LogHarness::new(&StrictFs::new(), 5, mapped);
    for round in 0..3 {
        for count in [1, 2, 3, 1] {
            harness.write(count);
        }
        if round == 1 {
            harness.sync();
        }
        harness.write(1);
        if round < 2 {
            harness.rotate();
        }
    }
    harness
}

fn segments(fs: &StrictFs) -> Vec<PathBuf> {
    let names = fs.list(DIR.as_ref()).unwrap();
    names.iter().map(|entry| PathBuf::from(DIR).join(&entry.name)).collect()
}

fn contents(fs: &StrictFs, path: &Path) -> Vec<u8> {
    let mut bytes = vec![0; fs.file_len(path).unwrap().unwrap() as usize];
    fs.open(path, OpenMode::Read).unwrap().read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// Outcomes of one kind of damage to one image, over all offsets.
#[derive(Debug, Default)]
struct Tally {
    noticed: usize,
    /// Everything is still there.
    harmless: usize,
    /// The log ends earlier.
    shorter: usize,
}

impl Tally {
    fn look(&mut self, fs: &StrictFs, known: &Guaranteed, what: &str) {
        match read_back(fs, &known.manifest, WalRecovery::Strict) {
            Ok(recovered) => {
                let last = recovered.last(&known.manifest);
                assert!(last <= known.written, "{what}");
                assert!(last >= known.durable, "{what}: guaranteed up to {}, ends at {last}", known.durable);
                if last == known.written {
                    self.harmless += 1;
                } else {
                    self.shorter += 1;
                }
            }
            Err(Error::Corruption(_) | Error::Unsupported(_)) => self.noticed += 1,
            Err(other) => panic!("{what}: {other}"),
        }
    }
}

fn flip_everything(fs: &StrictFs, known: &Guaranteed) -> Tally {
    let mut tally = Tally::default();
    for path in segments(fs) {
        let file = fs.open(&path, OpenMode::ReadWrite).unwrap();
        for (at, byte) in contents(fs, &path).into_iter().enumerate() {
            let damaged = byte ^ (1 << (at % 8));
            file.write_at(&[damaged], at as u64).unwrap();
            tally.look(fs, known, &format!("{} byte {at}", path.display()));
            file.write_at(&[byte], at as u64).unwrap();
        }
    }
    tally
}

#[test]
fn every_flipped_byte_after_a_kill_is_noticed_unless_it_is_the_very_last_record() {
    let harness = three_segments(true);
    let known = harness.known();
    let image = harness.fs.crash(Crash::Process);
    image.forget_trace();
    let tally = flip_everything(&image, &known);
    // Only the last record's own bytes can pass for a torn tail; padding, free space and single header copies
    // do not matter.
    let last = crate::harness::batch(known.written, 1).payload().len() + 32;
    assert!(tally.shorter <= last, "{tally:?}, the last record has {last} bytes");
    assert!(tally.noticed > 500, "{tally:?}");
}

#[test]
fn every_flipped_byte_after_a_power_cut_leaves_what_was_durable() {
    let harness = three_segments(true);
    let known = harness.known();
    let image = harness.fs.crash(Crash::PowerNoneLost);
    image.forget_trace();
    let tally = flip_everything(&image, &known);
    // Behind the last durable position the log may end early; before it damage is detected.
    assert!(tally.noticed > 300 && tally.shorter > 100, "{tally:?}");
}

#[test]
fn every_truncation_is_noticed_or_takes_nothing_that_was_durable() {
    for crash in [Crash::Process, Crash::PowerNoneLost] {
        let harness = three_segments(false);
        let known = harness.known();
        let image = harness.fs.crash(crash);
        image.forget_trace();
        let mut tally = Tally::default();
        for path in segments(&image) {
            let bytes = contents(&image, &path);
            let file = image.open(&path, OpenMode::ReadWrite).unwrap();
            for len in (0..bytes.len()).rev() {
                file.set_len(len as u64).unwrap();
                tally.look(&image, &known, &format!("{} cut to {len} bytes", path.display()));
            }
            file.write_at(&bytes, 0).unwrap();
        }
        assert!(tally.noticed > 5000, "{tally:?}");
    }
}

/// A torn sector at any offset.
#[test]
fn every_lost_sector_is_noticed_or_takes_nothing_that_was_durable() {
    for (crash, fill) in [(Crash::Process, 0u8), (Crash::PowerNoneLost, 0), (Crash::PowerNoneLost, 0xff)] {
        let harness = three_segments(true);
        let known = harness.known();
        let image = harness.fs.crash(crash);
        let mut tally = Tally::default();
        for path in segments(&image) {
            let bytes = contents(&image, &path);
            let file = image.open(&path, OpenMode::ReadWrite).unwrap();
            for (sector, before) in bytes.chunks(512).enumerate() {
                file.write_at(&[fill; 512], sector as u64 * 512).unwrap();
                tally.look(&image, &known, &format!("{} sector {sector}", path.display()));
                file.write_at(before, sector as u64 * 512).unwrap();
            }
        }
        assert!(tally.noticed > 0, "{tally:?}");
    }
}

#[test]
fn a_missing_segment_is_noticed() {
    let harness = three_segments(true);
    let known = harness.known();
    for victim in 0..3 {
        let image = harness.fs.crash(Crash::Process);
        let path = &segments(&image)[victim];
        image.remove_file(path).unwrap();
        let error = read_back(&image, &known.manifest, WalRecovery::Strict).err().unwrap();
        assert!(error.is_corruption(), "{error}");
    }
}

#[test]
fn headers_damaged_at_both_places_are_not_the_end_of_the_log() {
    for victim in 0..3 {
        let harness = three_segments(true);
        let known = harness.known();
        let image = harness.fs.crash(Crash::PowerNoneLost);
        let path = &segments(&image)[victim];
        let file = image.open(path, OpenMode::ReadWrite).unwrap();
        for offset in [0, 2048] {
            file.write_at(b"x", offset + 50).unwrap();
        }
        let error = read_back(&image, &known.manifest, WalRecovery::Strict).err().unwrap();
        assert!(error.is_corruption(), "{error}");
        // One copy is enough.
        file.write_at(&contents(&harness.fs, path)[..128], 2048).unwrap();
        verify(&image, &known, true, "one copy");
    }
}

/// The process is killed while the second copy of a new file's header is stored, and a power cut leaves the
/// first copy as it was in the midst of its store: no record was ever behind it, so nothing is lost.
#[test]
fn a_new_header_that_a_kill_and_a_power_cut_tore_is_not_damage() {
    for with_record in [false, true] {
        let harness = three_segments(true);
        let known = harness.known();
        let image = harness.fs.crash(Crash::PowerNoneLost);
        let last = segments(&image).pop().unwrap();
        let header = SegmentHeader::decode(&contents(&image, &last)).unwrap();
        let torn = last.with_file_name("0999.seg");
        let file = image.open(&torn, OpenMode::CreateNew).unwrap();
        file.allocate(0, header.size_bytes, false).unwrap();
        file.write_at(&header.encode()[..124], 0).unwrap();
        file.write_at(b"E", 2048).unwrap();
        if with_record {
            file.write_at(b"x", 8000).unwrap();
        }
        // The segment that the torn header would name is missing.
        image.remove_file(&last).unwrap();
        let outcome = read_back(&image, &known.manifest, WalRecovery::Strict);
        let text = outcome.err().map(|error| error.to_string()).unwrap_or_default();
        assert_eq!(text.contains("both copies of the header"), with_record, "{text}");
    }
}

#[test]
fn a_segment_that_continues_another_one_is_refused() {
    let harness = three_segments(true);
    let known = harness.known();
    let image = harness.fs.crash(Crash::PowerNoneLost);
    let path = &segments(&image)[2];
    let mut header = SegmentHeader::decode(&contents(&image, path)).unwrap();
    header.prev_end.offset += 8;
    let file = image.open(path, OpenMode::ReadWrite).unwrap();
    for offset in [0, 2048] {
        file.write_at(&header.encode(), offset).unwrap();
    }
    let error = read_back(&image, &known.manifest, WalRecovery::PowerCut).err().unwrap();
    assert!(error.to_string().contains("says that it continues"), "{error}");
}

#[test]
fn damage_behind_which_records_stand_is_named_with_file_and_offset() {
    let harness = three_segments(true);
    let known = harness.known();
    let image = harness.fs.crash(Crash::Process);
    let path = segments(&image).pop().unwrap();
    let file = image.open(&path, OpenMode::ReadWrite).unwrap();
    file.write_at(&[0xee; 4], 4096 + 60).unwrap();
    let Err(Error::Corruption(corruption)) = read_back(&image, &known.manifest, WalRecovery::Strict) else {
        panic!("damage was not noticed");
    };
    assert_eq!((&corruption.file, corruption.offset), (&path, Some(4096)));
    assert!(corruption.detail.contains("payload checksum"), "{corruption}");
    assert!(corruption.detail.contains("WalRecovery::PowerCut"), "{corruption}");

    // With `PowerCut` the same image opens and reports what it drops.
    let recovered = read_back(&image, &known.manifest, WalRecovery::PowerCut).unwrap();
    assert_eq!(recovered.report.dropped_records, 4);
    assert!(recovered.report.warning.unwrap().contains("4 later records"));
    assert_eq!(recovered.report.greatest_seqno.get(), known.written);
}

#[test]
fn damage_before_a_mark_is_noticed_even_after_a_power_cut() {
    let harness = three_segments(true);
    let known = harness.known();
    let image = harness.fs.crash(Crash::PowerNoneLost);
    let path = &segments(&image)[1];
    image.open(path, OpenMode::ReadWrite).unwrap().write_at(&[0xee; 4], 4096 + 40).unwrap();
    for mode in [WalRecovery::Strict, WalRecovery::PowerCut] {
        let error = read_back(&image, &known.manifest, mode).err().unwrap();
        assert!(error.to_string().contains("known to have been durable"), "{error}");
    }
}

#[test]
fn the_durable_position_of_the_manifest_counts_as_well() {
    let mut harness = LogHarness::new(&StrictFs::new(), 6, true);
    for _ in 0..5 {
        harness.write(1);
    }
    harness.sync();
    let known = harness.known();
    let image = harness.fs.crash(Crash::PowerNoneLost);
    let path = &segments(&image)[0];
    image.open(path, OpenMode::ReadWrite).unwrap().write_at(&[0xee; 4], 4096 + 40).unwrap();
    // No record carries the mark yet, so the log alone cannot know.
    assert_eq!(read_back(&image, &known.manifest, WalRecovery::Strict).unwrap().records.len(), 0);
    let manifest = Manifest { durable: harness.log.durable_position(), ..known.manifest };
    assert!(read_back(&image, &manifest, WalRecovery::Strict).err().unwrap().is_corruption());
}

#[test]
fn a_manifest_that_lost_edits_is_noticed() {
    let mut harness = three_segments(true);
    harness.flush(0);
    harness.write(1);
    harness.rotate();
    harness.write(1);
    let known = harness.known();
    assert!(known.manifest.edit > 1);
    let image = harness.fs.crash(Crash::PowerNoneLost);
    verify(&image, &known, true, "as it is");
    let older = Manifest { edit: known.manifest.edit - 1, ..known.manifest };
    let error = read_back(&image, &older, WalRecovery::Strict).err().unwrap();
    assert!(error.to_string().contains("manifest has lost durable edits"), "{error}");
}

#[test]
fn another_databases_segment_is_left_alone() {
    let harness = three_segments(true);
    let known = harness.known();
    let image = harness.fs.crash(Crash::Process);
    let stranger = SegmentHeader {
        data_start: 4096,
        db_uuid: [9; 16],
        log_id: LogId(2),
        salt: 1,
        size_bytes: 8192,
        prev_end: esker_wal::LogPosition::ZERO,
        first_seqno: esker_base::SeqNo::new(1),
        manifest_edit: 0,
        boot_id: [0; 16],
        wall_ms: 0,
        replaces_upto: LogId(0),
    };
    let path = PathBuf::from(DIR).join("0099.seg");
    let file = image.open(&path, OpenMode::CreateNew).unwrap();
    file.write_at(&stranger.encode(), 0).unwrap();
    let recovered = verify(&image, &known, false, "with a stranger");
    assert!(recovered.report.warning.unwrap().contains("0099.seg"));
    assert!(recovered.report.removable.iter().all(|(slot, _)| *slot != 99));

    // A copy from an unfinished recovery is not read either; two committed segments of one id are damage.
    let copy = SegmentHeader { db_uuid: crate::harness::UUID, replaces_upto: LogId(3), ..stranger };
    file.write_at(&copy.encode(), 0).unwrap();
    verify(&image, &known, false, "with an uncommitted copy");
    let twin = SegmentHeader { replaces_upto: LogId(0), ..copy };
    file.write_at(&twin.encode(), 0).unwrap();
    let error = read_back(&image, &known.manifest, WalRecovery::Strict).err().unwrap();
    assert!(error.to_string().contains("0002.seg"), "{error}");
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let harness = three_segments(true);
    let known = harness.known();
    let image = harness.fs.crash(Crash::Process);
    let path = PathBuf::from(DIR).join("0099.seg");
    let file = image.open(&path, OpenMode::CreateNew).unwrap();
    let mut header = contents(&image, &segments(&image)[0])[..128].to_vec();
    header[8] = 2;
    let crc = esker_base::checksum::crc32c(&header[..124]);
    header[124..].copy_from_slice(&crc.to_le_bytes());
    file.write_at(&header, 0).unwrap();
    let error = read_back(&image, &known.manifest, WalRecovery::Strict).err().unwrap();
    assert!(matches!(&error, Error::Unsupported(what) if what.contains("log format 2")), "{error}");
}

/// The sequence numbers that a salvage returns, and those that it reports as missing.
fn salvaged(fs: &StrictFs, known: &Guaranteed) -> (Vec<u64>, Vec<(u64, Option<u64>)>) {
    let files = esker_wal::segment_files(fs, DIR.as_ref()).unwrap();
    let input = esker_wal::SalvageInput {
        files: &files,
        db_uuid: crate::harness::UUID,
        min_log_id: known.manifest.min_log_id,
        durable: known.manifest.durable,
        flushed: esker_base::SeqNo::new(known.manifest.flushed),
    };
    let mut found = Vec::new();
    let salvaged = esker_wal::salvage(&input, &mut |record| {
        found.extend(record.entries().map(|entry| entry.unwrap().0.get()));
        Ok(())
    });
    let gaps = salvaged.unwrap().gaps;
    (found, gaps.iter().map(|gap| (gap.first.get(), gap.last.map(|last| last.get()))).collect())
}

#[test]
fn salvage_returns_every_whole_record_and_tells_the_rest_by_its_numbers() {
    let harness = three_segments(true);
    let known = harness.known();
    let fs = harness.fs.crash(Crash::Process);
    let (all, gaps) = salvaged(&fs, &known);
    assert_eq!((all.clone(), gaps), ((1..=known.written).collect(), vec![]));
    let paths = segments(&fs);
    for path in &paths {
        let file = fs.open(path, OpenMode::ReadWrite).unwrap();
        for (at, byte) in contents(&fs, path).into_iter().enumerate().step_by(5) {
            file.write_at(&[byte ^ 1 << (at % 8)], at as u64).unwrap();
            let (found, gaps) = salvaged(&fs, &known);
            let is_told = |seqno: &u64| {
                let inside = |(first, last): &(u64, Option<u64>)| {
                    first <= seqno && last.is_none_or(|last| *seqno <= last)
                };
                gaps.iter().any(inside)
            };
            // The last record cannot be told from one that was being written.
            let last = all.iter().filter(|seqno| !found.contains(seqno) && !is_told(seqno)).min();
            assert!(last.is_none_or(|last| *last + 3 > known.written), "byte {at} of {}", path.display());
            assert!(found.len() + 4 > all.len() || at < 4096, "byte {at} of {}", path.display());
            file.write_at(&[byte], at as u64).unwrap();
        }
        let bytes = contents(&fs, path);
        fs.remove_file(path).unwrap();
        let (found, gaps) = salvaged(&fs, &known);
        assert!(!found.is_empty());
        if path != paths.last().unwrap() {
            let first = all.iter().find(|seqno| !found.contains(seqno)).unwrap();
            assert!(gaps.iter().any(|gap| gap.0 <= *first), "{} is missing: {gaps:?}", path.display());
        }
        fs.open(path, OpenMode::CreateNew).unwrap().write_at(&bytes, 0).unwrap();
    }
}

/// A process crash never shortens a file, and a power cut only one that was never flushed.
#[test]
fn a_segment_shorter_than_its_header_says_is_damage_unless_a_power_cut_explains_it() {
    for (crash, is_power_cut) in [(Crash::Process, false), (Crash::PowerNoneLost, true)] {
        let harness = three_segments(false);
        let known = harness.known();
        let image = harness.fs.crash(crash);
        for (at, path) in segments(&image).into_iter().enumerate() {
            let bytes = contents(&image, &path);
            let file = image.open(&path, OpenMode::ReadWrite).unwrap();
            // Nothing but free space is cut.
            file.set_len(bytes.len() as u64 - 8).unwrap();
            let read = read_back(&image, &known.manifest, WalRecovery::Strict);
            let is_flushed = at < 2;
            match read {
                Err(Error::Corruption(damage)) => {
                    assert!(is_flushed || !is_power_cut, "{damage}");
                    assert_eq!(damage.file, path);
                }
                Ok(_) => assert!(is_power_cut && !is_flushed, "{}", path.display()),
                Err(other) => panic!("{other}"),
            }
            file.write_at(&bytes, 0).unwrap();
        }
    }
}
