//! INCR, DECR and their kin: strings that are numbers.

use crate::call::Call;
use crate::failure::{NOT_A_FLOAT, NOT_AN_INTEGER, Outcome};
use esker_redis_store::types::string;
use esker_redis_store::{EventClass, Kind};
use esker_resp::integer::{parse_integer, write_integer};
use esker_resp::long_double::LongDouble;

pub(super) fn incr(call: &mut Call<'_, '_>) -> Outcome {
    add(call, 1)
}

pub(super) fn decr(call: &mut Call<'_, '_>) -> Outcome {
    add(call, -1)
}

pub(super) fn incrby(call: &mut Call<'_, '_>) -> Outcome {
    let increment = call.integer(2)?;
    add(call, increment)
}

pub(super) fn decrby(call: &mut Call<'_, '_>) -> Outcome {
    let increment = call.integer(2)?.checked_neg().ok_or("ERR decrement would overflow")?;
    add(call, increment)
}

fn add(call: &mut Call<'_, '_>, increment: i64) -> Outcome {
    let mut entry = call.entry_of(1, Kind::String)?;
    let value = match entry.record() {
        None => 0,
        Some(record) => string::inline(record).and_then(parse_integer).ok_or(NOT_AN_INTEGER)?,
    };
    let value = value.checked_add(increment).ok_or("ERR increment or decrement would overflow")?;
    let expiry_ms = entry.expiry_ms();
    let mut text = Vec::with_capacity(20);
    write_integer(value, &mut text);
    string::set(call.txn, &mut entry, &text, expiry_ms)?;
    call.changed(1, EventClass::STRING, "incrby");
    call.reply.integer(value);
    Ok(())
}

pub(super) fn incrbyfloat(call: &mut Call<'_, '_>) -> Outcome {
    let mut entry = call.entry_of(1, Kind::String)?;
    let value = match entry.record() {
        None => LongDouble::parse(b"0"),
        Some(record) => string::inline(record).and_then(LongDouble::parse),
    };
    let value = value.ok_or(NOT_A_FLOAT)?;
    let increment = LongDouble::parse(call.args[2]).ok_or(NOT_A_FLOAT)?;
    let sum = value.checked_add(increment).ok_or("ERR increment would produce NaN or Infinity")?;
    let mut text = Vec::new();
    sum.write(&mut text);
    let expiry_ms = entry.expiry_ms();
    string::set_text(call.txn, &mut entry, &text, expiry_ms)?;
    call.changed(1, EventClass::STRING, "incrbyfloat");
    call.reply.bulk(&text);
    Ok(())
}
