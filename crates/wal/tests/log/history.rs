//! Retained segments, and change-stream readers beside the writer.

use crate::harness::{Manifest, SEGMENT_BYTES, UUID, make_parent, options, start};
use esker_base::{Error, LogId, SeqNo};
use esker_env::fault::StrictFs;
use esker_env::{Env, FileSystem, OpenMode};
use esker_wal::{
    BatchEncoder, HistoryReader, HistoryStep, KeptHistory, Located, Log, LogOptions, LogWriter, RecoverInput,
    Rotation, WalRecovery, recover,
};
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/db/wal";

/// A log with its writer; the test decides when segments are released.
struct HistoryHarness {
    fs: StrictFs,
    log: Arc<Log>,
    writer: LogWriter,
    next: u64,
}

impl HistoryHarness {
    fn new(mapped: bool, history_limit_bytes: u64) -> HistoryHarness {
        let fs = StrictFs::new();
        make_parent(&fs);
        let env = Env::simulated(Arc::new(fs.clone()), 3);
        let options = LogOptions { history_limit_bytes, ..options(mapped) };
        let start = start(&Manifest::NEW, LogId(1));
        let (log, writer) = Log::create(&env, Path::new(DIR), &start, options).unwrap();
        HistoryHarness { fs, log, writer, next: 1 }
    }

    /// Appends a batch of this many entries with values of 300 bytes.
    fn append(&mut self, count: u64) {
        let mut batch = BatchEncoder::new();
        for number in self.next..self.next + count {
            let value = [number.to_le_bytes().as_slice(), &[7; 300]].concat();
            batch.put(esker_base::KeyspaceId(0), &number.to_be_bytes(), &value).unwrap();
        }
        if !self.writer.has_room(batch.payload().len()) {
            while self.log.needs_preparation() {
                self.log.prepare_next().unwrap();
            }
            assert!(matches!(self.writer.rotate(0).unwrap(), Rotation::Done(_)));
        }
        let crc = esker_base::checksum::crc32c(batch.payload());
        self.writer.append(SeqNo::new(self.next), count as u32, batch.payload(), crc).unwrap();
        self.next += count;
    }

    /// Releases everything before the active segment.
    fn release(&self) {
        self.log.release_below(self.writer.position().log_id).unwrap();
    }

    fn reader(&self, after: u64) -> HistoryReader {
        HistoryReader::new(Arc::new(self.fs.clone()), SeqNo::new(after))
    }

    fn step(&self, reader: &mut HistoryReader, limit: u64) -> HistoryStep {
        reader.next(SeqNo::new(limit), &|after| self.log.locate(after)).unwrap()
    }

    /// The sequence numbers that a reader returns up to a limit.
    fn read(&self, reader: &mut HistoryReader, limit: u64) -> Vec<u64> {
        let mut seen = Vec::new();
        while let HistoryStep::Record(record) = self.step(reader, limit) {
            seen.extend(record.first_seqno.get()..=record.last_seqno.get());
        }
        seen
    }

    fn files(&self) -> usize {
        self.fs.list(Path::new(DIR)).unwrap().len()
    }
}

#[test]
fn held_segments_are_kept_and_others_are_recycled() {
    for mapped in [true, false] {
        let mut kept = HistoryHarness::new(mapped, u64::MAX);
        let hold = kept.log.hold(SeqNo::ZERO, None, 0).unwrap();
        (0..200).for_each(|number| kept.append(1 + number % 3));
        kept.release();
        assert_eq!(kept.log.counters().recycled, 0, "HS1");
        let last = kept.next - 1;
        let mut reader = kept.reader(0);
        assert_eq!(kept.read(&mut reader, last), (1..=last).collect::<Vec<_>>());
        // Half of it is consumed.
        let (bytes, files) = (kept.log.history_bytes(), kept.files());
        hold.advance(SeqNo::new(last / 2));
        assert!(kept.log.trim_history().unwrap() > 0);
        assert!(kept.log.history_bytes() < bytes * 3 / 4 && kept.files() < files);
        assert_eq!(kept.read(&mut kept.reader(last / 2), last), (last / 2 + 1..=last).collect::<Vec<_>>());
        assert!(matches!(kept.step(&mut kept.reader(0), last), HistoryStep::Gone { .. }), "HS2");
        drop(hold);
        kept.log.trim_history().unwrap();
        assert_eq!(kept.log.history_bytes(), 0);
        (0..200).for_each(|_| kept.append(1));
        kept.release();
        assert!(kept.log.counters().recycled > 0, "nobody wants them");
        let oldest = kept.log.oldest_history();
        let refused = kept.log.hold(SeqNo::new(oldest.get() - 1), None, 0);
        assert!(matches!(refused, Err(from) if from == oldest), "{refused:?}");
    }
}

