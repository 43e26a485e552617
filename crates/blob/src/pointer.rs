//! Blob pointer: what a table stores in place of a large value.

use esker_base::FileNumber;
use esker_base::coding::{Reader, put_varint};

/// Points to the record of a value.
///
/// Encoded as file number, offset, length of the record and length of the value as varints, then the lower
/// half of the record's checksum, 4 bytes little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobPointer {
    /// The blob file.
    pub file: FileNumber,
    /// Offset of the record in the file.
    pub offset: u64,
    /// Bytes of the whole record.
    pub record_bytes: u32,
    /// Bytes of the value before compression.
    pub value_bytes: u32,
    /// The lower half of the record's checksum, which identifies the record among all that may ever lie
    /// there.
    pub check: u32,
}

impl BlobPointer {
    /// Appends the encoded pointer.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.file.get());
        put_varint(out, self.offset);
        put_varint(out, self.record_bytes.into());
        put_varint(out, self.value_bytes.into());
        out.extend_from_slice(&self.check.to_le_bytes());
    }

    /// Decodes a pointer; `None` if the bytes are not exactly one.
    pub fn decode(bytes: &[u8]) -> Option<BlobPointer> {
        let mut reader = Reader::new(bytes);
        let pointer = BlobPointer {
            file: FileNumber(reader.varint()?),
            offset: reader.varint()?,
            record_bytes: reader.varint_u32()?,
            value_bytes: reader.varint_u32()?,
            check: reader.u32()?,
        };
        reader.is_empty().then_some(pointer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_encoded_pointers_decode() {
        for (file, offset, len) in [(0, 64, 1), (7, 1 << 20, 4200), (u64::MAX, u64::MAX, u32::MAX)] {
            let pointer = BlobPointer {
                file: FileNumber(file),
                offset,
                record_bytes: len,
                value_bytes: len / 2,
                check: 0x0102_0304,
            };
            let mut bytes = Vec::new();
            pointer.encode(&mut bytes);
            assert_eq!(BlobPointer::decode(&bytes), Some(pointer));
            for cut in 0..bytes.len() {
                assert_eq!(BlobPointer::decode(&bytes[..cut]), None, "cut at {cut}");
            }
            bytes.push(0);
            assert_eq!(BlobPointer::decode(&bytes), None);
        }
    }
}
