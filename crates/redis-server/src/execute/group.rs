//! Groups: neighbouring commands of one client that share their locks and one batch.
//!
//! What holds:
//! * CG1. Replies of a group leave only after its batch is written.
//! * CG2. A command sees what the commands before it changed, and no others see it before the batch.
//! * CG3. A group that cannot be executed where it is, because a device would have to be waited for, changes
//!   nothing and is executed once more by a thread that may wait.

use super::requests::Requests;
use super::stripes::Waited;
use super::transaction;
use crate::call::{Call, note_uses};
use crate::checks;
use crate::command_kinds::CommandKind;
use crate::commands::{self, Handler};
use crate::failure::{Failure, engine_error_text};
use crate::observed::turns::GroupCut;
use crate::observer::Observer;
use crate::server::Server;
use crate::session::{ReplyMode, Session};
use crate::statistics::add;
use crate::waiting::Place;
use esker_redis_commands::acl::Context;
use esker_redis_commands::{Command, CommandFlags, KeyRef, Names, keys};
use esker_redis_store::Txn;
use esker_redis_store::locks::{Access, Held, Stripe};
use esker_redis_store::txn::{Stalls, resident_only};
use esker_resp::writer::ReplyWriter;
use parking_lot::{Condvar, Mutex};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// Commands of a group. It bounds the batch and how long stripes are held.
const COMMANDS_OF_A_GROUP: usize = 256;

/// Bytes of changes beyond which a group ends.
const BYTES_OF_A_GROUP: u64 = 1 << 20;

/// Requests whose records are looked up together.
const LOOKED_AHEAD: usize = 32;

/// Bytes of replies beyond which a client must take some before its next commands are executed.
pub(crate) const OUTPUT_HIGH_BYTES: usize = 256 << 10;

/// How long writes of a client are held back before they fail.
const STALL_LIMIT: Duration = Duration::from_secs(60);

/// Arguments that a call gets without an allocation.
const FEW_ARGUMENTS: usize = 16;

/// Where commands are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// On a thread that serves other clients: nothing may wait for a device or for a stall.
    Resident,
    /// On a thread that may wait.
    Waiting,
}

/// Why execution ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// All requests were executed.
    Done,
    /// The next group must be executed by a thread that may wait.
    MustWait,
    /// The client must take replies before more commands are executed.
    OutputFull,
    /// The next command waits for its keys, until this time in milliseconds since 1970, or for ever.
    Blocked(Option<u64>),
    /// The next command waits for the end of a pause.
    Paused,
}

/// A group of writes that the engine held back.
#[derive(Clone, Debug)]
pub(crate) struct Stall {
    /// What holds it back, in the engine's words.
    pub(crate) cause: Arc<str>,
    /// After this time it is worth a further attempt.
    pub(crate) retry_after: Duration,
    /// How long it has been held back, with that time.
    pub(crate) so_far: Duration,
}

/// Executes commands, one group after the other.
#[derive(Debug)]
pub(crate) struct Executor<'s> {
    server: &'s Server,
    /// The stripes that are held.
    pub(super) held: Held<'s>,
    txn: Txn<'s>,
    observer: Observer<'s>,
    pub(super) keys: Vec<KeyRef>,
    pub(super) stripes: Vec<Stripe>,
    /// Where the group's requests and replies begin.
    first_request: usize,
    first_reply: usize,
    /// When the writes that were held back are worth a further attempt, and what holds them back.
    refused: Option<(Duration, Arc<str>)>,
    /// How long the present group has been held back.
    stalled: Duration,
    /// Whether the stripes of all keys are held for a script whose keys are not known before it runs.
    holds_all_stripes: bool,
    /// Whether requests are known behind the one that is executed.
    has_more: bool,
    /// Commands executed in this turn of the client.
    turn_commands: u64,
}

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

