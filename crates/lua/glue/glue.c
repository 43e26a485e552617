/*
** What the scripts' environment needs of the C API and Rust may not do: raising errors, which jumps over frames,
** and calls with a handler of errors. Only C frames and those of mlua are jumped over.
**
** esker_open returns a table of functions for the Rust side. None of them is reachable from scripts but through
** `wrap`.
*/

#include <stdlib.h>

#include "lua.h"
#include "lauxlib.h"

/* What the first result of a wrapped function says of the others. */
enum {
  RESULTS,        /* they are the results */
  RAISE_VALUE,    /* the second is raised */
  RAISE_MESSAGE,  /* the second is raised with the position of the caller before it */
  RAISE_ARGUMENT, /* the second is the number of a bad argument, the third says why */
  STOP            /* the second ends the script, and nothing catches it */
};

static const char hook_key = 'h';

static void push_error_table (lua_State *L);
static void add_position (lua_State *L, int level);


/* ---- Functions of Rust ---- */

static int call_wrapped (lua_State *L) {
  int arguments = lua_gettop(L);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, arguments, LUA_MULTRET);
  switch (lua_tointeger(L, 1)) {
    case RESULTS:
      return lua_gettop(L) - 1;
    case RAISE_VALUE:
      lua_settop(L, 2);
      return lua_error(L);
    case RAISE_MESSAGE:
      lua_settop(L, 2);
      luaL_where(L, 1);
      lua_insert(L, 2);
      lua_concat(L, 2);
      return lua_error(L);
    case RAISE_ARGUMENT:
      return luaL_argerror(L, (int)lua_tointeger(L, 2), lua_tostring(L, 3));
    default:
      lua_settop(L, 2);
      push_error_table(L);
      add_position(L, 1);
      return lua_stop(L);
  }
}

static int wrap (lua_State *L) {
  lua_settop(L, 1);
  lua_pushcclosure(L, call_wrapped, 1);
  return 1;
}


/* ---- Running scripts ---- */

/* The table of an error gets the script's name and line; what is not a table becomes one. */
static void add_position (lua_State *L, int level) {
  lua_Debug where;
  int found = lua_getstack(L, level, &where) && lua_getinfo(L, "Sl", &where);
  if (found && where.what[0] == 'C') {
    int caller = lua_getstack(L, level + 1, &where) && lua_getinfo(L, "Sl", &where);
    found = caller;
  }
  if (!found) return;
  lua_pushstring(L, where.source);
  lua_setfield(L, -2, "source");
  lua_pushinteger(L, where.currentline);
  lua_setfield(L, -2, "line");
}

static void push_error_table (lua_State *L) {  /* of the string on the top */
  lua_createtable(L, 0, 3);
  lua_insert(L, -2);
  lua_setfield(L, -2, "err");
}

static int on_error (lua_State *L) {  /* upvalue: tostring */
  lua_settop(L, 1);
  if (!lua_istable(L, 1)) {
    lua_pushliteral(L, "ERR ");
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_pushvalue(L, 1);
    lua_call(L, 1, 1);
    lua_concat(L, 2);
    push_error_table(L);
  }
  add_position(L, 1);
  return 1;
}

/* Calls below the function with the arguments above it; returns the status and one value. */
static int protected_call (lua_State *L, int arguments) {
  int status;
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  status = lua_pcall(L, arguments, 1, 1);
  lua_setstopping(L, 0);
  lua_pushinteger(L, status);
  lua_replace(L, 1);
  return 2;
}

static void set_global_input (lua_State *L, int table, const char *name) {
  lua_pushstring(L, name);
  lua_pushvalue(L, table);
  lua_rawset(L, LUA_GLOBALSINDEX);
}

static int run_script (lua_State *L) {  /* function, KEYS, ARGV */
  lua_setreadonly(L, LUA_GLOBALSINDEX, 0);
  set_global_input(L, 2, "KEYS");
  set_global_input(L, 3, "ARGV");
  lua_setreadonly(L, LUA_GLOBALSINDEX, 1);
  lua_settop(L, 1);
  return protected_call(L, 0);
}

static int run_function (lua_State *L) {  /* function, keys, arguments */
  return protected_call(L, lua_gettop(L) - 1);
}


/* ---- The hook ---- */

static void hook (lua_State *L, lua_Debug *ar) {
  (void)ar;
  lua_pushlightuserdata(L, (void *)&hook_key);
  lua_rawget(L, LUA_REGISTRYINDEX);
  lua_call(L, 0, 1);
  if (lua_isstring(L, -1)) {
    push_error_table(L);
    add_position(L, 0);
    lua_stop(L);
  }
  lua_pop(L, 1);
}

