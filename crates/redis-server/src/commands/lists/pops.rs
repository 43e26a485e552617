//! Commands that take elements off the ends of lists, and those of them that wait for some.

use super::{push_event, tell_if_deleted};
use crate::call::Call;
use crate::failure::{Failure, Outcome, SYNTAX, WRONG_TYPE};
use esker_redis_store::types::list::{self, Side};
use esker_redis_store::{Entry, EventClass, Kind};
use esker_resp::integer::parse_integer;
use std::ops::Range;

const COUNT_IS_NEGATIVE: &str = "ERR value is out of range, must be positive";
const COUNT_IS_ZERO: &str = "ERR count should be greater than 0";
const NO_KEYS: &str = "ERR numkeys should be greater than 0";

pub(super) fn lpop(call: &mut Call<'_, '_>) -> Outcome {
    pop(call, Side::Head)
}

pub(super) fn rpop(call: &mut Call<'_, '_>) -> Outcome {
    pop(call, Side::Tail)
}

fn pop_event(side: Side) -> &'static str {
    match side {
        Side::Head => "lpop",
        Side::Tail => "rpop",
    }
}

fn pop(call: &mut Call<'_, '_>, side: Side) -> Outcome {
    if call.args.len() > 3 {
        let name = call.command.name();
        return Err(format!("ERR wrong number of arguments for '{name}' command").into());
    }
    let count = call.args.get(2).map(|count| {
        let count = parse_integer(count).and_then(|count| u64::try_from(count).ok());
        count.ok_or(COUNT_IS_NEGATIVE)
    });
    let count = count.transpose()?;
    let mut entry = call.entry_of(1, Kind::List)?;
    match (entry.record(), count) {
        (None, None) => call.reply.null(),
        (None, Some(_)) => call.reply.null_array(),
        (Some(_), Some(0)) => call.reply.array(0),
        (Some(_), None) => pop_one(call, 1, &mut entry, side)?,
        (Some(_), Some(count)) => pop_some(call, 1, &mut entry, side, count)?,
    }
    Ok(())
}

/// Takes an element off the list of the key at a position, which has one, and replies with it.
fn pop_one(call: &mut Call<'_, '_>, position: usize, entry: &mut Entry, side: Side) -> Outcome {
    match list::pop(call.txn, entry, side)? {
        Some(value) => call.reply.bulk(&value),
        None => call.reply.null(),
    }
    call.changed(position, EventClass::LIST, pop_event(side));
    tell_if_deleted(call, position, entry);
    Ok(())
}

/// Takes up to `count` elements off, at least one, and replies with an array of them.
fn pop_some(call: &mut Call<'_, '_>, position: usize, entry: &mut Entry, side: Side, count: u64) -> Outcome {
    call.reply.array(list::len(entry)?.min(count) as usize);
    let reply = &mut call.reply;
    list::pop_each(call.txn, entry, side, count, |value| reply.bulk(value))?;
    call.changed(position, EventClass::LIST, pop_event(side));
    tell_if_deleted(call, position, entry);
    Ok(())
}

pub(super) fn blpop(call: &mut Call<'_, '_>) -> Outcome {
    pop_or_wait(call, Side::Head)
}

pub(super) fn brpop(call: &mut Call<'_, '_>) -> Outcome {
    pop_or_wait(call, Side::Tail)
}

fn pop_or_wait(call: &mut Call<'_, '_>, side: Side) -> Outcome {
    let last = call.args.len() - 1;
    let deadline = call.deadline(last)?;
    let Some((position, mut entry)) = call.first_filled(1..last, Kind::List)? else {
        return call.wait_until(deadline);
    };
    call.reply.array(2);
    call.reply.bulk(call.args[position]);
    pop_one(call, position, &mut entry, side)
}

pub(super) fn lmpop(call: &mut Call<'_, '_>) -> Outcome {
    let request = several(call, 1)?;
    match call.first_filled(request.keys.clone(), Kind::List)? {
        Some((position, entry)) => pop_several(call, position, entry, &request),
        None => {
            call.reply.null_array();
            Ok(())
        }
    }
}

pub(super) fn blmpop(call: &mut Call<'_, '_>) -> Outcome {
    let request = several(call, 2)?;
    let deadline = call.deadline(1)?;
    match call.first_filled(request.keys.clone(), Kind::List)? {
        Some((position, entry)) => pop_several(call, position, entry, &request),
        None => call.wait_until(deadline),
    }
}

/// What LMPOP and BLMPOP ask for.
struct Several {
    /// Positions of the keys.
    keys: Range<usize>,
    side: Side,
    count: u64,
}

