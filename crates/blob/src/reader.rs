//! Reading a blob file: one value by its pointer, or everything in it.

use crate::frame::{BlobFooter, BlobHeader, FOOTER_BYTES, HEADER_BYTES};
use crate::pointer::BlobPointer;
use crate::record::{self, Flaw, MAX_HEAD_BYTES, Record};
use esker_base::{Error, KeyspaceId, Result, TableUid};
use esker_env::File;
use std::sync::Arc;

/// What a file must say of itself to be the one that is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobCheck {
    /// Its length.
    pub file_bytes: u64,
    /// Its uid.
    pub uid: TableUid,
    /// Its keyspace.
    pub keyspace: KeyspaceId,
}

/// What [`BlobReader::scan`] read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// Records whose checksums were right.
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
    /// Where the footer begins.
    end: u64,
    header: BlobHeader,
}

impl BlobReader {
    /// Opens a file that is known to the manifest. Reads its header.
    ///
    /// # Errors
    /// [`Error::Corruption`] if it is another file, [`Error::Unsupported`] if a newer version wrote it.
    pub fn open(file: Arc<dyn File>, expected: BlobCheck) -> Result<BlobReader> {
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

    /// Opens a file of which nothing is known but its length.
    ///
    /// # Errors
    /// As [`BlobReader::open`].
    pub fn open_any(file: Arc<dyn File>, file_bytes: u64) -> Result<BlobReader> {
        let end = file_bytes.checked_sub(FOOTER_BYTES as u64).filter(|end| *end >= HEADER_BYTES as u64);
        let end = end.ok_or_else(|| {
            Error::corruption(file.path(), None, format!("a blob file has no room in {file_bytes} bytes"))
        })?;
        let mut bytes = [0; HEADER_BYTES];
        file.read_exact_at(&mut bytes, 0)?;
        let header = BlobHeader::decode(&bytes).map_err(|flaw| error_of(&*file, 0, flaw))?;
        Ok(BlobReader { file, end, header })
    }

    /// What the file says of itself.
    pub fn header(&self) -> &BlobHeader {
        &self.header
    }

    /// Puts the value that `pointer` leads to into `out`, in place of what that held. One positioned read;
    /// the checksum is verified, and that it is the record that was meant and belongs to `key`.
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
        let mut bytes = vec![0; pointer.record_bytes as usize];
        self.file.read_exact_at(&mut bytes, offset)?;
        let record = Record::decode(&bytes).map_err(|flaw| error_of(&*self.file, offset, flaw))?;
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
            // The usual case needs no second buffer: the value is the tail of what was read.
            let from = bytes.len() - record.value_len;
            bytes.drain(..from);
            *out = bytes;
            return Ok(());
        }
        record.read_value(out).map_err(|flaw| error_of(&*self.file, offset, flaw))
    }

    /// Reads all records in order and checks everything that can be checked: each record, that they fill the
    /// file, and that the footer speaks of them. `each` gets the offset, the record and its value.
    ///
    /// # Errors
    /// The first damage, with file and offset, or what `each` answers.
    pub fn scan(&self, mut each: impl FnMut(u64, &Record<'_>, &[u8]) -> Result<()>) -> Result<Scanned> {
        let mut scanned = Scanned::default();
        let (mut bytes, mut value) = (Vec::new(), Vec::new());
        let mut at = HEADER_BYTES as u64;
        while at < self.end {
            let left = usize::try_from(self.end - at).unwrap_or(usize::MAX);
            bytes.resize(left.min(MAX_HEAD_BYTES), 0);
            self.file.read_exact_at(&mut bytes, at)?;
            let len = record::length_of(&bytes).filter(|len| *len <= left).ok_or_else(|| {
                Error::corruption(self.file.path(), at, "no record begins here, or it runs into the footer")
            })?;
            bytes.resize(len, 0);
            self.file.read_exact_at(&mut bytes, at)?;
            let flawed = |flaw| error_of(&*self.file, at, flaw);
            let record = Record::decode(&bytes).map_err(flawed)?;
            record.read_value(&mut value).map_err(flawed)?;
            each(at, &record, &value)?;
            scanned.records += 1;
            scanned.record_bytes += len as u64;
            scanned.value_bytes += value.len() as u64;
            at += len as u64;
        }
        let mut bytes = [0; FOOTER_BYTES];
        self.file.read_exact_at(&mut bytes, self.end)?;
        let footer = BlobFooter::decode(&bytes, self.header.uid)
            .map_err(|flaw| error_of(&*self.file, self.end, flaw))?;
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

fn error_of(file: &dyn File, offset: u64, flaw: Flaw) -> Error {
    match flaw {
        Flaw::Damaged(detail) => Error::corruption(file.path(), offset, detail),
        Flaw::Unsupported(detail) => {
            Error::Unsupported(format!("{} at byte {offset}: {detail}", file.path().display()).into())
        }
    }
}

#[cfg(test)]
mod tests;
