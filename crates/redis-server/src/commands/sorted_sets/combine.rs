//! ZUNION, ZINTER and ZDIFF of sorted sets and sets, and their forms that store or count.

use super::{reply_member, store};
use crate::call::Call;
use crate::failure::{Outcome, SYNTAX, WRONG_TYPE};
use esker_redis_data::value;
use esker_redis_store::types::set;
use esker_redis_store::types::sorted_set::{SortedSet, Span};
use esker_redis_store::{Entry, Kind, Txn};
use esker_resp::double::parse_double;
use esker_resp::integer::parse_integer;
use esker_resp::writer::Aggregate as Replies;
use std::collections::BTreeMap;

/// What is done with the inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScoredOperation {
    Unite,
    Intersect,
    Subtract,
}

/// What is done with the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Answer,
    Store(&'static str),
    Count,
}

/// How the scores of one member become one.
#[derive(Clone, Copy, Debug)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn of(self, score: f64, other: f64) -> f64 {
        match self {
            // Infinities of both signs are nothing together.
            Self::Sum if (score + other).is_nan() => 0.0,
            Self::Sum => score + other,
            // A NaN, of an infinity and the weight 0, counts for nothing.
            Self::Min => {
                if other < score {
                    other
                } else {
                    score
                }
            }
            Self::Max => {
                if other > score {
                    other
                } else {
                    score
                }
            }
        }
    }
}

pub(super) fn zunion(call: &mut Call<'_, '_>) -> Outcome {
    combine(call, ScoredOperation::Unite, Purpose::Answer)
}

pub(super) fn zinter(call: &mut Call<'_, '_>) -> Outcome {
    combine(call, ScoredOperation::Intersect, Purpose::Answer)
}

pub(super) fn zdiff(call: &mut Call<'_, '_>) -> Outcome {
    combine(call, ScoredOperation::Subtract, Purpose::Answer)
}

pub(super) fn zintercard(call: &mut Call<'_, '_>) -> Outcome {
    combine(call, ScoredOperation::Intersect, Purpose::Count)
}

pub(super) fn zunionstore(call: &mut Call<'_, '_>) -> Outcome {
    combine(call, ScoredOperation::Unite, Purpose::Store("zunionstore"))
}

pub(super) fn zinterstore(call: &mut Call<'_, '_>) -> Outcome {
    combine(call, ScoredOperation::Intersect, Purpose::Store("zinterstore"))
}

pub(super) fn zdiffstore(call: &mut Call<'_, '_>) -> Outcome {
    combine(call, ScoredOperation::Subtract, Purpose::Store("zdiffstore"))
}

/// The members of an input.
enum Members {
    Sorted(SortedSet),
    /// Those of a key with a set, each with the score 1.
    Unsorted(Entry),
    Absent,
}

struct Input {
    members: Members,
    weight: f64,
}

impl Input {
    fn of(call: &mut Call<'_, '_>, position: usize) -> Outcome<Self> {
        let entry = call.read_entry(position)?;
        let members = match entry.record().map(|record| record.kind()) {
            None => Members::Absent,
            Some(Kind::SortedSet) => SortedSet::of(&entry)?.map_or(Members::Absent, Members::Sorted),
            Some(Kind::Set) => Members::Unsorted(entry),
            Some(_) => return Err(WRONG_TYPE.into()),
        };
        Ok(Self { members, weight: 1.0 })
    }

    fn len(&self) -> Outcome<u64> {
        Ok(match &self.members {
            Members::Sorted(set) => set.len(),
            Members::Unsorted(entry) => set::read(entry)?.len(),
            Members::Absent => 0,
        })
    }

    fn score(&self, txn: &Txn<'_>, member: &[u8]) -> Outcome<Option<f64>> {
        Ok(match &self.members {
            Members::Sorted(set) => set.score(txn, member)?,
            Members::Unsorted(entry) => set::read(entry)?.contains(txn, member)?.then_some(1.0),
            Members::Absent => None,
        })
    }

    /// Shows all members as long as `visit` says so, and passes its errors on.
    fn walk(&self, txn: &Txn<'_>, mut visit: impl FnMut(&[u8], f64) -> Outcome<bool>) -> Outcome {
        let mut outcome = Ok(true);
        match &self.members {
            Members::Sorted(set) => set.walk(txn, &Span::all(), false, |member, score| {
                outcome = visit(member, score);
                matches!(outcome, Ok(true))
            })?,
            Members::Unsorted(entry) => {
                for member in set::read(entry)?.items(txn) {
                    outcome = visit(&member?.0, 1.0);
                    if !matches!(outcome, Ok(true)) {
                        break;
                    }
                }
            }
            Members::Absent => {}
        }
        outcome.map(|_| ())
    }
}

/// The inputs and the options behind them.
struct Combination {
    inputs: Vec<Input>,
    aggregate: Aggregate,
    with_scores: bool,
    /// 0 for none.
    limit: u64,
}

