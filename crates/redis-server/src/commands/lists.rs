//! Commands of lists.

mod pops;
mod search;

use super::Family;
use crate::call::Call;
use crate::failure::{NO_SUCH_KEY, OUT_OF_RANGE, Outcome, SYNTAX};
use esker_redis_store::types::list::{self, Side};
use esker_redis_store::{Entry, EventClass, Kind};
use std::ops::Range;

pub(crate) const COMMANDS: Family = &[
    ("blmove", pops::blmove),
    ("blmpop", pops::blmpop),
    ("blpop", pops::blpop),
    ("brpop", pops::brpop),
    ("brpoplpush", pops::brpoplpush),
    ("lindex", lindex),
    ("linsert", linsert),
    ("llen", llen),
    ("lmove", pops::lmove),
    ("lmpop", pops::lmpop),
    ("lpop", pops::lpop),
    ("lpos", search::lpos),
    ("lpush", lpush),
    ("lpushx", lpushx),
    ("lrange", lrange),
    ("lrem", lrem),
    ("lset", lset),
    ("ltrim", ltrim),
    ("rpop", pops::rpop),
    ("rpoplpush", pops::rpoplpush),
    ("rpush", rpush),
    ("rpushx", rpushx),
];

fn lpush(call: &mut Call<'_, '_>) -> Outcome {
    push(call, Side::Head, false)
}

fn rpush(call: &mut Call<'_, '_>) -> Outcome {
    push(call, Side::Tail, false)
}

fn lpushx(call: &mut Call<'_, '_>) -> Outcome {
    push(call, Side::Head, true)
}

fn rpushx(call: &mut Call<'_, '_>) -> Outcome {
    push(call, Side::Tail, true)
}

fn push(call: &mut Call<'_, '_>, side: Side, only_if_there: bool) -> Outcome {
    let mut entry = call.entry_of(1, Kind::List)?;
    if only_if_there && entry.record().is_none() {
        call.reply.integer(0);
        return Ok(());
    }
    let length = list::push(call.txn, &mut entry, side, &call.args[2..])?;
    call.changed(1, EventClass::LIST, push_event(side));
    call.reply.integer(length as i64);
    Ok(())
}

fn push_event(side: Side) -> &'static str {
    match side {
        Side::Head => "lpush",
        Side::Tail => "rpush",
    }
}

fn llen(call: &mut Call<'_, '_>) -> Outcome {
    let length = list::len(&call.entry_of(1, Kind::List)?)?;
    call.reply.integer(length as i64);
    Ok(())
}

/// The index from the head that an index from either end means; `None` before the head.
fn index_from_head(index: i64, length: u64) -> Option<u64> {
    match u64::try_from(index) {
        Ok(index) => Some(index),
        Err(_) => length.checked_sub(index.unsigned_abs()),
    }
}

/// Indexes from the head of the elements from `start` to `stop`, which count from either end.
fn indexes(start: i64, stop: i64, length: u64) -> Range<u64> {
    let first = index_from_head(start, length).unwrap_or(0);
    let end = index_from_head(stop, length).map_or(0, |last| last.saturating_add(1).min(length));
    first..end.max(first)
}

fn lindex(call: &mut Call<'_, '_>) -> Outcome {
    let entry = call.entry_of(1, Kind::List)?;
    if entry.record().is_none() {
        call.reply.null();
        return Ok(());
    }
    let index = index_from_head(call.integer(2)?, list::len(&entry)?);
    match index.map(|index| list::get(call.txn, &entry, index)).transpose()?.flatten() {
        Some(value) => call.reply.bulk(&value),
        None => call.reply.null(),
    }
    Ok(())
}

fn lset(call: &mut Call<'_, '_>) -> Outcome {
    let mut entry = call.entry_of(1, Kind::List)?;
    if entry.record().is_none() {
        return Err(NO_SUCH_KEY.into());
    }
    let index = index_from_head(call.integer(2)?, list::len(&entry)?);
    let index = index.ok_or(OUT_OF_RANGE)?;
    if !list::set(call.txn, &mut entry, index, call.args[3])? {
        return Err(OUT_OF_RANGE.into());
    }
    call.changed(1, EventClass::LIST, "lset");
    call.reply.status(b"OK");
    Ok(())
}

fn linsert(call: &mut Call<'_, '_>) -> Outcome {
    let before = call.is_word(2, "before");
    if !before && !call.is_word(2, "after") {
        return Err(SYNTAX.into());
    }
    let mut entry = call.entry_of(1, Kind::List)?;
    if entry.record().is_none() {
        call.reply.integer(0);
        return Ok(());
    }
    match list::insert(call.txn, &mut entry, before, call.args[3], call.args[4])? {
        Some(length) => {
            call.changed(1, EventClass::LIST, "linsert");
            call.reply.integer(length as i64);
        }
        None => call.reply.integer(-1),
    }
    Ok(())
}

fn lrange(call: &mut Call<'_, '_>) -> Outcome {
    let (start, stop) = (call.integer(2)?, call.integer(3)?);
    let entry = call.entry_of(1, Kind::List)?;
    let shown = indexes(start, stop, list::len(&entry)?);
    let count = shown.end - shown.start;
    call.reply.array(count as usize);
    list::for_each(call.txn, &entry, shown.start, count, Side::Head, |_, value| {
        call.reply.bulk(value);
        true
    })?;
    Ok(())
}

fn ltrim(call: &mut Call<'_, '_>) -> Outcome {
    let (start, stop) = (call.integer(2)?, call.integer(3)?);
    let mut entry = call.entry_of(1, Kind::List)?;
    if entry.record().is_some() {
        let kept = indexes(start, stop, list::len(&entry)?);
        list::trim(call.txn, &mut entry, kept.start, kept.end - kept.start)?;
        call.changed(1, EventClass::LIST, "ltrim");
        tell_if_deleted(call, 1, &entry);
    }
    call.reply.status(b"OK");
    Ok(())
}

fn lrem(call: &mut Call<'_, '_>) -> Outcome {
    let count = call.integer(2)?;
    let mut entry = call.entry_of(1, Kind::List)?;
    let (most, from) = match count {
        0 => (u64::MAX, Side::Head),
        1.. => (count.unsigned_abs(), Side::Head),
        _ => (count.unsigned_abs(), Side::Tail),
    };
    let removed = list::remove(call.txn, &mut entry, call.args[3], most, from)?;
    if removed > 0 {
        call.changed(1, EventClass::LIST, "lrem");
        tell_if_deleted(call, 1, &entry);
    }
    call.reply.integer(removed as i64);
    Ok(())
}

/// Tells that a change has deleted the key at a position with its last element, if it has.
fn tell_if_deleted(call: &mut Call<'_, '_>, position: usize, entry: &Entry) {
    if entry.record().is_none() {
        let (db, key) = (call.db(), call.args[position]);
        call.txn.event(EventClass::GENERIC, "del", db, key);
    }
}
