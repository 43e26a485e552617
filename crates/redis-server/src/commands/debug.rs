//! DEBUG: what tests and operators look at, and ways to change how the server behaves for a test.
//!
//! It runs under all stripes, on a thread that may wait: SLEEP holds the keys of all clients back, as it does
//! in Redis. What would crash the server, or belongs to data structures that are not there, is an error.

mod digest;
mod internals;
mod protocol;

use super::{Family, reply_help};
use crate::call::Call;
use crate::failure::{Failure, NO_SUCH_KEY, NOT_AN_INTEGER, Outcome};
use crate::server::Server;
use esker_redis_store::types;
use esker_redis_store::types::string;
use esker_resp::integer::parse_integer;
use parking_lot::{Condvar, Mutex};
use std::fmt::Write;
use std::time::Duration;

pub(crate) const COMMANDS: Family = &[("debug", debug)];

/// The longest SLEEP: all keys are locked meanwhile.
const MAX_SLEEP: Duration = Duration::from_secs(3600);

/// Most keys of POPULATE: they are one batch, which is in memory as a whole.
const MAX_POPULATED: usize = 1 << 20;

/// Most bytes of the values of POPULATE together.
const MAX_POPULATED_BYTES: u64 = 256 << 20;

fn debug(call: &mut Call<'_, '_>) -> Outcome {
    if call.is_resident {
        return Err(Failure::MustWait);
    }
    let subcommand = call.args[1].to_ascii_lowercase();
    match (&subcommand[..], call.args.len()) {
        (b"help", 2) => return help(call),
        (b"sleep", 3) => sleep(call),
        (b"object", 3) => return object(call),
        (b"digest", 2) => return digest::all(call),
        (b"digest-value", _) => return digest::values(call),
        (b"protocol", 3) => return protocol::reply(call),
        (b"populate", 3..=5) => return populate(call),
        (b"reload", _) => return reload(call),
        (b"htstats", 3) => return counts(call),
        (b"htstats-key", 3) => return no_hash_table(call),
        (b"structsize", 2) => return structures(call),
        (b"error", 3) => return error(call),
        (b"sdslen", 3) => return internals::string_lengths(call),
        (b"stringmatch-test", 2) => return internals::match_random_patterns(call),
        (b"config-rewrite-force-all", 2) => call.server.store_settings()?,
        (b"log", 3) => internals::log(call.args[2]),
        (b"loadaof", 2) => call.server.store.database().flush()?,
        (b"set-active-expire", 3) => {
            let is_active = parse_integer(call.args[2]).is_some_and(|number| number != 0);
            call.server.background.set_active_expiry(is_active);
        }
        (b"quicklist-packed-threshold", 3) => internals::check_threshold(call.args[2])?,
        (b"replybuffer", 4) => internals::check_reply_buffer(call)?,
        (b"drop-cluster-packet-filter", 3) => drop(call.integer(2)?),
        // There is no identity of a stream of replication, no cron, and no buffer that these change.
        (b"change-repl-id", 2) | (b"pause-cron" | b"aof-flush-sleep" | b"set-disable-deny-scripts", 3) => {}
        (b"set-skip-checksum-validation", 3) if call.args[2] == b"0" => {}
        (b"set-skip-checksum-validation", 3) => {
            return Err("ERR the checksum of a payload is always verified".into());
        }
        _ => return Err(internals::refusal(&subcommand).unwrap_or_else(|| super::subcommand_syntax(call))),
    }
    call.reply.status(b"OK");
    Ok(())
}

/// What is no number counts as zero, as in Redis.
fn sleep(call: &Call<'_, '_>) {
    let seconds = esker_resp::double::parse_double(call.args[2]).unwrap_or_default();
    let time = Duration::try_from_secs_f64(seconds).unwrap_or_default().min(MAX_SLEEP);
    let lock = Mutex::new(());
    Condvar::new().wait_for(&mut lock.lock(), time);
}

fn object(call: &mut Call<'_, '_>) -> Outcome {
    let entry = call.entry(2)?;
    let Some(record) = entry.record() else { return Err(NO_SUCH_KEY.into()) };
    let encoding = types::encoding(record)?;
    let value = types::load(call.txn, &entry)?;
    // Without its type, version and checksum.
    let dumped = esker_redis_data::dump(&value, &call.txn.store().encoding_limits()).len().saturating_sub(11);
    let idle_s = call.idle_s(call.args[2]);
    // The clock of Redis has 24 bits.
    let used_s = Server::use_time_s(call.txn).saturating_sub(idle_s) & 0xff_ffff;
    let text = format!(
        "Value at:0x0 refcount:1 encoding:{encoding} serializedlength:{dumped} lru:{used_s} \
         lru_seconds_idle:{idle_s}"
    );
    call.reply.status(text.as_bytes());
    Ok(())
}

