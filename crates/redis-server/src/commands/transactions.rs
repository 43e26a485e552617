//! Commands of transactions but EXEC, which the executor carries out: see
//! [`execute::transaction`](crate::execute::transaction).

use super::Family;
use crate::call::Call;
use crate::failure::Outcome;
use crate::session::QueuedCommands;
use crate::watches::{MAX_WATCHED_BYTES, MAX_WATCHED_KEYS};

pub(crate) const COMMANDS: Family =
    &[("multi", multi), ("discard", discard), ("watch", watch), ("unwatch", unwatch)];

fn multi(call: &mut Call<'_, '_>) -> Outcome {
    if call.session.queue.is_some() {
        return Err("ERR MULTI calls can not be nested".into());
    }
    call.session.queue = Some(Box::<QueuedCommands>::default());
    call.reply.status(b"OK");
    Ok(())
}

fn discard(call: &mut Call<'_, '_>) -> Outcome {
    if call.session.queue.is_none() {
        return Err("ERR DISCARD without MULTI".into());
    }
    call.session.end_transaction(call.server);
    call.reply.status(b"OK");
    Ok(())
}

fn watch(call: &mut Call<'_, '_>) -> Outcome {
    if call.session.queue.is_some() {
        return Err("ERR WATCH inside MULTI is not allowed".into());
    }
    for position in 1..call.args.len() {
        let entry = call.entry(position)?;
        let (db, key) = (call.db(), call.args[position]);
        if !call.session.watching.add(&call.server.watches, db, key, entry.has_expired()) {
            let text = format!(
                "ERR a client watches at most {MAX_WATCHED_KEYS} keys and {MAX_WATCHED_BYTES} bytes of names"
            );
            return Err(text.into());
        }
    }
    call.reply.status(b"OK");
    Ok(())
}

fn unwatch(call: &mut Call<'_, '_>) -> Outcome {
    call.session.watching.clear(&call.server.watches);
    call.reply.status(b"OK");
    Ok(())
}
