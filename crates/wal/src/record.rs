//! Record format of the log, to the byte.
//!
//! ```text
//!  0 header_crc u32    crc32c over (salt, log id, offset: 24 bytes, not stored) || bytes 4..32 || mark
//!  4 payload_crc u32   crc32c of the payload alone, computed before the writers' lock is taken
//!  8 len u32           payload bytes
//! 12 log_id_low u32    low half of the segment's id: a cheap filter while scanning
//! 16 first_seqno u64
//! 24 count u32         sequence numbers consumed
//! 28 kind u8    29 flags u8: 1 = a mark follows    30 in_flight u16
//! 32 [mark: log id u64, offset u64]   payload   padding to a multiple of 8 (undefined bytes)
//! ```
//!
//! The checksum of the header covers the record's location: the salt of the segment's present life, its id
//! and the offset. Bytes of an earlier life of a recycled segment, a record at a wrong offset, another
//! database's segment, and an image of the log that a user stored as a value all fail it. It also makes `len`
//! trustworthy before the payload is read.

use esker_base::checksum::{crc32c, crc32c_append};
use esker_base::coding::Reader;
use esker_base::planted;
use esker_base::{LogId, SeqNo};
use std::fmt;

/// Bytes of a record header without mark.
pub const RECORD_HEADER_LEN: usize = 32;
/// Bytes of a mark behind the header.
pub const MARK_LEN: usize = 16;
/// Records start at multiples of this.
pub const RECORD_ALIGN: u64 = 8;
/// Header flag: a mark follows the header.
const FLAG_HAS_MARK: u8 = 1;

/// A position in the log, ordered as records are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogPosition {
    /// The segment.
    pub log_id: LogId,
    /// The byte offset in it.
    pub offset: u64,
}

impl LogPosition {
    /// Before every record.
    pub const ZERO: LogPosition = LogPosition { log_id: LogId(0), offset: 0 };

    /// Byte `offset` of segment `log_id`.
    #[inline]
    pub const fn new(log_id: LogId, offset: u64) -> LogPosition {
        LogPosition { log_id, offset }
    }
}

impl fmt::Display for LogPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "segment {} byte {}", self.log_id, self.offset)
    }
}

/// What a record holds. The numbers are persisted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RecordKind {
    /// Entries that become visible together; see [`crate::batch`].
    Batch = 1,
    /// Only a mark.
    Mark = 2,
    /// The log continues in the segment that the payload names (log id u64).
    SegmentEnd = 3,
    /// Entries of older records with their own sequence numbers, so that the older segments can be deleted.
    Carry = 4,
    /// Table files that join a keyspace at this point of the order.
    Ingest = 5,
}

impl RecordKind {
    /// The kind with this number, if this version knows it.
    #[inline]
    pub const fn from_byte(byte: u8) -> Option<RecordKind> {
        match byte {
            1 => Some(RecordKind::Batch),
            2 => Some(RecordKind::Mark),
            3 => Some(RecordKind::SegmentEnd),
            4 => Some(RecordKind::Carry),
            5 => Some(RecordKind::Ingest),
            _ => None,
        }
    }
}

impl fmt::Display for RecordKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RecordKind::Batch => "batch",
            RecordKind::Mark => "mark",
            RecordKind::SegmentEnd => "segment end",
            RecordKind::Carry => "carry",
            RecordKind::Ingest => "ingest",
        })
    }
}

/// Binds a record to one life of one segment (WL1): its id and the salt drawn for that life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentIdentity {
    log_id: LogId,
    /// Checksum of salt and id, the constant part of every header checksum.
    seed: u32,
}

impl SegmentIdentity {
    /// The identity of the life of segment `log_id` that drew `salt`.
    pub fn new(log_id: LogId, salt: u64) -> SegmentIdentity {
        let mut bytes = [0u8; 16];
        bytes[..8].copy_from_slice(&salt.to_le_bytes());
        bytes[8..].copy_from_slice(&log_id.get().to_le_bytes());
        SegmentIdentity { log_id, seed: if planted!(ReplaysStaleRecords) { 0 } else { crc32c(&bytes) } }
    }

    /// The segment's id.
    #[inline]
    pub fn log_id(&self) -> LogId {
        self.log_id
    }
}

