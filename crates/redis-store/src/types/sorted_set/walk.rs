//! Walks over sorted sets and counts of spans, by scores, names and ranks.

use super::place::{MemberBound, Span, behind, place, sortable};
use super::{Form, SortedSet, ranks};
use crate::txn::Txn;
use esker::Result;

/// Members that are stepped over rather than asked of the rank index, which costs as much.
const STEPS: u64 = 256;

impl SortedSet {
    /// Shows the members of a span in order, or from its end, as long as `visit` says so.
    ///
    /// # Errors
    /// Those of the engine, here and below.
    pub fn walk(
        &self,
        txn: &Txn<'_>,
        span: &Span,
        from_end: bool,
        mut visit: impl FnMut(&[u8], f64) -> bool,
    ) -> Result<()> {
        match &self.form {
            Form::Packed(packed) => {
                let within = packed.iter().filter(|member| span.contains(member.score, member.member));
                if from_end {
                    let members: Vec<_> = within.collect();
                    let _all = members.iter().rev().all(|member| visit(member.member, member.score));
                } else {
                    let _all = { within }.all(|member| visit(member.member, member.score));
                }
                Ok(())
            }
            Form::Split(split) => split.walk(txn, span, from_end, visit),
        }
    }

    /// The number of members of a span.
    ///
    /// # Errors
    /// As [`SortedSet::walk`].
    pub fn count(&self, txn: &Txn<'_>, span: &Span) -> Result<u64> {
        if span.is_empty() {
            return Ok(0);
        }
        match &self.form {
            Form::Split(split) if split.ranks.levels > 0 => {
                let before = ranks::rank(txn, split.ranks, split.object, &span.start)?;
                let until = match &span.end {
                    Some(end) => ranks::rank(txn, split.ranks, split.object, end)?,
                    None => split.len,
                };
                Ok(until.saturating_sub(before))
            }
            _ => {
                let mut count = 0;
                self.walk(txn, span, false, |_, _| {
                    count += 1;
                    true
                })?;
                Ok(count)
            }
        }
    }

    /// The number of members before the one with this name and score.
    ///
    /// # Errors
    /// As [`SortedSet::walk`].
    pub fn rank(&self, txn: &Txn<'_>, member: &[u8], score: f64) -> Result<u64> {
        self.count(txn, &Span { start: Vec::new(), end: Some(place(score, member)) })
    }

    /// The span of the members with ranks from `first` to `last`, which exist, from the start or from the
    /// end.
    ///
    /// # Errors
    /// As [`SortedSet::walk`].
    pub fn span_of_ranks(&self, txn: &Txn<'_>, first: u64, last: u64, from_end: bool) -> Result<Span> {
        let highest = self.len().saturating_sub(1);
        let (first, last) = if from_end {
            (highest.saturating_sub(last), highest.saturating_sub(first))
        } else {
            (first, last)
        };
        let start = if first == 0 { Vec::new() } else { self.place_at(txn, first)? };
        let end = if last >= highest { None } else { Some(behind(self.place_at(txn, last)?)) };
        Ok(Span { start, end })
    }

    /// What is left of a span without its first members, or its last ones; `None` for nothing.
    ///
    /// # Errors
    /// As [`SortedSet::walk`].
    pub fn without_first(
        &self,
        txn: &Txn<'_>,
        span: &Span,
        from_end: bool,
        members: u64,
    ) -> Result<Option<Span>> {
        let len = self.count(txn, span)?;
        if members >= len {
            return Ok(None);
        }
        let before = self.count(txn, &Span { start: Vec::new(), end: Some(span.start.clone()) })?;
        Ok(Some(match from_end {
            false => Span { start: self.place_at(txn, before + members)?, end: span.end.clone() },
            true => {
                let last = before + (len - 1 - members);
                Span { start: span.start.clone(), end: Some(behind(self.place_at(txn, last)?)) }
            }
        }))
    }

    fn place_at(&self, txn: &Txn<'_>, rank: u64) -> Result<Vec<u8>> {
        let behind = (self.len() - 1).saturating_sub(rank);
        match &self.form {
            Form::Split(split) if split.ranks.levels > 0 && rank.min(behind) > STEPS => {
                ranks::place_at(txn, split.ranks, split.object, rank)
            }
            _ => {
                let mut steps = rank.min(behind);
                let mut found = Vec::new();
                self.walk(txn, &Span::all(), behind < rank, |member, score| {
                    if steps == 0 {
                        found = place(score, member);
                    }
                    steps = steps.wrapping_sub(1);
                    steps != u64::MAX
                })?;
                Ok(found)
            }
        }
    }

    /// The span of the members from one bound to the other.
    ///
    /// By names it has an order only where all scores are equal, and there it is found at once. With others
    /// it is what Redis makes of it, from the first member within the bounds to before the first one beyond.
    ///
    /// # Errors
    /// As [`SortedSet::walk`].
    pub fn span_of_members(&self, txn: &Txn<'_>, min: MemberBound<'_>, max: MemberBound<'_>) -> Result<Span> {
        let (mut lowest, mut highest) = (0.0, 0.0);
        for (from_end, score_of) in [(false, &mut lowest), (true, &mut highest)] {
            self.walk(txn, &Span::all(), from_end, |_, score| {
                *score_of = score;
                false
            })?;
        }
        if sortable(lowest) == sortable(highest) {
            return Ok(Span::of_members(lowest, min, max));
        }
        let mut span: Option<Span> = None;
        self.walk(txn, &Span::all(), false, |member, score| match &mut span {
            None => {
                if !is_before(member, min) {
                    let is_within = !is_behind(member, max);
                    let start = place(score, member);
                    let end = (!is_within).then(|| start.clone());
                    span = Some(Span { start, end });
                    return is_within;
                }
                true
            }
            Some(span) => {
                if is_behind(member, max) {
                    span.end = Some(place(score, member));
                }
                span.end.is_none()
            }
        })?;
        Ok(span.unwrap_or(Span { start: Vec::new(), end: Some(Vec::new()) }))
    }
}

fn is_before(member: &[u8], min: MemberBound<'_>) -> bool {
    match min {
        MemberBound::First => false,
        MemberBound::Last => true,
        MemberBound::Including(bound) => member < bound,
        MemberBound::Excluding(bound) => member <= bound,
    }
}

fn is_behind(member: &[u8], max: MemberBound<'_>) -> bool {
    match max {
        MemberBound::First => true,
        MemberBound::Last => false,
        MemberBound::Including(bound) => member > bound,
        MemberBound::Excluding(bound) => member >= bound,
    }
}
