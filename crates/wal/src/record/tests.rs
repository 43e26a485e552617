use super::*;

const OFFSET: u64 = 4096 + 152;

fn identity() -> SegmentIdentity {
    SegmentIdentity::new(LogId(0x0000_0003_0000_0007), 0x1122_3344_5566_7788)
}

fn header(mark: Option<LogPosition>) -> RecordHeader {
    RecordHeader {
        payload_crc: 0xaabb_ccdd,
        payload_len: 120,
        first_seqno: SeqNo::new(1000),
        count: 3,
        kind: RecordKind::Batch,
        in_flight: 2,
        mark,
    }
}

#[test]
fn a_header_keeps_every_field_at_its_documented_place() {
    let mark = LogPosition::new(LogId(5), 8192);
    for mark in [None, Some(mark)] {
        let header = header(mark);
        let encoded = header.encode(&identity(), OFFSET);
        let bytes = encoded.as_bytes();
        assert_eq!(bytes.len(), header.encoded_len());
        assert_eq!(RecordHeader::decode(bytes, &identity(), OFFSET), Ok(header));
        assert_eq!(bytes[4..8], [0xdd, 0xcc, 0xbb, 0xaa]);
        assert_eq!(bytes[8..12], [120, 0, 0, 0]);
        assert_eq!(bytes[12..16], [7, 0, 0, 0]);
        assert_eq!(bytes[16..24], 1000u64.to_le_bytes());
        assert_eq!(bytes[24..28], [3, 0, 0, 0]);
        assert_eq!(bytes[28..32], [1, u8::from(mark.is_some()), 2, 0]);
        let mut covered = Vec::new();
        covered.extend_from_slice(&0x1122_3344_5566_7788u64.to_le_bytes());
        covered.extend_from_slice(&0x0000_0003_0000_0007u64.to_le_bytes());
        covered.extend_from_slice(&OFFSET.to_le_bytes());
        covered.extend_from_slice(&bytes[4..]);
        assert_eq!(bytes[0..4], crc32c(&covered).to_le_bytes());
        if mark.is_some() {
            assert_eq!(bytes[32..40], [5, 0, 0, 0, 0, 0, 0, 0]);
            assert_eq!(bytes[40..48], 8192u64.to_le_bytes());
        }
    }
}

#[test]
fn a_header_is_valid_only_where_and_when_it_was_written() {
    let encoded = header(None).encode(&identity(), OFFSET);
    let bytes = encoded.as_bytes();
    let decode = |id: u64, salt: u64, offset| {
        RecordHeader::decode(bytes, &SegmentIdentity::new(LogId(id), salt), offset)
    };
    let (id, salt) = (0x0000_0003_0000_0007, 0x1122_3344_5566_7788);
    assert!(decode(id, salt, OFFSET).is_ok());
    assert!(matches!(decode(id, salt, OFFSET + 8), Err(HeaderFault::Checksum { .. })));
    assert!(matches!(decode(id, salt + 1, OFFSET), Err(HeaderFault::Checksum { .. })));
    assert!(matches!(decode(id + (1 << 32), salt, OFFSET), Err(HeaderFault::Checksum { .. })));
    assert_eq!(decode(id + 1, salt, OFFSET), Err(HeaderFault::ForeignLogId { found: 7 }));
}

#[test]
fn every_flipped_bit_and_every_truncation_of_a_header_is_noticed() {
    for mark in [None, Some(LogPosition::new(LogId(5), 8192))] {
        let encoded = header(mark).encode(&identity(), OFFSET);
        let bytes = encoded.as_bytes();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(RecordHeader::decode(&damaged, &identity(), OFFSET).is_err(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert_eq!(RecordHeader::decode(&bytes[..len], &identity(), OFFSET), Err(HeaderFault::Short));
        }
    }
}

/// Encodes a header whose fields no writer of this version would choose, with a valid checksum.
fn forge(change: impl Fn(&mut [u8])) -> Vec<u8> {
    let mut bytes = header(None).encode(&identity(), OFFSET).as_bytes().to_vec();
    change(&mut bytes);
    let crc = crc32c_append(crc32c_append(identity().seed, &OFFSET.to_le_bytes()), &bytes[4..]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    bytes
}

#[test]
fn records_of_a_newer_version_are_distinguished_from_damage() {
    let decode = |bytes: &[u8]| RecordHeader::decode(bytes, &identity(), OFFSET);
    let kind = decode(&forge(|bytes| bytes[28] = 6));
    assert_eq!(kind, Err(HeaderFault::Unknown { kind: 6, flags: 0 }));
    let flags = decode(&forge(|bytes| bytes[29] = 2));
    assert_eq!(flags, Err(HeaderFault::Unknown { kind: 1, flags: 2 }));
    let seqno = decode(&forge(|bytes| bytes[23] = 1));
    assert!(matches!(seqno, Err(HeaderFault::Impossible(_))));
    let seqno = decode(&forge(|bytes| bytes[16..24].fill(0xff)));
    assert!(matches!(seqno, Err(HeaderFault::Impossible(_))));
}

/// The next record, and the next open, count on from it.
#[test]
fn sequence_numbers_that_leave_no_room_for_others_are_refused() {
    let decode = |first: u64| {
        let bytes = forge(|bytes| bytes[16..24].copy_from_slice(&first.to_le_bytes()));
        RecordHeader::decode(&bytes, &identity(), OFFSET)
    };
    let most = SeqNo::MAX_STORED.get() - u64::from(header(None).count);
    assert!(decode(most).is_ok());
    for first in [most + 1, SeqNo::MAX.get() - u64::from(header(None).count), SeqNo::MAX.get()] {
        assert!(matches!(decode(first), Err(HeaderFault::Impossible(_))), "{first:#x}");
    }
}

#[test]
fn a_mark_of_a_segment_that_no_log_has_is_refused() {
    let mark = |log_id| header(Some(LogPosition::new(LogId(log_id), 4096)));
    for (log_id, is_accepted) in [(u64::MAX / 2, true), (u64::MAX / 2 + 1, false), (u64::MAX, false)] {
        let bytes = mark(log_id).encode(&identity(), OFFSET);
        let decoded = RecordHeader::decode(bytes.as_bytes(), &identity(), OFFSET);
        assert_eq!(decoded.is_ok(), is_accepted, "{log_id:#x}");
    }
}

#[test]
fn records_are_padded_to_eight_bytes() {
    assert_eq!(record_len(0, false), 32);
    assert_eq!(record_len(0, true), 48);
    assert_eq!(record_len(120, false), 152);
    assert_eq!(record_len(121, false), 160);
    assert_eq!(record_len(8, true), 56);
}

#[test]
fn the_last_sequence_number_of_a_record() {
    assert_eq!(header(None).last_seqno(), SeqNo::new(1002));
    let nothing = RecordHeader { count: 0, first_seqno: SeqNo::ZERO, ..header(None) };
    assert_eq!(nothing.last_seqno(), SeqNo::ZERO);
}
