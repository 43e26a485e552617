//! The server as a running script sees it: commands of `redis.call` over the transaction of the script.

use crate::call::{Call, note_uses};
use crate::checks::{self, is_replicated};
use crate::command_kinds::CommandKind;
use crate::commands::{self, Handler};
use crate::failure::{Failure, engine_error_text};
use crate::observer::Observer;
use crate::script_log;
use crate::scripts::Run;
use crate::server::Server;
use crate::session::Session;
use esker::parts::env::Clock;
use esker_lua::{Host, LogLevel};
use esker_redis_commands::acl::Context;
use esker_redis_commands::{Command, CommandFlags, KeyRef, keys};
use esker_redis_store::Txn;
use esker_redis_store::locks::Stripe;
use esker_resp::writer::{Protocol, ReplyWriter};
use std::ops::ControlFlow;
use std::sync::Arc;

/// How long a script runs on a thread that other clients wait for; afterwards it is begun anew elsewhere.
const RESIDENT_NS: u64 = 5_000_000;

/// Why a script must end.
#[derive(Debug)]
pub(super) enum ScriptStop {
    /// SCRIPT KILL or FUNCTION KILL.
    Killed,
    /// It used a key whose stripe is not held.
    Undeclared,
    /// It has run too long for this thread.
    TooLong,
    /// The engine failed.
    Engine(esker::Error),
}

/// The server during one run.
pub(super) struct ScriptHost<'r, 's> {
    pub(super) server: &'s Server,
    pub(super) session: &'r mut Session,
    pub(super) txn: &'r mut Txn<'s>,
    pub(super) observer: &'r mut Observer<'s>,
    /// The stripes of declared keys, ascending; `None` if all are held.
    pub(super) declared: Option<Vec<Stripe>>,
    pub(super) is_read_only: bool,
    pub(super) is_resident: bool,
    pub(super) started_ns: u64,
    /// What is listed once the script has run for a while.
    pub(super) run: Arc<Run>,
    pub(super) is_listed: bool,
    pub(super) stop: Option<ScriptStop>,
    pub(super) keys: Vec<KeyRef>,
}

impl ScriptHost<'_, '_> {
    /// The command of `redis.call`, if it may run in this script.
    fn checked(&mut self, arguments: &[&[u8]]) -> Result<(&'static Command, Handler), Vec<u8>> {
        let command = self
            .server
            .names()
            .resolve(arguments)
            .ok_or(&b"ERR Unknown Redis command called from script"[..])?;
        if !command.accepts(arguments.len()) {
            return Err(b"ERR Wrong number of args calling Redis command from script".to_vec());
        }
        let flags = command.flags();
        if flags.contains(CommandFlags::NOSCRIPT) {
            return Err(b"ERR This Redis command is not allowed from script".to_vec());
        }
        checks::permission(self.server, self.session, command, arguments, Context::Lua)
            .map_err(|refusal| refusal.text_in_script(command))?;
        if self.is_read_only && (flags.contains(CommandFlags::WRITE) || is_replicated(command)) {
            return Err(b"ERR Write commands are not allowed from read-only scripts.".to_vec());
        }
        let handler = commands::handler(command).ok_or_else(|| checks::missing(command))?;
        if matches!(command.name(), "xread" | "xreadgroup") {
            let mut options =
                arguments.iter().take_while(|argument| !argument.eq_ignore_ascii_case(b"streams"));
            if options.any(|argument| argument.eq_ignore_ascii_case(b"block")) {
                let text = [b"ERR ", arguments[0], b" command is not allowed with BLOCK option from scripts"];
                return Err(text.concat());
            }
        }
        Ok((command, handler))
    }

    /// Whether the stripes of all keys of a command are held.
    fn holds_keys(&mut self, command: &'static Command, arguments: &[&[u8]]) -> bool {
        let Some(declared) = &self.declared else { return true };
        if CommandKind::of(command).locks_everything {
            return false;
        }
        keys(command, arguments, &mut self.keys);
        let (stripes, db) = (&self.server.store.stripes, self.session.db);
        let is_declared =
            |key: &KeyRef| declared.binary_search(&stripes.of(db, arguments[key.position])).is_ok();
        self.keys.iter().all(is_declared)
    }
}

