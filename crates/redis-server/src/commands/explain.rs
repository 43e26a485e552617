//! ESKER.EXPLAIN: how a key is found, what a walk over keys meets, where bytes and memory are, and why writes
//! wait, as text or as JSON.
//!
//! Keys are those of the client's database; what is explained is the record of a key, where every command
//! begins. It runs on a thread that may wait, outside of transactions and scripts, and sees what is
//! committed.

use super::{Family, reply_help};
use crate::call::Call;
use crate::failure::{Failure, Outcome, SYNTAX};
use esker::explain::{Explanation, ScanOptions};
use esker_redis_store::Record;
use esker_redis_store::layout::{MAX_KEY_BYTES, PhysicalDb, Space, record_key};
use std::ops::Bound;

pub(crate) const COMMANDS: Family = &[
    ("esker.explain|get", get),
    ("esker.explain|help", help),
    ("esker.explain|memory", memory),
    ("esker.explain|put", put),
    ("esker.explain|scan", scan),
    ("esker.explain|space", space),
    ("esker.explain|stall", stall),
];

/// Keys that SCAN walks over unless LIMIT says otherwise, and at most: some milliseconds, and some seconds if
/// all of it is read from files.
const DEFAULT_LIMIT: u64 = 1_000;
const MAX_LIMIT: u64 = 1_000_000;

/// Steps within a step of a reply. Of thousands of keyspaces the smallest become one step.
const MAX_STEPS: usize = 64;

/// What is measured may wait for a device, and no other client for that.
fn may_wait(call: &Call<'_, '_>) -> Outcome {
    if call.is_resident { Err(Failure::MustWait) } else { Ok(()) }
}

/// Whether the arguments from `position` on ask for JSON; nothing else may stand there.
fn wants_json(call: &Call<'_, '_>, position: usize) -> Outcome<bool> {
    match call.args.len() - position {
        0 => Ok(false),
        1 if call.is_word(position, "json") => Ok(true),
        _ => Err(SYNTAX.into()),
    }
}

fn reply(call: &mut Call<'_, '_>, explanation: Explanation, as_json: bool) -> Outcome {
    let explanation = explanation.shortened(MAX_STEPS);
    let text = if as_json { explanation.to_json() } else { explanation.to_string() };
    call.reply.bulk(text.as_bytes());
    Ok(())
}

fn get(call: &mut Call<'_, '_>) -> Outcome {
    let as_json = wants_json(call, 3)?;
    may_wait(call)?;
    let (db, key) = (call.db(), call.args[2]);
    if key.len() > MAX_KEY_BYTES {
        return Err(format!("ERR a key has at most {MAX_KEY_BYTES} bytes, this one {}", key.len()).into());
    }
    let stored = record_key(call.txn.physical(db), key);
    let keys = call.server.store.space(Space::Keys);
    let (value, mut explanation) = keys.explain_get(&stored)?;
    let root = &mut explanation.root;
    root.what = format!(
        "record of the key \"{}\" of database {db}, which keyspace {} has as \"{}\"",
        key.escape_ascii(),
        keys.name(),
        stored.escape_ascii()
    );
    if let Some(record) = value.map(Record::decode).transpose()? {
        let kind = record.kind().name();
        root.outcome = match record.object() {
            None if !record.is_alive(call.txn.now_ms()) => format!("an expired {kind}"),
            None => format!("a {kind}, its value is in the record"),
            Some(object) => format!(
                "a {kind}, its elements are in keyspace {} behind \"{}\"",
                Space::Elements.name(),
                object.to_be_bytes().escape_ascii()
            ),
        };
    }
    reply(call, explanation, as_json)
}

/// The part of the keys of a database that is walked over.
struct KeyPart {
    prefix: Vec<u8>,
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
}

impl KeyPart {
    /// In the keyspace of records.
    fn bounds(&self, db: PhysicalDb) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let first = self.from.as_ref().max(Some(&self.prefix)).map_or(&[][..], Vec::as_slice);
        let behind = successor(record_key(db, &self.prefix));
        let to = self.to.as_ref().map(|to| record_key(db, to));
        let end = match (behind, to) {
            (Some(behind), Some(to)) => Bound::Excluded(behind.min(to)),
            (Some(end), None) | (None, Some(end)) => Bound::Excluded(end),
            (None, None) => Bound::Unbounded,
        };
        (Bound::Included(record_key(db, first)), end)
    }

    fn described(&self) -> String {
        let mut text = String::new();
        let parts = [("beginning with", Some(&self.prefix).filter(|prefix| !prefix.is_empty()))];
        for (words, key) in
            parts.into_iter().chain([("from", self.from.as_ref()), ("up to", self.to.as_ref())])
        {
            if let Some(key) = key {
                text.push_str(&format!(" {words} \"{}\"", key.escape_ascii()));
            }
        }
        text
    }
}

/// The least key that is greater than all that begin with these bytes; `None` if there is none.
fn successor(mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    while bytes.pop_if(|last| *last == u8::MAX).is_some() {}
    let last = bytes.last_mut()?;
    *last += 1;
    Some(bytes)
}

