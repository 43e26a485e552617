//! Commands that list keys: KEYS, SCAN, RANDOMKEY.
//!
//! Keys lie in order, so a pattern that begins with a literal text reads the keys of that beginning alone.

use super::Family;
use super::scan_options::{ScanOptions, cursor};
use crate::call::Call;
use crate::failure::Outcome;
use crate::key_cursors::PageStart;
use esker_redis_store::layout::{record_key, user_key};
use esker_redis_store::{Record, Space, prefix_end};
use esker_resp::glob::{Case, matches};
use esker_resp::writer::Aggregate;
use std::ops::Bound;

pub(crate) const COMMANDS: Family = &[("keys", list), ("randomkey", pick), ("scan", scan)];

/// The bytes with which everything begins that matches `pattern`.
fn literal_beginning(pattern: &[u8]) -> &[u8] {
    let end = pattern.iter().position(|byte| b"*?[\\".contains(byte));
    &pattern[..end.unwrap_or(pattern.len())]
}

/// A star alone stands for all keys, the empty one included, which it does not match elsewhere.
fn matches_key(pattern: &[u8], key: &[u8]) -> bool {
    pattern == b"*" || matches(pattern, key, Case::Sensitive)
}

/// The records of the client's database whose keys can match `pattern`, as a range.
fn records_of(call: &Call<'_, '_>, pattern: &[u8]) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let beginning = literal_beginning(pattern);
    let first = record_key(call.txn.physical(call.db()), beginning);
    let end = match prefix_end(&first) {
        _ if !pattern.is_empty() && beginning.len() == pattern.len() => Bound::Included(first.clone()),
        Some(end) => Bound::Excluded(end),
        None => Bound::Unbounded,
    };
    (Bound::Included(first), end)
}

fn list(call: &mut Call<'_, '_>) -> Outcome {
    let pattern = call.args[1];
    let place = call.reply.reserve(Aggregate::Array, 10);
    let mut count = 0;
    let range = records_of(call, pattern);
    let mut entries = call.txn.range(Space::Keys, range);
    while let Some((record_key, value)) = entries.next().transpose()? {
        let key = user_key(&record_key);
        if matches_key(pattern, key) && Record::decode(value)?.is_alive(call.txn.now_ms()) {
            call.reply.bulk(key);
            count += 1;
        }
    }
    call.reply.fill(place, count);
    Ok(())
}

fn pick(call: &mut Call<'_, '_>) -> Outcome {
    match call.txn.random_key(call.db())? {
        Some(key) => call.reply.bulk(&key),
        None => call.reply.null(),
    }
    Ok(())
}

fn scan(call: &mut Call<'_, '_>) -> Outcome {
    let cursor = cursor(call.args[1])?;
    let options = ScanOptions::read(call, 2, true)?;
    let admits = |key: &[u8], record: &Record| {
        options.takes(key)
            && options.type_name.is_none_or(|kind| record.kind().name().as_bytes().eq_ignore_ascii_case(kind))
    };
    let (db, physical) = (call.db(), call.txn.physical(call.db()));
    let (mut start, end) = records_of(call, options.pattern().unwrap_or_default());
    if cursor != 0 {
        let mut failure = None;
        let common = || {
            common_beginning(call).unwrap_or_else(|error| {
                failure = Some(error);
                Vec::new()
            })
        };
        let from = match call.server.key_cursors.position(db, cursor, common) {
            PageStart::At(key) => Bound::Included(record_key(physical, &key)),
            PageStart::Behind(key) => Bound::Excluded(record_key(physical, &key)),
        };
        if let Some(failure) = failure {
            return Err(failure);
        }
        start = later(start, from);
    }
    let is_empty = match (&start, &end) {
        (Bound::Included(start), Bound::Included(end)) => start > end,
        (Bound::Included(start) | Bound::Excluded(start), Bound::Included(end) | Bound::Excluded(end)) => {
            start >= end
        }
        _ => false,
    };
    let (mut found, mut last) = (Vec::new(), None);
    if !is_empty {
        let mut expired = Vec::new();
        let mut entries = call.txn.range(Space::Keys, (start, end));
        for _ in 0..options.count {
            let Some((key, value)) = entries.next().transpose()? else { break };
            let record = Record::decode(value)?;
            if !record.is_alive(call.txn.now_ms()) {
                expired.push(key.clone());
            } else if admits(user_key(&key), &record) {
                found.push(key.clone());
            }
            last = Some(key);
        }
        if entries.next().transpose()?.is_none() {
            last = None;
        }
        drop(entries);
        expired.iter().for_each(|key| call.txn.note_expired(db, user_key(key)));
    }
    let next = match last {
        None => 0,
        Some(last) => call.server.key_cursors.cursor(db, user_key(&last), &common_beginning(call)?),
    };
    call.reply.array(2);
    call.reply.bulk(next.to_string().as_bytes());
    call.reply.array(found.len());
    found.iter().for_each(|key| call.reply.bulk(user_key(key)));
    Ok(())
}

/// The bytes with which all keys of the client's database begin: those that its first and its last share.
fn common_beginning(call: &Call<'_, '_>) -> Outcome<Vec<u8>> {
    let mut ends = call.txn.range(Space::Keys, records_of(call, &[]));
    let Some((first, _)) = ends.next().transpose()? else { return Ok(Vec::new()) };
    let Some((last, _)) = ends.next_back().transpose()? else { return Ok(user_key(&first).to_vec()) };
    let (first, last) = (user_key(&first), user_key(&last));
    Ok(first.iter().zip(last).take_while(|(a, b)| a == b).map(|(byte, _)| *byte).collect())
}

/// The later of two beginnings of a range.
fn later(a: Bound<Vec<u8>>, b: Bound<Vec<u8>>) -> Bound<Vec<u8>> {
    let place = |bound: &Bound<Vec<u8>>| match bound {
        Bound::Included(key) => (key.clone(), false),
        Bound::Excluded(key) => (key.clone(), true),
        Bound::Unbounded => (Vec::new(), false),
    };
    if place(&a) > place(&b) { a } else { b }
}
