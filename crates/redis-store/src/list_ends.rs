//! The first and the last elements of lists in memory, read ahead for pops.
//!
//! A pop reads the next elements from its end in one walk and keeps those that it does not remove; the next
//! pops take them from memory. So the elements of a queue are not looked up one by one.
//!
//! What holds:
//! * LE1. What the store's memory has of an end of a list are elements of the list as they are stored, each
//!   with its position. A transaction takes the ends of a list out before it removes one of its elements or
//!   sets one that is there. When its batch is written and its stripes are still held it gives back what it
//!   has left as it is. One that is rolled back, or fails on the way, forgets what it took. A push needs no
//!   look: it sets a position at which no element is.

use crate::kept_ends::BothEnds;
use esker::Value;

/// Elements that are read ahead at an end, beside those that a group is known to pop.
const ELEMENTS_AHEAD: usize = 64;

/// Bytes of elements that are read ahead at an end, and that are kept of it.
const BYTES_AHEAD: usize = 8 << 10;

/// Bytes of elements that are read at once for a group that is known to pop them: as many as a group changes.
const BYTES_OF_A_GROUP: usize = 1 << 20;

/// One end of a list.
#[derive(Debug, Default)]
pub(crate) struct ListEnd {
    /// Elements with their positions, the outermost last.
    elements: Vec<(u64, Value)>,
    /// Bytes of the elements.
    bytes: usize,
    /// Whether an element was popped there before: the first pop reads nothing ahead.
    was_popped: bool,
}

impl ListEnd {
    /// Whether the outermost element is the one at a position.
    fn begins_at(&self, position: u64) -> bool {
        self.elements.last().is_some_and(|(outermost, _)| *outermost == position)
    }

    /// How many elements are to be read before the one at `position` is popped, before so many further pops:
    /// none if they are in memory.
    pub(crate) fn to_read(&self, position: u64, pops_behind: usize) -> usize {
        let wanted = pops_behind + 1;
        let begins_there = self.begins_at(position);
        if begins_there && self.elements.len() >= wanted {
            return 0;
        }
        // Elements that were pushed onto those in memory will be popped before them, and no more follow.
        let goes_on = self.was_popped && (begins_there || self.elements.is_empty());
        if goes_on { wanted.max(ELEMENTS_AHEAD) } else { wanted }
    }

    /// Takes elements that were read from the end inwards, instead of those before.
    pub(crate) fn set(&mut self, mut elements: Vec<(u64, Value)>) {
        elements.reverse();
        self.bytes = elements.iter().map(|(_, value)| value.len()).sum();
        self.elements = elements;
    }

    /// Takes the element at a position off, if it is the outermost in memory.
    pub(crate) fn pop(&mut self, position: u64) -> Option<Value> {
        self.was_popped = true;
        let (_, value) = self.elements.pop_if(|(outermost, _)| *outermost == position)?;
        self.bytes -= value.len();
        Some(value)
    }

    fn forget(&mut self) {
        self.elements.clear();
        self.bytes = 0;
    }

    /// Whether a walk goes on that has read so many elements with so many bytes, for so many pops.
    pub(crate) fn goes_on(elements: usize, bytes: usize, pops: usize) -> bool {
        bytes < if elements < pops { BYTES_OF_A_GROUP } else { BYTES_AHEAD }
    }
}

/// Both ends of a list.
#[derive(Debug, Default)]
pub(crate) struct ListEnds {
    head: ListEnd,
    tail: ListEnd,
}

impl ListEnds {
    /// The end from which is popped.
    pub(crate) fn end(&mut self, is_tail: bool) -> &mut ListEnd {
        if is_tail { &mut self.tail } else { &mut self.head }
    }

    /// Forgets the other end if it has the element at a position that was popped.
    pub(crate) fn forget_other(&mut self, position: u64, is_tail: bool) {
        let other = self.end(!is_tail);
        let innermost = other.elements.first().map(|(innermost, _)| *innermost);
        if innermost
            .is_some_and(|innermost| if is_tail { position <= innermost } else { position >= innermost })
        {
            other.forget();
        }
    }
}

impl BothEnds for ListEnds {
    fn trim(&mut self) {
        for end in [&mut self.head, &mut self.tail] {
            if end.bytes > BYTES_AHEAD {
                end.forget();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(positions: impl IntoIterator<Item = u64>) -> ListEnd {
        let mut end = ListEnd::default();
        end.set(positions.into_iter().map(|position| (position, Value::owned(vec![b'v'; 10]))).collect());
        end
    }

    #[test]
    fn pops_take_the_elements_at_their_positions_alone() {
        let mut head = end([3, 4, 5]);
        assert!(head.pop(2).is_none(), "one that was pushed before them");
        assert!(head.pop(3).is_some() && head.pop(3).is_none() && head.pop(5).is_none());
        assert!(head.pop(4).is_some() && head.pop(5).is_some() && head.pop(6).is_none());
        assert_eq!(head.bytes, 0);
    }

    #[test]
    fn pops_of_one_end_are_noticed_at_the_other() {
        for (popped, is_tail, is_left) in
            [(9, true, true), (5, true, false), (4, true, false), (6, true, true)]
        {
            let mut ends = ListEnds { head: end([3, 4, 5]), tail: ListEnd::default() };
            ends.forget_other(popped, is_tail);
            assert_eq!(!ends.head.elements.is_empty(), is_left, "{popped}");
        }
        for (popped, is_left) in [(1, true), (5, false), (9, false)] {
            let mut ends = ListEnds { head: ListEnd::default(), tail: end([9, 7, 5]) };
            ends.forget_other(popped, false);
            assert_eq!(!ends.tail.elements.is_empty(), is_left, "{popped}");
        }
    }

    #[test]
    fn more_is_read_than_is_popped_once_an_end_is_a_queue() {
        let mut head = ListEnd::default();
        assert_eq!((head.to_read(3, 0), head.to_read(3, 15)), (1, 16));
        head.pop(2);
        assert_eq!((head.to_read(3, 0), head.to_read(3, 99)), (ELEMENTS_AHEAD, 100));
        head.set(vec![(3, Value::default()), (4, Value::default())]);
        assert_eq!((head.to_read(3, 1), head.to_read(3, 2)), (0, ELEMENTS_AHEAD));
        assert_eq!((head.to_read(2, 0), head.to_read(2, 1)), (1, 2), "a stack");
    }

    #[test]
    fn an_end_of_many_bytes_is_not_kept() {
        let mut ends = ListEnds { head: end(0..2000), tail: end([1]) };
        ends.trim();
        assert!(ends.head.elements.is_empty() && ends.head.bytes == 0);
        assert_eq!(ends.tail.elements.len(), 1);
    }
}