fn scan(call: &mut Call<'_, '_>) -> Outcome {
    let mut part = KeyPart { prefix: Vec::new(), from: None, to: None };
    let mut options = ScanOptions::default().limit(DEFAULT_LIMIT);
    let mut at = 2;
    let mut as_json = false;
    while at < call.args.len() {
        let value = call.args.get(at + 1).map(|value| value.to_vec());
        let taken = match (value, call.args.len() - at) {
            (Some(prefix), _) if call.is_word(at, "prefix") => {
                part.prefix = prefix;
                2
            }
            (Some(from), _) if call.is_word(at, "from") => {
                part.from = Some(from);
                2
            }
            (Some(to), _) if call.is_word(at, "to") => {
                part.to = Some(to);
                2
            }
            (Some(_), _) if call.is_word(at, "limit") => {
                options = options.limit(limit(call, at + 1)?);
                2
            }
            _ if call.is_word(at, "rev") => {
                options = options.reverse(true);
                1
            }
            (None, 1) if call.is_word(at, "json") => {
                as_json = true;
                1
            }
            _ => return Err(SYNTAX.into()),
        };
        at += taken;
    }
    may_wait(call)?;
    let db = call.db();
    let keys = call.server.store.space(Space::Keys);
    let mut explanation = keys.explain_scan(part.bounds(call.txn.physical(db)), options, |_, _| ())?;
    let reverse = if options.is_reverse { "reverse " } else { "" };
    let described = part.described();
    explanation.root.what =
        format!("{reverse}walk over the keys of database {db}{described}, in keyspace {}", keys.name());
    reply(call, explanation, as_json)
}

fn limit(call: &Call<'_, '_>, position: usize) -> Outcome<u64> {
    let limit = u64::try_from(call.integer(position)?).ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
    limit.ok_or_else(|| format!("ERR LIMIT is between 1 and {MAX_LIMIT}").into())
}

/// Records are what every write of a key changes.
fn put(call: &mut Call<'_, '_>) -> Outcome {
    let as_json = wants_json(call, 2)?;
    may_wait(call)?;
    let explanation = call.server.store.space(Space::Keys).explain_put()?;
    reply(call, explanation, as_json)
}

fn space(call: &mut Call<'_, '_>) -> Outcome {
    let as_json = wants_json(call, 2)?;
    may_wait(call)?;
    let explanation = call.server.store.database().explain_space()?;
    reply(call, explanation, as_json)
}

fn memory(call: &mut Call<'_, '_>) -> Outcome {
    let as_json = wants_json(call, 2)?;
    may_wait(call)?;
    let explanation = call.server.store.database().explain_memory();
    reply(call, explanation, as_json)
}

fn stall(call: &mut Call<'_, '_>) -> Outcome {
    let as_json = wants_json(call, 2)?;
    may_wait(call)?;
    let explanation = call.server.store.database().explain_stall();
    reply(call, explanation, as_json)
}

fn help(call: &mut Call<'_, '_>) -> Outcome {
    reply_help(
        call,
        &[
            "GET <key> [JSON]",
            "    Look <key> up, and explain how its record was found.",
            "MEMORY [JSON]",
            "    Explain where the memory of the process is.",
            "PUT [JSON]",
            "    Explain what becomes of a byte that is written: log, memtable, flushes, compactions.",
            "SCAN [PREFIX <prefix>] [FROM <key>] [TO <key>] [LIMIT <count>] [REV] [JSON]",
            "    Walk over keys of the database, 1000 unless <count> says otherwise, and explain",
            "    what was met.",
            "SPACE [JSON]",
            "    Explain where the bytes of the directory are.",
            "STALL [JSON]",
            "    Explain why writes are slowed or stopped, since when and until when.",
        ],
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_keys_stays_within_its_database() {
        let part = |prefix: &str, from: Option<&str>, to: Option<&str>| {
            let key = |key: Option<&str>| key.map(|key| key.as_bytes().to_vec());
            KeyPart { prefix: prefix.into(), from: key(from), to: key(to) }
        };
        let included = |bytes: &[u8]| Bound::Included(bytes.to_vec());
        let excluded = |bytes: &[u8]| Bound::Excluded(bytes.to_vec());
        let db = PhysicalDb(1);
        assert_eq!(part("", None, None).bounds(db), (included(b"\0\x01"), excluded(b"\0\x02")));
        assert_eq!(part("ab", None, None).bounds(db), (included(b"\0\x01ab"), excluded(b"\0\x01ac")));
        assert_eq!(
            part("ab", Some("aa"), Some("abc")).bounds(db),
            (included(b"\0\x01ab"), excluded(b"\0\x01abc"))
        );
        assert_eq!(
            part("ab", Some("abc"), Some("b")).bounds(db),
            (included(b"\0\x01abc"), excluded(b"\0\x01ac"))
        );
        let last = PhysicalDb(u16::MAX);
        assert_eq!(part("", None, None).bounds(last), (included(b"\xff\xff"), Bound::Unbounded));
        assert_eq!(part("", None, Some("b")).bounds(last), (included(b"\xff\xff"), excluded(b"\xff\xffb")));
    }
}
