//! CLIENT UNBLOCK: ends the wait of another client.

use super::Family;
use crate::call::Call;
use crate::failure::Outcome;
use crate::waiting::WaitEnd;

pub(crate) const COMMANDS: Family = &[("client|unblock", unblock)];

fn unblock(call: &mut Call<'_, '_>) -> Outcome {
    let end = match call.args.len() {
        3 => WaitEnd::TimeIsUp,
        4 if call.is_word(3, "timeout") => WaitEnd::TimeIsUp,
        4 if call.is_word(3, "error") => WaitEnd::Unblocked,
        4 => return Err("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR".into()),
        _ => return Err(super::subcommand_syntax(call)),
    };
    // No client has a negative number.
    let client = u64::try_from(call.integer(2)?).unwrap_or_default();
    let was_waiting = call.server.waiting.end(client, end);
    call.reply.integer(was_waiting.into());
    Ok(())
}
