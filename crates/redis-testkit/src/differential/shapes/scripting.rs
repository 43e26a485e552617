//! Scripts and libraries of functions.

use crate::differential::pools::{element, key};
use crate::differential::request::{Request, arguments, words};
use crate::random::Random;

const SCRIPTS: [&str; 53] = [
    "return 1",
    "return 1.99",
    "return -0.5",
    "return 'text'",
    "return true",
    "return false",
    "return nil",
    "return {1, 2, {3, 'x', nil, 4}}",
    "return {ok='fine'}",
    "return {err='WRONG it is'}",
    "return {double=1.5}",
    "return {map={a=1}}",
    "return {set={a=true}}",
    "return redis.status_reply('FINE')",
    "return redis.error_reply('MY error')",
    "return redis.error_reply('word')",
    "return KEYS[1] .. ARGV[1]",
    "return {#KEYS, #ARGV}",
    "return redis.call('GET', KEYS[1])",
    "return redis.pcall('GET', KEYS[1])",
    "return redis.call('SET', KEYS[1], ARGV[1])",
    "return redis.call('INCR', KEYS[1])",
    "return redis.call('LRANGE', KEYS[1], 0, -1)",
    "return redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')",
    "return redis.call('TYPE', KEYS[1])",
    "return redis.call('TYPE', KEYS[1]).ok",
    "return redis.call('NOSUCH')",
    "return redis.call()",
    "return redis.call('GET')",
    "return redis.call('SUBSCRIBE', 'c')",
    "return redis.pcall('SUBSCRIBE', 'c').err",
    "local x = redis.pcall('INCR', KEYS[1]); return type(x)",
    "redis.setresp(3); return redis.call('HGET', KEYS[1], ARGV[1])",
    "redis.call('SELECT', 1); return redis.call('DBSIZE')",
    "return redis.sha1hex(ARGV[1])",
    "return tostring(1e15) .. ' ' .. tostring(0.1) .. ' ' .. tostring(1/0)",
    "return string.format('%5.1f|%d|%s', 3.14159, 42, ARGV[1])",
    "return cjson.encode({1, 'a', {x=1.5}, cjson.null})",
    "return cjson.decode('[1,2,{\"a\":[true,null]}]')[2]",
    "return cmsgpack.unpack(cmsgpack.pack({1, 'x'}))",
    "return bit.tohex(bit.bxor(0xff00, 0x0ff0))",
    "return {struct.unpack('<I4', struct.pack('<I4', 77))}",
    "x = 1",
    "return nosuch",
    "error('mine')",
    "error({err='TABLE mine'})",
    "return (",
    "return redis.call('DEL', KEYS[1], ARGV[1])",
    "for i = 1, 3 do redis.call('RPUSH', KEYS[1], i) end return redis.call('LLEN', KEYS[1])",
    "return redis.REPL_ALL",
    "return tonumber('0x10') + tonumber('1e1')",
    "return #redis.call('KEYS', '*')",
    "return unpack(redis.call('MGET', KEYS[1], 'float'))",
];

/// Scripts: conversions of types in both directions, errors, calls.
pub(super) fn scripts(random: &mut Random) -> Vec<Request> {
    let script = *random.pick(&SCRIPTS);
    let group = *random.pick(&["string", "list", "sorted-set", "hash", "string"]);
    let keys = [key(random, group), element(random)];
    let count = random.choose(&["1", "1", "1", "1", "0", "2", "3", "-1", "a"]);
    let name = *random.pick(&["EVAL", "EVAL", "EVAL", "EVAL_RO"]);
    match random.below(6) {
        0 => {
            let load = arguments(&["SCRIPT", "LOAD"], &[script.into()]);
            let digest = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
            let hello = arguments(&["SCRIPT", "LOAD", "return 1"], &[]);
            vec![
                load,
                hello,
                arguments(&["EVALSHA", digest, "0"], &[]),
                arguments(&["SCRIPT", "EXISTS", digest, "x"], &[]),
            ]
        }
        _ => vec![arguments(&[name, script, count], &keys)],
    }
}

/// A library of functions and its calls.
pub(super) fn functions(random: &mut Random) -> Vec<Request> {
    let library = *random.pick(&[
        "#!lua name=lib1\nredis.register_function('f1', function(keys, args) return redis.call('GET', keys[1]) end)",
        "#!lua name=lib2\nredis.register_function{function_name='f2', callback=function(keys, args) return #args end, flags={'no-writes'}}",
        "#!lua name=lib1\nredis.register_function('f1', function(keys, args) return redis.call('SET', keys[1], args[1]) end)",
        "#!lua name=bad name\nreturn 1",
        "#!lua\nreturn 1",
        "return 1",
        "#!lua name=lib3\nlocal x = 1",
        "#!js name=lib3\nx",
    ]);
    let replace: &[&str] = random.choose(&[&["FUNCTION", "LOAD", "REPLACE"][..], &["FUNCTION", "LOAD"]]);
    let function = *random.pick(&["f1", "f2", "none"]);
    let call = *random.pick(&["FCALL", "FCALL_RO"]);
    let name = *random.pick(&["lib1", "lib2", "lib3"]);
    vec![
        arguments(replace, &[library.into()]),
        arguments(&[call, function, "1"], &[key(random, "string"), element(random)]),
        match random.below(4) {
            0 => arguments(&["FUNCTION", "DELETE", name], &[]),
            1 => words("FUNCTION FLUSH"),
            2 => arguments(&["FUNCTION", "LIST", "LIBRARYNAME", name, "WITHCODE"], &[]),
            _ => words("FUNCTION STATS"),
        },
    ]
}
