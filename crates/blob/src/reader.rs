//! Blob reader: reads one value by its pointer, or verifies and scans a whole file.

use crate::frame::{BlobFooter, BlobHeader, FOOTER_BYTES, HEADER_BYTES};
use crate::pointer::BlobPointer;
use crate::record::{self, DecodeError, MAX_HEAD_BYTES, Record};
use esker_base::{Error, KeyspaceId, Result, TableUid, large_buffer};
use esker_env::File;
use std::sync::Arc;

/// What the manifest says about a file, to detect a swapped one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedBlob {
    /// Its length.
    pub file_bytes: u64,
    /// Its uid.
    pub uid: TableUid,
    /// Its keyspace.
    pub keyspace: KeyspaceId,
}

/// What [`BlobReader::scan`] read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlobScan {
    /// Records with right checksums.
    pub records: u64,
    /// Their bytes.
    pub record_bytes: u64,
    /// Bytes of their values before compression.
    pub value_bytes: u64,
}

/// An open blob file.
#[derive(Debug)]
pub struct BlobReader {
    file: Arc<dyn File>,
    /// Offset of the footer.
    end: u64,
    header: BlobHeader,
}

impl BlobReader {
    /// Opens a file that the manifest knows; reads its header.
    ///
    /// # Errors
    /// [`Error::Corruption`] if it is another file, [`Error::Unsupported`] if a newer version wrote it.
    pub fn open(file: Arc<dyn File>, expected: ExpectedBlob) -> Result<BlobReader> {
        let reader = BlobReader::open_any(file, expected.file_bytes)?;
        let header = &reader.header;
        if header.uid == expected.uid && header.keyspace == expected.keyspace {
            return Ok(reader);
        }
        let detail = format!(
            "the manifest says uid {:016x} of keyspace {}, the file says {:016x} of keyspace {}",
            expected.uid.get(),
            expected.keyspace,
            header.uid.get(),
            header.keyspace
        );
        Err(Error::corruption(reader.file.path(), None, detail))
    }

    /// Opens any blob file of this length.
    ///
    /// # Errors
    /// As [`BlobReader::open`].
    pub fn open_any(file: Arc<dyn File>, file_bytes: u64) -> Result<BlobReader> {
        let end = file_bytes.checked_sub(FOOTER_BYTES as u64).filter(|end| *end >= HEADER_BYTES as u64);
        let end = end.ok_or_else(|| {
            Error::corruption(file.path(), None, format!("{file_bytes} bytes are too few for a blob file"))
        })?;
        let mut bytes = [0; HEADER_BYTES];
        file.read_exact_at(&mut bytes, 0)?;
        let header = BlobHeader::decode(&bytes).map_err(|error| error_of(&*file, 0, error))?;
        Ok(BlobReader { file, end, header })
    }

    /// The file's header.
    pub fn header(&self) -> &BlobHeader {
        &self.header
    }

    /// Replaces the content of `out` by the value of `pointer`. One positioned read; verifies the checksum,
    /// and that the record is the one the pointer was made for and belongs to `key`.
    ///
    /// # Errors
    /// [`Error::Corruption`] with file and offset; `out` is empty then.
    pub fn read(&self, key: &[u8], pointer: &BlobPointer, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        let offset = pointer.offset;
        let fits = offset.checked_add(pointer.record_bytes.into()).is_some_and(|end| end <= self.end);
        if offset < HEADER_BYTES as u64 || !fits {
            let detail = format!(
                "a pointer leads to {} bytes there, but records lie between {HEADER_BYTES} and {}",
                pointer.record_bytes, self.end
            );
            return Err(Error::corruption(self.file.path(), offset, detail));
        }
        let mut bytes = large_buffer::zeroed(pointer.record_bytes as usize);
        self.file.read_exact_at(&mut bytes, offset)?;
        let record = Record::decode(&bytes).map_err(|error| error_of(&*self.file, offset, error))?;
        let is_meant = record.checksum as u32 == pointer.check
            && record.value_len == pointer.value_bytes as usize
            && record.key == key;
        if !is_meant {
            let detail = format!(
                "the record there belongs to key {} and has {} bytes of value, a pointer of key {} says {}",
                record.key.escape_ascii(),
                record.value_len,
                key.escape_ascii(),
                pointer.value_bytes
            );
            return Err(Error::corruption(self.file.path(), offset, detail));
        }
        if record.codec_id == esker_codec::id::NONE {
            // The usual case needs no second buffer: the value is the tail of the bytes that were read.
            let from = bytes.len() - record.value_len;
            bytes.drain(..from);
            *out = bytes;
            return Ok(());
        }
        record.read_value(out).map_err(|error| error_of(&*self.file, offset, error))
    }

