//! Segment files of the log: their names and headers.
//!
//! A file is a *slot*, `0007.seg`; its header says which part of the log it holds. So a segment is recycled
//! without being renamed. The header is stored twice, in separate sectors: after recycling, a power cut can
//! leave one copy describing the earlier life, and the greater log id counts.
//!
//! ```text
//!   0 magic[8] "ESKRWAL1"      8 format u32 = 1       12 data_start u32 = 4096
//!  16 db_uuid[16]             32 log_id u64          40 salt u64           48 size u64
//!  56 prev_log_id u64         64 prev_end u64        72 first_seqno u64    80 manifest_edit u64
//!  88 boot_id[16]            104 wall_ms u64        112 replaces_upto u64
//! 120 flags u32              124 crc32c u32 of bytes 0..124
//! ```

use crate::record::{LogPosition, RECORD_ALIGN, SegmentIdentity};
use esker_base::checksum::crc32c;
use esker_base::coding::Reader;
use esker_base::{LogId, SeqNo};
use std::fmt;

/// Bytes of a segment header.
pub const SEGMENT_HEADER_LEN: usize = 128;
/// Offsets of the two copies of the header.
pub const HEADER_OFFSETS: [u64; 2] = [0, 2048];
/// Where records start in the segments that this version writes.
pub const DATA_START: u64 = 4096;
/// The format that this version writes, and the newest that it reads.
pub const FORMAT: u32 = 1;
/// The first bytes of every header, in every format.
pub const MAGIC: [u8; 8] = *b"ESKRWAL1";

/// Lengths and offsets of files are signed 64-bit numbers to the operating system.
const MAX_FILE_BYTES: u64 = i64::MAX as u64;
/// Offset of a header's checksum, in every format.
const CRC_AT: usize = 124;
/// Offset of the first sequence number.
const FIRST_SEQNO_AT: usize = 72;

const EXTENSION: &str = ".seg";

/// The name of the file with this slot number.
pub fn slot_file_name(slot: u32) -> String {
    format!("{slot:04}{EXTENSION}")
}

/// The slot number in a file name; `None` if it is no segment's name.
pub(crate) fn parse_slot_file_name(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(EXTENSION)?;
    let slot: u32 = digits.parse().ok()?;
    // "+7.seg" and "00007.seg" parse as numbers, but are not names that this crate writes.
    (slot_file_name(slot) == name).then_some(slot)
}

/// The header of a segment: what it holds, and which life of the file this is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Where records start.
    pub data_start: u32,
    /// The database it belongs to.
    pub db_uuid: [u8; 16],
    /// Which part of the log it holds.
    pub log_id: LogId,
    /// Random for each life of the file; part of every record's checksum.
    pub salt: u64,
    /// Bytes of the file.
    pub size_bytes: u64,
    /// Position of the end record that leads here; zero for the first segment of an open.
    pub prev_end: LogPosition,
    /// The next sequence number when the segment was begun: no record in it has a smaller one.
    pub first_seqno: SeqNo,
    /// The last durable edit of the manifest when the segment was begun.
    pub manifest_edit: u64,
    /// The boot in which it was written; zero if unknown.
    pub boot_id: [u8; 16],
    /// Wall clock when it was begun, in milliseconds since 1970.
    pub wall_ms: u64,
    /// For a copy made by recovery, the last log id that it replaces; else zero.
    pub replaces_upto: LogId,
}

/// Why bytes are not a usable segment header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SegmentHeaderFault {
    /// Fewer than 128 bytes.
    Short,
    /// Not the magic: a file that was prepared and never used starts with zeros.
    Magic {
        /// Whether all 128 bytes are zero.
        zeroed: bool,
    },
    /// The checksum does not match.
    Checksum {
        /// Stored in the header.
        stored: u32,
        /// Computed from the bytes.
        computed: u32,
    },
    /// The checksum matches, but the format or a flag is newer than this version.
    Unsupported {
        /// The format number.
        format: u32,
        /// The flag bits.
        flags: u32,
    },
    /// The checksum matches and yet a field is out of bounds: no version writes this.
    Impossible(&'static str),
}

impl fmt::Display for SegmentHeaderFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SegmentHeaderFault::Short => f.write_str("the file ends before the segment header does"),
            SegmentHeaderFault::Magic { zeroed: true } => f.write_str("no segment header was written yet"),
            SegmentHeaderFault::Magic { zeroed: false } => f.write_str("no segment header stands there"),
            SegmentHeaderFault::Checksum { stored, computed } => {
                write!(f, "segment header checksum {stored:#010x} stored, {computed:#010x} computed")
            }
            SegmentHeaderFault::Unsupported { format, flags } => write!(
                f,
                "log format {format} with flags {flags:#x}; this version reads formats up to {FORMAT}"
            ),
            SegmentHeaderFault::Impossible(what) => write!(f, "segment header contradicts itself: {what}"),
        }
    }
}

