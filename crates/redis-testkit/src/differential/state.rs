//! Compares what both servers hold: keys, types, encodings, times to live, values, and DUMP of each given to
//! RESTORE of the other.

use super::pair::{Disagreement, Pair, Reply, Side, disagreement};
use super::request::{Request, words};
use super::rules::{Rule, agree, rule_of};
use esker_resp::value::Value;

/// The databases that generated requests can reach.
const DATABASES: [&str; 3] = ["0", "1", "15"];
/// What a server must have for this.
pub(super) const COMMANDS: [&str; 8] =
    ["select", "dbsize", "keys", "type", "object|encoding", "pttl", "dump", "restore"];
/// Where payloads are restored to; no generated key has this name.
const RESTORED: &[u8] = b"restored";

/// Compares the state behind request `at`, by connections of its own.
pub(super) fn compare_state(pair: &mut Pair, at: usize) -> Result<(), Disagreement> {
    for database in DATABASES {
        let questions = [words(&format!("SELECT {database}")), words("DBSIZE"), words("KEYS *")];
        let keys = ask(pair, at, &questions)?.pop();
        let Some(Value::Array(mut keys) | Value::Set(mut keys)) = keys else { continue };
        keys.sort_by_key(|key| format!("{key:?}"));
        let keys: Vec<Vec<u8>> = keys.into_iter().filter_map(bulk).collect();
        let questions = keys
            .iter()
            .flat_map(|key| ["TYPE", "OBJECT ENCODING", "PTTL"].map(|command| with(command, key, "")));
        let answers = ask(pair, at, &questions.collect::<Vec<_>>())?;
        let kinds: Vec<Value> = answers.into_iter().step_by(3).collect();
        compare_values(pair, at, &keys, &kinds)?;
    }
    Ok(())
}

/// The commands that show a whole value.
fn readers(kind: &Value) -> &'static [(&'static str, &'static str)] {
    let Value::Status(kind) = kind else { return &[] };
    match &kind[..] {
        b"string" => &[("GET", "")],
        b"list" => &[("LRANGE", "0 -1")],
        b"set" => &[("SMEMBERS", "")],
        b"zset" => &[("ZRANGE", "0 -1 WITHSCORES")],
        b"hash" => &[("HGETALL", "")],
        b"stream" => &[("XRANGE", "- +"), ("XINFO STREAM", "FULL COUNT 0")],
        _ => &[],
    }
}

/// Compares values, and restores what each side dumps on the other.
fn compare_values(pair: &mut Pair, at: usize, keys: &[Vec<u8>], kinds: &[Value]) -> Result<(), Disagreement> {
    let questions = |key: &[u8], kind: &Value| {
        readers(kind).iter().map(|(command, options)| with(command, key, options)).collect::<Vec<_>>()
    };
    let all: Vec<Request> = keys.iter().zip(kinds).flat_map(|(key, kind)| questions(key, kind)).collect();
    let originals = pair.call_all(&all);
    for (question, (left, right)) in all.iter().zip(&originals) {
        if !same(question, left, right) {
            return Err(disagreement(at, question, &left.raw, &right.raw));
        }
    }
    let dumps: Vec<Request> = keys.iter().map(|key| with("DUMP", key, "")).collect();
    let dumps = pair.call_all(&dumps);
    let mut originals = originals.into_iter();
    for ((key, kind), (from_left, from_right)) in keys.iter().zip(kinds).zip(dumps) {
        let originals: Vec<_> = originals.by_ref().take(readers(kind).len()).collect();
        let reads = questions(RESTORED, kind);
        let to_right = pair.right.restore_and_read(from_left.value, &reads);
        let to_left = pair.left.restore_and_read(from_right.value, &reads);
        for (number, (left, right)) in originals.iter().enumerate() {
            for (original, copies) in [(left, &to_right), (right, &to_left)] {
                let copy = &copies[number];
                if !same(&reads[number], original, copy) && original.value != copy.value {
                    let note = words("... and the same when its DUMP is restored on the other side");
                    let question = [questions(key, kind)[number].clone(), note].concat();
                    return Err(disagreement(at, &question, &original.raw, &copy.raw));
                }
            }
        }
    }
    Ok(())
}

impl Side {
    /// Restores a payload, reads the value, and deletes it. Where it is refused, the reads are its error.
    fn restore_and_read(&mut self, payload: Value, reads: &[Request]) -> Vec<Reply> {
        let payload = bulk(payload).unwrap_or_default();
        let restore = [&b"RESTORE"[..], RESTORED, b"0", &payload, b"REPLACE"].map(<[u8]>::to_vec);
        let restored = self.call(&restore);
        if restored.raw != b"+OK\r\n" {
            return vec![restored; reads.len()];
        }
        let copies = reads.iter().map(|read| self.call(read)).collect();
        self.call(&[b"DEL".to_vec(), RESTORED.to_vec()]);
        copies
    }
}

fn bulk(value: Value) -> Option<Vec<u8>> {
    if let Value::Bulk(bytes) = value { Some(bytes) } else { None }
}

/// Asks both and returns the left replies.
fn ask(pair: &mut Pair, at: usize, questions: &[Request]) -> Result<Vec<Value>, Disagreement> {
    let replies = pair.call_all(questions);
    let wrong = questions.iter().zip(&replies).find(|(question, (left, right))| !same(question, left, right));
    if let Some((question, (left, right))) = wrong {
        return Err(disagreement(at, question, &left.raw, &right.raw));
    }
    Ok(replies.into_iter().map(|(left, _)| left.value).collect())
}

fn same(request: &Request, left: &Reply, right: &Reply) -> bool {
    left.raw == right.raw
        || rule_of(request) != Rule::Exact && agree(rule_of(request), &left.value, &right.value)
}

/// A command, a key, and options.
fn with(command: &str, key: &[u8], options: &str) -> Request {
    [words(command), vec![key.to_vec()], words(options)].concat()
}
