//! Lists: elements by position.
//!
//! | layout | payload |
//! |---|---|
//! | 0, packed | the number of elements in one byte, then each element: its length as LEB128, its bytes |
//! | 8, split | the object in eight bytes, flags in one, length, head and tail in eight each, little-endian |
//!
//! The elements of a split list are entries of `redis/elements`: the object and the position in eight bytes,
//! big-endian, lead to the element's bytes. Head and tail are the positions of the first and the last
//! element. The flags are described in `split`.
//!
//! A list is packed while it has at most [`PACKED_ELEMENTS`] elements in [`PACKED_BYTES`]; once it is split
//! it stays so. A list without elements has no record.

mod packed;
mod split;

use crate::entry::Entry;
use crate::record::{Kind, Record};
use crate::txn::Txn;
use crate::types::{delete_key, malformed};
use esker::{Result, Value};
use esker_redis_data::Strings;
use split::SplitList;

/// Elements of a packed list at most.
pub const PACKED_ELEMENTS: usize = 128;

/// Bytes of the payload of a packed list at most.
pub const PACKED_BYTES: usize = 1024;

const PACKED: u8 = 0;
const SPLIT: u8 = 8;

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The left end, index 0.
    Head,
    /// The right end, index -1.
    Tail,
}

/// What a record holds.
enum Shape<'e> {
    Absent,
    Packed(&'e [u8]),
    Split(SplitList),
}

fn shape(entry: &Entry) -> Result<Shape<'_>> {
    let Some(record) = entry.record() else { return Ok(Shape::Absent) };
    match (record.kind(), record.layout()) {
        (Kind::List, PACKED) => Ok(Shape::Packed(record.payload())),
        (Kind::List, SPLIT) => Ok(Shape::Split(SplitList::decode(record.payload())?)),
        _ => Err(malformed("list")),
    }
}

fn set_packed(txn: &mut Txn<'_>, entry: &mut Entry, payload: &[u8]) -> Result<()> {
    let expiry_ms = entry.expiry_ms();
    if packed::len(payload) == 0 {
        return delete_key(txn, entry).map(drop);
    }
    txn.set_record(entry, Kind::List, PACKED, expiry_ms, payload)
}

/// Sets the record of a split list; one without elements is removed, and has left no entry.
fn set_split(txn: &mut Txn<'_>, entry: &mut Entry, list: &SplitList) -> Result<()> {
    if list.len == 0 {
        return txn.remove_record(entry);
    }
    let expiry_ms = entry.expiry_ms();
    txn.set_record(entry, Kind::List, SPLIT, expiry_ms, &list.encode())
}

/// The list as a split one, whatever it is. The record stays as it was.
fn split_of(txn: &mut Txn<'_>, entry: &Entry) -> Result<SplitList> {
    match shape(entry)? {
        Shape::Split(list) => Ok(list),
        Shape::Absent => SplitList::new(txn, entry.physical()),
        Shape::Packed(payload) => {
            let mut list = SplitList::new(txn, entry.physical())?;
            for item in packed::items(payload) {
                list.push(txn, Side::Tail, item?)?;
            }
            Ok(list)
        }
    }
}

/// Replaces `remove` elements from `index` of a packed or absent list by others. `false` if the result must
/// be split; nothing was changed then.
fn splice(txn: &mut Txn<'_>, entry: &mut Entry, index: u64, remove: u64, put: &[&[u8]]) -> Result<bool> {
    let payload = match shape(entry)? {
        Shape::Absent => packed::splice(packed::EMPTY, 0, 0, put)?,
        Shape::Packed(payload) => packed::splice(payload, index as usize, remove as usize, put)?,
        Shape::Split(_) => return Ok(false),
    };
    match payload {
        Some(payload) => set_packed(txn, entry, &payload).map(|()| true),
        None => Ok(false),
    }
}

/// The number of elements; zero if the key is absent.
///
/// # Errors
/// `Internal` for a record that this build cannot have written, here and below.
pub fn len(entry: &Entry) -> Result<u64> {
    Ok(match shape(entry)? {
        Shape::Absent => 0,
        Shape::Packed(payload) => packed::len(payload) as u64,
        Shape::Split(list) => list.len,
    })
}

