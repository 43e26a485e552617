//! DEBUG DIGEST: a signature of the data that does not depend on the order in which they lie, computed as
//! Redis computes it, so that servers of both kinds can be compared.
//!
//! A digest is 20 bytes, at first zero. Adding bytes whose order does not matter exclusive-ors their SHA-1
//! into it; adding bytes whose order matters does the same and takes the SHA-1 of the result.

use crate::call::Call;
use crate::failure::Outcome;
use esker_redis_data::Value;
use esker_redis_store::layout::{Space, record_key, user_key};
use esker_redis_store::{Entry, types};
use esker_resp::double::write_double;

#[derive(Clone, Copy, Debug, Default)]
struct Digest([u8; 20]);

fn sha1(bytes: &[u8]) -> [u8; 20] {
    let hex = esker_lua::sha1_hex(bytes);
    let digit = |byte: u8| if byte.is_ascii_digit() { byte - b'0' } else { byte - b'a' + 10 };
    let mut sum = [0; 20];
    for (byte, pair) in sum.iter_mut().zip(hex.chunks_exact(2)) {
        *byte = digit(pair[0]) << 4 | digit(pair[1]);
    }
    sum
}

impl Digest {
    /// Adds bytes whose order among others does not matter.
    fn add(&mut self, bytes: &[u8]) {
        self.0.iter_mut().zip(sha1(bytes)).for_each(|(byte, other)| *byte ^= other);
    }

    /// Adds bytes whose order among others matters.
    fn append(&mut self, bytes: &[u8]) {
        self.add(bytes);
        self.0 = sha1(&self.0);
    }

    fn append_value(&mut self, value: &Value, expires: bool) {
        self.append(&type_number(value).to_be_bytes());
        match value {
            Value::String(bytes) => self.append(bytes),
            Value::List(elements) => elements.iter().for_each(|element| self.append(element)),
            Value::Set(members) => members.iter().for_each(|member| self.add(member)),
            Value::SortedSet(set) => {
                for (member, score) in set.iter() {
                    let mut text = Vec::new();
                    write_double(score, &mut text);
                    self.add_pair(member, &text);
                }
            }
            Value::Hash(pairs) => {
                let mut strings = pairs.iter();
                while let (Some(field), Some(value)) = (strings.next(), strings.next()) {
                    self.add_pair(field, value);
                }
            }
            Value::Stream(stream) => {
                for (index, id) in stream.entries.ids().iter().enumerate() {
                    self.append(format!("{}.{}", id.milliseconds, id.sequence).as_bytes());
                    stream.entries.strings(index).for_each(|string| self.append(string));
                }
            }
        }
        if expires {
            self.add(b"!!expire!!");
        }
    }

    /// Adds two strings that belong together, in any order among other pairs.
    fn add_pair(&mut self, first: &[u8], second: &[u8]) {
        let mut pair = Self::default();
        pair.append(first);
        pair.append(second);
        self.add(&pair.0);
    }

    fn hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The numbers of types in Redis.
fn type_number(value: &Value) -> u32 {
    match value {
        Value::String(_) => 0,
        Value::List(_) => 1,
        Value::Set(_) => 2,
        Value::SortedSet(_) => 3,
        Value::Hash(_) => 4,
        Value::Stream(_) => 6,
    }
}

/// The digest of all databases. Keys are read one after the other; those that have expired are left out.
pub(super) fn all(call: &mut Call<'_, '_>) -> Outcome {
    let mut digest = Digest::default();
    for db in 0..call.server.store.databases() {
        let (mut next, mut is_empty) = (record_key(call.txn.physical(db), b""), true);
        let end = u32::from(call.txn.physical(db).0) + 1;
        loop {
            let found = match u16::try_from(end) {
                Ok(end) => call.txn.range(Space::Keys, &next[..]..&end.to_be_bytes()[..]).next(),
                Err(_) => call.txn.range(Space::Keys, &next[..]..).next(),
            };
            let Some((record_key, _)) = found.transpose()? else { break };
            next = [&record_key[..], &[0]].concat();
            let key = user_key(&record_key).to_vec();
            let entry = call.txn.entry(db, &key)?;
            if entry.record().is_none() {
                continue;
            }
            if std::mem::take(&mut is_empty) {
                digest.append(&u32::from(db).to_be_bytes());
            }
            let mut of_key = Digest::default();
            of_key.append(&key);
            append_entry(call, &entry, &mut of_key)?;
            digest.add(&of_key.0);
        }
    }
    call.reply.status(digest.hex().as_bytes());
    Ok(())
}

/// The digests of values, zero for keys that are not there.
pub(super) fn values(call: &mut Call<'_, '_>) -> Outcome {
    call.reply.array(call.args.len() - 2);
    for position in 2..call.args.len() {
        let entry = call.entry(position)?;
        let mut digest = Digest::default();
        if entry.record().is_some() {
            append_entry(call, &entry, &mut digest)?;
        }
        call.reply.status(digest.hex().as_bytes());
    }
    Ok(())
}

fn append_entry(call: &Call<'_, '_>, entry: &Entry, digest: &mut Digest) -> Outcome {
    let value = types::load(call.txn, entry)?;
    digest.append_value(&value, entry.expiry_ms().is_some());
    Ok(())
}
