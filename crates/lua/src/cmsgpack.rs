//! The library `cmsgpack`: MessagePack.

mod pack;
mod unpack;

use crate::define::Definer;
use mlua::Table;

/// The library's table.
pub(crate) fn table(definer: &Definer<'_>) -> mlua::Result<Table> {
    let table = definer.lua.create_table()?;
    definer.define(&table, "pack", pack::pack)?;
    definer.define(&table, "unpack", |lua, state, arguments| unpack::unpack(lua, state, arguments, 0, 0))?;
    definer.define(&table, "unpack_one", |lua, state, arguments| {
        let offset = arguments.integer_or(lua, 2, 0)?;
        unpack::unpack(lua, state, arguments, 1, offset)
    })?;
    definer.define(&table, "unpack_limit", |lua, state, arguments| {
        let limit = arguments.integer(lua, 2)?;
        let offset = arguments.integer_or(lua, 3, 0)?;
        unpack::unpack(lua, state, arguments, limit, offset)
    })?;
    table.raw_set("_NAME", "cmsgpack")?;
    table.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    table.raw_set("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo")?;
    table.raw_set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
    Ok(table)
}
