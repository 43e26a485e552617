//! Fuzz target for whole segment files: inspected and recovered from, as they are and with checksums
//! repaired.

use super::wal_record::{valid_batch, valid_segment_header};
use esker_base::checksum::{crc32c, crc32c_append};
use esker_base::{LogId, SeqNo};
use esker_env::fault::StrictFs;
use esker_env::{FileSystem, OpenMode, SeededRandom};
use esker_wal::record::{LogPosition, RECORD_HEADER_LEN, RecordHeader, RecordKind};
use esker_wal::segment::{HEADER_OFFSETS, SEGMENT_HEADER_LEN, SegmentHeader, slot_file_name};
use esker_wal::{RecoverInput, SegmentInspector, WalRecovery, recover};
use std::path::Path;

/// Start of the records of the segments made here: right behind the second copy of the header.
const DATA_START: usize = HEADER_OFFSETS[1] as usize + SEGMENT_HEADER_LEN;

/// The target; see [`accepts`].
pub fn target(bytes: &[u8]) {
    accepts(bytes);
}

/// Whether recovery accepts the file, and all of it, as it is.
///
/// # Panics
/// If inspection and recovery see different records, or records that do not fit the file.
pub fn accepts(bytes: &[u8]) -> bool {
    read(&repaired(bytes));
    read(bytes)
}

fn read(bytes: &[u8]) -> bool {
    let (fs, dir) = (StrictFs::new(), Path::new("wal"));
    let path = dir.join(slot_file_name(1));
    fs.create_dir_all(dir).expect("memory");
    let file = fs.open(&path, OpenMode::CreateNew).expect("memory");
    file.write_at(bytes, 0).expect("memory");

    let mut inspector = SegmentInspector::open(&fs, &path).expect("memory");
    let Some(header) = inspector.header().cloned() else { return false };
    let mut inspected = 0;
    while let Ok(Some(record)) = inspector.next_record() {
        assert!(record.offset + u64::from(record.payload_len) <= bytes.len() as u64 || !record.payload_valid);
        inspected += u64::from(record.payload_valid);
    }
    let mut given = 0;
    let mut entries = 0;
    let input = RecoverInput {
        fs: &fs,
        dir,
        db_uuid: header.db_uuid,
        min_log_id: header.log_id,
        durable: LogPosition::ZERO,
        last_manifest_edit: u64::MAX,
        mode: WalRecovery::Strict,
    };
    let report = recover(&input, &mut |record| {
        given += 1;
        if record.header.kind == RecordKind::Ingest {
            record.ingest()?;
        }
        for entry in record.entries() {
            entry?;
            entries += 1;
            assert!(entries <= bytes.len(), "entries take bytes");
        }
        Ok(())
    });
    assert!(given <= inspected, "{given} records recovered, {inspected} inspected");
    match report {
        Ok(report) => {
            assert_eq!(report.records, given);
            assert!(report.next_log_id > header.log_id && report.greatest_seqno <= SeqNo::MAX);
            report.dropped_records == 0 && report.end.offset == bytes.len() as u64
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

/// The file with right checksums in the first header and all records, as far as lengths are valid.
fn repaired(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let Some(header) = bytes.first_chunk_mut::<SEGMENT_HEADER_LEN>() else { return bytes };
    header[..12].copy_from_slice(b"ESKRWAL1\x01\0\0\0");
    let crc = crc32c(&header[..124]);
    header[124..].copy_from_slice(&crc.to_le_bytes());
    let mut place = [&header[40..48], &header[32..40], [0; 8].as_slice()].concat();
    let log_id_low: [u8; 4] = header[32..36].try_into().expect("four bytes");
    let data_start = u32::from_le_bytes(header[12..16].try_into().expect("four bytes")) as usize;
    let mut at = data_start.next_multiple_of(8);
    while let Some(record) = bytes.get_mut(at..).filter(|rest| rest.len() >= RECORD_HEADER_LEN) {
        let payload_len = u32::from_le_bytes(record[8..12].try_into().expect("four bytes")) as usize;
        let header_len = RECORD_HEADER_LEN + if record[29] & 1 != 0 { 16 } else { 0 };
        let end = header_len.saturating_add(payload_len);
        let Some(record) = record.get_mut(..end) else { break };
        record[12..16].copy_from_slice(&log_id_low);
        let payload_crc = crc32c(&record[header_len..]);
        record[4..8].copy_from_slice(&payload_crc.to_le_bytes());
        place[16..].copy_from_slice(&(at as u64).to_le_bytes());
        let crc = crc32c_append(crc32c(&place), &record[4..header_len]);
        record[..4].copy_from_slice(&crc.to_le_bytes());
        at = (at + end).next_multiple_of(8);
    }
    bytes
}

/// A segment of a few batches whose file ends behind the last one.
pub fn valid(random: &SeededRandom) -> Vec<u8> {
    let mut header = valid_segment_header(random);
    header.data_start = DATA_START as u32;
    header.replaces_upto = LogId(0);
    let mut bytes = vec![0; DATA_START];
    let mut next_seqno = header.first_seqno;
    for _ in 0..random.below(6) {
        let batch = valid_batch(random);
        let record = RecordHeader {
            payload_crc: crc32c(batch.payload()),
            payload_len: batch.payload().len() as u32,
            first_seqno: next_seqno,
            count: batch.count(),
            kind: RecordKind::Batch,
            in_flight: 0,
            mark: None,
        };
        next_seqno = next_seqno.plus(u64::from(batch.count()));
        let encoded = record.encode(&header.identity(), bytes.len() as u64);
        bytes.extend_from_slice(encoded.as_bytes());
        bytes.extend_from_slice(batch.payload());
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    header.size_bytes = bytes.len() as u64;
    put_headers(&mut bytes, &header);
    bytes
}

fn put_headers(bytes: &mut [u8], header: &SegmentHeader) {
    for at in HEADER_OFFSETS.map(|at| at as usize) {
        bytes[at..at + SEGMENT_HEADER_LEN].copy_from_slice(&header.encode());
    }
}
