//! Frame of a manifest file: header, records, and the state of its tail (`docs/format/manifest.md`).

use crate::state::DatabaseUuid;
use esker_base::FileNumber;
use esker_base::checksum::{crc32c, crc32c_append};
use esker_base::coding::Reader;

/// Bytes of the header, in every format.
pub const HEADER_LEN: usize = 64;
/// Bytes before a record's payload: checksum, length, edit number.
pub const RECORD_HEADER_LEN: usize = 16;
/// Records start at multiples of this.
pub const RECORD_ALIGN: usize = 8;
/// The format that this version reads and writes.
pub const FORMAT: u32 = 1;

const MAGIC: &[u8; 8] = b"ESKRMAN1";
/// The checksum covers everything before it.
const CRC_AT: usize = HEADER_LEN - 4;

/// The header of a manifest file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManifestHeader {
    /// The format of everything behind the header.
    pub format: u32,
    /// The database it belongs to.
    pub uuid: DatabaseUuid,
    /// Its own file number.
    pub number: FileNumber,
    /// Random; part of every record's checksum, so that bytes of another file are never taken for a record.
    pub salt: u64,
}

/// Why a header cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// The bytes are not a manifest header.
    Damaged(&'static str),
    /// A newer version wrote the file.
    Newer(u32),
}

impl ManifestHeader {
    /// Encodes the header.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[0..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&self.format.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.uuid);
        bytes[32..40].copy_from_slice(&self.number.get().to_le_bytes());
        bytes[40..48].copy_from_slice(&self.salt.to_le_bytes());
        let crc = crc32c(&bytes[..CRC_AT]);
        bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes a header.
    ///
    /// # Errors
    /// [`HeaderError`]. The checksum is verified before the format is checked, so that damage is not taken
    /// for a newer version.
    pub fn decode(bytes: &[u8]) -> Result<ManifestHeader, HeaderError> {
        let header =
            bytes.get(..HEADER_LEN).ok_or(HeaderError::Damaged("the file ends inside its header"))?;
        if !header.starts_with(MAGIC) {
            return Err(HeaderError::Damaged("it has no header of a manifest"));
        }
        if header[CRC_AT..] != crc32c(&header[..CRC_AT]).to_le_bytes() {
            return Err(HeaderError::Damaged("the header's checksum does not match"));
        }
        match Self::decode_fields(header) {
            Some(header) if header.format == FORMAT => Ok(header),
            Some(header) if header.format > FORMAT => Err(HeaderError::Newer(header.format)),
            _ => Err(HeaderError::Damaged("no version ever had this format")),
        }
    }

    fn decode_fields(header: &[u8]) -> Option<ManifestHeader> {
        let mut reader = Reader::new(header);
        reader.take(MAGIC.len())?;
        let format = reader.u32()?;
        reader.take(4)?;
        let uuid = reader.take(16)?.try_into().ok()?;
        Some(ManifestHeader { format, uuid, number: FileNumber(reader.u64()?), salt: reader.u64()? })
    }
}

/// Appends a record, padded to [`RECORD_ALIGN`]. `false`, with nothing appended, if the payload is too long.
pub(crate) fn encode_record(out: &mut Vec<u8>, salt: u64, edit_no: u64, payload: &[u8]) -> bool {
    let Ok(len) = u32::try_from(payload.len()) else { return false };
    let crc = record_crc(salt, len, edit_no, payload);
    out.extend_from_slice(&crc.to_le_bytes());
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&edit_no.to_le_bytes());
    out.extend_from_slice(payload);
    out.resize(out.len().next_multiple_of(RECORD_ALIGN), 0);
    true
}

fn record_crc(salt: u64, len: u32, edit_no: u64, payload: &[u8]) -> u32 {
    let crc = crc32c(&salt.to_le_bytes());
    let crc = crc32c_append(crc, &len.to_le_bytes());
    let crc = crc32c_append(crc, &edit_no.to_le_bytes());
    crc32c_append(crc, payload)
}

/// A record whose checksum matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawRecord<'a> {
    /// Where it starts in the file.
    pub offset: u64,
    /// Its number.
    pub edit_no: u64,
    /// The encoded edit.
    pub payload: &'a [u8],
}

impl RawRecord<'_> {
    fn end(&self) -> usize {
        (self.offset as usize + RECORD_HEADER_LEN + self.payload.len()).next_multiple_of(RECORD_ALIGN)
    }
}

/// How the records of a file end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// After a whole record; what follows, if anything, is zero.
    Clean,
    /// With this many bytes of a record that was being written at a power failure: it is ignored.
    Torn {
        /// Where the bytes begin.
        offset: u64,
        /// Their number.
        bytes: u64,
    },
    /// A bad record before a good one. At most one record is ever unsynced, so it was durable once.
    Damaged {
        /// Where the bad record begins.
        offset: u64,
        /// Where the good one begins.
        valid_at: u64,
    },
}

/// Iterator over the records in a manifest's bytes.
#[derive(Clone, Debug)]
pub struct RawRecords<'a> {
    bytes: &'a [u8],
    salt: u64,
    at: usize,
    last_edit: Option<u64>,
}

impl<'a> RawRecords<'a> {
    /// The records of a whole file, whose header has this salt.
    pub fn new(bytes: &'a [u8], salt: u64) -> RawRecords<'a> {
        RawRecords { bytes, salt, at: HEADER_LEN, last_edit: None }
    }

    /// Offset behind the last record.
    pub fn offset(&self) -> u64 {
        self.at as u64
    }

    fn record_at(&self, at: usize) -> Option<RawRecord<'a>> {
        let mut reader = Reader::new(self.bytes.get(at..)?);
        let (crc, len, edit_no) = (reader.u32()?, reader.u32()?, reader.u64()?);
        let payload = reader.take(usize::try_from(len).ok()?)?;
        let matches = crc == record_crc(self.salt, len, edit_no, payload);
        matches.then_some(RawRecord { offset: at as u64, edit_no, payload })
    }