/// Appends elements at an end, one after the other; makes the list if it is absent. Returns its length.
///
/// # Errors
/// Those of the engine, here and below.
pub fn push(txn: &mut Txn<'_>, entry: &mut Entry, side: Side, values: &[&[u8]]) -> Result<u64> {
    let before = len(entry)?;
    let reversed: Vec<&[u8]>;
    let is_packed = match side {
        _ if before as usize + values.len() > PACKED_ELEMENTS => false,
        Side::Tail => splice(txn, entry, before, 0, values)?,
        Side::Head if values.len() == 1 => splice(txn, entry, 0, 0, values)?,
        Side::Head => {
            reversed = values.iter().rev().copied().collect();
            splice(txn, entry, 0, 0, &reversed)?
        }
    };
    if !is_packed {
        let mut list = split_of(txn, entry)?;
        for value in values {
            list.push(txn, side, value)?;
        }
        set_split(txn, entry, &list)?;
    }
    Ok(before + values.len() as u64)
}

/// Removes an element at an end. The key is deleted with its last element.
///
/// # Errors
/// As [`push`].
pub fn pop(txn: &mut Txn<'_>, entry: &mut Entry, side: Side) -> Result<Option<Value>> {
    match shape(entry)? {
        Shape::Absent => Ok(None),
        Shape::Packed(payload) => {
            let index = if side == Side::Head { 0 } else { packed::len(payload).saturating_sub(1) };
            let item = packed::get(payload, index)?.ok_or_else(|| malformed("list"))?;
            let value = Value::owned(item.to_vec());
            splice(txn, entry, index as u64, 1, &[])?;
            Ok(Some(value))
        }
        Shape::Split(mut list) => {
            let commands_behind = txn.times_ahead(entry.record_key());
            let value = list.pop(txn, side, commands_behind)?;
            set_split(txn, entry, &list)?;
            Ok(Some(value))
        }
    }
}

/// Removes up to `count` elements at an end and shows them in the order of removal. The key is deleted with
/// its last element.
///
/// # Errors
/// As [`push`].
pub fn pop_each(
    txn: &mut Txn<'_>,
    entry: &mut Entry,
    side: Side,
    count: u64,
    mut show: impl FnMut(&[u8]),
) -> Result<()> {
    let length = len(entry)?;
    let count = count.min(length);
    if count == 1 {
        if let Some(value) = pop(txn, entry, side)? {
            show(&value);
        }
        return Ok(());
    }
    let (first, kept) = match side {
        Side::Head => (0, count..length),
        Side::Tail => (length - count, 0..length - count),
    };
    for_each(txn, entry, first, count, side, |_, value| {
        show(value);
        true
    })?;
    trim(txn, entry, kept.start, kept.end - kept.start)
}

/// The element at an index from the head.
///
/// # Errors
/// As [`push`].
pub fn get(txn: &Txn<'_>, entry: &Entry, index: u64) -> Result<Option<Value>> {
    match shape(entry)? {
        Shape::Packed(payload) => {
            let item = packed::get(payload, usize::try_from(index).unwrap_or(usize::MAX))?;
            Ok(item.map(|item| Value::owned(item.to_vec())))
        }
        Shape::Split(list) if index < list.len => list.get(txn, list.position_of(txn, index)?).map(Some),
        _ => Ok(None),
    }
}

/// Sets the element at an index from the head; `false` if there is none.
///
/// # Errors
/// As [`push`].
pub fn set(txn: &mut Txn<'_>, entry: &mut Entry, index: u64, value: &[u8]) -> Result<bool> {
    if index >= len(entry)? {
        return Ok(false);
    }
    if !splice(txn, entry, index, 1, &[value])? {
        let list = split_of(txn, entry)?;
        let position = list.position_of(txn, index)?;
        list.set(txn, position, value)?;
        set_split(txn, entry, &list)?;
    }
    Ok(true)
}

/// Inserts an element before or after the first that equals `pivot`. Returns the new length; `None` if
/// there is no such element.
///
/// # Errors
/// As [`push`].
pub fn insert(
    txn: &mut Txn<'_>,
    entry: &mut Entry,
    before: bool,
    pivot: &[u8],
    value: &[u8],
) -> Result<Option<u64>> {
    let mut found = None;
    for_each(txn, entry, 0, u64::MAX, Side::Head, |index, item| {
        if item == pivot {
            found = Some(index + u64::from(!before));
        }
        found.is_none()
    })?;
    let Some(index) = found else { return Ok(None) };
    let length = len(entry)?;
    if !splice(txn, entry, index, 0, &[value])? {
        let mut list = split_of(txn, entry)?;
        list.insert(txn, index, value)?;
        set_split(txn, entry, &list)?;
    }
    Ok(Some(length + 1))
}

