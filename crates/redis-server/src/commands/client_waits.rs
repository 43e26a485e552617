//! CLIENT UNBLOCK: ends the wait of another client.

use super::Family;
use crate::call::Call;
use crate::failure::Outcome;
use crate::observed::counters::Ended;
use crate::waiting::{UNBLOCKED, WaitEnd};

pub(crate) const COMMANDS: Family = &[("client|unblock", unblock)];

fn unblock(call: &mut Call<'_, '_>) -> Outcome {
    let (end, error) = match call.args.len() {
        3 => (WaitEnd::TimeIsUp, None),
        4 if call.is_word(3, "timeout") => (WaitEnd::TimeIsUp, None),
        4 if call.is_word(3, "error") => (WaitEnd::Unblocked, Some(UNBLOCKED)),
        4 => return Err("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR".into()),
        _ => return Err(super::subcommand_syntax(call)),
    };
    // No client has a negative number.
    let client = u64::try_from(call.integer(2)?).unwrap_or_default();
    let waited = call.server.waiting.end(client, end);
    if let Some(command) = waited {
        // As in Redis, it has failed also if it answers as if its time were up.
        call.server.observed.commands.count_ended_wait(command, Ended::WaitedFailed);
        error.iter().for_each(|text| call.server.observed.commands.count_error(text));
    }
    call.reply.integer(waited.is_some().into());
    Ok(())
}
