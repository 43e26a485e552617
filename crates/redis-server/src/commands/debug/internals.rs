//! DEBUG of what lies within a server: strings by their bytes, the log, matching of patterns, and what there
//! is nothing of here.

use crate::call::Call;
use crate::failure::{Failure, NO_SUCH_KEY, NOT_AN_INTEGER, Outcome};
use crate::script_log::Line;
use esker_redis_store::types::string;
use esker_redis_store::{Kind, types};
use esker_resp::glob::{self, Case};
use esker_resp::integer::parse_integer;
use esker_resp::memory_size::parse_memory_size;

/// The threshold that QUICKLIST-PACKED-THRESHOLD takes at most.
const LARGEST_THRESHOLD: u64 = (4 << 30) - (1 << 20);

/// Patterns of STRINGMATCH-TEST, matched under all stripes: some hundredths of a second.
const PATTERNS_OF_A_TEST: usize = 10_000;

/// The longest pattern and text of the test.
const TESTED_BYTES: u64 = 30;

/// Subcommands of Redis 7.0 that have no meaning here, and why.
const WITHOUT_MEANING: &[(&str, &str)] = &[
    ("assert", "this server does not crash on request: kill the process"),
    ("client-eviction", "no client is evicted"),
    ("clusterlink", "there is no cluster"),
    ("crash-and-recover", "this server does not restart itself: kill the process"),
    ("leak", "no memory is leaked on request"),
    ("listpack", "no value is stored as a listpack: see DEBUG OBJECT and ESKER.EXPLAIN GET"),
    ("mallctl", "the allocator takes no settings"),
    ("mallctl-str", "the allocator takes no settings"),
    ("oom", "this server does not crash on request: kill the process"),
    ("panic", "this server does not crash on request: kill the process"),
    ("quicklist", "no value is stored as a quicklist: see DEBUG OBJECT and ESKER.EXPLAIN GET"),
    ("replicate", "there are no replicas"),
    ("restart", "this server does not restart itself: kill the process"),
    ("segfault", "this server does not crash on request: kill the process"),
];

/// The error of a subcommand that has no meaning here; `None` if Redis does not know it either.
pub(super) fn refusal(subcommand: &[u8]) -> Option<Failure> {
    let (name, why) = WITHOUT_MEANING.iter().find(|(name, _)| name.as_bytes() == subcommand)?;
    Some(format!("ERR DEBUG {} has no meaning here: {why}", name.to_ascii_uppercase()).into())
}

/// Lengths of a key and its string. Nothing is allocated in advance of its use, so nothing is available.
pub(super) fn string_lengths(call: &mut Call<'_, '_>) -> Outcome {
    let entry = call.entry(2)?;
    let Some(record) = entry.record() else { return Err(NO_SUCH_KEY.into()) };
    if record.kind() != Kind::String || types::encoding(record)? == "int" {
        return Err("ERR Not an sds encoded string.".into());
    }
    let (key, value) = (entry.key().len() as u64, string::len(record)?);
    let stored = string::memory_bytes(record)?;
    let text = format!(
        "key_sds_len:{key}, key_sds_avail:0, key_zmalloc: {key}, val_sds_len:{value}, val_sds_avail:0, \
         val_zmalloc: {stored}"
    );
    call.reply.status(text.as_bytes());
    Ok(())
}

/// Matches random patterns with random texts, of few different bytes, so that all forms of patterns occur.
pub(super) fn match_random_patterns(call: &mut Call<'_, '_>) -> Outcome {
    let store = &call.server.store;
    let random_text = || {
        let length = store.random() % TESTED_BYTES;
        (0..length).map(|_| b"*?[]^\\-ab\0"[(store.random() % 10) as usize]).collect::<Vec<u8>>()
    };
    for _ in 0..PATTERNS_OF_A_TEST {
        let case = if store.random() & 1 == 0 { Case::Sensitive } else { Case::Insensitive };
        let _is_match = glob::matches(&random_text(), &random_text(), case);
    }
    call.reply.status(b"Apparently Redis did not crash: test passed");
    Ok(())
}

/// Writes a line to the log.
pub(super) fn log(text: &[u8]) {
    tracing::warn!("DEBUG LOG: {}", Line(text));
}

/// Lists have no nodes whose form could differ; the value is checked.
pub(super) fn check_threshold(value: &[u8]) -> Outcome {
    match parse_memory_size(value) {
        Some(bytes) if bytes <= LARGEST_THRESHOLD => Ok(()),
        _ => Err("ERR argument must be a memory value bigger than 1 and smaller than 4gb".into()),
    }
}

/// Buffers of replies have the size of what is in them; the arguments are checked.
pub(super) fn check_reply_buffer(call: &Call<'_, '_>) -> Outcome {
    let is_named = ["never", "reset"].iter().any(|word| call.is_word(3, word));
    match () {
        () if call.is_word(2, "peak-reset-time") && is_named => Ok(()),
        () if call.is_word(2, "peak-reset-time") || call.is_word(2, "resizing") => {
            parse_integer(call.args[3]).map(|_| ()).ok_or_else(|| NOT_AN_INTEGER.into())
        }
        () => Err(crate::commands::subcommand_syntax(call)),
    }
}
