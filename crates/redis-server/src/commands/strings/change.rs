//! APPEND and SETRANGE: changes within a string.

use crate::call::Call;
use crate::failure::{Outcome, STRING_TOO_LONG};
use esker_redis_store::types::string::{self, Editor};
use esker_redis_store::{EventClass, Kind};

/// Whether a string may end `bytes` behind `offset`.
fn check_end(call: &Call<'_, '_>, offset: u64, bytes: usize) -> Outcome {
    match offset.checked_add(bytes as u64) {
        Some(end) if end <= call.server.longest_string_bytes() => Ok(()),
        _ => Err(STRING_TOO_LONG.into()),
    }
}

pub(super) fn append(call: &mut Call<'_, '_>) -> Outcome {
    let mut entry = call.entry_of(1, Kind::String)?;
    let bytes = call.args[2];
    let len = match entry.record() {
        None => {
            string::set(call.txn, &mut entry, bytes, None)?;
            bytes.len() as u64
        }
        Some(record) => {
            let len = string::len(record)?;
            check_end(call, len, bytes.len())?;
            let mut editor = Editor::open(&entry)?;
            editor.write(call.txn, len, bytes)?;
            editor.save(call.txn, &mut entry)?;
            len + bytes.len() as u64
        }
    };
    call.changed(1, EventClass::STRING, "append");
    call.reply.integer(len as i64);
    Ok(())
}

pub(super) fn setrange(call: &mut Call<'_, '_>) -> Outcome {
    let offset = u64::try_from(call.integer(2)?).map_err(|_| "ERR offset is out of range")?;
    let bytes = call.args[3];
    let mut entry = call.entry_of(1, Kind::String)?;
    let mut len = entry.record().map_or(Ok(0), string::len)?;
    if !bytes.is_empty() {
        check_end(call, offset, bytes.len())?;
        let mut editor = Editor::open(&entry)?;
        editor.write(call.txn, offset, bytes)?;
        len = editor.len();
        editor.save(call.txn, &mut entry)?;
        call.changed(1, EventClass::STRING, "setrange");
    }
    call.reply.integer(len as i64);
    Ok(())
}
