//! ZREM and ZREMRANGEBY...: members that go.

use super::{bounds, open_to_change, write_after_removal};
use crate::call::Call;
use crate::failure::Outcome;
use esker_redis_store::types::sorted_set::{SortedSet, Span};

pub(super) fn zrem(call: &mut Call<'_, '_>) -> Outcome {
    let mut removed = 0;
    if let Some((mut entry, mut set)) = open_to_change(call, 1)? {
        for member in &call.args[2..] {
            removed += i64::from(set.remove(call.txn, member)?.is_some());
        }
        if removed > 0 {
            write_after_removal(call, 1, &mut entry, &set, "zrem")?;
        }
    }
    call.reply.integer(removed);
    Ok(())
}

pub(super) fn by_rank(call: &mut Call<'_, '_>) -> Outcome {
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    remove(call, "zremrangebyrank", |call, set| match bounds::ranks(start, end, set.len()) {
        Some((first, last)) => Ok(Some(set.span_of_ranks(call.txn, first, last, false)?)),
        None => Ok(None),
    })
}

pub(super) fn by_score(call: &mut Call<'_, '_>) -> Outcome {
    let (min, max) = bounds::scores(call, 2, 3)?;
    remove(call, "zremrangebyscore", |_, _| Ok(Some(Span::of_scores(min, max))))
}

pub(super) fn by_member(call: &mut Call<'_, '_>) -> Outcome {
    let (min, max) = bounds::members(call, 2, 3)?;
    remove(call, "zremrangebylex", |call, set| Ok(Some(set.span_of_members(call.txn, min, max)?)))
}

fn remove(
    call: &mut Call<'_, '_>,
    event: &'static str,
    span: impl FnOnce(&mut Call<'_, '_>, &SortedSet) -> Outcome<Option<Span>>,
) -> Outcome {
    let mut removed = 0;
    if let Some((mut entry, mut set)) = open_to_change(call, 1)? {
        if let Some(span) = span(call, &set)? {
            removed = set.remove_span(call.txn, &span)?;
        }
        if removed > 0 {
            write_after_removal(call, 1, &mut entry, &set, event)?;
        }
    }
    call.reply.integer(removed as i64);
    Ok(())
}
