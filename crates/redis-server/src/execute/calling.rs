//! Calls of commands whose stripes are held: alone, within a transaction, or for a client that waited.

use super::group::{Executor, Mode, Step};
use super::stripes::Waited;
use crate::call::{Call, note_uses};
use crate::commands::Handler;
use crate::failure::{Failure, engine_error_text};
use crate::session::Session;
use esker_redis_commands::{Command, CommandFlags, keys};
use esker_redis_store::txn::resident_only;
use esker_resp::writer::ReplyWriter;

/// On which occasion a command is called.
#[derive(Clone, Copy, Debug)]
pub(super) enum Calling<'k> {
    /// The client sent it.
    Alone,
    /// EXEC executes it, and it must not wait.
    WithinTransaction,
    /// Its client waits with it, and this key was changed.
    Woken(&'k [u8]),
}

impl Executor<'_> {
    /// Executes a command whose stripes are held: twice if it needs all stripes.
    pub(super) fn execute(
        &mut self,
        session: &mut Session,
        command: &'static Command,
        handler: Option<Handler>,
        arguments: &[&[u8]],
        out: &mut Vec<u8>,
        mode: Mode,
    ) -> Step {
        let (start, before) = (out.len(), (session.db, session.protocol));
        let beginning = self.observer.beginning();
        let denied_before = session.denied.len();
        let mut step = self.execute_once(session, command, handler, arguments, out, mode);
        if let Step::NeedsAllStripes = step {
            self.undo(out, start);
            (session.db, session.protocol) = before;
            session.denied.truncate(denied_before);
            session.forget_effects();
            step = match self.lock_all(mode) {
                Waited::Held => {
                    self.txn.refresh_time();
                    self.txn.set_interest(self.server.interest());
                    self.holds_all_stripes = true;
                    let step = self.execute_once(session, command, handler, arguments, out, mode);
                    self.holds_all_stripes = false;
                    step
                }
                Waited::MustWait => Step::MustWait,
                Waited::Busy(text) => Step::Undone(text.as_bytes().into()),
            };
        }
        if let Step::Undone(text) = step {
            self.undo(out, start);
            session.log_lines.write();
            session.forget_effects();
            session.end_transaction(self.server);
            ReplyWriter::new(out, session.protocol).error(&text);
            self.observer.executing(session, command, arguments);
            self.observer.ended(beginning, session, command, arguments, Some(&text));
            step = Step::Next;
        }
        step
    }

    fn execute_once(
        &mut self,
        session: &mut Session,
        command: &'static Command,
        handler: Option<Handler>,
        arguments: &[&[u8]],
        out: &mut Vec<u8>,
        mode: Mode,
    ) -> Step {
        let Some(handler) = handler else {
            let (start, beginning) = (out.len(), self.observer.beginning());
            let step = self.exec(session, out, mode);
            if let Step::Next = step {
                self.observer.ended(beginning, session, command, arguments, error_in(&out[start..]));
            }
            return step;
        };
        if self.is_held_back(session, command, arguments) {
            return Step::Paused;
        }
        self.call(session, command, handler, arguments, out, mode, Calling::Alone)
    }

    /// Takes back what a command that shares no group has changed and written.
    fn undo(&mut self, out: &mut Vec<u8>, start: usize) {
        self.txn.roll_back();
        self.observer.forget();
        self.held.free();
        out.truncate(start);
    }

    /// Calls a command of a transaction, under the transaction's stripes.
    pub(super) fn call_within(
        &mut self,
        session: &mut Session,
        command: &'static Command,
        handler: Handler,
        arguments: &[&[u8]],
        out: &mut Vec<u8>,
        mode: Mode,
    ) -> Step {
        self.call(session, command, handler, arguments, out, mode, Calling::WithinTransaction)
    }

    #[expect(clippy::too_many_arguments, reason = "what a call is made of")]
    pub(super) fn call(
        &mut self,
        session: &mut Session,
        command: &'static Command,
        handler: Handler,
        arguments: &[&[u8]],
        out: &mut Vec<u8>,
        mode: Mode,
        calling: Calling<'_>,
    ) -> Step {
        let (start, protocol, beginning) = (out.len(), session.protocol, self.observer.beginning());
        self.observer.executing(session, command, arguments);
        note_uses(self.server, &self.txn, session.db, command, arguments, &mut self.keys);
        let mut call = Call {
            command,
            args: arguments,
            txn: &mut self.txn,
            reply: ReplyWriter::new(out, protocol),
            session,
            server: self.server,
            observer: &mut self.observer,
            denies_waiting: matches!(calling, Calling::WithinTransaction),
            is_resident: mode == Mode::Resident,
            holds_all_stripes: self.holds_all_stripes,
            woken_by: if let Calling::Woken(key) = calling { Some(key) } else { None },
            waits_with: None,
        };
        let outcome = match mode {
            Mode::Waiting => handler(&mut call),
            Mode::Resident => {
                let called = resident_only(|| match handler(&mut call) {
                    Ok(()) => Ok(Ok(())),
                    Err(Failure::Engine(error)) => Err(error),
                    Err(failure) => Ok(Err(failure)),
                });
                match called {
                    Ok(Some(outcome)) => outcome,
                    Ok(None) => return Step::MustWait,
                    Err(error) => Err(Failure::Engine(error)),
                }
            }
        };
        let waits_with = call.waits_with.take();
        if session.tracking.is_some() && matches!(outcome, Ok(()) | Err(Failure::Error(_) | Failure::Wait(_)))
        {
            self.note_read(session, command, arguments);
        }
        let text = match outcome {
            Ok(()) => {
                self.observer.ended(beginning, session, command, arguments, error_in(&out[start..]));
                return Step::Next;
            }
            Err(Failure::Wait(until_ms)) => {
                if let Calling::Alone = calling {
                    self.begin_wait(session, command, arguments, waits_with);
                }
                out.truncate(start);
                return Step::Blocked(until_ms);
            }
            Err(Failure::MustWait) => return Step::MustWait,
            Err(Failure::NeedsAllStripes) => return Step::NeedsAllStripes,
            Err(Failure::Undo(text)) => return Step::Undone(text),
            Err(Failure::Error(text)) => text,
            Err(Failure::Engine(error)) => engine_error_text(&error).into_bytes().into(),
        };
        out.truncate(start);
        ReplyWriter::new(out, protocol).error(&text);
        self.observer.ended(beginning, session, command, arguments, Some(&text));
        Step::Next
    }

    /// Notes for a client that caches keys which ones it has read; their stripes are held (CT1). Of a script
    /// these are the keys that it declares, if one of its commands reads.
    fn note_read(&mut self, session: &mut Session, command: &'static Command, arguments: &[&[u8]]) {
        let Some(tracking) = &mut session.tracking else { return };
        let is_script =
            matches!(command.name(), "eval" | "eval_ro" | "evalsha" | "evalsha_ro" | "fcall" | "fcall_ro");
        let reads = match is_script {
            true => std::mem::take(&mut tracking.script_reads),
            false => command.flags().contains(CommandFlags::READONLY),
        };
        if reads && tracking.notes_reads() {
            keys(command, arguments, &mut self.keys);
            let read = self.keys.iter().map(|key| arguments[key.position]);
            self.server.tracking.note_read(session.id, read, &self.server.clients);
        }
    }
}

/// The text of a reply that is an error.
fn error_in(reply: &[u8]) -> Option<&[u8]> {
    reply.strip_prefix(b"-")
}
