//! The table `redis` of scripts, `math.random` and `os.clock`.

use crate::define::Definer;
use crate::host::LogLevel;
use crate::numbers::{to_i32, to_i64};
use crate::raise::{Arguments, Raise, Returned, one, text, to_number, to_string};
use crate::random;
use crate::reply_to_lua::{error_table, read};
use crate::script::sha1_hex;
use crate::state::State;
use esker_resp::double::write_double;
use esker_resp::writer::Protocol;
use mlua::{Lua, MultiValue, Table, Value};

/// The version that scripts see.
const VERSION: &str = "7.0.15";
const VERSION_NUMBER: i64 = 0x0007_000F;

const REPLICATE_TO_AOF: i64 = 1;
const REPLICATE_TO_REPLICAS: i64 = 2;

const LEVELS: [(&str, LogLevel); 4] = [
    ("LOG_DEBUG", LogLevel::Debug),
    ("LOG_VERBOSE", LogLevel::Verbose),
    ("LOG_NOTICE", LogLevel::Notice),
    ("LOG_WARNING", LogLevel::Warning),
];

/// The table `redis` of running scripts.
pub(crate) fn redis_table(definer: &Definer<'_>) -> mlua::Result<Table> {
    let table = definer.lua.create_table()?;
    definer.define(&table, "call", |lua, state, arguments| call(lua, state, arguments, true))?;
    definer.define(&table, "pcall", |lua, state, arguments| call(lua, state, arguments, false))?;
    definer.define(&table, "error_reply", error_reply)?;
    definer.define(&table, "status_reply", status_reply)?;
    definer.define(&table, "sha1hex", sha1hex)?;
    definer.define(&table, "setresp", set_protocol)?;
    definer.define(&table, "set_repl", set_replication)?;
    definer.define(&table, "acl_check_cmd", may_call)?;
    add_log_and_version(definer, &table)?;
    for (name, value) in [
        ("REPL_NONE", 0),
        ("REPL_AOF", REPLICATE_TO_AOF),
        ("REPL_SLAVE", REPLICATE_TO_REPLICAS),
        ("REPL_REPLICA", REPLICATE_TO_REPLICAS),
        ("REPL_ALL", REPLICATE_TO_AOF | REPLICATE_TO_REPLICAS),
    ] {
        table.raw_set(name, value)?;
    }
    Ok(table)
}

/// What only scripts of EVAL have.
pub(crate) fn add_functions_of_eval(definer: &Definer<'_>, table: &Table) -> mlua::Result<()> {
    definer.define(table, "breakpoint", |_, _, _| one(Value::Boolean(false)))?;
    definer.define(table, "debug", |_, _, _| Ok(MultiValue::new()))?;
    definer.define(table, "replicate_commands", |_, _, _| one(Value::Boolean(true)))
}

/// `redis.log`, the levels, and the version.
pub(crate) fn add_log_and_version(definer: &Definer<'_>, table: &Table) -> mlua::Result<()> {
    definer.define(table, "log", log)?;
    for (number, (name, _)) in LEVELS.iter().enumerate() {
        table.raw_set(*name, number)?;
    }
    table.raw_set("REDIS_VERSION_NUM", VERSION_NUMBER)?;
    table.raw_set("REDIS_VERSION", VERSION)
}

/// `math.random` and `math.randomseed`.
pub(crate) fn replace_random(definer: &Definer<'_>, math: &Table) -> mlua::Result<()> {
    definer.define(math, "random", random)?;
    definer.define(math, "randomseed", |lua, state, arguments| {
        in_script(lua, state, "math.randomseed", false)?;
        let seed = arguments.integer(lua, 1)? as i32;
        state.random.borrow_mut().seed(seed);
        Ok(MultiValue::new())
    })
}

/// Raises the table of an error.
fn raise(lua: &Lua, message: &str) -> Raise {
    match error_table(lua, format!("ERR {message}").as_bytes()) {
        Ok(table) => Raise::Value(Value::Table(table)),
        Err(raise) => raise,
    }
}