/// Numbers that were skipped are gone to a reader before them, none to one behind; a record that is missing
/// stays damage. Over the ends of segments as well, and recovery returns what was logged.
#[test]
fn skipped_numbers_are_told_from_missing_records() {
    for mapped in [true, false] {
        let mut kept = HistoryHarness::new(mapped, u64::MAX);
        let mut logged = Vec::new();
        for round in 0..120_u64 {
            if round % 3 == 0 {
                kept.writer.skip(SeqNo::new(kept.next), 2);
                kept.next += 2;
            }
            logged.push(kept.next);
            kept.append(1);
        }
        assert!(kept.writer.position().log_id > LogId(2), "several segments");
        let last = kept.next - 1;
        let behind = logged[117] - 1;
        assert_eq!(kept.read(&mut kept.reader(behind), last), logged[117..]);
        for after in [0, logged[50], logged[113]] {
            let mut reader = kept.reader(after);
            kept.read(&mut reader, last);
            assert!(
                matches!(kept.step(&mut reader, last), HistoryStep::Gone { oldest } if oldest.get() > after)
            );
        }
        assert!(kept.writer.hold(SeqNo::new(behind - 1), None, 0).is_err());
        let hold = kept.writer.hold(SeqNo::new(behind), None, 0).unwrap();
        assert!(kept.writer.is_followed());
        drop(hold);
        assert!(!kept.writer.is_followed());
        let input = RecoverInput {
            fs: &kept.fs,
            dir: Path::new(DIR),
            db_uuid: UUID,
            min_log_id: LogId(1),
            durable: esker_wal::LogPosition::ZERO,
            last_manifest_edit: u64::MAX,
            mode: WalRecovery::Strict,
        };
        let mut found = Vec::new();
        let report = recover(&input, &mut |record| {
            found.push(record.header.first_seqno.get());
            Ok(())
        });
        assert_eq!((found, report.unwrap().greatest_seqno), (logged, SeqNo::new(last)));
    }
}

/// A reader that has read a segment to its end finds the next one, although its own is recycled meanwhile.
#[test]
fn a_reader_leaves_a_segment_that_is_recycled_under_it() {
    let mut kept = HistoryHarness::new(true, u64::MAX);
    let hold = kept.log.hold(SeqNo::ZERO, None, 0).unwrap();
    let mut reader = kept.reader(0);
    for round in 0..60 {
        (0..round % 7).for_each(|_| kept.append(2));
        let last = kept.next - 1;
        let from = reader.position().get() + 1;
        assert_eq!(kept.read(&mut reader, last), (from..=last).collect::<Vec<_>>());
        hold.advance(reader.position());
        (0..9).for_each(|_| kept.append(1));
        kept.release();
    }
    assert!(kept.log.counters().recycled > 3, "{:?}", kept.log.counters());
}

#[test]
fn past_the_limit_the_oldest_segment_goes_and_its_readers_are_cut_off() {
    let mut kept = HistoryHarness::new(true, 3 * SEGMENT_BYTES);
    let slow = kept.log.hold(SeqNo::ZERO, Some("slow".into()), 0).unwrap();
    while kept.log.counters().deleted == 0 {
        kept.append(1);
        kept.release();
        assert!(kept.log.history_bytes() <= 3 * SEGMENT_BYTES, "HS3");
    }
    assert!(slow.is_cut_off());
    assert_eq!(kept.log.history_bytes(), 0, "nothing more is kept for it");
    let gone = kept.step(&mut kept.reader(0), kept.next - 1);
    assert_eq!(gone, HistoryStep::Gone { oldest: kept.log.oldest_history() });
    // Of two lagging readers, the one that lags less continues.
    let (slow, middle) = (kept.log.hold(SeqNo::new(kept.next - 1), None, 0).unwrap(), kept.next + 50);
    (0..50).for_each(|_| kept.append(1));
    let lagging = kept.log.hold(SeqNo::new(middle - 1), None, 0).unwrap();
    while !slow.is_cut_off() {
        kept.append(1);
        kept.release();
    }
    assert!(!lagging.is_cut_off() && kept.log.history_bytes() > 0, "HS2");
    let last = kept.next - 1;
    assert_eq!(kept.read(&mut kept.reader(middle - 1), last), (middle..=last).collect::<Vec<_>>());
    drop(lagging);
    // A reader that keeps up is not affected by one that does not.
    let quick = kept.log.hold(SeqNo::new(kept.next - 1), None, 0).unwrap();
    let mut reader = kept.reader(kept.next - 1);
    (0..40).for_each(|_| {
        kept.append(1);
        kept.release();
        assert_eq!(kept.read(&mut reader, kept.next - 1), [kept.next - 1]);
        quick.advance(reader.position());
    });
    assert!(!quick.is_cut_off());
}

