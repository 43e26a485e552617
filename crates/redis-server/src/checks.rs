//! Checks before a call: the command exists, has so many arguments, and the client may run it.

use crate::access::Account;
use crate::client_line::write_line;
use crate::command_kinds::CommandKind;
use crate::failure::shown;
use crate::server::Server;
use crate::session::Session;
use esker_redis_commands::acl::{Context, Denied, Event, Reason};
use esker_redis_commands::{Command, CommandFlags, KeyFlags, Names};
use esker_resp::writer::Protocol;

/// Finds the command of a request.
///
/// # Errors
/// The text of the error reply.
pub(crate) fn command(names: &Names, arguments: &[&[u8]]) -> Result<&'static Command, Vec<u8>> {
    let Some(command) = names.resolve(arguments) else { return Err(unknown(names, arguments)) };
    if !command.accepts(arguments.len()) {
        let name = command.name();
        return Err(format!("ERR wrong number of arguments for '{name}' command").into_bytes());
    }
    Ok(command)
}

/// Bytes of names and arguments that the error for an unknown command repeats.
const SHOWN_BYTES: usize = 128;

fn unknown(names: &Names, arguments: &[&[u8]]) -> Vec<u8> {
    let shown = |bytes| &shown(bytes)[..shown(bytes).len().min(SHOWN_BYTES)];
    if let Some(parent) = names.find(arguments[0])
        && !parent.subcommands().is_empty()
    {
        let Some(subcommand) = arguments.get(1) else {
            let name = parent.name();
            return format!("ERR wrong number of arguments for '{name}' command").into_bytes();
        };
        let name = shown(arguments[0]).to_ascii_uppercase();
        let subcommand = shown(subcommand);
        return [b"ERR unknown subcommand '", subcommand, b"'. Try ", &name[..], b" HELP."].concat();
    }
    let mut text = [b"ERR unknown command '", shown(arguments[0]), b"', with args beginning with: "].concat();
    let mut room = SHOWN_BYTES;
    for argument in &arguments[1..] {
        if room == 0 {
            break;
        }
        let part = &shown(argument)[..shown(argument).len().min(room)];
        text.extend_from_slice(&[b"'", part, b"' "].concat());
        room = room.saturating_sub(part.len() + 3);
    }
    text
}

/// Whether the configuration allows a command that could harm the process itself, to this client.
///
/// # Errors
/// The text of the error reply.
pub(crate) fn protected(server: &Server, session: &Session, command: &Command) -> Result<(), Vec<u8>> {
    if !command.flags().contains(CommandFlags::ADMIN) {
        return Ok(());
    }
    let (what, directive) = match command.name() {
        "debug" => ("DEBUG", "enable-debug-command"),
        "module|load" | "module|loadex" | "module|unload" => ("MODULE", "enable-module-command"),
        _ => return Ok(()),
    };
    let is_local = || {
        let client = server.clients.get(session.id);
        client.is_none_or(|client| client.address.is_none_or(|address| address.ip().is_loopback()))
    };
    match &server.config.get(directive)[..] {
        b"yes" => Ok(()),
        b"local" if is_local() => Ok(()),
        _ => Err(format!(
            "ERR {what} command not allowed. If the {directive} option is set to \"local\", you can run it from \
             a local connection, otherwise you need to set this option in the configuration file, and then \
             restart the server."
        )
        .into_bytes()),
    }
}

/// Why a command may not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The client has no user, or none any more.
    NotAuthenticated,
    /// The user has no right to do it.
    Denied(Denied),
}

impl Refusal {
    /// The error of a command of its own.
    pub(crate) fn text(self, command: &Command) -> Vec<u8> {
        match self {
            Self::NotAuthenticated => b"NOAUTH Authentication required.".to_vec(),
            Self::Denied(denied) => denied.error(command).into_bytes(),
        }
    }

    /// The error of a command that was queued while the user had the right.
    pub(crate) fn text_in_transaction(self, command: &Command) -> Vec<u8> {
        let reason = match self {
            Self::NotAuthenticated => return self.text(command),
            Self::Denied(Denied::Command) => "no permission to execute the command or subcommand",
            Self::Denied(Denied::Key(_)) => "no permission to touch the specified keys",
            Self::Denied(Denied::Channel(_)) => {
                "no permission to access one of the channels used as arguments"
            }
        };
        format!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer allowed for the following reason: {reason}"
        )
        .into_bytes()
    }

    /// The error of a command of a script.
    pub(crate) fn text_in_script(self, command: &Command) -> Vec<u8> {
        match self {
            Self::NotAuthenticated => self.text(command),
            Self::Denied(denied) => {
                format!("ERR The user executing the script {}", denied.reason()).into_bytes()
            }
        }
    }
}