/// Removes up to `most` elements that equal `value`, beginning at an end. Returns how many.
///
/// # Errors
/// As [`push`].
pub fn remove(txn: &mut Txn<'_>, entry: &mut Entry, value: &[u8], most: u64, from: Side) -> Result<u64> {
    match shape(entry)? {
        Shape::Absent => Ok(0),
        Shape::Packed(payload) => {
            let (payload, removed) = packed::without(payload, value, most, from)?;
            if removed > 0 {
                set_packed(txn, entry, &payload)?;
            }
            Ok(removed)
        }
        Shape::Split(mut list) => {
            let removed = list.remove(txn, value, most, from)?;
            if removed > 0 {
                set_split(txn, entry, &list)?;
            }
            Ok(removed)
        }
    }
}

/// Keeps `count` elements from index `first` and removes the others. The key is deleted if none is left.
///
/// # Errors
/// As [`push`].
pub fn trim(txn: &mut Txn<'_>, entry: &mut Entry, first: u64, count: u64) -> Result<()> {
    let length = len(entry)?;
    let first = first.min(length);
    let end = first.saturating_add(count).min(length);
    if first == end {
        return delete_key(txn, entry).map(drop);
    }
    if first == 0 && end == length {
        return Ok(());
    }
    match shape(entry)? {
        Shape::Absent => Ok(()),
        Shape::Packed(payload) => {
            let payload = packed::part(payload, first as usize, (end - first) as usize)?;
            set_packed(txn, entry, &payload)
        }
        Shape::Split(mut list) => {
            list.trim(txn, first, end)?;
            set_split(txn, entry, &list)
        }
    }
}

/// Shows up to `count` elements with their indexes, from index `first` upward; from the last of them
/// downward if `from` is the tail. It ends early when `show` returns false.
///
/// # Errors
/// As [`push`].
pub fn for_each(
    txn: &Txn<'_>,
    entry: &Entry,
    first: u64,
    count: u64,
    from: Side,
    mut show: impl FnMut(u64, &[u8]) -> bool,
) -> Result<()> {
    let end = first.saturating_add(count).min(len(entry)?);
    if first >= end {
        return Ok(());
    }
    match shape(entry)? {
        Shape::Absent => Ok(()),
        Shape::Packed(payload) => packed::for_each(payload, first, end, from, show),
        Shape::Split(list) => list.for_each(txn, first, end, from, &mut show),
    }
}

/// The word that OBJECT ENCODING answers: 7.0 has one for lists of any size.
pub fn encoding(_record: &Record) -> &'static str {
    "quicklist"
}

/// The whole list.
///
/// # Errors
/// As [`push`].
pub fn load(txn: &Txn<'_>, entry: &Entry) -> Result<Strings> {
    let mut strings = Strings::default();
    for_each(txn, entry, 0, u64::MAX, Side::Head, |_, value| {
        strings.push(value);
        true
    })?;
    Ok(strings)
}

/// Sets a key to a list, whatever it was before.
///
/// # Errors
/// As [`push`].
pub fn save(txn: &mut Txn<'_>, entry: &mut Entry, list: &Strings, expiry_ms: Option<u64>) -> Result<()> {
    delete_key(txn, entry)?;
    if list.is_empty() {
        return Ok(());
    }
    if list.len() <= PACKED_ELEMENTS {
        let items: Vec<&[u8]> = list.iter().collect();
        if let Some(payload) = packed::splice(packed::EMPTY, 0, 0, &items)? {
            return txn.set_record(entry, Kind::List, PACKED, expiry_ms, &payload);
        }
    }
    let mut split = SplitList::new(txn, entry.physical())?;
    for item in list.iter() {
        split.push(txn, Side::Tail, item)?;
    }
    txn.set_record(entry, Kind::List, SPLIT, expiry_ms, &split.encode())
}

/// Elements that are measured for [`memory_bytes`].
const SAMPLE: u64 = 16;

/// Bytes of an entry beside its key and value, about.
const ENTRY_BYTES: u64 = 24;

/// Bytes that the list takes, about: some elements stand for all.
///
/// # Errors
/// As [`push`].
pub fn memory_bytes(txn: &Txn<'_>, entry: &Entry) -> Result<u64> {
    let Some(record) = entry.record() else { return Ok(0) };
    let own = (entry.key().len() + record.payload().len()) as u64 + ENTRY_BYTES;
    let Shape::Split(list) = shape(entry)? else { return Ok(own) };
    let (mut bytes, mut sampled) = (0, 0);
    list.for_each(txn, 0, list.len.min(SAMPLE), Side::Head, &mut |_, value| {
        bytes += value.len() as u64 + 16 + ENTRY_BYTES;
        sampled += 1;
        true
    })?;
    Ok(own + (u128::from(bytes) * u128::from(list.len) / u128::from(sampled.max(1u64))) as u64)
}
