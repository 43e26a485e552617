//! HRANDFIELD.

use crate::call::Call;
use crate::commands::random_count::{MOST_REPEATED_BYTES, RandomCount, random_count, reply_too_long};
use crate::failure::{Outcome, SYNTAX};
use esker_redis_store::Kind;
use esker_redis_store::types::hash;
use esker_resp::writer::{Aggregate, Protocol, ReplyWriter};

pub(super) fn hrandfield(call: &mut Call<'_, '_>) -> Outcome {
    if call.args.len() > 2 {
        return several(call);
    }
    let entry = call.entry_of(1, Kind::Hash)?;
    match hash::read(&entry)?.pick(call.txn)? {
        Some((field, _)) => call.reply.bulk(&field),
        None => call.reply.null(),
    }
    Ok(())
}

fn several(call: &mut Call<'_, '_>) -> Outcome {
    random_count(call, 2, false)?;
    let with_values = call.args.len() == 4 && call.is_word(3, "withvalues");
    if call.args.len() > 3 && !with_values {
        return Err(SYNTAX.into());
    }
    let count = random_count(call, 2, with_values)?;
    let entry = call.entry_of(1, Kind::Hash)?;
    let hash = hash::read(&entry)?;
    let place = call.reply.reserve(Aggregate::Array, 1);
    let (mut replies, mut bytes) = (0, 0);
    let mut write = |field: &[u8], value: &[u8]| {
        replies += item(&mut call.reply, field, with_values.then_some(value));
        bytes += field.len() + if with_values { value.len() } else { 0 };
        bytes <= MOST_REPEATED_BYTES
    };
    match count {
        RandomCount::Different(count) => hash.sample(call.txn, count, |field, value| {
            write(field, value);
        })?,
        RandomCount::Repeated(count) => {
            hash.pick_each(call.txn, count, write)?;
            if bytes > MOST_REPEATED_BYTES {
                return Err(reply_too_long());
            }
        }
    }
    call.reply.fill(place, replies);
    Ok(())
}

/// Writes a field, in RESP3 as a pair with its value; returns how many replies of the outer array it is.
fn item(reply: &mut ReplyWriter<'_>, field: &[u8], value: Option<&[u8]>) -> usize {
    let Some(value) = value else {
        reply.bulk(field);
        return 1;
    };
    let is_pair = reply.protocol() == Protocol::Resp3;
    if is_pair {
        reply.array(2);
    }
    reply.bulk(field);
    reply.bulk(value);
    if is_pair { 1 } else { 2 }
}