/// Whether the client may run the command with these arguments. What its user is denied goes to the log when
/// the group ends.
///
/// # Errors
/// Why it may not. A client whose user is gone is disconnected.
pub(crate) fn permission(
    server: &Server,
    session: &mut Session,
    command: &'static Command,
    arguments: &[&[u8]],
    context: Context,
) -> Result<(), Refusal> {
    let denied = match rights(server, session) {
        None if command.flags().contains(CommandFlags::NO_AUTH) => return Ok(()),
        None => return Err(Refusal::NotAuthenticated),
        Some(account) if account.may_do_everything() => return Ok(()),
        Some(account) => match account.user().check(command, arguments, &mut Vec::new()) {
            Ok(()) => return Ok(()),
            Err(denied) => denied,
        },
    };
    let (reason, object) = match denied {
        Denied::Command => (Reason::Command, command.name().as_bytes()),
        Denied::Key(at) => (Reason::Key, arguments[at]),
        Denied::Channel(at) => (Reason::Channel, arguments[at]),
    };
    let username = session.user().unwrap_or_default().to_vec();
    note_denied(server, session, reason, context, object, username);
    Err(Refusal::Denied(denied))
}

/// The client's user as it is now; `None` if it must authenticate.
fn rights<'a>(server: &Server, session: &'a mut Session) -> Option<&'a Account> {
    let mut account = session.account.take();
    if let Some(known) = &mut account
        && server.access.refresh(known).is_none()
    {
        session.closes_after_reply = true;
        session.set_account(server, None);
        return None;
    }
    if account.is_none() && server.access.default_is_open() {
        // The default user has lost its password since the client connected.
        session.set_account(server, server.access.of_new_client());
        account = session.account.take();
    }
    session.account = account;
    session.account.as_ref()
}

/// Whether the client's user may run a command; nothing is noted.
pub(crate) fn may_run(
    server: &Server,
    session: &mut Session,
    command: &Command,
    arguments: &[&[u8]],
) -> bool {
    rights(server, session).is_some_and(|account| {
        account.may_do_everything() || account.user().check(command, arguments, &mut Vec::new()).is_ok()
    })
}

/// Whether the client's user may run a command that reads keys which its arguments do not name.
pub(crate) fn may_read_all_keys(
    server: &Server,
    session: &mut Session,
    command: &Command,
    arguments: &[&[u8]],
) -> bool {
    rights(server, session).is_some_and(|account| {
        let (user, mut found) = (account.user(), Vec::new());
        account.may_do_everything()
            || user.check_with_all_keys(command, arguments, &mut found, KeyFlags::ACCESS)
    })
}

/// Notes for the log that something was denied.
pub(crate) fn note_denied(
    server: &Server,
    session: &mut Session,
    reason: Reason,
    context: Context,
    object: &[u8],
    username: Vec<u8>,
) {
    let mut client = Vec::new();
    if let Some(known) = server.clients.get(session.id) {
        write_line(&known, &session.shown(), server.now_ms(), &mut client);
        client.pop_if(|last| *last == b'\n');
    }
    session.denied.push(Event { reason, context, object: object.to_vec(), username, client });
}

/// Whether a client that gets messages of channels in RESP2 may run the command.
///
/// # Errors
/// The text of the error reply.
pub(crate) fn subscriber(session: &Session, command: &Command) -> Result<(), Vec<u8>> {
    if session.is_subscribed() && session.protocol == Protocol::Resp2 && !is_for_subscribers(command) {
        let name = command.name();
        let text = format!(
            "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
        );
        return Err(text.into_bytes());
    }
    if session.is_monitor && touches_keys(command) {
        return Err(b"ERR Replica can't interact with the keyspace".to_vec());
    }
    Ok(())
}

/// Whether a command reads or changes keys, or runs a script that may.
fn touches_keys(command: &Command) -> bool {
    CommandKind::of(command).changes_keys || command.flags().contains(CommandFlags::READONLY)
}

fn is_for_subscribers(command: &Command) -> bool {
    command.name().ends_with("subscribe") || matches!(command.name(), "ping" | "quit" | "reset")
}

/// The error for a command of Redis that this server does not have.
pub(crate) fn missing(command: &Command) -> Vec<u8> {
    format!("ERR this server has no command '{}'", command.name()).into_bytes()
}

/// Whether Redis may send a command that changes no key to replicas: then it counts as a write for scripts
/// that only read, and for CLIENT PAUSE.
pub(crate) fn is_replicated(command: &Command) -> bool {
    matches!(command.name(), "publish" | "spublish" | "pfcount")
}
