//! Sorted sets as whole values, for DUMP, RESTORE and COPY, and what OBJECT and MEMORY say of them.

use super::{Form, IS_SKIPLIST, PACKED, SortedSet, Span, Split, check_member};
use crate::entry::Entry;
use crate::record::Record;
use crate::txn::Txn;
use crate::types::{delete_key, malformed};
use esker::Result;
use esker_redis_data::{EncodingLimits, Value, value};

/// Members whose length stands for that of all.
const MEMBERS_IN_SAMPLE: u64 = 5;

/// Bytes of the two entries of a member beside its name: numbers, hash, score, and what an entry costs.
const ENTRY_BYTES: u64 = 64;

/// What OBJECT ENCODING answers.
pub fn encoding(record: &Record) -> &'static str {
    let at = match record.layout() {
        PACKED => 0,
        _ => 8,
    };
    match record.payload().get(at) {
        Some(flags) if flags & IS_SKIPLIST == 0 => "listpack",
        _ => "skiplist",
    }
}

/// Bytes that a set takes on disk before compression, about.
///
/// # Errors
/// Those of the engine, here and below.
pub fn memory_bytes(txn: &Txn<'_>, entry: &Entry) -> Result<u64> {
    let Some(set) = SortedSet::of(entry)? else { return Ok(0) };
    let record = entry.record().map_or(0, |record| record.payload().len() as u64);
    if !matches!(set.form, Form::Split(_)) {
        return Ok(record);
    }
    let (mut members, mut bytes) = (0, 0);
    set.walk(txn, &Span::all(), false, |member, _| {
        (members, bytes) = (members + 1, bytes + member.len() as u64);
        members < MEMBERS_IN_SAMPLE
    })?;
    Ok(record + set.len() * (ENTRY_BYTES + 2 * bytes / members.max(1)))
}

/// The whole set of a key, by score.
///
/// # Errors
/// As [`memory_bytes`]; `Internal` if the key has no sorted set.
pub fn load(txn: &Txn<'_>, entry: &Entry) -> Result<Value> {
    let set = SortedSet::of(entry)?.ok_or_else(|| malformed("sorted set"))?;
    let mut loaded = value::SortedSet::default();
    set.walk(txn, &Span::all(), false, |member, score| {
        loaded.push(member, score);
        true
    })?;
    Ok(Value::SortedSet(loaded))
}

/// Makes `members`, all different, the set of a key, whatever the key was before; none delete it.
///
/// # Errors
/// As [`memory_bytes`]; `InvalidArgument` for a member that is too long, and then nothing is changed.
pub fn save(
    txn: &mut Txn<'_>,
    entry: &mut Entry,
    members: &value::SortedSet,
    expiry_ms: Option<u64>,
    limits: &EncodingLimits,
) -> Result<()> {
    for (member, _) in members.iter() {
        check_member(member)?;
    }
    if members.scores.is_empty() {
        delete_key(txn, entry)?;
        return Ok(());
    }
    let mut set = SortedSet {
        is_skiplist: members.scores.len() > limits.zset_max_listpack_entries
            || members.iter().any(|(member, _)| member.len() > limits.zset_max_listpack_value),
        ..SortedSet::default()
    };
    if let Some(object) = entry.record().and_then(Record::object) {
        txn.discard_object(object)?;
    }
    let mut rest = members.iter();
    if members.scores.len() <= super::packed::MAX_MEMBERS {
        let fits = |set: &SortedSet, member: &[u8]| matches!(&set.form, Form::Packed(packed) if packed.has_room(member));
        for (member, score) in rest.by_ref() {
            let is_last = !fits(&set, member);
            set.set(txn, entry.physical(), member, None, score, limits)?;
            if is_last {
                break;
            }
        }
    }
    if members.scores.len() as u64 > set.len() {
        if let Form::Packed(_) = set.form {
            set.form = Form::Split(Split::new(txn.store().new_object(entry.physical())?));
        }
        put_rest(txn, &mut set, rest)?;
    }
    set.put(txn, entry, expiry_ms)
}

/// Puts the rest of the members, and counts them together.
fn put_rest<'m>(
    txn: &mut Txn<'_>,
    set: &mut SortedSet,
    rest: impl Iterator<Item = (&'m [u8], f64)>,
) -> Result<()> {
    let Form::Split(split) = &mut set.form else { return Ok(()) };
    let mut count = 0;
    for (member, score) in rest {
        let score = if set.is_skiplist { score } else { score + 0.0 };
        split.put(txn, member, None, score)?;
        count += 1;
    }
    split.has_new(count);
    split.build_ranks(txn)
}
