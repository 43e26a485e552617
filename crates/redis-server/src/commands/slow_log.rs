//! SLOWLOG: the commands that took longest to execute, the newest first.

use super::{Family, reply_help};
use crate::call::Call;
use crate::failure::Outcome;
use esker_resp::integer::parse_integer;

pub(crate) const COMMANDS: Family =
    &[("slowlog|get", get), ("slowlog|help", help), ("slowlog|len", len), ("slowlog|reset", reset)];

/// Entries that are shown if no number is given.
const SHOWN: usize = 10;

fn get(call: &mut Call<'_, '_>) -> Outcome {
    let count = match call.args.get(2) {
        None => SHOWN,
        Some(_) if call.args.len() > 3 => return Err(super::subcommand_syntax(call)),
        // All of them, for -1.
        Some(count) => match parse_integer(count) {
            Some(count @ -1..) => usize::try_from(count).unwrap_or(usize::MAX),
            _ => return Err("ERR count should be greater than or equal to -1".into()),
        },
    };
    let slow = call.server.observed.slow_log.newest(count);
    call.reply.array(slow.len());
    for entry in slow {
        call.reply.array(6);
        call.reply.integer(entry.id as i64);
        call.reply.integer(entry.time_s as i64);
        call.reply.integer(entry.duration_us as i64);
        call.reply.array(entry.arguments.len());
        entry.arguments.iter().for_each(|argument| call.reply.bulk(argument));
        call.reply.bulk(entry.address.as_bytes());
        call.reply.bulk(&entry.client_name);
    }
    Ok(())
}

fn len(call: &mut Call<'_, '_>) -> Outcome {
    call.reply.integer(call.server.observed.slow_log.len() as i64);
    Ok(())
}

fn reset(call: &mut Call<'_, '_>) -> Outcome {
    call.server.observed.slow_log.clear();
    call.reply.status(b"OK");
    Ok(())
}

fn help(call: &mut Call<'_, '_>) -> Outcome {
    reply_help(
        call,
        &[
            "GET [<count>]",
            "    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
            "    Entries are made of:",
            "    id, timestamp, time in microseconds, arguments array, client IP and port,",
            "    client name",
            "LEN",
            "    Return the length of the slowlog.",
            "RESET",
            "    Reset the slowlog.",
        ],
    );
    Ok(())
}
