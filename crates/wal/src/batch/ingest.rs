//! Ingest records: the table files that an ingest adds to a keyspace.

use super::entry::BatchDamage;
use esker_base::coding::{Reader, put_varint};
use esker_base::{FileNumber, KeyspaceId, TableUid};

/// A table file that an Ingest record adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IngestedFile {
    /// The file's number.
    pub number: FileNumber,
    /// The file's length in bytes.
    pub size_bytes: u64,
    /// The identity written inside it.
    pub uid: TableUid,
}

/// The contents of an Ingest record:
/// `keyspace varint | files varint | (number varint, size varint, uid u64)*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ingest {
    /// The keyspace that the files join.
    pub keyspace: KeyspaceId,
    /// The files, in the order of their keys.
    pub files: Vec<IngestedFile>,
}

impl Ingest {
    /// Appends the payload of an Ingest record.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.keyspace.get()));
        put_varint(out, self.files.len() as u64);
        for file in &self.files {
            put_varint(out, file.number.get());
            put_varint(out, file.size_bytes);
            out.extend_from_slice(&file.uid.get().to_le_bytes());
        }
    }

    /// Decodes the payload of an Ingest record.
    ///
    /// # Errors
    /// The offset and kind of the first mismatch, trailing bytes included.
    pub fn decode(payload: &[u8]) -> Result<Ingest, BatchDamage> {
        let mut reader = Reader::new(payload);
        let ingest = Ingest::read(&mut reader);
        match ingest {
            Some(ingest) if reader.is_empty() => Ok(ingest),
            Some(_) => Err(BatchDamage { offset: reader.position(), reason: "bytes follow the last file" }),
            None => Err(BatchDamage { offset: reader.position(), reason: "the list of files is cut off" }),
        }
    }

    fn read(reader: &mut Reader<'_>) -> Option<Ingest> {
        /// One byte each for number and size, eight for the uid.
        const SMALLEST_FILE: usize = 10;
        let keyspace = KeyspaceId(reader.varint_u32()?);
        let count = reader.varint_u32()? as usize;
        if count > reader.remaining() / SMALLEST_FILE {
            return None;
        }
        let mut files = Vec::with_capacity(count);
        for _ in 0..count {
            let number = FileNumber(reader.varint()?);
            files.push(IngestedFile { number, size_bytes: reader.varint()?, uid: TableUid(reader.u64()?) });
        }
        Some(Ingest { keyspace, files })
    }
}
