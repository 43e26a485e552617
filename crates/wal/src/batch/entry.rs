//! Batch decoder: the entries in a payload, each length checked.

use esker_base::coding::Reader;
use esker_base::expiry::EXPIRY_LEN;
use esker_base::kind::{FLAG_BLOB, FLAG_EXPIRY};
use esker_base::limits::MAX_KEY_LEN;
use esker_base::{KeyspaceId, ValueKind, planted};
use std::fmt;

/// One operation of a batch, borrowed from its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The [`ValueKind`] with its flag bits.
    pub kind_byte: u8,
    /// The keyspace of the key.
    pub keyspace: KeyspaceId,
    /// The key; the start of the range for [`ValueKind::RangeDelete`].
    pub key: &'a [u8],
    /// The value, empty for kinds without one. For [`ValueKind::RangeDelete`] the end of the range, empty if
    /// it has none. With [`FLAG_EXPIRY`] its first eight bytes are the expiry time.
    pub value: &'a [u8],
}

impl Entry<'_> {
    /// The kind without its flags. Entries that [`EntryIter`] returns always have one.
    #[inline]
    pub fn kind(&self) -> Option<ValueKind> {
        ValueKind::from_byte(self.kind_byte)
    }
}

/// Where and why a payload is not a valid batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchDamage {
    /// Offset in the payload of the entry that cannot be read.
    pub offset: usize,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl fmt::Display for BatchDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "batch entry at byte {} of the payload: {}", self.offset, self.reason)
    }
}

/// Walks the entries of a payload; checks every length, allocates nothing, ends after the first damage.
#[derive(Clone, Debug)]
pub struct EntryIter<'a> {
    pub(super) rest: &'a [u8],
    total: usize,
}

impl<'a> EntryIter<'a> {
    /// Starts at the first entry of a batch payload.
    #[inline]
    pub fn new(payload: &'a [u8]) -> EntryIter<'a> {
        EntryIter { rest: payload, total: payload.len() }
    }

    /// Offset of the next entry in the payload.
    #[inline]
    pub fn offset(&self) -> usize {
        self.total - self.rest.len()
    }

    /// The general case of [`Iterator::next`], kept out of line.
    #[inline(never)]
    pub(super) fn next_general(&mut self) -> Result<Entry<'a>, BatchDamage> {
        let mut reader = Reader::new(self.rest);
        match read_entry(&mut reader) {
            Ok(entry) => {
                self.rest = &self.rest[reader.position()..];
                Ok(entry)
            }
            Err(reason) => {
                let offset = self.offset();
                self.rest = &[];
                Err(BatchDamage { offset, reason })
            }
        }
    }
}

impl<'a> Iterator for EntryIter<'a> {
    type Item = Result<Entry<'a>, BatchDamage>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        // Fast path: a plain put whose three lengths take one byte each, which is the usual entry.
        if let [kind, keyspace, key_len, value_len, tail @ ..] = self.rest
            && *kind == ValueKind::Put as u8
            && (*keyspace | *key_len | *value_len) < 0x80
            && let Some((key, tail)) = tail.split_at_checked(usize::from(*key_len))
            && let Some((value, tail)) = tail.split_at_checked(usize::from(*value_len))
        {
            self.rest = tail;
            let keyspace = KeyspaceId(u32::from(*keyspace));
            return Some(Ok(Entry { kind_byte: *kind, keyspace, key, value }));
        }
        if self.rest.is_empty() {
            return None;
        }
        Some(self.next_general())
    }
}

fn read_entry<'a>(reader: &mut Reader<'a>) -> Result<Entry<'a>, &'static str> {
    const SHORT: &str = "it ends early";
    let kind_byte = reader.u8().ok_or(SHORT)?;
    let keyspace = reader.varint_u32().ok_or("its keyspace is cut off or exceeds 32 bits")?;
    let key_len = reader.varint_u32().ok_or("its key length is cut off or exceeds 32 bits")? as usize;
    if key_len > MAX_KEY_LEN {
        return Err("its key is longer than any key");
    }
    let value_len = if has_value(kind_byte) {
        reader.varint_u32().ok_or("its value length is cut off or exceeds 32 bits")? as usize
    } else {
        0
    };
    if let Some(problem) = kind_problem(kind_byte, value_len) {
        return Err(problem);
    }
    let key = reader.take(key_len).ok_or("its key is cut off");
    let key = if planted!(DecoderTrustsLength) { key.expect("a key is as long as it says") } else { key? };
    let value = reader.take(value_len).ok_or("its value is cut off")?;
    Ok(Entry { kind_byte, keyspace: KeyspaceId(keyspace), key, value })
}

#[inline]
pub(super) fn has_value(kind_byte: u8) -> bool {
    ValueKind::from_byte(kind_byte).is_some_and(ValueKind::has_value)
}

/// Why a kind byte is invalid for a value of this length.
pub(super) fn kind_problem(kind_byte: u8, value_len: usize) -> Option<&'static str> {
    let Some(kind) = ValueKind::from_byte(kind_byte) else {
        return Some("its kind is not known to this version");
    };
    if !kind.has_value() {
        let flagged = kind_byte & (FLAG_BLOB | FLAG_EXPIRY) != 0;
        return if flagged {
            Some("its kind has no value, but a flag speaks of one")
        } else if value_len != 0 {
            Some("its kind has no value, but there is one")
        } else {
            None
        };
    }
    let cut = kind_byte & FLAG_EXPIRY != 0 && value_len < EXPIRY_LEN;
    cut.then_some("it expires, but its value is too short for the time")
}

/// Counts the entries of a payload without keeping them.
///
/// # Errors
/// As [`EntryIter`].
pub fn count_entries(payload: &[u8]) -> Result<u32, BatchDamage> {
    let mut count = 0u32;
    for entry in EntryIter::new(payload) {
        entry?;
        count = count.saturating_add(1);
    }
    Ok(count)
}