/// The outcome of one command in a group.
pub(super) enum Step {
    Next,
    MustWait,
    Blocked(Option<u64>),
    /// It is held back and has done nothing.
    Paused,
    /// It is to be executed once more under all stripes.
    NeedsAllStripes,
    /// What it changed is to be taken back, and this is its error.
    Undone(Cow<'static, [u8]>),
}

/// A request whose command may run.
enum Checked {
    /// It is to be called; EXEC has no handler.
    Call(&'static Command, Option<Handler>),
    /// It was queued since MULTI.
    Queued,
    /// A pause holds it back.
    HeldBack,
}

impl<'s> Executor<'s> {
    /// An executor for one thread.
    pub(crate) fn new(server: &'s Server) -> Self {
        Self {
            server,
            held: Held::new(&server.store.stripes),
            txn: Txn::new(&server.store, server.interest()),
            observer: Observer::new(server),
            keys: Vec::new(),
            stripes: Vec::new(),
            first_request: 0,
            first_reply: 0,
            refused: None,
            stalled: Duration::ZERO,
            holds_all_stripes: false,
            has_more: false,
            turn_commands: 0,
        }
    }

    /// Whether the stripes of all keys are held.
    pub(super) fn holds_all_stripes(&self) -> bool {
        self.holds_all_stripes
    }

    /// The transaction on the store.
    pub(super) fn txn(&mut self) -> &mut Txn<'s> {
        &mut self.txn
    }

    /// The server.
    pub(crate) fn server(&self) -> &'s Server {
        self.server
    }

    /// Executes requests and appends their replies to `out`.
    pub(crate) fn run(
        &mut self,
        session: &mut Session,
        requests: &mut Requests,
        out: &mut Vec<u8>,
        mode: Mode,
    ) -> End {
        self.begin_group(requests, out);
        self.look_ahead(session, requests, mode);
        loop {
            if out.len() > OUTPUT_HIGH_BYTES {
                let cut = Some(GroupCut::Output);
                let is_ended = self.end_group(session, requests.position(), out, mode, cut);
                return if is_ended { End::OutputFull } else { self.give_up(session, requests, out) };
            }
            let Some(arguments) = requests.arguments().filter(|_| !session.closes_after_reply) else { break };
            let mut few: [&[u8]; FEW_ARGUMENTS] = [&[]; FEW_ARGUMENTS];
            let many: Vec<&[u8]>;
            let count = arguments.len();
            let arguments: &[&[u8]] = if count <= FEW_ARGUMENTS {
                few.iter_mut().zip(arguments).for_each(|(place, argument)| *place = argument);
                &few[..count]
            } else {
                many = arguments.collect();
                &many
            };
            let (position, first) = (requests.position(), self.first_request);
            let is_full =
                position - first >= COMMANDS_OF_A_GROUP || self.txn.memory_bytes() > BYTES_OF_A_GROUP;
            if is_full && !self.end_group(session, position, out, mode, Some(GroupCut::Full)) {
                return self.give_up(session, requests, out);
            }
            if is_full {
                (self.first_request, self.first_reply) = (position, out.len());
                self.observer.begin();
            }
            let (start, replies) = (out.len(), session.replies);
            session.always_replies = false;
            self.has_more = requests.remaining() > 1;
            let step = self.step(session, arguments, position, out, mode);
            if let Some(tracking) = &mut session.tracking
                && session.queue.is_none()
                && !self.is_call_of(arguments, "client")
            {
                // CLIENT CACHING holds for one command, or for one transaction.
                tracking.is_excepted &= !matches!(step, Step::Next);
            }
            match step {
                Step::Next => {
                    requests.set_position(position + 1);
                    if replies != ReplyMode::On {
                        self.drop_reply(session, replies, out, start);
                    }
                }
                // A step has dealt with the last two itself.
                Step::MustWait | Step::NeedsAllStripes | Step::Undone(_) => {
                    return self.give_up(session, requests, out);
                }
                Step::Blocked(until_ms) => return End::Blocked(until_ms),
                Step::Paused => return End::Paused,
            }
        }
        match self.end_group(session, requests.position(), out, mode, None) {
            true => End::Done,
            false => self.give_up(session, requests, out),
        }
    }

    /// Counts the commands that were executed since the last call.
    pub(crate) fn end_turn(&mut self) {
        match std::mem::take(&mut self.turn_commands) {
            0 => {}
            commands => self.observer.turns().count_turn(commands),
        }
    }

