//! XPENDING.

use super::groups::missing;
use super::{find_group, ids, now_ms};
use crate::call::Call;
use crate::failure::{Outcome, SYNTAX};
use esker_redis_store::Txn;
use esker_redis_store::types::stream::{Group, MAX_ID, MIN_ID, Pending, StreamId};
use esker_resp::writer::{Aggregate, ReplyWriter};

/// Which pending entries are asked for.
struct Wanted {
    first: StreamId,
    last: StreamId,
    min_idle_ms: i64,
    count: usize,
    consumer_at: Option<usize>,
}

pub(super) fn xpending(call: &mut Call<'_, '_>) -> Outcome {
    let count = call.args.len();
    if count != 3 && !(6..=9).contains(&count) {
        return Err(SYNTAX.into());
    }
    let wanted = if count == 3 { None } else { Some(wanted(call)?) };
    let Some((_, _, group)) = find_group(call, 1, 2)? else { return Err(missing(call)) };
    match wanted {
        None => summary(call, group),
        Some(wanted) => list(call, &group, &wanted),
    }
}

fn wanted(call: &Call<'_, '_>) -> Outcome<Wanted> {
    let (mut start_at, mut min_idle_ms) = (3, 0);
    if call.is_word(3, "idle") {
        min_idle_ms = call.integer(4)?;
        if call.args.len() < 8 {
            return Err(SYNTAX.into());
        }
        start_at = 5;
    }
    let count = usize::try_from(call.integer(start_at + 2)?).unwrap_or(0);
    let first = ids::parse_start(call.args[start_at])?;
    let last = ids::parse_end(call.args[start_at + 1])?;
    let consumer_at = (start_at + 3 < call.args.len()).then_some(start_at + 3);
    Ok(Wanted { first, last, min_idle_ms, count, consumer_at })
}

/// How many entries are pending, from where to where, and for which consumers.
fn summary(call: &mut Call<'_, '_>, mut group: Group) -> Outcome {
    call.reply.array(4);
    call.reply.integer(group.pending_count() as i64);
    let (first, last) = {
        let mut range = group.pending_range(call.txn, MIN_ID, MAX_ID);
        let first = range.next().transpose()?;
        (first, range.next_back().transpose()?.or(first))
    };
    let (Some((first, _)), Some((last, _))) = (first, last) else {
        call.reply.null();
        call.reply.null();
        call.reply.null_array();
        return Ok(());
    };
    ids::write(&mut call.reply, first);
    ids::write(&mut call.reply, last);
    let numbers: Vec<u32> = group.consumers(call.txn).collect::<esker::Result<_>>()?;
    let place = call.reply.reserve(Aggregate::Array, numbers.len());
    let mut count = 0;
    for number in numbers {
        let consumer = group.consumer(call.txn, number)?;
        if consumer.pending() > 0 {
            call.reply.array(2);
            call.reply.bulk(&consumer.name);
            call.reply.bulk_integer(consumer.pending() as i64);
            count += 1;
        }
    }
    call.reply.fill(place, count);
    Ok(())
}

fn list(call: &mut Call<'_, '_>, group: &Group, wanted: &Wanted) -> Outcome {
    let mut consumer = None;
    if let Some(at) = wanted.consumer_at {
        consumer = group.find_consumer(call.txn, call.args[at])?;
        if consumer.is_none() {
            call.reply.array(0);
            return Ok(());
        }
    }
    let place = call.reply.reserve(Aggregate::Array, wanted.count.min(group.pending_count() as usize));
    let mut lister = Lister { names: group.clone(), count: 0, now_ms: now_ms(call) };
    let (txn, reply) = (&*call.txn, &mut call.reply);
    if wanted.first <= wanted.last && wanted.count > 0 {
        match consumer {
            None => {
                for item in group.pending_range(txn, wanted.first, wanted.last) {
                    let (id, pending) = item?;
                    lister.list(txn, reply, id, pending, wanted)?;
                    if lister.count == wanted.count {
                        break;
                    }
                }
            }
            Some(consumer) => {
                for id in group.pending_ids_from(txn, consumer, wanted.first, wanted.last) {
                    let id = id?;
                    let Some(pending) = group.pending(txn, id)? else { continue };
                    lister.list(txn, reply, id, pending, wanted)?;
                    if lister.count == wanted.count {
                        break;
                    }
                }
            }
        }
    }
    call.reply.fill(place, lister.count);
    Ok(())
}

/// Writes pending entries with the names of their consumers.
struct Lister {
    names: Group,
    count: usize,
    now_ms: i64,
}

impl Lister {
    fn list(
        &mut self,
        txn: &Txn<'_>,
        reply: &mut ReplyWriter<'_>,
        id: StreamId,
        pending: Pending,
        wanted: &Wanted,
    ) -> Outcome {
        let idle_ms = self.now_ms.wrapping_sub(pending.delivered_ms);
        if wanted.min_idle_ms != 0 && idle_ms < wanted.min_idle_ms {
            return Ok(());
        }
        self.count += 1;
        reply.array(4);
        ids::write(reply, id);
        let consumer = self.names.consumer(txn, pending.consumer)?;
        reply.bulk(&consumer.name);
        reply.integer(idle_ms.max(0));
        reply.integer(pending.deliveries as i64);
        Ok(())
    }
}