    /// Reads all records in order and verifies each of them, that they fill the file, and that the footer
    /// agrees. `each` gets the offset, the record and its value.
    ///
    /// # Errors
    /// The first damage, with file and offset, or the error of `each`.
    pub fn scan(&self, mut each: impl FnMut(u64, &Record<'_>, &[u8]) -> Result<()>) -> Result<BlobScan> {
        let mut value = Vec::new();
        self.walk(|at, record| {
            record.read_value(&mut value).map_err(|error| error_of(&*self.file, at, error))?;
            each(at, record, &value)
        })
    }

    /// As [`BlobReader::scan`], without decompressing values: verifies the checksums of the file.
    ///
    /// # Errors
    /// The first damage, with file and offset.
    pub fn verify_checksums(&self) -> Result<BlobScan> {
        self.walk(|_, _| Ok(()))
    }

    fn walk(&self, mut each: impl FnMut(u64, &Record<'_>) -> Result<()>) -> Result<BlobScan> {
        let mut scanned = BlobScan::default();
        let mut bytes = Vec::new();
        let mut at = HEADER_BYTES as u64;
        while at < self.end {
            let left = usize::try_from(self.end - at).unwrap_or(usize::MAX);
            bytes.resize(left.min(MAX_HEAD_BYTES), 0);
            self.file.read_exact_at(&mut bytes, at)?;
            let len = record::length_of(&bytes).filter(|len| *len <= left).ok_or_else(|| {
                Error::corruption(self.file.path(), at, "no record begins here, or it overlaps the footer")
            })?;
            large_buffer::resize(&mut bytes, len);
            self.file.read_exact_at(&mut bytes, at)?;
            let record = Record::decode(&bytes).map_err(|error| error_of(&*self.file, at, error))?;
            each(at, &record)?;
            scanned.records += 1;
            scanned.record_bytes += len as u64;
            scanned.value_bytes += record.value_len as u64;
            at += len as u64;
        }
        self.compare_footer(scanned)
    }

    /// The scan, if the footer says the same.
    fn compare_footer(&self, scanned: BlobScan) -> Result<BlobScan> {
        let mut bytes = [0; FOOTER_BYTES];
        self.file.read_exact_at(&mut bytes, self.end)?;
        let footer = BlobFooter::decode(&bytes, self.header.uid)
            .map_err(|error| error_of(&*self.file, self.end, error))?;
        let found = BlobFooter {
            records: scanned.records,
            record_bytes: scanned.record_bytes,
            value_bytes: scanned.value_bytes,
        };
        if footer == found {
            return Ok(scanned);
        }
        let detail = format!("the footer says {footer:?}, the records are {found:?}");
        Err(Error::corruption(self.file.path(), self.end, detail))
    }
}

fn error_of(file: &dyn File, offset: u64, error: DecodeError) -> Error {
    match error {
        DecodeError::Damaged(detail) => Error::corruption(file.path(), offset, detail),
        DecodeError::Unsupported(detail) => {
            Error::Unsupported(format!("{} at byte {offset}: {detail}", file.path().display()).into())
        }
    }
}

#[cfg(test)]
mod tests;
