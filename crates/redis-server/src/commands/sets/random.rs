//! SPOP and SRANDMEMBER.

use crate::call::Call;
use crate::commands::random_count::{MOST_REPEATED_BYTES, RandomCount, random_count, reply_too_long};
use crate::failure::{Outcome, SYNTAX};
use esker_redis_data::Strings;
use esker_redis_store::types::{delete_key, set};
use esker_redis_store::{Entry, EventClass, Kind};
use esker_resp::integer::parse_integer;
use esker_resp::writer::Aggregate;

pub(super) fn srandmember(call: &mut Call<'_, '_>) -> Outcome {
    if call.args.len() > 2 {
        return several(call);
    }
    let entry = call.entry_of(1, Kind::Set)?;
    match set::read(&entry)?.pick(call.txn)? {
        Some((member, _)) => call.reply.bulk(&member),
        None => call.reply.null(),
    }
    Ok(())
}

fn several(call: &mut Call<'_, '_>) -> Outcome {
    if call.args.len() > 3 {
        return Err(SYNTAX.into());
    }
    let count = random_count(call, 2, false)?;
    let entry = call.entry_of(1, Kind::Set)?;
    let members = set::read(&entry)?;
    let place = call.reply.reserve(Aggregate::Array, 1);
    let (mut replies, mut bytes) = (0, 0);
    let mut write = |member: &[u8]| {
        call.reply.bulk(member);
        replies += 1;
        bytes += member.len();
        bytes <= MOST_REPEATED_BYTES
    };
    match count {
        RandomCount::Different(count) => members.sample(call.txn, count, |member, _| {
            write(member);
        })?,
        RandomCount::Repeated(count) => {
            members.pick_each(call.txn, count, |member, _| write(member))?;
            if bytes > MOST_REPEATED_BYTES {
                return Err(reply_too_long());
            }
        }
    }
    call.reply.fill(place, replies);
    Ok(())
}

pub(super) fn spop(call: &mut Call<'_, '_>) -> Outcome {
    if call.args.len() > 3 {
        return Err(SYNTAX.into());
    }
    if call.args.len() == 3 {
        return pop_several(call);
    }
    let mut entry = call.entry_of(1, Kind::Set)?;
    let mut picked = Strings::new();
    if let Some((member, _)) = set::read(&entry)?.pick(call.txn)? {
        picked.push(&member);
    }
    match picked.get(0) {
        Some(member) => call.reply.bulk(member),
        None => call.reply.null(),
    }
    remove(call, &mut entry, &picked)
}

fn pop_several(call: &mut Call<'_, '_>) -> Outcome {
    let count = parse_integer(call.args[2]).and_then(|count| u64::try_from(count).ok());
    let count = count.ok_or("ERR value is out of range, must be positive")?;
    let mut entry = call.entry_of(1, Kind::Set)?;
    let members = set::read(&entry)?;
    if count >= members.len() {
        return pop_all(call, &mut entry);
    }
    let mut picked = Strings::new();
    members.sample(call.txn, count, |member, _| picked.push(member))?;
    call.reply.set(picked.len());
    picked.iter().for_each(|member| call.reply.bulk(member));
    remove(call, &mut entry, &picked)
}

/// Pops all members: they are read and the key is deleted, so that nothing is removed one by one.
fn pop_all(call: &mut Call<'_, '_>, entry: &mut Entry) -> Outcome {
    let members = set::read(entry)?;
    let place = call.reply.reserve(Aggregate::Set, members.len() as usize);
    let mut count = 0;
    for item in members.items(call.txn) {
        call.reply.bulk(&item?.0);
        count += 1;
    }
    call.reply.fill(place, count);
    if count > 0 {
        delete_key(call.txn, entry)?;
        call.changed(1, EventClass::SET, "spop");
        call.event(1, EventClass::GENERIC, "del");
    }
    Ok(())
}

fn remove(call: &mut Call<'_, '_>, entry: &mut Entry, picked: &Strings) -> Outcome {
    if picked.is_empty() {
        return Ok(());
    }
    let mut edit = set::edit(call.txn, entry)?;
    let members: Vec<&[u8]> = picked.iter().collect();
    edit.remove_all(call.txn, &members)?;
    let is_left = edit.save(call.txn, entry)?;
    call.changed(1, EventClass::SET, "spop");
    if !is_left {
        call.event(1, EventClass::GENERIC, "del");
    }
    Ok(())
}
