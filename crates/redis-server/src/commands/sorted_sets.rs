//! Commands of sorted sets.

pub(crate) mod add;
mod bounds;
mod combine;
mod pop;
mod random;
mod ranges;
mod read;
mod remove;

use super::Family;
use crate::call::Call;
use crate::failure::Outcome;
use esker_redis_data::{EncodingLimits, value};
use esker_redis_store::types::{delete_key, sorted_set, sorted_set::SortedSet};
use esker_redis_store::{Entry, EventClass, Kind};
use esker_resp::writer::{Protocol, ReplyWriter};

pub(crate) const COMMANDS: Family = &[
    ("zadd", add::zadd),
    ("zincrby", add::zincrby),
    ("zrem", remove::zrem),
    ("zremrangebyrank", remove::by_rank),
    ("zremrangebyscore", remove::by_score),
    ("zremrangebylex", remove::by_member),
    ("zscore", read::zscore),
    ("zmscore", read::zmscore),
    ("zcard", read::zcard),
    ("zcount", read::zcount),
    ("zlexcount", read::zlexcount),
    ("zrank", read::zrank),
    ("zrevrank", read::zrevrank),
    ("zrange", ranges::zrange),
    ("zrevrange", ranges::zrevrange),
    ("zrangebyscore", ranges::zrangebyscore),
    ("zrevrangebyscore", ranges::zrevrangebyscore),
    ("zrangebylex", ranges::zrangebylex),
    ("zrevrangebylex", ranges::zrevrangebylex),
    ("zrangestore", ranges::zrangestore),
    ("zpopmin", pop::zpopmin),
    ("zpopmax", pop::zpopmax),
    ("zmpop", pop::zmpop),
    ("bzpopmin", pop::bzpopmin),
    ("bzpopmax", pop::bzpopmax),
    ("bzmpop", pop::bzmpop),
    ("zrandmember", random::zrandmember),
    ("zscan", random::zscan),
    ("zunion", combine::zunion),
    ("zinter", combine::zinter),
    ("zdiff", combine::zdiff),
    ("zintercard", combine::zintercard),
    ("zunionstore", combine::zunionstore),
    ("zinterstore", combine::zinterstore),
    ("zdiffstore", combine::zdiffstore),
];

/// Up to which size Redis keeps a set as a listpack.
pub(crate) fn limits(call: &Call<'_, '_>) -> EncodingLimits {
    call.txn.store().encoding_limits()
}

/// The sorted set whose key is the argument at `position`, to be read.
pub(crate) fn open(call: &mut Call<'_, '_>, position: usize) -> Outcome<Option<SortedSet>> {
    Ok(SortedSet::of(&call.read_entry_of(position, Kind::SortedSet)?)?)
}

/// The same, with the key's entry.
pub(crate) fn open_to_change(
    call: &mut Call<'_, '_>,
    position: usize,
) -> Outcome<Option<(Entry, SortedSet)>> {
    let entry = call.entry_of(position, Kind::SortedSet)?;
    Ok(SortedSet::of(&entry)?.map(|set| (entry, set)))
}

/// Writes the set of the key at `position` after members were removed, and tells it.
pub(crate) fn write_after_removal(
    call: &mut Call<'_, '_>,
    position: usize,
    entry: &mut Entry,
    set: &SortedSet,
    event: &'static str,
) -> Outcome {
    let is_deleted = set.write(call.txn, entry)?;
    call.changed(position, EventClass::SORTED_SET, event);
    if is_deleted {
        call.txn.event(EventClass::GENERIC, "del", entry.db(), entry.key());
    }
    Ok(())
}

/// Makes `members` the set of the key at `position`, whatever it was, and tells it; none delete the key.
pub(crate) fn store(
    call: &mut Call<'_, '_>,
    position: usize,
    members: &value::SortedSet,
    event: &'static str,
) -> Outcome {
    let mut entry = call.entry(position)?;
    if members.scores.is_empty() {
        if delete_key(call.txn, &mut entry)? {
            call.changed(position, EventClass::GENERIC, "del");
        }
        return Ok(());
    }
    let limits = limits(call);
    sorted_set::save(call.txn, &mut entry, members, None, &limits)?;
    call.changed(position, EventClass::SORTED_SET, event);
    Ok(())
}

/// Writes a member, with its score if that is wanted: in RESP3 as an array of both. Returns how many replies
/// it was.
pub(crate) fn reply_member(reply: &mut ReplyWriter<'_>, member: &[u8], score: Option<f64>) -> usize {
    let Some(score) = score else {
        reply.bulk(member);
        return 1;
    };
    let is_pair = reply.protocol() == Protocol::Resp3;
    if is_pair {
        reply.array(2);
    }
    reply.bulk(member);
    reply.double(score);
    if is_pair { 1 } else { 2 }
}
