//! SMOVE.

use crate::call::Call;
use crate::failure::{Outcome, WRONG_TYPE};
use esker_redis_store::types::dictionary::elements::check_lengths;
use esker_redis_store::types::set;
use esker_redis_store::{EventClass, Kind};

pub(super) fn smove(call: &mut Call<'_, '_>) -> Outcome {
    let mut source = call.entry(1)?;
    let Some(record) = source.record() else {
        call.reply.integer(0);
        return Ok(());
    };
    if record.kind() != Kind::Set {
        return Err(WRONG_TYPE.into());
    }
    let mut target = call.entry_of(2, Kind::Set)?;
    let member = call.args[3];
    let is_member = set::read(&source)?.contains(call.txn, member)?;
    call.reply.integer(is_member.into());
    if !is_member || call.args[1] == call.args[2] {
        return Ok(());
    }
    check_lengths([member])?;
    // The target first: it fails for a key that is too long.
    let mut edit = set::edit(call.txn, &target)?;
    let is_new = edit.put(call.txn, member, &[])?;
    if is_new {
        edit.save(call.txn, &mut target)?;
    }
    let mut edit = set::edit(call.txn, &source)?;
    edit.remove_all(call.txn, &[member])?;
    let is_left = edit.save(call.txn, &mut source)?;
    call.changed(1, EventClass::SET, "srem");
    if !is_left {
        call.event(1, EventClass::GENERIC, "del");
    }
    if is_new {
        call.changed(2, EventClass::SET, "sadd");
    }
    Ok(())
}
