//! Sorted sets whose members are entries: finding, setting and removing them.

use super::place::{self, Span, behind, place, sortable};
use super::ranks::{self, Ranks, key};
use crate::layout::Space;
use crate::order_ends::{EndMember, OrderEnds};
use crate::txn::Txn;
use crate::types::malformed;
use esker::{Result, Value};
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Members that are removed at once.
const MEMBERS_OF_A_ROUND: usize = 1024;

/// Bytes of a place that `low` and `high` keep: every change writes them.
const BOUND_BYTES: usize = 128;

/// The value of an order's entry whose score is the negative zero, which has the place of the other one.
const NEGATIVE_ZERO: &[u8] = &[1];

/// What the record of a split set says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Split {
    pub(super) object: u64,
    pub(super) len: u64,
    pub(super) ranks: Ranks,
    /// No member lies before it.
    low: Vec<u8>,
    /// All members lie before it; empty if it is unknown.
    high: Vec<u8>,
}

impl Split {
    pub(super) fn new(object: u64) -> Self {
        Self { object, len: 0, ranks: Ranks::default(), low: Vec::new(), high: Vec::new() }
    }

    /// The flags and the rest of a payload.
    pub(super) fn decode(payload: &[u8]) -> Option<(u8, Self)> {
        let (object, rest) = payload.split_first_chunk::<8>()?;
        let (flags, rest) = rest.split_first()?;
        let (len, rest) = rest.split_first_chunk::<8>()?;
        let (levels, rest) = rest.split_first()?;
        let (top_nodes, rest) = rest.split_first_chunk::<4>()?;
        let (low_bytes, rest) = rest.split_first_chunk::<2>()?;
        let (low, high) = rest.split_at_checked(usize::from(u16::from_le_bytes(*low_bytes)))?;
        let ranks = Ranks { levels: *levels, top_nodes: u32::from_le_bytes(*top_nodes) };
        let (object, len) = (u64::from_le_bytes(*object), u64::from_le_bytes(*len));
        Some((*flags, Self { object, len, ranks, low: low.to_vec(), high: high.to_vec() }))
    }

    pub(super) fn encode(&self, flags: u8) -> Vec<u8> {
        let mut payload = Vec::with_capacity(24 + self.low.len() + self.high.len());
        payload.extend_from_slice(&self.object.to_le_bytes());
        payload.push(flags);
        payload.extend_from_slice(&self.len.to_le_bytes());
        payload.push(self.ranks.levels);
        payload.extend_from_slice(&self.ranks.top_nodes.to_le_bytes());
        payload.extend_from_slice(&(self.low.len() as u16).to_le_bytes());
        payload.extend_from_slice(&self.low);
        payload.extend_from_slice(&self.high);
        payload
    }

    pub(super) fn element_key(&self, txn: &Txn<'_>, member: &[u8]) -> Vec<u8> {
        let hash = xxh3_64_with_seed(member, txn.store().hash_seed());
        let mut bytes = Vec::with_capacity(16 + member.len());
        bytes.extend_from_slice(&self.object.to_be_bytes());
        bytes.extend_from_slice(&hash.to_be_bytes());
        bytes.extend_from_slice(member);
        bytes
    }

    pub(super) fn score(&self, txn: &Txn<'_>, member: &[u8]) -> Result<Option<f64>> {
        let key = self.element_key(txn, member);
        // The engine refuses keys that are too long; such a member was never put.
        match super::check_member(member) {
            Ok(()) => txn.get(Space::Elements, &key)?.map(|value| stored_score(&value)).transpose(),
            Err(_) => Ok(None),
        }
    }

    /// The same from memory if it was looked up ahead.
    pub(super) fn score_ahead(&self, txn: &mut Txn<'_>, member: &[u8]) -> Result<Option<f64>> {
        if super::check_member(member).is_err() {
            return Ok(None);
        }
        let stored = txn.element(&self.element_key(txn, member))?;
        stored.map(|value| stored_score(&value)).transpose()
    }

    pub(super) fn scores(&self, txn: &Txn<'_>, members: &[&[u8]]) -> Result<Vec<Option<f64>>> {
        if members.iter().any(|member| super::check_member(member).is_err()) {
            return members.iter().map(|member| self.score(txn, member)).collect();
        }
        let keys: Vec<_> = members.iter().map(|member| self.element_key(txn, member)).collect();
        let values = txn.multi_get(Space::Elements, &keys)?;
        values.into_iter().map(|value| value.map(|value| stored_score(&value)).transpose()).collect()
    }

