//! What is never sent: commands that would end or change the comparison itself, and arguments that wait for
//! ever, expire within the run, or ask for replies without bound.

use esker_redis_commands::{CommandFlags, find};
use esker_resp::double::parse_double;
use esker_resp::integer::parse_integer;

/// Commands that are never sent, and why.
const EXCLUDED: [(&str, &str); 24] = [
    ("shutdown", "ends the server"),
    ("debug", "its subcommands stop, crash and inspect one implementation"),
    ("monitor", "turns the connection into a stream of all commands"),
    ("sync", "turns the connection into a stream of replication"),
    ("psync", "turns the connection into a stream of replication"),
    ("replconf", "belongs to that stream"),
    ("replicaof", "makes the server follow another one"),
    ("slaveof", "makes the server follow another one"),
    ("failover", "waits for replicas"),
    ("migrate", "connects to another server"),
    ("save", "writes files; what it answers depends on the moment"),
    ("bgsave", "writes files; what it answers depends on the moment"),
    ("bgrewriteaof", "writes files; what it answers depends on the moment"),
    ("module|load", "loads code from a file"),
    ("module|loadex", "loads code from a file"),
    ("client|reply", "takes replies away, so that nothing can be assigned to its request"),
    ("client|pause", "stops the other connection"),
    ("client|kill", "ends connections of the comparison"),
    ("client|tracking", "its pushes come at moments of their own"),
    ("client|no-evict", "its only effect is on memory"),
    ("config|rewrite", "writes files"),
    ("script|debug", "makes scripts wait for a debugger"),
    ("pfselftest", "takes seconds"),
    ("quit", "ends the connection"),
];

/// Commands that only shapes send, and why.
const BY_SHAPES: [(&str, &str); 6] = [
    ("config|set", "for parameters that do no harm"),
    ("config|get", "for parameters that both have"),
    ("acl|setuser", "for users of its own"),
    ("acl|deluser", "for users of its own"),
    ("lcs", "its time is the product of two lengths"),
    ("multi", "with commands that may be queued; Redis itself breaks the protocol of some in RESP3"),
];

/// Whether requests of the command may be generated from its documentation.
pub(super) fn is_excluded(name: &str) -> bool {
    EXCLUDED.iter().chain(&BY_SHAPES).any(|(excluded, _)| *excluded == name)
}

/// Whether a request can be sent, with these arguments.
pub(super) fn is_safe(request: &[Vec<u8>]) -> bool {
    let Some(first) = request.first() else { return false };
    let name = first.to_ascii_lowercase();
    let with_second = request.get(1).map(|second| [&name[..], b"|", &second.to_ascii_lowercase()].concat());
    let excluded = |name: &[u8]| EXCLUDED.iter().any(|(excluded, _)| excluded.as_bytes() == name);
    if excluded(&name) || with_second.is_some_and(|name| excluded(&name)) {
        return false;
    }
    if !keeps_strings_in_order(&name, request) || damages_hyperloglog(&name, request) {
        return false;
    }
    match &name[..] {
        b"blpop" | b"brpop" | b"bzpopmin" | b"bzpopmax" | b"blmove" | b"brpoplpush" => {
            waits_briefly(request.last(), 0.01)
        }
        b"blmpop" | b"bzmpop" => waits_briefly(request.get(1), 0.01),
        b"wait" => waits_briefly(request.get(2), 10.0),
        b"xread" | b"xreadgroup" => all_after(request, b"BLOCK", |value| waits_briefly(Some(value), 10.0)),
        b"srandmember" | b"hrandfield" | b"zrandmember" => {
            // A negative count asks for so many elements, repeated.
            !request
                .iter()
                .skip(2)
                .any(|count| parse_integer(count).is_some_and(|n| n < -1000 && n != i64::MIN))
        }
        // Which members of one distance are taken would be stored.
        b"geosearchstore" => !mentions(request, b"COUNT"),
        b"georadius" | b"georadiusbymember" => {
            !mentions(request, b"COUNT") || !mentions(request, b"STORE") && !mentions(request, b"STOREDIST")
        }
        // The order of equal weights would be stored.
        b"sort" => !(mentions(request, b"BY") && mentions(request, b"ALPHA") && mentions(request, b"STORE")),
        b"expire" | b"setex" => lives_long(request.get(2), 1_000),
        b"pexpire" => request.get(2).is_some_and(|time| time == b"1") || lives_long(request.get(2), 1),
        b"psetex" => lives_long(request.get(2), 1),
        b"restore" | b"restore-asking" => lives_long(request.get(2), 1),
        b"set" | b"getex" => {
            all_after(request, b"EX", |value| lives_long(Some(value), 1_000))
                && all_after(request, b"PX", |value| lives_long(Some(value), 1))
                // DBSIZE counts a key that has ended until it is swept.
                && all_after(request, b"EXAT", |value| lies_ahead(value, 1_000))
                && all_after(request, b"PXAT", |value| lies_ahead(value, 1))
        }
        _ => true,
    }
}