/// The header of a record, without checksum and low half of the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// crc32c of the payload.
    pub payload_crc: u32,
    /// Bytes of the payload.
    pub payload_len: u32,
    /// Sequence number of the first entry; for a record that consumes none, the next one to be assigned.
    pub first_seqno: SeqNo,
    /// Sequence numbers consumed.
    pub count: u32,
    /// The kind of the payload.
    pub kind: RecordKind,
    /// Records before this one that may have been incomplete when its offset was reserved.
    pub in_flight: u16,
    /// Everything before this position was durable when the record was written.
    pub mark: Option<LogPosition>,
}

/// Why bytes are not a record header of this segment at this offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderFault {
    /// Fewer bytes than a header has.
    Short,
    /// The low half of the id is another segment's: usually bytes that were not written in this life.
    ForeignLogId {
        /// The stored half.
        found: u32,
    },
    /// The checksum does not match.
    Checksum {
        /// Stored in the header.
        stored: u32,
        /// Computed from the bytes.
        computed: u32,
    },
    /// The checksum matches, but a newer version wrote it.
    Unknown {
        /// The kind byte.
        kind: u8,
        /// The flags byte.
        flags: u8,
    },
    /// The checksum matches and yet the fields contradict each other: no version writes this.
    Impossible(&'static str),
}

impl fmt::Display for HeaderFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeaderFault::Short => f.write_str("no room for a record header before the end"),
            HeaderFault::ForeignLogId { found: 0 } => f.write_str("no record was written here"),
            HeaderFault::ForeignLogId { found } => {
                write!(f, "the bytes there belong to no record of this segment (id word {found:#x})")
            }
            HeaderFault::Checksum { stored, computed } => {
                write!(f, "header checksum {stored:#010x} stored, {computed:#010x} computed")
            }
            HeaderFault::Unknown { kind, flags } => {
                write!(f, "record kind {kind} with flags {flags:#04x} is not known to this version")
            }
            HeaderFault::Impossible(what) => write!(f, "record header contradicts itself: {what}"),
        }
    }
}

/// An encoded header, 32 bytes or 48 with a mark, ready to be stored.
#[derive(Clone, Debug)]
pub struct EncodedHeader {
    words: AlignedScratch,
    end: usize,
}

/// The offset that the checksum covers precedes the other bytes it covers, so that one run computes it;
/// afterwards the checksum overwrites the second half of the offset. Aligned, because the checksum runs over
/// whole words.
#[derive(Clone, Debug)]
#[repr(align(8))]
struct AlignedScratch([u8; SCRATCH_LEN]);

/// Where the header starts in the scratch.
const SCRATCH_START: usize = 4;
const SCRATCH_LEN: usize = SCRATCH_START + RECORD_HEADER_LEN + MARK_LEN;

impl EncodedHeader {
    /// The bytes to store in front of the payload.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.words.0[SCRATCH_START..self.end]
    }
}

impl RecordHeader {
    /// Bytes of this header with its mark.
    #[inline]
    pub fn encoded_len(&self) -> usize {
        RECORD_HEADER_LEN + if self.mark.is_some() { MARK_LEN } else { 0 }
    }

    /// Bytes from this record to the next: header, mark, payload and padding.
    #[inline]
    pub fn record_len(&self) -> u64 {
        record_len(self.payload_len as usize, self.mark.is_some())
    }

    /// The last sequence number that this record consumes; the one before its first if it consumes none.
    #[inline]
    pub fn last_seqno(&self) -> SeqNo {
        SeqNo::new((self.first_seqno.get() + u64::from(self.count)).saturating_sub(1))
    }

    /// Encodes the header for a record that starts at `offset` of the segment.
    #[inline]
    pub fn encode(&self, identity: &SegmentIdentity, offset: u64) -> EncodedHeader {
        let mut bytes = [0u8; SCRATCH_LEN];
        bytes[0..8].copy_from_slice(&offset.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.payload_crc.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.payload_len.to_le_bytes());
        bytes[16..20].copy_from_slice(&(identity.log_id.get() as u32).to_le_bytes());
        bytes[20..28].copy_from_slice(&self.first_seqno.get().to_le_bytes());
        bytes[28..32].copy_from_slice(&self.count.to_le_bytes());
        bytes[32] = self.kind as u8;
        bytes[34..36].copy_from_slice(&self.in_flight.to_le_bytes());
        let mut end = SCRATCH_START + RECORD_HEADER_LEN;
        if let Some(mark) = self.mark {
            bytes[33] = FLAG_HAS_MARK;
            bytes[36..44].copy_from_slice(&mark.log_id.get().to_le_bytes());
            bytes[44..52].copy_from_slice(&mark.offset.to_le_bytes());
            end += MARK_LEN;
        }
        let mut words = AlignedScratch(bytes);
        let crc = crc32c_append(identity.seed, &words.0[..end]);
        words.0[SCRATCH_START..8].copy_from_slice(&crc.to_le_bytes());
        EncodedHeader { words, end }
    }

