//! The registry of connected clients: how threads reach a client that another thread owns.

use esker_redis_commands::{Command, table};
use esker_resp::writer::Protocol;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// What other threads tell a client.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    /// The reply of the command that the client waits with; the wait is over.
    WaitOver(Vec<u8>),
    /// Bytes that answer no request: a message of a channel, an invalidation. Shared by all receivers.
    Push(Arc<[u8]>),
    /// The pause is over that held the client's command back.
    PauseOver,
    /// The connection is to be closed, at once.
    Close,
}

/// The way to the thread that owns a client.
pub(crate) trait Mailbox: Send + Sync + fmt::Debug {
    /// Hands a message to the client of this number. It is dropped if the client is gone. Never waits.
    fn post(&self, client: u64, message: Message);
}

/// How a client tracks keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TrackingMode {
    /// All changes of keys with the client's prefixes are told, whatever it reads.
    pub(crate) broadcasts: bool,
    /// A read is noted only after CLIENT CACHING YES.
    pub(crate) opts_in: bool,
    /// A read is not noted after CLIENT CACHING NO.
    pub(crate) opts_out: bool,
    /// The client's own changes are not told.
    pub(crate) skips_own: bool,
    /// The client that is told instead; zero for none.
    pub(crate) redirection: u64,
}

/// What CLIENT LIST tells of a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    pub(crate) name: Vec<u8>,
    pub(crate) user: Option<Box<[u8]>>,
    pub(crate) db: u16,
    /// Commands that are queued since MULTI.
    pub(crate) queued: Option<usize>,
    /// Subscriptions to channels, patterns and shard channels.
    pub(crate) subscriptions: [usize; 3],
    /// Whether a command waits.
    pub(crate) is_blocked: bool,
    /// How the client tracks keys.
    pub(crate) tracking: Option<TrackingMode>,
    /// Whether the client gets a line for every command.
    pub(crate) is_monitor: bool,
    /// Bytes of the queued commands, and of what the client watches and subscribes to.
    pub(crate) queued_bytes: usize,
    pub(crate) held_bytes: usize,
}

/// A connected client, as other threads see it.
#[derive(Debug)]
pub(crate) struct Client {
    /// The number that CLIENT ID answers.
    pub(crate) id: u64,
    /// Where the client is; `None` for a Unix socket and within the process.
    pub(crate) address: Option<SocketAddr>,
    /// The address that it is connected to.
    pub(crate) local_address: Option<SocketAddr>,
    /// When it connected, in milliseconds since 1970.
    pub(crate) connected_ms: u64,
    /// When it sent its last command, in milliseconds since 1970.
    pub(crate) active_ms: AtomicU64,
    /// Bytes of requests that are received and not executed.
    pub(crate) query_bytes: AtomicU64,
    /// Bytes of replies that are not sent.
    pub(crate) output_bytes: AtomicU64,
    /// The identity of its user; zero while it has none.
    pub(crate) user_identity: AtomicU64,
    /// The index of the last command in the command table, plus one; zero if there was none.
    last_command: AtomicU32,
    /// What CLIENT LIST tells of the client's session.
    pub(crate) shown: Mutex<Shown>,
    /// Whether the connection has ended or is about to.
    is_gone: AtomicBool,
    /// Whether messages are written in RESP3.
    is_resp3: AtomicBool,
    mailbox: Arc<dyn Mailbox>,
}

impl Client {
    /// The protocol of messages.
    pub(crate) fn protocol(&self) -> Protocol {
        if self.is_resp3.load(Ordering::Acquire) { Protocol::Resp3 } else { Protocol::Resp2 }
    }

    /// Sets the protocol of messages.
    pub(crate) fn set_protocol(&self, protocol: Protocol) {
        self.is_resp3.store(protocol == Protocol::Resp3, Ordering::Release);
    }

    /// Whether the client's connection has ended, or CLIENT KILL was called for it.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }

    /// Notes that the client's connection ends; afterwards its wait must be ended.
    pub(crate) fn note_gone(&self) {
        self.is_gone.store(true, Ordering::Release);
    }

    /// The last command of the client.
    pub(crate) fn last_command(&self) -> Option<&'static Command> {
        let index = self.last_command.load(Ordering::Relaxed).checked_sub(1)?;
        table::all().get(index as usize)
    }

    /// Notes the last command.
    pub(crate) fn note_last_command(&self, command: Option<&'static Command>) {
        let number = command.map_or(0, |command| command.index() as u32 + 1);
        self.last_command.store(number, Ordering::Relaxed);
    }

    /// Sends the client a message.
    pub(crate) fn post(&self, message: Message) {
        self.mailbox.post(self.id, message);
    }
}

/// An address as Redis shows it.
pub(crate) fn shown_address(address: Option<SocketAddr>) -> String {
    address.map_or_else(|| "/unixsocket:0".to_owned(), |address| address.to_string())
}

/// All connected clients.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    last_id: AtomicU64,
    by_id: Mutex<BTreeMap<u64, Arc<Client>>>,
}

impl Clients {
    /// Adds a client, which gets the next number.
    pub(crate) fn add(
        &self,
        address: Option<SocketAddr>,
        local_address: Option<SocketAddr>,
        now_ms: u64,
        mailbox: Arc<dyn Mailbox>,
    ) -> Arc<Client> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let client = Arc::new(Client {
            id,
            address,
            local_address,
            connected_ms: now_ms,
            active_ms: now_ms.into(),
            query_bytes: AtomicU64::new(0),
            output_bytes: AtomicU64::new(0),
            user_identity: AtomicU64::new(0),
            last_command: AtomicU32::new(0),
            shown: Mutex::default(),
            is_gone: AtomicBool::new(false),
            is_resp3: AtomicBool::new(false),
            mailbox,
        });
        self.by_id.lock().insert(id, Arc::clone(&client));
        client
    }

    /// Removes a client that is gone.
    pub(crate) fn remove(&self, id: u64) {
        self.by_id.lock().remove(&id);
    }

    /// A client.
    pub(crate) fn get(&self, id: u64) -> Option<Arc<Client>> {
        self.by_id.lock().get(&id).cloned()
    }

    /// Where a client is, as logs show it; empty for one within the process.
    pub(crate) fn shown_address(&self, id: u64) -> String {
        self.get(id).map_or_else(String::new, |client| shown_address(client.address))
    }

    /// All clients in the order of their numbers.
    pub(crate) fn all(&self) -> Vec<Arc<Client>> {
        self.by_id.lock().values().cloned().collect()
    }
}
