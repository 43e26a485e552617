//! Targets for fuzzers: decoders of bytes that scripts are given, run by a script.
//!
//! `fuzz/` hands libFuzzer's bytes to them; the tests of this crate run them on seeded mutations.

use crate::engine::{Engine, Invocation, Limits};
use crate::host::{Host, LogLevel};
use crate::script::Script;
use esker_resp::writer::Protocol;
use std::ops::ControlFlow;

/// A host without commands.
struct NoCommands;

impl Host for NoCommands {
    fn call(&mut self, _: &[&[u8]], _: Protocol, reply: &mut Vec<u8>) {
        reply.extend_from_slice(b"-ERR no commands\r\n");
    }

    fn may_call(&mut self, _: &[&[u8]]) -> Option<bool> {
        None
    }

    fn log(&mut self, _: LogLevel, _: &[u8]) {}

    fn may_go_on(&mut self) -> ControlFlow<String> {
        ControlFlow::Continue(())
    }
}

/// The reply of `script` with `bytes` as its argument.
fn run(script: &str, bytes: &[u8]) -> Vec<u8> {
    let script = Script::new(script.as_bytes()).expect("a script without a first line");
    let mut out = Vec::new();
    let invocation = Invocation { arguments: &[bytes], ..Invocation::default() };
    Engine::new(Limits::default()).run(&script, &invocation, &mut NoCommands, &mut out);
    out
}

/// Target `lua_cjson`: text that is decoded is encoded to a text that decodes to as much. The order of
/// fields may differ, because it depends on the order in which a table got them.
///
/// # Panics
/// If it does not.
pub fn cjson(bytes: &[u8]) {
    let script = "cjson.encode_invalid_numbers(true) cjson.encode_sparse_array(true)
        local ok, value = pcall(cjson.decode, ARGV[1]) if not ok then return 'same' end
        local text = cjson.encode(value)
        if #cjson.encode(cjson.decode(text)) == #text then return 'same' end return text";
    assert_eq!(run(script, bytes), b"$4\r\nsame\r\n");
}

/// Target `lua_cmsgpack`: values that are unpacked are packed to bytes that unpack to as much, once nil has
/// been lost that stood for tables nested too deep.
///
/// # Panics
/// If they do not.
pub fn cmsgpack(bytes: &[u8]) {
    let script = "local ok, next, value = pcall(cmsgpack.unpack_one, ARGV[1])
        if not ok or next == nil then return 'same' end
        local ok, once = pcall(cmsgpack.unpack, cmsgpack.pack(value)) if not ok then return 'same' end
        local packed = cmsgpack.pack(once)
        if #cmsgpack.pack(cmsgpack.unpack(packed)) == #packed then return 'same' end return packed";
    assert_eq!(run(script, bytes), b"$4\r\nsame\r\n");
}

/// Target `lua_struct`: the first line is a format, the rest is unpacked by it, and packed again.
///
/// # Panics
/// If the answer is no reply.
pub fn packed_struct(bytes: &[u8]) {
    let script =
        "local format, data = string.match(ARGV[1], '^([^\\n]*)\\n(.*)$') if not format then return 1 end
        pcall(struct.size, format) local values = {pcall(struct.unpack, format, data)}
        if values[1] then pcall(struct.pack, format, unpack(values, 2, #values - 1)) end return 1";
    assert_eq!(run(script, bytes), b":1\r\n");
}
