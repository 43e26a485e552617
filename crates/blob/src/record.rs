//! One value with all that is needed to read it alone.
//!
//! ```text
//! checksum   u64 LE   XXH3-64 of everything that follows
//! codec      u8       id of the compression
//! key len    varint
//! value len  varint   before compression
//! stored len varint   as stored
//! key
//! stored value
//! ```

use esker_base::checksum::xxh3_64;
use esker_base::coding::{Reader, put_varint};
use esker_base::limits::{MAX_KEY_LEN, MAX_VALUE_LEN};
use esker_codec::{Codec, DecodeError};

/// Bytes of the checksum in front.
pub(crate) const CHECKSUM_BYTES: usize = 8;
/// The longest that the lengths and the codec can be: what has to be read to know how long a record is.
pub(crate) const MAX_HEAD_BYTES: usize = CHECKSUM_BYTES + 1 + 3 * 5;

/// A record, borrowed from its bytes; not decompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// XXH3-64 of the record behind the checksum itself.
    pub checksum: u64,
    /// The id of the compression.
    pub codec_id: u8,
    /// The key that the value was put under.
    pub key: &'a [u8],
    /// Bytes of the value before compression.
    pub value_len: usize,
    /// The value as it is stored.
    pub stored: &'a [u8],
}

/// Why bytes are not the record they should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// They are not what was written.
    Damaged(String),
    /// A newer version wrote them.
    Unsupported(String),
}

impl From<DecodeError> for Flaw {
    fn from(error: DecodeError) -> Flaw {
        match error {
            DecodeError::Unsupported(detail) => Flaw::Unsupported(detail),
            DecodeError::Damaged(detail) => Flaw::Damaged(detail),
        }
    }
}

/// How long a record is in all, from its first bytes; `None` if they are no head of a record.
pub(crate) fn length_of(head: &[u8]) -> Option<usize> {
    let mut reader = Reader::new(head);
    reader.take(CHECKSUM_BYTES + 1)?;
    let (key_len, value_len, stored_len) = lengths(&mut reader)?;
    let _ = value_len;
    Some(reader.position() + key_len + stored_len)
}

/// Lengths of key, value and stored value, each within what may be written.
fn lengths(reader: &mut Reader<'_>) -> Option<(usize, usize, usize)> {
    let mut len =
        |most: usize| reader.varint().and_then(|len| usize::try_from(len).ok()).filter(|len| *len <= most);
    // Compression that does not save anything is not used, so what is stored is never longer than the value.
    Some((len(MAX_KEY_LEN)?, len(MAX_VALUE_LEN)?, len(MAX_VALUE_LEN)?))
}

/// Whether so many stored bytes may be so long a value: asked before memory is reserved for it.
fn can_be(codec_id: u8, stored_len: usize, value_len: usize) -> bool {
    /// LZ4 says "once more the same" with one byte for each 255 at most.
    const LZ4_RATIO: usize = 255;
    /// Snappy copies at most 64 bytes with three.
    const SNAPPY_RATIO: usize = 22;
    match codec_id {
        esker_codec::id::NONE => stored_len == value_len,
        esker_codec::id::LZ4 => value_len / LZ4_RATIO <= stored_len,
        esker_codec::id::SNAPPY => value_len / SNAPPY_RATIO <= stored_len,
        _ => true,
    }
}

/// Appends the record of a value, compressed if that saves enough; answers its checksum.
pub fn encode(key: &[u8], value: &[u8], codec: Codec, scratch: &mut Vec<u8>, out: &mut Vec<u8>) -> u64 {
    let compressed = codec.compress(value, scratch);
    let start = out.len();
    out.extend_from_slice(&[0; CHECKSUM_BYTES]);
    out.push(compressed.codec_id);
    put_varint(out, key.len() as u64);
    put_varint(out, value.len() as u64);
    put_varint(out, compressed.bytes.len() as u64);
    out.extend_from_slice(key);
    out.extend_from_slice(compressed.bytes);
    let checksum = xxh3_64(&out[start + CHECKSUM_BYTES..]);
    out[start..start + CHECKSUM_BYTES].copy_from_slice(&checksum.to_le_bytes());
    checksum
}

impl<'a> Record<'a> {
    /// Reads a record that is exactly these bytes; its checksum is verified.
    ///
    /// # Errors
    /// [`Flaw`]. Nothing is allocated but the sentence.
    pub fn decode(bytes: &'a [u8]) -> Result<Record<'a>, Flaw> {
        let damaged = |what: &str| Flaw::Damaged(what.to_owned());
        let mut reader = Reader::new(bytes);
        let checksum = reader.u64().ok_or_else(|| damaged("a record is shorter than its checksum"))?;
        let found = xxh3_64(&bytes[CHECKSUM_BYTES..]);
        if found != checksum {
            return Err(Flaw::Damaged(format!(
                "a record with checksum {checksum:016x} expected, its bytes have {found:016x}"
            )));
        }
        let malformed = || damaged("a record is malformed although its checksum matches");
        let codec_id = reader.u8().ok_or_else(malformed)?;
        let (key_len, value_len, stored_len) = lengths(&mut reader).ok_or_else(malformed)?;
        let key = reader.take(key_len).ok_or_else(malformed)?;
        let stored = reader.take(stored_len).ok_or_else(malformed)?;
        if !reader.is_empty() || !can_be(codec_id, stored_len, value_len) {
            return Err(malformed());
        }
        Ok(Record { checksum, codec_id, key, value_len, stored })
    }

    /// Puts the value into `out`, in place of what that held.
    ///
    /// # Errors
    /// [`Flaw`] if the bytes do not decompress to a value of the stated length.
    pub fn read_value(&self, out: &mut Vec<u8>) -> Result<(), Flaw> {
        Ok(esker_codec::decompress(self.codec_id, self.stored, self.value_len, out)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_read_back_with_every_codec() {
        let values: [&[u8]; 4] = [b"", b"short", &[7; 10_000], &(0..=255).collect::<Vec<u8>>()];
        for codec in Codec::ALL {
            for value in values {
                let (mut bytes, mut out) = (Vec::new(), Vec::new());
                let checksum = encode(b"key", value, codec, &mut Vec::new(), &mut bytes);
                let record = Record::decode(&bytes).unwrap();
                assert_eq!((record.key, record.checksum), (b"key".as_slice(), checksum));
                record.read_value(&mut out).unwrap();
                assert_eq!(out, value);
                assert_eq!(length_of(&bytes), Some(bytes.len()));
            }
        }
    }

    #[test]
    fn every_changed_or_missing_byte_is_noticed() {
        let mut bytes = Vec::new();
        encode(b"key", b"value", Codec::None, &mut Vec::new(), &mut bytes);
        for at in 0..bytes.len() {
            assert!(Record::decode(&bytes[..at]).is_err(), "cut at {at}");
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                assert!(Record::decode(&changed).is_err(), "bit {bit} of byte {at}");
            }
        }
    }
}
