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

use esker::Value;
use std::collections::BTreeMap;

/// Lists whose ends are kept.
const KEPT_LISTS: usize = 1024;

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

/// The ends of lists by the numbers of their objects.
#[derive(Debug, Default)]
pub(crate) struct EndsOfLists {
    /// The list that was put last, apart: most groups pop from one list.
    last: Option<(u64, ListEnds)>,
    others: BTreeMap<u64, ListEnds>,
}

impl EndsOfLists {
    /// Takes the ends of a list out.
    pub(crate) fn take(&mut self, object: u64) -> Option<ListEnds> {
        match self.last.take_if(|(last, _)| *last == object) {
            Some((_, ends)) => Some(ends),
            None if self.others.is_empty() => None,
            None => self.others.remove(&object),
        }
    }

    /// Puts the ends of a list that has none.
    pub(crate) fn put(&mut self, object: u64, ends: ListEnds) {
        if let Some((before, ends)) = self.last.replace((object, ends)) {
            self.others.insert(before, ends);
        }
    }

    /// Moves all to others, which are forgotten before if they have become too many. Of ends that take much
    /// memory nothing is kept.
    pub(crate) fn move_to(&mut self, others: &mut Self) {
        let own = std::mem::take(self);
        for (object, mut ends) in own.last.into_iter().chain(own.others) {
            for end in [&mut ends.head, &mut ends.tail] {
                if end.bytes > BYTES_AHEAD {
                    end.forget();
                }
            }
            if others.others.len() >= KEPT_LISTS {
                others.clear();
            }
            others.put(object, ends);
        }
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.last.is_none() && self.others.is_empty()
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
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
    fn the_ends_of_few_lists_and_of_few_bytes_are_kept() {
        let (mut own, mut kept) = (EndsOfLists::default(), EndsOfLists::default());
        for object in 0..3000 {
            own.put(object, ListEnds { head: end([1]), tail: ListEnd::default() });
            own.put(object + 10_000, ListEnds::default());
            own.move_to(&mut kept);
            assert!(own.is_empty() && kept.others.len() <= KEPT_LISTS);
        }
        assert!(kept.take(2999).is_some() && kept.take(2999).is_none() && kept.take(12_999).is_some());
        own.put(7, ListEnds { head: end(0..2000), tail: end([1]) });
        own.move_to(&mut kept);
        let mut ends = kept.take(7).expect("it is kept");
        assert!(ends.end(false).elements.is_empty() && ends.end(false).bytes == 0);
        assert_eq!(ends.end(true).elements.len(), 1);
    }
}
