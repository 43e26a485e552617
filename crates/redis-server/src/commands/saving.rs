//! SAVE, BGSAVE and SHUTDOWN: checkpoints of the data, and the end of the server.
//!
//! Nothing needs to be saved: every write is in the log. A save is a copy at one moment, for a backup.

use super::Family;
use crate::call::Call;
use crate::failure::{Failure, Outcome, SYNTAX};

pub(crate) const COMMANDS: Family =
    &[("bgsave", save_in_background), ("lastsave", last_save), ("save", save), ("shutdown", shut_down)];

/// What waits for a device runs on a thread that no other client waits for.
fn may_wait(call: &Call<'_, '_>) -> Outcome {
    if call.is_resident { Err(Failure::MustWait) } else { Ok(()) }
}

fn save(call: &mut Call<'_, '_>) -> Outcome {
    may_wait(call)?;
    let server = call.server;
    server.checkpoints.make(server.store.database(), server.now_ms() / 1000)?;
    call.reply.status(b"OK");
    Ok(())
}

/// SCHEDULE waits in Redis for a rewrite of the append-only file, of which there are none.
fn save_in_background(call: &mut Call<'_, '_>) -> Outcome {
    if call.args.len() > 2 || (call.args.len() == 2 && !call.is_word(1, "schedule")) {
        return Err(SYNTAX.into());
    }
    let server = call.server;
    may_wait(call)?;
    server.checkpoints.ask(server.store.database(), server.now_ms() / 1000)?;
    call.reply.status(b"Background saving started");
    Ok(())
}

fn last_save(call: &mut Call<'_, '_>) -> Outcome {
    call.reply.integer(call.server.checkpoints.status().last_s as i64);
    Ok(())
}

#[derive(Clone, Copy, Debug, Default)]
struct ShutdownOptions {
    saves: bool,
    saves_not: bool,
    aborts: bool,
    is_forced: bool,
    is_now: bool,
}

impl ShutdownOptions {
    fn parse(call: &Call<'_, '_>) -> Outcome<Self> {
        let mut options = Self::default();
        for position in 1..call.args.len() {
            match () {
                () if call.is_word(position, "nosave") => options.saves_not = true,
                () if call.is_word(position, "save") => options.saves = true,
                () if call.is_word(position, "now") => options.is_now = true,
                () if call.is_word(position, "force") => options.is_forced = true,
                () if call.is_word(position, "abort") => options.aborts = true,
                () => return Err(SYNTAX.into()),
            }
        }
        let has_other = options.saves || options.saves_not || options.is_now || options.is_forced;
        if (options.aborts && has_other) || (options.saves && options.saves_not) {
            return Err(SYNTAX.into());
        }
        Ok(options)
    }
}

/// Makes what was written durable, makes a checkpoint if one is asked for, and stops the server. There is no
/// reply: the connection ends. There are no replicas to wait for, so NOW changes nothing, and a shutdown is
/// never in progress that ABORT could find.
fn shut_down(call: &mut Call<'_, '_>) -> Outcome {
    let options = ShutdownOptions::parse(call)?;
    if options.aborts {
        return Err("ERR No shutdown in progress.".into());
    }
    may_wait(call)?;
    let server = call.server;
    let database = server.store.database();
    let mut saved = database.sync();
    let has_save_points = !server.config.get("save").is_empty();
    if options.saves || (has_save_points && !options.saves_not) {
        saved = saved.and_then(|()| server.checkpoints.make(database, server.now_ms() / 1000));
    }
    if let Err(error) = saved
        && !options.is_forced
    {
        return Err(format!("ERR Errors trying to SHUTDOWN: {error}").into());
    }
    let Some(stop) = server.stop() else {
        return Err("ERR this server is part of another program, which ends it".into());
    };
    stop.stop();
    call.session.closes_after_reply = true;
    Ok(())
}