    /// What lies behind the last record. O(bytes left), each checked as the start of a record.
    pub fn tail(&self) -> Tail {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        if rest.iter().all(|&byte| byte == 0) {
            return Tail::Clean;
        }
        let offset = self.at as u64;
        // Possible numbers of a later record; any, if the first record is bad.
        let (least, most) = self.last_edit.map_or((0, u64::MAX), |last| {
            let least = last.saturating_add(1);
            (least, least.saturating_add((rest.len() / RECORD_HEADER_LEN) as u64))
        });
        let starts = (self.at + RECORD_ALIGN..self.bytes.len()).step_by(RECORD_ALIGN);
        let valid = starts
            .filter(|&at| {
                // The number is a cheap filter before the checksum.
                let number = self.bytes.get(at + 8..at + 16).and_then(|bytes| bytes.try_into().ok());
                number.is_some_and(|bytes| (least..=most).contains(&u64::from_le_bytes(bytes)))
            })
            .find_map(|at| self.record_at(at));
        match valid {
            Some(record) => Tail::Damaged { offset, valid_at: record.offset },
            None => Tail::Torn { offset, bytes: rest.len() as u64 },
        }
    }
}

impl<'a> Iterator for RawRecords<'a> {
    type Item = RawRecord<'a>;

    /// The next record; `None` at the first offset without one: [`RawRecords::tail`] tells why.
    fn next(&mut self) -> Option<RawRecord<'a>> {
        let record = self.record_at(self.at)?;
        if self.last_edit.is_some_and(|last| Some(record.edit_no) != last.checked_add(1)) {
            return None;
        }
        self.last_edit = Some(record.edit_no);
        self.at = record.end();
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_of(payloads: &[&[u8]]) -> Vec<u8> {
        let header = ManifestHeader { format: FORMAT, uuid: [3; 16], number: FileNumber(7), salt: 99 };
        let mut bytes = header.encode().to_vec();
        for (at, payload) in payloads.iter().enumerate() {
            assert!(encode_record(&mut bytes, 99, 5 + at as u64, payload));
        }
        bytes
    }

    fn read(bytes: &[u8]) -> (Vec<u64>, Tail) {
        let mut records = RawRecords::new(bytes, 99);
        let numbers = records.by_ref().map(|record| record.edit_no).collect();
        (numbers, records.tail())
    }

    #[test]
    fn headers_notice_every_flipped_bit() {
        let bytes = file_of(&[]);
        assert_eq!(ManifestHeader::decode(&bytes).unwrap().number, FileNumber(7));
        for at in 0..HEADER_LEN {
            assert!(ManifestHeader::decode(&bytes[..at]).is_err());
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                assert!(
                    matches!(ManifestHeader::decode(&flipped), Err(HeaderError::Damaged(_))),
                    "byte {at}"
                );
            }
        }
        for (format, error) in
            [(2, HeaderError::Newer(2)), (0, HeaderError::Damaged("no version ever had this format"))]
        {
            let header = ManifestHeader { format, ..ManifestHeader::decode(&bytes).unwrap() };
            assert_eq!(ManifestHeader::decode(&header.encode()), Err(error));
        }
    }

    #[test]
    fn every_length_is_cut_at_the_last_whole_record() {
        let bytes = file_of(&[b"first", b"second payload", b""]);
        let ends = [64, 64 + 24, 64 + 24 + 32, 64 + 24 + 32 + 16];
        for len in HEADER_LEN..=bytes.len() {
            let (numbers, tail) = read(&bytes[..len]);
            // The padding behind a record is not needed.
            let whole = [64 + 16 + 5, 88 + 16 + 14, 120 + 16].iter().filter(|end| **end <= len).count();
            assert_eq!(numbers.len(), whole, "length {len}");
            let torn = len > ends[whole];
            assert_eq!(matches!(tail, Tail::Torn { .. }), torn, "length {len}: {tail:?}");
        }
        let (numbers, tail) = read(&[&bytes[..], &[0; 100]].concat());
        assert_eq!((numbers, tail), (vec![5, 6, 7], Tail::Clean));
    }

    #[test]
    fn a_bad_record_before_a_good_one_is_damage() {
        let bytes = file_of(&[b"first", b"second payload", b"third"]);
        for at in HEADER_LEN..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                let (numbers, tail) = read(&flipped);
                let record = [88, 120].iter().filter(|start| at >= **start).count();
                let padding = flipped != bytes && (85..88).contains(&at)
                    || (118..120).contains(&at)
                    || at >= 120 + 16 + 5;
                if padding {
                    assert_eq!(numbers, [5, 6, 7], "byte {at}");
                } else if record < 2 {
                    assert!(matches!(tail, Tail::Damaged { .. }), "byte {at} bit {bit}: {tail:?}");
                } else {
                    assert_eq!(numbers, [5, 6]);
                    assert!(matches!(tail, Tail::Torn { offset: 120, .. }), "byte {at} bit {bit}: {tail:?}");
                }
            }
        }
    }

    #[test]
    fn numbers_must_follow_each_other_and_salts_must_match() {
        let mut bytes = file_of(&[b"first"]);
        encode_record(&mut bytes, 99, 7, b"skips one");
        assert_eq!(read(&bytes).0, [5]);
        let mut bytes = file_of(&[b"first"]);
        encode_record(&mut bytes, 98, 6, b"of another file");
        assert_eq!(read(&bytes), (vec![5], Tail::Torn { offset: 88, bytes: 32 }));
    }
}
