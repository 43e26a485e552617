//! Reads of hashes.

use crate::call::Call;
use crate::failure::Outcome;
use esker_redis_store::Kind;
use esker_redis_store::types::hash;
use esker_resp::writer::{Aggregate, ReplyWriter};

pub(super) fn hget(call: &mut Call<'_, '_>) -> Outcome {
    let entry = call.entry_of(1, Kind::Hash)?;
    match hash::get(call.txn, &entry, call.args[2])? {
        Some(value) => call.reply.bulk(&value),
        None => call.reply.null(),
    }
    Ok(())
}

pub(super) fn hmget(call: &mut Call<'_, '_>) -> Outcome {
    let entry = call.entry_of(1, Kind::Hash)?;
    let fields = &call.args[2..];
    call.reply.array(fields.len());
    let reply = &mut call.reply;
    hash::read(&entry)?.get_each(call.txn, fields, |value| match value {
        Some(value) => reply.bulk(value),
        None => reply.null(),
    })?;
    Ok(())
}

pub(super) fn hexists(call: &mut Call<'_, '_>) -> Outcome {
    let entry = call.entry_of(1, Kind::Hash)?;
    let is_there = hash::read(&entry)?.contains(call.txn, call.args[2])?;
    call.reply.integer(is_there.into());
    Ok(())
}

pub(super) fn hstrlen(call: &mut Call<'_, '_>) -> Outcome {
    let entry = call.entry_of(1, Kind::Hash)?;
    let value = hash::get(call.txn, &entry, call.args[2])?;
    call.reply.integer(value.map_or(0, |value| value.len() as i64));
    Ok(())
}

pub(super) fn hlen(call: &mut Call<'_, '_>) -> Outcome {
    let entry = call.entry_of(1, Kind::Hash)?;
    call.reply.integer(hash::read(&entry)?.len() as i64);
    Ok(())
}

pub(super) fn hgetall(call: &mut Call<'_, '_>) -> Outcome {
    all(call, Aggregate::Map, |reply, field, value| {
        reply.bulk(field);
        reply.bulk(value);
    })
}

pub(super) fn hkeys(call: &mut Call<'_, '_>) -> Outcome {
    all(call, Aggregate::Array, |reply, field, _| reply.bulk(field))
}

pub(super) fn hvals(call: &mut Call<'_, '_>) -> Outcome {
    all(call, Aggregate::Array, |reply, _, value| reply.bulk(value))
}

fn all(
    call: &mut Call<'_, '_>,
    kind: Aggregate,
    write: impl Fn(&mut ReplyWriter<'_>, &[u8], &[u8]),
) -> Outcome {
    let entry = call.entry_of(1, Kind::Hash)?;
    let hash = hash::read(&entry)?;
    let place = call.reply.reserve(kind, hash.len() as usize);
    let mut count = 0;
    for item in hash.items(call.txn) {
        let (field, value) = item?;
        write(&mut call.reply, &field, &value);
        count += 1;
    }
    call.reply.fill(place, count);
    Ok(())
}
