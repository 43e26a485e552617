//! XINFO.

use super::groups::no_such_group;
use super::ranges::{Order, write_entry, write_range};
use super::{find, ids, now_ms, reply_help, subcommand_syntax};
use crate::call::Call;
use crate::failure::{NO_SUCH_KEY, Outcome};
use esker_redis_store::types::stream::groups::UNKNOWN_ENTRIES_READ;
use esker_redis_store::types::stream::node::radix_nodes;
use esker_redis_store::types::stream::{Group, MAX_ID, MIN_ID, Stream, StreamId};
use esker_resp::writer::Aggregate;

/// Entries and pending entries that FULL lists if the client does not say how many.
const DEFAULT_COUNT: u64 = 10;

fn existing(call: &mut Call<'_, '_>) -> Outcome<Stream> {
    let (_, stream) = find(call, 2)?;
    Ok(stream.ok_or(NO_SUCH_KEY)?)
}

pub(super) fn help(call: &mut Call<'_, '_>) -> Outcome {
    reply_help(
        call,
        &[
            "CONSUMERS <key> <groupname>",
            "    Show consumers of <groupname>.",
            "GROUPS <key>",
            "    Show the stream consumer groups.",
            "STREAM <key> [FULL [COUNT <count>]",
            "    Show information about the stream.",
        ],
    );
    Ok(())
}

pub(super) fn consumers(call: &mut Call<'_, '_>) -> Outcome {
    let stream = existing(call)?;
    let Some(mut group) = stream.group(call.txn, call.args[3])? else {
        return Err(no_such_group(call.args[3], call.args[2]));
    };
    let numbers: Vec<u32> = group.consumers(call.txn).collect::<esker::Result<_>>()?;
    let now = now_ms(call);
    call.reply.array(numbers.len());
    for number in numbers {
        let consumer = group.consumer(call.txn, number)?;
        call.reply.map(3);
        call.reply.bulk(b"name");
        call.reply.bulk(&consumer.name);
        call.reply.bulk(b"pending");
        call.reply.integer(consumer.pending() as i64);
        call.reply.bulk(b"idle");
        call.reply.integer(now.wrapping_sub(consumer.seen_ms).max(0));
    }
    Ok(())
}

pub(super) fn groups(call: &mut Call<'_, '_>) -> Outcome {
    let stream = existing(call)?;
    call.reply.array(stream.group_count() as usize);
    for group in stream.groups(call.txn) {
        let group = group?;
        call.reply.map(6);
        call.reply.bulk(b"name");
        call.reply.bulk(group.name());
        call.reply.bulk(b"consumers");
        call.reply.integer(group.consumer_count().into());
        call.reply.bulk(b"pending");
        call.reply.integer(group.pending_count() as i64);
        call.reply.bulk(b"last-delivered-id");
        ids::write(&mut call.reply, group.last_id);
        call.reply.bulk(b"entries-read");
        optional(&mut call.reply, known(group.entries_read));
        call.reply.bulk(b"lag");
        optional(&mut call.reply, lag(&stream, &group));
    }
    Ok(())
}

fn known(entries_read: i64) -> Option<i64> {
    Some(entries_read).filter(|read| *read != UNKNOWN_ENTRIES_READ)
}

/// How many entries a group has still to read, if that is known.
fn lag(stream: &Stream, group: &Group) -> Option<i64> {
    let added = stream.entries_added as i64;
    if added == 0 {
        return Some(0);
    }
    match known(group.entries_read) {
        Some(read) if !stream.may_have_gaps_from(group.last_id) => Some(added.wrapping_sub(read)),
        _ => stream.entries_read_up_to(group.last_id).map(|read| added.wrapping_sub(read)),
    }
}

fn optional(reply: &mut esker_resp::writer::ReplyWriter<'_>, number: Option<i64>) {
    match number {
        Some(number) => reply.integer(number),
        None => reply.null(),
    }
}

pub(super) fn stream(call: &mut Call<'_, '_>) -> Outcome {
    let stream = existing(call)?;
    let count = match &call.args[3..] {
        [] => None,
        [_] if call.is_word(3, "full") => Some(DEFAULT_COUNT),
        [_, _, _] if call.is_word(3, "full") && call.is_word(4, "count") => {
            Some(u64::try_from(call.integer(5)?).unwrap_or(DEFAULT_COUNT))
        }
        _ => return Err(subcommand_syntax(call)),
    };
    call.reply.map(if count.is_some() { 9 } else { 10 });
    let nodes = stream.node_ids(call.txn)?;
    integer(call, "length", stream.len() as i64);
    integer(call, "radix-tree-keys", nodes.len() as i64);
    integer(call, "radix-tree-nodes", radix_nodes(&nodes) as i64);
    id(call, "last-generated-id", stream.last_id);
    id(call, "max-deleted-entry-id", stream.max_deleted_id);
    integer(call, "entries-added", stream.entries_added as i64);
    id(call, "recorded-first-entry-id", stream.first_id());
    match count {
        None => ends(call, &stream),
        Some(count) => full(call, &stream, count),
    }
}

