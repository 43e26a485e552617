//! A virtual machine with the environment of scripts: what is missing, what is ours, and what is read-only.
//!
//! Every table that is reachable from the globals, and the metatable of strings, is read-only before the
//! first script runs, and there are no finalizers of scripts, so that code of one user never runs within the
//! script of another (LU3).

use crate::api;
use crate::bit;
use crate::bridge::open_glue;
use crate::cjson;
use crate::cmsgpack;
use crate::define::Definer;
use crate::host::HOOK_INSTRUCTIONS;
use crate::packed_struct;
use crate::register::register_function;
use crate::state::State;
use mlua::{Function, Lua, LuaOptions, LuaString, StdLib, Table, Value};
use std::ops::ControlFlow;
use std::rc::Rc;

/// Functions of Lua that read files or write to the output, that make finalizers, and that change the
/// environments of functions.
const REMOVED: [&str; 6] = ["dofile", "loadfile", "print", "newproxy", "getfenv", "setfenv"];

/// One virtual machine.
pub(crate) struct Vm {
    pub(crate) lua: Lua,
    pub(crate) state: Rc<State>,
    run_script: Function,
    run_function: Function,
    set_protected: Function,
    compile: Function,
    /// For loading libraries: what their code sees instead of the globals, and the metatable that says so.
    library: Option<LibraryEnvironment>,
}

struct LibraryEnvironment {
    metatable: Table,
    globals: Table,
    while_loading: Table,
}

/// How a script ended: a value, or the value of its error.
pub(crate) type Ended = Result<Value, Value>;

impl Vm {
    /// A machine for scripts of EVAL.
    pub(crate) fn for_scripts(memory_bytes: usize, string_bytes: usize) -> mlua::Result<Self> {
        Self::new(memory_bytes, string_bytes, false)
    }

    /// A machine for libraries.
    pub(crate) fn for_functions(memory_bytes: usize, string_bytes: usize) -> mlua::Result<Self> {
        Self::new(memory_bytes, string_bytes, true)
    }

    fn new(memory_bytes: usize, string_bytes: usize, for_functions: bool) -> mlua::Result<Self> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::OS;
        let lua = Lua::new_with(libraries, LuaOptions::new())?;
        let state = Rc::new(State::new(string_bytes));
        let glue = open_glue(&lua)?;
        let wrap: Function = glue.get("wrap")?;
        let definer = Definer { lua: &lua, state: &state, wrap: &wrap };
        set_globals(&definer, &glue, !for_functions)?;
        let library = if for_functions { Some(library_environment(&definer, &glue)?) } else { None };
        set_hook(&lua, &state, &glue)?;
        let vm = Self {
            run_script: glue.get("run_script")?,
            run_function: glue.get("run_function")?,
            set_protected: glue.get("set_protected")?,
            compile: glue.get("compile")?,
            lua,
            state,
            library,
        };
        vm.lua.gc_collect()?;
        vm.lua.set_memory_limit(memory_bytes)?;
        Ok(vm)
    }

    /// Compiles a chunk; otherwise Lua's message, which repeats bytes of the code.
    pub(crate) fn compile(&self, code: &[u8], name: &str) -> Result<Function, Vec<u8>> {
        let compile = |code: &[u8]| -> mlua::Result<(Value, Option<mlua::LuaString>)> {
            self.compile.call((self.lua.create_string(code)?, name))
        };
        match compile(code) {
            Ok((Value::Function(function), _)) => Ok(function),
            Ok((_, message)) => Err(message.map(|text| text.as_bytes().to_vec()).unwrap_or_default()),
            Err(mlua::Error::MemoryError(message)) => Err(message.into_bytes()),
            Err(error) => Err(error.to_string().into_bytes()),
        }
    }

    fn strings(&self, strings: &[&[u8]]) -> mlua::Result<Table> {
        let table = self.lua.create_table_with_capacity(strings.len(), 0)?;
        for (place, string) in strings.iter().enumerate() {
            table.raw_set(place + 1, self.lua.create_string(string)?)?;
        }
        Ok(table)
    }

    /// Runs a script with `KEYS` and `ARGV`.
    pub(crate) fn run_script(
        &self,
        script: &Function,
        keys: &[&[u8]],
        values: &[&[u8]],
    ) -> mlua::Result<Ended> {
        self.ended(self.run_script.call((script, self.strings(keys)?, self.strings(values)?))?)
    }

    /// Calls a function with its keys and arguments.
    pub(crate) fn run_function(
        &self,
        function: &Function,
        keys: &[&[u8]],
        values: &[&[u8]],
    ) -> mlua::Result<Ended> {
        self.ended(self.run_function.call((function, self.strings(keys)?, self.strings(values)?))?)
    }

    /// Runs the code of a library, which sees only what libraries may use while they load.
    pub(crate) fn run_library(&self, code: &Function) -> mlua::Result<Ended> {
        let Some(environment) = &self.library else { return Ok(Ok(Value::Nil)) };
        let see =
            |globals: &Table| self.set_protected.call::<()>((&environment.metatable, "__index", globals));
        see(&environment.while_loading)?;
        let ended = self.run_function.call(code);
        see(&environment.globals)?;
        self.ended(ended?)
    }

    /// The status and the value that the glue returned.
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "read at the end of the runs above")]
    fn ended(&self, (status, value): (i64, Value)) -> mlua::Result<Ended> {
        Ok(if status == 0 { Ok(value) } else { Err(value) })
    }
}