/// Refuses calls outside of a script.
fn in_script(lua: &Lua, state: &State, name: &str, is_table: bool) -> Result<(), Raise> {
    if state.host.is_lent() {
        return Ok(());
    }
    let message = format!("{name} can only be called inside a script invocation");
    Err(if is_table { raise(lua, &message) } else { Raise::Message(message) })
}

/// The arguments of a command as bytes: numbers with 17 digits, so that they keep their value.
fn command_arguments(lua: &Lua, arguments: &Arguments) -> Result<Vec<mlua::LuaString>, Raise> {
    if arguments.len() == 0 {
        return Err(raise(lua, "Please specify at least one argument for this redis lib call"));
    }
    arguments
        .all()
        .map(|value| match value {
            Value::String(string) => Ok(string.clone()),
            Value::Integer(integer) if integer.unsigned_abs() < 100_000_000_000_000_000 => {
                Ok(lua.create_string(integer.to_string())?)
            }
            Value::Integer(_) | Value::Number(_) => {
                let mut printed = Vec::with_capacity(24);
                write_double(to_number(lua, value)?.unwrap_or_default(), &mut printed);
                Ok(lua.create_string(printed)?)
            }
            _ => Err(raise(lua, "Lua redis lib command arguments must be strings or integers")),
        })
        .collect()
}

fn call(lua: &Lua, state: &State, arguments: &Arguments, raises: bool) -> Returned {
    in_script(lua, state, "redis.call/pcall", true)?;
    let strings = match command_arguments(lua, arguments) {
        Err(Raise::Value(error)) if !raises => return one(error),
        other => other?,
    };
    let borrowed: Vec<_> = strings.iter().map(mlua::LuaString::as_bytes).collect();
    let words: Vec<&[u8]> = borrowed.iter().map(|bytes| &bytes[..]).collect();
    let mut reply = state.reply.take();
    reply.clear();
    let protocol = state.protocol.get();
    if state.host.with(|host| host.call(&words, protocol, &mut reply)).is_none() {
        return Err(raise(lua, "a command called a script"));
    }
    let is_error = reply.first() == Some(&b'-');
    let value = read(lua, &reply);
    state.reply.replace(kept(reply));
    let value = value?;
    if raises && is_error { Err(Raise::Value(value)) } else { one(value) }
}

/// The buffer for the next reply. A large one goes back to the system.
fn kept(reply: Vec<u8>) -> Vec<u8> {
    const MOST: usize = 64 * 1024;
    if reply.capacity() > MOST { Vec::new() } else { reply }
}

fn may_call(lua: &Lua, state: &std::rc::Rc<State>, arguments: &Arguments) -> Returned {
    in_script(lua, state, "redis.acl_check_cmd", true)?;
    let strings = command_arguments(lua, arguments)?;
    let borrowed: Vec<_> = strings.iter().map(mlua::LuaString::as_bytes).collect();
    let words: Vec<&[u8]> = borrowed.iter().map(|bytes| &bytes[..]).collect();
    match state.host.with(|host| host.may_call(&words)).flatten() {
        Some(allowed) => one(Value::Boolean(allowed)),
        None => Err(raise(lua, "Invalid command passed to redis.acl_check_cmd()")),
    }
}

/// The one argument, if it is a string.
fn only_string(arguments: &Arguments) -> Option<mlua::LuaString> {
    match arguments.get(1) {
        Value::String(string) if arguments.len() == 1 => Some(string.clone()),
        _ => None,
    }
}

fn error_reply(lua: &Lua, _: &std::rc::Rc<State>, arguments: &Arguments) -> Returned {
    let Some(string) = only_string(arguments) else {
        return one(Value::Table(error_table(lua, b"ERR wrong number or type of arguments")?));
    };
    let bytes = string.as_bytes();
    let message = crate::lua_to_reply::c_string(&bytes);
    let message = message.strip_prefix(b"-").unwrap_or(message);
    one(Value::Table(error_table(lua, message)?))
}

