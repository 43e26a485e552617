//! Commands while CLIENT PAUSE holds some back: which of them may change data, and whether one has to wait.
//!
//! A command is judged when it is met, before MULTI queues it, and once more under its stripes (PZ1).

use super::group::Executor;
use crate::checks::is_replicated;
use crate::commands::scripting::flags_of_script;
use crate::pausing::PauseChange;
use crate::server::Server;
use crate::session::{QueuedCommands, Session};
use esker_lua::Flags;
use esker_redis_commands::{Command, CommandFlags};

impl Executor<'_> {
    /// Whether the client has to wait with this command until a pause is over; it is listed then.
    pub(super) fn is_held_back(
        &self,
        session: &Session,
        command: &'static Command,
        arguments: &[&[u8]],
    ) -> bool {
        match &session.queue {
            Some(queue) if command.name() == "exec" => self.is_transaction_held_back(session, queue),
            _ => self.hold_back(session, |server| may_write(server, command, arguments)),
        }
    }

    /// The same with EXEC of these commands.
    pub(super) fn is_transaction_held_back(&self, session: &Session, queue: &QueuedCommands) -> bool {
        self.hold_back(session, |server| {
            queue.commands.iter().any(|(command, arguments)| {
                let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
                may_write(server, command, &arguments)
            })
        })
    }

    fn hold_back(&self, session: &Session, may_write: impl FnOnce(&Server) -> bool) -> bool {
        let server = self.server();
        // Redis takes a monitor for a replica, and holds none back.
        if !server.pausing.is_used() || session.is_monitor {
            return false;
        }
        let client = server.clients.get(session.id);
        server.pausing.hold_back(client.as_ref(), may_write(server), server.now_ms())
    }

    /// Lets pauses begin and end that the commands of the group asked for. Its batch is written and its
    /// stripes are held: those of all keys, if a pause begins.
    pub(super) fn change_pause(&self, session: &mut Session) {
        for change in session.pause_changes.drain(..) {
            self.server().change_pause(change);
        }
    }
}

impl Server {
    /// Begins or ends a pause.
    fn change_pause(&self, change: PauseChange) {
        self.pausing.change(change, self.now_ms(), |until_ms| self.store.keep_expired_until(until_ms));
    }
}

/// Whether a command may change data or send messages, as Redis judges it: a script by the flags that it
/// declares, if it declares some.
fn may_write(server: &Server, command: &'static Command, arguments: &[&[u8]]) -> bool {
    let is_program = match command.name() {
        "eval" | "evalsha" | "fcall" => true,
        "eval_ro" | "evalsha_ro" | "fcall_ro" => false,
        _ => return command.flags().contains(CommandFlags::WRITE) || is_replicated(command),
    };
    flags_of_script(server, command, arguments).map_or(is_program, |flags| !flags.contains(Flags::NO_WRITES))
}
