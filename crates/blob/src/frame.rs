//! Header and footer of a blob file.

use crate::record::DecodeError;
use esker_base::checksum::xxh3_64;
use esker_base::coding::Reader;
use esker_base::{KeyspaceId, TableUid};

/// Bytes of the header.
pub const HEADER_BYTES: usize = 64;
/// Bytes of the footer.
pub const FOOTER_BYTES: usize = 40;
/// The format that this build writes, and the only one.
pub const FORMAT_VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"ESKRBLOB";
const END_MAGIC: [u8; 8] = *b"ESKRBEND";

/// The header: identity of a blob file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobHeader {
    /// The database.
    pub db_uuid: [u8; 16],
    /// Random identity of the file, also in the manifest.
    pub uid: TableUid,
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// Creation time, in milliseconds since 1970.
    pub created_ms: u64,
}

/// The footer: content of a finished file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlobFooter {
    /// Number of records.
    pub records: u64,
    /// Their bytes: they fill the file from the header to the footer.
    pub record_bytes: u64,
    /// Bytes of their values before compression.
    pub value_bytes: u64,
}

impl BlobHeader {
    /// Magic, version (u32), zeros (4), uuid, uid (u64), keyspace (u32), zeros (4), time (u64), XXH3-64.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.db_uuid);
        bytes[32..40].copy_from_slice(&self.uid.get().to_le_bytes());
        bytes[40..44].copy_from_slice(&self.keyspace.get().to_le_bytes());
        bytes[48..56].copy_from_slice(&self.created_ms.to_le_bytes());
        let checksum = xxh3_64(&bytes[..56]);
        bytes[56..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Decodes a header.
    ///
    /// # Errors
    /// [`DecodeError`] for damaged bytes or another version.
    pub fn decode(bytes: &[u8]) -> Result<BlobHeader, DecodeError> {
        let malformed = || DecodeError::Damaged("the header of a blob file is cut off".to_owned());
        let mut reader = Reader::new(bytes);
        if reader.take(8).ok_or_else(malformed)? != MAGIC {
            return Err(DecodeError::Damaged("this is no blob file: it has no header".to_owned()));
        }
        let version = reader.u32().ok_or_else(malformed)?;
        let _zeros = reader.u32().ok_or_else(malformed)?;
        let uuid = reader.take(16).ok_or_else(malformed)?;
        let mut db_uuid = [0; 16];
        db_uuid.copy_from_slice(uuid);
        let uid = TableUid(reader.u64().ok_or_else(malformed)?);
        let keyspace = KeyspaceId(reader.u32().ok_or_else(malformed)?);
        let _zeros = reader.u32().ok_or_else(malformed)?;
        let created_ms = reader.u64().ok_or_else(malformed)?;
        let checksum = reader.u64().ok_or_else(malformed)?;
        if checksum != xxh3_64(&bytes[..56]) {
            return Err(DecodeError::Damaged("the header of the blob file has a wrong checksum".to_owned()));
        }
        if version != FORMAT_VERSION {
            return Err(DecodeError::Unsupported(format!(
                "a blob file of format {version}; this version reads format {FORMAT_VERSION}"
            )));
        }
        Ok(BlobHeader { db_uuid, uid, keyspace, created_ms })
    }
}

impl BlobFooter {
    /// Records, bytes of records, bytes of values (u64 each), XXH3-64 with the file's uid, magic.
    pub fn encode(&self, uid: TableUid) -> [u8; FOOTER_BYTES] {
        let mut bytes = [0; FOOTER_BYTES];
        bytes[..8].copy_from_slice(&self.records.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.record_bytes.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.value_bytes.to_le_bytes());
        let checksum = checksum_of(&bytes[..24], uid);
        bytes[24..32].copy_from_slice(&checksum.to_le_bytes());
        bytes[32..].copy_from_slice(&END_MAGIC);
        bytes
    }

    /// Decodes the footer of the file with this uid.
    ///
    /// # Errors
    /// [`DecodeError`] for damaged bytes, or those of another file.
    pub fn decode(bytes: &[u8], uid: TableUid) -> Result<BlobFooter, DecodeError> {
        let malformed = || DecodeError::Damaged("the footer of a blob file is cut off".to_owned());
        let mut reader = Reader::new(bytes);
        let mut number = || reader.u64().ok_or_else(malformed);
        let footer = BlobFooter { records: number()?, record_bytes: number()?, value_bytes: number()? };
        let checksum = number()?;
        if reader.rest() != END_MAGIC {
            return Err(DecodeError::Damaged(
                "the blob file has no footer: it is cut off or was never finished".to_owned(),
            ));
        }
        if checksum != checksum_of(&bytes[..24], uid) {
            return Err(DecodeError::Damaged("the footer of the blob file has a wrong checksum".to_owned()));
        }
        Ok(footer)
    }
}

fn checksum_of(figures: &[u8], uid: TableUid) -> u64 {
    let mut signed = figures.to_vec();
    signed.extend_from_slice(&uid.get().to_le_bytes());
    xxh3_64(&signed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_read_back_and_every_changed_byte_is_noticed() {
        let header = BlobHeader {
            db_uuid: [7; 16],
            uid: TableUid(99),
            keyspace: KeyspaceId(3),
            created_ms: 1_700_000_000_000,
        };
        let footer = BlobFooter { records: 5, record_bytes: 600, value_bytes: 1000 };
        let (head, foot) = (header.encode(), footer.encode(header.uid));
        assert_eq!(BlobHeader::decode(&head), Ok(header));
        assert_eq!(BlobFooter::decode(&foot, header.uid), Ok(footer));
        assert!(BlobFooter::decode(&foot, TableUid(98)).is_err());
        for at in 0..HEADER_BYTES {
            let mut changed = head;
            changed[at] ^= 1;
            assert!(BlobHeader::decode(&changed).is_err(), "byte {at}");
            assert!(BlobHeader::decode(&head[..at]).is_err(), "cut at {at}");
        }
        for at in 0..FOOTER_BYTES {
            let mut changed = foot;
            changed[at] ^= 1;
            assert!(BlobFooter::decode(&changed, header.uid).is_err(), "byte {at}");
            assert!(BlobFooter::decode(&foot[..at], header.uid).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn another_version_is_refused_by_its_number() {
        let header =
            BlobHeader { db_uuid: [0; 16], uid: TableUid(1), keyspace: KeyspaceId(0), created_ms: 0 };
        let mut bytes = header.encode();
        bytes[8] = 2;
        let checksum = xxh3_64(&bytes[..56]);
        bytes[56..].copy_from_slice(&checksum.to_le_bytes());
        assert!(
            matches!(BlobHeader::decode(&bytes), Err(DecodeError::Unsupported(text)) if text.contains("format 2"))
        );
    }
}
