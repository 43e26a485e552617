//! The log of what was denied, newest first. Like events within a minute share an entry and are counted.

use crate::reply::Reply;
use std::collections::VecDeque;

/// Events of more than this time apart, in milliseconds, have entries of their own.
const GROUPED_MS: i64 = 60_000;
/// Entries that are searched for a like event.
const SEARCHED: usize = 10;
/// The bytes of an object or a user's name that are kept. Clients choose both, before they authenticate even;
/// 128 entries of 4 KiB hold half a megabyte, where Redis may hold 128 times the longest argument.
const NAME_BYTES_MAX: usize = 4_096;

/// Why something was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The user may not run the command.
    Command,
    /// The user may not use the key.
    Key,
    /// The user may not use the channel.
    Channel,
    /// The password was wrong, or the user is off or unknown.
    Auth,
}

/// Where it was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// A command of its own.
    Toplevel,
    /// A command of a transaction.
    Multi,
    /// A command of a script.
    Lua,
    /// A command of a module.
    Module,
}

/// Something that was denied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Why.
    pub reason: Reason,
    /// Where.
    pub context: Context,
    /// The command's whole name, the key, the channel, or the name of the command that authenticates.
    pub object: Vec<u8>,
    /// The user, or the name that was tried.
    pub username: Vec<u8>,
    /// The client as `CLIENT LIST` describes it.
    pub client: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Entry {
    event: Event,
    count: i64,
    at_ms: i64,
}

/// The log.
#[derive(Clone, Debug, Default)]
pub struct Log {
    entries: VecDeque<Entry>,
}

impl Log {
    /// Adds an event at a time in milliseconds and keeps at most `entries_max` entries, the option
    /// `acllog-max-len`. If one of the newest ten entries is like it and no older than a minute, that one is
    /// counted up, gets its client and time, and becomes the newest.
    ///
    /// Objects and names are cut at 4 KiB.
    pub fn add(&mut self, mut event: Event, now_ms: i64, entries_max: usize) {
        event.object.truncate(NAME_BYTES_MAX);
        event.username.truncate(NAME_BYTES_MAX);
        let like = self.entries.iter().take(SEARCHED).position(|entry| entry.is_like(&event, now_ms));
        let count = like.and_then(|at| self.entries.remove(at)).map_or(0, |entry| entry.count);
        self.entries.push_front(Entry { event, count: count.saturating_add(1), at_ms: now_ms });
        if like.is_none() {
            self.entries.truncate(entries_max);
        }
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        self.entries.clear();
    }

    /// The newest entries, at most `count`, as `ACL LOG` shows them.
    pub fn reply(&self, count: usize, now_ms: i64) -> Reply {
        Reply::Array(self.entries.iter().take(count).map(|entry| entry.reply(now_ms)).collect())
    }
}

impl Entry {
    fn is_like(&self, event: &Event, now_ms: i64) -> bool {
        let (own, new) = (&self.event, event);
        own.reason == new.reason
            && own.context == new.context
            && self.at_ms.abs_diff(now_ms) <= GROUPED_MS.unsigned_abs()
            && own.object == new.object
            && own.username == new.username
    }

    fn reply(&self, now_ms: i64) -> Reply {
        let reason = match self.event.reason {
            Reason::Command => "command",
            Reason::Key => "key",
            Reason::Channel => "channel",
            Reason::Auth => "auth",
        };
        let context = match self.event.context {
            Context::Toplevel => "toplevel",
            Context::Multi => "multi",
            Context::Lua => "lua",
            Context::Module => "module",
        };
        let pairs = [
            ("count", Reply::Integer(self.count)),
            ("reason", Reply::text(reason)),
            ("context", Reply::text(context)),
            ("object", Reply::bytes(self.event.object.clone())),
            ("username", Reply::bytes(self.event.username.clone())),
            ("age-seconds", Reply::Double(now_ms.wrapping_sub(self.at_ms) as f64 / 1_000.0)),
            ("client-info", Reply::bytes(self.event.client.clone())),
        ];
        Reply::Map(pairs.into_iter().map(|(name, value)| (Reply::text(name), value)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(object: &str) -> Event {
        Event {
            reason: Reason::Key,
            context: Context::Toplevel,
            object: object.into(),
            username: b"ann".to_vec(),
            client: b"id=1".to_vec(),
        }
    }

    fn counts(log: &Log) -> Vec<(String, i64)> {
        let entry = |entry: &Entry| (String::from_utf8_lossy(&entry.event.object).into_owned(), entry.count);
        log.entries.iter().map(entry).collect()
    }

    #[test]
    fn like_events_within_a_minute_are_counted_and_become_the_newest() {
        let mut log = Log::default();
        for (object, at) in [("a", 0), ("b", 1), ("a", 60_000), ("b", 60_002)] {
            log.add(event(object), at, 128);
        }
        assert_eq!(counts(&log), [("b".into(), 1), ("a".into(), 2), ("b".into(), 1)]);
    }

    #[test]
    fn the_log_is_bounded_in_entries_and_bytes() {
        let mut log = Log::default();
        for number in 0..300 {
            log.add(event(&format!("{number}{}", "x".repeat(10_000))), number, 128);
        }
        assert_eq!(log.entries.len(), 128);
        assert!(log.entries.iter().all(|entry| entry.event.object.len() <= NAME_BYTES_MAX));
        let Reply::Array(shown) = log.reply(10, 1_000) else { panic!("an array") };
        assert_eq!(shown.len(), 10);
        log.reset();
        assert_eq!(log.reply(10, 0), Reply::Array(Vec::new()));
    }
}
