//! What an engine promises its server: caches, kills, libraries, and what it costs.

mod common;

use common::{KILLED, TestHost, eval, reply};
use esker_lua::{Engine, Flags, Invocation, Libraries, Limits, LogLevel, RestorePolicy, Script};
use esker_resp::writer::Protocol;

const LIBRARY: &str = "#!lua name=tools
local function double(keys, arguments) return arguments[1] * 2 end
redis.register_function('double', double)
redis.register_function{function_name='first', callback=function(keys) return keys[1] end,
    flags={'no-writes', 'ALLOW-STALE'}, description='the first key'}
redis.register_function('fails', function() error('broken') end)
redis.register_function('forever', function() while true do end end)
redis.register_function('call', function() return redis.call('PING') end)";

fn call(engine: &mut Engine, libraries: &Libraries, name: &str, arguments: &[&[u8]]) -> String {
    let (library, function) = libraries.function(name.as_bytes()).expect("a function");
    let mut out = Vec::new();
    let mut host = TestHost { questions: 10, ..TestHost::default() };
    let invocation = Invocation { keys: &[b"key"], arguments, protocol: Protocol::Resp2 };
    engine.call_function(library, function, &invocation, &mut host, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

#[test]
fn functions_are_called_by_engines_that_have_not_loaded_their_library() {
    let mut libraries = Libraries::default();
    let mut engine = Engine::new(Limits::default());
    let library =
        libraries.load(&mut engine, LIBRARY.as_bytes(), false, &mut TestHost::default()).expect("loads");
    assert_eq!(library.functions().len(), 5);
    let (_, first) = libraries.function(b"FIRST").expect("in any case of letters");
    assert_eq!(first.flags, Flags::NO_WRITES.with(Flags::ALLOW_STALE));
    assert_eq!(first.description.as_deref(), Some(&b"the first key"[..]));
    for engine in [&mut engine, &mut Engine::new(Limits::default())] {
        assert_eq!(call(engine, &libraries, "double", &[b"21"]), ":42\r\n");
        assert_eq!(call(engine, &libraries, "first", &[]), "$3\r\nkey\r\n");
        assert_eq!(call(engine, &libraries, "call", &[]), "+OK\r\n");
        let broken = "-ERR user_function:6: broken script: fails, on @user_function:6.\r\n";
        assert_eq!(call(engine, &libraries, "fails", &[]), broken);
        assert!(
            call(engine, &libraries, "forever", &[]).starts_with(&format!("-ERR {KILLED} script: forever"))
        );
        engine.flush_functions();
        assert_eq!(call(engine, &libraries, "double", &[b"4"]), ":8\r\n");
    }
}

#[test]
fn a_library_that_is_replaced_is_loaded_anew() {
    let mut libraries = Libraries::default();
    let (mut engine, mut other) = (Engine::new(Limits::default()), Engine::new(Limits::default()));
    let code =
        |value: u32| format!("#!lua name=l\nredis.register_function('f', function() return {value} end)");
    let mut host = TestHost::default();
    libraries.load(&mut engine, code(1).as_bytes(), false, &mut host).expect("loads");
    assert_eq!(call(&mut other, &libraries, "f", &[]), ":1\r\n");
    let refused = libraries.load(&mut engine, code(2).as_bytes(), false, &mut host).expect_err("is there");
    assert_eq!(refused, b"ERR Library 'l' already exists");
    libraries.load(&mut engine, code(2).as_bytes(), true, &mut host).expect("replaces");
    assert_eq!(call(&mut other, &libraries, "f", &[]), ":2\r\n");
    assert_eq!(call(&mut engine, &libraries, "f", &[]), ":2\r\n");
}

#[test]
fn libraries_are_restored_all_or_none() {
    let mut engine = Engine::new(Limits::default());
    let mut library = |name: &str, function: &str| {
        let code = format!("#!lua name={name}\nredis.register_function('{function}', function() end)");
        engine.load_library(code.as_bytes(), &mut TestHost::default()).expect("loads")
    };
    let mut libraries = Libraries::default();
    libraries.add(library("a", "fa"), false).expect("added");
    let refused = libraries.restore(vec![library("b", "fb"), library("a", "x")], RestorePolicy::Append);
    assert_eq!(refused.expect_err("a is there"), b"ERR Library a already exists");
    let refused = libraries.restore(vec![library("b", "FA")], RestorePolicy::Replace);
    assert_eq!(refused.expect_err("fa is there"), b"ERR Function FA already exists");
    assert_eq!((libraries.len(), libraries.function_count()), (1, 1));
    libraries.restore(vec![library("b", "fb"), library("a", "x")], RestorePolicy::Replace).expect("restored");
    assert!(libraries.function(b"fa").is_none() && libraries.function(b"x").is_some());
    libraries.restore(vec![library("c", "fb")], RestorePolicy::Flush).expect("restored");
    assert_eq!(libraries.iter().map(|library| library.name().to_vec()).collect::<Vec<_>>(), [b"c"]);
    assert!(libraries.remove(b"c") && !libraries.remove(b"c") && libraries.is_empty());
}

#[test]
fn loading_a_library_can_be_ended() {
    let mut host = TestHost { questions: 3, ..TestHost::default() };
    let mut engine = Engine::new(Limits::default());
    let code = b"#!lua name=l\nwhile true do end";
    let error = engine.load_library(code, &mut host).expect_err("never ends");
    assert!(String::from_utf8_lossy(&error).contains(KILLED));
}

#[test]
fn log_lines_reach_the_host() {
    let mut engine = Engine::new(Limits::default());
    let mut host = TestHost::default();
    let script = b"redis.log(redis.LOG_WARNING, 'a', 1, {}, 'b') redis.log(0, 'x')";
    eval(&mut engine, &mut host, script, &[], Protocol::Resp2);
    assert_eq!(host.lines, [(LogLevel::Warning, b"a 1 b".to_vec()), (LogLevel::Debug, b"x".to_vec())]);
}

#[test]
fn compiled_scripts_are_forgotten_and_compiled_again() {
    let mut engine = Engine::new(Limits { compiled_bytes: 10_000, ..Limits::default() });
    let mut host = TestHost::default();
    for round in 0..3 {
        for number in 0..200 {
            let found =
                eval(&mut engine, &mut host, format!("return {number}").as_bytes(), &[], Protocol::Resp2);
            assert_eq!(found, format!(":{number}\r\n").into_bytes(), "round {round}");
        }
    }
    assert!(engine.memory_bytes() > 0);
    engine.flush_scripts();
    assert_eq!(engine.memory_bytes(), 0);
}

#[test]
fn a_script_that_does_not_compile_is_refused() {
    let mut engine = Engine::new(Limits::default());
    let script = Script::new(b"return return").expect("no first line");
    let error = engine.check(&script).expect_err("no Lua");
    let expected =
        "ERR Error compiling script (new function): user_script:1: unexpected symbol near 'return'";
    assert_eq!(String::from_utf8_lossy(&error), expected);
    engine.check(&Script::new(b"return 1").expect("no first line")).expect("compiles");
}

#[test]
fn replies_of_commands_become_values() {
    let script = "redis.setresp(3) local r = redis.call('X')
        if type(r) == 'table' then for k, v in pairs(r) do return {k, type(v) == 'table' and 'table' or v} end end
        return tostring(r)";
    for (reply, expected) in [
        ("+OK\r\n", "*2\r\n$2\r\nok\r\n$2\r\nOK\r\n"),
        (":5\r\n", "$1\r\n5\r\n"),
        ("_\r\n", "$3\r\nnil\r\n"),
        ("#t\r\n", "$4\r\ntrue\r\n"),
        ("(123\r\n", "*2\r\n$10\r\nbig_number\r\n$3\r\n123\r\n"),
        ("=7\r\ntxt:abc\r\n", "*2\r\n$15\r\nverbatim_string\r\n$5\r\ntable\r\n"),
        ("|1\r\n+a\r\n+b\r\n:7\r\n", "$1\r\n7\r\n"),
        ("%1\r\n_\r\n:1\r\n", "-ERR"),
        ("*3\r\n:1\r\n", "-ERR"),
        ("$5\r\nab\r\n", "-ERR"),
        ("?", "-ERR"),
        ("", "-ERR"),
    ] {
        let mut engine = Engine::new(Limits::default());
        let mut host = TestHost { replies: vec![reply.as_bytes().to_vec()], ..TestHost::default() };
        let found = eval(&mut engine, &mut host, script.as_bytes(), &[], Protocol::Resp2);
        let found = String::from_utf8_lossy(&found).into_owned();
        assert!(found.starts_with(expected), "{reply:?}: {found}");
    }
}

#[test]
fn a_call_may_have_as_many_arguments_as_the_stack_takes() {
    let script = "local t = {} for i = 1, 7900 do t[i] = 'argument ' .. i end
        for i = 1, 20 do redis.call('X', unpack(t)) end return 'called'";
    assert_eq!(reply(script), "$6\r\ncalled\r\n");
}

#[test]
fn what_servers_share_may_cross_threads() {
    fn shared<T: Send + Sync + Clone>(_: &T) {}
    let mut libraries = Libraries::default();
    let mut engine = Engine::new(Limits::default());
    let library =
        libraries.load(&mut engine, LIBRARY.as_bytes(), false, &mut TestHost::default()).expect("loads");
    shared(&library);
    shared(&libraries);
    shared(&Script::new(b"return 1").expect("no first line"));
    let called = std::thread::scope(|scope| {
        let libraries = &libraries;
        scope.spawn(move || call(&mut Engine::new(Limits::default()), libraries, "double", &[b"3"])).join()
    });
    assert_eq!(called.expect("no panic"), ":6\r\n");
}