/// Writes all memtables to tables, from where the data are read then. They are not read as a whole: there is
/// no state in memory that could be made anew.
fn reload(call: &mut Call<'_, '_>) -> Outcome {
    let is_option = |argument: &&[u8]| {
        ["merge", "noflush", "nosave"].iter().any(|option| argument.eq_ignore_ascii_case(option.as_bytes()))
    };
    if !call.args[2..].iter().all(is_option) {
        return Err("ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.".into());
    }
    call.server.store.database().flush()?;
    call.reply.status(b"OK");
    Ok(())
}

fn error(call: &mut Call<'_, '_>) -> Outcome {
    Err(call.args[2].to_vec().into())
}

fn populate(call: &mut Call<'_, '_>) -> Outcome {
    let positive = |position: usize| {
        let number = parse_integer(call.args[position]).and_then(|number| usize::try_from(number).ok());
        number.ok_or("ERR value is out of range, must be positive")
    };
    let count = positive(2)?;
    let size = if call.args.len() > 4 { positive(4)? } else { 0 };
    let bytes = (count as u64).checked_mul(size as u64);
    if count > MAX_POPULATED || bytes.is_none_or(|bytes| bytes > MAX_POPULATED_BYTES) {
        let text = format!("ERR at most {MAX_POPULATED} keys and {MAX_POPULATED_BYTES} bytes at once");
        return Err(text.into());
    }
    let prefix = call.args.get(3).copied().unwrap_or(b"key");
    for number in 0..count {
        let key = [prefix, b":", number.to_string().as_bytes()].concat();
        let mut entry = call.txn.entry(call.session.db, &key)?;
        if entry.record().is_some() {
            continue;
        }
        let mut value = format!("value:{number}").into_bytes();
        if size > 0 {
            value.resize(size, 0);
        }
        types::delete_key(call.txn, &mut entry)?;
        string::set(call.txn, &mut entry, &value, None)?;
        call.txn.changed(call.session.db, &key);
    }
    call.reply.status(b"OK");
    Ok(())
}

/// Keys lie in a tree: there are no tables of hashes to tell of, but numbers.
fn counts(call: &mut Call<'_, '_>) -> Outcome {
    let number = parse_integer(call.args[2]).ok_or(NOT_AN_INTEGER)?;
    let db = i32::try_from(number).ok().and_then(|number| call.server.database(number));
    let db = db.ok_or("ERR Out of range database")?;
    let store = &call.server.store;
    let mut text = String::new();
    for (title, count) in [("Dictionary", store.keys(db)), ("Expires", store.expiring_keys(db))] {
        // A String takes everything.
        let _written = write!(text, "[{title} HT]\nNo hash table: a tree with {count} keys.\n");
    }
    call.reply.verbatim(*b"txt", text.as_bytes());
    Ok(())
}

fn no_hash_table(call: &mut Call<'_, '_>) -> Outcome {
    if call.entry(2)?.record().is_none() {
        return Err(NO_SUCH_KEY.into());
    }
    Err("ERR The value stored at the specified key is not represented using an hash table".into())
}

fn structures(call: &mut Call<'_, '_>) -> Outcome {
    let text = format!("bits:{} session:{}", usize::BITS, size_of::<crate::session::Session>());
    call.reply.status(text.as_bytes());
    Ok(())
}

fn help(call: &mut Call<'_, '_>) -> Outcome {
    reply_help(
        call,
        &[
            "CONFIG-REWRITE-FORCE-ALL",
            "    As CONFIG REWRITE.",
            "DIGEST",
            "    Output a hex signature representing the current DB content.",
            "DIGEST-VALUE <key> [<key> ...]",
            "    Output a hex signature of the values of all the specified keys.",
            "ERROR <string>",
            "    Return a Redis protocol error with <string> as message. Useful for clients",
            "    unit tests to simulate Redis errors.",
            "LOG <message>",
            "    Write <message> to the server log.",
            "HTSTATS <dbid>",
            "    Return the numbers of keys and of keys that expire.",
            "LOADAOF",
            "    Write what is in memory to tables.",
            "OBJECT <key>",
            "    Show low level info about `key` and associated value.",
            "POPULATE <count> [<prefix>] [<size>]",
            "    Create <count> string keys named key:<num>. If <prefix> is specified then",
            "    it is used instead of the 'key' prefix.",
            "PROTOCOL <type>",
            "    Reply with a test value of the specified type. <type> can be: string,",
            "    integer, double, bignum, null, array, set, map, attrib, push, verbatim,",
            "    true, false.",
            "RELOAD [option ...]",
            "    Write what is in memory to tables. MERGE, NOFLUSH and NOSAVE change nothing.",
            "SDSLEN <key>",
            "    Show low level SDS string info representing `key` and value.",
            "SET-ACTIVE-EXPIRE <0|1>",
            "    Setting it to 0 disables expiring keys in background when they are not",
            "    accessed (otherwise the Redis behavior). Setting it to 1 reenables back the",
            "    default.",
            "SLEEP <seconds>",
            "    Hold all keys back for <seconds>. Decimals allowed.",
            "STRINGMATCH-TEST",
            "    Match random patterns.",
            "STRUCTSIZE",
            "    Return the size of the state of a client.",
        ],
    );
    Ok(())
}
