//! `redis.register_function`, in both of its forms.

use crate::flags::Flags;
use crate::library::LibraryFunction;
use crate::raise::{Arguments, Raise, Returned, to_string};
use crate::reply_to_lua::error_table;
use crate::state::State;
use mlua::{Function, Lua, MultiValue, Table, Value};
use std::rc::Rc;

/// Registers a function of the library that is being loaded.
pub(crate) fn register_function(lua: &Lua, state: &Rc<State>, arguments: &Arguments) -> Returned {
    let error = |message: &str| match error_table(lua, format!("ERR {message}").as_bytes()) {
        Ok(table) => Raise::Value(Value::Table(table)),
        Err(raise) => raise,
    };
    if state.loading.borrow().is_none() {
        return Err(error("redis.register_function can only be called on FUNCTION LOAD command"));
    }
    let read = match (arguments.len(), arguments.get(1)) {
        (1, Value::Table(table)) => named(lua, table)?,
        (1, _) => {
            Err("calling redis.register_function with a single argument is only applicable to Lua table \
                       (representing named arguments).")
        }
        (2, _) => positional(lua, arguments)?,
        _ => Err("wrong number of arguments to redis.register_function"),
    };
    let (function, callback) = read.map_err(error)?;
    if let Some(loading) = state.loading.borrow_mut().as_mut() {
        loading.register(function, callback).map_err(|text| error(&String::from_utf8_lossy(&text)))?;
    }
    Ok(MultiValue::new())
}

/// A function and its code, or why it is refused; outside of that, Lua's own failures.
type Read = Result<Result<(LibraryFunction, Function), &'static str>, Raise>;

fn positional(lua: &Lua, arguments: &Arguments) -> Read {
    let Some(name) = to_string(lua, arguments.get(1))? else {
        return Ok(Err("first argument to redis.register_function must be a string"));
    };
    let Value::Function(callback) = arguments.get(2) else {
        return Ok(Err("second argument to redis.register_function must be a function"));
    };
    let function =
        LibraryFunction { name: name.as_bytes().to_vec(), description: None, flags: Flags::default() };
    Ok(Ok((function, callback.clone())))
}

fn named(lua: &Lua, table: &Table) -> Read {
    let (mut name, mut description, mut callback, mut flags) = (None, None, None, Flags::default());
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        let Some(key) = to_string(lua, &key)? else {
            return Ok(Err("named argument key given to redis.register_function is not a string"));
        };
        let key = key.as_bytes().to_ascii_lowercase();
        match (key.as_slice(), value) {
            (b"function_name", value) => match to_string(lua, &value)? {
                Some(text) => name = Some(text.as_bytes().to_vec()),
                None => {
                    return Ok(Err(
                        "function_name argument given to redis.register_function must be a string",
                    ));
                }
            },
            (b"description", value) => match to_string(lua, &value)? {
                Some(text) => description = Some(text.as_bytes().to_vec()),
                None => {
                    return Ok(Err("description argument given to redis.register_function must be a string"));
                }
            },
            (b"callback", Value::Function(function)) => callback = Some(function),
            (b"callback", _) => {
                return Ok(Err("callback argument given to redis.register_function must be a function"));
            }
            (b"flags", Value::Table(names)) => match read_flags(lua, &names)? {
                Some(all) => flags = all,
                None => return Ok(Err("unknown flag given")),
            },
            (b"flags", _) => {
                let why =
                    "flags argument to redis.register_function must be a table representing function flags";
                return Ok(Err(why));
            }
            _ => return Ok(Err("unknown argument given to redis.register_function")),
        }
    }
    let Some(name) = name else {
        return Ok(Err("redis.register_function must get a function name argument"));
    };
    let Some(callback) = callback else {
        return Ok(Err("redis.register_function must get a callback argument"));
    };
    Ok(Ok((LibraryFunction { name, description, flags }, callback)))
}

/// The flags of a list of names; `None` if one is unknown.
fn read_flags(lua: &Lua, names: &Table) -> Result<Option<Flags>, Raise> {
    let mut flags = Flags::default();
    for place in 1.. {
        let value: Value = names.raw_get(place)?;
        if value.is_nil() {
            break;
        }
        let name = to_string(lua, &value)?;
        let Some(flag) = name.and_then(|name| Flags::named_in_any_case(&name.as_bytes())) else {
            return Ok(None);
        };
        flags = flags.with(flag);
    }
    Ok(Some(flags))
}
