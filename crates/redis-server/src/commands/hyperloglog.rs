//! Commands of HyperLogLogs.

use super::Family;
use crate::call::Call;
use crate::failure::{Failure, Outcome, WRONG_TYPE, shown};
use esker_redis_data::hyperloglog::{self, HyperLogLogError};
use esker_redis_store::types::string;
use esker_redis_store::{Entry, EventClass, Kind};
use std::borrow::Cow;
use std::sync::atomic::Ordering;

pub(crate) const COMMANDS: Family = &[
    ("pfadd", pfadd),
    ("pfcount", pfcount),
    ("pfdebug", pfdebug),
    ("pfmerge", pfmerge),
    ("pfselftest", pfselftest),
];

fn failure(error: HyperLogLogError) -> Failure {
    error.to_string().into()
}

/// The strings of the keys from the argument at `first` on; `None` for keys that are not there.
fn strings<'e>(call: &Call<'_, '_>, entries: &'e [Entry]) -> Outcome<Vec<Option<Cow<'e, [u8]>>>> {
    let mut strings = Vec::with_capacity(entries.len());
    for entry in entries {
        strings.push(match entry.record() {
            None => None,
            Some(record) if record.kind() != Kind::String => return Err(WRONG_TYPE.into()),
            Some(record) => {
                let string = string::whole(call.txn, record)?;
                hyperloglog::check(&string).map_err(failure)?;
                Some(string)
            }
        });
    }
    Ok(strings)
}

/// From how many bytes on a HyperLogLog becomes dense: `hll-sparse-max-bytes`.
fn sparse_bytes(call: &Call<'_, '_>) -> usize {
    call.server.sparse_bytes.load(Ordering::Relaxed) as usize
}

fn pfadd(call: &mut Call<'_, '_>) -> Outcome {
    let mut entry = call.entry_of(1, Kind::String)?;
    let is_new = entry.record().is_none();
    let mut string = match entry.record() {
        None => hyperloglog::made_by_add(),
        Some(record) => string::whole(call.txn, record)?.into_owned(),
    };
    let sparse_bytes = sparse_bytes(call);
    let is_changed = hyperloglog::add(&mut string, &call.args[2..], sparse_bytes).map_err(failure)?;
    if is_new || is_changed {
        let expiry_ms = entry.expiry_ms();
        string::set_raw(call.txn, &mut entry, &string, expiry_ms)?;
        call.changed(1, EventClass::STRING, "pfadd");
    }
    call.reply.integer((is_new || is_changed).into());
    Ok(())
}

/// PFCOUNT of one key stores what it computed in the string, so it is locked as a command that writes.
fn pfcount(call: &mut Call<'_, '_>) -> Outcome {
    if call.args.len() > 2 {
        let entries = call.read_entries(1..call.args.len(), Kind::String)?;
        let strings = strings(call, &entries)?;
        let count = hyperloglog::count_union(strings.iter().flatten().map(|string| &**string));
        call.reply.integer(count.map_err(failure)? as i64);
        return Ok(());
    }
    let mut entry = call.entry_of(1, Kind::String)?;
    let Some(record) = entry.record() else {
        call.reply.integer(0);
        return Ok(());
    };
    let before = string::whole(call.txn, record)?;
    let mut string = before.to_vec();
    let count = hyperloglog::count(&mut string).map_err(failure)?;
    if string != *before {
        let expiry_ms = entry.expiry_ms();
        string::set_raw(call.txn, &mut entry, &string, expiry_ms)?;
        call.txn.changed(call.session.db, call.args[1]);
    }
    call.reply.integer(count as i64);
    Ok(())
}

fn pfmerge(call: &mut Call<'_, '_>) -> Outcome {
    let mut entries = call.read_entries(1..call.args.len(), Kind::String)?;
    let merged = {
        let strings = strings(call, &entries)?;
        let sources = strings[1..].iter().flatten().map(|string| &**string);
        hyperloglog::merge(strings[0].as_deref(), sources, sparse_bytes(call)).map_err(failure)?
    };
    let destination = &mut entries[0];
    let expiry_ms = destination.expiry_ms();
    string::set_raw(call.txn, destination, &merged, expiry_ms)?;
    call.changed(1, EventClass::STRING, "pfadd");
    call.reply.status(b"OK");
    Ok(())
}

fn pfdebug(call: &mut Call<'_, '_>) -> Outcome {
    let mut entry = call.entry_of(2, Kind::String)?;
    let Some(record) = entry.record() else {
        return Err("ERR The specified key does not exist".into());
    };
    let mut string = string::whole(call.txn, record)?.into_owned();
    hyperloglog::check(&string).map_err(failure)?;
    let name = call.args[1];
    let is = |word: &str| name.eq_ignore_ascii_case(word.as_bytes());
    let makes_dense = is("getreg") || is("todense");
    if !makes_dense && !is("decode") && !is("encoding") {
        return Err([b"ERR Unknown PFDEBUG subcommand '", shown(name), b"'"].concat().into());
    }
    if call.args.len() != 3 {
        let text = [b"ERR Wrong number of arguments for the '", shown(name), b"' subcommand"].concat();
        return Err(text.into());
    }
    if is("encoding") {
        let is_dense = hyperloglog::is_dense(&string);
        call.reply.status(if is_dense { b"dense" } else { b"sparse" });
    } else if is("decode") {
        let runs = hyperloglog::describe_sparse(&string).ok_or("ERR HLL encoding is not sparse")?;
        call.reply.bulk(runs.as_bytes());
    } else {
        let is_converted = hyperloglog::to_dense(&mut string).map_err(failure)?;
        if is_converted {
            let expiry_ms = entry.expiry_ms();
            string::set_raw(call.txn, &mut entry, &string, expiry_ms)?;
            call.txn.changed(call.session.db, call.args[2]);
        }
        if is("todense") {
            call.reply.integer(is_converted.into());
        } else {
            let registers = hyperloglog::registers(&string).map_err(failure)?;
            call.reply.array(registers.len());
            registers.iter().for_each(|value| call.reply.integer(i64::from(*value)));
        }
    }
    Ok(())
}

fn pfselftest(call: &mut Call<'_, '_>) -> Outcome {
    match hyperloglog::self_test() {
        Ok(()) => call.reply.status(b"OK"),
        Err(text) => return Err(format!("ERR TESTFAILED {text}").into()),
    }
    Ok(())
}
