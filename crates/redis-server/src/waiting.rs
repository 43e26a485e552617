//! Blocked clients: which of them wait for which keys, in the order in which they came.
//!
//! What holds:
//! * WC1. A client is added under the stripes of its keys, after its command found nothing there, and writers
//!   ask under the stripes whether changes are to be listed; so no change falls between.
//! * WC2. One thread at a time serves waiting clients: changed keys in the order of their changes, and the
//!   clients of a key in the order in which they came. The thread that changed a key goes on when they are
//!   served.
//! * WC3. A wait ends once: by the batch of its command, by its time, by CLIENT UNBLOCK or by the end of its
//!   client. One lock decides which of them comes first, and what comes later does nothing.

use crate::clients::{Client, Message};
use esker_redis_commands::Command;
use esker_redis_store::Kind;
use esker_redis_store::notifications::Told;
use esker_resp::writer::{Protocol, ReplyWriter};
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A key of a logical database.
pub(crate) type Place = (u16, Box<[u8]>);

/// Why a wait ends without the command's own reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WaitEnd {
    /// The time is up, or CLIENT UNBLOCK says so.
    TimeIsUp,
    /// CLIENT UNBLOCK with ERROR.
    Unblocked,
    /// The command's batch cannot be written; the text of the error reply.
    Failed(Vec<u8>),
    /// The client is gone.
    Disconnected,
}

/// A client that waits, and the command that it waits with.
#[derive(Debug)]
pub(crate) struct Waiter {
    /// The client.
    pub(crate) client: Arc<Client>,
    /// The client's database.
    pub(crate) db: u16,
    /// The protocol of the reply.
    pub(crate) protocol: Protocol,
    /// The command.
    pub(crate) command: &'static Command,
    /// Its name and arguments.
    pub(crate) arguments: Vec<Box<[u8]>>,
    /// The keys that it waits for.
    pub(crate) keys: Vec<Box<[u8]>>,
}

impl Waiter {
    /// The type that its keys must have for the command to go on.
    pub(crate) fn kind(&self) -> Kind {
        match self.command.name().as_bytes() {
            [b'x', ..] => Kind::Stream,
            [b'b', b'z', ..] => Kind::SortedSet,
            _ => Kind::List,
        }
    }
}

/// The error of a command whose wait CLIENT UNBLOCK ended so.
pub(crate) const UNBLOCKED: &[u8] = b"UNBLOCKED client unblocked via CLIENT UNBLOCK";

/// The number of a wait: later waits have greater ones.
pub(crate) type Ticket = u64;

/// The clients that wait for one key, by tickets, ascending.
type Line = VecDeque<(Ticket, Arc<Waiter>)>;

/// Keys are the clients' to choose, so they lie in trees: hashes without a secret can be made to meet.
#[derive(Debug, Default)]
struct Tables {
    lines: BTreeMap<Place, Line>,
    clients: HashMap<u64, (Ticket, Arc<Waiter>), foldhash::fast::FixedState>,
    last_ticket: Ticket,
    /// Changed keys whose clients are still to be served, in the order of their changes.
    ready: VecDeque<Place>,
    /// The same keys: exchanged databases make as many ready at once as clients wait for.
    is_ready: BTreeSet<Place>,
    /// Keys whose clients are to be served by a thread that may wait.
    postponed: Vec<Place>,
}

impl Tables {
    /// Takes a client out of all lines.
    fn remove(&mut self, client: u64) -> Option<Arc<Waiter>> {
        let (ticket, waiter) = self.clients.remove(&client)?;
        for key in &waiter.keys {
            let place = (waiter.db, key.clone());
            let Some(line) = self.lines.get_mut(&place) else { continue };
            if let Ok(at) = line.binary_search_by_key(&ticket, |(ticket, _)| *ticket) {
                line.remove(at);
            }
            if line.is_empty() {
                self.lines.remove(&place);
            }
        }
        Some(waiter)
    }

    /// Whether a client waits for the key; then it is ready afterwards.
    fn make_ready(&mut self, place: &Place) -> bool {
        let is_awaited = self.lines.contains_key(place);
        if is_awaited && self.is_ready.insert(place.clone()) {
            self.ready.push_back(place.clone());
        }
        is_awaited
    }

    fn has_stream_readers(&self, place: &Place) -> bool {
        let mut line = self.lines.get(place).into_iter().flatten();
        line.any(|(_, waiter)| waiter.kind() == Kind::Stream)
    }

    /// Takes the first of the ready keys.
    fn pop_ready(&mut self) -> Option<Place> {
        let place = self.ready.pop_front()?;
        self.is_ready.remove(&place);
        Some(place)
    }

    /// The keys of a database that clients wait for, in the order in which their first clients came.
    fn places_of(&self, db: u16) -> Vec<Place> {
        let of_db = self.lines.range((db, Box::default())..).take_while(|(place, _)| place.0 == db);
        let mut places: Vec<_> =
            of_db.map(|(place, line)| (line.front().map(|(ticket, _)| *ticket), place.clone())).collect();
        places.sort_unstable();
        places.into_iter().map(|(_, place)| place).collect()
    }
}

/// All waiting clients.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// Waiting clients, so that writers look no further while there is none.
    count: AtomicUsize,
    has_ready: AtomicBool,
    has_postponed: AtomicBool,
    /// It may be locked while stripes are held. While it is held, a batch may be written, and no stripe is
    /// waited for.
    tables: Mutex<Tables>,
    /// Held by the thread that serves clients; taken without any stripe.
    turn: Mutex<()>,
}

