//! Fields that are counted up.

use crate::call::Call;
use crate::failure::{NOT_A_FLOAT, Outcome};
use esker_redis_store::types::dictionary::elements::check_lengths;
use esker_redis_store::types::hash;
use esker_redis_store::{Entry, EventClass, Kind};
use esker_resp::integer::{parse_integer, write_integer};
use esker_resp::long_double::LongDouble;

pub(super) fn hincrby(call: &mut Call<'_, '_>) -> Outcome {
    let by = call.integer(3)?;
    let mut entry = call.entry_of(1, Kind::Hash)?;
    let before = match hash::get(call.txn, &entry, call.args[2])? {
        Some(value) => parse_integer(&value).ok_or("ERR hash value is not an integer")?,
        None => 0,
    };
    let sum = before.checked_add(by).ok_or("ERR increment or decrement would overflow")?;
    let mut digits = Vec::new();
    write_integer(sum, &mut digits);
    set(call, &mut entry, &digits, "hincrby")?;
    call.reply.integer(sum);
    Ok(())
}

pub(super) fn hincrbyfloat(call: &mut Call<'_, '_>) -> Outcome {
    let by = LongDouble::parse(call.args[3]).ok_or(NOT_A_FLOAT)?;
    if by.is_infinite() {
        return Err("ERR value is NaN or Infinity".into());
    }
    let mut entry = call.entry_of(1, Kind::Hash)?;
    let sum = match hash::get(call.txn, &entry, call.args[2])? {
        Some(value) => {
            let before = LongDouble::parse(&value).ok_or("ERR hash value is not a float")?;
            before.checked_add(by).ok_or("ERR increment would produce NaN or Infinity")?
        }
        None => by,
    };
    let mut digits = Vec::new();
    sum.write(&mut digits);
    set(call, &mut entry, &digits, "hincrbyfloat")?;
    call.reply.bulk(&digits);
    Ok(())
}

fn set(call: &mut Call<'_, '_>, entry: &mut Entry, value: &[u8], event: &'static str) -> Outcome {
    check_lengths([call.args[2]])?;
    let mut edit = hash::edit(call.txn, entry)?;
    edit.put(call.txn, call.args[2], value)?;
    edit.save(call.txn, entry)?;
    call.changed(1, EventClass::HASH, event);
    Ok(())
}