fn status_reply(lua: &Lua, _: &std::rc::Rc<State>, arguments: &Arguments) -> Returned {
    let Some(string) = only_string(arguments) else {
        return one(Value::Table(error_table(lua, b"ERR wrong number or type of arguments")?));
    };
    let table = lua.create_table()?;
    table.raw_set("ok", string)?;
    one(Value::Table(table))
}

fn sha1hex(lua: &Lua, _: &std::rc::Rc<State>, arguments: &Arguments) -> Returned {
    if arguments.len() != 1 {
        return Err(raise(lua, "wrong number of arguments"));
    }
    let string = to_string(lua, arguments.get(1))?;
    let sha = sha1_hex(&string.map(|string| string.as_bytes().to_vec()).unwrap_or_default());
    one(text(lua, &sha)?)
}

fn set_protocol(lua: &Lua, state: &std::rc::Rc<State>, arguments: &Arguments) -> Returned {
    in_script(lua, state, "redis.setresp", true)?;
    if arguments.len() != 1 {
        return Err(raise(lua, "redis.setresp() requires one argument."));
    }
    let protocol = match to_i32(to_number(lua, arguments.get(1))?.unwrap_or_default()) {
        2 => Protocol::Resp2,
        3 => Protocol::Resp3,
        _ => return Err(raise(lua, "RESP version must be 2 or 3.")),
    };
    state.protocol.set(protocol);
    Ok(MultiValue::new())
}

/// Checks its argument and changes nothing: a script's writes become durable as one batch.
fn set_replication(lua: &Lua, state: &std::rc::Rc<State>, arguments: &Arguments) -> Returned {
    in_script(lua, state, "redis.set_repl", true)?;
    if arguments.len() != 1 {
        return Err(raise(lua, "redis.set_repl() requires two arguments."));
    }
    let flags = i64::from(to_i32(to_number(lua, arguments.get(1))?.unwrap_or_default()));
    if flags & !(REPLICATE_TO_AOF | REPLICATE_TO_REPLICAS) != 0 {
        let message = "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.";
        return Err(raise(lua, message));
    }
    Ok(MultiValue::new())
}

fn log(lua: &Lua, state: &std::rc::Rc<State>, arguments: &Arguments) -> Returned {
    if arguments.len() < 2 {
        return Err(raise(lua, "redis.log() requires two arguments or more."));
    }
    let Some(level) = to_number(lua, arguments.get(1))? else {
        return Err(raise(lua, "First argument must be a number (log level)."));
    };
    let level = usize::try_from(to_i64(level)).ok().and_then(|level| LEVELS.get(level));
    let Some((_, level)) = level else { return Err(raise(lua, "Invalid debug level.")) };
    let mut line = Vec::new();
    for (place, value) in arguments.all().enumerate().skip(1) {
        if let Some(string) = to_string(lua, value)? {
            if place > 1 {
                line.push(b' ');
            }
            line.extend_from_slice(&string.as_bytes());
        }
        state.check_string(line.len())?;
    }
    state.host.with(|host| host.log(*level, &line));
    Ok(MultiValue::new())
}

fn random(lua: &Lua, state: &std::rc::Rc<State>, arguments: &Arguments) -> Returned {
    in_script(lua, state, "math.random", false)?;
    let number = f64::from(state.random.borrow_mut().next() % random::MAX) / f64::from(random::MAX);
    let empty = |argument| Raise::Argument(argument, "interval is empty".to_owned());
    let value = match arguments.len() {
        0 => number,
        1 => {
            let upper = arguments.integer(lua, 1)? as i32;
            if upper < 1 {
                return Err(empty(1));
            }
            (number * f64::from(upper)).floor() + 1.0
        }
        2 => {
            let (lower, upper) = (arguments.integer(lua, 1)? as i32, arguments.integer(lua, 2)? as i32);
            if lower > upper {
                return Err(empty(2));
            }
            let width = upper.wrapping_sub(lower).wrapping_add(1);
            (number * f64::from(width)).floor() + f64::from(lower)
        }
        _ => return Err(Raise::Message("wrong number of arguments".to_owned())),
    };
    one(Value::Number(value))
}
