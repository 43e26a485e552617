//! Client tracking: which clients have read which keys, and that they are told when a key was changed.
//!
//! A client that tracks its reads is told once of each key that it has read and that is changed then. One
//! that broadcasts is told of every change of keys with its prefixes. As in Redis, databases are not told
//! apart, and what a client has read stays in the table when it ends: it goes with the key's next change, or
//! with the last client that tracks.
//!
//! What holds:
//! * CT1. A read is noted while its stripes are held, and a change is told while the writer holds them: no
//!   change falls between a read and its note.
//! * CT2. What a client is told of a key comes behind the reply that told it the key's value: both go through
//!   the thread that owns the client, the reply first.
//! * CT3. The table has at most `tracking-table-max-keys` keys, and [`TABLE_BYTES`] of them: a key that is
//!   dropped is told as if it had been changed.

use crate::clients::{Client, Clients, Message, TrackingMode};
use esker_redis_store::notifications::{Told, WholeChange};
use esker_resp::writer::{Protocol, ReplyWriter};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of the keys in the table: a million keys of 256 bytes.
const TABLE_BYTES: usize = 256 << 20;

/// Prefixes of one client. Each is compared with each when it is added, and all with every changed key.
pub(crate) const MAX_PREFIXES: usize = 1024;

/// Bytes of the prefixes of one client.
pub(crate) const MAX_PREFIX_BYTES: usize = 1 << 20;

/// The channel on which clients of RESP2 are told.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// A client that tracks.
#[derive(Debug)]
struct Tracker {
    client: Arc<Client>,
    mode: TrackingMode,
    prefixes: BTreeSet<Box<[u8]>>,
    /// Whether the client that is told instead was gone when it should be told.
    is_broken: bool,
}

#[derive(Debug, Default)]
struct TrackingTable {
    trackers: BTreeMap<u64, Tracker>,
    /// Clients by keys that they have read.
    readers: BTreeMap<Box<[u8]>, BTreeSet<u64>>,
    /// Bytes of the keys, and pairs of a key and a client.
    key_bytes: usize,
    items: usize,
    /// Clients by prefixes.
    prefixes: BTreeMap<Box<[u8]>, BTreeSet<u64>>,
    /// The last key that was dropped for room; the next one is behind it.
    dropped: Box<[u8]>,
}

/// What is tracked for all clients.
#[derive(Debug)]
pub(crate) struct Tracking {
    /// Clients that track, so that writers look no further while there is none.
    clients: AtomicUsize,
    /// Most keys in the table; zero for as many as [`TABLE_BYTES`] allow.
    max_keys: AtomicUsize,
    table: Mutex<TrackingTable>,
}

/// Numbers for INFO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TrackingCounts {
    pub(crate) clients: usize,
    pub(crate) keys: usize,
    pub(crate) items: usize,
    pub(crate) prefixes: usize,
}

impl Default for Tracking {
    fn default() -> Self {
        let max_keys = AtomicUsize::new(1_000_000);
        Self { clients: AtomicUsize::new(0), max_keys, table: Mutex::default() }
    }
}

impl Tracking {
    /// Whether a client tracks.
    pub(crate) fn is_used(&self) -> bool {
        self.clients.load(Ordering::Acquire) > 0
    }

    /// Lets a client track so, and adds prefixes to those that it has.
    pub(crate) fn begin(&self, client: &Arc<Client>, mode: TrackingMode, prefixes: &[&[u8]]) {
        let mut table = self.table.lock();
        let table = &mut *table;
        let tracker = table.trackers.entry(client.id).or_insert_with(|| Tracker {
            client: Arc::clone(client),
            mode,
            prefixes: BTreeSet::new(),
            is_broken: false,
        });
        (tracker.mode, tracker.is_broken) = (mode, false);
        let all: &[&[u8]] = &[&[]];
        let prefixes = if mode.broadcasts && prefixes.is_empty() { all } else { prefixes };
        for prefix in prefixes {
            tracker.prefixes.insert((*prefix).into());
            table.prefixes.entry((*prefix).into()).or_default().insert(client.id);
        }
        self.clients.store(table.trackers.len(), Ordering::Release);
    }

    /// Ends what a client tracks.
    pub(crate) fn end(&self, client: u64) {
        if !self.is_used() {
            return;
        }
        let mut table = self.table.lock();
        let Some(tracker) = table.trackers.remove(&client) else { return };
        for prefix in tracker.prefixes {
            if let Some(clients) = table.prefixes.get_mut(&prefix) {
                clients.remove(&client);
                if clients.is_empty() {
                    table.prefixes.remove(&prefix);
                }
            }
        }
        if table.trackers.is_empty() {
            // No client would be told of what is left, and writers do not look at it any more.
            table.forget_reads();
        }
        self.clients.store(table.trackers.len(), Ordering::Release);
    }

    /// A client's prefixes in order, and whether the client that is told instead is gone.
    pub(crate) fn of(&self, client: u64) -> (Vec<Box<[u8]>>, bool) {
        let table = self.table.lock();
        let tracker = table.trackers.get(&client);
        tracker.map_or_else(Default::default, |tracker| {
            (tracker.prefixes.iter().cloned().collect(), tracker.is_broken)
        })
    }

    /// Numbers for INFO.
    pub(crate) fn counts(&self) -> TrackingCounts {
        let table = self.table.lock();
        TrackingCounts {
            clients: table.trackers.len(),
            keys: table.readers.len(),
            items: table.items,
            prefixes: table.prefixes.len(),
        }
    }