    /// Takes a reply back that the client does not want.
    fn drop_reply(&mut self, session: &mut Session, before: ReplyMode, out: &mut Vec<u8>, start: usize) {
        // CLIENT REPLY ON itself is answered.
        if session.replies == ReplyMode::On {
            return;
        }
        if !std::mem::take(&mut session.always_replies) {
            out.truncate(start);
        }
        if before == ReplyMode::SkipNext {
            session.replies = ReplyMode::On;
        }
    }

    fn begin_group(&mut self, requests: &Requests, out: &[u8]) {
        (self.first_request, self.first_reply) = (requests.position(), out.len());
        self.txn.refresh_time();
        self.observer.begin();
    }

    /// Takes the stripes of the first requests and looks their records up together, as far as they are
    /// commands of one key that may share a group. What is not found ahead is looked up when it is wanted.
    fn look_ahead(&mut self, session: &Session, requests: &Requests, mode: Mode) {
        if requests.remaining() < 2 || session.queue.is_some() {
            return;
        }
        let mut keys: [&[u8]; LOOKED_AHEAD] = [&[]; LOOKED_AHEAD];
        let (mut count, mut last) = (0, None);
        let names = self.server.names();
        for (place, position) in keys.iter_mut().zip(requests.position()..) {
            let Some((command, key)) =
                requests.at(position).and_then(|request| command_of_one_key(names, request))
            else {
                break;
            };
            let access =
                if CommandKind::of(command).changes_keys { Access::Exclusive } else { Access::Shared };
            if last != Some((key, access)) {
                let stripe = self.server.store.stripes.of(session.db, key);
                if !self.held.try_for(&[stripe], access) {
                    break;
                }
                last = Some((key, access));
            }
            *place = key;
            count += 1;
        }
        if count > 1 {
            let (txn, keys) = (&mut self.txn, &keys[..count]);
            let mut look = || txn.look_ahead(session.db, keys.iter().copied());
            // A failure is found once more by the command itself.
            match mode {
                Mode::Waiting => drop(look()),
                Mode::Resident => drop(resident_only(look)),
            }
        }
    }

    /// After [`End::MustWait`] on a thread that may wait: when the group is worth a further attempt, and how
    /// long it has been held back by then. `None` if it was not held back. A stall that lasts longer than
    /// [`STALL_LIMIT`] becomes an error reply.
    pub(crate) fn take_stall(&mut self) -> Option<Stall> {
        let (retry_after, cause) = self.refused.take()?;
        let so_far = std::mem::take(&mut self.stalled) + retry_after;
        Some(Stall { cause, retry_after, so_far })
    }

    /// The next group has been held back so long already.
    pub(crate) fn go_on_after(&mut self, so_far: Duration) {
        self.stalled = so_far;
    }

    /// Undoes the group.
    fn give_up(&mut self, session: &mut Session, requests: &mut Requests, out: &mut Vec<u8>) -> End {
        self.txn.roll_back();
        self.observer.forget();
        session.denied.clear();
        session.pause_changes.clear();
        self.held.free();
        requests.set_position(self.first_request);
        out.truncate(self.first_reply);
        End::MustWait
    }

    /// Finds the command of a request, with its handler, unless it is not to be called now.
    fn checked(&self, session: &mut Session, arguments: &[&[u8]]) -> Result<Checked, Vec<u8>> {
        let command = checks::command(self.server.names(), arguments)?;
        checks::protected(self.server, session, command)?;
        let context = if session.queue.is_some() { Context::Multi } else { Context::Toplevel };
        checks::permission(self.server, session, command, arguments, context)
            .map_err(|refusal| refusal.text(command))?;
        checks::subscriber(session, command)?;
        let handler = commands::handler(command);
        if handler.is_none() && command.name() != "exec" {
            return Err(checks::missing(command));
        }
        if self.is_held_back(session, command, arguments) {
            session.last_command = Some(command);
            return Ok(Checked::HeldBack);
        }
        match &mut session.queue {
            Some(queue) if transaction::is_queued(command) => {
                transaction::queue(queue, command, arguments).map(|()| Checked::Queued)
            }
            _ => Ok(Checked::Call(command, handler)),
        }
    }

