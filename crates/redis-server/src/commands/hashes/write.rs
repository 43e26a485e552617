//! Fields that are set and deleted.

use crate::call::Call;
use crate::failure::Outcome;
use esker_redis_store::types::dictionary::elements::check_lengths;
use esker_redis_store::types::hash;
use esker_redis_store::{EventClass, Kind};

pub(super) fn hset(call: &mut Call<'_, '_>) -> Outcome {
    let added = set_all(call)?;
    call.reply.integer(added as i64);
    Ok(())
}

pub(super) fn hmset(call: &mut Call<'_, '_>) -> Outcome {
    set_all(call)?;
    call.reply.status(b"OK");
    Ok(())
}

fn set_all(call: &mut Call<'_, '_>) -> Outcome<u64> {
    let arguments = &call.args[2..];
    if !arguments.len().is_multiple_of(2) {
        return Err(call.wrong_arity());
    }
    let mut entry = call.entry_of(1, Kind::Hash)?;
    let pairs: Vec<(&[u8], &[u8])> = arguments.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    check_lengths(pairs.iter().map(|(field, _)| *field))?;
    let mut edit = hash::edit(call.txn, &entry)?;
    let added = edit.put_all(call.txn, &pairs)?;
    edit.save(call.txn, &mut entry)?;
    call.changed(1, EventClass::HASH, "hset");
    Ok(added)
}

pub(super) fn hsetnx(call: &mut Call<'_, '_>) -> Outcome {
    let mut entry = call.entry_of(1, Kind::Hash)?;
    let (field, value) = (call.args[2], call.args[3]);
    let is_there = hash::read(&entry)?.contains(call.txn, field)?;
    if !is_there {
        check_lengths([field])?;
        let mut edit = hash::edit(call.txn, &entry)?;
        edit.put(call.txn, field, value)?;
        edit.save(call.txn, &mut entry)?;
        call.changed(1, EventClass::HASH, "hset");
    }
    call.reply.integer((!is_there).into());
    Ok(())
}

pub(super) fn hdel(call: &mut Call<'_, '_>) -> Outcome {
    let mut entry = call.entry_of(1, Kind::Hash)?;
    if entry.record().is_none() {
        call.reply.integer(0);
        return Ok(());
    }
    let mut edit = hash::edit(call.txn, &entry)?;
    let removed = edit.remove_all(call.txn, &call.args[2..])?;
    if removed > 0 {
        let is_left = edit.save(call.txn, &mut entry)?;
        call.changed(1, EventClass::HASH, "hdel");
        if !is_left {
            call.event(1, EventClass::GENERIC, "del");
        }
    }
    call.reply.integer(removed as i64);
    Ok(())
}
