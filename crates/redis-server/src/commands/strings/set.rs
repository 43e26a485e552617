//! SET and its older forms, MSET and MSETNX.

use super::expiry::SetExpiry;
use super::{reply_string, syntax};
use crate::call::Call;
use crate::failure::{Outcome, WRONG_TYPE};
use esker_redis_store::types::string;
use esker_redis_store::{EventClass, Kind};

/// When SET sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    Always,
    IfAbsent,
    IfPresent,
}

/// The options of SET.
#[derive(Clone, Copy, Debug)]
struct SetOptions {
    condition: Condition,
    answers_old: bool,
    keeps_expiry: bool,
    expiry: Option<SetExpiry>,
}

const NO_OPTIONS: SetOptions =
    SetOptions { condition: Condition::Always, answers_old: false, keeps_expiry: false, expiry: None };

fn options(call: &Call<'_, '_>) -> Outcome<SetOptions> {
    let mut options = NO_OPTIONS;
    let mut position = 3;
    while position < call.args.len() {
        let is = |word| call.is_word(position, word);
        if is("nx") && options.condition != Condition::IfPresent {
            options.condition = Condition::IfAbsent;
        } else if is("xx") && options.condition != Condition::IfAbsent {
            options.condition = Condition::IfPresent;
        } else if is("get") {
            options.answers_old = true;
        } else if is("keepttl") && options.expiry.is_none() {
            options.keeps_expiry = true;
        } else {
            let Some(expiry) = SetExpiry::option(call, position) else { return syntax() };
            if options.keeps_expiry || options.expiry.is_some_and(|before| !before.is_same_option(expiry)) {
                return syntax();
            }
            options.expiry = Some(expiry);
            position += 1;
        }
        position += 1;
    }
    Ok(options)
}

/// Sets the key of argument 1 to the argument at `value`, if the condition holds; whether it did. The old
/// string is answered if the options say so; otherwise the caller answers.
fn set_if(call: &mut Call<'_, '_>, value: usize, options: &SetOptions) -> Outcome<bool> {
    let expiry_ms = options.expiry.map(|expiry| expiry.resolve(call)).transpose()?;
    let mut entry = if options.answers_old { call.read_entry(1)? } else { call.entry(1)? };
    if options.answers_old {
        if entry.record().is_some_and(|record| record.kind() != Kind::String) {
            return Err(WRONG_TYPE.into());
        }
        reply_string(call, &entry)?;
    }
    let is_there = entry.record().is_some();
    let holds = match options.condition {
        Condition::Always => true,
        Condition::IfAbsent => !is_there,
        Condition::IfPresent => is_there,
    };
    if !holds {
        return Ok(false);
    }
    let kept_ms = if options.keeps_expiry { entry.expiry_ms() } else { None };
    string::set(call.txn, &mut entry, call.args[value], expiry_ms.or(kept_ms))?;
    call.changed(1, EventClass::STRING, "set");
    if expiry_ms.is_some() {
        call.event(1, EventClass::GENERIC, "expire");
    }
    Ok(true)
}

pub(super) fn set(call: &mut Call<'_, '_>) -> Outcome {
    let options = options(call)?;
    let is_set = set_if(call, 2, &options)?;
    match (options.answers_old, is_set) {
        (true, _) => {}
        (false, true) => call.reply.status(b"OK"),
        (false, false) => call.reply.null(),
    }
    Ok(())
}

pub(super) fn setnx(call: &mut Call<'_, '_>) -> Outcome {
    let is_set = set_if(call, 2, &SetOptions { condition: Condition::IfAbsent, ..NO_OPTIONS })?;
    call.reply.integer(is_set.into());
    Ok(())
}

pub(super) fn setex(call: &mut Call<'_, '_>) -> Outcome {
    set_for(call, true)
}

pub(super) fn psetex(call: &mut Call<'_, '_>) -> Outcome {
    set_for(call, false)
}

fn set_for(call: &mut Call<'_, '_>, is_seconds: bool) -> Outcome {
    let expiry = Some(SetExpiry { position: 2, is_seconds, is_absolute: false });
    set_if(call, 3, &SetOptions { expiry, ..NO_OPTIONS })?;
    call.reply.status(b"OK");
    Ok(())
}

pub(super) fn getset(call: &mut Call<'_, '_>) -> Outcome {
    set_if(call, 2, &SetOptions { answers_old: true, ..NO_OPTIONS })?;
    Ok(())
}

pub(super) fn mset(call: &mut Call<'_, '_>) -> Outcome {
    set_several(call, Condition::Always)?;
    call.reply.status(b"OK");
    Ok(())
}

pub(super) fn msetnx(call: &mut Call<'_, '_>) -> Outcome {
    let is_set = set_several(call, Condition::IfAbsent)?;
    call.reply.integer(is_set.into());
    Ok(())
}

fn set_several(call: &mut Call<'_, '_>, condition: Condition) -> Outcome<bool> {
    let (db, args) = (call.session.db, call.args);
    if args.len().is_multiple_of(2) {
        return Err(call.wrong_arity());
    }
    let keys: Vec<&[u8]> = args[1..].iter().step_by(2).copied().collect();
    let mut entries = call.txn.entries(db, &keys)?;
    if condition == Condition::IfAbsent && entries.iter().any(|entry| entry.record().is_some()) {
        return Ok(false);
    }
    let is_repeated = {
        let mut sorted = keys;
        sorted.sort_unstable();
        sorted.windows(2).any(|pair| pair[0] == pair[1])
    };
    for (number, entry) in entries.iter_mut().enumerate() {
        let position = 1 + 2 * number;
        if is_repeated {
            // An earlier pair may have changed the key.
            *entry = call.txn.entry(db, args[position])?;
        }
        string::set(call.txn, entry, args[position + 1], None)?;
        call.changed(position, EventClass::STRING, "set");
    }
    Ok(true)
}