/// Reads the number of keys at a position, the keys and what follows them.
fn several(call: &Call<'_, '_>, number_at: usize) -> Outcome<Several> {
    let positive = |position: usize, text: &'static str| {
        let number = parse_integer(call.args[position]).filter(|number| *number > 0);
        number.map(i64::unsigned_abs).ok_or_else(|| Failure::from(text))
    };
    let number = positive(number_at, NO_KEYS)?;
    let first = number_at + 1;
    let behind = usize::try_from(number).ok().and_then(|number| first.checked_add(number));
    let side_at = behind.filter(|behind| *behind < call.args.len()).ok_or(SYNTAX)?;
    let side = side(call, side_at)?;
    let mut count = None;
    let mut position = side_at + 1;
    while position < call.args.len() {
        if count.is_some() || !call.is_word(position, "count") || position + 1 == call.args.len() {
            return Err(SYNTAX.into());
        }
        count = Some(positive(position + 1, COUNT_IS_ZERO)?);
        position += 2;
    }
    Ok(Several { keys: first..side_at, side, count: count.unwrap_or(1) })
}

fn side(call: &Call<'_, '_>, position: usize) -> Outcome<Side> {
    if call.is_word(position, "left") {
        Ok(Side::Head)
    } else if call.is_word(position, "right") {
        Ok(Side::Tail)
    } else {
        Err(SYNTAX.into())
    }
}

fn pop_several(call: &mut Call<'_, '_>, position: usize, mut entry: Entry, request: &Several) -> Outcome {
    call.reply.array(2);
    call.reply.bulk(call.args[position]);
    pop_some(call, position, &mut entry, request.side, request.count)
}

pub(super) fn lmove(call: &mut Call<'_, '_>) -> Outcome {
    let (from, to) = (side(call, 3)?, side(call, 4)?);
    move_or(call, from, to, |call| {
        call.reply.null();
        Ok(())
    })
}

pub(super) fn rpoplpush(call: &mut Call<'_, '_>) -> Outcome {
    move_or(call, Side::Tail, Side::Head, |call| {
        call.reply.null();
        Ok(())
    })
}

pub(super) fn blmove(call: &mut Call<'_, '_>) -> Outcome {
    let (from, to) = (side(call, 3)?, side(call, 4)?);
    let deadline = call.deadline(5)?;
    move_or(call, from, to, |call| wait_for_source(call, deadline))
}

pub(super) fn brpoplpush(call: &mut Call<'_, '_>) -> Outcome {
    let deadline = call.deadline(3)?;
    move_or(call, Side::Tail, Side::Head, |call| wait_for_source(call, deadline))
}

/// In a transaction the reply is null and not, as when the time is up, a null array.
fn wait_for_source(call: &mut Call<'_, '_>, deadline: Option<u64>) -> Outcome {
    if call.denies_waiting {
        call.reply.null();
        return Ok(());
    }
    call.wait_until(deadline)
}

/// Moves an element from the list of the first key to that of the second, or does `otherwise` if the first is
/// not there.
fn move_or(
    call: &mut Call<'_, '_>,
    from: Side,
    to: Side,
    otherwise: impl FnOnce(&mut Call<'_, '_>) -> Outcome,
) -> Outcome {
    let Some((_, mut source)) = call.first_filled(1..2, Kind::List)? else { return otherwise(call) };
    if call.args[1] == call.args[2] {
        return rotate(call, &mut source, from, to);
    }
    let mut target = call.entry(2)?;
    if target.record().is_some_and(|record| record.kind() != Kind::List) {
        return Err(WRONG_TYPE.into());
    }
    let Some(value) = list::pop(call.txn, &mut source, from)? else { return otherwise(call) };
    list::push(call.txn, &mut target, to, &[&value])?;
    call.reply.bulk(&value);
    call.changed(2, EventClass::LIST, push_event(to));
    call.changed(1, EventClass::LIST, pop_event(from));
    tell_if_deleted(call, 1, &source);
    Ok(())
}

/// Moves an element within one list, which is there before, between and afterwards.
fn rotate(call: &mut Call<'_, '_>, entry: &mut Entry, from: Side, to: Side) -> Outcome {
    let value = if list::len(entry)? > 1 && from != to {
        let value = list::pop(call.txn, entry, from)?;
        value.map(|value| list::push(call.txn, entry, to, &[&value]).map(|_| value)).transpose()?
    } else {
        let index = if from == Side::Head { 0 } else { list::len(entry)?.saturating_sub(1) };
        list::get(call.txn, entry, index)?
    };
    call.reply.bulk(value.as_deref().unwrap_or_default());
    call.changed(2, EventClass::LIST, push_event(to));
    call.changed(1, EventClass::LIST, pop_event(from));
    Ok(())
}
