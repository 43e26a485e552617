//! Blob record: one value with everything that is needed to read it alone.
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

use esker_base::checksum::{StreamHash, xxh3_64};
use esker_base::coding::{Reader, put_varint, varint_len};
use esker_base::limits::{MAX_KEY_LEN, MAX_VALUE_LEN};
use esker_base::planted;
use esker_codec::{Codec, DecodeError as CodecError};

/// Bytes of the checksum in front.
pub(crate) const CHECKSUM_BYTES: usize = 8;
/// The longest head of a record: checksum, codec and lengths, from which the length of the record follows.
pub(crate) const MAX_HEAD_BYTES: usize =
    CHECKSUM_BYTES + 1 + varint_len(MAX_KEY_LEN as u64) + 2 * varint_len(MAX_VALUE_LEN as u64);

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

/// Why bytes are not the expected record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// They are not what was written.
    Damaged(String),
    /// A newer version wrote them.
    Unsupported(String),
}

impl From<CodecError> for DecodeError {
    fn from(error: CodecError) -> DecodeError {
        match error {
            CodecError::Unsupported(detail) => DecodeError::Unsupported(detail),
            CodecError::Damaged(detail) => DecodeError::Damaged(detail),
        }
    }
}

/// Length of the whole record, from its first bytes; `None` if they are no record's.
pub(crate) fn length_of(head: &[u8]) -> Option<usize> {
    let mut reader = Reader::new(head);
    reader.take(CHECKSUM_BYTES + 1)?;
    let (key_len, value_len, stored_len) = lengths(&mut reader)?;
    let _ = value_len;
    Some(reader.position() + key_len + stored_len)
}

/// Lengths of key, value and stored value, each within its limit.
fn lengths(reader: &mut Reader<'_>) -> Option<(usize, usize, usize)> {
    let mut len =
        |most: usize| reader.varint().and_then(|len| usize::try_from(len).ok()).filter(|len| *len <= most);
    // Compression that saves nothing is not used, so the stored bytes are never longer than the value.
    Some((len(MAX_KEY_LEN)?, len(MAX_VALUE_LEN)?, len(MAX_VALUE_LEN)?))
}

/// Whether so many stored bytes can be a value of this length: checked before memory is reserved for it.
fn can_be(codec_id: u8, stored_len: usize, value_len: usize) -> bool {
    /// LZ4 extends a match by at most 255 bytes for each byte.
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

/// Appends the record of a value, compressed if that saves enough; returns its checksum.
pub fn encode(key: &[u8], value: &[u8], codec: Codec, scratch: &mut Vec<u8>, out: &mut Vec<u8>) -> u64 {
    let start = out.len();
    let stored = put_head(key, value, codec, scratch, out);
    out.extend_from_slice(stored);
    let checksum = xxh3_64(&out[start + CHECKSUM_BYTES..]);
    out[start..start + CHECKSUM_BYTES].copy_from_slice(&checksum.to_le_bytes());
    checksum
}

/// As [`encode`], but appends the record only up to the stored value, which is returned beside the checksum:
/// a large value is written from where it is.
pub(crate) fn encode_head<'a>(
    key: &[u8],
    value: &'a [u8],
    codec: Codec,
    scratch: &'a mut Vec<u8>,
    out: &mut Vec<u8>,
) -> (u64, &'a [u8]) {
    let start = out.len();
    let stored = put_head(key, value, codec, scratch, out);
    let mut hash = StreamHash::new();
    hash.add(&out[start + CHECKSUM_BYTES..]);
    hash.add(stored);
    let checksum = hash.finish();
    out[start..start + CHECKSUM_BYTES].copy_from_slice(&checksum.to_le_bytes());
    (checksum, stored)
}

