//! OBJECT: how a value is stored.

use super::Family;
use crate::call::Call;
use crate::failure::Outcome;
use crate::server::Server;
use esker_redis_store::types;
use esker_redis_store::{Kind, Record};
use esker_resp::integer::parse_integer;

pub(crate) const COMMANDS: Family = &[
    ("object|encoding", encoding),
    ("object|freq", frequency),
    ("object|help", help),
    ("object|idletime", idle_time),
    ("object|refcount", references),
];

/// Redis keeps one object for each integer below, and says that it has that many references.
const SHARED_INTEGERS: i64 = 10_000;
const REFERENCES_OF_SHARED: i64 = i32::MAX as i64;

fn record(call: &mut Call<'_, '_>) -> Outcome<Option<Record>> {
    let entry = call.entry(2)?;
    if entry.record().is_none() {
        call.reply.null();
    }
    Ok(entry.record().cloned())
}

fn encoding(call: &mut Call<'_, '_>) -> Outcome {
    if let Some(record) = record(call)? {
        let name = types::encoding(&record)?;
        call.reply.bulk(name.as_bytes());
    }
    Ok(())
}

fn references(call: &mut Call<'_, '_>) -> Outcome {
    if let Some(record) = record(call)? {
        let is_integer = record.kind() == Kind::String && types::encoding(&record)? == "int";
        let integer = parse_integer(record.payload()).filter(|_| is_integer);
        let is_shared = integer.is_some_and(|integer| (0..SHARED_INTEGERS).contains(&integer));
        call.reply.integer(if is_shared { REFERENCES_OF_SHARED } else { 1 });
    }
    Ok(())
}

/// For how many seconds the key has not been used.
fn idle_time(call: &mut Call<'_, '_>) -> Outcome {
    if record(call)?.is_none() {
        return Ok(());
    }
    if call.server.key_uses.is_counting() {
        return Err("ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when \
                    switching between policies at runtime LRU and LFU data will take some time to adjust."
            .into());
    }
    let idle_s = call.idle_s(call.args[2]);
    call.reply.integer(idle_s.into());
    Ok(())
}

/// The logarithmic counter of the key's uses.
fn frequency(call: &mut Call<'_, '_>) -> Outcome {
    if record(call)?.is_none() {
        return Ok(());
    }
    let uses = &call.server.key_uses;
    if !uses.is_counting() {
        return Err(
            "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note \
                    that when switching between policies at runtime LRU and LFU data will take some time to \
                    adjust."
                .into(),
        );
    }
    let count = uses.count(call.txn.physical(call.db()), call.args[2], Server::use_time_s(call.txn));
    call.reply.integer(count.into());
    Ok(())
}

fn help(call: &mut Call<'_, '_>) -> Outcome {
    super::reply_help(
        call,
        &[
            "ENCODING <key>",
            "    Return the kind of internal representation used in order to store the value",
            "    associated with a <key>.",
            "FREQ <key>",
            "    Return the access frequency index of the <key>. The returned integer is",
            "    proportional to the logarithm of the recent access frequency of the key.",
            "IDLETIME <key>",
            "    Return the idle time of the <key>, that is the approximated number of",
            "    seconds elapsed since the last access to the key.",
            "REFCOUNT <key>",
            "    Return the number of references of the value associated with the specified",
            "    <key>.",
        ],
    );
    Ok(())
}