static int set_hook (lua_State *L) {  /* function, instructions */
  int count = (int)luaL_checkinteger(L, 2);
  lua_settop(L, 1);
  lua_pushlightuserdata(L, (void *)&hook_key);
  lua_insert(L, 1);
  lua_rawset(L, LUA_REGISTRYINDEX);
  lua_sethook(L, hook, LUA_MASKCOUNT, count);
  return 0;
}


/* ---- Protection of tables ---- */

static void protect_tables (lua_State *L) {  /* the table on the top, and what it reaches */
  if (lua_isreadonly(L, -1)) return;
  lua_setreadonly(L, -1, 1);
  luaL_checkstack(L, 3, "tables are nested too deep");
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    if (lua_istable(L, -1)) protect_tables(L);
    lua_pop(L, 1);
  }
  if (lua_getmetatable(L, -1)) {
    protect_tables(L);
    lua_pop(L, 1);
  }
}

static int protect (lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  protect_tables(L);
  return 0;
}

static int set_protected (lua_State *L) {  /* table, key, value: of a read-only table */
  lua_settop(L, 3);
  lua_setreadonly(L, 1, 0);
  lua_rawset(L, 1);
  lua_setreadonly(L, 1, 1);
  return 0;
}

static int compile (lua_State *L) {  /* code, name: the function, or false and why there is none */
  size_t length;
  const char *code = luaL_checklstring(L, 1, &length);
  if (luaL_loadbuffer(L, code, length, luaL_checkstring(L, 2)) == 0) return 1;
  lua_pushboolean(L, 0);
  lua_insert(L, -2);
  return 2;
}


static int missing_global (lua_State *L) {
  if (lua_gettop(L) != 2)
    return luaL_error(L, "Wrong number of arguments to luaProtectedTableError");
  if (!lua_isstring(L, 2))
    return luaL_error(L, "Second argument to luaProtectedTableError must be a string or number");
  return luaL_error(L, "Script attempted to access nonexistent global variable '%s'", lua_tostring(L, 2));
}


/* ---- Functions that scripts get instead of Lua's ---- */

/* Of an error's table its message alone, as pcall returned before errors were tables. */
static int message_pcall (lua_State *L) {
  luaL_checkany(L, 1);
  lua_pushboolean(L, 1);
  lua_insert(L, 1);
  if (lua_pcall(L, lua_gettop(L) - 2, LUA_MULTRET, 0)) {
    if (lua_isstopping(L)) return lua_stop(L);
    lua_remove(L, 1);
    if (lua_istable(L, -1)) {
      lua_getfield(L, -1, "err");
      if (lua_isstring(L, -1)) lua_replace(L, -2);
    }
    lua_pushboolean(L, 0);
    lua_insert(L, 1);
  }
  return lua_gettop(L);
}

/* Scripts may look at the memory and ask for a collection; the collector's settings are not theirs. */
static int collectgarbage (lua_State *L) {
  static const char *const names[] = {"stop", "restart", "collect", "count", "step", "setpause", "setstepmul", NULL};
  enum { COLLECT = 2, COUNT, STEP };
  int option = luaL_checkoption(L, 1, "collect", names);
  luaL_optint(L, 2, 0);
  switch (option) {
    case COUNT:
      lua_pushnumber(L, lua_gc(L, LUA_GCCOUNT, 0) + (lua_Number)lua_gc(L, LUA_GCCOUNTB, 0) / 1024);
      return 1;
    case STEP:
      lua_pushboolean(L, lua_gc(L, LUA_GCSTEP, 0));
      return 1;
    case COLLECT:
      lua_gc(L, LUA_GCCOLLECT, 0);
      /* About 32 bytes of live memory are marked and swept in the time of an instruction. */
      lua_work(L, (size_t)lua_gc(L, LUA_GCCOUNT, 0) * 32);
      break;
  }
  lua_pushinteger(L, 0);
  return 1;
}


/* ---- Opening ---- */

static void add (lua_State *L, const char *name, lua_CFunction function) {
  lua_pushcfunction(L, function);
  lua_setfield(L, -2, name);
}

static void add_with_handler (lua_State *L, const char *name, lua_CFunction function) {
  lua_getglobal(L, "tostring");
  lua_pushcclosure(L, on_error, 1);
  lua_pushcclosure(L, function, 1);
  lua_setfield(L, -2, name);
}

int esker_open (lua_State *L) {
  lua_newtable(L);
  add(L, "wrap", wrap);
  add_with_handler(L, "run_script", run_script);
  add_with_handler(L, "run_function", run_function);
  add(L, "set_hook", set_hook);
  add(L, "protect", protect);
  add(L, "set_protected", set_protected);
  add(L, "compile", compile);
  add(L, "missing_global", missing_global);
  add(L, "pcall", message_pcall);
  add(L, "collectgarbage", collectgarbage);
  return 1;
}
