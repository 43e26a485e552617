//! The library `bit`: operations on 32 bits.

use crate::define::Definer;
use crate::raise::{Arguments, Raise, Returned, one, text, to_number};
use mlua::{Lua, Table, Value};

/// Adding it to a double leaves the lower 32 bits of its integer in the lower half of the double's bits.
const ALIGN: f64 = 6_755_399_441_055_744.0;

/// The library's table.
pub(crate) fn table(definer: &Definer<'_>) -> mlua::Result<Table> {
    let table = definer.lua.create_table()?;
    definer.define(&table, "tobit", |lua, _, arguments| result(bits(lua, arguments, 1)?))?;
    definer.define(&table, "bnot", |lua, _, arguments| result(!bits(lua, arguments, 1)?))?;
    definer.define(&table, "bswap", |lua, _, arguments| result(bits(lua, arguments, 1)?.swap_bytes()))?;
    definer.define(&table, "band", |lua, _, arguments| fold(lua, arguments, |one, other| one & other))?;
    definer.define(&table, "bor", |lua, _, arguments| fold(lua, arguments, |one, other| one | other))?;
    definer.define(&table, "bxor", |lua, _, arguments| fold(lua, arguments, |one, other| one ^ other))?;
    definer.define(&table, "lshift", |lua, _, arguments| shift(lua, arguments, |bits, by| bits << by))?;
    definer.define(&table, "rshift", |lua, _, arguments| shift(lua, arguments, |bits, by| bits >> by))?;
    definer.define(&table, "arshift", |lua, _, arguments| {
        shift(lua, arguments, |bits, by| (bits as i32 >> by) as u32)
    })?;
    definer.define(&table, "rol", |lua, _, arguments| shift(lua, arguments, u32::rotate_left))?;
    definer.define(&table, "ror", |lua, _, arguments| shift(lua, arguments, u32::rotate_right))?;
    definer.define(&table, "tohex", |lua, _, arguments| to_hex(lua, arguments))?;
    Ok(table)
}

/// The lower 32 bits of an argument.
fn bits(lua: &Lua, arguments: &Arguments, number: usize) -> Result<u32, Raise> {
    let value = match to_number(lua, arguments.get(number))? {
        Some(value) => value,
        None => arguments.number(lua, number)?,
    };
    Ok((value + ALIGN).to_bits() as u32)
}

fn result(bits: u32) -> Returned {
    one(Value::Integer(i64::from(bits as i32)))
}

fn fold(lua: &Lua, arguments: &Arguments, operation: fn(u32, u32) -> u32) -> Returned {
    let mut value = bits(lua, arguments, 1)?;
    for number in (2..=arguments.len()).rev() {
        value = operation(value, bits(lua, arguments, number)?);
    }
    result(value)
}

fn shift(lua: &Lua, arguments: &Arguments, operation: fn(u32, u32) -> u32) -> Returned {
    let (value, by) = (bits(lua, arguments, 1)?, bits(lua, arguments, 2)? & 31);
    result(operation(value, by))
}

/// Hexadecimal digits, at most 8; a negative count asks for upper case.
fn to_hex(lua: &Lua, arguments: &Arguments) -> Returned {
    let value = bits(lua, arguments, 1)?;
    let count = if arguments.len() < 2 { 8 } else { bits(lua, arguments, 2)? as i32 };
    let digits = if count < 0 { format!("{value:08X}") } else { format!("{value:08x}") };
    let shown = count.unsigned_abs().min(8) as usize;
    one(text(lua, &digits.as_bytes()[8 - shown..])?)
}
