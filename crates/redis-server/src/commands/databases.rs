//! Commands of whole databases.

use super::Family;
use crate::call::Call;
use crate::failure::{NO_SUCH_DATABASE, Outcome, SYNTAX};
use esker_resp::integer::parse_integer;

pub(crate) const COMMANDS: Family = &[
    ("dbsize", count_keys),
    ("flushall", flush_all),
    ("flushdb", flush),
    ("select", select),
    ("swapdb", swap),
];

fn count_keys(call: &mut Call<'_, '_>) -> Outcome {
    let keys = call.txn.keys(call.db());
    call.reply.integer(keys);
    Ok(())
}

fn flush(call: &mut Call<'_, '_>) -> Outcome {
    check_pace(call)?;
    touch_watched(call, call.db(), None)?;
    call.txn.flush_database(call.db())?;
    call.reply.status(b"OK");
    Ok(())
}

fn flush_all(call: &mut Call<'_, '_>) -> Outcome {
    check_pace(call)?;
    for db in 0..call.server.store.databases() {
        touch_watched(call, db, None)?;
        call.txn.flush_database(db)?;
    }
    call.reply.status(b"OK");
    Ok(())
}

/// Tells which watched keys of a database change with it when it gets the keys of another, or none: a key
/// that is absent before and after does not. All stripes are held.
fn touch_watched(call: &mut Call<'_, '_>, db: u16, replacement: Option<u16>) -> Outcome {
    let watches = &call.server.watches;
    if !watches.is_used() {
        return Ok(());
    }
    for key in watches.keys_of(db) {
        let before = call.txn.entry(db, &key)?;
        let is_there_after = match replacement {
            Some(other) => call.txn.entry(other, &key)?.record().is_some(),
            None => false,
        };
        if is_there_after || before.record().is_some() {
            call.txn.changed_with_database(db, &key, false);
        } else if before.has_expired() {
            call.txn.changed_with_database(db, &key, true);
        }
    }
    Ok(())
}

/// SYNC and ASYNC are the same here: either takes constant time.
fn check_pace(call: &Call<'_, '_>) -> Outcome {
    match call.args.len() {
        1 => Ok(()),
        2 if call.is_word(1, "sync") || call.is_word(1, "async") => Ok(()),
        _ => Err(SYNTAX.into()),
    }
}

fn select(call: &mut Call<'_, '_>) -> Outcome {
    call.session.db = call.database(1)?;
    call.reply.status(b"OK");
    Ok(())
}

fn swap(call: &mut Call<'_, '_>) -> Outcome {
    let [first, second] = [(1, "first"), (2, "second")].map(|(position, which)| {
        let index = parse_integer(call.args[position]).and_then(|index| i32::try_from(index).ok());
        index.ok_or_else(|| format!("ERR invalid {which} DB index"))
    });
    let (first, second) = (first?, second?);
    let in_range = |index: i32| call.server.database(index).ok_or(NO_SUCH_DATABASE);
    let (first, second) = (in_range(first)?, in_range(second)?);
    if first != second {
        touch_watched(call, first, Some(second))?;
        touch_watched(call, second, Some(first))?;
    }
    call.txn.swap_databases(first, second)?;
    call.reply.status(b"OK");
    Ok(())
}
