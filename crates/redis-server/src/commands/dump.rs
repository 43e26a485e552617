//! DUMP and RESTORE: values as bytes that other servers read and write.

use super::Family;
use crate::call::Call;
use crate::failure::{Outcome, SYNTAX};
use crate::server::Server;
use esker_redis_data::MAX_DECOMPRESSED_BYTES;
use esker_redis_store::EventClass;
use esker_redis_store::types;

pub(crate) const COMMANDS: Family = &[("dump", dump), ("restore", restore), ("restore-asking", restore)];

fn dump(call: &mut Call<'_, '_>) -> Outcome {
    let entry = call.entry(1)?;
    if entry.record().is_none() {
        call.reply.null();
        return Ok(());
    }
    let value = types::load(call.txn, &entry)?;
    call.reply.bulk(&esker_redis_data::dump(&value, &call.txn.store().encoding_limits()));
    Ok(())
}

#[derive(Debug, Default)]
struct RestoreOptions {
    replaces: bool,
    is_absolute: bool,
    idle_s: Option<u32>,
    frequency: Option<u8>,
}

impl RestoreOptions {
    fn parse(call: &Call<'_, '_>) -> Outcome<Self> {
        let mut options = Self::default();
        let mut at = 4;
        while at < call.args.len() {
            let has_argument = at + 1 < call.args.len();
            if call.is_word(at, "replace") {
                options.replaces = true;
            } else if call.is_word(at, "absttl") {
                options.is_absolute = true;
            } else if call.is_word(at, "idletime") && has_argument && options.frequency.is_none() {
                at += 1;
                let idle_s = call.integer(at)?;
                if idle_s < 0 {
                    return Err("ERR Invalid IDLETIME value, must be >= 0".into());
                }
                options.idle_s = Some(u32::try_from(idle_s).unwrap_or(u32::MAX));
            } else if call.is_word(at, "freq") && has_argument && options.idle_s.is_none() {
                at += 1;
                let count = u8::try_from(call.integer(at)?);
                options.frequency =
                    Some(count.map_err(|_| "ERR Invalid FREQ value, must be >= 0 and <= 255")?);
            } else {
                return Err(SYNTAX.into());
            }
            at += 1;
        }
        Ok(options)
    }

    /// Notes when and how often the key was used. Of both the policy has one, as in Redis.
    fn note_use(&self, call: &Call<'_, '_>) {
        let (uses, key) = (&call.server.key_uses, call.args[1]);
        let (physical, now_s) = (call.txn.physical(call.db()), Server::use_time_s(call.txn));
        match (uses.is_counting(), self.idle_s, self.frequency) {
            (true, _, Some(count)) => uses.set_count(physical, key, now_s, count),
            (false, Some(idle_s), _) => uses.set_idle_s(physical, key, now_s, idle_s),
            _ => call.note_use(call.db(), key),
        }
    }
}

fn restore(call: &mut Call<'_, '_>) -> Outcome {
    let options = RestoreOptions::parse(call)?;
    let mut entry = call.entry(1)?;
    if entry.record().is_some() && !options.replaces {
        return Err("BUSYKEY Target key name already exists.".into());
    }
    let given_ms = call.integer(2)?;
    if given_ms < 0 {
        return Err("ERR Invalid TTL value, must be >= 0".into());
    }
    let value = esker_redis_data::restore(call.args[3], MAX_DECOMPRESSED_BYTES);
    let value = value.map_err(|error| format!("ERR {}", error.redis_text()))?;
    let now_ms = call.txn.now_ms();
    // A time to live beyond all numbers wraps around to the past, as that of Redis does.
    let expiry_ms = match (given_ms, options.is_absolute) {
        (0, _) => None,
        (_, true) => Some(given_ms),
        (_, false) => Some(given_ms.wrapping_add(now_ms as i64)),
    };
    let expiry_ms = expiry_ms.map(|expiry_ms| u64::try_from(expiry_ms).unwrap_or(0));
    types::check(&value)?;
    let was_there = types::delete_key(call.txn, &mut entry)?;
    if expiry_ms.is_some_and(|expiry_ms| expiry_ms <= now_ms) {
        if was_there {
            call.changed(1, EventClass::GENERIC, "del");
        }
    } else {
        types::save(call.txn, &mut entry, &value, expiry_ms)?;
        options.note_use(call);
        call.changed(1, EventClass::GENERIC, "restore");
    }
    call.reply.status(b"OK");
    Ok(())
}