impl SegmentHeader {
    /// The identity that binds records to this life of the segment.
    pub fn identity(&self) -> SegmentIdentity {
        SegmentIdentity::new(self.log_id, self.salt)
    }

    /// The 128 bytes of one copy.
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_LEN] {
        let mut bytes = [0u8; SEGMENT_HEADER_LEN];
        let mut at = 0;
        let mut put = |field: &[u8]| {
            bytes[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        };
        put(&MAGIC);
        put(&FORMAT.to_le_bytes());
        put(&self.data_start.to_le_bytes());
        put(&self.db_uuid);
        put(&self.log_id.get().to_le_bytes());
        put(&self.salt.to_le_bytes());
        put(&self.size_bytes.to_le_bytes());
        put(&self.prev_end.log_id.get().to_le_bytes());
        put(&self.prev_end.offset.to_le_bytes());
        put(&self.first_seqno.get().to_le_bytes());
        put(&self.manifest_edit.to_le_bytes());
        put(&self.boot_id);
        put(&self.wall_ms.to_le_bytes());
        put(&self.replaces_upto.get().to_le_bytes());
        put(&0u32.to_le_bytes());
        let crc = crc32c(&bytes[..CRC_AT]);
        bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes one copy of the header.
    ///
    /// # Errors
    /// The first fault. Magic and checksum are at the same offsets in every format, so damage is told from a
    /// newer format.
    pub fn decode(bytes: &[u8]) -> Result<SegmentHeader, SegmentHeaderFault> {
        let bytes = bytes.first_chunk::<SEGMENT_HEADER_LEN>().ok_or(SegmentHeaderFault::Short)?;
        if !bytes.starts_with(&MAGIC) {
            return Err(SegmentHeaderFault::Magic { zeroed: bytes.iter().all(|&byte| byte == 0) });
        }
        let (covered, stored) = bytes.split_at(CRC_AT);
        let stored = Reader::new(stored).u32().ok_or(SegmentHeaderFault::Short)?;
        let computed = crc32c(covered);
        if stored != computed {
            return Err(SegmentHeaderFault::Checksum { stored, computed });
        }
        let mut reader = Reader::new(&covered[MAGIC.len()..]);
        let format = reader.u32().ok_or(SegmentHeaderFault::Short)?;
        let flags = Reader::new(&covered[120..]).u32().ok_or(SegmentHeaderFault::Short)?;
        if format != FORMAT || flags != 0 {
            return Err(SegmentHeaderFault::Unsupported { format, flags });
        }
        let first_seqno = Reader::new(&covered[FIRST_SEQNO_AT..]).u64().ok_or(SegmentHeaderFault::Short)?;
        if first_seqno > SeqNo::MAX_STORED.get() {
            return Err(SegmentHeaderFault::Impossible(
                "its first sequence number is greater than any database has",
            ));
        }
        let header = SegmentHeader::read(&mut reader).ok_or(SegmentHeaderFault::Short)?;
        header.check()
    }

    fn read(reader: &mut Reader<'_>) -> Option<SegmentHeader> {
        Some(SegmentHeader {
            data_start: reader.u32()?,
            db_uuid: reader.take(16)?.try_into().ok()?,
            log_id: LogId(reader.u64()?),
            salt: reader.u64()?,
            size_bytes: reader.u64()?,
            prev_end: LogPosition { log_id: LogId(reader.u64()?), offset: reader.u64()? },
            first_seqno: SeqNo::new(reader.u64()?),
            manifest_edit: reader.u64()?,
            boot_id: reader.take(16)?.try_into().ok()?,
            wall_ms: reader.u64()?,
            replaces_upto: LogId(reader.u64()?),
        })
    }

    fn check(self) -> Result<SegmentHeader, SegmentHeaderFault> {
        let headers_end = HEADER_OFFSETS[1] + SEGMENT_HEADER_LEN as u64;
        let start = u64::from(self.data_start);
        if start < headers_end || start > self.size_bytes || !start.is_multiple_of(RECORD_ALIGN) {
            return Err(SegmentHeaderFault::Impossible("records would start outside of the file"));
        }
        if self.size_bytes > MAX_FILE_BYTES {
            return Err(SegmentHeaderFault::Impossible("it is longer than a file can be"));
        }
        if self.log_id == LogId(0) || self.log_id > LogId::MAX_STORED {
            return Err(SegmentHeaderFault::Impossible("its log id is none that a log uses"));
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> SegmentHeader {
        SegmentHeader {
            data_start: 4096,
            db_uuid: *b"0123456789abcdef",
            log_id: LogId(7),
            salt: 0x1122_3344_5566_7788,
            size_bytes: 1 << 20,
            prev_end: LogPosition::new(LogId(6), 8192),
            first_seqno: SeqNo::new(1000),
            manifest_edit: 12,
            boot_id: *b"fedcba9876543210",
            wall_ms: 1_700_000_000_000,
            replaces_upto: LogId(0),
        }
    }

    #[test]
    fn a_header_keeps_every_field_at_its_documented_place() {
        let bytes = header().encode();
        assert_eq!(SegmentHeader::decode(&bytes), Ok(header()));
        assert_eq!(&bytes[..8], b"ESKRWAL1");
        assert_eq!(bytes[8..16], [1, 0, 0, 0, 0, 16, 0, 0]);
        assert_eq!(&bytes[16..32], b"0123456789abcdef");
        assert_eq!(bytes[32], 7);
        assert_eq!(bytes[40], 0x88);
        assert_eq!(bytes[48..56], (1u64 << 20).to_le_bytes());
        assert_eq!(bytes[56], 6);
        assert_eq!(bytes[64..72], 8192u64.to_le_bytes());
        assert_eq!(bytes[72..80], 1000u64.to_le_bytes());
        assert_eq!(bytes[80], 12);
        assert_eq!(&bytes[88..104], b"fedcba9876543210");
        assert_eq!(bytes[104..112], 1_700_000_000_000u64.to_le_bytes());
        assert_eq!(bytes[112..124], [0; 12]);
        assert_eq!(bytes[124..128], crc32c(&bytes[..124]).to_le_bytes());
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_noticed() {
        let bytes = header().encode();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(SegmentHeader::decode(&damaged).is_err(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert_eq!(SegmentHeader::decode(&bytes[..len]), Err(SegmentHeaderFault::Short));
        }
    }

    #[test]
    fn a_newer_format_is_distinguished_from_damage() {
        let mut bytes = header().encode();
        bytes[8] = 2;
        let crc = crc32c(&bytes[..CRC_AT]);
        bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(
            SegmentHeader::decode(&bytes),
            Err(SegmentHeaderFault::Unsupported { format: 2, flags: 0 })
        );
    }

    #[test]
    fn impossible_fields_are_refused() {
        for change in [
            (|header: &mut SegmentHeader| header.data_start = 4097) as fn(&mut SegmentHeader),
            |header| header.data_start = 2048,
            |header| header.size_bytes = 4095,
            |header| header.log_id = LogId(0),
            |header| header.log_id = LogId(u64::MAX),
            |header| header.log_id = LogId(LogId::MAX_STORED.get() + 1),
            |header| header.size_bytes = u64::MAX,
            |header| header.size_bytes = 1 << 63,
        ] {
            let mut wrong = header();
            change(&mut wrong);
            let decoded = SegmentHeader::decode(&wrong.encode());
            assert!(matches!(decoded, Err(SegmentHeaderFault::Impossible(_))), "{decoded:?}");
        }
    }

    /// Beyond 56 bits it would be truncated to another number than the one stored; shortly before, the
    /// numbers behind it could not be counted.
    #[test]
    fn a_sequence_number_that_no_database_reaches_is_refused() {
        let most = SeqNo::MAX_STORED.get();
        let seqnos = [most + 1, SeqNo::MAX.get(), SeqNo::MAX.get() + 1, u64::MAX].map(|seqno| (seqno, false));
        for (first_seqno, expected) in [(most, true)].into_iter().chain(seqnos) {
            let mut bytes = header().encode();
            bytes[72..80].copy_from_slice(&first_seqno.to_le_bytes());
            let crc = crc32c(&bytes[..CRC_AT]);
            bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
            assert_eq!(SegmentHeader::decode(&bytes).is_ok(), expected, "{first_seqno:#x}");
        }
    }

    #[test]
    fn file_names_are_slot_numbers() {
        assert_eq!(slot_file_name(7), "0007.seg");
        for slot in [0, 7, 9999, 10_000, u32::MAX] {
            assert_eq!(parse_slot_file_name(&slot_file_name(slot)), Some(slot));
        }
        for other in ["7.seg", "00007.seg", "+007.seg", "0007.sst", "0007.seg.tmp", ".seg", "99999999999.seg"]
        {
            assert_eq!(parse_slot_file_name(other), None, "{other}");
        }
    }
}