/// Ranges of strings have a meaning only where all scores are the same. So they are asked only of keys that
/// begin with `lex`, and those get no other score than 0.
fn keeps_strings_in_order(name: &[u8], request: &[Vec<u8>]) -> bool {
    let begins = |with: &[u8]| request.iter().skip(1).any(|argument| argument.starts_with(with));
    let by_string = name.ends_with(b"bylex")
        || name == b"zlexcount"
        || request.iter().any(|argument| argument.eq_ignore_ascii_case(b"bylex"));
    if by_string && !request.iter().skip(1).take(2).any(|argument| argument.starts_with(b"lex")) {
        return false;
    }
    if !begins(b"lex") {
        return true;
    }
    match name {
        b"zadd" => {
            request.len().is_multiple_of(2) && request.iter().skip(2).step_by(2).all(|score| score == b"0")
        }
        b"zremrangebylex" | b"zrem" | b"zpopmin" | b"zpopmax" | b"zmpop" | b"del" | b"expire" => true,
        _ => find(name).is_some_and(|command| command.flags().contains(CommandFlags::READONLY)),
    }
}

/// Whether a request may damage the bytes of a HyperLogLog. Redis reads damaged ones up to the damage, and
/// may read beyond their end; they are refused here as a whole. So HyperLogLogs are made, and brought, only
/// to keys that begin with `hll`, and nothing writes into the bytes of those.
fn damages_hyperloglog(name: &[u8], request: &[Vec<u8>]) -> bool {
    let is_one = |key: &Vec<u8>| key.starts_with(b"hll");
    match name {
        b"append" | b"setrange" | b"setbit" | b"bitfield" | b"bitop" => request.iter().any(is_one),
        b"pfadd" | b"pfmerge" => request.get(1).is_some_and(|key| !is_one(key)),
        b"rename" | b"renamenx" | b"copy" => {
            request.get(1).is_some_and(is_one) && !request.get(2).is_some_and(is_one)
        }
        _ => false,
    }
}

/// Whether a time to wait is an error or at most `longest`, which is some milliseconds in the command's unit.
/// Zero waits for ever.
fn waits_briefly(time: Option<&Vec<u8>>, longest: f64) -> bool {
    time.and_then(|time| parse_double(time)).is_none_or(|time| time < 0.0 || (time > 0.0 && time <= longest))
}

/// Whether a time to live has passed, is an error, or is longer than a run.
fn lives_long(time: Option<&Vec<u8>>, unit_ms: i128) -> bool {
    let time = time.and_then(|time| parse_integer(time)).map(i128::from);
    time.is_none_or(|time| time <= 0 || time * unit_ms >= 10_000_000)
}

/// Whether an absolute time is an error or beyond the year 2065.
fn lies_ahead(time: &[u8], unit_ms: i128) -> bool {
    parse_integer(time).is_none_or(|time| time <= 0 || i128::from(time) * unit_ms >= 3_000_000_000_000)
}

/// Whether what a request does depends on how long ago entries of a stream were delivered.
pub(super) fn depends_on_time(request: &[Vec<u8>]) -> bool {
    let name = request.first().map(|name| name.to_ascii_lowercase()).unwrap_or_default();
    match &name[..] {
        b"xclaim" | b"xautoclaim" => request.get(4).is_none_or(|least_idle| least_idle != b"0"),
        b"xpending" => mentions(request, b"IDLE"),
        _ => false,
    }
}

fn mentions(request: &[Vec<u8>], word: &[u8]) -> bool {
    request.iter().any(|argument| argument.eq_ignore_ascii_case(word))
}

fn all_after(request: &[Vec<u8>], word: &[u8], holds: impl Fn(&Vec<u8>) -> bool) -> bool {
    request.windows(2).filter(|pair| pair[0].eq_ignore_ascii_case(word)).all(|pair| holds(&pair[1]))
}