/// Reads the arguments from the number of keys on.
fn parse(
    call: &mut Call<'_, '_>,
    first: usize,
    operation: ScoredOperation,
    purpose: Purpose,
) -> Outcome<Combination> {
    let count = call.integer(first)?;
    if count < 1 {
        let name = call.command.name();
        return Err(format!("ERR at least 1 input key is needed for '{name}' command").into());
    }
    let count = usize::try_from(count).ok().filter(|count| *count < call.args.len() - first).ok_or(SYNTAX)?;
    let inputs = (first + 1..=first + count).map(|position| Input::of(call, position));
    let mut query = Combination {
        inputs: inputs.collect::<Outcome<_>>()?,
        aggregate: Aggregate::Sum,
        with_scores: false,
        limit: 0,
    };
    let combines_scores = operation != ScoredOperation::Subtract && purpose != Purpose::Count;
    let mut at = first + count + 1;
    while at < call.args.len() {
        let values = call.args.len() - at - 1;
        if combines_scores && values >= count && call.is_word(at, "weights") {
            for (input, text) in query.inputs.iter_mut().zip(&call.args[at + 1..]) {
                input.weight = parse_double(text).ok_or("ERR weight value is not a float")?;
            }
            at += count;
        } else if combines_scores && values >= 1 && call.is_word(at, "aggregate") {
            query.aggregate = match call.args[at + 1].to_ascii_lowercase().as_slice() {
                b"sum" => Aggregate::Sum,
                b"min" => Aggregate::Min,
                b"max" => Aggregate::Max,
                _ => return Err(SYNTAX.into()),
            };
            at += 1;
        } else if purpose == Purpose::Answer && call.is_word(at, "withscores") {
            query.with_scores = true;
        } else if purpose == Purpose::Count && values >= 1 && call.is_word(at, "limit") {
            let limit = parse_integer(call.args[at + 1]).and_then(|limit| u64::try_from(limit).ok());
            query.limit = limit.ok_or("ERR LIMIT can't be negative")?;
            at += 1;
        } else {
            return Err(SYNTAX.into());
        }
        at += 1;
    }
    Ok(query)
}

/// A score with its weight; an infinity with the weight 0 is nothing.
fn weighted(score: f64, weight: f64) -> f64 {
    let score = weight * score;
    if score.is_nan() { 0.0 } else { score }
}

impl Combination {
    fn unite(&self, txn: &Txn<'_>) -> Outcome<BTreeMap<Vec<u8>, f64>> {
        let mut scores = BTreeMap::new();
        for input in &self.inputs {
            input.walk(txn, |member, score| {
                let score = weighted(score, input.weight);
                match scores.get_mut(member) {
                    Some(before) => *before = self.aggregate.of(*before, score),
                    None => drop(scores.insert(member.to_vec(), score)),
                }
                Ok(true)
            })?;
        }
        Ok(scores)
    }

    /// Shows the members that are in all inputs, of which the first is the smallest.
    fn intersect(&self, txn: &Txn<'_>, mut visit: impl FnMut(&[u8], f64) -> bool) -> Outcome {
        let Some((smallest, others)) = self.inputs.split_first() else { return Ok(()) };
        smallest.walk(txn, |member, score| {
            let mut combined = weighted(score, smallest.weight);
            for other in others {
                let Some(score) = other.score(txn, member)? else { return Ok(true) };
                combined = self.aggregate.of(combined, score * other.weight);
            }
            Ok(visit(member, combined))
        })
    }

    /// Shows the members of the first input that are in no other.
    fn subtract(&self, txn: &Txn<'_>, mut visit: impl FnMut(&[u8], f64) -> bool) -> Outcome {
        let Some((first, others)) = self.inputs.split_first() else { return Ok(()) };
        first.walk(txn, |member, score| {
            for other in others {
                if other.score(txn, member)?.is_some() {
                    return Ok(true);
                }
            }
            Ok(visit(member, score))
        })
    }
}

fn combine(call: &mut Call<'_, '_>, operation: ScoredOperation, purpose: Purpose) -> Outcome {
    let first = if matches!(purpose, Purpose::Store(_)) { 2 } else { 1 };
    let mut query = parse(call, first, operation, purpose)?;
    if operation != ScoredOperation::Subtract {
        // Also the order in which scores are added up, which the sum depends on.
        let mut by_len = Vec::with_capacity(query.inputs.len());
        for input in query.inputs {
            by_len.push((input.len()?, input));
        }
        by_len.sort_by_key(|(len, _)| *len);
        query.inputs = by_len.into_iter().map(|(_, input)| input).collect();
    }
    if purpose == Purpose::Count {
        let mut count = 0;
        query.intersect(call.txn, |_, _| {
            count += 1;
            count != query.limit
        })?;
        call.reply.integer(count as i64);
        return Ok(());
    }
    let mut members: Vec<(Vec<u8>, f64)> = Vec::new();
    let mut add = |member: &[u8], score: f64| {
        members.push((member.to_vec(), score));
        true
    };
    match operation {
        ScoredOperation::Unite => members = query.unite(call.txn)?.into_iter().collect(),
        ScoredOperation::Intersect => query.intersect(call.txn, &mut add)?,
        ScoredOperation::Subtract => query.subtract(call.txn, &mut add)?,
    }
    // No score is NaN, and both zeros are equal.
    members.sort_by(|(a, a_score), (b, b_score)| {
        a_score.partial_cmp(b_score).unwrap_or(std::cmp::Ordering::Equal).then_with(|| a.cmp(b))
    });
    if let Purpose::Store(event) = purpose {
        let mut stored = value::SortedSet::default();
        members.iter().for_each(|(member, score)| stored.push(member, *score));
        store(call, 1, &stored, event)?;
        call.reply.integer(members.len() as i64);
        return Ok(());
    }
    let place = call.reply.reserve(Replies::Array, members.len());
    let mut replies = 0;
    for (member, score) in &members {
        replies += reply_member(&mut call.reply, member, query.with_scores.then_some(*score));
    }
    call.reply.fill(place, replies);
    Ok(())
}
