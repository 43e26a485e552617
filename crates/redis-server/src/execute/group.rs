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
use crate::checks;
use crate::command_kinds::CommandKind;
use crate::commands::{self, Handler};
use crate::observed::turns::GroupCut;
use crate::observer::Observer;
use crate::server::Server;
use crate::session::{OfNextRequest, ReplyMode, Session};
use esker_redis_commands::acl::Context;
use esker_redis_commands::{Command, KeyRef};
use esker_redis_store::Txn;
use esker_redis_store::locks::{Held, Stripe};
use esker_resp::writer::ReplyWriter;
use parking_lot::{Condvar, Mutex};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// Commands of a group. It bounds the batch and how long stripes are held.
const COMMANDS_OF_A_GROUP: usize = 256;

/// Bytes of changes beyond which a group ends.
const BYTES_OF_A_GROUP: u64 = 1 << 20;

/// Bytes of replies beyond which a client must take some before its next commands are executed.
pub(crate) const OUTPUT_HIGH_BYTES: usize = 256 << 10;

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

/// Executes commands, one group after the other.
#[derive(Debug)]
pub(crate) struct Executor<'s> {
    pub(super) server: &'s Server,
    /// The stripes that are held.
    pub(super) held: Held<'s>,
    pub(super) txn: Txn<'s>,
    pub(super) observer: Observer<'s>,
    pub(super) keys: Vec<KeyRef>,
    pub(super) stripes: Vec<Stripe>,
    /// Where the group's requests and replies begin.
    pub(super) first_request: usize,
    pub(super) first_reply: usize,
    /// What counts for the group's first request alone.
    pub(super) of_first_request: OfNextRequest,
    /// When the writes that were held back are worth a further attempt, and what holds them back.
    pub(super) refused: Option<(Duration, Arc<str>)>,
    /// How long the present group has been held back.
    pub(super) stalled: Duration,
    /// Whether the stripes of all keys are held for a script whose keys are not known before it runs.
    pub(super) holds_all_stripes: bool,
    /// Whether requests are known behind the one that is executed.
    has_more: bool,
    /// Commands executed in this turn of the client.
    pub(super) turn_commands: u64,
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
            of_first_request: OfNextRequest::default(),
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
        self.begin_group(session, requests, out);
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
                self.begin_at(session, position, out);
                self.observer.begin();
            }
            session.begin_skipping();
            let (start, replies) = (out.len(), session.replies);
            session.always_replies = false;
            self.has_more = requests.remaining() > 1;
            let step = self.step(session, arguments, position, out, mode);
            match step {
                Step::Next => {
                    self.end_caching(session, arguments);
                    requests.set_position(position + 1);
                    if replies != ReplyMode::On {
                        self.drop_reply(session, out, start);
                    }
                    if self.first_request > position {
                        // A group begins behind this command, of which nothing counts any longer.
                        self.begin_at(session, position + 1, out);
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

    /// CLIENT CACHING holds for one command, or for one transaction, which has ended.
    fn end_caching(&self, session: &mut Session, arguments: &[&[u8]]) {
        if let Some(tracking) = &mut session.tracking
            && session.queue.is_none()
            && !self.is_call_of(arguments, "client")
        {
            tracking.is_excepted = false;
        }
    }

    /// Takes a reply back that the client does not want.
    fn drop_reply(&mut self, session: &mut Session, out: &mut Vec<u8>, start: usize) {
        // CLIENT REPLY ON itself is answered.
        if session.replies == ReplyMode::On {
            return;
        }
        if !std::mem::take(&mut session.always_replies) {
            out.truncate(start);
        }
        session.end_skipping();
    }

    fn begin_group(&mut self, session: &Session, requests: &Requests, out: &[u8]) {
        self.begin_at(session, requests.position(), out);
        self.txn.refresh_time();
        self.observer.begin();
    }

    /// Says that the group begins with this request, and its replies here.
    fn begin_at(&mut self, session: &Session, position: usize, out: &[u8]) {
        (self.first_request, self.first_reply) = (position, out.len());
        self.of_first_request = session.of_next_request();
    }

    /// Undoes the group.
    fn give_up(&mut self, session: &mut Session, requests: &mut Requests, out: &mut Vec<u8>) -> End {
        self.txn.roll_back();
        self.observer.forget();
        session.denied.clear();
        session.forget_effects();
        session.put_back(self.of_first_request);
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
            self.begin_at(session, position + 1, out);
        }
        if !matches!(step, Step::Next) {
            (session.db, session.protocol) = before;
            let told = self.txn.take_told();
            self.txn.roll_back();
            self.held.free();
            if let Step::Blocked(_) = step {
                self.server.publish_misses(&told);
                self.observer.waits(session, command, arguments);
                self.observer.tell();
            }
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
        self.begin_at(session, position, out);
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
