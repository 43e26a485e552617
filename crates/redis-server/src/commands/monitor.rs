//! MONITOR: the client gets a line for every command of all clients.

use super::Family;
use crate::call::Call;
use crate::failure::Outcome;

pub(crate) const COMMANDS: Family = &[("monitor", monitor)];

/// The reply may be sent behind the first lines of other clients' commands, never within one.
fn monitor(call: &mut Call<'_, '_>) -> Outcome {
    if call.denies_waiting {
        return Err("ERR MONITOR isn't allowed for DENY BLOCKING client".into());
    }
    if !call.session.is_monitor
        && let Some(client) = call.server.clients.get(call.session.id)
    {
        call.session.set_monitor(true);
        call.server.observed.monitors.add(client);
    }
    call.reply.status(b"OK");
    Ok(())
}