    /// Decodes the header of a record at `offset` of the segment; `bytes` starts there.
    ///
    /// # Errors
    /// Why the bytes are not a record of this segment's present life at this offset.
    pub fn decode(
        bytes: &[u8],
        identity: &SegmentIdentity,
        offset: u64,
    ) -> Result<RecordHeader, HeaderFault> {
        let header = bytes.get(..RECORD_HEADER_LEN).ok_or(HeaderFault::Short)?;
        let mut reader = Reader::new(header);
        let fields = Fields::read(&mut reader).ok_or(HeaderFault::Short)?;
        if fields.log_id_low != identity.log_id.get() as u32 && !planted!(ReplaysStaleRecords) {
            return Err(HeaderFault::ForeignLogId { found: fields.log_id_low });
        }
        let has_mark = fields.flags & FLAG_HAS_MARK != 0;
        let end = RECORD_HEADER_LEN + if has_mark { MARK_LEN } else { 0 };
        let covered = bytes.get(4..end).ok_or(HeaderFault::Short)?;
        let computed = crc32c_append(crc32c_append(identity.seed, &offset.to_le_bytes()), covered);
        if computed != fields.header_crc {
            return Err(HeaderFault::Checksum { stored: fields.header_crc, computed });
        }
        let mark = has_mark.then(|| read_mark(bytes)).flatten();
        fields.into_header(mark)
    }
}

/// The stored fields before validation.
struct Fields {
    header_crc: u32,
    payload_crc: u32,
    len: u32,
    log_id_low: u32,
    first_seqno: u64,
    count: u32,
    kind: u8,
    flags: u8,
    in_flight: u16,
}

impl Fields {
    #[inline]
    fn read(reader: &mut Reader<'_>) -> Option<Fields> {
        Some(Fields {
            header_crc: reader.u32()?,
            payload_crc: reader.u32()?,
            len: reader.u32()?,
            log_id_low: reader.u32()?,
            first_seqno: reader.u64()?,
            count: reader.u32()?,
            kind: reader.u8()?,
            flags: reader.u8()?,
            in_flight: reader.u16()?,
        })
    }

    fn into_header(self, mark: Option<LogPosition>) -> Result<RecordHeader, HeaderFault> {
        let unknown = HeaderFault::Unknown { kind: self.kind, flags: self.flags };
        let kind = RecordKind::from_byte(self.kind).ok_or(unknown)?;
        if self.flags & !FLAG_HAS_MARK != 0 {
            return Err(unknown);
        }
        match self.first_seqno.checked_add(u64::from(self.count)) {
            Some(end) if end <= SeqNo::MAX_STORED.get() => {}
            _ => {
                return Err(HeaderFault::Impossible(
                    "its sequence numbers are greater than any database has",
                ));
            }
        }
        if mark.is_some_and(|mark| mark.log_id > LogId::MAX_STORED) {
            return Err(HeaderFault::Impossible("its mark names a segment that no log has"));
        }
        Ok(RecordHeader {
            payload_crc: self.payload_crc,
            payload_len: self.len,
            first_seqno: SeqNo::new(self.first_seqno),
            count: self.count,
            kind,
            in_flight: self.in_flight,
            mark,
        })
    }
}

fn read_mark(bytes: &[u8]) -> Option<LogPosition> {
    let mut reader = Reader::new(bytes.get(RECORD_HEADER_LEN..)?);
    Some(LogPosition { log_id: LogId(reader.u64()?), offset: reader.u64()? })
}

/// Bytes that a record takes in a segment.
#[inline]
pub fn record_len(payload_len: usize, has_mark: bool) -> u64 {
    let mark = if has_mark { MARK_LEN } else { 0 };
    ((RECORD_HEADER_LEN + mark + payload_len) as u64).next_multiple_of(RECORD_ALIGN)
}

/// The id that a [`RecordKind::SegmentEnd`] names, if its payload is valid.
pub fn decode_segment_end(payload: &[u8]) -> Option<LogId> {
    Some(LogId(u64::from_le_bytes(payload.try_into().ok()?)))
}

#[cfg(test)]
mod tests;
