//! XDEL, XTRIM and XSETID.

use super::{add, event, find, ids};
use crate::call::Call;
use crate::failure::{NO_SUCH_KEY, Outcome, SYNTAX};
use esker_redis_store::EventClass;
use esker_redis_store::types::stream::{MAX_ID, MIN_ID, StreamId};

pub(super) fn xdel(call: &mut Call<'_, '_>) -> Outcome {
    let (mut entry, stream) = find(call, 1)?;
    let Some(mut stream) = stream else {
        call.reply.integer(0);
        return Ok(());
    };
    let ids: Vec<StreamId> = call.args[2..].iter().map(|id| ids::parse(id, 0)).collect::<Outcome<_>>()?;
    let mut deleted = 0;
    for id in ids {
        deleted += i64::from(stream.delete(call.txn, id)?);
    }
    if deleted > 0 {
        stream.store(call.txn, &mut entry)?;
        call.changed(1, EventClass::STREAM, "xdel");
    }
    call.reply.integer(deleted);
    Ok(())
}

pub(super) fn xtrim(call: &mut Call<'_, '_>) -> Outcome {
    let options = add::options(call, false)?;
    let (mut entry, stream) = find(call, 1)?;
    let (Some(mut stream), Some(trim)) = (stream, options.trim) else {
        call.reply.integer(0);
        return Ok(());
    };
    let removed = stream.trim(call.txn, trim)?;
    if removed > 0 {
        stream.store(call.txn, &mut entry)?;
        call.changed(1, EventClass::STREAM, "xtrim");
    }
    call.reply.integer(removed as i64);
    Ok(())
}

pub(super) fn xsetid(call: &mut Call<'_, '_>) -> Outcome {
    let id = ids::parse(call.args[2], 0)?;
    let (mut entries_added, mut max_deleted_id) = (None, StreamId::default());
    let mut at = 3;
    while at < call.args.len() {
        if at + 1 < call.args.len() && call.is_word(at, "entriesadded") {
            let number = call.integer(at + 1)?;
            let number = u64::try_from(number).map_err(|_| "ERR entries_added must be positive")?;
            entries_added = Some(number);
        } else if at + 1 < call.args.len() && call.is_word(at, "maxdeletedid") {
            max_deleted_id = ids::parse(call.args[at + 1], 0)?;
            if id < max_deleted_id {
                let text = "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id";
                return Err(text.into());
            }
        } else {
            return Err(SYNTAX.into());
        }
        at += 2;
    }
    let (mut entry, stream) = find(call, 1)?;
    let Some(mut stream) = stream else { return Err(NO_SUCH_KEY.into()) };
    if !stream.is_empty() {
        let top = stream.range(call.txn, MIN_ID, MAX_ID).next_back().transpose()?;
        if top.is_some_and(|(top, _)| id < top) {
            return Err("ERR The ID specified in XSETID is smaller than the target stream top item".into());
        }
        if entries_added.is_some_and(|added| stream.len() > added) {
            let text = "ERR The entries_added specified in XSETID is smaller than the target stream length";
            return Err(text.into());
        }
    }
    stream.last_id = id;
    stream.entries_added = entries_added.unwrap_or(stream.entries_added);
    if max_deleted_id != StreamId::default() {
        stream.max_deleted_id = max_deleted_id;
    }
    stream.store(call.txn, &mut entry)?;
    event(call, 1, "xsetid");
    call.reply.status(b"OK");
    Ok(())
}
