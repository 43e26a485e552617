//! Arguments of functions that scripts call, and the errors that they raise.
//!
//! A function of Rust does not raise errors itself, because raising jumps over frames. It returns what is to
//! be raised, and `glue/glue.c` raises it, with the position and the name of the function where Lua has them.

use crate::numbers::to_i64;
use mlua::{Lua, LuaString, MultiValue, Value};

/// What a function raises instead of returning.
#[derive(Debug)]
pub(crate) enum Raise {
    /// Any value, as it is.
    Value(Value),
    /// A text, behind the position of the caller.
    Message(String),
    /// Why the argument with this number, from 1, is bad.
    Argument(usize, String),
    /// The script ends; nothing catches it.
    Stop(String),
    /// Lua could not do it, for want of memory say.
    Lua(mlua::Error),
}

impl From<mlua::Error> for Raise {
    fn from(error: mlua::Error) -> Self {
        Self::Lua(error)
    }
}

/// Results, or what is raised.
pub(crate) type Returned = Result<MultiValue, Raise>;

/// One result.
pub(crate) fn one(value: Value) -> Returned {
    Ok(MultiValue::from_iter([value]))
}

/// A string as a value.
pub(crate) fn text(lua: &Lua, bytes: &[u8]) -> Result<Value, Raise> {
    Ok(Value::String(lua.create_string(bytes)?))
}

/// The name of a value's type, as Lua says it.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Integer(_) | Value::Number(_) => "number",
        Value::LightUserData(_) | Value::Error(_) => "userdata",
        other => other.type_name(),
    }
}

/// The arguments of a call, counted from 1.
pub(crate) struct Arguments(pub(crate) MultiValue);

impl Arguments {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Nil where there is none.
    pub(crate) fn get(&self, number: usize) -> &Value {
        self.0.get(number - 1).unwrap_or(&Value::Nil)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Value> {
        self.0.iter()
    }

    fn bad_type(&self, number: usize, expected: &str) -> Raise {
        let given = self.0.get(number - 1).map_or("no value", type_name);
        Raise::Argument(number, format!("{expected} expected, got {given}"))
    }

    /// A string; numbers become one.
    pub(crate) fn string(&self, lua: &Lua, number: usize) -> Result<LuaString, Raise> {
        to_string(lua, self.get(number))?.ok_or_else(|| self.bad_type(number, "string"))
    }

    /// A number; strings that hold one are.
    pub(crate) fn number(&self, lua: &Lua, number: usize) -> Result<f64, Raise> {
        to_number(lua, self.get(number))?.ok_or_else(|| self.bad_type(number, "number"))
    }

    /// A number without its fraction.
    pub(crate) fn integer(&self, lua: &Lua, number: usize) -> Result<i64, Raise> {
        self.number(lua, number).map(to_i64)
    }

    /// The same, or `default` where there is none or nil.
    pub(crate) fn integer_or(&self, lua: &Lua, number: usize, default: i64) -> Result<i64, Raise> {
        if self.get(number).is_nil() { Ok(default) } else { self.integer(lua, number) }
    }
}

/// `lua_tolstring`: a string, or a number as one.
pub(crate) fn to_string(lua: &Lua, value: &Value) -> Result<Option<LuaString>, Raise> {
    Ok(match value {
        Value::String(string) => Some(string.clone()),
        Value::Integer(_) | Value::Number(_) => lua.coerce_string(value.clone())?,
        _ => None,
    })
}

/// `lua_tonumber`: a number, or a string that holds one.
pub(crate) fn to_number(lua: &Lua, value: &Value) -> Result<Option<f64>, Raise> {
    Ok(match value {
        Value::Integer(integer) => Some(*integer as f64),
        Value::Number(number) => Some(*number),
        Value::String(_) => lua.coerce_number(value.clone())?,
        _ => None,
    })
}
