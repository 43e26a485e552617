//! Fuzz target for the pieces of the log. The first byte, taken modulo six, says what the rest is:
//!
//! | | |
//! |---|---|
//! | 0 | a segment header |
//! | 1 | a record header with its mark, of the segment and at the offset below |
//! | 2 | the payload of a batch |
//! | 3 | the payload of a carry |
//! | 4 | the payload of an ingest |
//! | 5 | the payload of a segment end |

use super::{random_bytes, random_text};
use esker_base::checksum::{crc32c, crc32c_append};
use esker_base::coding::put_varint;
use esker_base::{KeyspaceId, LogId, SeqNo};
use esker_env::{Random, SeededRandom};
use esker_wal::batch::{CarryIter, EntryIter, Ingest, count_entries};
use esker_wal::record::{
    LogPosition, RECORD_HEADER_LEN, RecordHeader, RecordKind, SegmentIdentity, decode_segment_end,
};
use esker_wal::segment::{SEGMENT_HEADER_LEN, SegmentHeader};
use esker_wal::{BatchEncoder, Entry};

/// The log id that record headers are checked against.
const LOG_ID: LogId = LogId(0x1_0000_0007);
const SALT: u64 = 0x5a17;
const OFFSET: u64 = 4096;

/// The target; see [`accepts`].
pub fn target(bytes: &[u8]) {
    accepts(bytes);
}

/// Whether the bytes are a whole valid piece of the kind that the first byte names.
///
/// # Panics
/// If what was decoded does not come back from its encoding, or readers disagree.
pub fn accepts(bytes: &[u8]) -> bool {
    let Some((&selector, bytes)) = bytes.split_first() else { return false };
    match selector % 6 {
        0 => segment_header(bytes),
        1 => record_header(bytes),
        2 => batch(bytes),
        3 => carry(bytes),
        4 => ingest(bytes),
        _ => decode_segment_end(bytes).is_some(),
    }
}

fn segment_header(bytes: &[u8]) -> bool {
    let accepted = SegmentHeader::decode(bytes).inspect(|header| {
        assert_eq!(header.encode(), bytes[..SEGMENT_HEADER_LEN]);
    });
    // With a correct checksum only the fields decide.
    if let Some(header) = bytes.first_chunk::<SEGMENT_HEADER_LEN>() {
        let mut repaired = *header;
        let crc = crc32c(&repaired[..124]);
        repaired[124..].copy_from_slice(&crc.to_le_bytes());
        match SegmentHeader::decode(&repaired) {
            Ok(header) => assert_eq!(header.encode(), repaired),
            Err(fault) => assert!(!fault.to_string().is_empty()),
        }
    }
    accepted.is_ok()
}

fn record_header(bytes: &[u8]) -> bool {
    let identity = SegmentIdentity::new(LOG_ID, SALT);
    let accepted = RecordHeader::decode(bytes, &identity, OFFSET)
        .inspect(|header| check_record_header(header, bytes, &identity));
    if bytes.len() >= RECORD_HEADER_LEN {
        let mut repaired = bytes.to_vec();
        repaired[12..16].copy_from_slice(&(LOG_ID.get() as u32).to_le_bytes());
        let covered_end = RECORD_HEADER_LEN + if repaired[29] & 1 != 0 { 16 } else { 0 };
        if let Some(covered) = repaired.get(4..covered_end) {
            let mut place = SALT.to_le_bytes().to_vec();
            place.extend_from_slice(&LOG_ID.get().to_le_bytes());
            place.extend_from_slice(&OFFSET.to_le_bytes());
            let crc = crc32c_append(crc32c(&place), covered);
            repaired[..4].copy_from_slice(&crc.to_le_bytes());
        }
        match RecordHeader::decode(&repaired, &identity, OFFSET) {
            Ok(header) => check_record_header(&header, &repaired, &identity),
            Err(fault) => assert!(!fault.to_string().is_empty()),
        }
        // The same bytes at another offset, or under another log id, are no record.
        assert!(RecordHeader::decode(&repaired, &identity, OFFSET + 8).is_err());
        let other_life = SegmentIdentity::new(LOG_ID, SALT + 1);
        assert!(RecordHeader::decode(&repaired, &other_life, OFFSET).is_err());
    }
    accepted.is_ok()
}

fn check_record_header(header: &RecordHeader, bytes: &[u8], identity: &SegmentIdentity) {
    let encoded = header.encode(identity, OFFSET);
    assert_eq!(encoded.as_bytes(), &bytes[..header.encoded_len()]);
    assert!(header.record_len() >= header.encoded_len() as u64 + u64::from(header.payload_len));
    assert!(header.last_seqno().get() <= SeqNo::MAX.get());
}

fn batch(payload: &[u8]) -> bool {
    let mut encoder = BatchEncoder::new();
    let mut entries = Vec::new();
    for entry in EntryIter::new(payload) {
        match entry {
            Ok(entry) => {
                encoder.entry(&entry).expect("what was decoded can be encoded");
                entries.push(entry);
            }
            Err(damage) => {
                assert!(damage.offset <= payload.len() && !damage.to_string().is_empty());
                assert_eq!(count_entries(payload), Err(damage));
                return false;
            }
        }
    }
    assert_eq!(count_entries(payload), Ok(entries.len() as u32));
    assert!(encoder.payload().len() <= payload.len(), "no encoding is shorter than the encoder's");
    let again: Result<Vec<Entry<'_>>, _> = encoder.entries().collect();
    assert_eq!(again.expect("just encoded"), entries);
    true
}

