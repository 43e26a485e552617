//! Scripts that attacked Lua or Redis: each gets an answer, and the engine works on.

mod common;

use common::{KILLED, TestHost, eval, reply};
use esker_lua::{Engine, Limits};
use esker_resp::writer::Protocol;

/// Runs a script in little memory, with `questions` until it is ended, and another one behind it. Returns the
/// reply.
fn attack(script: &str, questions: usize) -> String {
    let limits =
        Limits { memory_bytes: 16 << 20, string_bytes: 4 << 20, reply_bytes: 4 << 20, ..Limits::default() };
    let mut engine = Engine::new(limits);
    let mut host = TestHost { questions, ..TestHost::default() };
    let out = eval(&mut engine, &mut host, script.as_bytes(), &[], Protocol::Resp2);
    assert!(engine.memory_bytes() <= limits.memory_bytes, "{script}");
    let next = eval(&mut engine, &mut TestHost::default(), b"return {1, 'two'}", &[], Protocol::Resp2);
    assert_eq!(next, b"*2\r\n:1\r\n$3\r\ntwo\r\n", "after {script}");
    String::from_utf8_lossy(&out).into_owned()
}

fn is_killed(reply: &str) -> bool {
    reply.starts_with(&format!("-ERR {KILLED}"))
}

fn is_out_of_memory(reply: &str) -> bool {
    reply.contains("not enough memory")
}

#[test]
fn the_parser_holds_the_chunk_name_while_garbage_is_collected() {
    let script = "collectgarbage('count') for i = 1, 3000 do
        local f = loadstring('return ' .. i, 'name of chunk ' .. i .. string.rep('n', 200))
        if i % 100 == 0 then collectgarbage() end
        if f() ~= i then error('wrong') end end return 'held'";
    assert_eq!(attack(script, usize::MAX), "$4\r\nheld\r\n");
}

#[test]
fn unpack_refuses_ranges_that_overflow() {
    for range in ["0, 2147483647", "-2147483648, 2147483647", "-2147483648, -1", "1, 1e9"] {
        let found = attack(&format!("return unpack({{}}, {range})"), usize::MAX);
        assert!(found.contains("too many results to unpack"), "{range}: {found}");
    }
}

#[test]
fn long_brackets_with_many_signs_are_read_in_full() {
    let script = "local s = string.rep('=', 1000000) local f = loadstring('return [' .. s .. '[x]' .. s .. ']') \
                  return f()";
    assert_eq!(attack(script, usize::MAX), "$1\r\nx\r\n");
    let found = attack("return select(2, loadstring('return [' .. string.rep('=', 1000000)))", usize::MAX);
    assert!(found.contains("invalid long string delimiter"), "{}", found.len());
}

#[test]
fn metatables_of_basic_types_cannot_be_changed() {
    for script in [
        "getmetatable('').__index = function() return 'mine' end",
        "getmetatable('').__add = function() return 'mine' end",
        "rawset(getmetatable(''), '__call', function() end)",
        "setmetatable(string, {})",
        "getmetatable('').__index.upper = nil",
        "rawset(string, 'upper', nil)",
        "setmetatable(getmetatable(_G), {})",
        "getmetatable(_G).__index = function() end",
        "table.insert(KEYS, 1) _G.KEYS = nil",
        "rawset(_G, 'redis', nil)",
        "for k, v in pairs(_G) do if type(v) == 'table' then table.insert(v, 1) end end",
        "table.sort(cjson) rawset(cjson, 1, 1)",
    ] {
        let found = attack(script, usize::MAX);
        assert!(found.contains("Attempt to modify a readonly table"), "{script}: {found}");
    }
}

#[test]
fn nothing_of_one_script_is_met_by_the_next() {
    let mut engine = Engine::new(Limits::default());
    let mut host = TestHost::default();
    let mut run = |script: &str| {
        let out = eval(&mut engine, &mut host, script.as_bytes(), &[], Protocol::Resp2);
        String::from_utf8_lossy(&out).into_owned()
    };
    run("cjson.encode_max_depth(1) cjson.encode_sparse_array(true) redis.setresp(3) return 1");
    assert_eq!(run("return cjson.encode({{{1}}})"), "$7\r\n[[[1]]]\r\n");
    assert_eq!(run("return false"), "$-1\r\n");
    run("local t = setmetatable({}, {__gc = function() redis.call('SET', 'a', 'b') end}) return 1");
    assert_eq!(run("collectgarbage() return 1"), ":1\r\n");
    for name in ["newproxy", "getfenv", "setfenv", "debug", "require", "io", "package", "dofile", "loadfile"]
    {
        assert!(run(&format!("return {name}")).contains("nonexistent global variable"), "{name}");
    }
    assert_eq!(run("local r = {} for k in pairs(os) do r[#r+1] = k end return r"), "*1\r\n$5\r\nclock\r\n");
}