/// Appends everything before the stored value, which it returns, with zeros in place of the checksum.
fn put_head<'a>(
    key: &[u8],
    value: &'a [u8],
    codec: Codec,
    scratch: &'a mut Vec<u8>,
    out: &mut Vec<u8>,
) -> &'a [u8] {
    let compressed = codec.compress(value, scratch);
    out.extend_from_slice(&[0; CHECKSUM_BYTES]);
    let wanted = codec.ids().first().copied().filter(|_| planted!(WrongCodecInBlob));
    out.push(wanted.unwrap_or(compressed.codec_id));
    put_varint(out, key.len() as u64);
    put_varint(out, value.len() as u64);
    put_varint(out, compressed.bytes.len() as u64);
    out.extend_from_slice(key);
    compressed.bytes
}

impl<'a> Record<'a> {
    /// Decodes a record that is exactly these bytes and verifies its checksum.
    ///
    /// # Errors
    /// [`DecodeError`]. Allocates nothing but its sentence.
    pub fn decode(bytes: &'a [u8]) -> Result<Record<'a>, DecodeError> {
        let damaged = |what: &str| DecodeError::Damaged(what.to_owned());
        let mut reader = Reader::new(bytes);
        let checksum = reader.u64().ok_or_else(|| damaged("a record is shorter than its checksum"))?;
        let found = xxh3_64(&bytes[CHECKSUM_BYTES..]);
        if found != checksum {
            return Err(DecodeError::Damaged(format!(
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

    /// Replaces the content of `out` by the value.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes do not decompress to a value of the stated length.
    pub fn read_value(&self, out: &mut Vec<u8>) -> Result<(), DecodeError> {
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

    /// A reader that reads so many bytes first knows the length of every record.
    #[test]
    fn the_longest_head_tells_the_length_and_no_byte_is_too_many() {
        let mut head = vec![0; CHECKSUM_BYTES + 1];
        for len in [MAX_KEY_LEN, MAX_VALUE_LEN, MAX_VALUE_LEN] {
            put_varint(&mut head, len as u64);
        }
        assert_eq!(head.len(), MAX_HEAD_BYTES);
        assert_eq!(length_of(&head), Some(MAX_HEAD_BYTES + MAX_KEY_LEN + MAX_VALUE_LEN));
        assert_eq!(length_of(&head[..MAX_HEAD_BYTES - 1]), None);
    }

    /// A checksum says nothing about lengths that contradict each other.
    #[test]
    fn a_malformed_record_with_the_right_checksum_is_refused() {
        let signed = |codec_id: u8, value_len: u64, stored: &[u8], behind: &[u8]| {
            let mut bytes = vec![0; CHECKSUM_BYTES];
            bytes.push(codec_id);
            for len in [3, value_len, stored.len() as u64] {
                put_varint(&mut bytes, len);
            }
            [b"key".as_slice(), stored, behind].into_iter().for_each(|part| bytes.extend_from_slice(part));
            let checksum = xxh3_64(&bytes[CHECKSUM_BYTES..]);
            bytes[..CHECKSUM_BYTES].copy_from_slice(&checksum.to_le_bytes());
            bytes
        };
        let (none, lz4, snappy) = (esker_codec::id::NONE, esker_codec::id::LZ4, esker_codec::id::SNAPPY);
        assert!(Record::decode(&signed(none, 5, b"value", b"")).is_ok());
        assert!(Record::decode(&signed(none, 5, b"value", b"x")).is_err(), "a byte behind the record");
        assert!(Record::decode(&signed(none, 6, b"value", b"")).is_err(), "a plain value of another length");
        assert!(Record::decode(&signed(lz4, 5 * 255 + 254, b"value", b"")).is_ok());
        assert!(Record::decode(&signed(lz4, 6 * 255, b"value", b"")).is_err(), "more than LZ4 can expand");
        assert!(Record::decode(&signed(snappy, 5 * 22 + 21, b"value", b"")).is_ok());
        assert!(
            Record::decode(&signed(snappy, 6 * 22, b"value", b"")).is_err(),
            "more than Snappy can expand"
        );
    }
}
