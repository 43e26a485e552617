//! Inspection of segment files.

use crate::harness::{DIR, LogHarness};
use esker_base::LogId;
use esker_env::fault::StrictFs;
use esker_env::{FileSystem, OpenMode};
use esker_wal::inspect::InspectionEnd;
use esker_wal::record::HeaderFault;
use esker_wal::{RecordKind, SegmentInspector, StopReason};
use std::path::PathBuf;

#[test]
fn records_are_shown_with_place_kind_and_state() {
    let mut harness = LogHarness::new(&StrictFs::new(), 9, true);
    harness.write(2);
    harness.sync();
    harness.write(3);
    harness.rotate();
    harness.write(1);
    let first = PathBuf::from(DIR).join("0001.seg");
    let mut inspector = SegmentInspector::open(&harness.fs, &first).unwrap();
    assert_eq!(inspector.header().unwrap().log_id, LogId(1));
    assert_eq!(inspector.copies().0[0], inspector.copies().0[1]);
    let mut records = Vec::new();
    while let Some(record) = inspector.next_record().unwrap() {
        records.push(record);
    }
    let kinds: Vec<_> = records.iter().map(|record| record.kind).collect();
    assert_eq!(kinds, [RecordKind::Batch, RecordKind::Batch, RecordKind::SegmentEnd]);
    assert!(records.iter().all(|record| record.payload_valid));
    assert_eq!((records[1].first_seqno.get(), records[1].count), (3, 3));
    let mark = records[1].mark.unwrap();
    assert_eq!((mark.log_id, mark.offset), (LogId(1), records[1].offset));
    assert_eq!(records[2].next_log_id, Some(LogId(2)));
    let end = records[2].offset + records[2].record_len;
    assert_eq!(inspector.stop(), Some(InspectionEnd { offset: end, reason: None }));

    let file = harness.fs.open(&first, OpenMode::ReadWrite).unwrap();
    file.write_at(b"damage", records[1].offset + 50).unwrap();
    let mut inspector = SegmentInspector::open(&harness.fs, &first).unwrap();
    assert!(inspector.next_record().unwrap().unwrap().payload_valid);
    assert!(!inspector.next_record().unwrap().unwrap().payload_valid);
    assert!(inspector.next_record().unwrap().is_none());
    let stop = inspector.stop().unwrap();
    assert_eq!(stop.offset, records[1].offset);
    assert!(matches!(stop.reason, Some(StopReason::PayloadChecksum { .. })));
}

#[test]
fn a_file_never_begun_is_reported_as_such() {
    let harness = LogHarness::new(&StrictFs::new(), 9, true);
    harness.log.prepare_next().unwrap();
    let path = PathBuf::from(DIR).join("0002.seg");
    let mut inspector = SegmentInspector::open(&harness.fs, &path).unwrap();
    assert!(inspector.header().is_none() && inspector.next_record().unwrap().is_none());
    let fault = inspector.copies().0[0].as_ref().unwrap_err();
    assert_eq!(fault.to_string(), "no segment header was written yet");
    let begun = PathBuf::from(DIR).join("0001.seg");
    let mut inspector = SegmentInspector::open(&harness.fs, &begun).unwrap();
    assert!(inspector.next_record().unwrap().is_none());
    let reason = StopReason::Header(HeaderFault::ForeignLogId { found: 0 });
    assert_eq!(inspector.stop(), Some(InspectionEnd { offset: 4096, reason: Some(reason) }));
}
