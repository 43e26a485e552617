//! Reads lengths and strings of a payload. Strings may be integers or compressed.
//!
//! | first byte | then | meaning |
//! |---|---|---|
//! | `00xxxxxx` | | a length below 64 |
//! | `01xxxxxx` | 1 byte | a length below 16,384 |
//! | `0x80`, `0x81` | 4, 8 bytes, big-endian | a length |
//! | `0xc0`, `0xc1`, `0xc2` | 1, 2, 4 bytes, little-endian | a string that is an integer |
//! | `0xc3` | two lengths, bytes | a string compressed by LZF: compressed and plain length |

use super::restore_error::RestoreError;
use crate::corrupt::Corrupt;
use crate::lzf;
use crate::reader::Reader;
use crate::stream::StreamId;
use esker_resp::integer::write_integer;
use std::borrow::Cow;

/// Reads the parts of a payload.
#[derive(Debug)]
pub(super) struct Decoder<'a> {
    reader: Reader<'a>,
    max_decompressed_bytes: usize,
    decompressed_bytes: usize,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(body: &'a [u8], max_decompressed_bytes: usize) -> Self {
        Self { reader: Reader::new(body), max_decompressed_bytes, decompressed_bytes: 0 }
    }

    pub(super) fn corrupt(&self, what: &'static str) -> RestoreError {
        self.reader.corrupt(what).into()
    }

    /// Fails if anything is left.
    pub(super) fn finish(&self) -> Result<(), RestoreError> {
        if self.reader.is_at_end() { Ok(()) } else { Err(self.corrupt("there is more behind the value")) }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.reader.is_at_end()
    }

    pub(super) fn byte(&mut self) -> Result<u8, Corrupt> {
        self.reader.byte()
    }

    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], Corrupt> {
        self.reader.take(len)
    }

    /// A length or another number.
    pub(super) fn number(&mut self) -> Result<u64, Corrupt> {
        let first = self.reader.byte()?;
        Ok(match first {
            0..=0x3f => u64::from(first),
            0x40..=0x7f => u64::from(first & 0x3f) << 8 | u64::from(self.reader.byte()?),
            0x80 => u64::from(u32::from_be_bytes(self.reader.array()?)),
            0x81 => u64::from_be_bytes(self.reader.array()?),
            _ => return Err(self.reader.corrupt("a length has an unknown encoding")),
        })
    }

    /// The number of things that follow, of which there must be one.
    pub(super) fn count(&mut self) -> Result<u64, Corrupt> {
        let count = self.number()?;
        if count == 0 { Err(self.reader.corrupt("a collection is empty")) } else { Ok(count) }
    }

    fn length(&mut self) -> Result<usize, Corrupt> {
        let length = self.number()?;
        usize::try_from(length).map_err(|_| self.reader.corrupt("a length is beyond all memory"))
    }

    /// A string.
    pub(super) fn string(&mut self) -> Result<Cow<'a, [u8]>, RestoreError> {
        let integer = match self.reader.peek()? {
            0xc0 => i64::from(self.reader.array::<2>()?[1] as i8),
            0xc1 => {
                self.reader.byte()?;
                i64::from(self.reader.u16_le()? as i16)
            }
            0xc2 => {
                self.reader.byte()?;
                i64::from(self.reader.u32_le()? as i32)
            }
            0xc3 => {
                self.reader.byte()?;
                return self.compressed().map(Cow::Owned);
            }
            _ => {
                let len = self.length()?;
                return Ok(Cow::Borrowed(self.reader.take(len)?));
            }
        };
        let mut text = Vec::new();
        write_integer(integer, &mut text);
        Ok(Cow::Owned(text))
    }

    fn compressed(&mut self) -> Result<Vec<u8>, RestoreError> {
        let compressed_len = self.length()?;
        let len = self.length()?;
        let compressed = self.reader.take(compressed_len)?;
        self.expand(len)?;
        Ok(lzf::decompress(compressed, len)?)
    }

    /// Counts bytes of a value that its payload does not have one by one.
    pub(super) fn expand(&mut self, bytes: usize) -> Result<(), RestoreError> {
        if bytes > self.max_decompressed_bytes - self.decompressed_bytes {
            return Err(RestoreError::TooLarge { max_decompressed_bytes: self.max_decompressed_bytes });
        }
        self.decompressed_bytes += bytes;
        Ok(())
    }

    /// A time in milliseconds since 1970.
    pub(super) fn milliseconds(&mut self) -> Result<i64, Corrupt> {
        self.reader.i64_le()
    }

    /// A score of eight bytes.
    pub(super) fn double(&mut self) -> Result<f64, Corrupt> {
        Ok(f64::from_le_bytes(self.reader.array()?))
    }

    /// A stream id of two numbers.
    pub(super) fn id(&mut self) -> Result<StreamId, Corrupt> {
        Ok(StreamId { milliseconds: self.number()?, sequence: self.number()? })
    }

    /// A stream id of sixteen bytes.
    pub(super) fn raw_id(&mut self) -> Result<StreamId, Corrupt> {
        Ok(StreamId::from_be_bytes(self.reader.array()?))
    }
}