/// A whole record that was never published can be where the next one will be: a write that failed late. Only
/// bytes read after the limit was known are returned.
#[test]
fn bytes_read_before_the_limit_are_read_again() {
    let mut kept = HistoryHarness::new(false, u64::MAX);
    let _hold = kept.log.hold(SeqNo::ZERO, None, 0).unwrap();
    kept.append(1);
    let position = kept.writer.position();
    kept.append(1);
    let path = Path::new(DIR).join("0001.seg");
    let file = kept.fs.open(&path, OpenMode::ReadWrite).unwrap();
    let mut published = vec![0; 512];
    file.read_exact_at(&mut published, position.offset).unwrap();
    // Another valid record with the same number, as a failed attempt may leave it.
    let mut other = HistoryHarness::new(false, u64::MAX);
    other.append(1);
    let mut attempt = BatchEncoder::new();
    attempt.put(esker_base::KeyspaceId(0), b"never", b"happened").unwrap();
    let crc = esker_base::checksum::crc32c(attempt.payload());
    other.writer.append(SeqNo::new(2), 1, attempt.payload(), crc).unwrap();
    let twin = other.fs.open(&path, OpenMode::Read).unwrap();
    let mut header = [0; 4096];
    twin.read_exact_at(&mut header, 0).unwrap();
    let mut unpublished = vec![0; 512];
    twin.read_exact_at(&mut unpublished, position.offset).unwrap();
    let mut own = [0; 4096];
    file.read_exact_at(&mut own, 0).unwrap();
    assert_eq!(header, own, "the same seed gives the same salt: the record is valid here, too");
    file.write_at(&unpublished, position.offset).unwrap();
    let mut reader = kept.reader(0);
    assert_eq!(kept.read(&mut reader, 1), [1]);
    // The next write overwrites it and is published.
    file.write_at(&published, position.offset).unwrap();
    let HistoryStep::Record(record) = kept.step(&mut reader, 2) else { panic!("nothing comes") };
    assert!(!record.payload.ends_with(b"happened"), "HS4");
}

#[test]
fn a_missing_record_is_damage_and_not_the_end() {
    let mut kept = HistoryHarness::new(true, u64::MAX);
    let _hold = kept.log.hold(SeqNo::ZERO, None, 0).unwrap();
    (0..5).for_each(|_| kept.append(1));
    let path = Path::new(DIR).join("0001.seg");
    let file = kept.fs.open(&path, OpenMode::ReadWrite).unwrap();
    file.write_at(&[0xaa; 8], 4096 + 400).unwrap();
    let mut reader = kept.reader(0);
    assert!(matches!(kept.step(&mut reader, 5), HistoryStep::Record(_)));
    let told = reader.next(SeqNo::new(5), &|after| kept.log.locate(after));
    assert!(matches!(&told, Err(Error::Corruption(at)) if at.file.ends_with("0001.seg")), "HS5: {told:?}");
}

/// The manifest links the lives of a log; a hole ends the history.
#[test]
fn lives_are_linked_from_the_newest_back_to_a_hole() {
    let mut kept = HistoryHarness::new(true, u64::MAX);
    let _hold = kept.log.hold(SeqNo::ZERO, None, 0).unwrap();
    (0..60).for_each(|_| kept.append(1));
    kept.log.sync_up_to(SeqNo::new(60), || (SeqNo::new(60), kept.writer.position())).unwrap();
    let report = || {
        let input = RecoverInput {
            fs: &kept.fs,
            dir: Path::new(DIR),
            db_uuid: UUID,
            min_log_id: LogId(1),
            durable: esker_wal::LogPosition::ZERO,
            last_manifest_edit: 9,
            mode: WalRecovery::Strict,
        };
        recover(&input, &mut |_| Ok(())).unwrap()
    };
    let whole = report();
    let ended = whole.last_read.unwrap();
    assert_eq!(ended.1.get(), 60);
    let history = KeptHistory::link(&whole, &[ended]);
    assert_eq!((history.gone_upto, history.segments.len()), (SeqNo::ZERO, whole.segments_read));
    let mut reader = kept.reader(0);
    let mut seen = 0;
    while let HistoryStep::Record(record) =
        reader.next(SeqNo::new(70), &|after| history.locate(after)).unwrap()
    {
        seen += 1;
        assert_eq!(record.last_seqno.get(), seen);
    }
    assert_eq!(seen, 60);
    assert!(matches!(history.locate(SeqNo::new(60)), Located::Nowhere));
    // Records that recovery did not accept are not read, although they are in the file.
    let shorter = KeptHistory::link(&whole, &[(ended.0, SeqNo::new(59))]);
    assert!(matches!(shorter.locate(SeqNo::new(59)), Located::Nowhere));
    // Without the second segment everything before the third is gone.
    let third = history.segments[2].first_seqno;
    let mut holed = whole;
    holed.segments.remove(&history.segments[1].log_id);
    let rest = KeptHistory::link(&holed, &[ended]);
    assert_eq!(rest.gone_upto.get(), third.get() - 1);
    assert!(matches!(rest.locate(SeqNo::ZERO), Located::Gone { .. }));
    let mut dropped = history.clone();
    dropped.drop_segments_through(SeqNo::new(third.get() - 1));
    assert_eq!(dropped, rest);
    assert_eq!(dropped.lives(&[ended]), [ended]);
    dropped.drop_segments_through(SeqNo::MAX);
    assert_eq!((dropped.lives(&[ended]), dropped.gone_upto.get()), (vec![], 60));
}
