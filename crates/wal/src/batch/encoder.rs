//! Batch encoder: appends entries to the payload of a batch, within the limits of keys, values and records.

use super::entry::{Entry, EntryIter, has_value, kind_problem};
use esker_base::expiry::EXPIRY_LEN;
use esker_base::kind::FLAG_EXPIRY;
use esker_base::large_buffer;
use esker_base::limits::{MAX_KEY_LEN, MAX_RECORD_LEN, MAX_VALUE_LEN};
use esker_base::{Error, KeyspaceId, Result, ValueKind};

/// Longest entry head: kind, keyspace (5), key length (3), value length (5).
const MAX_HEAD_LEN: usize = 14;

/// Builds the payload of a batch record.
///
/// A call that fails adds nothing. `clear` keeps the memory, so a reused encoder does not allocate.
#[derive(Clone, Debug, Default)]
pub struct BatchEncoder {
    bytes: Vec<u8>,
    count: u32,
}

impl BatchEncoder {
    /// An empty batch without memory.
    pub const fn new() -> BatchEncoder {
        BatchEncoder { bytes: Vec::new(), count: 0 }
    }

    /// An empty batch with capacity for `bytes` bytes of payload.
    pub fn with_capacity(bytes: usize) -> BatchEncoder {
        BatchEncoder { bytes: Vec::with_capacity(bytes), count: 0 }
    }

    /// Adds a put.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the key, the value or the whole batch would exceed its limit.
    #[inline]
    pub fn put(&mut self, keyspace: KeyspaceId, key: &[u8], value: &[u8]) -> Result<()> {
        self.add(ValueKind::Put as u8, keyspace, key, &[], value)
    }

    /// Adds a put that expires at `expiry_ms`, in milliseconds since 1970.
    ///
    /// # Errors
    /// As [`BatchEncoder::put`].
    pub fn put_expiring(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        value: &[u8],
        expiry_ms: u64,
    ) -> Result<()> {
        self.add(ValueKind::Put as u8 | FLAG_EXPIRY, keyspace, key, &expiry_ms.to_le_bytes(), value)
    }

    /// Adds a delete.
    ///
    /// # Errors
    /// As [`BatchEncoder::put`].
    #[inline]
    pub fn delete(&mut self, keyspace: KeyspaceId, key: &[u8]) -> Result<()> {
        self.add(ValueKind::Delete as u8, keyspace, key, &[], &[])
    }

    /// Adds a delete of a key that was put at most once since its last delete.
    ///
    /// # Errors
    /// As [`BatchEncoder::put`].
    pub fn single_delete(&mut self, keyspace: KeyspaceId, key: &[u8]) -> Result<()> {
        self.add(ValueKind::SingleDelete as u8, keyspace, key, &[], &[])
    }

    /// Adds a delete of all keys from `start` up to, and not including, `end`; of all keys from `start` on if
    /// `end` is empty.
    ///
    /// # Errors
    /// As [`BatchEncoder::put`]; both ends are keys.
    pub fn range_delete(&mut self, keyspace: KeyspaceId, start: &[u8], end: &[u8]) -> Result<()> {
        check_key(end)?;
        self.add(ValueKind::RangeDelete as u8, keyspace, start, &[], end)
    }

    /// Adds an operand for the keyspace's merge operator.
    ///
    /// # Errors
    /// As [`BatchEncoder::put`].
    #[inline]
    pub fn merge(&mut self, keyspace: KeyspaceId, key: &[u8], operand: &[u8]) -> Result<()> {
        self.add(ValueKind::Merge as u8, keyspace, key, &[], operand)
    }

    /// Adds an operand that expires at `expiry_ms`, in milliseconds since 1970.
    ///
    /// # Errors
    /// As [`BatchEncoder::put`].
    pub fn merge_expiring(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        operand: &[u8],
        expiry_ms: u64,
    ) -> Result<()> {
        self.add(ValueKind::Merge as u8 | FLAG_EXPIRY, keyspace, key, &expiry_ms.to_le_bytes(), operand)
    }

