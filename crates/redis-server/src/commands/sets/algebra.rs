//! Intersection, union and difference.

use crate::call::Call;
use crate::failure::{Outcome, SYNTAX, WRONG_TYPE};
use esker_redis_data::Strings;
use esker_redis_store::types::dictionary::Dictionary;
use esker_redis_store::types::dictionary::edit::Edit;
use esker_redis_store::types::{delete_key, set};
use esker_redis_store::{Entry, EventClass, Kind, Txn};
use esker_resp::integer::{parse_integer, write_integer};
use esker_resp::writer::Aggregate;
use std::ops::{ControlFlow, Range};

/// What is done with sets.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Intersect,
    Unite,
    Subtract,
}

pub(super) fn sinter(call: &mut Call<'_, '_>) -> Outcome {
    answer(call, Operation::Intersect)
}

pub(super) fn sunion(call: &mut Call<'_, '_>) -> Outcome {
    answer(call, Operation::Unite)
}

pub(super) fn sdiff(call: &mut Call<'_, '_>) -> Outcome {
    answer(call, Operation::Subtract)
}

pub(super) fn sinterstore(call: &mut Call<'_, '_>) -> Outcome {
    store(call, Operation::Intersect, "sinterstore")
}

pub(super) fn sunionstore(call: &mut Call<'_, '_>) -> Outcome {
    store(call, Operation::Unite, "sunionstore")
}

pub(super) fn sdiffstore(call: &mut Call<'_, '_>) -> Outcome {
    store(call, Operation::Subtract, "sdiffstore")
}

pub(super) fn sintercard(call: &mut Call<'_, '_>) -> Outcome {
    let numkeys = parse_integer(call.args[1]).and_then(|count| usize::try_from(count).ok());
    let numkeys = numkeys.filter(|count| *count > 0).ok_or("ERR numkeys should be greater than 0")?;
    if numkeys > call.args.len() - 2 {
        return Err("ERR Number of keys can't be greater than number of args".into());
    }
    let mut limit = 0;
    for at in (2 + numkeys..call.args.len()).step_by(2) {
        if !call.is_word(at, "limit") || at + 1 == call.args.len() {
            return Err(SYNTAX.into());
        }
        let given = parse_integer(call.args[at + 1]).and_then(|limit| u64::try_from(limit).ok());
        limit = given.ok_or("ERR LIMIT can't be negative")?;
    }
    let entries = entries(call, 2..2 + numkeys)?;
    let mut count = 0;
    set::algebra::intersect(call.txn, &sets(&entries)?, |_| {
        count += 1;
        if count == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    call.reply.integer(count as i64);
    Ok(())
}

fn answer(call: &mut Call<'_, '_>, operation: Operation) -> Outcome {
    let entries = entries(call, 1..call.args.len())?;
    let sets = sets(&entries)?;
    let most_sorted = call.txn.store().encoding_limits().set_max_intset_entries;
    let place = call.reply.reserve(Aggregate::Set, sets.first().map_or(0, |set| set.len() as usize));
    let mut count = 0;
    run(call.txn, operation, &sets, most_sorted, |member| {
        call.reply.bulk(member);
        count += 1;
    })?;
    call.reply.fill(place, count);
    Ok(())
}

fn store(call: &mut Call<'_, '_>, operation: Operation, event: &'static str) -> Outcome {
    let entries = entries(call, 2..call.args.len())?;
    let mut result = Strings::new();
    let sets = sets(&entries)?;
    run(call.txn, operation, &sets, 0, |member| result.push(member))?;
    let is_unpacked = matches!(operation, Operation::Subtract) && is_left_unpacked(call.txn, &sets)?;
    let mut target = call.entry(1)?;
    if !result.is_empty() {
        let mut edit = Edit::new(call.txn, &target, Kind::Set)?;
        set::add(call.txn, &mut edit, &result.iter().collect::<Vec<_>>())?;
        if is_unpacked {
            edit.redis_unpacks_it();
        }
        edit.save_with_expiry(call.txn, &mut target, None)?;
        call.changed(1, EventClass::SET, event);
    } else if delete_key(call.txn, &mut target)? {
        call.changed(1, EventClass::GENERIC, "del");
    }
    call.reply.integer(result.len() as i64);
    Ok(())
}

/// Whether the result of a difference is a hash table in Redis whatever is in it: where the first set is the
/// largest part of the work, Redis copies it and removes the others from the copy, which is never packed
/// again.
fn is_left_unpacked(txn: &Txn<'_>, sets: &[Dictionary<'_>]) -> Outcome<bool> {
    let there = sets.iter().filter(|set| !set.is_empty());
    let (mut looked_up, mut copied) = (0_u64, 0_u64);
    for set in there {
        looked_up += sets[0].len();
        copied += set.len();
    }
    if looked_up / 2 <= copied {
        return Ok(false);
    }
    if sets[0].len() > txn.store().encoding_limits().set_max_intset_entries as u64 {
        return Ok(true);
    }
    for item in sets[0].items(txn) {
        if parse_integer(&item?.0).is_none() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The keys at some positions, of which all are sets or not there.
fn entries(call: &mut Call<'_, '_>, positions: Range<usize>) -> Outcome<Vec<Entry>> {
    let entries = call.read_entries(positions, Kind::Set)?;
    let is_set = |entry: &Entry| entry.record().is_none_or(|record| record.kind() == Kind::Set);
    if entries.iter().all(is_set) { Ok(entries) } else { Err(WRONG_TYPE.into()) }
}

fn sets(entries: &[Entry]) -> Outcome<Vec<Dictionary<'_>>> {
    Ok(entries.iter().map(set::read).collect::<esker::Result<_>>()?)
}

/// Calls `each` with every member of the result. Redis answers unions and differences from a set that it has
/// made of them: up to `most_sorted` integers come in order.
fn run(
    txn: &Txn<'_>,
    operation: Operation,
    sets: &[Dictionary<'_>],
    most_sorted: usize,
    mut each: impl FnMut(&[u8]),
) -> Outcome {
    let mut order = IntegersInOrder { waiting: Vec::new(), most: most_sorted, is_over: false };
    match operation {
        Operation::Intersect => set::algebra::intersect(txn, sets, |member| {
            each(member);
            ControlFlow::Continue(())
        })?,
        Operation::Unite => set::algebra::unite(txn, sets, |member| order.pass(member, &mut each))?,
        Operation::Subtract => set::algebra::subtract(txn, sets, |member| order.pass(member, &mut each))?,
    }
    order.end(&mut each);
    Ok(())
}

/// Holds integers back until there are too many or something else comes.
struct IntegersInOrder {
    waiting: Vec<i64>,
    most: usize,
    is_over: bool,
}

impl IntegersInOrder {
    fn pass(&mut self, member: &[u8], each: &mut impl FnMut(&[u8])) {
        if !self.is_over {
            match parse_integer(member) {
                Some(integer) if self.waiting.len() < self.most => return self.waiting.push(integer),
                _ => self.end(each),
            }
        }
        each(member);
    }

    fn end(&mut self, each: &mut impl FnMut(&[u8])) {
        self.is_over = true;
        self.waiting.sort_unstable();
        let mut digits = Vec::new();
        for integer in self.waiting.drain(..) {
            digits.clear();
            write_integer(integer, &mut digits);
            each(&digits);
        }
    }
}
