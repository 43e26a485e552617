//! Range-tombstone section (`docs/format/table.md`): fragments in key order, each with its sequence numbers.
//!
//! ```text
//! section  = fragments varint | fragment*
//! fragment = start length varint | start | end length varint | end
//!            | numbers varint | newest varint | difference varint*
//! ```
//! An empty end means that there is none. Each further number is less than the one before by its difference.

use crate::decode_error::{DecodeError, damaged};
use esker_base::SeqNo;
use esker_base::coding::{Reader, put_prefixed, put_varint};
use esker_base::limits::MAX_KEY_LEN;
use esker_iter::{RangeTombstones, TombstoneFragment};

/// The bound behind the longest key is that key and a zero byte.
const MAX_BOUND_LEN: usize = MAX_KEY_LEN + 1;
/// Bytes of the smallest fragment: two lengths, one count, one number.
const MIN_FRAGMENT_BYTES: usize = 4;

/// Encodes the section.
pub fn encode(deletes: &RangeTombstones) -> Vec<u8> {
    let mut out = Vec::with_capacity(deletes.memory_bytes());
    put_varint(&mut out, deletes.fragments().len() as u64);
    for fragment in deletes.fragments() {
        put_prefixed(&mut out, &fragment.start);
        put_prefixed(&mut out, fragment.end.as_deref().unwrap_or_default());
        put_varint(&mut out, fragment.seqnos.len() as u64);
        let mut before = None;
        for seqno in &fragment.seqnos {
            put_varint(&mut out, before.map_or(seqno.get(), |before: u64| before - seqno.get()));
            before = Some(seqno.get());
        }
    }
    out
}

/// Decodes the section. Allocates no more than a small multiple of its bytes.
///
/// # Errors
/// A sentence about the damage.
pub fn decode_bytes(section: &[u8]) -> Result<RangeTombstones, String> {
    decode(section).map_err(|error| match error {
        DecodeError::Damaged(detail) | DecodeError::Unsupported(detail) => detail,
    })
}

pub(crate) fn decode(section: &[u8]) -> Result<RangeTombstones, DecodeError> {
    let mut reader = Reader::new(section);
    let Some(fragments) = read_fragments(&mut reader) else {
        return damaged(format!("the range tombstones are malformed at byte {}", reader.position()));
    };
    if !reader.is_empty() {
        return damaged("bytes follow the last range tombstone");
    }
    RangeTombstones::from_fragments(fragments).map_err(DecodeError::Damaged)
}

fn read_fragments(reader: &mut Reader<'_>) -> Option<Vec<TombstoneFragment>> {
    let count = usize::try_from(reader.varint()?).ok()?;
    if count > reader.remaining() / MIN_FRAGMENT_BYTES {
        return None;
    }
    let mut fragments: Vec<TombstoneFragment> = Vec::with_capacity(count);
    for _ in 0..count {
        let start = read_bound(reader)?;
        let end = Some(read_bound(reader)?).filter(|end| !end.is_empty());
        // Adjacent fragments share the bound between them, in memory as well.
        let shared = fragments.last().and_then(|last| last.end.clone()).filter(|bound| **bound == *start);
        let start = shared.unwrap_or_else(|| start.into());
        fragments.push(TombstoneFragment { start, end: end.map(Into::into), seqnos: read_seqnos(reader)? });
    }
    Some(fragments)
}

fn read_bound<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    reader.prefixed().filter(|bound| bound.len() <= MAX_BOUND_LEN)
}

fn read_seqnos(reader: &mut Reader<'_>) -> Option<Box<[SeqNo]>> {
    let count = usize::try_from(reader.varint()?).ok().filter(|count| *count <= reader.remaining())?;
    let mut seqnos = Vec::with_capacity(count);
    let mut before: Option<u64> = None;
    for _ in 0..count {
        let number = reader.varint()?;
        let seqno = before.map_or(Some(number), |before| before.checked_sub(number))?;
        seqnos.push(Some(seqno).filter(|seqno| *seqno <= SeqNo::MAX.get()).map(SeqNo::new)?);
        before = Some(seqno);
    }
    Some(seqnos.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_iter::RangeTombstone;

    fn sample() -> RangeTombstones {
        let delete = |start: &'static [u8], end: &'static [u8], seqno| {
            RangeTombstone::stored(start, end, SeqNo::new(seqno))
        };
        RangeTombstones::new([
            delete(b"", b"c", 9),
            delete(b"a", b"b", 300),
            delete(b"b", b"m", 7),
            delete(b"x", b"", 1 << 50),
            delete(b"y", b"", 3),
        ])
    }

    #[test]
    fn the_bytes_are_those_of_the_document() {
        let deletes = RangeTombstones::new([
            RangeTombstone::stored(b"a", b"c", SeqNo::new(200)),
            RangeTombstone::stored(b"b", b"", SeqNo::new(3)),
        ]);
        let bytes = b"\x03\x01a\x01b\x01\xc8\x01\x01b\x01c\x02\xc8\x01\xc5\x01\x01c\x00\x01\x03";
        assert_eq!(encode(&deletes), bytes);
        assert_eq!(decode(bytes), Ok(deletes));
        assert_eq!(decode(&encode(&RangeTombstones::default())), Ok(RangeTombstones::default()));
        assert_eq!(decode(&encode(&sample())), Ok(sample()));
    }

    #[test]
    fn damaged_sections_never_panic() {
        let good = encode(&sample());
        for at in 0..good.len() {
            for byte in 0..=255 {
                let mut bytes = good.clone();
                bytes[at] = byte;
                if let Ok(deletes) = decode(&bytes) {
                    assert_eq!(decode(&encode(&deletes)), Ok(deletes));
                }
            }
            assert!(decode(&good[..at]).is_err(), "cut at {at}");
        }
        assert!(decode(&[good, vec![0]].concat()).is_err());
        assert!(decode(b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f").is_err());
        // No fragment, no numbers, and numbers that do not fall.
        assert!(decode(b"\x01\x01a\x01b\x00").is_err() && decode(b"\x01\x01a\x01b\x02\x05\x00").is_err());
        assert!(decode(b"\x01\x01a\x01b\x02\x05\x06").is_err());
    }
}
