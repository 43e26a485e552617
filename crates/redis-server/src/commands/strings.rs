//! Commands of strings.

mod change;
mod expiry;
mod lcs;
mod numbers;
mod set;

use super::Family;
use crate::call::Call;
use crate::failure::{Outcome, SYNTAX};
use esker_redis_store::types::{delete_key, string};
use esker_redis_store::{Entry, EventClass, Kind};
use std::ops::Range;

pub(crate) const COMMANDS: Family = &[
    ("append", change::append),
    ("decr", numbers::decr),
    ("decrby", numbers::decrby),
    ("get", get),
    ("getdel", getdel),
    ("getex", getex),
    ("getrange", getrange),
    ("getset", set::getset),
    ("incr", numbers::incr),
    ("incrby", numbers::incrby),
    ("incrbyfloat", numbers::incrbyfloat),
    ("lcs", lcs::lcs),
    ("mget", mget),
    ("mset", set::mset),
    ("msetnx", set::msetnx),
    ("psetex", set::psetex),
    ("set", set::set),
    ("setex", set::setex),
    ("setnx", set::setnx),
    ("setrange", change::setrange),
    ("strlen", strlen),
    ("substr", getrange),
];

/// Answers the string of a key, or that there is none.
fn reply_string(call: &mut Call<'_, '_>, entry: &Entry) -> Outcome {
    let Some(record) = entry.record() else {
        call.reply.null();
        return Ok(());
    };
    match string::inline(record) {
        Some(bytes) => call.reply.bulk(bytes),
        None => {
            let (txn, len) = (&*call.txn, string::len(record)?);
            call.reply.bulk_of(len, |out| string::read_into(txn, record, 0..len, out))?;
        }
    }
    Ok(())
}

fn get(call: &mut Call<'_, '_>) -> Outcome {
    let entry = call.entry_of(1, Kind::String)?;
    reply_string(call, &entry)
}

fn mget(call: &mut Call<'_, '_>) -> Outcome {
    let entries = call.entries(1..call.args.len())?;
    call.reply.array(entries.len());
    for entry in &entries {
        match entry.record() {
            Some(record) if record.kind() != Kind::String => call.reply.null(),
            _ => reply_string(call, entry)?,
        }
    }
    Ok(())
}

fn getdel(call: &mut Call<'_, '_>) -> Outcome {
    let mut entry = call.read_entry_of(1, Kind::String)?;
    reply_string(call, &entry)?;
    if delete_key(call.txn, &mut entry)? {
        call.changed(1, EventClass::GENERIC, "del");
    }
    Ok(())
}

fn getex(call: &mut Call<'_, '_>) -> Outcome {
    let expiry = expiry::of_getex(call)?;
    let mut entry = call.read_entry_of(1, Kind::String)?;
    if entry.record().is_none() {
        call.reply.null();
        return Ok(());
    }
    let (is_absolute, expiry_ms) = match &expiry {
        expiry::Change::None => return reply_string(call, &entry),
        expiry::Change::Persist => (false, None),
        expiry::Change::Set(set) => (set.is_absolute, Some(set.resolve(call)?)),
    };
    reply_string(call, &entry)?;
    match expiry_ms {
        None if entry.expiry_ms().is_none() => {}
        None => {
            call.txn.set_expiry(&mut entry, None)?;
            call.changed(1, EventClass::GENERIC, "persist");
        }
        Some(expiry_ms) if is_absolute && expiry_ms <= call.txn.now_ms() => {
            delete_key(call.txn, &mut entry)?;
            call.changed(1, EventClass::GENERIC, "del");
        }
        Some(expiry_ms) => {
            call.txn.set_expiry(&mut entry, Some(expiry_ms))?;
            call.changed(1, EventClass::GENERIC, "expire");
        }
    }
    Ok(())
}

fn strlen(call: &mut Call<'_, '_>) -> Outcome {
    let entry = call.entry_of(1, Kind::String)?;
    let len = entry.record().map_or(Ok(0), string::len)?;
    call.reply.integer(len as i64);
    Ok(())
}

/// The bytes from `start` to `end`, both included, of a string of `len` bytes; negative ones count from its
/// end.
fn byte_range(start: i64, end: i64, len: u64) -> Range<u64> {
    if start < 0 && end < 0 && start > end {
        return 0..0;
    }
    let len = len as i64;
    let from_front = |at: i64| if at < 0 { len.saturating_add(at).max(0) } else { at };
    let (start, end) = (from_front(start), from_front(end).min(len - 1));
    if start > end { 0..0 } else { start as u64..end as u64 + 1 }
}

fn getrange(call: &mut Call<'_, '_>) -> Outcome {
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    let entry = call.entry_of(1, Kind::String)?;
    let Some(record) = entry.record() else {
        call.reply.bulk(b"");
        return Ok(());
    };
    let range = byte_range(start, end, string::len(record)?);
    let txn = &*call.txn;
    call.reply.bulk_of(range.end - range.start, |out| string::read_into(txn, record, range, out))?;
    Ok(())
}

/// What an unknown option answers.
fn syntax<T>() -> Outcome<T> {
    Err(SYNTAX.into())
}
