//! ZADD and ZINCRBY: members and their scores.

use super::limits;
use crate::call::Call;
use crate::failure::{Outcome, SYNTAX};
use esker_redis_store::types::sorted_set::{SortedSet, check_member};
use esker_redis_store::{EventClass, Kind};

const NOT_A_NUMBER: &str = "ERR resulting score is not a number (NaN)";

/// What is done with members that are there, and with those that are not.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ScoreOptions {
    /// `NX`: only members that are not there.
    pub(crate) only_new: bool,
    /// `XX`: only members that are there.
    pub(crate) only_present: bool,
    /// `GT`: scores are only raised.
    only_greater: bool,
    /// `LT`: scores are only lowered.
    only_less: bool,
    /// `INCR`: scores are added to.
    increments: bool,
    /// `CH`: the reply counts changed scores as well.
    pub(crate) counts_changes: bool,
}

impl ScoreOptions {
    /// Takes the option at `position`; `false` if there is none.
    fn take(&mut self, call: &Call<'_, '_>, position: usize) -> bool {
        let options = [
            ("nx", &mut self.only_new),
            ("xx", &mut self.only_present),
            ("gt", &mut self.only_greater),
            ("lt", &mut self.only_less),
            ("incr", &mut self.increments),
            ("ch", &mut self.counts_changes),
        ];
        for (word, option) in options {
            if call.is_word(position, word) {
                *option = true;
                return true;
            }
        }
        false
    }

    fn check(self, pairs: usize) -> Outcome {
        if self.only_new && self.only_present {
            return Err("ERR XX and NX options at the same time are not compatible".into());
        }
        if [self.only_greater, self.only_less, self.only_new].iter().filter(|is_set| **is_set).count() > 1 {
            return Err("ERR GT, LT, and/or NX options at the same time are not compatible".into());
        }
        if self.increments && pairs > 1 {
            return Err("ERR INCR option supports a single increment-element pair".into());
        }
        Ok(())
    }

    /// The score that a member with the score `before` gets from an argument; `None` if it stays as it is.
    fn score(self, before: Option<f64>, score: f64) -> Outcome<Option<f64>> {
        let Some(before) = before else { return Ok((!self.only_present).then_some(score)) };
        if self.only_new {
            return Ok(None);
        }
        let score = if self.increments { before + score } else { score };
        if score.is_nan() {
            return Err(NOT_A_NUMBER.into());
        }
        let stays = self.only_less && score >= before || self.only_greater && score <= before;
        Ok((!stays).then_some(score))
    }
}

pub(super) fn zadd(call: &mut Call<'_, '_>) -> Outcome {
    with_options(call, ScoreOptions::default())
}

pub(super) fn zincrby(call: &mut Call<'_, '_>) -> Outcome {
    with_options(call, ScoreOptions { increments: true, ..ScoreOptions::default() })
}

fn with_options(call: &mut Call<'_, '_>, mut options: ScoreOptions) -> Outcome {
    let mut first = 2;
    while options.take(call, first) {
        first += 1;
    }
    let arguments = call.args.len() - first;
    if arguments == 0 || !arguments.is_multiple_of(2) {
        return Err(SYNTAX.into());
    }
    options.check(arguments / 2)?;
    let mut pairs = Vec::with_capacity(arguments / 2);
    for at in (first..call.args.len()).step_by(2) {
        pairs.push((call.double(at)?, call.args[at + 1]));
    }
    add(call, options, &pairs)
}

/// Adds members to the set of the first key, and replies.
pub(crate) fn add(call: &mut Call<'_, '_>, options: ScoreOptions, pairs: &[(f64, &[u8])]) -> Outcome {
    let mut entry = call.entry_of(1, Kind::SortedSet)?;
    let found = SortedSet::of(&entry)?;
    let (mut added, mut updated, mut last) = (0, 0, None);
    if found.is_some() || !options.only_present {
        let mut set = found.unwrap_or_default();
        pairs.iter().try_for_each(|(_, member)| check_member(member))?;
        let limits = limits(call);
        for (score, member) in pairs {
            let before = set.score_ahead(call.txn, member)?;
            last = options.score(before, *score)?;
            let Some(score) = last.filter(|score| before != Some(*score)) else { continue };
            set.set(call.txn, entry.physical(), member, before, score, &limits)?;
            match before {
                None => added += 1,
                Some(_) => updated += 1,
            }
        }
        if added + updated > 0 {
            set.write(call.txn, &mut entry)?;
            let event = if options.increments { "zincr" } else { "zadd" };
            call.changed(1, EventClass::SORTED_SET, event);
        }
    }
    match last {
        Some(score) if options.increments => call.reply.double(score),
        None if options.increments => call.reply.null(),
        _ => call.reply.integer(added + if options.counts_changes { updated } else { 0 }),
    }
    Ok(())
}