#[test]
fn recursion_ends_with_an_error() {
    for script in [
        "local function f() return 1 + f() end return f()",
        "local function f() return pcall(f) end return tostring(f())",
        "local function f() return coroutine.wrap(f)() end return f()",
        "local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k] end return t.x",
        "local function f(s) return (string.gsub(s, '.', f)) end return f('x')",
        "local t = {} table.sort({3,2,1}, function(a, b) table.sort({3,2,1}, error) return true end)",
        "return loadstring(string.rep('(', 100000))",
        "return {loadstring('return ' .. string.rep('{', 100000))}",
        "return string.find(string.rep('a', 100000), string.rep('a?', 100000))",
        "return string.find('x', string.rep('(', 100000))",
        "return string.match(string.rep('x', 100000), string.rep('.-', 100000) .. 'b')",
        "local t = {} for i = 1, 100000 do t = {t} end return cjson.encode(t)",
        "return cjson.decode(string.rep('[', 1000000))",
        "return cmsgpack.unpack(string.rep('\\145', 1000000))",
        "local co co = coroutine.create(function() return coroutine.resume(co) end) return coroutine.resume(co)",
        "local f f = function(n) return xpcall(f, f) end return tostring(f())",
    ] {
        let found = attack(script, 20_000);
        assert!(found.ends_with("\r\n") && !found.is_empty(), "{script}: {found}");
    }
}

#[test]
fn a_table_that_holds_itself_is_a_bounded_reply() {
    let found = attack("local a = {} local b = {a} a[1] = b return a", usize::MAX);
    assert!(found.starts_with("*1\r\n*1\r\n") && found.ends_with("-ERR reached lua stack limit\r\n"));
    let found = attack("local t = {} for i = 1, 100 do t = {t, t} end return t", usize::MAX);
    assert!(found.contains("is longer than 4194304 bytes"), "{}", found.len());
    let found = attack("local t = {} for i = 1, 100 do t = {t, t} end return cjson.encode(t)", usize::MAX);
    assert!(found.contains("longer than 4194304 bytes"), "{found}");
    let found = attack("local t = {} for i = 1, 1000 do t[i] = t end return cmsgpack.pack(t)", usize::MAX);
    assert!(found.contains("longer than 4194304 bytes"), "{found}");
}

#[test]
fn memory_has_a_limit() {
    for script in [
        "local t = {} for i = 1, 1e9 do t[i] = {} end",
        "local s = 'x' while true do s = s .. s end",
        "return string.rep('x', 2147483647)",
        "return ('x'):rep(2147483647):rep(2147483647)",
        "local t = {} while true do t[#t + 1] = coroutine.create(function() end) end",
        "local t = {} while true do t[#t + 1] = string.rep('x', 1000) .. #t end",
        "return table.concat({string.rep('x', 9000000), string.rep('y', 9000000)})",
        "local s = string.rep('[', 999) .. string.rep(']', 999) local t = {} while true do t[#t + 1] = cjson.decode(s) end",
        "return string.gsub(string.rep('x', 100000), '.', string.rep('y', 10000))",
        "return select(2, load(function() return 1 end))",
        "local t = {} while true do t[#t + 1] = function() return t end end",
    ] {
        let found = attack(script, usize::MAX);
        assert!(is_out_of_memory(&found), "{script}: {}", &found[..found.len().min(200)]);
    }
    // The error can be caught: the memory is there again.
    let script = "local ok, e = pcall(string.rep, 'x', 2147483647) return {ok, e, #string.rep('y', 1000)}";
    assert_eq!(attack(script, usize::MAX), "*3\r\n$-1\r\n$17\r\nnot enough memory\r\n:1000\r\n");
}

#[test]
fn bytecode_is_not_loaded() {
    for script in [
        "return select(2, loadstring(string.dump(function() return 1 end)))",
        "return select(2, loadstring('\\27Lua'))",
        "local n = 0 return select(2, load(function() n = n + 1 if n == 1 then return '\\27Lua' end end))",
        "\u{1b}Lua",
    ] {
        let found = attack(script, usize::MAX);
        assert!(found.contains("unexpected symbol"), "{script}: {found}");
    }
}

#[test]
fn nothing_catches_the_end_of_a_script() {
    for script in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do xpcall(function() while true do end end, function() while true do end end) end",
        "xpcall(function() while true do end end, function() while true do end end)",
        "while true do redis.pcall('PING') end",
        "while true do local co = coroutine.create(function() while true do pcall(error) end end) coroutine.resume(co) end",
        "local f f = function() while true do pcall(f) end end f()",
        "while true do local co = coroutine.wrap(function() for i = 1, 90000 do end end) co() end",
        "repeat local ok, e = pcall(loadstring, 'x') until false",
        "local t = setmetatable({}, {__index = function() while true do end end}) return pcall(function() return t.x end)",
        "table.sort({1,2,3}, function() while true do end end)",
        "string.gsub('x', '.', function() while true do end end)",
        "loadstring('while true do end')()",
    ] {
        let found = attack(script, 50);
        assert!(is_killed(&found), "{script}: {found}");
    }
}