    /// Notes that a client has read keys, whose stripes the caller holds (CT1).
    pub(crate) fn note_read<'k>(&self, client: u64, keys: impl Iterator<Item = &'k [u8]>, clients: &Clients) {
        let mut table = self.table.lock();
        keys.for_each(|key| table.note(key, client));
        table.make_room(self.max_keys.load(Ordering::Relaxed), clients);
    }

    /// Sets `tracking-table-max-keys`.
    pub(crate) fn set_max_keys(&self, max_keys: usize, clients: &Clients) {
        self.max_keys.store(max_keys, Ordering::Relaxed);
        self.table.lock().make_room(max_keys, clients);
    }

    /// Tells what a batch changed, which the client of this number wrote; zero for none. The caller holds the
    /// stripes of all of it (CT1).
    pub(crate) fn tell(&self, told: &Told, writer: u64, clients: &Clients) {
        if !self.is_used() || (told.changed.is_empty() && told.databases.is_empty()) {
            return;
        }
        let mut table = self.table.lock();
        if told.databases.iter().any(|(_, change)| *change == WholeChange::Flushed) {
            table.tell_flushed(clients);
        }
        if !told.changed.is_empty() {
            told.changed.iter().for_each(|(_, key)| table.tell_readers(key, writer, clients));
            let changed: BTreeSet<&[u8]> = told.changed.iter().map(|(_, key)| &**key).collect();
            table.broadcast(&changed, writer, clients);
        }
    }
}

impl TrackingTable {
    fn note(&mut self, key: &[u8], client: u64) {
        let is_new = match self.readers.get_mut(key) {
            Some(readers) => readers.insert(client),
            None => {
                self.key_bytes += key.len();
                self.readers.insert(key.into(), BTreeSet::from([client])).is_none()
            }
        };
        self.items += usize::from(is_new);
    }

    /// Takes a key out of the table, with its readers.
    fn take(&mut self, key: &[u8]) -> BTreeSet<u64> {
        let readers = self.readers.remove(key);
        self.key_bytes -= readers.as_ref().map_or(0, |_| key.len());
        let readers = readers.unwrap_or_default();
        self.items -= readers.len();
        readers
    }

    /// Drops keys in their order until the rest has room (CT3).
    fn make_room(&mut self, max_keys: usize, clients: &Clients) {
        while (max_keys > 0 && self.readers.len() > max_keys) || self.key_bytes > TABLE_BYTES {
            let behind = (Bound::Excluded(&*self.dropped), Bound::Unbounded);
            let next = self.readers.range::<[u8], _>(behind).next().or_else(|| self.readers.iter().next());
            let Some(key) = next.map(|(key, _)| key.clone()) else { return };
            self.tell_readers(&key, 0, clients);
            self.dropped = key;
        }
    }

    fn tell_readers(&mut self, key: &[u8], writer: u64, clients: &Clients) {
        for reader in self.take(key) {
            // Notes of a time before the client broadcast are out of date.
            if let Some(tracker) = self.trackers.get_mut(&reader).filter(|found| !found.mode.broadcasts)
                && !(tracker.mode.skips_own && reader == writer)
            {
                tracker.tell(Some(&[key]), clients);
            }
        }
    }

    fn broadcast(&mut self, changed: &BTreeSet<&[u8]>, writer: u64, clients: &Clients) {
        for (prefix, receivers) in &self.prefixes {
            let from = (Bound::Included(&**prefix), Bound::Unbounded);
            let keys = changed.range::<[u8], _>(from).take_while(|key| key.starts_with(prefix));
            let keys: Vec<&[u8]> = keys.copied().collect();
            for receiver in receivers.iter().filter(|_| !keys.is_empty()) {
                if let Some(tracker) = self.trackers.get_mut(receiver)
                    && !(tracker.mode.skips_own && *receiver == writer)
                {
                    tracker.tell(Some(&keys), clients);
                }
            }
        }
    }

    fn tell_flushed(&mut self, clients: &Clients) {
        self.trackers.values_mut().for_each(|tracker| tracker.tell(None, clients));
        self.forget_reads();
    }

    fn forget_reads(&mut self) {
        self.readers.clear();
        (self.key_bytes, self.items) = (0, 0);
    }
}

impl Tracker {
    /// Tells the client, or the one instead of it, that keys have changed; `None` for all there are.
    fn tell(&mut self, keys: Option<&[&[u8]]>, clients: &Clients) {
        if self.mode.redirection == 0 {
            if self.client.protocol() == Protocol::Resp3 {
                send(&self.client, keys);
            }
            return;
        }
        match clients.get(self.mode.redirection) {
            Some(other) if other.protocol() == Protocol::Resp3 => send(&other, keys),
            // In RESP2 only subscribers get what answers no request.
            Some(other) if other.shown.lock().subscriptions != [0; 3] => send(&other, keys),
            Some(_) => {}
            None => {
                self.is_broken = true;
                if self.client.protocol() == Protocol::Resp3 {
                    let redirection = self.mode.redirection as i64;
                    push(&self.client, |reply| {
                        reply.push(2);
                        reply.bulk(b"tracking-redir-broken");
                        reply.integer(redirection);
                    });
                }
            }
        }
    }
}

fn send(client: &Client, keys: Option<&[&[u8]]>) {
    push(client, |reply| {
        if client.protocol() == Protocol::Resp3 {
            reply.push(2);
            reply.bulk(b"invalidate");
        } else {
            reply.array(3);
            reply.bulk(b"message");
            reply.bulk(CHANNEL);
        }
        match keys {
            Some(keys) => {
                reply.array(keys.len());
                keys.iter().for_each(|key| reply.bulk(key));
            }
            None => reply.null(),
        }
    });
}

fn push(client: &Client, write: impl FnOnce(&mut ReplyWriter<'_>)) {
    let mut bytes = Vec::new();
    write(&mut ReplyWriter::new(&mut bytes, client.protocol()));
    client.post(Message::Push(bytes.into()));
}