    /// Executes one command.
    fn step(
        &mut self,
        session: &mut Session,
        arguments: &[&[u8]],
        position: usize,
        out: &mut Vec<u8>,
        mode: Mode,
    ) -> Step {
        let protocol = session.protocol;
        let (command, handler) = match self.checked(session, arguments) {
            Ok(Checked::Call(command, handler)) => (command, handler),
            Ok(Checked::Queued) => {
                ReplyWriter::new(out, protocol).status(b"QUEUED");
                return Step::Next;
            }
            Ok(Checked::HeldBack) => {
                return if self.end_group(session, position, out, mode, Some(GroupCut::Pause)) {
                    Step::Paused
                } else {
                    Step::MustWait
                };
            }
            Err(text) => {
                let text = self.refuse(session, arguments, text);
                self.observer.rejected(arguments, &text);
                ReplyWriter::new(out, protocol).error(&text);
                return Step::Next;
            }
        };
        session.last_command = Some(command);
        let is_alone = !CommandKind::of(command).shares_a_group;
        if is_alone || !self.try_lock(session, command, arguments) {
            let takes_stripes = handler.is_some();
            if let Err(step) =
                self.begin_next_group(session, command, arguments, takes_stripes, position, out, mode)
            {
                return step;
            }
        }
        // Read under the stripes: what begins to watch or to wait from here on sees the changes themselves.
        self.txn.set_interest(self.server.interest());
        // What the commands of a transaction change of it is undone with them.
        let before = (session.db, session.protocol);
        let told_before = self.txn.told().changed.len();
        let step = self.execute(session, command, handler, arguments, out, mode);
        // Clients that wait come before the next command of this one.
        if (is_alone || self.fills_awaited(told_before)) && matches!(step, Step::Next) {
            let cut = if is_alone { GroupCut::Alone } else { GroupCut::AwaitedKey };
            if !self.end_group(session, position + 1, out, mode, self.has_more.then_some(cut)) {
                (session.db, session.protocol) = before;
                return Step::MustWait;
            }
            if handler.is_none() {
                session.end_transaction(self.server);
            }
            (self.first_request, self.first_reply) = (position + 1, out.len());
        }
        if !matches!(step, Step::Next) {
            (session.db, session.protocol) = before;
            self.txn.roll_back();
            self.held.free();
        }
        if let Step::Blocked(_) = step {
            self.observer.waits(session, command, arguments);
            self.observer.tell();
        }
        step
    }

    /// Ends the group so far and begins one with this command: takes its stripes, but for EXEC, which takes
    /// those of its queue. Otherwise what has become of the command.
    #[expect(clippy::too_many_arguments, reason = "what a step is made of")]
    fn begin_next_group(
        &mut self,
        session: &mut Session,
        command: &'static Command,
        arguments: &[&[u8]],
        takes_stripes: bool,
        position: usize,
        out: &mut Vec<u8>,
        mode: Mode,
    ) -> Result<(), Step> {
        let begins_later = !self.txn.is_empty();
        let is_alone = !CommandKind::of(command).shares_a_group;
        let cut = if is_alone { GroupCut::Alone } else { GroupCut::BusyKeys };
        if !self.end_group(session, position, out, mode, Some(cut)) {
            return Err(Step::MustWait);
        }
        (self.first_request, self.first_reply) = (position, out.len());
        self.txn.refresh_time();
        if begins_later {
            self.observer.begin();
        }
        if !takes_stripes {
            return Ok(());
        }
        match self.lock(session, command, arguments, mode) {
            Waited::Held => Ok(()),
            Waited::MustWait => Err(Step::MustWait),
            Waited::Busy(text) => {
                self.observer.rejected(arguments, text.as_bytes());
                ReplyWriter::new(out, session.protocol).error(text.as_bytes());
                Err(Step::Next)
            }
        }
    }

