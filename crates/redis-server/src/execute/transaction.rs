//! MULTI and EXEC: commands are checked and queued, then executed under all their stripes as one batch.
//!
//! Other clients see all of it or nothing, and so does a crash. An error of one command does not undo the
//! others, as in Redis.

use super::group::{Executor, Mode, Step};
use super::stripes::Waited;
use crate::checks;
use crate::command_kinds::CommandKind;
use crate::commands;
use crate::session::{QueuedCommands, Session};
use esker_redis_commands::acl::Context;
use esker_redis_commands::{Command, CommandFlags, keys};
use esker_redis_store::locks::Access;
use esker_resp::integer::parse_integer;
use esker_resp::writer::ReplyWriter;

/// Commands of a transaction.
const MAX_COMMANDS: usize = 64 << 10;

/// Bytes of the arguments of a transaction.
const MAX_BYTES: usize = 64 << 20;

/// Whether a command is queued between MULTI and EXEC.
pub(super) fn is_queued(command: &Command) -> bool {
    !matches!(command.name(), "exec" | "discard" | "multi" | "watch" | "quit" | "reset")
}

/// Queues a command.
///
/// # Errors
/// The text of the error reply; EXEC will refuse.
pub(super) fn queue(
    queue: &mut QueuedCommands,
    command: &'static Command,
    arguments: &[&[u8]],
) -> Result<(), Vec<u8>> {
    if command.flags().contains(CommandFlags::NO_MULTI) {
        return Err(b"ERR Command not allowed inside a transaction".to_vec());
    }
    let bytes: usize = arguments.iter().map(|argument| argument.len() + size_of::<Vec<u8>>()).sum();
    if queue.commands.len() >= MAX_COMMANDS || queue.bytes + bytes > MAX_BYTES {
        return Err(format!(
            "ERR a transaction has at most {MAX_COMMANDS} commands and {MAX_BYTES} bytes of arguments"
        )
        .into_bytes());
    }
    queue.bytes += bytes;
    queue.commands.push((command, arguments.iter().map(|argument| argument.to_vec()).collect()));
    Ok(())
}

