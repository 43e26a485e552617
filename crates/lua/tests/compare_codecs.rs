//! Random values and bytes through `cjson`, `cmsgpack`, `struct` and `bit`, beside a real `redis-server`.

mod common;

use common::{TestHost, eval};
use esker_lua::{Engine, Limits};
use esker_redis_testkit::{Random, Server};
use esker_resp::writer::Protocol;

/// Scripts for each random input.
const ROUNDS: usize = 20_000;

/// A literal of Lua, nested a little.
fn literal(random: &mut Random, depth: usize) -> String {
    match random.below(if depth == 0 { 7 } else { 10 }) {
        0 => random
            .choose(&["true", "false", "cjson.null", "nil", "''", "0", "-1", "1e15", "2^53", "2^63", "0.1"])
            .to_owned(),
        1 => random.integer().to_string(),
        2 => format!("{:e}", f64::from_bits(random.next_u64() & !(1 << 62))),
        3 | 4 => string(random),
        5 => (random.below(70_000) as f64 / 7.0).to_string(),
        6 => (random.below(300)).to_string(),
        7 => {
            let elements: Vec<String> = (0..random.below(20)).map(|_| literal(random, depth - 1)).collect();
            format!("{{{}}}", elements.join(","))
        }
        8 => {
            let mut fields = String::new();
            for _ in 0..random.below(8) {
                let key = if random.once_in(3) { random.below(12).to_string() } else { string(random) };
                fields.push_str(&format!("[{key}]={},", literal(random, depth - 1)));
            }
            format!("{{{fields}}}")
        }
        _ => format!("{{{{{}}}}}", literal(random, depth - 1)),
    }
}

/// A string of any bytes, in decimal escapes.
fn string(random: &mut Random) -> String {
    let mut text = String::from("'");
    for byte in random.string(40) {
        text.push_str(&format!("\\{byte:03}"));
    }
    text + "'"
}

fn format(random: &mut Random) -> String {
    let mut format = String::new();
    for _ in 0..random.below(8) {
        format.push_str(random.choose(&[
            "b", "B", "h", "H", "l", "L", "T", "i", "I", "i1", "i3", "I7", "i8", "i12", "I16", "f", "d", "s",
            "c1", "c4", "c0", "x", ">", "<", "!", "!2", "!4", "!16", "!3", " ", "Bc0", "y", "i40",
        ]));
    }
    format
}

/// JSON, mostly, from words of its grammar.
fn json(random: &mut Random) -> Vec<u8> {
    let mut text = Vec::new();
    for _ in 0..random.below(25) {
        text.extend_from_slice(
            random
                .choose(&[
                    "[",
                    "]",
                    "{",
                    "}",
                    ",",
                    ":",
                    "\"a\"",
                    "\"b\"",
                    "1",
                    "-2.5e3",
                    "true",
                    "null",
                    " ",
                    "0x1F",
                    "nan",
                    "-inf",
                    "\"\\u00e9\"",
                    "\"\\ud83d\\ude00\"",
                    "\"\\n\"",
                    "01",
                    "1e400",
                    "[]",
                    "{}",
                    "[1,2]",
                    "{\"k\":1}",
                    "\"",
                    "\\",
                    "\0",
                ])
                .as_bytes(),
        );
    }
    if random.once_in(2) {
        let mut whole = b"[1,{\"a\":[true,null,\"x\\u0041\"],\"b\":-0.5e-3},\"text\"]".to_vec();
        random.mutate(&mut whole);
        return whole;
    }
    text
}

const SHOW: &str = "local function show(v)
    if type(v) == 'number' then return string.format('%.17g', v) end
    if type(v) ~= 'table' then return tostring(v) end
    local r = {} for k, x in pairs(v) do r[#r + 1] = show(k) .. '=' .. show(x) end
    table.sort(r) return '{' .. table.concat(r, ',') .. '}' end
    local function all(...) local r = {} for i = 1, select('#', ...) do r[i] = show((select(i, ...))) end return r end ";

/// A script and its arguments.
fn script(random: &mut Random, round: usize) -> (String, Vec<Vec<u8>>) {
    match round % 7 {
        0 => (format!("return cjson.encode({})", literal(random, 3)), Vec::new()),
        1 => (format!("return cmsgpack.pack({}, {})", literal(random, 3), literal(random, 2)), Vec::new()),
        2 => (format!("{SHOW} return all(cjson.decode(ARGV[1]))"), vec![json(random)]),
        3 => {
            let mut bytes = random.string(60);
            if random.once_in(2) {
                bytes = b"\x93\x01\xa3abc\x82\xa1k\xcb\x3f\xf0\0\0\0\0\0\0\xc0\xdc\0\x02\x05\xd1\xff\0\xc3"
                    .to_vec();
                random.mutate(&mut bytes);
            }
            (format!("{SHOW} return all(cmsgpack.unpack(ARGV[1]))"), vec![bytes])
        }
        4 => {
            let values: Vec<String> = (0..6).map(|_| literal(random, 0)).collect();
            (format!("return struct.pack('{}', {})", format(random), values.join(", ")), Vec::new())
        }
        5 => {
            let place = random.below(6);
            let format = format(random);
            (
                format!("{SHOW} return all(struct.unpack('{format}', ARGV[1], {place}))"),
                vec![random.string(80)],
            )
        }
        _ => {
            let name =
                random.choose(&["band", "bor", "bxor", "lshift", "rshift", "arshift", "rol", "ror", "tohex"]);
            let (first, second) = (literal(random, 0), random.integer() % 100);
            (
                format!("return {{bit.{name}({first}, {second}), bit.bswap({second}), bit.tobit({first})}}"),
                Vec::new(),
            )
        }
    }
}

#[test]
fn codecs_reply_as_those_of_redis() {
    let Some(server) = Server::redis(&[]) else { return };
    let mut client = server.connect();
    let mut engine = Engine::new(Limits::default());
    for round in 0..ROUNDS {
        let mut random = Random::of(round as u64);
        let (script, arguments) = script(&mut random, round);
        let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
        let request = [&[b"EVAL", script.as_bytes(), b"0"], arguments.as_slice()].concat();
        client.call(&request);
        let expected = String::from_utf8_lossy(client.raw()).into_owned();
        let found =
            eval(&mut engine, &mut TestHost::default(), script.as_bytes(), &arguments, Protocol::Resp2);
        let found = String::from_utf8_lossy(&found).into_owned();
        let arguments: Vec<String> = arguments.iter().map(|bytes| bytes.escape_ascii().to_string()).collect();
        assert_eq!(found, expected, "round {round}: {script} {arguments:?}");
    }
}
