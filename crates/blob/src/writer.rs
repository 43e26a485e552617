//! Blob writer: writes a blob file, value by value.
//!
//! When the buffer of a mebibyte is full, it is written and its write-back started, so that the final sync,
//! which cannot be interrupted, has little left. The file is complete and durable when [`BlobWriter::finish`]
//! returns; the caller makes its name durable.

use crate::frame::{BlobFooter, BlobHeader, FOOTER_BYTES, HEADER_BYTES};
use crate::pointer::BlobPointer;
use crate::record;
use esker_base::limits::{MAX_KEY_LEN, MAX_VALUE_LEN};
use esker_base::{Error, FileNumber, Result, large_buffer};
use esker_codec::Codec;
use esker_env::{File, MemoryLedger};
use std::sync::Arc;

/// Bytes collected before they are written and sent to the device: a millisecond of its work.
const WRITE_BYTES: usize = 1 << 20;

/// Options of a new file.
#[derive(Clone, Copy, Debug)]
pub struct BlobOptions {
    /// Its number, which pointers carry.
    pub number: FileNumber,
    /// Its header.
    pub header: BlobHeader,
    /// Compression of values, used where it saves enough.
    pub codec: Codec,
}

/// Summary of a finished file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobSummary {
    /// Length of the file.
    pub file_bytes: u64,
    /// Its footer.
    pub footer: BlobFooter,
}

/// Writes one blob file.
#[derive(Debug)]
pub struct BlobWriter {
    file: Arc<dyn File>,
    options: BlobOptions,
    footer: BlobFooter,
    out: Vec<u8>,
    /// Bytes of the file written already; `out` follows them.
    written_bytes: u64,
    scratch: Vec<u8>,
    /// Where large values wait for their turn.
    memory: Option<Arc<MemoryLedger>>,
}

impl BlobWriter {
    /// Starts an empty file.
    pub fn new(file: Arc<dyn File>, options: BlobOptions) -> BlobWriter {
        let mut out = Vec::with_capacity(WRITE_BYTES + (64 << 10));
        out.extend_from_slice(&options.header.encode());
        BlobWriter {
            file,
            options,
            footer: BlobFooter::default(),
            out,
            written_bytes: 0,
            scratch: Vec::new(),
            memory: None,
        }
    }

    /// Sets where large values wait for their turn.
    #[must_use]
    pub fn counted_in(self, memory: &Arc<MemoryLedger>) -> BlobWriter {
        BlobWriter { memory: Some(Arc::clone(memory)), ..self }
    }

    /// Adds the value of a key; returns the pointer to it.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if key or value is too long, and errors of writing.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<BlobPointer> {
        if key.len() > MAX_KEY_LEN || value.len() > MAX_VALUE_LEN {
            let (key, value) = (key.len(), value.len());
            return Err(Error::invalid(format!(
                "a key of {key} bytes and a value of {value} bytes are too long for a blob"
            )));
        }
        let offset = self.file_bytes();
        let checksum = if value.len() >= large_buffer::LARGE_BYTES {
            self.write_large(key, value)?
        } else {
            record::encode(key, value, self.options.codec, &mut self.scratch, &mut self.out)
        };
        let record_bytes = self.file_bytes() - offset;
        self.footer.records += 1;
        self.footer.record_bytes += record_bytes;
        self.footer.value_bytes += value.len() as u64;
        if self.out.len() >= WRITE_BYTES {
            self.write_out()?;
        }
        Ok(BlobPointer {
            file: self.options.number,
            offset,
            // Key and value are within their limits, so their sum is far below 2^32.
            record_bytes: record_bytes as u32,
            value_bytes: value.len() as u32,
            check: checksum as u32,
        })
    }

    /// Bytes of the file so far, without the footer.
    #[inline]
    pub fn file_bytes(&self) -> u64 {
        self.written_bytes + self.out.len() as u64
    }

    /// Writes the footer and makes the file durable.
    pub fn finish(mut self) -> Result<BlobSummary> {
        debug_assert_eq!(self.file_bytes(), HEADER_BYTES as u64 + self.footer.record_bytes);
        self.out.extend_from_slice(&self.footer.encode(self.options.header.uid));
        self.write_out()?;
        self.file.sync_all()?;
        debug_assert!(self.written_bytes >= (HEADER_BYTES + FOOTER_BYTES) as u64);
        Ok(BlobSummary { file_bytes: self.written_bytes, footer: self.footer })
    }

    /// Writes a record from where its value, or the compressed value, is; returns its checksum.
    #[cold]
    fn write_large(&mut self, key: &[u8], value: &[u8]) -> Result<u64> {
        let turn = self.memory.as_ref().map(|memory| memory.large_values.wait_for_turn(value.len() as u64));
        let mut scratch = std::mem::take(&mut self.scratch);
        let (checksum, stored) =
            record::encode_head(key, value, self.options.codec, &mut scratch, &mut self.out);
        self.write_out()?;
        for piece in stored.chunks(WRITE_BYTES) {
            self.file.write_at(piece, self.written_bytes)?;
            self.file.begin_write_back(self.written_bytes, piece.len() as u64);
            self.written_bytes += piece.len() as u64;
        }
        drop((scratch, turn));
        Ok(checksum)
    }

    fn write_out(&mut self) -> Result<()> {
        self.file.write_at(&self.out, self.written_bytes)?;
        if self.out.len() >= WRITE_BYTES {
            self.file.begin_write_back(self.written_bytes, self.out.len() as u64);
        }
        self.written_bytes += self.out.len() as u64;
        self.out.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::{KeyspaceId, TableUid};
    use esker_env::fault::StrictFs;
    use esker_env::{FileSystem, FileWrapper, OpenMode};
    use std::path::Path;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A file that counts the bytes whose write-back has not begun.
    #[derive(Debug)]
    struct CountingFile {
        file: Arc<dyn File>,
        unsent_bytes: AtomicU64,
    }

    impl FileWrapper for CountingFile {
        fn below(&self) -> &dyn File {
            &*self.file
        }

        fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
            self.unsent_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            self.file.write_at(bytes, offset)
        }

        fn begin_write_back(&self, _: u64, len: u64) {
            self.unsent_bytes.fetch_sub(len, Ordering::Relaxed);
        }
    }

    #[test]
    fn little_is_left_for_the_sync() {
        let file = StrictFs::new().open(Path::new("b.blob"), OpenMode::CreateOrTruncate).unwrap();
        let file = Arc::new(CountingFile { file, unsent_bytes: AtomicU64::new(0) });
        let header =
            BlobHeader { db_uuid: [1; 16], uid: TableUid(5), keyspace: KeyspaceId(2), created_ms: 9 };
        let options = BlobOptions { number: FileNumber(7), header, codec: Codec::None };
        let mut writer = BlobWriter::new(Arc::clone(&file) as Arc<dyn File>, options);
        for key in 0..50u64 {
            writer.add(&key.to_be_bytes(), &vec![7; 100_000]).unwrap();
        }
        let bytes = writer.finish().unwrap().file_bytes;
        let left = file.unsent_bytes.load(Ordering::Relaxed);
        assert!(bytes > 4 << 20 && left < WRITE_BYTES as u64, "{left} of {bytes} bytes");
    }
}
