//! Strings: whole in the record of their key, or in chunks of 16 KiB.
//!
//! | layout | payload of the record |
//! |---|---|
//! | 0 [`WHOLE`] | the string |
//! | 1 [`WHOLE_RAW`] | the same, changed in place once |
//! | 2 [`WHOLE_TEXT`] | the same, the text of a floating point number |
//! | 8 [`CHUNKED`] | the object's number and the length in bytes, eight bytes each, little-endian |
//!
//! A string of more than [`WHOLE_BYTES`] is chunked, and stays so until it is set anew. In `redis/elements`:
//!
//! | key | value |
//! |---|---|
//! | object, chunk's number in four bytes, big-endian | bytes of the chunk |
//!
//! * ST1. Bytes of a chunk that are not stored are zero: a chunk may be absent or shorter than
//!   [`CHUNK_BYTES`]. What is stored never reaches beyond the string's length.
//!
//! So a write far behind the end stores what is written alone, and the length is known without any chunk.

mod copy;
mod edit;
mod read;

pub use copy::copy_chunked;
pub use edit::Editor;
pub use read::{read, read_into, whole};

use crate::entry::Entry;
use crate::layout::{Space, object_key};
use crate::record::{Kind, Record};
use crate::txn::Txn;
use crate::types::malformed;
use esker::Result;
use esker_redis_data::Value;
use esker_resp::integer::parse_integer;
use std::ops::Range;

/// The string is the payload, and its encoding follows from its bytes.
pub const WHOLE: u8 = 0;

/// The string is the payload and was changed in place once: OBJECT ENCODING calls it `raw` whatever it is.
pub const WHOLE_RAW: u8 = 1;

/// The string is the payload and the sum of floating point numbers: OBJECT ENCODING never calls it `int`.
pub const WHOLE_TEXT: u8 = 2;

/// The string lies in chunks.
pub const CHUNKED: u8 = 8;

/// Bytes up to which a string lies in its record.
pub const WHOLE_BYTES: usize = 16 << 10;

/// Bytes of a chunk.
pub const CHUNK_BYTES: usize = 16 << 10;

/// Bytes up to which Redis keeps a string beside its header.
const EMBEDDED_BYTES: usize = 44;

/// The bytes of a string that lies in its record.
pub fn inline(record: &Record) -> Option<&[u8]> {
    (record.layout() != CHUNKED).then(|| record.payload())
}

/// The length in bytes. Reads no chunk.
///
/// # Errors
/// `Internal` if the record is malformed.
pub fn len(record: &Record) -> Result<u64> {
    match inline(record) {
        Some(bytes) => Ok(bytes.len() as u64),
        None => Ok(chunks(record)?.1),
    }
}

/// The object and the length of a chunked string.
fn chunks(record: &Record) -> Result<(u64, u64)> {
    let numbers: Option<&[u8; 16]> = record.payload().try_into().ok();
    let Some(numbers) = numbers else { return Err(malformed("string's record")) };
    let (object, len) = numbers.split_at(8);
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
    Ok((number(object), number(len)))
}

fn chunk_key(object: u64, chunk: u32) -> Vec<u8> {
    object_key(object, &chunk.to_be_bytes())
}

fn set_chunked(
    txn: &mut Txn<'_>,
    entry: &mut Entry,
    object: u64,
    len: u64,
    expiry_ms: Option<u64>,
) -> Result<()> {
    let mut payload = [0; 16];
    payload[..8].copy_from_slice(&object.to_le_bytes());
    payload[8..].copy_from_slice(&len.to_le_bytes());
    txn.set_record(entry, Kind::String, CHUNKED, expiry_ms, &payload)
}

/// Sets a key to a string, whatever it was before.
///
/// # Errors
/// Those of the engine.
pub fn set(txn: &mut Txn<'_>, entry: &mut Entry, value: &[u8], expiry_ms: Option<u64>) -> Result<()> {
    set_in(txn, entry, value, expiry_ms, WHOLE)
}

/// The same, and the string is the text of a floating point number.
///
/// # Errors
/// Those of the engine.
pub fn set_text(txn: &mut Txn<'_>, entry: &mut Entry, value: &[u8], expiry_ms: Option<u64>) -> Result<()> {
    set_in(txn, entry, value, expiry_ms, WHOLE_TEXT)
}

/// The same, and the string counts as changed in place.
///
/// # Errors
/// Those of the engine.
pub fn set_raw(txn: &mut Txn<'_>, entry: &mut Entry, value: &[u8], expiry_ms: Option<u64>) -> Result<()> {
    set_in(txn, entry, value, expiry_ms, WHOLE_RAW)
}

fn set_in(
    txn: &mut Txn<'_>,
    entry: &mut Entry,
    value: &[u8],
    expiry_ms: Option<u64>,
    layout: u8,
) -> Result<()> {
    if let Some(object) = entry.record().and_then(Record::object) {
        txn.discard_object(object)?;
    }
    if value.len() <= WHOLE_BYTES {
        return txn.set_record(entry, Kind::String, layout, expiry_ms, value);
    }
    let object = txn.store().new_object(entry.physical())?;
    for (chunk, bytes) in value.chunks(CHUNK_BYTES).enumerate() {
        txn.put(Space::Elements, &chunk_key(object, chunk as u32), bytes)?;
    }
    set_chunked(txn, entry, object, value.len() as u64, expiry_ms)
}

/// Makes the bytes of a range of a string that is being set.
pub type MakeChunk<'m> = dyn FnMut(&Txn<'_>, Range<u64>) -> Result<Vec<u8>> + 'm;

/// Sets a key to a string of `len` bytes that `make` makes chunk by chunk, and that counts as changed in
/// place. The key loses its expiry. Meanwhile what was stored of it can still be read by its old record.
///
/// # Errors
/// Those of the engine and of `make`.
pub fn set_by_chunks(txn: &mut Txn<'_>, entry: &mut Entry, len: u64, make: &mut MakeChunk<'_>) -> Result<()> {
    if len <= WHOLE_BYTES as u64 {
        let bytes = make(txn, 0..len)?;
        return set_raw(txn, entry, &bytes, None);
    }
    if let Some(object) = entry.record().and_then(Record::object) {
        txn.discard_object(object)?;
    }
    let object = txn.store().new_object(entry.physical())?;
    for (number, start) in (0..len).step_by(CHUNK_BYTES).enumerate() {
        let bytes = make(txn, start..len.min(start + CHUNK_BYTES as u64))?;
        if bytes.iter().any(|byte| *byte != 0) {
            txn.put(Space::Elements, &chunk_key(object, number as u32), &bytes)?;
        }
    }
    set_chunked(txn, entry, object, len, None)
}

/// What OBJECT ENCODING answers.
pub fn encoding(record: &Record) -> &'static str {
    let bytes = record.payload();
    match record.layout() {
        WHOLE if parse_integer(bytes).is_some() => "int",
        WHOLE | WHOLE_TEXT if bytes.len() <= EMBEDDED_BYTES => "embstr",
        _ => "raw",
    }
}

/// Bytes that the string takes beside its key.
///
/// # Errors
/// `Internal` if the record is malformed.
pub fn memory_bytes(record: &Record) -> Result<u64> {
    let chunks = match record.layout() {
        CHUNKED => len(record)?,
        _ => 0,
    };
    Ok(record.payload().len() as u64 + chunks)
}

/// The string as a value.
///
/// # Errors
/// Those of the engine.
pub fn load(txn: &Txn<'_>, record: &Record) -> Result<Value> {
    Ok(Value::String(whole(txn, record)?.into_owned()))
}
