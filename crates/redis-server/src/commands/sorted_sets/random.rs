//! ZRANDMEMBER and ZSCAN.

use super::{open, reply_member};
use crate::call::Call;
use crate::commands::random_count::{MOST_REPEATED_BYTES, RandomCount, random_count, reply_too_long};
use crate::commands::scan_options::{ScanOptions, cursor};
use crate::failure::{Outcome, SYNTAX};
use esker_redis_data::value;
use esker_redis_store::types::sorted_set::Chance;
use esker_resp::double::write_double;
use esker_resp::integer::write_integer;
use esker_resp::writer::Aggregate;

/// Scores up to here that are integers are kept as such in a listpack, and ZSCAN answers what is kept there.
const LISTPACK_INTEGERS: f64 = (i64::MAX / 2) as f64;

pub(super) fn zrandmember(call: &mut Call<'_, '_>) -> Outcome {
    if call.args.len() > 2 {
        return several(call);
    }
    let Some(set) = open(call, 1)? else {
        call.reply.null();
        return Ok(());
    };
    set.random(call.txn, &mut Chance::default(), |member, _| call.reply.bulk(member))?;
    Ok(())
}

fn several(call: &mut Call<'_, '_>) -> Outcome {
    random_count(call, 2, false)?;
    let with_scores = call.args.len() == 4 && call.is_word(3, "withscores");
    if call.args.len() > 3 && !with_scores {
        return Err(SYNTAX.into());
    }
    let count = random_count(call, 2, with_scores)?;
    let Some(set) = open(call, 1)? else {
        call.reply.array(0);
        return Ok(());
    };
    let place = call.reply.reserve(Aggregate::Array, 10);
    let (mut replies, mut bytes, mut chance) = (0, 0, Chance::default());
    let mut write = |member: &[u8], score: f64| {
        replies += reply_member(&mut call.reply, member, with_scores.then_some(score));
        bytes += member.len();
    };
    match count {
        RandomCount::Different(count) => set.random_choice(call.txn, &mut chance, count, write)?,
        RandomCount::Repeated(count) => {
            for _ in 0..count {
                set.random(call.txn, &mut chance, &mut write)?;
            }
            if bytes > MOST_REPEATED_BYTES {
                return Err(reply_too_long());
            }
        }
    }
    call.reply.fill(place, replies);
    Ok(())
}

pub(super) fn zscan(call: &mut Call<'_, '_>) -> Outcome {
    let cursor = cursor(call.args[2])?;
    let (mut next, mut found, mut is_listpack) = (0, value::SortedSet::default(), false);
    // Redis does not read the options for a key that is not there.
    if let Some(set) = open(call, 1)? {
        let options = ScanOptions::read(call, 3, false)?;
        is_listpack = set.is_listpack();
        next = set.scan(call.txn, cursor, options.count, |member, score| {
            if options.takes(member) {
                found.push(member, score);
            }
        })?;
    }
    call.reply.array(2);
    call.reply.bulk(next.to_string().as_bytes());
    call.reply.array(found.scores.len() * 2);
    let mut text = Vec::new();
    for (member, score) in found.iter() {
        call.reply.bulk(member);
        text.clear();
        if is_listpack && score.trunc() == score && score.abs() <= LISTPACK_INTEGERS {
            write_integer(score as i64, &mut text);
        } else {
            write_double(score, &mut text);
        }
        call.reply.bulk(&text);
    }
    Ok(())
}
