//! Keyspace events: changes of keys as messages of channels, as `notify-keyspace-events` chooses them.

use crate::pubsub::PubSub;
use esker_redis_store::EventClass;
use esker_redis_store::notifications::Event;
use std::sync::atomic::{AtomicU32, Ordering};

/// `K`: the channel has the key's name and the message the event's.
const BY_KEY: u32 = 1;
/// `E`: the channel has the event's name and the message the key's.
const BY_EVENT: u32 = 1 << 1;

/// Letters of `notify-keyspace-events` and their bits, in the order in which CONFIG GET prints them.
const LETTERS: [(u8, u32); 14] = [
    (b'g', EventClass::GENERIC.0),
    (b'$', EventClass::STRING.0),
    (b'l', EventClass::LIST.0),
    (b's', EventClass::SET.0),
    (b'h', EventClass::HASH.0),
    (b'z', EventClass::SORTED_SET.0),
    (b'x', EventClass::EXPIRED.0),
    (b'e', EventClass::EVICTED.0),
    (b't', EventClass::STREAM.0),
    (b'd', 1 << 13),
    (b'n', EventClass::NEW.0),
    (b'K', BY_KEY),
    (b'E', BY_EVENT),
    (b'm', EventClass::MISS.0),
];

/// Classes that the letter `A` stands for: all but `K`, `E`, `m` and `n`.
const ALL: u32 = EventClass::GENERIC.0
    | EventClass::STRING.0
    | EventClass::LIST.0
    | EventClass::SET.0
    | EventClass::HASH.0
    | EventClass::SORTED_SET.0
    | EventClass::EXPIRED.0
    | EventClass::EVICTED.0
    | EventClass::STREAM.0
    | 1 << 13;

/// Which events are published.
#[derive(Debug, Default)]
pub(crate) struct KeyspaceEvents {
    flags: AtomicU32,
}

impl KeyspaceEvents {
    /// Sets the flags from their letters; `false` if one is unknown, and then nothing is changed.
    pub(crate) fn set(&self, letters: &[u8]) -> bool {
        let mut flags = 0;
        for letter in letters {
            match LETTERS.iter().find(|(known, _)| known == letter) {
                Some((_, bit)) => flags |= bit,
                None if *letter == b'A' => flags |= ALL,
                None => return false,
            }
        }
        self.flags.store(flags, Ordering::Release);
        true
    }

    /// The flags as letters.
    pub(crate) fn letters(&self) -> String {
        let flags = self.flags.load(Ordering::Acquire);
        let has_all = flags & ALL == ALL;
        let mut letters = String::from(if has_all { "A" } else { "" });
        for (letter, bit) in LETTERS {
            if flags & bit != 0 && !(has_all && ALL & bit != 0) {
                letters.push(char::from(letter));
            }
        }
        letters
    }

    /// Bits of the classes that a transaction has to list; none while nothing is published.
    pub(crate) fn classes(&self) -> u32 {
        let flags = self.flags.load(Ordering::Acquire);
        if flags & (BY_KEY | BY_EVENT) == 0 { 0 } else { flags & !(BY_KEY | BY_EVENT) }
    }

    /// Publishes an event.
    pub(crate) fn publish(&self, pubsub: &PubSub, event: &Event) {
        let flags = self.flags.load(Ordering::Acquire);
        if flags & BY_KEY != 0 {
            let channel = [format!("__keyspace@{}__:", event.db).as_bytes(), &event.key].concat();
            pubsub.publish(&channel, event.name.as_bytes());
        }
        if flags & BY_EVENT != 0 {
            let channel = format!("__keyevent@{}__:{}", event.db, event.name);
            pubsub.publish(channel.as_bytes(), &event.key);
        }
    }
}
