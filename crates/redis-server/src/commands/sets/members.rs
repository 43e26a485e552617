//! Members that are added, removed and read.

use crate::call::Call;
use crate::failure::Outcome;
use esker_redis_store::types::dictionary::elements::check_lengths;
use esker_redis_store::types::set;
use esker_redis_store::{EventClass, Kind};
use esker_resp::writer::Aggregate;

pub(super) fn sadd(call: &mut Call<'_, '_>) -> Outcome {
    let mut entry = call.entry_of(1, Kind::Set)?;
    let members = &call.args[2..];
    check_lengths(members.iter().copied())?;
    let mut edit = set::edit(call.txn, &entry)?;
    let added = set::add(call.txn, &mut edit, members)?;
    if added > 0 {
        edit.save(call.txn, &mut entry)?;
        call.changed(1, EventClass::SET, "sadd");
    }
    call.reply.integer(added as i64);
    Ok(())
}

pub(super) fn srem(call: &mut Call<'_, '_>) -> Outcome {
    let mut entry = call.entry_of(1, Kind::Set)?;
    if entry.record().is_none() {
        call.reply.integer(0);
        return Ok(());
    }
    let mut edit = set::edit(call.txn, &entry)?;
    let removed = edit.remove_all(call.txn, &call.args[2..])?;
    if removed > 0 {
        let is_left = edit.save(call.txn, &mut entry)?;
        call.changed(1, EventClass::SET, "srem");
        if !is_left {
            call.event(1, EventClass::GENERIC, "del");
        }
    }
    call.reply.integer(removed as i64);
    Ok(())
}

pub(super) fn sismember(call: &mut Call<'_, '_>) -> Outcome {
    let entry = call.entry_of(1, Kind::Set)?;
    let is_member = set::read(&entry)?.contains(call.txn, call.args[2])?;
    call.reply.integer(is_member.into());
    Ok(())
}

pub(super) fn smismember(call: &mut Call<'_, '_>) -> Outcome {
    let entry = call.entry_of(1, Kind::Set)?;
    let members = &call.args[2..];
    call.reply.array(members.len());
    let reply = &mut call.reply;
    set::read(&entry)?.get_each(call.txn, members, |value| reply.integer(value.is_some().into()))?;
    Ok(())
}

pub(super) fn scard(call: &mut Call<'_, '_>) -> Outcome {
    let entry = call.entry_of(1, Kind::Set)?;
    call.reply.integer(set::read(&entry)?.len() as i64);
    Ok(())
}

pub(super) fn smembers(call: &mut Call<'_, '_>) -> Outcome {
    let entry = call.entry_of(1, Kind::Set)?;
    let members = set::read(&entry)?;
    let place = call.reply.reserve(Aggregate::Set, members.len() as usize);
    let mut count = 0;
    for item in members.items(call.txn) {
        call.reply.bulk(&item?.0);
        count += 1;
    }
    call.reply.fill(place, count);
    Ok(())
}
