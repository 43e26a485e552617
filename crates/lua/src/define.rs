//! Functions of Rust as functions of scripts.

use crate::raise::{Arguments, Raise, Returned};
use crate::state::State;
use mlua::{Lua, MultiValue, Table, Value};
use std::rc::Rc;

/// Makes functions of Rust into functions for scripts.
pub(crate) struct Definer<'l> {
    pub(crate) lua: &'l Lua,
    pub(crate) state: &'l Rc<State>,
    /// `wrap` of the glue.
    pub(crate) wrap: &'l mlua::Function,
}

impl Definer<'_> {
    /// Adds a function to `table`.
    pub(crate) fn define<F>(&self, table: &Table, name: &str, function: F) -> mlua::Result<()>
    where
        F: Fn(&Lua, &Rc<State>, &Arguments) -> Returned + 'static,
    {
        let state = Rc::clone(self.state);
        let inner = self.lua.create_function(move |lua, values: MultiValue| {
            encode(lua, function(lua, &state, &Arguments(values)))
        })?;
        table.raw_set(name, self.wrap.call::<mlua::Function>(inner)?)
    }
}

/// The form that `call_wrapped` of the glue expects: first a number that says what follows.
fn encode(lua: &Lua, returned: Returned) -> mlua::Result<MultiValue> {
    let string = |text: String| Ok::<_, mlua::Error>(Value::String(lua.create_string(text)?));
    Ok(match returned {
        Ok(mut results) => {
            results.push_front(Value::Integer(0));
            results
        }
        Err(Raise::Value(value)) => MultiValue::from_iter([Value::Integer(1), value]),
        Err(Raise::Message(text)) => MultiValue::from_iter([Value::Integer(2), string(text)?]),
        Err(Raise::Argument(number, why)) => {
            MultiValue::from_iter([Value::Integer(3), Value::Integer(number as i64), string(why)?])
        }
        Err(Raise::Stop(reason)) => MultiValue::from_iter([Value::Integer(4), string(reason)?]),
        // What Lua itself raises then; the string exists from the beginning.
        Err(Raise::Lua(mlua::Error::MemoryError(_))) => {
            MultiValue::from_iter([Value::Integer(1), string("not enough memory".to_owned())?])
        }
        Err(Raise::Lua(error)) => return Err(error),
    })
}