impl Host for ScriptHost<'_, '_> {
    fn call(&mut self, arguments: &[&[u8]], protocol: Protocol, reply: &mut Vec<u8>) {
        let start = reply.len();
        let error = |reply: &mut Vec<u8>, text: &[u8]| {
            reply.truncate(start);
            ReplyWriter::new(reply, protocol).error(text);
        };
        if self.stop.is_some() {
            return error(reply, b"ERR the script is being stopped");
        }
        let (command, handler) = match self.checked(arguments) {
            Ok(found) => found,
            Err(text) => {
                self.observer.rejected(arguments, &text);
                return error(reply, &text);
            }
        };
        if !self.holds_keys(command, arguments) {
            self.stop = Some(ScriptStop::Undeclared);
            return error(
                reply,
                b"ERR the script is begun anew, because it uses keys that it does not declare",
            );
        }
        self.session.protocol = protocol;
        if let Some(tracking) = &mut self.session.tracking {
            tracking.script_reads |= command.flags().contains(CommandFlags::READONLY);
        }
        let beginning = self.observer.beginning_now();
        note_uses(self.server, self.txn, self.session.db, command, arguments, &mut self.keys);
        let mut call = Call {
            command,
            args: arguments,
            txn: &mut *self.txn,
            observer: &mut *self.observer,
            reply: ReplyWriter::new(reply, protocol),
            session: &mut *self.session,
            server: self.server,
            denies_waiting: true,
            woken_by: None,
            waits_with: None,
            is_resident: self.is_resident,
            holds_all_stripes: self.declared.is_none(),
        };
        match handler(&mut call) {
            Ok(()) => {}
            Err(Failure::Error(text) | Failure::Undo(text)) => error(reply, &text),
            Err(Failure::Engine(failure)) => {
                error(reply, engine_error_text(&failure).as_bytes());
                // A key or value that is too long is the script's mistake; all else is not.
                if !matches!(failure, esker::Error::InvalidArgument(_)) {
                    self.stop = Some(ScriptStop::Engine(failure));
                }
            }
            Err(Failure::MustWait) => {
                self.stop = Some(ScriptStop::TooLong);
                error(reply, b"ERR the script is begun anew on another thread");
            }
            Err(Failure::NeedsAllStripes) => {
                self.stop = Some(ScriptStop::Undeclared);
                error(reply, b"ERR the script is begun anew under all stripes");
            }
            Err(Failure::Wait(_)) => {
                reply.truncate(start);
                ReplyWriter::new(reply, protocol).null_array();
            }
        }
        self.observer.ended(beginning, self.session, command, arguments, reply[start..].strip_prefix(b"-"));
    }

    fn may_call(&mut self, arguments: &[&[u8]]) -> Option<bool> {
        let command = self.server.names().resolve(arguments)?;
        Some(checks::may_run(self.server, self.session, command, arguments))
    }

    fn log(&mut self, level: LogLevel, text: &[u8]) {
        if self.stop.is_some() || self.session.log_lines.hold(level, text) {
            return;
        }
        self.stop = match self.declared {
            _ if self.is_resident => Some(ScriptStop::TooLong),
            Some(_) => Some(ScriptStop::Undeclared),
            // Here it runs to its end.
            None => {
                self.session.has_acted = true;
                self.session.log_lines.write();
                script_log::write(level, text);
                None
            }
        };
    }

    fn may_go_on(&mut self) -> ControlFlow<String> {
        if !self.is_listed {
            self.is_listed = true;
            self.server.scripting.begin(Arc::clone(&self.run));
        }
        if self.stop.is_none() {
            let run_ns = self.server.clock.monotonic_ns().saturating_sub(self.started_ns);
            self.stop = match () {
                () if self.server.scripting.must_end(&self.run) => Some(ScriptStop::Killed),
                () if self.is_resident && run_ns > RESIDENT_NS => Some(ScriptStop::TooLong),
                () => None,
            };
        }
        match self.stop {
            None => ControlFlow::Continue(()),
            Some(_) => ControlFlow::Break("Script killed by user with SCRIPT KILL...".to_owned()),
        }
    }
}

/// The server while a library is loaded, when no command can be called.
pub(super) struct LoadHost<'s> {
    server: &'s Server,
    started_ns: u64,
}

/// How long the code of a library may run that only registers functions.
const LOAD_NS: u64 = 500_000_000;

impl<'s> LoadHost<'s> {
    pub(super) fn new(server: &'s Server) -> Self {
        Self { server, started_ns: server.clock.monotonic_ns() }
    }
}

impl Host for LoadHost<'_> {
    fn call(&mut self, _arguments: &[&[u8]], protocol: Protocol, reply: &mut Vec<u8>) {
        ReplyWriter::new(reply, protocol)
            .error(b"ERR redis.call can only be called inside a script invocation");
    }

    fn may_call(&mut self, _arguments: &[&[u8]]) -> Option<bool> {
        None
    }

    fn log(&mut self, level: LogLevel, text: &[u8]) {
        script_log::write(level, text);
    }

    fn may_go_on(&mut self) -> ControlFlow<String> {
        let run_ns = self.server.clock.monotonic_ns().saturating_sub(self.started_ns);
        match run_ns > LOAD_NS {
            true => ControlFlow::Break("FUNCTION LOAD timeout".to_owned()),
            false => ControlFlow::Continue(()),
        }
    }
}
