//! Batch encoding: the bytes of a write batch, which are the payload of its log record and fill the
//! memtables.
//!
//! [`BatchEncoder`] encodes a batch once, outside of every lock. [`EntryIter`] walks the same bytes to fill
//! the memtables, after the commit and in recovery.
//!
//! ```text
//! entry = kind u8 | keyspace varint u32 | key length varint | [value length varint] | key | [value]
//! ```
//!
//! The value and its length are present only for kinds that have one. With [`FLAG_EXPIRY`] the first eight
//! bytes of the value are the expiry time, so a store handles an entry as two slices, key and value. Entry
//! `i` of a record has sequence number `first + i`.

use esker_base::coding::{Reader, put_varint};
use esker_base::expiry::EXPIRY_LEN;
use esker_base::kind::{FLAG_BLOB, FLAG_EXPIRY};
use esker_base::large_buffer;
use esker_base::limits::{MAX_KEY_LEN, MAX_RECORD_LEN, MAX_VALUE_LEN};
use esker_base::planted;
use esker_base::{Error, FileNumber, KeyspaceId, Result, SeqNo, TableUid, ValueKind};
use std::fmt;

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
fn has_value(kind_byte: u8) -> bool {
    ValueKind::from_byte(kind_byte).is_some_and(ValueKind::has_value)
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
    rest: &'a [u8],
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
    fn next_general(&mut self) -> Result<Entry<'a>, BatchDamage> {
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

/// Why a kind byte is invalid for a value of this length.
fn kind_problem(kind_byte: u8, value_len: usize) -> Option<&'static str> {
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

/// Walks the payload of a Carry record: entries of older records, each after its own sequence number (u64).
#[derive(Clone, Debug)]
pub struct CarryIter<'a> {
    entries: EntryIter<'a>,
}

impl<'a> CarryIter<'a> {
    /// Starts at the first entry of a Carry payload.
    pub fn new(payload: &'a [u8]) -> CarryIter<'a> {
        CarryIter { entries: EntryIter::new(payload) }
    }
}

impl<'a> Iterator for CarryIter<'a> {
    type Item = Result<(SeqNo, Entry<'a>), BatchDamage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.entries.rest.is_empty() {
            return None;
        }
        let offset = self.entries.offset();
        let seqno = self.entries.rest.split_first_chunk::<8>().map(|(raw, tail)| {
            self.entries.rest = tail;
            u64::from_le_bytes(*raw)
        });
        let damage = match seqno {
            None => "its sequence number is cut off",
            Some(seqno) if seqno > SeqNo::MAX_STORED.get() => {
                "its sequence number is greater than any database has"
            }
            Some(_) if self.entries.rest.is_empty() => "it ends after its sequence number",
            Some(seqno) => {
                let entry = self.entries.next_general();
                return Some(entry.map(|entry| (SeqNo::new(seqno), entry)));
            }
        };
        self.entries.rest = &[];
        Some(Err(BatchDamage { offset, reason: damage }))
    }
}

/// A table file that an Ingest record adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IngestedFile {
    /// The file's number.
    pub number: FileNumber,
    /// The file's length in bytes.
    pub size_bytes: u64,
    /// The identity written inside it.
    pub uid: TableUid,
}

/// The contents of an Ingest record:
/// `keyspace varint | files varint | (number varint, size varint, uid u64)*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ingest {
    /// The keyspace that the files join.
    pub keyspace: KeyspaceId,
    /// The files, in the order of their keys.
    pub files: Vec<IngestedFile>,
}

impl Ingest {
    /// Appends the payload of an Ingest record.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.keyspace.get()));
        put_varint(out, self.files.len() as u64);
        for file in &self.files {
            put_varint(out, file.number.get());
            put_varint(out, file.size_bytes);
            out.extend_from_slice(&file.uid.get().to_le_bytes());
        }
    }

    /// Decodes the payload of an Ingest record.
    ///
    /// # Errors
    /// The offset and kind of the first mismatch, trailing bytes included.
    pub fn decode(payload: &[u8]) -> Result<Ingest, BatchDamage> {
        let mut reader = Reader::new(payload);
        let ingest = Ingest::read(&mut reader);
        match ingest {
            Some(ingest) if reader.is_empty() => Ok(ingest),
            Some(_) => Err(BatchDamage { offset: reader.position(), reason: "bytes follow the last file" }),
            None => Err(BatchDamage { offset: reader.position(), reason: "the list of files is cut off" }),
        }
    }

    fn read(reader: &mut Reader<'_>) -> Option<Ingest> {
        /// One byte each for number and size, eight for the uid.
        const SMALLEST_FILE: usize = 10;
        let keyspace = KeyspaceId(reader.varint_u32()?);
        let count = reader.varint_u32()? as usize;
        if count > reader.remaining() / SMALLEST_FILE {
            return None;
        }
        let mut files = Vec::with_capacity(count);
        for _ in 0..count {
            let number = FileNumber(reader.varint()?);
            files.push(IngestedFile { number, size_bytes: reader.varint()?, uid: TableUid(reader.u64()?) });
        }
        Some(Ingest { keyspace, files })
    }
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

#[cfg(test)]
mod tests;