    /// Adds an entry that [`EntryIter`] returned, flags included.
    ///
    /// # Errors
    /// As [`BatchEncoder::put`]; also if [`EntryIter`] would reject the kind byte.
    pub fn entry(&mut self, entry: &Entry<'_>) -> Result<()> {
        if let Some(problem) = kind_problem(entry.kind_byte, entry.value.len()) {
            return Err(Error::invalid(format!("kind byte {:#04x}: {problem}", entry.kind_byte)));
        }
        let split = if entry.kind_byte & FLAG_EXPIRY == 0 { 0 } else { EXPIRY_LEN };
        let (expiry, value) = entry.value.split_at(split);
        self.add(entry.kind_byte, entry.keyspace, entry.key, expiry, value)
    }

    /// Appends all entries of another batch.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the two together exceed the limit of a batch.
    pub fn append(&mut self, other: &BatchEncoder) -> Result<()> {
        check_record(self.bytes.len() + other.bytes.len())?;
        self.bytes.extend_from_slice(&other.bytes);
        // An entry takes at least three bytes, so the limit of a record keeps the sum far below u32::MAX.
        self.count += other.count;
        Ok(())
    }

    /// The encoded entries.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.bytes
    }

    /// Operations in the batch, which is the number of sequence numbers it consumes.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether nothing was added.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of memory held.
    pub fn capacity_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Removes all entries and keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }

    /// The entries in the order they were added.
    #[inline]
    pub fn entries(&self) -> EntryIter<'_> {
        EntryIter::new(&self.bytes)
    }

    #[inline]
    fn add(
        &mut self,
        kind_byte: u8,
        keyspace: KeyspaceId,
        key: &[u8],
        expiry: &[u8],
        value: &[u8],
    ) -> Result<()> {
        if key.len() > MAX_KEY_LEN || expiry.len() + value.len() > MAX_VALUE_LEN {
            check_key(key)?;
            return Err(value_too_long(expiry.len() + value.len()));
        }
        let most = MAX_HEAD_LEN + key.len() + expiry.len() + value.len();
        if self.bytes.len() + most > MAX_RECORD_LEN {
            check_record(self.bytes.len() + most)?;
        }
        large_buffer::reserve(&mut self.bytes, most);
        let mut head = [0u8; MAX_HEAD_LEN];
        head[0] = kind_byte;
        let mut len = 1 + encode_varint(&mut head[1..], keyspace.get());
        len += encode_varint(&mut head[len..], key.len() as u32);
        if has_value(kind_byte) {
            len += encode_varint(&mut head[len..], (expiry.len() + value.len()) as u32);
        }
        self.bytes.extend_from_slice(&head[..len]);
        self.bytes.extend_from_slice(key);
        if has_value(kind_byte) {
            self.bytes.extend_from_slice(expiry);
            self.bytes.extend_from_slice(value);
        }
        self.count += 1;
        Ok(())
    }
}

#[inline]
fn encode_varint(out: &mut [u8], mut value: u32) -> usize {
    let mut len = 0;
    while value >= 0x80 {
        out[len] = value as u8 | 0x80;
        value >>= 7;
        len += 1;
    }
    out[len] = value as u8;
    len + 1
}

fn check_key(key: &[u8]) -> Result<()> {
    if key.len() <= MAX_KEY_LEN {
        return Ok(());
    }
    Err(Error::invalid(format!("the key has {} bytes, the longest key has {MAX_KEY_LEN}", key.len())))
}

fn value_too_long(len: usize) -> Error {
    Error::invalid(format!("the value takes {len} bytes, the longest value takes {MAX_VALUE_LEN}"))
}

fn check_record(len: usize) -> Result<()> {
    if len <= MAX_RECORD_LEN {
        return Ok(());
    }
    Err(Error::invalid(format!("the batch would take {len} bytes, the largest batch takes {MAX_RECORD_LEN}")))
}