    /// Sets the score of a member that has `before`.
    pub(super) fn set(
        &mut self,
        txn: &mut Txn<'_>,
        member: &[u8],
        before: Option<f64>,
        score: f64,
    ) -> Result<()> {
        self.put(txn, member, before, score)?;
        if before.is_none() {
            self.len += 1;
        }
        let new = place(score, member);
        if self.ranks.levels > 0 {
            match before {
                // Between the same neighbours, probably; the counts need both changes all the same.
                Some(before) if sortable(before) != sortable(score) => {
                    let old = place(before, member);
                    ranks::adjust(txn, &mut self.ranks, self.object, &old, false)?;
                    ranks::adjust(txn, &mut self.ranks, self.object, &new, true)
                }
                Some(_) => Ok(()),
                None => ranks::adjust(txn, &mut self.ranks, self.object, &new, true),
            }
        } else {
            self.build_ranks(txn)
        }
    }

    /// The entries of a member, and the ends of the order; no counts.
    pub(super) fn put(
        &mut self,
        txn: &mut Txn<'_>,
        member: &[u8],
        before: Option<f64>,
        score: f64,
    ) -> Result<()> {
        let new = place(score, member);
        let old = before.filter(|before| sortable(*before) != sortable(score));
        let old = old.map(|before| place(before, member));
        if let Some(mut ends) = txn.take_order_ends(self.object) {
            old.iter().chain([&new]).for_each(|place| ends.forget(place));
            txn.give_order_ends(self.object, ends);
        }
        if let Some(old) = old {
            txn.delete(Space::Orders, &key(self.object, 0, &old))?;
        }
        let value = if score == 0.0 && score.is_sign_negative() { NEGATIVE_ZERO } else { &[] };
        txn.put(Space::Orders, &key(self.object, 0, &new), value)?;
        txn.put(Space::Elements, &self.element_key(txn, member), &score.to_le_bytes())?;
        if new < self.low {
            self.low = lower_bound(&new);
        }
        if !self.high.is_empty() && new >= self.high {
            self.high = upper_bound(new);
        }
        Ok(())
    }

    /// Makes the rank index of a set that is large enough and has none.
    pub(super) fn build_ranks(&mut self, txn: &mut Txn<'_>) -> Result<()> {
        if self.ranks.levels == 0 && self.len > ranks::MIN_MEMBERS {
            self.ranks = ranks::build(txn, self.object)?;
        }
        Ok(())
    }

    /// Counts members that [`Split::put`] has put.
    pub(super) fn has_new(&mut self, members: u64) {
        self.len += members;
    }

    /// Removes a member that is there with this score.
    pub(super) fn remove(&mut self, txn: &mut Txn<'_>, member: &[u8], score: f64) -> Result<()> {
        let place = place(score, member);
        if let Some(mut ends) = txn.take_order_ends(self.object) {
            ends.forget(&place);
            txn.give_order_ends(self.object, ends);
        }
        self.remove_at(txn, member, &place)
    }

    fn remove_at(&mut self, txn: &mut Txn<'_>, member: &[u8], place: &[u8]) -> Result<()> {
        txn.delete(Space::Elements, &self.element_key(txn, member))?;
        txn.delete(Space::Orders, &key(self.object, 0, place))?;
        self.len = self.len.checked_sub(1).ok_or_else(|| malformed("number of members"))?;
        if self.ranks.levels > 0 {
            ranks::adjust(txn, &mut self.ranks, self.object, place, false)?;
        }
        Ok(())
    }

    /// Removes and returns up to `count` members from an end, in order from there, before so many further
    /// commands on this set.
    pub(super) fn pop(
        &mut self,
        txn: &mut Txn<'_>,
        from_end: bool,
        count: u64,
        commands_behind: usize,
    ) -> Result<Vec<(Vec<u8>, f64)>> {
        let mut popped = Vec::new();
        // If it fails on the way, the ends are forgotten.
        let mut ends = txn.take_order_ends(self.object).unwrap_or_default();
        // A walk over changed entries costs several times as much, so what the whole group pops is read
        // before it changes any.
        let wanted = commands_behind + 1;
        if count == 1 && commands_behind > 0 && txn.leaves_alone(Space::Orders) {
            let end = if from_end { &mut ends.last } else { &mut ends.first };
            if end.len() < wanted {
                end.set(self.outermost(txn, from_end, end.members_ahead(wanted))?);
            }
        }
        while (popped.len() as u64) < count.min(self.len + popped.len() as u64) {
            let end = if from_end { &mut ends.last } else { &mut ends.first };
            let next = match end.pop() {
                Some(next) => next,
                None => {
                    let left = usize::try_from(count).unwrap_or(usize::MAX) - popped.len();
                    end.set(self.outermost(txn, from_end, end.members_ahead(left))?);
                    end.pop().ok_or_else(|| malformed("number of members"))?
                }
            };
            let member = next.place.get(8..).ok_or_else(|| malformed("order of a sorted set"))?;
            // It may be one of the other end's as well.
            ends.forget_other(&next.place, from_end);
            self.remove_at(txn, member, &next.place)?;
            self.has_popped(next.score, member, from_end);
            popped.push((member.to_vec(), next.score));
        }
        txn.give_order_ends(self.object, ends);
        Ok(popped)
    }