impl Waiting {
    /// Whether a client waits.
    pub(crate) fn is_used(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Clients that wait.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Lets a client wait at the end of the lines of its keys, whose stripes the caller holds. One that is
    /// gone does not wait.
    pub(crate) fn add(&self, mut waiter: Waiter) {
        waiter.keys.sort_unstable();
        waiter.keys.dedup();
        let waiter = Arc::new(waiter);
        let mut tables = self.tables.lock();
        // It is marked before its wait is ended, so that one of the two sees the other.
        if waiter.client.is_gone() {
            return;
        }
        tables.last_ticket += 1;
        let ticket = tables.last_ticket;
        for key in &waiter.keys {
            let line = tables.lines.entry((waiter.db, key.clone())).or_default();
            line.push_back((ticket, Arc::clone(&waiter)));
        }
        tables.clients.insert(waiter.client.id, (ticket, waiter));
        self.count.store(tables.clients.len(), Ordering::Release);
    }

    /// Whether a client waits for one of these keys.
    pub(crate) fn is_awaited(&self, changed: &[Place]) -> bool {
        let tables = self.tables.lock();
        changed.iter().any(|place| tables.lines.contains_key(place))
    }

    /// Notes the awaited keys among those that a batch changed; of databases that changed as a whole, those
    /// that may be there now. Whether there are some: then the caller, or else a thread of connections,
    /// serves their clients.
    pub(crate) fn note(&self, told: &Told, may_be_there: &dyn Fn(&Place) -> bool) -> bool {
        if !self.is_used() || (told.changed.is_empty() && told.databases.is_empty()) {
            return false;
        }
        let mut tables = self.tables.lock();
        let mut is_any = false;
        for place in &told.changed {
            is_any |= tables.make_ready(place);
        }
        for (db, _) in &told.databases {
            for place in tables.places_of(*db) {
                // Each ready key has the whole command of its client executed, which may name as many keys.
                // Readers of a stream are told also that it is gone.
                if tables.has_stream_readers(&place) || may_be_there(&place) {
                    is_any |= tables.make_ready(&place);
                }
            }
        }
        self.has_ready.store(!tables.ready.is_empty(), Ordering::Release);
        is_any
    }

    /// Whether there are changed keys whose clients are still to be served.
    pub(crate) fn has_ready(&self) -> bool {
        self.has_ready.load(Ordering::Acquire)
    }

    /// Waits until no other thread serves clients, and lets this one.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }

    /// The next key whose clients are to be served.
    pub(crate) fn next_ready(&self) -> Option<Place> {
        let mut tables = self.tables.lock();
        let place = tables.pop_ready();
        self.has_ready.store(!tables.ready.is_empty(), Ordering::Release);
        place
    }

    /// The first client behind a ticket that waits for a key.
    pub(crate) fn next_of(&self, place: &Place, behind: Ticket) -> Option<(Ticket, Arc<Waiter>)> {
        let tables = self.tables.lock();
        let line = tables.lines.get(place)?;
        let at = line.partition_point(|(ticket, _)| *ticket <= behind);
        line.get(at).cloned()
    }

    /// Leaves the clients of a key to a thread that may wait for a device or for a stall.
    pub(crate) fn postpone(&self, place: Place) {
        self.tables.lock().postponed.push(place);
        self.has_postponed.store(true, Ordering::Release);
    }

    /// Makes a key ready again that was taken and not served.
    pub(crate) fn put_back(&self, place: &Place) {
        let mut tables = self.tables.lock();
        tables.make_ready(place);
        self.has_ready.store(!tables.ready.is_empty(), Ordering::Release);
    }

    /// Whether [`Waiting::postpone`] was called since [`Waiting::resume`].
    pub(crate) fn has_postponed(&self) -> bool {
        self.has_postponed.load(Ordering::Acquire)
    }

    /// Makes postponed keys ready.
    pub(crate) fn resume(&self) {
        self.has_postponed.store(false, Ordering::Release);
        let mut tables = self.tables.lock();
        for place in std::mem::take(&mut tables.postponed) {
            tables.make_ready(&place);
        }
        self.has_ready.store(!tables.ready.is_empty(), Ordering::Release);
    }

    /// Ends a wait with the reply of its command, if it is not over and `write` writes the command's batch.
    /// `None` if it is over, and then nothing was written.
    pub(crate) fn finish<R, E>(
        &self,
        client: u64,
        ticket: Ticket,
        reply: Vec<u8>,
        write: impl FnOnce() -> Result<R, E>,
    ) -> Option<Result<R, E>> {
        let mut tables = self.tables.lock();
        tables.clients.get(&client).filter(|(found, _)| *found == ticket)?;
        let written = write();
        if written.is_ok() {
            self.remove(&mut tables, client, reply);
        }
        Some(written)
    }

    fn remove(&self, tables: &mut Tables, client: u64, reply: Vec<u8>) {
        if let Some(waiter) = tables.remove(client) {
            self.count.store(tables.clients.len(), Ordering::Release);
            waiter.client.post(Message::WaitOver(reply));
        }
    }

    /// Ends the wait of a client, and returns the command that waited. `None` if it does not wait.
    pub(crate) fn end(&self, client: u64, end: WaitEnd) -> Option<&'static Command> {
        // Under the lock also when no client seems to wait: one that is gone may be about to.
        let mut tables = self.tables.lock();
        let (_, waiter) = tables.clients.get(&client)?;
        let command = waiter.command;
        let mut reply = Vec::new();
        let mut writer = ReplyWriter::new(&mut reply, waiter.protocol);
        match end {
            WaitEnd::TimeIsUp => writer.null_array(),
            WaitEnd::Unblocked => writer.error(UNBLOCKED),
            WaitEnd::Failed(text) => writer.error(&text),
            WaitEnd::Disconnected => {}
        }
        self.remove(&mut tables, client, reply);
        Some(command)
    }
}
