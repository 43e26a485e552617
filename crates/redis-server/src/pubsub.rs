//! Publish and subscribe: which clients get the messages of a channel.
//!
//! A message is encoded once for each protocol and shared by all receivers. Nothing here takes a stripe.

use crate::clients::{Client, Message};
use esker_resp::glob::{Case, matches};
use esker_resp::writer::{Protocol, ReplyWriter};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What a client subscribes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Subject {
    /// A channel.
    Channel = 0,
    /// All channels that match a pattern.
    Pattern = 1,
    /// A channel of SPUBLISH.
    Shard = 2,
}

impl Subject {
    /// The words of the replies to subscribing and to its end.
    pub(crate) fn words(self) -> (&'static [u8], &'static [u8]) {
        match self {
            Self::Channel => (b"subscribe", b"unsubscribe"),
            Self::Pattern => (b"psubscribe", b"punsubscribe"),
            Self::Shard => (b"ssubscribe", b"sunsubscribe"),
        }
    }
}

/// What one client subscribes to.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    /// Names of channels, patterns and shard channels.
    names: [BTreeSet<Box<[u8]>>; 3],
    /// Bytes of all of them.
    bytes: usize,
}

impl Subscriptions {
    /// How many channels, patterns and shard channels.
    pub(crate) fn counts(&self) -> [usize; 3] {
        [&self.names[0], &self.names[1], &self.names[2]].map(BTreeSet::len)
    }

    /// How many in all.
    pub(crate) fn len(&self) -> usize {
        self.counts().iter().sum()
    }

    /// Bytes of all names.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Memory that the subscriptions take, here and in the table of all clients.
    pub(crate) fn held_bytes(&self) -> usize {
        2 * self.bytes + self.len() * (2 * size_of::<Box<[u8]>>() + size_of::<(u64, Arc<Client>)>())
    }

    pub(crate) fn insert(&mut self, subject: Subject, name: &[u8]) {
        if self.names[subject as usize].insert(name.into()) {
            self.bytes += name.len();
        }
    }

    pub(crate) fn remove(&mut self, subject: Subject, name: &[u8]) {
        if self.names[subject as usize].remove(name) {
            self.bytes -= name.len();
        }
    }

    /// The names of one kind.
    pub(crate) fn names(&self, subject: Subject) -> Vec<Vec<u8>> {
        self.names[subject as usize].iter().map(|name| name.to_vec()).collect()
    }

    /// All names.
    pub(crate) fn into_names(self) -> impl Iterator<Item = (Subject, Box<[u8]>)> {
        let subjects = [Subject::Channel, Subject::Pattern, Subject::Shard];
        subjects
            .into_iter()
            .zip(self.names)
            .flat_map(|(subject, names)| names.into_iter().map(move |name| (subject, name)))
    }
}

type ByName = BTreeMap<Box<[u8]>, BTreeMap<u64, Arc<Client>>>;

#[derive(Debug, Default)]
struct Table {
    channels: ByName,
    patterns: ByName,
    shards: ByName,
}

impl Table {
    fn of(&mut self, subject: Subject) -> &mut ByName {
        match subject {
            Subject::Channel => &mut self.channels,
            Subject::Pattern => &mut self.patterns,
            Subject::Shard => &mut self.shards,
        }
    }
}

/// What becomes of a message for a subscriber.
pub(crate) type Post<'a> = &'a mut dyn FnMut(&Arc<Client>, Arc<[u8]>);

/// The subscriptions of all clients.
#[derive(Debug, Default)]
pub(crate) struct PubSub {
    table: Mutex<Table>,
    /// Names that are subscribed to, so that publishing costs a load while there is none.
    names: AtomicUsize,
    /// Messages given to subscribers, once for each of them.
    delivered: AtomicU64,
}

impl PubSub {
    /// Subscribes a client; `false` if it was already.
    pub(crate) fn subscribe(&self, subject: Subject, name: &[u8], client: &Arc<Client>) -> bool {
        let mut table = self.table.lock();
        let clients = table.of(subject).entry(name.into()).or_default();
        let is_new = clients.insert(client.id, Arc::clone(client)).is_none();
        self.note_names(&table);
        is_new
    }

