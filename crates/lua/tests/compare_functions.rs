//! Libraries of functions beside a real `redis-server`: the same replies of FUNCTION LOAD and FCALL.

mod common;

use common::TestHost;
use esker_lua::{Engine, Invocation, Libraries, Limits};
use esker_redis_testkit::{Client, Server};
use esker_resp::writer::{Protocol, ReplyWriter};

/// Code of libraries, without the first line's beginning `#!lua name=`.
const LIBRARIES: [&str; 42] = [
    "a\nredis.register_function('f', function() return 1 end)",
    "a\nreturn 1",
    "a\nredis.register_function('f', function() return 1 end) redis.register_function('f', function() return 1 end)",
    "a\nredis.register_function('bad-name', function() end)",
    "a\nredis.register_function('', function() end)",
    "a\nredis.register_function(1, function() return 'number' end)",
    "a\nredis.register_function('f', 1)",
    "a\nredis.register_function({}, function() end)",
    "a\nredis.register_function()",
    "a\nredis.register_function('f')",
    "a\nredis.register_function('f', function() end, 1)",
    "a\nredis.register_function{function_name='f', callback=function() return 'named' end}",
    "a\nredis.register_function{FUNCTION_NAME='f', CallBack=function() return 'any case' end}",
    "a\nredis.register_function{function_name='f'}",
    "a\nredis.register_function{callback=function() end}",
    "a\nredis.register_function{function_name='f', callback=1}",
    "a\nredis.register_function{function_name={}}",
    "a\nredis.register_function{description={}}",
    "a\nredis.register_function{flags=1}",
    "a\nredis.register_function{flags={'no-writes', 'bogus'}}",
    "a\nredis.register_function{flags={1}}",
    "a\nredis.register_function{flags={{}}}",
    "a\nredis.register_function{unknown=1}",
    "a\nredis.register_function{[{}]=1}",
    "a\nredis.register_function{function_name='f', callback=function() return 'flags' end, flags={'NO-WRITES', 'allow-oom'}}",
    "a\nredis.call('PING')",
    "a\nlocal x = redis.nonexistent",
    "a\nreturn math.random()",
    "a\nreturn string.upper('x')",
    "a\nx = 1",
    "a\nredis.x = 1",
    "a\nredis = 1",
    "a\nredis.log(redis.LOG_DEBUG, 'loading') redis.register_function('f', function() return redis.REDIS_VERSION end)",
    "a\nlocal x = nil x.y = 1",
    "a\nthis is not Lua",
    "a\nlocal api = redis redis.register_function('f', function() return api.register_function('g', f) end)",
    "a\nlocal counter = 0 redis.register_function('f', function() counter = counter + 1 return counter end)",
    "a\nredis.register_function('f', function(keys, args) return {keys, args} end)",
    "a b=c\nreturn 1",
    "\nreturn 1",
    "a-b\nreturn 1",
    "\"quoted\"\nredis.register_function('f', function() return 'q' end)",
];

/// Bodies of a function of keys and arguments.
const BODIES: [&str; 24] = [
    "return 1",
    "return {keys, args}",
    "return KEYS",
    "return ARGV",
    "return redis.call('PING')",
    "return redis.pcall('INCR', 'text')",
    "return redis.call('INCR', 'text')",
    "error('boom')",
    "error({err='TAB le'})",
    "return nonexistent",
    "x = 1",
    "_G.x = 1",
    "rawset(_G, 'x', 1)",
    "return type(_G.redis)",
    "redis.register_function('g', function() end)",
    "return redis.register_function",
    "return redis.breakpoint",
    "return redis.replicate_commands",
    "redis.setresp(3) return {double=1.5}",
    "return math.floor(3.5)",
    "return loadstring('return type(redis)')()",
    "return pcall(loadstring('y = 1'))",
    "return #args[1] .. keys[1]",
    "local function f() return f() + 1 end return pcall(f)",
];

struct Pair {
    client: Client,
    engine: Engine,
    host: TestHost,
    libraries: Libraries,
    wrong: Vec<String>,
}

impl Pair {
    /// Flushes all and loads `code` in both.
    fn load(&mut self, code: &str) {
        self.client.call(&[b"FUNCTION", b"FLUSH"]);
        self.client.call(&[b"FUNCTION", b"LOAD", code.as_bytes()]);
        let expected = self.client.raw().to_vec();
        self.libraries.clear();
        let mut found = Vec::new();
        let mut writer = ReplyWriter::new(&mut found, Protocol::Resp2);
        match self.libraries.load(&mut self.engine, code.as_bytes(), false, &mut self.host) {
            Ok(library) => writer.bulk(library.name()),
            Err(text) => writer.error(&text),
        }
        self.compare(code, &expected, &found);
    }

    /// Calls a function in both.
    fn call(&mut self, code: &str, name: &str) {
        self.client.call(&[b"FCALL", name.as_bytes(), b"1", b"key", b"value"]);
        let expected = self.client.raw().to_vec();
        let mut found = Vec::new();
        match self.libraries.function(name.as_bytes()) {
            Some((library, function)) => {
                let invocation =
                    Invocation { keys: &[b"key"], arguments: &[b"value"], protocol: Protocol::Resp2 };
                self.engine.call_function(library, function, &invocation, &mut self.host, &mut found);
            }
            None => ReplyWriter::new(&mut found, Protocol::Resp2).error(b"ERR Function not found"),
        }
        self.compare(&format!("{name} of {code}"), &expected, &found);
    }

    fn compare(&mut self, what: &str, expected: &[u8], found: &[u8]) {
        if expected != found {
            let (expected, found) = (expected.escape_ascii(), found.escape_ascii());
            self.wrong.push(format!("{what}\n  redis: {expected}\n  here:  {found}"));
        }
    }
}

#[test]
fn libraries_reply_as_redis_does() {
    let (Some(server), Some(store)) = (Server::redis(&[]), Server::redis(&[])) else { return };
    let mut pair = Pair {
        client: server.connect(),
        engine: Engine::new(Limits::default()),
        host: TestHost::at(&store),
        libraries: Libraries::default(),
        wrong: Vec::new(),
    };
    for server in [&server, &store] {
        server.connect().words("SET text abc");
    }
    for code in LIBRARIES {
        let code = format!("#!lua name={code}");
        pair.load(&code);
        for name in ["f", "f", "F", "1"] {
            pair.call(&code, name);
        }
    }
    for code in
        ["no first line", "#!", "#!lua", "#!lua name=a", "#!js name=a\n", "#!LUA name=a\nreturn 1", "#!lua\n"]
    {
        pair.load(code);
    }
    for body in BODIES {
        let code =
            format!("#!lua name=bodies\n\nredis.register_function('body', function(keys, args) {body} end)");
        pair.load(&code);
        pair.call(&code, "body");
    }
    assert!(pair.wrong.is_empty(), "{} differ:\n{}", pair.wrong.len(), pair.wrong.join("\n"));
}