    /// Up to `count` members from an end, in order from there.
    fn outermost(&self, txn: &Txn<'_>, from_end: bool, count: usize) -> Result<Vec<EndMember>> {
        let (mut members, mut bytes) = (Vec::new(), 0);
        self.walk(txn, &Span::all(), from_end, |member, score| {
            let place = place(score, member);
            bytes += place.len();
            members.push(EndMember { place, score });
            members.len() < count && !OrderEnds::is_enough(bytes)
        })?;
        Ok(members)
    }

    /// Notes that all members up to one, from an end, have been removed.
    pub(super) fn has_popped(&mut self, score: f64, member: &[u8], from_end: bool) {
        let place = place(score, member);
        match from_end {
            true => self.high = upper_bound(place),
            false => self.low = lower_bound(&place),
        }
    }

    /// Removes the members of a span, some at a time.
    pub(super) fn remove_span(&mut self, txn: &mut Txn<'_>, span: &Span) -> Result<u64> {
        let is_from_start = !self.has_member_before(txn, span)?;
        let mut rest = span.clone();
        let mut removed = 0;
        loop {
            let mut round = Vec::new();
            self.walk(txn, &rest, false, |member, score| {
                round.push((member.to_vec(), score));
                round.len() < MEMBERS_OF_A_ROUND
            })?;
            let Some((last, last_score)) = round.last() else { return Ok(removed) };
            // What was removed is not walked over again.
            rest.start = place(*last_score, last);
            if is_from_start {
                self.has_popped(*last_score, last, false);
            }
            for (member, score) in &round {
                self.remove(txn, member, *score)?;
            }
            removed += round.len() as u64;
        }
    }

    fn has_member_before(&self, txn: &Txn<'_>, span: &Span) -> Result<bool> {
        let before = Span { start: Vec::new(), end: Some(span.start.clone()) };
        let mut found = false;
        self.walk(txn, &before, true, |_, _| {
            found = true;
            false
        })?;
        Ok(found)
    }

    /// Shows the members of a span in order, or from its end, as long as `visit` says so.
    pub(super) fn walk(
        &self,
        txn: &Txn<'_>,
        span: &Span,
        from_end: bool,
        mut visit: impl FnMut(&[u8], f64) -> bool,
    ) -> Result<()> {
        let Some(range) = self.keys(span) else { return Ok(()) };
        txn.visit(Space::Orders, range, from_end, |key, value| {
            let (member, score) = self.member(key, value)?;
            Ok(visit(member, score))
        })
    }

    /// The keys of a span in the order; `None` for an empty one.
    pub(super) fn keys(&self, span: &Span) -> Option<Range<Vec<u8>>> {
        let start = span.start.as_slice().max(&self.low);
        let high = Some(self.high.as_slice()).filter(|high| !high.is_empty());
        let end = match (span.end.as_deref(), high) {
            (Some(end), Some(high)) => Some(end.min(high)),
            (end, high) => end.or(high),
        };
        if end.is_some_and(|end| end <= start) {
            return None;
        }
        let end = end.map_or_else(|| ranks::level_end(self.object, 0), |end| key(self.object, 0, end));
        Some(key(self.object, 0, start)..end)
    }

    fn member<'k>(&self, key: &'k [u8], value: &[u8]) -> Result<(&'k [u8], f64)> {
        let (score, member) = key
            .get(9..)
            .and_then(|place| place.split_first_chunk::<8>())
            .ok_or_else(|| malformed("order of a sorted set"))?;
        let score = place::score_of(u64::from_be_bytes(*score));
        Ok((member, if value.is_empty() { score } else { -score }))
    }
}

/// The score in the value of an element.
pub(super) fn stored_score(value: &Value) -> Result<f64> {
    let bits = crate::layout::number(value).ok_or_else(|| malformed("score"))?;
    Ok(f64::from_bits(bits))
}

/// A place that is not behind `place`, and short.
fn lower_bound(place: &[u8]) -> Vec<u8> {
    place[..place.len().min(BOUND_BYTES)].to_vec()
}

/// A place behind `place`, and short.
fn upper_bound(place: Vec<u8>) -> Vec<u8> {
    match place.first_chunk::<8>() {
        Some(score) if place.len() > BOUND_BYTES => (u64::from_be_bytes(*score) + 1).to_be_bytes().to_vec(),
        _ => behind(place),
    }
}
