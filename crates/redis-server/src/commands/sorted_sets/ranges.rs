//! ZRANGE in all its forms, to the client or into a key.

use super::{bounds, open, reply_member, store};
use crate::call::Call;
use crate::failure::{Outcome, SYNTAX};
use esker_redis_data::value;
use esker_redis_store::Txn;
use esker_redis_store::types::sorted_set::{MemberBound, ScoreBound, SortedSet, Span};
use esker_resp::writer::Aggregate;

const LIMIT_OF_RANKS: &str =
    "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX";
const SCORES_OF_MEMBERS: &str = "ERR syntax error, WITHSCORES not supported in combination with BYLEX";

/// By what a range is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Member,
}

/// The bounds themselves.
enum Range<'c> {
    Ranks(i64, i64),
    Scores(ScoreBound, ScoreBound),
    Members(MemberBound<'c>, MemberBound<'c>),
}

/// What is asked for.
struct RangeQuery<'c> {
    range: Range<'c>,
    from_end: bool,
    with_scores: bool,
    offset: i64,
    /// Negative for all.
    limit: i64,
}

pub(super) fn zrange(call: &mut Call<'_, '_>) -> Outcome {
    answer(call, None, None)
}

pub(super) fn zrevrange(call: &mut Call<'_, '_>) -> Outcome {
    answer(call, Some(By::Rank), Some(true))
}

pub(super) fn zrangebyscore(call: &mut Call<'_, '_>) -> Outcome {
    answer(call, Some(By::Score), Some(false))
}

pub(super) fn zrevrangebyscore(call: &mut Call<'_, '_>) -> Outcome {
    answer(call, Some(By::Score), Some(true))
}

pub(super) fn zrangebylex(call: &mut Call<'_, '_>) -> Outcome {
    answer(call, Some(By::Member), Some(false))
}

pub(super) fn zrevrangebylex(call: &mut Call<'_, '_>) -> Outcome {
    answer(call, Some(By::Member), Some(true))
}

/// Reads the arguments from the key's at `first` on. What the command's name says already is no option.
fn parse<'c>(
    call: &Call<'c, '_>,
    first: usize,
    mut by: Option<By>,
    mut from_end: Option<bool>,
    stores: bool,
) -> Outcome<RangeQuery<'c>> {
    let (mut with_scores, mut offset, mut limit) = (false, 0, -1);
    let mut at = first + 3;
    while at < call.args.len() {
        if !stores && call.is_word(at, "withscores") {
            with_scores = true;
        } else if call.is_word(at, "limit") && at + 2 < call.args.len() {
            (offset, limit) = (call.integer(at + 1)?, call.integer(at + 2)?);
            at += 2;
        } else if from_end.is_none() && call.is_word(at, "rev") {
            from_end = Some(true);
        } else if by.is_none() && call.is_word(at, "bylex") {
            by = Some(By::Member);
        } else if by.is_none() && call.is_word(at, "byscore") {
            by = Some(By::Score);
        } else {
            return Err(SYNTAX.into());
        }
        at += 1;
    }
    let (by, from_end) = (by.unwrap_or(By::Rank), from_end.unwrap_or(false));
    if limit != -1 && by == By::Rank {
        return Err(LIMIT_OF_RANKS.into());
    }
    if with_scores && by == By::Member {
        return Err(SCORES_OF_MEMBERS.into());
    }
    // From the end the greater bound comes first.
    let (min, max) = if from_end { (first + 2, first + 1) } else { (first + 1, first + 2) };
    let range = match by {
        By::Rank => Range::Ranks(call.integer(first + 1)?, call.integer(first + 2)?),
        By::Score => bounds::scores(call, min, max).map(|(min, max)| Range::Scores(min, max))?,
        By::Member => bounds::members(call, min, max).map(|(min, max)| Range::Members(min, max))?,
    };
    Ok(RangeQuery { range, from_end, with_scores, offset, limit })
}

impl RangeQuery<'_> {
    /// The members that are asked for, as a span; `None` if there are none.
    fn span(&self, txn: &Txn<'_>, set: &SortedSet) -> Outcome<Option<Span>> {
        let span = match self.range {
            Range::Ranks(start, end) => {
                let Some((first, last)) = bounds::ranks(start, end, set.len()) else { return Ok(None) };
                return Ok(Some(set.span_of_ranks(txn, first, last, self.from_end)?));
            }
            Range::Scores(min, max) => Span::of_scores(min, max),
            Range::Members(min, max) => set.span_of_members(txn, min, max)?,
        };
        match u64::try_from(self.offset) {
            Ok(0) => Ok(Some(span)),
            Ok(offset) => Ok(set.without_first(txn, &span, self.from_end, offset)?),
            // Redis steps over members until there are none.
            Err(_) => Ok(None),
        }
    }

    /// Shows the members to `visit`.
    fn walk(&self, txn: &Txn<'_>, set: &SortedSet, mut visit: impl FnMut(&[u8], f64)) -> Outcome {
        let mut left = u64::try_from(self.limit).unwrap_or(u64::MAX);
        let Some(span) = self.span(txn, set)?.filter(|_| left > 0) else { return Ok(()) };
        set.walk(txn, &span, self.from_end, |member, score| {
            visit(member, score);
            left -= 1;
            left > 0
        })?;
        Ok(())
    }
}

fn answer(call: &mut Call<'_, '_>, by: Option<By>, from_end: Option<bool>) -> Outcome {
    let query = parse(call, 1, by, from_end, false)?;
    let Some(set) = open(call, 1)? else {
        call.reply.array(0);
        return Ok(());
    };
    let place = call.reply.reserve(Aggregate::Array, 10);
    let mut replies = 0;
    query.walk(call.txn, &set, |member, score| {
        replies += reply_member(&mut call.reply, member, query.with_scores.then_some(score));
    })?;
    call.reply.fill(place, replies);
    Ok(())
}

pub(super) fn zrangestore(call: &mut Call<'_, '_>) -> Outcome {
    let query = parse(call, 2, None, None, true)?;
    let mut members = value::SortedSet::default();
    if let Some(set) = open(call, 2)? {
        query.walk(call.txn, &set, |member, score| members.push(member, score))?;
    }
    store(call, 1, &members, "zrangestore")?;
    call.reply.integer(members.scores.len() as i64);
    Ok(())
}
