//! Interpretation of entries: what each kind byte means to a reader. Extend it here when a new kind or flag
//! becomes readable.

use esker_base::kind::{FLAG_BLOB, FLAG_EXPIRY};
use esker_base::{Error, Result, Tag, ValueKind};

/// What the newest visible version of a key says about the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The key has the entry's value.
    Present,
    /// An expiry time, then the value until it; afterwards no value.
    Expiring,
    /// The key has a large value; the entry's value is the pointer to it.
    Large,
    /// An expiry time, then the pointer to a large value until it.
    ExpiringLarge,
    /// The key has no value.
    Absent,
    /// The value, behind an expiry time if the tag has the flag, is a merge operand.
    Operand,
}

/// The meaning of the newest visible version of `key`.
///
/// # Errors
/// [`Error::Unsupported`] for kinds without a reader: range tombstones among entries, and unassigned bytes. A
/// plausible result would be a wrong answer.
#[inline]
pub fn meaning(tag: Tag, key: &[u8]) -> Result<Meaning> {
    const DELETE: u8 = ValueKind::Delete as u8;
    const PUT: u8 = ValueKind::Put as u8;
    const SINGLE_DELETE: u8 = ValueKind::SingleDelete as u8;
    const EXPIRING_PUT: u8 = PUT | FLAG_EXPIRY;
    const LARGE_PUT: u8 = PUT | FLAG_BLOB;
    const EXPIRING_LARGE_PUT: u8 = PUT | FLAG_BLOB | FLAG_EXPIRY;
    const MERGE: u8 = ValueKind::Merge as u8;
    const EXPIRING_MERGE: u8 = MERGE | FLAG_EXPIRY;
    // Flags are part of the byte, so an entry with other flags matches none of these.
    match tag.kind_byte() {
        PUT => Ok(Meaning::Present),
        EXPIRING_PUT => Ok(Meaning::Expiring),
        DELETE | SINGLE_DELETE => Ok(Meaning::Absent),
        LARGE_PUT => Ok(Meaning::Large),
        EXPIRING_LARGE_PUT => Ok(Meaning::ExpiringLarge),
        MERGE | EXPIRING_MERGE => Ok(Meaning::Operand),
        _ => Err(unsupported(tag, key)),
    }
}

/// Whether the entry's value is a pointer to a large value, behind its expiry time if it has one.
#[inline]
pub const fn is_large(tag: Tag) -> bool {
    tag.kind_byte() & !FLAG_EXPIRY == ValueKind::Put as u8 | FLAG_BLOB
}

/// The expiry time of an expiring entry, in milliseconds since 1970, and the value behind it.
///
/// # Errors
/// [`Error::Internal`] if the value is shorter than a time: checksums guard the bytes, so this is a defect of
/// the writer.
#[inline]
pub fn split_expiry<'v>(tag: Tag, key: &[u8], value: &'v [u8]) -> Result<(u64, &'v [u8])> {
    esker_base::expiry::split(value).ok_or_else(|| too_short(tag, key))
}

#[cold]
fn too_short(tag: Tag, key: &[u8]) -> Error {
    let (key, seqno) = (key.escape_ascii(), tag.seqno());
    Error::internal(format!("the expiry time of key {key} at sequence number {seqno} is cut off"))
}

/// Checks that a version hidden by a newer one of the same key concerns this key only.
///
/// This is a safety net, not a guarantee: a range tombstone that starts before the reader's first key is not
/// met. Range tombstones do not belong among the entries of cursors, and opening a source that has some must
/// fail.
///
/// # Errors
/// [`Error::Unsupported`] for range tombstones, which reach beyond their key, and for unassigned bytes.
#[inline]
pub(crate) fn check_hidden(tag: Tag, key: &[u8]) -> Result<()> {
    match tag.kind() {
        Some(ValueKind::Put | ValueKind::Delete | ValueKind::SingleDelete | ValueKind::Merge) => Ok(()),
        Some(ValueKind::RangeDelete) | None => Err(unsupported(tag, key)),
    }
}

/// The error for an operand in a keyspace without a merge operator.
#[cold]
pub fn without_operator(tag: Tag, key: &[u8]) -> Error {
    unsupported(tag, key)
}

#[cold]
pub(crate) fn unsupported(tag: Tag, key: &[u8]) -> Error {
    let byte = tag.kind_byte();
    let what = match tag.kind() {
        None => format!("an entry of the unknown kind {byte:#04x}"),
        Some(kind) => {
            let expiry = if byte & FLAG_EXPIRY != 0 { " with an expiry time" } else { "" };
            let blob = if byte & FLAG_BLOB != 0 { " with its value in a blob file" } else { "" };
            format!("a {kind:?}{expiry}{blob}")
        }
    };
    let sentence = format!(
        "key {} has {what} at sequence number {}, which cannot be read",
        key.escape_ascii(),
        tag.seqno()
    );
    Error::Unsupported(sentence.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::SeqNo;

    #[test]
    fn every_kind_byte_is_readable_or_named() {
        for byte in 0..=255u8 {
            let tag = Tag::from_parts(SeqNo::new(7), byte);
            match (byte, meaning(tag, b"k\x01")) {
                (1, Ok(Meaning::Present)) | (0 | 2, Ok(Meaning::Absent)) | (0x81, Ok(Meaning::Expiring)) => {}
                (4 | 0x84, Ok(Meaning::Operand)) => {}
                (0x41, Ok(Meaning::Large)) | (0xc1, Ok(Meaning::ExpiringLarge)) => assert!(is_large(tag)),
                (0..=2, other) => panic!("kind {byte}: {other:?}"),
                (_, Ok(meaning)) => panic!("kind {byte} is taken for {meaning:?}"),
                (_, Err(error)) => {
                    let text = error.to_string();
                    assert!(text.contains("key k\\x01 has") && text.contains("number 7"), "{text}");
                }
            }
        }
        let tag = Tag::from_parts(SeqNo::new(1), ValueKind::Merge as u8 | FLAG_EXPIRY | FLAG_BLOB);
        let error = meaning(tag, b"k").unwrap_err().to_string();
        assert!(error.contains("a Merge with an expiry time with its value in a blob file"), "{error}");
        assert!(check_hidden(tag, b"k").is_ok());
        assert!(check_hidden(Tag::new(SeqNo::new(1), ValueKind::RangeDelete), b"k").is_err());
    }
}