    /// Ends a subscription; `false` if there was none.
    pub(crate) fn unsubscribe(&self, subject: Subject, name: &[u8], client: u64) -> bool {
        let mut table = self.table.lock();
        let by_name = table.of(subject);
        let Some(clients) = by_name.get_mut(name) else { return false };
        let was_there = clients.remove(&client).is_some();
        if clients.is_empty() {
            by_name.remove(name);
        }
        self.note_names(&table);
        was_there
    }

    fn note_names(&self, table: &Table) {
        let count = table.channels.len() + table.patterns.len() + table.shards.len();
        self.names.store(count, Ordering::Release);
    }

    /// Sends a message to the subscribers of a channel and of patterns that match it. Returns to how many.
    pub(crate) fn publish(&self, channel: &[u8], message: &[u8]) -> usize {
        let count = self.address(channel, message, &mut |client, bytes| client.post(Message::Push(bytes)));
        self.note_delivered(count);
        count
    }

    /// Sends a message to the subscribers of a shard channel.
    pub(crate) fn publish_shard(&self, channel: &[u8], message: &[u8]) -> usize {
        let count =
            self.address_shard(channel, message, &mut |client, bytes| client.post(Message::Push(bytes)));
        self.note_delivered(count);
        count
    }

    /// Calls `post` for each subscriber of a channel and of patterns that match it, with the bytes of the
    /// message in its protocol. Returns for how many.
    pub(crate) fn address(&self, channel: &[u8], message: &[u8], post: Post<'_>) -> usize {
        if self.names.load(Ordering::Acquire) == 0 {
            return 0;
        }
        let table = self.table.lock();
        let mut count = 0;
        if let Some(clients) = table.channels.get(channel) {
            count += send(clients, &[b"message", channel, message], post);
        }
        for (pattern, clients) in &table.patterns {
            if matches(pattern, channel, Case::Sensitive) {
                count += send(clients, &[b"pmessage", pattern, channel, message], post);
            }
        }
        count
    }

    /// The same for the subscribers of a shard channel.
    pub(crate) fn address_shard(&self, channel: &[u8], message: &[u8], post: Post<'_>) -> usize {
        let table = self.table.lock();
        let clients = table.shards.get(channel);
        clients.map_or(0, |clients| send(clients, &[b"smessage", channel, message], post))
    }

    /// Counts messages that were given to subscribers.
    pub(crate) fn note_delivered(&self, count: usize) {
        self.delivered.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Messages given to subscribers, once for each of them.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// Channels with subscribers that match a pattern.
    pub(crate) fn names(&self, subject: Subject, pattern: Option<&[u8]>) -> Vec<Vec<u8>> {
        let mut table = self.table.lock();
        let names = table.of(subject).keys().map(|name| name.to_vec());
        match pattern {
            None => names.collect(),
            Some(pattern) => names.filter(|name| matches(pattern, name, Case::Sensitive)).collect(),
        }
    }

    /// Clients with a subscription of which `is_meant` holds.
    pub(crate) fn subscribers_of(&self, is_meant: impl Fn(Subject, &[u8]) -> bool) -> BTreeSet<u64> {
        let mut table = self.table.lock();
        let mut found = BTreeSet::new();
        for subject in [Subject::Channel, Subject::Pattern, Subject::Shard] {
            for (name, clients) in table.of(subject).iter() {
                if is_meant(subject, name) {
                    found.extend(clients.keys());
                }
            }
        }
        found
    }

    /// Subscribers of a name.
    pub(crate) fn subscribers(&self, subject: Subject, name: &[u8]) -> usize {
        self.table.lock().of(subject).get(name).map_or(0, BTreeMap::len)
    }
}

fn send(clients: &BTreeMap<u64, Arc<Client>>, parts: &[&[u8]], post: Post<'_>) -> usize {
    let mut encoded: [Option<Arc<[u8]>>; 2] = [None, None];
    for client in clients.values() {
        let protocol = client.protocol();
        let bytes = encoded[usize::from(protocol == Protocol::Resp3)].get_or_insert_with(|| {
            let mut bytes = Vec::new();
            let mut reply = ReplyWriter::new(&mut bytes, protocol);
            reply.push(parts.len());
            parts.iter().for_each(|part| reply.bulk(part));
            bytes.into()
        });
        post(client, Arc::clone(bytes));
    }
    clients.len()
}
