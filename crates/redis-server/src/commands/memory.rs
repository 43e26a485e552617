//! MEMORY: how much memory and space is used, and what for.

use super::{Family, reply_help};
use crate::call::Call;
use crate::failure::{Outcome, SYNTAX};
use esker_redis_store::types;
use std::fmt::Write;

pub(crate) const COMMANDS: Family = &[
    ("memory|doctor", doctor),
    ("memory|help", help),
    ("memory|malloc-stats", allocator),
    ("memory|purge", purge),
    ("memory|stats", stats),
    ("memory|usage", usage),
];

/// Elements that are looked at by default.
const SAMPLES: u64 = 5;

/// The bytes of a key and its value as they are stored, elements estimated by some of them.
fn usage(call: &mut Call<'_, '_>) -> Outcome {
    let mut samples = SAMPLES;
    let mut at = 3;
    while at < call.args.len() {
        if !call.is_word(at, "samples") || at + 1 == call.args.len() {
            return Err(SYNTAX.into());
        }
        samples = u64::try_from(call.integer(at + 1)?).map_err(|_| SYNTAX)?;
        at += 2;
    }
    let entry = call.entry(2)?;
    if entry.record().is_none() {
        call.reply.null();
        return Ok(());
    }
    let samples = if samples == 0 { u64::MAX } else { samples };
    call.reply.integer(types::stored_bytes(call.txn, &entry, samples)? as i64);
    Ok(())
}

/// Bytes of the process, of what is cached, and of keys, with the names that Redis has for them where it has.
fn stats(call: &mut Call<'_, '_>) -> Outcome {
    let server = call.server;
    let metrics = server.store.database().metrics();
    let memory = &metrics.memory;
    let used = memory.process_anonymous_bytes.unwrap_or_else(|| memory.used_bytes());
    let keys: i64 = (0..server.store.databases()).map(|db| server.store.keys(db)).sum();
    let rows = [
        ("total.allocated", used),
        ("memtables", memory.memtable_bytes),
        ("cache", memory.cache_bytes),
        ("keys.count", keys.max(0) as u64),
    ];
    call.reply.map(rows.len());
    for (name, value) in rows {
        call.reply.bulk(name.as_bytes());
        call.reply.integer(value as i64);
    }
    Ok(())
}

fn doctor(call: &mut Call<'_, '_>) -> Outcome {
    let database = call.server.store.database();
    let mut text = String::new();
    // A String takes everything.
    let _written = writeln!(
        text,
        "Memory is bounded by one budget, which cache and memtables share; nothing is evicted from the data. {} \
         bytes are used.",
        database.metrics().memory.used_bytes()
    );
    let waiting = database.stalls().waiting.len();
    if waiting > 0 {
        let _written = writeln!(text, "{waiting} writes are held back until memory is written to tables.");
    }
    call.reply.verbatim(*b"txt", text.as_bytes());
    Ok(())
}

/// The allocator is the system's, which tells nothing.
fn allocator(call: &mut Call<'_, '_>) -> Outcome {
    call.reply.verbatim(*b"txt", b"Stats not supported for the current allocator");
    Ok(())
}

/// Memory goes back to the system by itself.
fn purge(call: &mut Call<'_, '_>) -> Outcome {
    call.reply.status(b"OK");
    Ok(())
}

fn help(call: &mut Call<'_, '_>) -> Outcome {
    reply_help(
        call,
        &[
            "DOCTOR",
            "    Return memory problems reports.",
            "MALLOC-STATS",
            "    Return internal statistics report from the memory allocator.",
            "PURGE",
            "    Attempt to purge dirty pages for reclamation by the allocator.",
            "STATS",
            "    Return information about the memory usage of the server.",
            "USAGE <key> [SAMPLES <count>]",
            "    Return memory in bytes used by <key> and its value. Nested values are",
            "    sampled up to <count> times (default: 5, 0 means sample all).",
        ],
    );
    Ok(())
}
