//! Commands of keys of any type: deletion, existence, names.

use super::Family;
use crate::call::Call;
use crate::failure::{NO_SUCH_KEY, Outcome, SAME_KEY, SYNTAX};
use esker_redis_store::types;
use esker_redis_store::{Entry, EventClass, Record};
use std::collections::BTreeSet;

pub(crate) const COMMANDS: Family = &[
    ("copy", copy),
    ("del", delete),
    ("exists", count_existing),
    ("move", move_key),
    ("rename", rename),
    ("renamenx", rename_if_new),
    ("touch", count_existing),
    ("type", type_name),
    ("unlink", delete),
];

/// DEL and UNLINK: elements are deleted in the background by both.
fn delete(call: &mut Call<'_, '_>) -> Outcome {
    let mut seen = BTreeSet::new();
    let positions: Vec<usize> = (1..call.args.len()).filter(|at| seen.insert(call.args[*at])).collect();
    let keys: Vec<&[u8]> = positions.iter().map(|at| call.args[*at]).collect();
    let mut deleted = 0;
    for (mut entry, position) in call.txn.entries(call.db(), &keys)?.into_iter().zip(positions) {
        if types::delete_key(call.txn, &mut entry)? {
            call.changed(position, EventClass::GENERIC, "del");
            deleted += 1;
        }
    }
    call.reply.integer(deleted);
    Ok(())
}

/// EXISTS and TOUCH: a key counts as often as it is named.
fn count_existing(call: &mut Call<'_, '_>) -> Outcome {
    let entries = call.entries(1..call.args.len())?;
    let existing = entries.iter().filter(|entry| entry.record().is_some()).count();
    call.reply.integer(existing as i64);
    Ok(())
}

fn type_name(call: &mut Call<'_, '_>) -> Outcome {
    let entry = call.entry(1)?;
    let name = entry.record().map_or("none", |record| record.kind().name());
    call.reply.status(name.as_bytes());
    Ok(())
}

fn rename(call: &mut Call<'_, '_>) -> Outcome {
    rename_to(call, true)?;
    call.reply.status(b"OK");
    Ok(())
}

fn rename_if_new(call: &mut Call<'_, '_>) -> Outcome {
    let was_renamed = rename_to(call, false)?;
    call.reply.integer(was_renamed.into());
    Ok(())
}

/// Gives the record to the other key; objects keep their number, so it takes constant time.
fn rename_to(call: &mut Call<'_, '_>, replaces: bool) -> Outcome<bool> {
    let mut from = call.entry(1)?;
    let Some(record) = from.record().cloned() else { return Err(NO_SUCH_KEY.into()) };
    if call.args[1] == call.args[2] {
        return Ok(false);
    }
    let mut to = call.entry(2)?;
    if to.record().is_some() && !replaces {
        return Ok(false);
    }
    types::delete_key(call.txn, &mut to)?;
    call.txn.set_record(&mut to, record.kind(), record.layout(), record.expiry_ms(), record.payload())?;
    call.txn.remove_record(&mut from)?;
    call.changed(1, EventClass::GENERIC, "rename_from");
    call.changed(2, EventClass::GENERIC, "rename_to");
    Ok(true)
}

fn copy(call: &mut Call<'_, '_>) -> Outcome {
    let (mut db, mut replaces, mut at) = (call.db(), false, 3);
    while at < call.args.len() {
        if call.is_word(at, "replace") {
            replaces = true;
        } else if call.is_word(at, "db") && at + 1 < call.args.len() {
            at += 1;
            db = call.database(at)?;
        } else {
            return Err(SYNTAX.into());
        }
        at += 1;
    }
    if db == call.db() && call.args[1] == call.args[2] {
        return Err(SAME_KEY.into());
    }
    let from = call.read_entry(1)?;
    let is_there = from.record().is_some();
    let was_copied = is_there && copy_to(call, &from, db, call.args[2], replaces)?;
    if was_copied {
        call.txn.changed(db, call.args[2]);
        call.txn.event(EventClass::GENERIC, "copy_to", db, call.args[2]);
    }
    call.reply.integer(was_copied.into());
    Ok(())
}

fn move_key(call: &mut Call<'_, '_>) -> Outcome {
    let db = call.database(2)?;
    if db == call.db() {
        return Err(SAME_KEY.into());
    }
    let mut from = call.entry(1)?;
    let key = call.args[1];
    let was_moved = from.record().is_some() && copy_to(call, &from, db, key, false)?;
    if was_moved {
        types::delete_key(call.txn, &mut from)?;
        call.changed(1, EventClass::GENERIC, "move_from");
        call.txn.changed(db, key);
        call.txn.event(EventClass::GENERIC, "move_to", db, key);
    }
    call.reply.integer(was_moved.into());
    Ok(())
}

/// Copies a value and its expiry to a key of any database; `false` if that is there and stays.
fn copy_to(call: &mut Call<'_, '_>, from: &Entry, db: u16, key: &[u8], replaces: bool) -> Outcome<bool> {
    let mut to = call.txn.entry(db, key)?;
    if to.record().is_some() && !replaces {
        return Ok(false);
    }
    types::delete_key(call.txn, &mut to)?;
    call.note_use(db, key);
    let expiry_ms = from.record().and_then(Record::expiry_ms);
    types::copy(call.txn, from, &mut to, expiry_ms)?;
    Ok(true)
}
