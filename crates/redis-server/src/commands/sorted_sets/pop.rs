//! ZPOPMIN, ZPOPMAX, ZMPOP and their forms that wait for members.

use super::{open_to_change, write_after_removal};
use crate::call::Call;
use crate::failure::{Outcome, SYNTAX};
use esker_redis_store::types::sorted_set::SortedSet;
use esker_redis_store::{Entry, Kind};
use esker_resp::integer::parse_integer;
use esker_resp::writer::Protocol;
use std::ops::Range;

const NOT_POSITIVE: &str = "ERR value is out of range, must be positive";
const NO_KEYS: &str = "ERR numkeys should be greater than 0";
const NO_COUNT: &str = "ERR count should be greater than 0";

pub(super) fn zpopmin(call: &mut Call<'_, '_>) -> Outcome {
    pop(call, false)
}

pub(super) fn zpopmax(call: &mut Call<'_, '_>) -> Outcome {
    pop(call, true)
}

fn pop(call: &mut Call<'_, '_>, from_end: bool) -> Outcome {
    let count = match call.args.len() {
        2 => None,
        3 => Some(positive(call.args[2]).ok_or(NOT_POSITIVE)?),
        _ => return Err(SYNTAX.into()),
    };
    let Some((entry, set)) = open_to_change(call, 1)? else {
        call.reply.array(0);
        return Ok(());
    };
    let popped = take(call, 1, entry, set, from_end, count.unwrap_or(1))?;
    // A count makes pairs of it in RESP3.
    let are_pairs = count.is_some() && call.reply.protocol() == Protocol::Resp3;
    call.reply.array(if are_pairs { popped.len() } else { popped.len() * 2 });
    reply_pairs(call, &popped, are_pairs);
    Ok(())
}

/// A number of at least zero.
fn positive(text: &[u8]) -> Option<u64> {
    parse_integer(text).and_then(|number| u64::try_from(number).ok())
}

/// Pops members of the key at `position`, and tells it.
fn take(
    call: &mut Call<'_, '_>,
    position: usize,
    mut entry: Entry,
    mut set: SortedSet,
    from_end: bool,
    count: u64,
) -> Outcome<Vec<(Vec<u8>, f64)>> {
    let popped = set.pop(call.txn, &entry, from_end, count)?;
    if !popped.is_empty() {
        let event = if from_end { "zpopmax" } else { "zpopmin" };
        write_after_removal(call, position, &mut entry, &set, event)?;
    }
    Ok(popped)
}

fn reply_pairs(call: &mut Call<'_, '_>, popped: &[(Vec<u8>, f64)], are_pairs: bool) {
    for (member, score) in popped {
        if are_pairs {
            call.reply.array(2);
        }
        call.reply.bulk(member);
        call.reply.double(*score);
    }
}

/// What ZMPOP is asked for.
struct PopQuery {
    keys: Range<usize>,
    from_end: bool,
    count: u64,
}

impl PopQuery {
    /// Reads the arguments from the number of keys on.
    fn parse(call: &Call<'_, '_>, first: usize) -> Outcome<Self> {
        let keys = positive(call.args[first]).filter(|keys| *keys > 0).ok_or(NO_KEYS)?;
        let end = usize::try_from(keys).ok().and_then(|keys| keys.checked_add(first + 1));
        let Some(end) = end.filter(|end| *end < call.args.len()) else { return Err(SYNTAX.into()) };
        let from_end = match (call.is_word(end, "min"), call.is_word(end, "max")) {
            (true, _) => false,
            (_, true) => true,
            _ => return Err(SYNTAX.into()),
        };
        let count = match call.args.get(end + 1..) {
            None | Some([]) => 1,
            Some([_, count, rest @ ..]) if call.is_word(end + 1, "count") => {
                let count = positive(count).filter(|count| *count > 0).ok_or(NO_COUNT)?;
                if !rest.is_empty() {
                    return Err(SYNTAX.into());
                }
                count
            }
            Some(_) => return Err(SYNTAX.into()),
        };
        Ok(Self { keys: first + 1..end, from_end, count })
    }

    fn pop(self, call: &mut Call<'_, '_>, position: usize, entry: Entry, set: SortedSet) -> Outcome {
        let popped = take(call, position, entry, set, self.from_end, self.count)?;
        call.reply.array(2);
        call.reply.bulk(call.args[position]);
        call.reply.array(popped.len());
        reply_pairs(call, &popped, true);
        Ok(())
    }
}

pub(super) fn zmpop(call: &mut Call<'_, '_>) -> Outcome {
    let query = PopQuery::parse(call, 1)?;
    match first_set(call, query.keys.clone())? {
        Some((position, entry, set)) => query.pop(call, position, entry, set),
        None => {
            call.reply.null_array();
            Ok(())
        }
    }
}

pub(super) fn bzmpop(call: &mut Call<'_, '_>) -> Outcome {
    let query = PopQuery::parse(call, 2)?;
    let deadline = call.deadline(1)?;
    match first_set(call, query.keys.clone())? {
        Some((position, entry, set)) => query.pop(call, position, entry, set),
        None => call.wait_until(deadline),
    }
}

pub(super) fn bzpopmin(call: &mut Call<'_, '_>) -> Outcome {
    pop_or_wait(call, false)
}

pub(super) fn bzpopmax(call: &mut Call<'_, '_>) -> Outcome {
    pop_or_wait(call, true)
}

fn pop_or_wait(call: &mut Call<'_, '_>, from_end: bool) -> Outcome {
    let last = call.args.len() - 1;
    let deadline = call.deadline(last)?;
    let Some((position, entry, set)) = first_set(call, 1..last)? else { return call.wait_until(deadline) };
    let popped = take(call, position, entry, set, from_end, 1)?;
    call.reply.array(1 + popped.len() * 2);
    call.reply.bulk(call.args[position]);
    reply_pairs(call, &popped, false);
    Ok(())
}

/// The set of the first key that is there.
fn first_set(call: &mut Call<'_, '_>, positions: Range<usize>) -> Outcome<Option<(usize, Entry, SortedSet)>> {
    let Some((position, entry)) = call.first_filled(positions, Kind::SortedSet)? else { return Ok(None) };
    Ok(SortedSet::of(&entry)?.map(|set| (position, entry, set)))
}