/// The globals: Lua's without those that reach outside, and ours. They are read-only in the end.
fn set_globals(definer: &Definer<'_>, glue: &Table, for_eval: bool) -> mlua::Result<()> {
    let globals = definer.lua.globals();
    for name in REMOVED {
        globals.raw_remove(name)?;
    }
    for name in ["pcall", "collectgarbage"] {
        globals.raw_set(name, glue.get::<Function>(name)?)?;
    }
    let os: Table = globals.raw_get("os")?;
    let clock_only = definer.lua.create_table()?;
    clock_only.raw_set("clock", os.raw_get::<Function>("clock")?)?;
    globals.raw_set("os", clock_only)?;
    let redis = api::redis_table(definer)?;
    if for_eval {
        api::add_functions_of_eval(definer, &redis)?;
    }
    globals.raw_set("redis", redis)?;
    api::replace_random(definer, &globals.raw_get("math")?)?;
    globals.raw_set("cjson", cjson::table(definer)?)?;
    globals.raw_set("cmsgpack", cmsgpack::table(definer)?)?;
    globals.raw_set("struct", packed_struct::table(definer)?)?;
    globals.raw_set("bit", bit::table(definer)?)?;
    raise_for_missing(definer.lua, glue, &globals)?;
    let protect: Function = glue.get("protect")?;
    if let Some(metatable) = definer.lua.type_metatable::<LuaString>() {
        protect.call::<()>(metatable)?;
    }
    protect.call(globals)
}

/// Names that a table does not have raise an error.
fn raise_for_missing(lua: &Lua, glue: &Table, table: &Table) -> mlua::Result<()> {
    let metatable = lua.create_table()?;
    metatable.raw_set("__index", glue.get::<Function>("missing_global")?)?;
    table.set_metatable(Some(metatable))
}

/// Puts a table before the globals, through which libraries see less while they load.
fn library_environment(definer: &Definer<'_>, glue: &Table) -> mlua::Result<LibraryEnvironment> {
    let lua = definer.lua;
    let redis = lua.create_table()?;
    definer.define(&redis, "register_function", register_function)?;
    api::add_log_and_version(definer, &redis)?;
    raise_for_missing(lua, glue, &redis)?;
    let while_loading = lua.create_table()?;
    while_loading.raw_set("redis", redis)?;
    raise_for_missing(lua, glue, &while_loading)?;
    let protect: Function = glue.get("protect")?;
    protect.call::<()>(&while_loading)?;

    let globals = lua.globals();
    let before = lua.create_table()?;
    let metatable = lua.create_table()?;
    metatable.raw_set("__index", &globals)?;
    before.set_metatable(Some(metatable.clone()))?;
    protect.call::<()>(&before)?;
    lua.set_globals(before)?;
    Ok(LibraryEnvironment { metatable, globals, while_loading })
}

/// Asks the host from time to time whether the script may go on.
fn set_hook(lua: &Lua, state: &Rc<State>, glue: &Table) -> mlua::Result<()> {
    let state = Rc::clone(state);
    let ask = lua.create_function(move |lua, ()| {
        Ok(match state.host.with(|host| host.may_go_on()) {
            Some(ControlFlow::Break(reason)) => Value::String(lua.create_string(format!("ERR {reason}"))?),
            _ => Value::Nil,
        })
    })?;
    glue.get::<Function>("set_hook")?.call((ask, HOOK_INSTRUCTIONS))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a script whose hook collects all garbage, again and again, so that every stack gets as small as
    /// the collector makes it.
    fn run_with_a_hook_that_collects(script: &str) -> Ended {
        let vm = Vm::for_scripts(64 << 20, 1 << 20).expect("a machine");
        let collect = |lua: &Lua, ()| (0..10).try_for_each(|_| lua.gc_collect());
        let collect = vm.lua.create_function(collect).expect("a function");
        let set_hook: Function = open_glue(&vm.lua).and_then(|glue| glue.get("set_hook")).expect("the glue");
        set_hook.call::<()>((collect, 1_000)).expect("a hook");
        let script = vm.compile(script.as_bytes(), "@script").expect("a script");
        vm.run_script(&script, &[], &[]).expect("the glue runs")
    }

    /// The hook ran within `unpack`, and took from it the stack that it had reserved.
    #[test]
    fn a_function_keeps_the_stack_that_it_reserved_while_a_hook_collects() {
        for script in [
            "for i = 1, 50 do local t = {unpack({}, 1, 7900)} if #t ~= 0 then error('wrong') end end",
            "for i = 1, 50 do select('#', string.byte(string.rep('x', 7000), 1, -1)) unpack({}, 1, 7900) end",
            "coroutine.wrap(function() for i = 1, 50 do unpack({}, 1, 7900) coroutine.yield(i) end end)()",
        ] {
            assert!(run_with_a_hook_that_collects(script).is_ok(), "{script}");
        }
    }
}