/// Each took minutes to ages in one call of a function, or in few.
#[test]
fn functions_that_work_long_can_be_ended() {
    for script in [
        "string.find(string.rep('a', 30), string.rep('a?', 30) .. string.rep('a', 30))",
        "string.find(string.rep('a', 100000), '.-.-.-.-.-b')",
        "string.find(string.rep('a', 100000), '[' .. string.rep('b', 100000) .. ']*[' .. string.rep('c', 1000) .. ']')",
        "string.match(string.rep('(', 1000000), '%b()') for i = 1, 1000 do string.match(string.rep('(', 100000), '%b()x') end",
        "string.find(string.rep('a', 1000000), string.rep('a', 100000) .. 'b', 1, true)",
        "while true do string.rep('', 2147483647) string.rep('x', 1000000) end",
        "table.insert({}, -2147483648, 1)",
        "local t = {} for i = 1, 300000 do t[i] = i end while true do table.insert(t, 1, 0) table.remove(t, 1) end",
        "local t = {} for i = 1, 200000 do t[i] = 200000 - i end while true do table.sort(t) end",
        "local t = {} for i = 1, 200000 do t[i] = i end for i = 1, 199999 do t[i] = nil end while true do next(t) end",
        "local t = {} for i = 1, 200000 do t[i] = '' end while true do table.concat(t) end",
        "local s = string.rep('x', 1000000) while true do local a = s .. 'y' end",
        "local s, r = string.rep('x', 1000000), string.rep('x', 1000000) .. 'y' while true do local a = s < r end",
        "while true do collectgarbage() end",
        "local t = {} for i = 1, 10000 do t[i] = i end while true do cjson.encode(t) end",
        "local s = '[' .. string.rep('1,', 10000) .. '1]' while true do cjson.decode(s) end",
        "local s = string.rep('1', 1000000) while true do tonumber(s, 10) end",
        "while true do unpack({}, 1, 7000) end",
        "local t = {} for i = 1, 100000 do t[i] = i end while true do table.maxn(t) end",
        "while true do struct.pack(string.rep('x', 100000)) end",
        "local s = string.rep(' ', 1000000) while true do loadstring(s) end",
        "local s = string.rep('x = 1 ', 100000) while true do loadstring(s) end",
    ] {
        let found = attack(script, 200);
        assert!(is_killed(&found), "{script}: {}", &found[..found.len().min(300)]);
    }
}

#[test]
fn lengths_in_packed_data_reserve_nothing() {
    for (script, expected) in [
        ("return cmsgpack.unpack('\\221\\255\\255\\255\\255')", "Missing bytes in input."),
        ("return cmsgpack.unpack('\\223\\255\\255\\255\\255')", "Missing bytes in input."),
        ("return cmsgpack.unpack('\\219\\255\\255\\255\\255')", "Missing bytes in input."),
        ("return struct.unpack('c2147483647', 'x')", "data string too short"),
        ("return struct.unpack('I2147483647', 'x')", "integral size 2147483647 is larger than limit of 32"),
        ("return struct.pack('I99999999999', 1)", "integral size overflow"),
        ("return struct.unpack('b', 'abc', -9223372036854775808)", "data string too short"),
        ("return struct.unpack('b', 'abc', 9223372036854775807)", "data string too short"),
        ("return struct.unpack('>!1024 b i8', string.rep('x', 20), 18)", "data string too short"),
        ("return struct.pack('c1000000000', 'x')", "string too short"),
        ("return cjson.encode(string.rep('\\0', 3000000))", "longer than 4194304 bytes"),
        (
            "local t = {} for i = 1, 7990 do t[i] = i end return {cmsgpack.unpack(string.rep('a', 9000))}",
            "stack overflow",
        ),
        ("return {struct.unpack(string.rep('b', 9000), string.rep('x', 9000))}", "stack overflow"),
    ] {
        let found = attack(script, usize::MAX);
        assert!(found.contains(expected), "{script}: {}", &found[..found.len().min(300)]);
    }
    assert_eq!(reply("return bit.tohex(0, -2147483648)"), "$8\r\n00000000\r\n");
}

#[test]
fn replies_have_no_line_from_a_script() {
    for script in [
        "error('a\\r\\n+FORGED')",
        "return {ok = 'a\\r\\n+FORGED'}",
        "return {err = 'a\\r\\n+FORGED'}",
        "return {big_number = 'a\\r\\n+FORGED'}",
        "return redis.error_reply('a b\\r\\n+FORGED')",
        "error({err = 'E x\\r\\n+FORGED', source = 'a\\r\\n+FORGED', line = 1})",
        "return loadstring",
    ] {
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            let mut engine = Engine::new(Limits::default());
            let out = eval(&mut engine, &mut TestHost::default(), script.as_bytes(), &[], protocol);
            let found = String::from_utf8_lossy(&out).into_owned();
            assert!(!found.contains("\n+FORGED") || found.starts_with('$'), "{script}: {found:?}");
        }
    }
}
