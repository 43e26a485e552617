//! The state of one client between its commands.

use crate::access::Account;
use crate::clients::{Shown, TrackingMode};
use crate::held_messages::HeldMessages;
use crate::pausing::PauseChange;
use crate::pubsub::Subscriptions;
use crate::script_log::HeldLines;
use crate::server::Server;
use crate::watches::Watching;
use esker_redis_commands::Command;
use esker_redis_commands::acl::Event;
use esker_resp::limits::Limits;
use esker_resp::writer::Protocol;
use std::sync::atomic::{AtomicU64, Ordering};

/// Commands between MULTI and EXEC.
#[derive(Debug, Default)]
pub(crate) struct QueuedCommands {
    /// Commands with their arguments.
    pub(crate) commands: Vec<(&'static Command, Vec<Vec<u8>>)>,
    /// Bytes of the arguments.
    pub(crate) bytes: usize,
    /// Whether a command was refused, so that EXEC refuses all.
    pub(crate) is_broken: bool,
}

/// Changes of the identity, database, queued commands, subscriptions, bytes held.
pub(crate) type ShownVersion = (u32, u16, Option<usize>, usize, usize);

/// Which replies are sent: CLIENT REPLY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyMode {
    /// All.
    On,
    /// None.
    Off,
    /// All but that of the next command.
    SkipNext,
    /// All but that of the command that is being executed.
    Skip,
}

/// What counts for the next request alone: put back when a group is undone, whose first request it was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OfNextRequest {
    /// Which replies are sent.
    pub(crate) replies: ReplyMode,
    /// What CLIENT CACHING has said.
    is_excepted: bool,
}

impl Default for OfNextRequest {
    fn default() -> Self {
        Self { replies: ReplyMode::On, is_excepted: false }
    }
}

/// How a client tracks keys, between its commands.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClientTracking {
    pub(crate) mode: TrackingMode,
    /// Whether CLIENT CACHING says the other than usual of the next command.
    pub(crate) is_excepted: bool,
    /// Whether a command of the running script reads keys.
    pub(crate) script_reads: bool,
}

impl ClientTracking {
    /// Whether the reads of the present command are noted.
    pub(crate) fn notes_reads(&self) -> bool {
        let mode = self.mode;
        !mode.broadcasts && if mode.opts_in { self.is_excepted } else { !(mode.opts_out && self.is_excepted) }
    }
}

/// A client's state. It moves with the client's requests between the threads that execute them.
#[derive(Debug)]
pub(crate) struct Session {
    /// The number that CLIENT ID answers.
    pub(crate) id: u64,
    /// The logical database.
    pub(crate) db: u16,
    /// The protocol of replies.
    pub(crate) protocol: Protocol,
    /// The user; `None` before authentication.
    pub(crate) account: Option<Account>,
    /// What the user was denied by commands whose group has not ended: a group may be executed once more.
    pub(crate) denied: Vec<Event>,
    /// Pauses that the group's commands begin and end, for the same reason.
    pub(crate) pause_changes: Vec<PauseChange>,
    /// What its scripts and transactions publish.
    pub(crate) messages: HeldMessages,
    /// What its scripts write to the log.
    pub(crate) log_lines: HeldLines,
    /// Whether the group has done what is not undone with it, so that it must not be executed once more.
    pub(crate) has_acted: bool,
    /// What CLIENT SETNAME set.
    pub(crate) name: Vec<u8>,
    /// Commands since MULTI.
    pub(crate) queue: Option<Box<QueuedCommands>>,
    /// Keys of WATCH.
    pub(crate) watching: Watching,
    /// Channels and patterns.
    pub(crate) subscriptions: Subscriptions,
    /// Whether the client gets a line for every command: MONITOR.
    pub(crate) is_monitor: bool,
    /// How often name, user or MONITOR were set.
    identity_changes: u32,
    /// Whether and how the client is told of changes of keys that it caches.
    pub(crate) tracking: Option<ClientTracking>,
    /// The command that was executed last.
    pub(crate) last_command: Option<&'static Command>,
    /// Which replies are sent.
    pub(crate) replies: ReplyMode,
    /// Whether the present command's reply is sent whatever `replies` says.
    pub(crate) always_replies: bool,
    /// Whether the connection ends when the replies so far are sent.
    pub(crate) closes_after_reply: bool,
}

impl Session {
    /// A new client, of the user `default` if that needs no password.
    pub(crate) fn new(id: u64, account: Option<Account>) -> Self {
        Self {
            id,
            db: 0,
            protocol: Protocol::Resp2,
            account,
            denied: Vec::new(),
            pause_changes: Vec::new(),
            messages: HeldMessages::default(),
            log_lines: HeldLines::default(),
            has_acted: false,
            name: Vec::new(),
            queue: None,
            watching: Watching::default(),
            subscriptions: Subscriptions::default(),
            is_monitor: false,
            identity_changes: 0,
            tracking: None,
            last_command: None,
            replies: ReplyMode::On,
            always_replies: false,
            closes_after_reply: false,
        }
    }

    /// Changes when something changes that CLIENT LIST tells of the session.
    pub(crate) fn shown_version(&self) -> ShownVersion {
        let queued = self.queue.as_ref().map(|queue| queue.commands.len());
        (self.identity_changes, self.db, queued, self.subscriptions.len(), self.held_bytes())
    }

    /// Memory of what the client watches and subscribes to, and of its name.
    fn held_bytes(&self) -> usize {
        self.watching.held_bytes() + self.subscriptions.held_bytes() + self.name.len()
    }