fn integer(call: &mut Call<'_, '_>, name: &str, number: i64) {
    call.reply.bulk(name.as_bytes());
    call.reply.integer(number);
}

fn id(call: &mut Call<'_, '_>, name: &str, id: StreamId) {
    call.reply.bulk(name.as_bytes());
    ids::write(&mut call.reply, id);
}

/// The number of groups, the first and the last entry.
fn ends(call: &mut Call<'_, '_>, stream: &Stream) -> Outcome {
    integer(call, "groups", stream.group_count().into());
    let mut range = stream.range(call.txn, MIN_ID, MAX_ID);
    let first = range.next().transpose()?;
    let last = range.next_back().transpose()?.or_else(|| first.clone());
    for (name, entry) in [("first-entry", first), ("last-entry", last)] {
        call.reply.bulk(name.as_bytes());
        match entry {
            Some((id, strings)) => write_entry(&mut call.reply, id, &strings),
            None => call.reply.null(),
        }
    }
    Ok(())
}

/// The entries and groups, `count` of each list; 0 is all.
fn full(call: &mut Call<'_, '_>, stream: &Stream, count: u64) -> Outcome {
    let count = Some(count).filter(|count| *count > 0);
    call.reply.bulk(b"entries");
    write_range(call.txn, &mut call.reply, stream, (MIN_ID, MAX_ID), count, Order::Ascending)?;
    call.reply.bulk(b"groups");
    call.reply.array(stream.group_count() as usize);
    let groups: Vec<Group> = stream.groups(call.txn).collect::<esker::Result<_>>()?;
    let most = count.map_or(usize::MAX, |count| usize::try_from(count).unwrap_or(usize::MAX));
    for group in groups {
        full_group(call, stream, group, most)?;
    }
    Ok(())
}

fn full_group(call: &mut Call<'_, '_>, stream: &Stream, mut group: Group, most: usize) -> Outcome {
    call.reply.map(7);
    call.reply.bulk(b"name");
    call.reply.bulk(group.name());
    id(call, "last-delivered-id", group.last_id);
    call.reply.bulk(b"entries-read");
    optional(&mut call.reply, known(group.entries_read));
    call.reply.bulk(b"lag");
    optional(&mut call.reply, lag(stream, &group));
    integer(call, "pel-count", group.pending_count() as i64);
    call.reply.bulk(b"pending");
    let mut names = group.clone();
    let place = call.reply.reserve(Aggregate::Array, most.min(group.pending_count() as usize));
    let mut written = 0;
    for item in group.pending_range(call.txn, MIN_ID, MAX_ID).take(most) {
        let (id, pending) = item?;
        call.reply.array(4);
        ids::write(&mut call.reply, id);
        call.reply.bulk(&names.consumer(call.txn, pending.consumer)?.name);
        call.reply.integer(pending.delivered_ms);
        call.reply.integer(pending.deliveries as i64);
        written += 1;
    }
    call.reply.fill(place, written);
    call.reply.bulk(b"consumers");
    let numbers: Vec<u32> = group.consumers(call.txn).collect::<esker::Result<_>>()?;
    call.reply.array(numbers.len());
    for number in numbers {
        full_consumer(call, &mut group, number, most)?;
    }
    Ok(())
}

fn full_consumer(call: &mut Call<'_, '_>, group: &mut Group, number: u32, most: usize) -> Outcome {
    let consumer = group.consumer(call.txn, number)?;
    call.reply.map(4);
    call.reply.bulk(b"name");
    call.reply.bulk(&consumer.name);
    call.reply.bulk(b"seen-time");
    call.reply.integer(consumer.seen_ms);
    call.reply.bulk(b"pel-count");
    call.reply.integer(consumer.pending() as i64);
    call.reply.bulk(b"pending");
    let place = call.reply.reserve(Aggregate::Array, most.min(consumer.pending() as usize));
    let mut written = 0;
    for id in group.pending_ids(call.txn, number).take(most) {
        let id = id?;
        let Some(pending) = group.pending(call.txn, id)? else { continue };
        call.reply.array(3);
        ids::write(&mut call.reply, id);
        call.reply.integer(pending.delivered_ms);
        call.reply.integer(pending.deliveries as i64);
        written += 1;
    }
    call.reply.fill(place, written);
    Ok(())
}
