//! XLEN, XRANGE and XREVRANGE, and entries in replies.

use super::{find, ids};
use crate::call::Call;
use crate::failure::{Outcome, SYNTAX};
use esker_redis_store::Txn;
use esker_redis_store::types::stream::{EntryStrings, Stream, StreamId};
use esker_resp::writer::{Aggregate, ReplyWriter};

pub(super) fn xlen(call: &mut Call<'_, '_>) -> Outcome {
    let (_, stream) = find(call, 1)?;
    call.reply.integer(stream.map_or(0, |stream| stream.len() as i64));
    Ok(())
}

pub(super) fn xrange(call: &mut Call<'_, '_>) -> Outcome {
    range(call, false)
}

pub(super) fn xrevrange(call: &mut Call<'_, '_>) -> Outcome {
    range(call, true)
}

fn range(call: &mut Call<'_, '_>, is_reversed: bool) -> Outcome {
    let (first_at, last_at) = if is_reversed { (3, 2) } else { (2, 3) };
    let first = ids::parse_start(call.args[first_at])?;
    let last = ids::parse_end(call.args[last_at])?;
    let mut count = None;
    let mut at = 4;
    while at < call.args.len() {
        if at + 1 == call.args.len() || !call.is_word(at, "count") {
            return Err(SYNTAX.into());
        }
        count = Some(u64::try_from(call.integer(at + 1)?).unwrap_or(0));
        at += 2;
    }
    let (_, stream) = find(call, 1)?;
    let Some(stream) = stream else {
        call.reply.array(0);
        return Ok(());
    };
    if count == Some(0) {
        call.reply.null_array();
        return Ok(());
    }
    let order = if is_reversed { Order::Descending } else { Order::Ascending };
    write_range(call.txn, &mut call.reply, &stream, (first, last), count, order)?;
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Ascending,
    Descending,
}

/// Writes an array of entries; no `count` is all.
pub(super) fn write_range(
    txn: &Txn<'_>,
    reply: &mut ReplyWriter<'_>,
    stream: &Stream,
    ids: (StreamId, StreamId),
    count: Option<u64>,
    order: Order,
) -> Outcome {
    let most = count.map_or(usize::MAX, |count| usize::try_from(count).unwrap_or(usize::MAX));
    let place = reply.reserve(Aggregate::Array, usize::try_from(stream.len()).unwrap_or(most).min(most));
    let mut written = 0;
    let (first, last) = ids;
    if first <= last {
        let mut entries = stream.range(txn, first, last);
        while written < most {
            let next = if order == Order::Ascending { entries.next() } else { entries.next_back() };
            let Some(item) = next else { break };
            let (id, strings) = item?;
            write_entry(reply, id, &strings);
            written += 1;
        }
    }
    reply.fill(place, written);
    Ok(())
}

/// Writes an entry.
pub(super) fn write_entry(reply: &mut ReplyWriter<'_>, id: StreamId, strings: &EntryStrings) {
    reply.array(2);
    ids::write(reply, id);
    reply.array(strings.len());
    strings.iter().for_each(|string| reply.bulk(string));
}