    /// Sets the name.
    pub(crate) fn set_name(&mut self, name: &[u8]) {
        self.name = name.to_vec();
        self.identity_changes += 1;
    }

    /// Sets the user, here and in the registry.
    pub(crate) fn set_account(&mut self, server: &Server, account: Option<Account>) {
        let identity = account.as_ref().map_or(0, |account| account.user().identity());
        if let Some(client) = server.clients.get(self.id) {
            client.user_identity.store(identity, Ordering::Release);
        }
        self.account = account;
        self.identity_changes += 1;
    }

    /// Sets how the client tracks keys.
    pub(crate) fn set_tracking(&mut self, mode: Option<TrackingMode>) {
        self.tracking = mode.map(|mode| ClientTracking { mode, ..ClientTracking::default() });
        self.identity_changes += 1;
    }

    /// Sets whether the client gets a line for every command.
    pub(crate) fn set_monitor(&mut self, is_monitor: bool) {
        self.is_monitor = is_monitor;
        self.identity_changes += 1;
    }

    /// The user's name; `None` before authentication.
    pub(crate) fn user(&self) -> Option<&[u8]> {
        self.account.as_ref().map(Account::name)
    }

    /// Adds to the log what the user was denied: the group has ended.
    pub(crate) fn log_denied(&mut self, server: &Server) {
        if !self.denied.is_empty() {
            let entries_max = server.config.number("acllog-max-len").max(0) as usize;
            server.access.log(self.denied.drain(..), server.now_ms(), entries_max);
        }
    }

    /// What CLIENT LIST tells of the session.
    pub(crate) fn shown(&self) -> Shown {
        Shown {
            name: self.name.clone(),
            user: self.user().map(Into::into),
            db: self.db,
            queued: self.queue.as_ref().map(|queue| queue.commands.len()),
            subscriptions: self.subscriptions.counts(),
            is_blocked: false,
            tracking: self.tracking.map(|tracking| tracking.mode),
            is_monitor: self.is_monitor,
            queued_bytes: self.queue.as_ref().map_or(0, |queue| queue.bytes),
            held_bytes: self.held_bytes(),
        }
    }

    /// Whether the client takes the reply that comes now, as CLIENT REPLY says.
    pub(crate) fn takes_reply(&mut self) -> bool {
        let takes = !matches!(self.replies, ReplyMode::Off | ReplyMode::Skip);
        self.end_skipping();
        takes
    }

    /// What the group's commands do beside writing is forgotten: they are undone.
    pub(crate) fn forget_effects(&mut self) {
        self.pause_changes.clear();
        self.messages.forget();
        self.log_lines.forget();
        self.has_acted = false;
    }

    /// What counts for the next request alone.
    pub(crate) fn of_next_request(&self) -> OfNextRequest {
        let is_excepted = self.tracking.is_some_and(|tracking| tracking.is_excepted);
        OfNextRequest { replies: self.replies, is_excepted }
    }

    /// The request comes once more for which this counted.
    pub(crate) fn put_back(&mut self, of_request: OfNextRequest) {
        self.replies = of_request.replies;
        if let Some(tracking) = &mut self.tracking {
            tracking.is_excepted = of_request.is_excepted;
        }
    }

    /// A command begins, perhaps once more: of CLIENT REPLY SKIP it is the one without a reply.
    pub(crate) fn begin_skipping(&mut self) {
        if self.replies == ReplyMode::SkipNext {
            self.replies = ReplyMode::Skip;
        }
    }

    /// The command whose reply was left out has ended.
    pub(crate) fn end_skipping(&mut self) {
        if self.replies == ReplyMode::Skip {
            self.replies = ReplyMode::On;
        }
    }

    /// Whether the client gets messages of channels.
    pub(crate) fn is_subscribed(&self) -> bool {
        self.subscriptions.len() > 0
    }

    /// Ends a transaction, if there is one: its commands are carried out or given up.
    pub(crate) fn end_transaction(&mut self, server: &Server) {
        if self.queue.take().is_some() {
            self.watching.clear(&server.watches);
        }
    }

    /// Gives up what the client holds of the server: its connection has ended.
    pub(crate) fn leave(&mut self, server: &Server) {
        self.queue = None;
        if self.is_monitor {
            self.set_monitor(false);
            server.observed.monitors.remove(self.id);
        }
        self.watching.clear(&server.watches);
        if self.tracking.is_some() {
            self.set_tracking(None);
            server.tracking.end(self.id);
        }
        for (subject, name) in std::mem::take(&mut self.subscriptions).into_names() {
            server.pubsub.unsubscribe(subject, &name, self.id);
        }
    }

    /// Makes the client what it was when it connected: RESET.
    pub(crate) fn reset(&mut self, server: &Server) {
        self.leave(server);
        self.db = 0;
        self.protocol = Protocol::Resp2;
        // The reply of RESET itself may be the one to leave out.
        if self.replies != ReplyMode::Skip {
            self.replies = ReplyMode::On;
        }
        self.set_name(&[]);
        self.set_account(server, server.access.of_new_client());
        if let Some(client) = server.clients.get(self.id) {
            client.set_protocol(Protocol::Resp2);
        }
    }

    /// The limits of the client's next request.
    pub(crate) fn limits(&self, server: &Server) -> Limits {
        let bytes = |limit: &AtomicU64| limit.load(Ordering::Relaxed).min(u64::from(u32::MAX)) as u32;
        Limits {
            authenticated: self.account.is_some(),
            argument_bytes: bytes(&server.max_argument_bytes),
            request_bytes: bytes(&server.max_request_bytes),
            ..Limits::default()
        }
    }
}
