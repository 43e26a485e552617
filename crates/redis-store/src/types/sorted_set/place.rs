//! Order of members as bytes: the place of a member is its score, made sortable, and its name.

use std::cmp::Ordering;

/// The sign bit of a double.
const SIGN: u64 = 1 << 63;

/// A score as a number that sorts as the score does. Both zeros are one place, as Redis compares them.
pub(super) fn sortable(score: f64) -> u64 {
    let bits = if score == 0.0 { 0 } else { score.to_bits() };
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

/// The score of such a number; never the negative zero.
pub(super) fn score_of(sortable: u64) -> f64 {
    f64::from_bits(if sortable & SIGN == 0 { !sortable } else { sortable ^ SIGN })
}

/// The place of a member.
pub(super) fn place(score: f64, member: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 + member.len());
    bytes.extend_from_slice(&sortable(score).to_be_bytes());
    bytes.extend_from_slice(member);
    bytes
}

/// Compares a member's place with a place, without making it.
pub(super) fn compare(score: f64, member: &[u8], place: &[u8]) -> Ordering {
    let (score, name) = (sortable(score).to_be_bytes(), member);
    let of_score = score.len().min(place.len());
    score.as_slice().cmp(&place[..of_score]).then_with(|| match place.get(8..) {
        Some(other) => name.cmp(other),
        None => Ordering::Greater,
    })
}

/// A bound of a range of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreBound {
    /// The score.
    pub score: f64,
    /// Whether the score itself is outside.
    pub is_exclusive: bool,
}

/// A bound of a range of members with one score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberBound<'b> {
    /// Before all members.
    First,
    /// Behind all members.
    Last,
    /// At a member, which is inside.
    Including(&'b [u8]),
    /// At a member, which is outside.
    Excluding(&'b [u8]),
}

/// A range of places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first place, inside.
    pub(super) start: Vec<u8>,
    /// The end, outside; `None` behind all.
    pub(super) end: Option<Vec<u8>>,
}

impl Span {
    /// All members.
    pub fn all() -> Self {
        Self { start: Vec::new(), end: None }
    }

    /// The members with scores from one bound to the other.
    pub fn of_scores(min: ScoreBound, max: ScoreBound) -> Self {
        // No score but NaN is the greatest number, so one can be added.
        let start = sortable(min.score) + u64::from(min.is_exclusive);
        let end = sortable(max.score) + u64::from(!max.is_exclusive);
        Self { start: start.to_be_bytes().to_vec(), end: Some(end.to_be_bytes().to_vec()) }
    }

    /// The members from one bound to the other, all of which have `score`.
    pub(super) fn of_members(score: f64, min: MemberBound<'_>, max: MemberBound<'_>) -> Self {
        Self { start: edge(score, min, false), end: Some(edge(score, max, true)) }
    }

    /// Whether no place is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }

    /// Whether a member's place is in it.
    pub(super) fn contains(&self, score: f64, member: &[u8]) -> bool {
        compare(score, member, &self.start) != Ordering::Less
            && self.end.as_ref().is_none_or(|end| compare(score, member, end) == Ordering::Less)
    }
}

/// The place between members that a bound means; as an end, a member that is inside lies before it.
fn edge(score: f64, bound: MemberBound<'_>, is_end: bool) -> Vec<u8> {
    match bound {
        MemberBound::First => sortable(score).to_be_bytes().to_vec(),
        MemberBound::Last => (sortable(score) + 1).to_be_bytes().to_vec(),
        MemberBound::Including(member) if is_end => behind(place(score, member)),
        MemberBound::Excluding(member) if !is_end => behind(place(score, member)),
        MemberBound::Including(member) | MemberBound::Excluding(member) => place(score, member),
    }
}

/// The first place behind a place.
pub(super) fn behind(mut place: Vec<u8>) -> Vec<u8> {
    place.push(0);
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_sort_as_scores_and_members_do() {
        let scores =
            [f64::NEG_INFINITY, f64::MIN, -1.5, -5e-324, 0.0, 5e-324, 1.0, 1.5, f64::MAX, f64::INFINITY];
        let members: [&[u8]; 4] = [b"", b"\0", b"a", b"ab"];
        let sorted: Vec<_> =
            scores.iter().flat_map(|score| members.iter().map(|member| (*score, *member))).collect();
        for pair in sorted.windows(2) {
            let [(a, b), (c, d)] = [pair[0], pair[1]];
            assert!(place(a, b) < place(c, d), "{a} {b:?} {c} {d:?}");
            assert_eq!(compare(a, b, &place(c, d)), Ordering::Less);
            assert_eq!(compare(c, d, &place(a, b)), Ordering::Greater);
            assert_eq!(compare(a, b, &place(a, b)), Ordering::Equal);
        }
        assert_eq!(sortable(-0.0), sortable(0.0));
        for score in scores {
            assert_eq!(score_of(sortable(score)).to_bits(), score.to_bits());
        }
        assert_eq!(compare(1.0, b"", &[]), Ordering::Greater);
    }

    #[test]
    fn spans_hold_what_their_bounds_say() {
        let bound = |score, is_exclusive| ScoreBound { score, is_exclusive };
        let closed = Span::of_scores(bound(1.0, false), bound(2.0, false));
        let open = Span::of_scores(bound(1.0, true), bound(2.0, true));
        for (score, in_closed, in_open) in [(0.5, false, false), (1.0, true, false), (1.5, true, true)] {
            assert_eq!(closed.contains(score, b"m"), in_closed);
            assert_eq!(open.contains(score, b"m"), in_open);
        }
        assert!(closed.contains(2.0, b"m") && !open.contains(2.0, b"m"));
        assert!(Span::of_scores(bound(1.0, true), bound(1.0, true)).is_empty());
        assert!(!Span::of_scores(bound(f64::INFINITY, false), bound(f64::INFINITY, false)).is_empty());
        let span = Span::of_members(0.0, MemberBound::Excluding(b"a"), MemberBound::Including(b"c"));
        for (member, is_in) in [("a", false), ("a\0", true), ("b", true), ("c", true), ("c\0", false)] {
            assert_eq!(span.contains(0.0, member.as_bytes()), is_in, "{member:?}");
        }
        assert!(Span::of_members(0.0, MemberBound::Last, MemberBound::First).is_empty());
    }
}