fn carry(payload: &[u8]) -> bool {
    let mut steps = 0;
    for entry in CarryIter::new(payload) {
        steps += 1;
        assert!(steps <= payload.len());
        match entry {
            Ok((seqno, entry)) => assert!(seqno <= SeqNo::MAX && entry.key.len() <= payload.len()),
            Err(damage) => {
                assert!(damage.offset <= payload.len() && !damage.to_string().is_empty());
                return false;
            }
        }
    }
    true
}

fn ingest(payload: &[u8]) -> bool {
    match Ingest::decode(payload) {
        Ok(ingest) => {
            assert!(ingest.files.capacity() * 10 <= payload.len(), "memory in proportion to the bytes");
            let mut again = Vec::new();
            ingest.encode(&mut again);
            assert_eq!(Ingest::decode(&again).expect("just encoded"), ingest);
            true
        }
        Err(damage) => {
            assert!(damage.offset <= payload.len());
            false
        }
    }
}

/// Any piece of a log.
pub fn valid(random: &SeededRandom) -> Vec<u8> {
    let selector = random.below(6) as u8;
    let mut bytes = vec![selector];
    match selector {
        0 => bytes.extend_from_slice(&valid_segment_header(random).encode()),
        1 => {
            let header = valid_record_header(random);
            bytes.extend_from_slice(header.encode(&SegmentIdentity::new(LOG_ID, SALT), OFFSET).as_bytes());
        }
        2 => bytes.extend_from_slice(valid_batch(random).payload()),
        3 => {
            for _ in 0..random.below(6) {
                let mut one = BatchEncoder::new();
                add_entry(&mut one, random);
                bytes.extend_from_slice(&random.below(1 << 56).to_le_bytes());
                bytes.extend_from_slice(one.payload());
            }
        }
        4 => {
            put_varint(&mut bytes, random.below(1 << 32));
            let files = random.below(5);
            put_varint(&mut bytes, files);
            for _ in 0..files {
                put_varint(&mut bytes, random.next_u64());
                put_varint(&mut bytes, random.below(1 << 40));
                bytes.extend_from_slice(&random.next_u64().to_le_bytes());
            }
        }
        _ => bytes.extend_from_slice(&random.next_u64().to_le_bytes()),
    }
    bytes
}

pub(super) fn valid_segment_header(random: &SeededRandom) -> SegmentHeader {
    SegmentHeader {
        data_start: 4096,
        db_uuid: random_uuid(random),
        log_id: LogId(1 + random.below(1 << 40)),
        salt: random.next_u64(),
        size_bytes: 4096 + random.below(1 << 30),
        prev_end: LogPosition::new(LogId(random.below(1 << 40)), random.below(1 << 30)),
        first_seqno: SeqNo::new(random.below(1 << 50)),
        manifest_edit: random.next_u64(),
        boot_id: random_uuid(random),
        wall_ms: random.next_u64(),
        replaces_upto: LogId(random.below(2)),
    }
}

fn random_uuid(random: &SeededRandom) -> [u8; 16] {
    std::array::from_fn(|_| random.below(256) as u8)
}

fn valid_record_header(random: &SeededRandom) -> RecordHeader {
    let kinds =
        [RecordKind::Batch, RecordKind::Mark, RecordKind::SegmentEnd, RecordKind::Carry, RecordKind::Ingest];
    RecordHeader {
        payload_crc: random.next_u64() as u32,
        payload_len: random.below(1 << 30) as u32,
        first_seqno: SeqNo::new(random.below(1 << 55)),
        count: random.next_u64() as u32,
        kind: kinds[random.below(kinds.len() as u64) as usize],
        in_flight: random.below(3) as u16,
        mark: (random.below(2) == 0)
            .then(|| LogPosition::new(LogId(random.below(LogId::MAX_STORED.get())), random.below(1 << 30))),
    }
}

pub(super) fn valid_batch(random: &SeededRandom) -> BatchEncoder {
    let mut batch = BatchEncoder::new();
    for _ in 0..random.below(12) {
        add_entry(&mut batch, random);
    }
    batch
}

fn add_entry(batch: &mut BatchEncoder, random: &SeededRandom) {
    let keyspace =
        KeyspaceId(if random.below(4) == 0 { random.next_u64() as u32 } else { random.below(4) as u32 });
    let key = random_text(random, if random.below(8) == 0 { 300 } else { 24 });
    let value = random_bytes(random, if random.below(8) == 0 { 400 } else { 40 });
    let added = match random.below(7) {
        0 => batch.delete(keyspace, &key),
        1 => batch.single_delete(keyspace, &key),
        2 => batch.range_delete(keyspace, &key, &value),
        3 => batch.merge(keyspace, &key, &value),
        4 => batch.put_expiring(keyspace, &key, &value, random.next_u64()),
        _ => batch.put(keyspace, &key, &value),
    };
    added.expect("keys and values are within their limits");
}
