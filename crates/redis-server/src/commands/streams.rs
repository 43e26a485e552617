//! Commands of streams.

mod add;
mod claim;
mod delete;
mod groups;
mod ids;
mod info;
mod pending;
mod ranges;
mod read;

use super::{Family, reply_help, subcommand_syntax};
use crate::call::Call;
use crate::failure::{Failure, Outcome};
use esker_redis_store::types::stream::{Group, NodeLimits, Stream};
use esker_redis_store::{Entry, EventClass, Kind};

pub(crate) const COMMANDS: Family = &[
    ("xack", groups::xack),
    ("xadd", add::xadd),
    ("xautoclaim", claim::xautoclaim),
    ("xclaim", claim::xclaim),
    ("xdel", delete::xdel),
    ("xgroup|create", groups::create),
    ("xgroup|createconsumer", groups::create_consumer),
    ("xgroup|delconsumer", groups::delete_consumer),
    ("xgroup|destroy", groups::destroy),
    ("xgroup|help", groups::help),
    ("xgroup|setid", groups::set_id),
    ("xinfo|consumers", info::consumers),
    ("xinfo|groups", info::groups),
    ("xinfo|help", info::help),
    ("xinfo|stream", info::stream),
    ("xlen", ranges::xlen),
    ("xpending", pending::xpending),
    ("xrange", ranges::xrange),
    ("xread", read::xread),
    ("xreadgroup", read::xreadgroup),
    ("xrevrange", ranges::xrevrange),
    ("xsetid", delete::xsetid),
    ("xtrim", delete::xtrim),
];

/// The key at an argument and its stream, if it is there.
fn find(call: &mut Call<'_, '_>, position: usize) -> Outcome<(Entry, Option<Stream>)> {
    let entry = call.entry_of(position, Kind::Stream)?;
    let stream = Stream::find(&entry)?;
    Ok((entry, stream))
}

/// The stream of the key at an argument and its group at another, for commands that read the key first.
fn find_group(
    call: &mut Call<'_, '_>,
    key_at: usize,
    name_at: usize,
) -> Outcome<Option<(Entry, Stream, Group)>> {
    let entry = call.read_entry_of(key_at, Kind::Stream)?;
    let stream = Stream::find(&entry)?;
    let Some(stream) = stream else { return Ok(None) };
    let group = stream.group(call.txn, call.args[name_at])?;
    Ok(group.map(|group| (entry, stream, group)))
}

/// The error of a group that is not there.
fn no_group(key: &[u8], group: &[u8], in_what: &str) -> Failure {
    let text = [b"NOGROUP No such key '", shown(key), b"' or consumer group '", shown(group), b"'"].concat();
    [&text, in_what.as_bytes()].concat().into()
}

/// An argument as Redis repeats it in an error: up to its first zero byte.
fn shown(argument: &[u8]) -> &[u8] {
    argument.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// Tells a keyspace event of a key whose entries stayed as they were: such changes concern no watcher.
fn event(call: &mut Call<'_, '_>, position: usize, name: &'static str) {
    call.event(position, EventClass::STREAM, name);
}

/// Up to which size entries share a node.
fn node_limits(call: &Call<'_, '_>) -> NodeLimits {
    NodeLimits::of(&call.txn.store().encoding_limits())
}

/// The call's time as delivery times are kept.
fn now_ms(call: &Call<'_, '_>) -> i64 {
    call.txn.now_ms() as i64
}
