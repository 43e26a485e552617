//! The first and the last members of sorted sets in memory, read ahead for pops.
//!
//! A pop reads the next members of the order in one walk and keeps those that it does not remove; the next
//! pops take them from memory. So a queue is not searched for each of its members.
//!
//! What holds:
//! * OE1. What the store's memory has of an end of a set are the outermost members of the stored order,
//!   without a gap. A transaction takes the ends of a set out before it changes the set's order. When its
//!   batch is written and its stripes are still held it gives back what it has left as it is. One that is
//!   rolled back, or fails on the way, forgets what it took.

use crate::kept_ends::BothEnds;

/// Members that are read ahead at an end.
const MEMBERS_AHEAD: usize = 32;

/// Bytes of the places of members that are read ahead at an end, with one member more.
const BYTES_AHEAD: usize = 4 << 10;

/// A member: its place in the order and its score.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EndMember {
    pub(crate) place: Vec<u8>,
    pub(crate) score: f64,
}

/// One end of a set, the outermost member last.
#[derive(Clone, Debug, Default)]
pub(crate) struct End {
    members: Vec<EndMember>,
    /// Whether something was popped there before: the first pop reads nothing ahead.
    was_popped: bool,
}

impl End {
    /// Takes the outermost member off.
    pub(crate) fn pop(&mut self) -> Option<EndMember> {
        let member = self.members.pop()?;
        self.was_popped = true;
        Some(member)
    }

    /// The number of members.
    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// Takes members that were read from the end inwards, instead of those before.
    pub(crate) fn set(&mut self, mut members: Vec<EndMember>) {
        members.reverse();
        self.members = members;
    }

    /// How many members are worth reading if `count` are to be popped.
    pub(crate) fn members_ahead(&self, count: usize) -> usize {
        if self.was_popped { count.max(MEMBERS_AHEAD) } else { count }
    }

    /// Whether a place lies among the members, or farther out.
    fn covers(&self, place: &[u8], is_last: bool) -> bool {
        let innermost = self.members.first();
        innermost
            .is_some_and(|member| if is_last { *place >= *member.place } else { *place <= *member.place })
    }
}

/// Both ends of a set.
#[derive(Clone, Debug, Default)]
pub(crate) struct OrderEnds {
    pub(crate) first: End,
    pub(crate) last: End,
}

impl OrderEnds {
    /// Forgets the ends that a change at a place changes.
    pub(crate) fn forget(&mut self, place: &[u8]) {
        for (end, is_last) in [(&mut self.first, false), (&mut self.last, true)] {
            if end.covers(place, is_last) {
                end.members.clear();
            }
        }
    }

    /// The same for a member that was taken off one end: forgets the other end if it has it as well.
    pub(crate) fn forget_other(&mut self, place: &[u8], is_last: bool) {
        let other = if is_last { &mut self.first } else { &mut self.last };
        if other.covers(place, !is_last) {
            other.members.clear();
        }
    }

    /// Whether so many bytes were read ahead that it is enough.
    pub(crate) fn is_enough(bytes: usize) -> bool {
        bytes > BYTES_AHEAD
    }
}

impl BothEnds for OrderEnds {
    /// What is read ahead of a set is bounded.
    fn trim(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(place: u8) -> EndMember {
        EndMember { place: vec![place], score: 0.0 }
    }

    #[test]
    fn changes_among_the_members_or_farther_out_are_noticed() {
        let mut ends = OrderEnds::default();
        ends.first.set(vec![member(3), member(5)]);
        ends.last.set(vec![member(9), member(7)]);
        ends.forget(&[6]);
        assert_eq!((ends.first.members.len(), ends.last.members.len()), (2, 2));
        for (place, lengths) in [(1, (0, 2)), (3, (0, 2)), (5, (0, 2)), (7, (2, 0)), (10, (2, 0))] {
            let mut ends = ends.clone();
            ends.forget(&[place]);
            assert_eq!((ends.first.members.len(), ends.last.members.len()), lengths, "{place}");
        }
        assert_eq!(ends.first.pop(), Some(member(3)));
        assert_eq!(ends.last.pop(), Some(member(9)));
    }
}
