//! Commands of expiries: when a key is deleted by itself.

use super::Family;
use crate::call::Call;
use crate::failure::{Failure, Outcome, shown};
use esker_redis_store::EventClass;
use esker_redis_store::types;

pub(crate) const COMMANDS: Family = &[
    ("expire", expire),
    ("expireat", expire_at),
    ("expiretime", expire_time),
    ("persist", persist),
    ("pexpire", expire_in_ms),
    ("pexpireat", expire_at_ms),
    ("pexpiretime", expire_time_ms),
    ("pttl", time_to_live_ms),
    ("ttl", time_to_live),
];

/// The unit of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeUnit {
    Seconds,
    Milliseconds,
}

/// Since when a time counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    Now,
    Epoch,
}

/// An argument's time as milliseconds since 1970, which may be past, also far before 1970.
pub(crate) fn time_ms(call: &Call<'_, '_>, position: usize, unit: TimeUnit, since: Since) -> Outcome<i64> {
    let given = call.integer(position)?;
    let factor = if unit == TimeUnit::Seconds { 1000 } else { 1 };
    let base = if since == Since::Now { call.txn.now_ms() as i64 } else { 0 };
    let in_ms = given.checked_mul(factor).and_then(|ms| ms.checked_add(base));
    in_ms
        .ok_or_else(|| Failure::from(format!("ERR invalid expire time in '{}' command", call.command.name())))
}

fn expire(call: &mut Call<'_, '_>) -> Outcome {
    set_expiry(call, TimeUnit::Seconds, Since::Now)
}

fn expire_at(call: &mut Call<'_, '_>) -> Outcome {
    set_expiry(call, TimeUnit::Seconds, Since::Epoch)
}

fn expire_in_ms(call: &mut Call<'_, '_>) -> Outcome {
    set_expiry(call, TimeUnit::Milliseconds, Since::Now)
}

fn expire_at_ms(call: &mut Call<'_, '_>) -> Outcome {
    set_expiry(call, TimeUnit::Milliseconds, Since::Epoch)
}

/// When an expiry is set, by what the key has.
#[derive(Clone, Copy, Debug, Default)]
struct ExpiryCondition {
    if_none: bool,
    if_some: bool,
    if_later: bool,
    if_earlier: bool,
}

impl ExpiryCondition {
    fn parse(call: &Call<'_, '_>) -> Outcome<Self> {
        let mut condition = Self::default();
        for at in 3..call.args.len() {
            let word = call.args[at].to_ascii_lowercase();
            match &word[..] {
                b"nx" => condition.if_none = true,
                b"xx" => condition.if_some = true,
                b"gt" => condition.if_later = true,
                b"lt" => condition.if_earlier = true,
                _ => return Err([b"ERR Unsupported option ", shown(call.args[at])].concat().into()),
            }
        }
        if condition.if_none && (condition.if_some || condition.if_later || condition.if_earlier) {
            return Err("ERR NX and XX, GT or LT options at the same time are not compatible".into());
        }
        if condition.if_later && condition.if_earlier {
            return Err("ERR GT and LT options at the same time are not compatible".into());
        }
        Ok(condition)
    }

    /// A key without an expiry lives for ever, which is later than any time.
    fn holds(self, before_ms: Option<u64>, new_ms: i64) -> bool {
        let before = before_ms.map_or(i128::MAX, i128::from);
        let new = i128::from(new_ms);
        (!self.if_none || before_ms.is_none())
            && (!self.if_some || before_ms.is_some())
            && (!self.if_later || new > before)
            && (!self.if_earlier || new < before)
    }
}

fn set_expiry(call: &mut Call<'_, '_>, unit: TimeUnit, since: Since) -> Outcome {
    let condition = ExpiryCondition::parse(call)?;
    let new_ms = time_ms(call, 2, unit, since)?;
    let mut entry = call.entry(1)?;
    if entry.record().is_none() || !condition.holds(entry.expiry_ms(), new_ms) {
        call.reply.integer(0);
        return Ok(());
    }
    match u64::try_from(new_ms) {
        Ok(new_ms) if new_ms > call.txn.now_ms() => {
            call.txn.set_expiry(&mut entry, Some(new_ms))?;
            call.changed(1, EventClass::GENERIC, "expire");
        }
        _ => {
            types::delete_key(call.txn, &mut entry)?;
            call.changed(1, EventClass::GENERIC, "del");
        }
    }
    call.reply.integer(1);
    Ok(())
}

fn persist(call: &mut Call<'_, '_>) -> Outcome {
    let mut entry = call.entry(1)?;
    let had_expiry = entry.expiry_ms().is_some();
    if had_expiry {
        call.txn.set_expiry(&mut entry, None)?;
        call.changed(1, EventClass::GENERIC, "persist");
    }
    call.reply.integer(had_expiry.into());
    Ok(())
}

fn time_to_live(call: &mut Call<'_, '_>) -> Outcome {
    show(call, TimeUnit::Seconds, Since::Now)
}

fn time_to_live_ms(call: &mut Call<'_, '_>) -> Outcome {
    show(call, TimeUnit::Milliseconds, Since::Now)
}

fn expire_time(call: &mut Call<'_, '_>) -> Outcome {
    show(call, TimeUnit::Seconds, Since::Epoch)
}

fn expire_time_ms(call: &mut Call<'_, '_>) -> Outcome {
    show(call, TimeUnit::Milliseconds, Since::Epoch)
}

/// Answers -2 for a key that is not there, -1 for one that has no expiry.
fn show(call: &mut Call<'_, '_>, unit: TimeUnit, since: Since) -> Outcome {
    let entry = call.entry(1)?;
    let answer = match (entry.record(), entry.expiry_ms()) {
        (None, _) => -2,
        (Some(_), None) => -1,
        (Some(_), Some(expiry_ms)) => {
            let base = if since == Since::Now { call.txn.now_ms() } else { 0 };
            let ms = expiry_ms.saturating_sub(base);
            (if unit == TimeUnit::Seconds { ms.saturating_add(500) / 1000 } else { ms }) as i64
        }
    };
    call.reply.integer(answer);
    Ok(())
}
