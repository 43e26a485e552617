//! WAIT: replicas that have what this client wrote.

use super::Family;
use crate::call::Call;
use crate::failure::Outcome;
use esker_resp::integer::parse_integer;

pub(crate) const COMMANDS: Family = &[("wait", wait)];

/// There are no replicas, and none can come while it waits: it answers 0 at once, whatever it is asked for.
fn wait(call: &mut Call<'_, '_>) -> Outcome {
    call.integer(1)?;
    match parse_integer(call.args[2]) {
        None => return Err("ERR timeout is not an integer or out of range".into()),
        Some(..0) => return Err("ERR timeout is negative".into()),
        Some(_) => {}
    }
    call.reply.integer(0);
    Ok(())
}
