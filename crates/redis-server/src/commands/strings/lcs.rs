//! LCS: the longest common subsequence of two strings.

use super::syntax;
use crate::call::Call;
use crate::failure::{Failure, Outcome};
use esker_redis_data::lcs::{self, Lcs, LcsTooLong};
use esker_redis_store::Kind;
use esker_redis_store::types::string;
use std::borrow::Cow;

/// Bytes that Redis takes for each cell of its table.
const REDIS_CELL_BYTES: u64 = 4;

#[derive(Debug, Default)]
struct LcsOptions {
    answers_length: bool,
    answers_matches: bool,
    with_lengths: bool,
    shortest_match: i64,
}

fn options(call: &Call<'_, '_>) -> Outcome<LcsOptions> {
    let mut options = LcsOptions::default();
    let mut position = 3;
    while position < call.args.len() {
        let is = |word| call.is_word(position, word);
        if is("idx") {
            options.answers_matches = true;
        } else if is("len") {
            options.answers_length = true;
        } else if is("withmatchlen") {
            options.with_lengths = true;
        } else if is("minmatchlen") && position + 1 < call.args.len() {
            position += 1;
            options.shortest_match = call.integer(position)?;
        } else {
            return syntax();
        }
        position += 1;
    }
    if options.answers_length && options.answers_matches {
        return Err("ERR If you want both the length and indexes, please just use IDX.".into());
    }
    Ok(options)
}

fn too_long(error: LcsTooLong) -> Failure {
    format!("ERR {error}").into()
}

pub(super) fn lcs(call: &mut Call<'_, '_>) -> Outcome {
    let entries = call.entries(1..3)?;
    let records: Vec<_> = entries.iter().map(|entry| entry.record()).collect();
    if records.iter().flatten().any(|record| record.kind() != Kind::String) {
        return Err("ERR The specified keys must contain string values".into());
    }
    let options = options(call)?;
    let mut cells = 1u64;
    for record in records.iter().copied() {
        let len = record.map_or(Ok(0), string::len)?;
        cells = cells.saturating_mul(len + 1);
    }
    if cells.saturating_mul(REDIS_CELL_BYTES) > call.server.longest_string_bytes() {
        return Err(too_long(LcsTooLong { cells }));
    }
    let txn = &*call.txn;
    let read = |at: usize| match records[at] {
        None => Ok(Cow::Borrowed(&b""[..])),
        Some(record) => string::whole(txn, record),
    };
    let (first, second) = (read(0)?, read(1)?);
    if options.answers_length {
        let length = lcs::length(&first, &second).map_err(too_long)?;
        call.reply.integer(length as i64);
        return Ok(());
    }
    let found = lcs::find(&first, &second).map_err(too_long)?;
    if options.answers_matches {
        reply_matches(call, &found, &options);
    } else {
        call.reply.bulk(&found.subsequence);
    }
    Ok(())
}

fn reply_matches(call: &mut Call<'_, '_>, found: &Lcs, options: &LcsOptions) {
    let reply = &mut call.reply;
    reply.map(2);
    reply.bulk(b"matches");
    let is_long = |length: usize| length as i64 >= options.shortest_match;
    let matches = || found.matches.iter().filter(|stretch| is_long(stretch.first.len()));
    reply.array(matches().count());
    for stretch in matches() {
        reply.array(2 + usize::from(options.with_lengths));
        for range in [&stretch.first, &stretch.second] {
            reply.array(2);
            reply.integer(range.start as i64);
            reply.integer(range.end as i64 - 1);
        }
        if options.with_lengths {
            reply.integer(stretch.first.len() as i64);
        }
    }
    reply.bulk(b"len");
    reply.integer(found.subsequence.len() as i64);
}
