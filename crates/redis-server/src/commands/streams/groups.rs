//! XGROUP and XACK.

use super::{event, find, find_group, ids, no_group, now_ms, reply_help, shown, subcommand_syntax};
use crate::call::Call;
use crate::failure::{Failure, Outcome};
use esker_redis_store::types::stream::groups::UNKNOWN_ENTRIES_READ;
use esker_redis_store::types::stream::{Group, Stream, StreamId};
use esker_redis_store::{Entry, EventClass};

const NEEDS_KEY: &str = "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may \
    want to use the MKSTREAM option to create an empty stream automatically.";

/// The options of XGROUP CREATE and SETID.
struct GroupOptions {
    makes_stream: bool,
    entries_read: i64,
}

fn options(call: &Call<'_, '_>, is_create: bool) -> Outcome<GroupOptions> {
    let mut options = GroupOptions { makes_stream: false, entries_read: UNKNOWN_ENTRIES_READ };
    let mut at = 5;
    while at < call.args.len() {
        if is_create && call.is_word(at, "mkstream") {
            options.makes_stream = true;
        } else if at + 1 < call.args.len() && call.is_word(at, "entriesread") {
            at += 1;
            options.entries_read = call.integer(at)?;
            if options.entries_read < 0 && options.entries_read != UNKNOWN_ENTRIES_READ {
                return Err("ERR value for ENTRIESREAD must be positive or -1".into());
            }
        } else {
            return Err(subcommand_syntax(call));
        }
        at += 1;
    }
    Ok(options)
}

/// The stream of XGROUP, which must be there.
fn existing(call: &mut Call<'_, '_>) -> Outcome<(Entry, Stream)> {
    let (entry, stream) = find(call, 2)?;
    Ok((entry, stream.ok_or(NEEDS_KEY)?))
}

/// The stream and group of XGROUP, which must be there.
fn existing_group(call: &mut Call<'_, '_>) -> Outcome<(Entry, Stream, Group)> {
    let (entry, stream) = existing(call)?;
    match stream.group(call.txn, call.args[3])? {
        Some(group) => Ok((entry, stream, group)),
        None => Err(no_such_group(call.args[3], call.args[2])),
    }
}

pub(super) fn no_such_group(group: &[u8], key: &[u8]) -> Failure {
    [b"NOGROUP No such consumer group '", shown(group), b"' for key name '", shown(key), b"'"].concat().into()
}

pub(super) fn create(call: &mut Call<'_, '_>) -> Outcome {
    let options = options(call, true)?;
    let (mut entry, stream) = find(call, 2)?;
    if stream.is_none() && !options.makes_stream {
        return Err(NEEDS_KEY.into());
    }
    if call.args.len() > 8 {
        return Err(subcommand_syntax(call));
    }
    let last_id = match (shown(call.args[4]), &stream) {
        (b"$", Some(stream)) => stream.last_id,
        (b"$", None) => StreamId::default(),
        _ => ids::parse(call.args[4], 0)?,
    };
    let is_new = stream.is_none();
    let mut stream = match stream {
        Some(stream) => stream,
        None => Stream::new(call.txn, &entry)?,
    };
    if stream.group(call.txn, call.args[3])?.is_some() {
        return Err("BUSYGROUP Consumer Group name already exists".into());
    }
    stream.create_group(call.txn, call.args[3], last_id, options.entries_read)?;
    stream.store(call.txn, &mut entry)?;
    match is_new {
        true => call.changed(2, EventClass::STREAM, "xgroup-create"),
        false => event(call, 2, "xgroup-create"),
    }
    call.reply.status(b"OK");
    Ok(())
}

pub(super) fn set_id(call: &mut Call<'_, '_>) -> Outcome {
    let options = options(call, false)?;
    let (_, stream, mut group) = existing_group(call)?;
    if call.args.len() != 5 && call.args.len() != 7 {
        return Err(subcommand_syntax(call));
    }
    group.last_id = match shown(call.args[4]) {
        b"$" => stream.last_id,
        _ => ids::parse_or_end(call.args[4], 0)?,
    };
    group.entries_read = options.entries_read;
    group.store(call.txn)?;
    event(call, 2, "xgroup-setid");
    call.reply.status(b"OK");
    Ok(())
}

pub(super) fn destroy(call: &mut Call<'_, '_>) -> Outcome {
    let (mut entry, mut stream) = existing(call)?;
    let Some(group) = stream.group(call.txn, call.args[3])? else {
        call.reply.integer(0);
        return Ok(());
    };
    stream.destroy_group(call.txn, &group)?;
    stream.store(call.txn, &mut entry)?;
    // Consumers that wait for entries of the group must be told that it is gone.
    call.changed(2, EventClass::STREAM, "xgroup-destroy");
    call.reply.integer(1);
    Ok(())
}

pub(super) fn create_consumer(call: &mut Call<'_, '_>) -> Outcome {
    let (_, _, mut group) = existing_group(call)?;
    let is_new = group.find_consumer(call.txn, call.args[4])?.is_none();
    if is_new {
        let now = now_ms(call);
        group.create_consumer(call.txn, call.args[4], now)?;
        group.store(call.txn)?;
        event(call, 2, "xgroup-createconsumer");
    }
    call.reply.integer(is_new.into());
    Ok(())
}

pub(super) fn delete_consumer(call: &mut Call<'_, '_>) -> Outcome {
    let (_, _, mut group) = existing_group(call)?;
    let mut pending = 0;
    if let Some(number) = group.find_consumer(call.txn, call.args[4])? {
        pending = group.delete_consumer(call.txn, number)?;
        group.store(call.txn)?;
        event(call, 2, "xgroup-delconsumer");
    }
    call.reply.integer(pending as i64);
    Ok(())
}

pub(super) fn help(call: &mut Call<'_, '_>) -> Outcome {
    reply_help(
        call,
        &[
            "CREATE <key> <groupname> <id|$> [option]",
            "    Create a new consumer group. Options are:",
            "    * MKSTREAM",
            "      Create the empty stream if it does not exist.",
            "    * ENTRIESREAD entries_read",
            "      Set the group's entries_read counter (internal use).",
            "CREATECONSUMER <key> <groupname> <consumer>",
            "    Create a new consumer in the specified group.",
            "DELCONSUMER <key> <groupname> <consumer>",
            "    Remove the specified consumer.",
            "DESTROY <key> <groupname>",
            "    Remove the specified group.",
            "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
            "    Set the current group ID and entries_read counter.",
        ],
    );
    Ok(())
}

pub(super) fn xack(call: &mut Call<'_, '_>) -> Outcome {
    let Some((_, _, mut group)) = find_group(call, 1, 2)? else {
        call.reply.integer(0);
        return Ok(());
    };
    let ids: Vec<StreamId> = call.args[3..].iter().map(|id| ids::parse(id, 0)).collect::<Outcome<_>>()?;
    let mut acknowledged = 0;
    for id in ids {
        acknowledged += i64::from(group.acknowledge(call.txn, id)?);
    }
    if acknowledged > 0 {
        group.store(call.txn)?;
    }
    call.reply.integer(acknowledged);
    Ok(())
}

/// The same error as that of XPENDING, XCLAIM and XAUTOCLAIM.
pub(super) fn missing(call: &Call<'_, '_>) -> Failure {
    no_group(call.args[1], call.args[2], "")
}
