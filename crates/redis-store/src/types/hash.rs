//! Hashes: values by field, in a [`dictionary`](super::dictionary).

use super::dictionary::Dictionary;
use super::dictionary::edit::Edit;
use super::dictionary::items::Piece;
use super::malformed;
use crate::entry::Entry;
use crate::record::{Kind, Record};
use crate::txn::Txn;
use esker::Result;
use esker_redis_data::{Strings, Value};

/// The hash of a key whose type has been checked; an empty one if the key is not there.
///
/// # Errors
/// `Internal` if the record is malformed.
pub fn read(entry: &Entry) -> Result<Dictionary<'_>> {
    Dictionary::of(entry, Kind::Hash)
}

/// The same, to be changed.
///
/// # Errors
/// As [`read`].
pub fn edit(txn: &Txn<'_>, entry: &Entry) -> Result<Edit> {
    Edit::of(txn, entry, Kind::Hash)
}

/// The value of a field of a key whose type has been checked.
///
/// # Errors
/// Those of the engine.
pub fn get<'t>(txn: &'t Txn<'_>, entry: &'t Entry, field: &[u8]) -> Result<Option<Piece<'t>>> {
    read(entry)?.get(txn, field)
}

/// What OBJECT ENCODING answers.
///
/// # Errors
/// `Internal` if the record is malformed.
pub fn encoding(record: &Record) -> Result<&'static str> {
    Ok(if Dictionary::open(record)?.redis_packs_it() { "listpack" } else { "hashtable" })
}

/// The whole hash as a value.
///
/// # Errors
/// Those of the engine; `Internal` if the key has no hash.
pub fn load(txn: &Txn<'_>, entry: &Entry) -> Result<Value> {
    let record = entry.record().ok_or_else(|| malformed("hash"))?;
    let mut pairs = Strings::new();
    for item in Dictionary::open(record)?.items(txn) {
        let (field, value) = item?;
        pairs.push(&field);
        pairs.push(&value);
    }
    Ok(Value::Hash(pairs))
}

/// Sets a key to a hash, whatever it was before; deletes it if there are no fields.
///
/// # Errors
/// Those of the engine; `InvalidArgument` for a key or field that is too long, and then part of the
/// transaction's changes are made.
pub fn save(txn: &mut Txn<'_>, entry: &mut Entry, pairs: &Strings, expiry_ms: Option<u64>) -> Result<()> {
    let mut edit = Edit::new(txn, entry, Kind::Hash)?;
    let mut strings = pairs.iter();
    let mut some = Vec::new();
    while let (Some(field), Some(value)) = (strings.next(), strings.next()) {
        some.push((field, value));
    }
    edit.put_all(txn, &some)?;
    edit.save_with_expiry(txn, entry, expiry_ms)?;
    Ok(())
}
