//! Sets: different members, in a [`dictionary`](super::dictionary) without values.

pub mod algebra;

use super::dictionary::Dictionary;
use super::dictionary::edit::Edit;
use super::malformed;
use crate::entry::Entry;
use crate::record::{Kind, Record};
use crate::txn::Txn;
use esker::Result;
use esker_redis_data::{Strings, Value};

/// The set of a key whose type has been checked; an empty one if the key is not there.
///
/// # Errors
/// `Internal` if the record is malformed.
pub fn read(entry: &Entry) -> Result<Dictionary<'_>> {
    Dictionary::of(entry, Kind::Set)
}

/// The same, to be changed.
///
/// # Errors
/// As [`read`].
pub fn edit(txn: &Txn<'_>, entry: &Entry) -> Result<Edit> {
    Edit::of(txn, entry, Kind::Set)
}

/// Adds members; returns how many are new.
///
/// # Errors
/// As [`Edit::put_all`].
pub fn add<M: AsRef<[u8]>>(txn: &mut Txn<'_>, edit: &mut Edit, members: &[M]) -> Result<u64> {
    let pairs: Vec<(&[u8], &[u8])> = members.iter().map(|member| (member.as_ref(), &[][..])).collect();
    edit.put_all(txn, &pairs)
}

/// What OBJECT ENCODING answers.
///
/// # Errors
/// `Internal` if the record is malformed.
pub fn encoding(record: &Record) -> Result<&'static str> {
    Ok(if Dictionary::open(record)?.redis_packs_it() { "intset" } else { "hashtable" })
}

/// The whole set as a value.
///
/// # Errors
/// Those of the engine; `Internal` if the key has no set.
pub fn load(txn: &Txn<'_>, entry: &Entry) -> Result<Value> {
    let record = entry.record().ok_or_else(|| malformed("set"))?;
    let mut members = Strings::new();
    for item in Dictionary::open(record)?.items(txn) {
        members.push(&item?.0);
    }
    Ok(Value::Set(members))
}

/// Sets a key to a set, whatever it was before; deletes it if there are no members.
///
/// # Errors
/// Those of the engine; `InvalidArgument` for a key or member that is too long, and then part of the
/// transaction's changes are made.
pub fn save(txn: &mut Txn<'_>, entry: &mut Entry, members: &Strings, expiry_ms: Option<u64>) -> Result<()> {
    let mut edit = Edit::new(txn, entry, Kind::Set)?;
    let members: Vec<&[u8]> = members.iter().collect();
    add(txn, &mut edit, &members)?;
    edit.save_with_expiry(txn, entry, expiry_ms)?;
    Ok(())
}
