//! Scores, ranks and counts of members.

use super::{bounds, open};
use crate::call::Call;
use crate::failure::Outcome;
use esker_redis_store::types::sorted_set::Span;

pub(super) fn zscore(call: &mut Call<'_, '_>) -> Outcome {
    let score = match open(call, 1)? {
        Some(set) => set.score(call.txn, call.args[2])?,
        None => None,
    };
    match score {
        Some(score) => call.reply.double(score),
        None => call.reply.null(),
    }
    Ok(())
}

pub(super) fn zmscore(call: &mut Call<'_, '_>) -> Outcome {
    let members = &call.args[2..];
    let scores = match open(call, 1)? {
        Some(set) => set.scores(call.txn, members)?,
        None => vec![None; members.len()],
    };
    call.reply.array(scores.len());
    for score in scores {
        match score {
            Some(score) => call.reply.double(score),
            None => call.reply.null(),
        }
    }
    Ok(())
}

pub(super) fn zcard(call: &mut Call<'_, '_>) -> Outcome {
    let members = open(call, 1)?.map_or(0, |set| set.len());
    call.reply.integer(members as i64);
    Ok(())
}

pub(super) fn zcount(call: &mut Call<'_, '_>) -> Outcome {
    let (min, max) = bounds::scores(call, 2, 3)?;
    let count = match open(call, 1)? {
        Some(set) => set.count(call.txn, &Span::of_scores(min, max))?,
        None => 0,
    };
    call.reply.integer(count as i64);
    Ok(())
}

pub(super) fn zlexcount(call: &mut Call<'_, '_>) -> Outcome {
    let (min, max) = bounds::members(call, 2, 3)?;
    let count = match open(call, 1)? {
        Some(set) => set.count(call.txn, &set.span_of_members(call.txn, min, max)?)?,
        None => 0,
    };
    call.reply.integer(count as i64);
    Ok(())
}

pub(super) fn zrank(call: &mut Call<'_, '_>) -> Outcome {
    rank(call, false)
}

pub(super) fn zrevrank(call: &mut Call<'_, '_>) -> Outcome {
    rank(call, true)
}

fn rank(call: &mut Call<'_, '_>, from_end: bool) -> Outcome {
    let member = call.args[2];
    let Some(set) = open(call, 1)? else {
        call.reply.null();
        return Ok(());
    };
    match set.score(call.txn, member)? {
        Some(score) => {
            let rank = set.rank(call.txn, member, score)?;
            let rank = if from_end { set.len() - 1 - rank } else { rank };
            call.reply.integer(rank as i64);
        }
        None => call.reply.null(),
    }
    Ok(())
}
