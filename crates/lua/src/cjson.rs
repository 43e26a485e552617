//! The library `cjson`: JSON text and values of Lua.

mod decode;
mod encode;

use crate::define::Definer;
use crate::json_settings::{InvalidNumbers, Settings};
use crate::raise::{Arguments, Raise, Returned, one, text};
use crate::state::State;
use mlua::{Function, Lua, MultiValue, Table, Value};
use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// Where the settings of a table of functions are: those of the global table belong to the state, which
/// resets them before each script.
type Place = Option<Rc<RefCell<Settings>>>;

/// The library's table.
pub(crate) fn table(definer: &Definer<'_>) -> mlua::Result<Table> {
    with_settings(definer, &None)
}

fn with_settings(definer: &Definer<'_>, place: &Place) -> mlua::Result<Table> {
    let table = definer.lua.create_table()?;
    let define = |name: &str, function: fn(&Lua, &State, &mut Settings, &Arguments) -> Returned| {
        let place = place.clone();
        definer.define(&table, name, move |lua, state, arguments| match &place {
            Some(own) => function(lua, state, &mut own.borrow_mut(), arguments),
            None => function(lua, state, &mut state.cjson.borrow_mut(), arguments),
        })
    };
    define("encode", |lua, state, settings, arguments| {
        one_argument(arguments)?;
        one(text(lua, &encode::encode(state, settings, arguments.get(1))?)?)
    })?;
    define("decode", |lua, state, settings, arguments| {
        one_argument(arguments)?;
        one(decode::decode(lua, state, settings, &arguments.string(lua, 1)?.as_bytes())?)
    })?;
    define("encode_sparse_array", encode_sparse_array)?;
    define("encode_max_depth", |lua, _, settings, arguments| {
        at_most(arguments, 1)?;
        one(integer_option(lua, arguments, 1, &mut settings.encode_depth, 1..=i32::MAX)?)
    })?;
    define("decode_max_depth", |lua, _, settings, arguments| {
        at_most(arguments, 1)?;
        one(integer_option(lua, arguments, 1, &mut settings.decode_depth, 1..=i32::MAX)?)
    })?;
    define("encode_number_precision", |lua, _, settings, arguments| {
        at_most(arguments, 1)?;
        one(integer_option(lua, arguments, 1, &mut settings.precision, 1..=14)?)
    })?;
    define("encode_keep_buffer", |lua, _, settings, arguments| {
        at_most(arguments, 1)?;
        one(Value::Boolean(on_or_off(lua, arguments, &mut settings.keeps_buffer)?))
    })?;
    define("encode_invalid_numbers", encode_invalid_numbers)?;
    define("decode_invalid_numbers", |lua, _, settings, arguments| {
        at_most(arguments, 1)?;
        one(Value::Boolean(on_or_off(lua, arguments, &mut settings.decodes_invalid_numbers)?))
    })?;
    let wrap: Function = definer.wrap.clone();
    definer.define(&table, "new", move |lua, state, _| {
        let definer = Definer { lua, state, wrap: &wrap };
        one(Value::Table(with_settings(&definer, &Some(Rc::default()))?))
    })?;
    table.raw_set("null", Value::NULL)?;
    table.raw_set("_NAME", "cjson")?;
    table.raw_set("_VERSION", "2.1.0")?;
    Ok(table)
}

fn one_argument(arguments: &Arguments) -> Result<(), Raise> {
    if arguments.len() == 1 { Ok(()) } else { Err(Raise::Argument(1, "expected 1 argument".to_owned())) }
}

fn at_most(arguments: &Arguments, count: usize) -> Result<(), Raise> {
    if arguments.len() <= count {
        Ok(())
    } else {
        Err(Raise::Argument(count + 1, "found too many arguments".to_owned()))
    }
}

/// Sets an integer, if one is given, and returns it.
fn integer_option(
    lua: &Lua,
    arguments: &Arguments,
    number: usize,
    setting: &mut i32,
    range: RangeInclusive<i32>,
) -> Result<Value, Raise> {
    if !arguments.get(number).is_nil() {
        let value = arguments.integer(lua, number)? as i32;
        if !range.contains(&value) {
            let (least, most) = (range.start(), range.end());
            return Err(Raise::Argument(1, format!("expected integer between {least} and {most}")));
        }
        *setting = value;
    }
    Ok(Value::Integer(i64::from(*setting)))
}

/// Which of `names` the first argument is.
fn option(lua: &Lua, arguments: &Arguments, names: &[&str]) -> Result<usize, Raise> {
    let name = arguments.string(lua, 1)?;
    let name = name.as_bytes();
    names
        .iter()
        .position(|known| known.as_bytes() == &name[..])
        .ok_or_else(|| Raise::Argument(1, format!("invalid option '{}'", String::from_utf8_lossy(&name))))
}

/// Sets a boolean, if one or its name is given, and returns it.
fn on_or_off(lua: &Lua, arguments: &Arguments, setting: &mut bool) -> Result<bool, Raise> {
    match arguments.get(1) {
        Value::Nil => {}
        Value::Boolean(value) => *setting = *value,
        _ => *setting = option(lua, arguments, &["off", "on"])? == 1,
    }
    Ok(*setting)
}

fn encode_sparse_array(lua: &Lua, _: &State, settings: &mut Settings, arguments: &Arguments) -> Returned {
    at_most(arguments, 3)?;
    let converts = Value::Boolean(on_or_off(lua, arguments, &mut settings.sparse_converts)?);
    let ratio = integer_option(lua, arguments, 2, &mut settings.sparse_ratio, 0..=i32::MAX)?;
    let safe = integer_option(lua, arguments, 3, &mut settings.sparse_safe, 0..=i32::MAX)?;
    Ok(MultiValue::from_iter([converts, ratio, safe]))
}

fn encode_invalid_numbers(lua: &Lua, _: &State, settings: &mut Settings, arguments: &Arguments) -> Returned {
    at_most(arguments, 1)?;
    let all = [InvalidNumbers::Refuse, InvalidNumbers::Write, InvalidNumbers::Null];
    match arguments.get(1) {
        Value::Nil => {}
        Value::Boolean(value) => settings.invalid_numbers = all[usize::from(*value)],
        _ => settings.invalid_numbers = all[option(lua, arguments, &["off", "on", "null"])?],
    }
    one(match settings.invalid_numbers {
        InvalidNumbers::Refuse => Value::Boolean(false),
        InvalidNumbers::Write => Value::Boolean(true),
        InvalidNumbers::Null => text(lua, b"null")?,
    })
}