impl Executor<'_> {
    /// Whether arguments call the command of this name in the table, or one of its subcommands.
    pub(super) fn is_call_of(&self, arguments: &[&[u8]], name: &str) -> bool {
        self.server().names().find(arguments[0]).is_some_and(|command| command.name() == name)
    }

    /// What a command that may not run does to a transaction: EXEC ends it, all others break it. Returns the
    /// text of the error reply.
    pub(super) fn refuse(&self, session: &mut Session, arguments: &[&[u8]], text: Vec<u8>) -> Vec<u8> {
        if !self.is_call_of(arguments, "exec") {
            if let Some(queue) = &mut session.queue {
                queue.is_broken = true;
            }
            return text;
        }
        // Also without MULTI, what the client watches is given up.
        session.queue = None;
        session.watching.clear(&self.server().watches);
        let reason = text.strip_prefix(b"ERR ").unwrap_or(&text);
        [b"EXECABORT Transaction discarded because of: ", reason].concat()
    }

    /// Executes EXEC. No stripe is held; afterwards the group is to be ended. The queue and the watched keys
    /// stay until its batch is written ([`Session::end_transaction`]), so that EXEC can be executed once
    /// more.
    pub(super) fn exec(&mut self, session: &mut Session, out: &mut Vec<u8>, mode: Mode) -> Step {
        let Some(queue) = session.queue.take() else {
            ReplyWriter::new(out, session.protocol).error(b"ERR EXEC without MULTI");
            return Step::Next;
        };
        let step = self.exec_queue(session, &queue, out, mode);
        session.queue = Some(queue);
        step
    }

    fn exec_queue(
        &mut self,
        session: &mut Session,
        queue: &QueuedCommands,
        out: &mut Vec<u8>,
        mode: Mode,
    ) -> Step {
        let mut reply = ReplyWriter::new(out, session.protocol);
        if queue.is_broken {
            reply.error(b"EXECABORT Transaction discarded because of previous errors.");
            return Step::Next;
        }
        let acts = queue.commands.iter().any(|(command, _)| acts_beside_data(command));
        if acts && mode == Mode::Resident {
            return Step::MustWait;
        }
        if acts && !self.holds_all_stripes() && queue.commands.iter().any(|(command, _)| is_script(command)) {
            return Step::NeedsAllStripes;
        }
        let waited =
            if self.holds_all_stripes() { Waited::Held } else { self.lock_transaction(session, queue, mode) };
        match waited {
            Waited::Held => {
                let interest = self.server().interest();
                self.txn().set_interest(interest);
            }
            Waited::MustWait => return Step::MustWait,
            Waited::Busy(text) => {
                reply.error(format!("EXECABORT Transaction discarded because of: {text}").as_bytes());
                return Step::Next;
            }
        }
        if self.is_transaction_held_back(session, queue) {
            return Step::Paused;
        }
        // Under the stripes, as for a command of its own.
        let interest = self.server().interest();
        self.txn().set_interest(interest);
        match self.watched_are_unchanged(session) {
            Ok(true) => {}
            Ok(false) => {
                reply.null_array();
                return Step::Next;
            }
            Err(error) => {
                reply.error(crate::failure::engine_error_text(&error).as_bytes());
                return Step::Next;
            }
        }
        reply.array(queue.commands.len());
        session.has_acted = acts;
        self.call_queued(session, queue, out, mode)
    }

    fn call_queued(
        &mut self,
        session: &mut Session,
        queue: &QueuedCommands,
        out: &mut Vec<u8>,
        mode: Mode,
    ) -> Step {
        for (command, arguments) in &queue.commands {
            let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
            let allowed = checks::permission(self.server(), session, command, &arguments, Context::Multi);
            let step = match (allowed, commands::handler(command)) {
                (Ok(()), Some(handler)) => self.call_within(session, command, handler, &arguments, out, mode),
                (refused, _) => {
                    let text = match refused {
                        Err(refusal) => refusal.text_in_transaction(command),
                        Ok(()) => checks::missing(command),
                    };
                    ReplyWriter::new(out, session.protocol).error(&text);
                    Step::Next
                }
            };
            if !matches!(step, Step::Next) {
                return step;
            }
        }
        Step::Next
    }

    /// Waits for the stripes of all queued commands and of the watched keys.
    fn lock_transaction(&mut self, session: &Session, queue: &QueuedCommands, mode: Mode) -> Waited {
        let mut wanted = Vec::new();
        let mut found = Vec::new();
        let (mut db, mut access) = (session.db, Access::Shared);
        let stripes = &self.server().store.stripes;
        for (command, arguments) in &queue.commands {
            if CommandKind::of(command).locks_everything {
                return self.lock_all(mode);
            }
            if CommandKind::of(command).changes_keys {
                access = Access::Exclusive;
            }
            keys(command, arguments, &mut found);
            wanted.extend(found.iter().map(|key| stripes.of(db, &arguments[key.position])));
            if command.name() == "select"
                && let Some(number) = arguments.get(1).and_then(|text| parse_integer(text))
                && let Ok(number) = u16::try_from(number)
            {
                db = number;
            }
        }
        wanted.extend(session.watching.keys().map(|(db, key, _)| stripes.of(db, key)));
        self.wait_for_stripes(&mut wanted, access, mode)
    }

    /// Whether no watched key was changed, or has expired since (WK1).
    fn watched_are_unchanged(&mut self, session: &Session) -> esker::Result<bool> {
        if session.watching.is_changed() {
            return Ok(false);
        }
        for (db, key, had_expired) in session.watching.keys() {
            if !had_expired && self.txn().entry(db, key)?.has_expired() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Whether a command does what is not undone with the batch, such as CLIENT KILL. Its transaction begins
/// where nothing makes it come once more: on a thread that may wait for what another command reads, and under
/// all stripes if it has a script, which may use keys that it does not declare. Its batch waits while writes
/// are held back. Of scripts and PUBLISH all is undone.
fn acts_beside_data(command: &Command) -> bool {
    command.flags().contains(CommandFlags::NOSCRIPT)
        && !command.flags().contains(CommandFlags::BLOCKING)
        && !is_script(command)
}

fn is_script(command: &Command) -> bool {
    matches!(command.name(), "eval" | "eval_ro" | "evalsha" | "evalsha_ro" | "fcall" | "fcall_ro")
}
