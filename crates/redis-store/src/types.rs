//! The types: how their values lie in records and entries, and what can be done with them.
//!
//! Each type is a module with functions over a transaction and an [`Entry`]; nothing in them knows the
//! protocol.

pub mod dictionary;
pub mod hash;
pub mod list;
pub(crate) mod packed;
pub mod set;
pub mod sorted_set;
pub mod stream;
pub mod string;

use crate::entry::Entry;
use crate::layout::{MAX_MEMBER_BYTES, Space, object_range};
use crate::record::{Kind, Record};
use crate::txn::Txn;
use esker::{Error, Result};
use esker_redis_data::Value;

/// Deletes a key with all it has; `false` if it was not there.
///
/// # Errors
/// Those of the engine.
pub fn delete_key(txn: &mut Txn<'_>, entry: &mut Entry) -> Result<bool> {
    if txn.bury_expired(entry)? {
        return Ok(false);
    }
    let Some(record) = entry.record() else { return Ok(false) };
    if let Some(object) = record.object() {
        txn.discard_object(object)?;
    }
    txn.remove_record(entry)?;
    Ok(true)
}

/// The whole value of a key, which must be there.
///
/// # Errors
/// Those of the engine; `NotFound` for a key that is not there.
pub fn load(txn: &Txn<'_>, entry: &Entry) -> Result<Value> {
    let record = entry.record().ok_or_else(|| Error::NotFound("the key has no value".into()))?;
    match record.kind() {
        Kind::String => string::load(txn, record),
        Kind::Hash => hash::load(txn, entry),
        Kind::Set => set::load(txn, entry),
        Kind::Stream => stream::convert::load(txn, entry),
        Kind::SortedSet => sorted_set::load(txn, entry),
        Kind::List => list::load(txn, entry).map(Value::List),
    }
}

/// The whole string of a key that holds one.
///
/// # Errors
/// As [`load`].
pub fn load_string(txn: &Txn<'_>, entry: &Entry) -> Result<Vec<u8>> {
    match load(txn, entry)? {
        Value::String(bytes) => Ok(bytes),
        _ => Err(malformed("string")),
    }
}

/// The value of a field of a key that holds a hash.
///
/// # Errors
/// As [`load`].
pub fn load_field(txn: &Txn<'_>, entry: &Entry, field: &[u8]) -> Result<Option<Vec<u8>>> {
    Ok(hash::get(txn, entry, field)?.map(|value| value.to_vec()))
}

/// Sets a key that is not there to a value.
///
/// # Errors
/// Those of the engine; `InvalidArgument` if a member is longer than any can be, before anything is changed.
pub fn save(txn: &mut Txn<'_>, entry: &mut Entry, value: &Value, expiry_ms: Option<u64>) -> Result<()> {
    check(value)?;
    let limits = txn.store().encoding_limits();
    match value {
        Value::String(bytes) => string::set(txn, entry, bytes, expiry_ms),
        Value::List(elements) => list::save(txn, entry, elements, expiry_ms),
        Value::Set(members) => set::save(txn, entry, members, expiry_ms),
        Value::SortedSet(members) => sorted_set::save(txn, entry, members, expiry_ms, &limits),
        Value::Hash(pairs) => hash::save(txn, entry, pairs, expiry_ms),
        Value::Stream(value) => {
            stream::convert::save(txn, entry, value, expiry_ms, stream::NodeLimits::of(&limits))
        }
    }
}

/// Sets the key `to`, which is not there, to the value of another. What lies in the record is copied as it
/// is, a string in chunks chunk by chunk; the elements of another object are read and written again under a
/// number of their own.
///
/// # Errors
/// As [`load`] and [`save`].
pub fn copy(txn: &mut Txn<'_>, from: &Entry, to: &mut Entry, expiry_ms: Option<u64>) -> Result<()> {
    match from.record() {
        Some(record) if record.object().is_none() => {
            txn.set_record(to, record.kind(), record.layout(), expiry_ms, record.payload())
        }
        Some(record) if record.kind() == Kind::String => string::copy_chunked(txn, record, to, expiry_ms),
        _ => {
            let value = load(txn, from)?;
            save(txn, to, &value, expiry_ms)
        }
    }
}

/// The number of bytes by which a key and its value are stored, without what is written in front of several
/// entries at once. Elements are looked at up to `samples`; the others are taken for as large.
///
/// # Errors
/// Those of the engine.
pub fn stored_bytes(txn: &Txn<'_>, entry: &Entry, samples: u64) -> Result<u64> {
    let Some(record) = entry.record() else { return Ok(0) };
    let mut bytes = (entry.key().len() + record.payload().len()) as u64;
    let Some(object) = record.object() else { return Ok(bytes) };
    let (first, end) = object_range(object);
    for space in [Space::Elements, Space::Orders] {
        let (mut looked_at, mut sum) = (0, 0);
        for element in txn.range(space, &first[..]..&end[..]) {
            let (key, value) = element?;
            sum += (key.len() + value.len()) as u64;
            looked_at += 1;
            if looked_at == samples {
                break;
            }
        }
        let size = txn.store().space(space).approximate_size(&first[..]..&end[..])?;
        let all = if looked_at < samples { looked_at } else { size.entries.max(looked_at) };
        bytes += (u128::from(sum) * u128::from(all) / u128::from(looked_at.max(1))) as u64;
    }
    Ok(bytes)
}

/// The word that OBJECT ENCODING answers for a record.
///
/// # Errors
/// `Internal` for a record that this build cannot have written.
pub fn encoding(record: &Record) -> Result<&'static str> {
    match record.kind() {
        Kind::String => Ok(string::encoding(record)),
        Kind::Hash => hash::encoding(record),
        Kind::Set => set::encoding(record),
        Kind::Stream => Ok(stream::convert::ENCODING),
        Kind::SortedSet => Ok(sorted_set::encoding(record)),
        Kind::List => Ok(list::encoding(record)),
    }
}

/// Whether a value can be stored: fields and members are parts of the keys of entries, whose length is
/// limited.
///
/// # Errors
/// `InvalidArgument`.
pub fn check(value: &Value) -> Result<()> {
    let longest = match value {
        Value::Set(members) => members.iter().map(<[u8]>::len).max(),
        Value::SortedSet(set) => set.members.iter().map(<[u8]>::len).max(),
        Value::Hash(pairs) => pairs.iter().step_by(2).map(<[u8]>::len).max(),
        Value::Stream(value) => stream::convert::longest_name(value),
        Value::String(_) | Value::List(_) => None,
    };
    match longest {
        Some(length) if length > MAX_MEMBER_BYTES => {
            let text = format!("a member has {length} bytes; the longest has {MAX_MEMBER_BYTES}");
            Err(Error::InvalidArgument(text.into()))
        }
        _ => Ok(()),
    }
}

/// The error for a record or an element that this build cannot have written.
pub fn malformed(what: &str) -> Error {
    Error::Internal(format!("a malformed {what} in the Redis data").into())
}