    /// Executes a command whose stripes are held: twice if it needs all stripes.
    fn execute(
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
            session.pause_changes.clear();
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
            session.pause_changes.clear();
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

    /// Writes the group's batch, tells what it changed, and frees its stripes. `false` if a thread that may
    /// wait must do it. `cut` says why the group does not go on to the last request.
    fn end_group(
        &mut self,
        session: &mut Session,
        position: usize,
        out: &mut Vec<u8>,
        mode: Mode,
        cut: Option<GroupCut>,
    ) -> bool {
        // Never waits under the stripes: readers of these keys would wait as well.
        match self.txn.commit(Stalls::Fail) {
            Ok(_) => {
                let commands = (position - self.first_request) as u64;
                if commands > 0 {
                    add(&self.server.statistics.commands, commands);
                    self.observer.turns().count_group(cut);
                    self.turn_commands += commands;
                }
                self.stalled = Duration::ZERO;
                self.change_pause(session);
                if self.tell_batch(session.id, None) {
                    self.serve_ready(mode);
                }
                session.log_denied(self.server);
                true
            }
            Err(esker::Error::WouldStall { retry_after, cause })
                if mode == Mode::Resident || self.stalled + retry_after < STALL_LIMIT =>
            {
                self.refused = Some((retry_after, cause));
                false
            }
            Err(error) => {
                self.stalled = Duration::ZERO;
                // None of the group's commands happened, whatever their replies said.
                self.txn.roll_back();
                self.observer.forget();
                self.held.free();
                session.pause_changes.clear();
                out.truncate(self.first_reply);
                session.log_denied(self.server);
                let text = engine_error_text(&error);
                for _ in self.first_request..position {
                    self.server.observed.commands.count_error(text.as_bytes());
                    ReplyWriter::new(out, esker_resp::writer::Protocol::Resp2).error(text.as_bytes());
                }
                true
            }
        }
    }

    /// Tells what the batch changed that was written for the client `writer`, and frees its stripes. Whether
    /// clients wait for some of it, other than for the key that is being served.
    pub(super) fn tell_batch(&mut self, writer: u64, served: Option<&Place>) -> bool {
        if self.observer.times_batches() {
            self.observer.wrote_batch();
        }
        let mut told = self.txn.take_told();
        if told.dirty > 0 {
            add(&self.server.statistics.changes, told.dirty);
        }
        self.server.touch(&told, writer);
        self.held.free();
        told.changed.retain(|place| Some(place) != served);
        let is_awaited = self.server.after_commit(&told);
        self.observer.tell();
        is_awaited
    }

    /// Whether clients wait for what the last command changed, which told so many changes before.
    fn fills_awaited(&self, told_before: usize) -> bool {
        let (waiting, told) = (&self.server.waiting, self.txn.told());
        waiting.is_used() && waiting.is_awaited(&told.changed[told_before..])
    }

    /// Begins to execute the command of a waiting client once more, under the stripes of its keys. `false` if
    /// they cannot be had now.
    pub(super) fn begin_again(
        &mut self,
        session: &Session,
        command: &'static Command,
        arguments: &[&[u8]],
        mode: Mode,
    ) -> bool {
        self.observer.begin_again();
        self.txn.refresh_time();
        let is_held = matches!(self.lock(session, command, arguments, mode), Waited::Held);
        self.txn.set_interest(self.server.interest());
        is_held
    }

    /// Ends the execution of a waiting client's command, and forgets what was not written of it.
    pub(super) fn end_again(&mut self) {
        self.txn.roll_back();
        self.observer.forget();
        self.held.free();
    }

    /// After commands of waiting clients: the next command begins now.
    pub(super) fn begin_next(&mut self) {
        self.observer.begin();
    }
}

/// Lets time pass; no stripe is held.
pub(crate) fn pause(time: Duration) {
    let lock = Mutex::new(());
    Condvar::new().wait_for(&mut lock.lock(), time);
}

/// The command of a request and its key, if it is one that may share a group and has its only key as its
/// first argument.
fn command_of_one_key<'r>(
    names: &Names,
    mut arguments: impl ExactSizeIterator<Item = &'r [u8]>,
) -> Option<(&'static Command, &'r [u8])> {
    let count = arguments.len();
    let command = names.find(arguments.next()?)?;
    let kind = CommandKind::of(command);
    (kind.has_one_key && kind.shares_a_group && command.accepts(count)).then_some(())?;
    Some((command, arguments.next()?))
}

/// The text of a reply that is an error.
fn error_in(reply: &[u8]) -> Option<&[u8]> {
    reply.strip_prefix(b"-")
}
